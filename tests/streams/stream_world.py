"""Small archives to stream from, and what a stream of them must give, told by the plainest means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast import Archive, Exchange, Plan, RecordSettings, StoreSettings
from holdfast.archive.exchange import page
from holdfast.catalog import CaptureQuery
from holdfast.model import Capture, RecordId
from holdfast.streams import StreamOptions

STORE = StoreSettings(segment_bytes_max=16_384, keydir_cache_bytes=1 << 20, train_after=0, dictionary_bytes=1024)
RECORDS = RecordSettings(
    batch="b",
    piece_bytes_max=4096,
    inline_bytes_max=64,
    frame_bytes=1024,
    file_bytes_max=8192,
    catalog_cache_bytes=1 << 20,
)
PLAN = Plan(store=STORE, records=RECORDS)
EVERYTHING = CaptureQuery(url="*")
ABOUT = ("metadata", "conversion")


def body(number: int) -> bytes:
    return b"<title>%d</title><p>%s</p>" % (number, b"word%d " % number * (number % 40))


def visit(url: str, number: int, timestamp: str) -> Exchange:
    """A page as it was at a time."""
    return page(url, body(number), timestamp=timestamp)


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
        "date": lambda each: (each.timestamp, each.record),
    }
    return [each.record for each in sorted(chosen, key=keys[options.order])]  # type: ignore[arg-type]


def newest(captures: Iterable[Capture]) -> Iterable[Capture]:
    """Of each URL the last, and rather the page itself than what tells of it."""
    best: dict[str, Capture] = {}
    for each in sorted(captures, key=lambda each: (each.type not in ABOUT, each.timestamp, str(each.record))):
        best[each.urlkey] = each
    return best.values()


def delivered(archive: Archive, options: StreamOptions) -> list[RecordId]:
    return [page.record for page in archive.stream(options)]
