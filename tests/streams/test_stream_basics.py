"""What a stream gives: each capture that was asked for, once, in order, with all that is known of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stream_world import DATED, body, captures, delivered, expected, fill, ordered, visit

from holdfast import Archive, CaptureQuery
from holdfast.errors import MalformedToken, UsageError
from holdfast.streams import StreamOptions

ORDERS = ("log", "url", *DATED)
ASKED = {
    "everything": StreamOptions(),
    "the latest": StreamOptions(which="latest"),
    "at a time": StreamOptions(at="2015"),
    "a batch": StreamOptions(batch="two"),
    "a collection": StreamOptions(collection="side"),
    "a URL": StreamOptions(captures=CaptureQuery(url="http://a.example/3")),
    "a prefix": StreamOptions(captures=CaptureQuery(url="http://b.example/*")),
    "a domain": StreamOptions(captures=CaptureQuery(url="*.example")),
    "times": StreamOptions(captures=CaptureQuery(url="*", from_="2012", to="201905")),
    "a filter": StreamOptions(captures=CaptureQuery(url="*", filters=("~url:.*[135]$",))),
    "the latest that pass": StreamOptions(captures=CaptureQuery(url="*", filters=("~timestamp:201",)), which="latest"),
    "the latest of a host": StreamOptions(captures=CaptureQuery(url="c.example", match="host"), which="latest"),
    "nothing": StreamOptions(captures=CaptureQuery(url="http://nowhere.example/")),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_just_what_was_asked_for_in_order(archive: Archive, asked: StreamOptions, order: str) -> None:
    fill(archive)
    options = replace(ordered(asked, order), batch_size=7)
    found = delivered(archive, options)
    assert found == expected(archive, options)
    assert bool(found) == (asked is not ASKED["nothing"])


@pytest.mark.parametrize("order", ORDERS)
def test_an_empty_archive(archive: Archive, order: str) -> None:
    stream = archive.stream(ordered(StreamOptions(), order))
    assert list(stream) == []
    fill(archive, 3)
    assert list(archive.stream(ordered(StreamOptions(token=stream.token), order))) == []


def test_a_page_tells_what_the_catalog_and_the_record_tell(archive: Archive) -> None:
    fill(archive)
    for order in ORDERS:
        for page in archive.stream(ordered(StreamOptions(), order)):
            capture, stored = archive.catalog.capture_of(page.record), archive.records.read(page.record)
            assert capture is not None
            assert page.capture == capture
            assert (page.url, page.timestamp, page.mime) == (capture.url, capture.timestamp, capture.mime)
            assert (page.status, page.size, page.digest) == (200, capture.size, capture.digest)
            assert page.payload == page.content == bytes(page.buffer) == stored.payload()
            assert stored.http_head is not None
            assert page.headers.items() == stored.http_head.headers.items()
            number = int(page.title)
            assert page.text.split() == [f"word{number}"] * (number % 40)


def test_the_snapshot_is_that_of_the_beginning(archive: Archive) -> None:
    fill(archive, 20)
    before = {capture.record for capture in captures(archive)}
    streams = {order: archive.stream(ordered(StreamOptions(batch_size=3), order)) for order in ORDERS}
    fill(archive, 20, batches=("one", "new"), first=40)
    for stream in streams.values():
        assert {page.record for page in stream} == before


@pytest.mark.parametrize("order", ORDERS)
def test_a_token_goes_on_behind_any_page(archive: Archive, order: str) -> None:
    fill(archive, 40)
    options = ordered(StreamOptions(batch_size=6), order)
    whole = delivered(archive, options)
    for stop in range(0, 41, 3):
        first = archive.stream(options)
        begun = [page.record for _, page in zip(range(stop), first, strict=False)]
        rest = delivered(archive, replace(options, token=first.token))
        assert begun + rest == whole, stop
        assert first.delivered == stop


@pytest.mark.parametrize("order", DATED)
@pytest.mark.parametrize("size", [1, 2, 5, 50])
def test_more_of_one_second_than_are_looked_at(archive: Archive, order: str, size: int) -> None:
    for day in (1, 2, 3):
        archive.add([visit(f"http://a.example/{n}", 9 * n + day, f"2020010{day}000000") for n in range(12)])
    for which in ("all", "latest"):
        options = ordered(StreamOptions(batch_size=size, which=which), order)
        whole = expected(archive, options)
        assert delivered(archive, options) == whole
        token, found = "", []
        while some := next(archive.stream(replace(options, token=token)).batches(), None):
            found += [page.record for page in some]
            token = some.token
        assert found == whole


def test_orders_that_have_one_direction() -> None:
    for order in ("log", "url"):
        with pytest.raises(UsageError, match="cannot be reversed"):
            StreamOptions(order=order, reverse=True)


def test_a_token_is_of_one_direction(archive: Archive) -> None:
    fill(archive, 10)
    stream = archive.stream(StreamOptions(order="date", batch_size=3))
    next(iter(stream))
    with pytest.raises(MalformedToken, match="other options"):
        archive.stream(StreamOptions(order="date", reverse=True, token=stream.token))


def test_batches_and_their_tokens(archive: Archive) -> None:
    fill(archive, 40)
    options = StreamOptions(order="url", batch_size=6)
    whole = delivered(archive, options)
    seen = []
    for batch in archive.stream(options).batches():
        assert 0 < len(batch) <= 6
        seen += [page.record for page in batch]
        assert seen + delivered(archive, replace(options, token=batch.token)) == whole
    assert seen == whole
    counted = [len(batch) for batch in archive.stream(options).batches(8)]
    assert counted == [6, 2]


@pytest.mark.parametrize("order", ORDERS)
def test_shards_are_parts_of_the_whole(archive: Archive, order: str) -> None:
    archive.add([visit(f"http://a.example/{n}", n, "20200101000000") for n in range(300)])
    options = ordered(StreamOptions(), order)
    parts = [delivered(archive, replace(options, shard=(index, 3))) for index in range(3)]
    assert all(parts)
    assert sorted(record for part in parts for record in part) == sorted(delivered(archive, options))
    position = {record: index for index, record in enumerate(delivered(archive, options))}
    assert all([position[record] for record in part] == sorted(position[record] for record in part) for part in parts)


def test_iterations_go_on_where_the_last_one_was_left(archive: Archive) -> None:
    fill(archive, 20)
    stream = archive.stream(StreamOptions(batch_size=6))
    first = next(iter(stream)).record
    second = next(iter(stream.batches())).pages
    assert [first, *(page.record for page in second), *(page.record for page in stream)] == delivered(
        archive, StreamOptions()
    )
    assert body(0)
