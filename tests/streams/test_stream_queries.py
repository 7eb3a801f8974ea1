"""Streams of what a query finds, and in the order of ranks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from stream_world import DATED, captures, delivered, expected, fill, ordered

import holdfast
from holdfast import Archive, CaptureQuery, RemovalOptions, Selection
from holdfast.catalog.keys import encoded, page_number
from holdfast.errors import IndexNotFound, MalformedQuery, MalformedToken, NotFound
from holdfast.model import RecordId
from holdfast.streams import StreamOptions
from holdfast.streams.token import decode

ORDERS = ("log", "url", "rank", "rank reversed", *DATED)


@pytest.fixture
def indexed(archive: Archive) -> Archive:
    fill(archive, 40)
    links = b"".join(b'<a href="http://%s.example/%d">x</a>' % (host, n) for host in (b"a", b"b") for n in range(3))
    from holdfast.archive.ingest.exchange import page

    archive.add([page("http://hub.example/", links, timestamp="20200101000000")], batch="one")
    archive.index.update()
    archive.index.rank()
    return archive


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("query", ["word7", "site:a.example", "word3 or word11", "-word4 type:html"])
def test_just_what_the_query_finds(indexed: Archive, query: str, order: str) -> None:
    options = ordered(StreamOptions(query=query, batch_size=5), order)
    wanted = {hit.record for hit in indexed.query(query).hits}
    everything = delivered(indexed, ordered(StreamOptions(), order))
    found = delivered(indexed, options)
    assert found == [record for record in everything if record in found]
    assert wanted <= set(found)
    assert 0 < len(found) < len(everything)
    latest = delivered(indexed, replace(options, which="latest"))
    keys = [capture.urlkey for capture in captures(indexed) if capture.record in set(latest)]
    assert len(keys) == len(set(keys)) == len(latest)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_indexed_later_does_not_come_to_light(indexed: Archive, order: str) -> None:
    options = ordered(StreamOptions(query="site:a.example", batch_size=3), order)
    whole = delivered(indexed, options)
    fill(indexed, 20, first=40)  # not indexed yet
    stream = indexed.stream(options)
    begun = [page.record for _, page in zip(range(4), stream, strict=False)]
    indexed.index.update()
    indexed.index.build()
    assert begun + delivered(indexed, replace(options, token=stream.token)) == whole
    assert len(delivered(indexed, options)) > len(whole)


def test_queries_that_cannot_be_asked(archive: Archive) -> None:
    fill(archive, 3)
    with pytest.raises(IndexNotFound):
        archive.stream(StreamOptions(query="word"))
    with pytest.raises(MalformedQuery):
        StreamOptions(query="site:")
    with pytest.raises(IndexNotFound, match="index rank"):
        archive.stream(StreamOptions(order="rank"))


def test_the_same_query_said_otherwise_is_the_same_stream(indexed: Archive) -> None:
    stream = indexed.stream(StreamOptions(query="site:a.example   word7"))
    assert indexed.stream(StreamOptions(query="site:A.example word7", token=stream.token)).token
    with pytest.raises(MalformedToken):
        indexed.stream(StreamOptions(query="site:b.example word7", token=stream.token))


def by_rank(archive: Archive, *, reverse: bool = False) -> list[RecordId]:
    """What order rank must give: ranked pages by falling rank and page number, others by URL; and the other way."""
    ranks = archive.index.ranks()
    assert ranks is not None
    rank = dict(zip(ranks.pages.tolist(), ranks.rank.tolist(), strict=True))

    def key(capture):  # type: ignore[no-untyped-def]
        number = page_number(encoded(capture.urlkey))
        order = (0, -rank[number], number) if number in rank else (1, 0.0, 0)
        if reverse:
            order = (-order[0], -order[1], -order[2])
        return (*order, capture.urlkey, capture.timestamp, capture.record)

    return [capture.record for capture in sorted(captures(archive), key=key)]


@pytest.mark.parametrize("reverse", [False, True], ids=["the highest first", "the lowest first"])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_pages_come_by_rank(indexed: Archive, reverse: bool, size: int) -> None:
    options = StreamOptions(order="rank", reverse=reverse, batch_size=size)
    fill(indexed, 10, first=40)
    indexed.add([_new("http://new.example/"), _new("http://newer.example/")])
    whole = by_rank(indexed, reverse=reverse)
    assert delivered(indexed, options) == whole
    assert sorted(whole) == expected(indexed, StreamOptions())
    for stop in range(0, len(whole), 5):
        stream = indexed.stream(options)
        begun = [page.record for _, page in zip(range(stop), stream, strict=False)]
        assert begun + delivered(indexed, replace(options, token=stream.token)) == whole


def _new(url: str):  # type: ignore[no-untyped-def]
    from holdfast.archive.ingest.exchange import page

    return page(url, b"new", timestamp="20210101000000")


def test_a_stream_goes_on_with_the_ranks_it_began_with(indexed: Archive) -> None:
    options = StreamOptions(order="rank", batch_size=4)
    whole = by_rank(indexed)
    stream = indexed.stream(options)
    begun = [page.record for _, page in zip(range(9), stream, strict=False)]
    token = stream.token
    fill(indexed, 20, first=40)
    indexed.index.update()
    indexed.index.rank(force=True)
    gone = Selection(CaptureQuery(url="http://c.example/*"))
    indexed.remove(gone, RemovalOptions("asked"))
    there = {capture.record for capture in captures(indexed)}
    rest = delivered(indexed, replace(options, token=token))
    assert begun + rest == whole[:9] + [record for record in whole[9:] if record in there]
    for _ in range(5):
        indexed.index.rank(force=True)
    with pytest.raises(NotFound, match="begin a new stream"):
        indexed.stream(replace(options, token=token))


def test_a_token_keeps_the_batches_that_links_came_from(archive: Archive) -> None:
    from holdfast.archive.ingest.exchange import page

    links = b"".join(b'<a href="http://%s.example/">x</a>' % name for name in (b"b", b"c", b"d"))
    archive.add([page("http://a.example/", links, timestamp="20200101000000")], batch="first")
    archive.add([_new(f"http://{name}.example/") for name in "bcd"], batch="second")
    archive.index.update()
    options = StreamOptions(query="linked-from:a.example/")
    whole = delivered(archive, options)
    assert len(whole) == 3
    stream = archive.stream(options)
    begun = [page.record for batch in stream.batches(1) for page in batch]
    assert begun + delivered(archive, replace(options, token=stream.token)) == whole


def test_an_index_that_reaches_less_far_skips_nothing(indexed: Archive, tmp_path: Path) -> None:
    shutil.copytree(indexed.index.directory, tmp_path / "saved")
    fill(indexed, 20, first=40)
    indexed.index.update()
    options = StreamOptions(query="type:html", batch_size=3)
    whole = delivered(indexed, options)
    stream = indexed.stream(options)
    begun = [page.record for _, page in zip(range(4), stream, strict=False)]
    behind = replace(options, token=stream.token)
    indexed.close()
    shutil.rmtree(indexed.index.directory)
    shutil.copytree(tmp_path / "saved", indexed.index.directory)
    with holdfast.open(indexed.path) as opened:
        with pytest.raises(IndexNotFound, match=r"reaches less far .* up to .* run 'holdfast index update'"):
            opened.stream(behind)
        opened.index.update()
        assert begun + delivered(opened, behind) == whole


@pytest.mark.parametrize(
    "options", [StreamOptions(order="rank"), StreamOptions(query="rank>0.1")], ids=["order", "query"]
)
def test_ranks_of_the_same_number_may_be_others(indexed: Archive, options: StreamOptions) -> None:
    whole = delivered(indexed, options)
    stream = indexed.stream(options)
    begun = [page.record for _, page in zip(range(4), stream, strict=False)]
    behind = replace(options, token=stream.token)
    _make_index_anew(indexed)
    assert begun + delivered(indexed, behind) == whole  # they came out the same
    indexed.add([_new("http://new.example/")])
    _make_index_anew(indexed)
    assert indexed.index.ranks().head.generation == decode(behind.token).ranks == 1  # type: ignore[union-attr]
    with pytest.raises(NotFound, match="rebuilt since; begin a new stream"):
        indexed.stream(behind)


def test_a_query_without_ranks_goes_on_when_they_are_others(indexed: Archive) -> None:
    options = StreamOptions(query="type:html")
    whole = delivered(indexed, options)
    stream = indexed.stream(options)
    begun = [page.record for _, page in zip(range(4), stream, strict=False)]
    for _ in range(5):
        indexed.index.rank(force=True)
    assert decode(stream.token).ranks == 0
    assert begun + delivered(indexed, replace(options, token=stream.token)) == whole


def _make_index_anew(archive: Archive) -> None:
    shutil.rmtree(archive.index.directory)
    archive.index.update()
    archive.index.rank()
