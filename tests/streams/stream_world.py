"""Small archives to stream from, and what a stream of them must give, told by the plainest means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from holdfast import Archive, Exchange, Plan, RecordSettings, StoreSettings
from holdfast.archive.ingest.exchange import page
from holdfast.catalog import CaptureQuery
from holdfast.formats.dates import mail_date
from holdfast.model import Capture, RecordId
from holdfast.streams import StreamOptions

STORE = StoreSettings(segment_bytes_max=16_384, keydir_cache_bytes=1 << 20, train_after=0)
RECORDS = RecordSettings(
    batch="b",
    catalog_cache_bytes=1 << 20,
)
PLAN = Plan(store=STORE, records=RECORDS)
EVERYTHING = CaptureQuery(url="*")
DATED = ("date", "modified", "date reversed", "modified reversed")
ABOUT = ("metadata", "conversion")


def body(number: int) -> bytes:
    return b"<title>%d</title><p>%s</p>" % (number, b"word%d " % number * (number % 40))


def visit(url: str, number: int, timestamp: str) -> Exchange:
    """A page as it was at a time. Of three, two say when they were modified, many of them on the same day."""
    if number % 3 == 0:
        return page(url, body(number), timestamp=timestamp)
    modified = mail_date(f"20{number % 9:02d}0{1 + number % 2}03040506")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLast-Modified: {modified}\r\n\r\n"
    return Exchange(url=url, head=head.encode(), body=body(number), timestamp=timestamp)


def fill(archive: Archive, count: int = 60, *, batches: Sequence[str] = ("one", "two"), first: int = 0) -> None:
    """Captures of a few URLs at many times, in several batches and collections; some contents are the same."""
    for number in range(first, first + count):
        url = f"http://{'abc'[number % 3]}.example/{number % 7}"
        timestamp = f"20{10 + number % 13:02d}0{1 + number % 9}01{number % 24:02d}0000"
        batch, collection = batches[number % len(batches)], ("main", "side")[number % 5 == 0]
        archive.add([visit(url, number % 50, timestamp)], batch=batch, collection=collection)


def captures(archive: Archive, query: CaptureQuery = EVERYTHING) -> list[Capture]:
    return [row.capture for row in archive.search(query)]


def expected(archive: Archive, options: StreamOptions) -> list[RecordId]:
    """The records that a stream with these options must give now, in their order: by looking at every capture."""
    chosen = captures(archive, options.captures or EVERYTHING)
    if options.of_collection is not None:
        chosen = [each for each in chosen if each.collection == options.of_collection]
    if options.batch is not None:
        chosen = [each for each in chosen if each.record.batch == options.batch]
    if options.until:
        chosen = [each for each in chosen if each.timestamp <= options.until]
    if options.is_latest:
        chosen = list(newest(chosen))
    keys = {
        "log": lambda each: each.record,
        "url": lambda each: (each.urlkey, each.timestamp, each.record),
        "date": lambda each: (_way(each.timestamp, options), each.record),
        "modified": lambda each: (
            (True, _way(each.timestamp, options), each.record)
            if each.modified == "-"
            else (False, _way(each.modified, options), each.record)
        ),
    }
    return [each.record for each in sorted(chosen, key=keys[options.order])]  # type: ignore[arg-type]


def _way(time: str, options: StreamOptions) -> int:
    return -int(time) if options.reverse else int(time)


def newest(captures: Iterable[Capture]) -> Iterable[Capture]:
    """Of each URL the last, and rather the page itself than what tells of it."""
    best: dict[str, Capture] = {}
    for each in sorted(captures, key=lambda each: (each.type not in ABOUT, each.timestamp, str(each.record))):
        best[each.urlkey] = each
    return best.values()


def ordered(options: StreamOptions, order: str) -> StreamOptions:
    """In an order, such as 'date' or 'date reversed'."""
    name, _, way = order.partition(" ")
    return replace(options, order=name, reverse=bool(way))


def delivered(archive: Archive, options: StreamOptions) -> list[RecordId]:
    return [page.record for page in archive.stream(options)]
