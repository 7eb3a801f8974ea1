"""Answers equal those of a plain model: a sorted list and a few loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from captures import capture
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.catalog import CaptureQuery, Catalog, CatalogChange, Row, keys
from holdfast.catalog.timestamps import seconds
from holdfast.model import Capture, RecordId

URLS = (
    "http://a.com/",
    "http://a.com/x",
    "http://a.com/x/y",
    "http://a.com:81/x",
    "http://b.a.com/",
    "http://ab.com/é",
)
YEARS = ("2019", "2020", "2021")
COLLECTIONS = ("main", "other")
GETS = {
    "urlkey": lambda each: each.urlkey,
    "status": lambda each: each.status,
    "digest": lambda each: each.digest,
    "timestamp": lambda each: each.timestamp,
    "timestamp:4": lambda each: each.timestamp[:4],
    "timestamp:6": lambda each: each.timestamp[:6],
}
FILTERS = {
    "status:0": lambda each: "0" in each.status,
    "!status:40": lambda each: "40" not in each.status,
    "=status:200": lambda each: each.status == "200",
    "!=digest:A": lambda each: each.digest != "sha1:A",
    "~urlkey:com,a": lambda each: re.match("com,a", each.urlkey) is not None,
    "!~original:.*x$": lambda each: re.match(".*x$", each.url) is None,
}


@st.composite
def some_captures(draw: st.DrawFn) -> list[Capture]:
    times = st.builds("{}{:02d}01000000".format, st.sampled_from(YEARS), st.integers(1, 3))
    parts = st.tuples(
        st.sampled_from(URLS),
        times,
        st.sampled_from(("200", "404")),
        st.sampled_from(("sha1:A", "sha1:B")),
        st.sampled_from(COLLECTIONS),
    )
    return [
        capture(url, time, serial, status=status, digest=digest, collection=collection)
        for serial, (url, time, status, digest, collection) in enumerate(
            draw(st.lists(parts, min_size=draw(st.sampled_from((0, 20))), max_size=40))
        )
    ]


@st.composite
def some_query(draw: st.DrawFn) -> CaptureQuery:
    match = draw(st.sampled_from((None, None, "prefix", "host", "domain", "range", "all")))
    urls = ("*", "*", "*", "*.a.com", "a.com/*", "a.com/x*", *URLS[:3]) if match is None else URLS
    return CaptureQuery(
        url=draw(st.sampled_from(urls)),
        match=match,
        to_url=draw(st.sampled_from(URLS)),
        from_=draw(st.sampled_from(("", "", "", "2020", "202002", "2020-02-01"))),
        to=draw(st.sampled_from(("", "", "", "2020", "202102", "20200201000000"))),
        filters=tuple(draw(st.lists(st.sampled_from(list(FILTERS)), max_size=2))),
        collapse=tuple(draw(st.lists(st.sampled_from(list(GETS)), max_size=2))),
        collection=draw(st.sampled_from((None, None, *COLLECTIONS))),
        dupe_count=draw(st.booleans()),
        skip_count=draw(st.booleans()),
    )


def matches(each: Capture, query: CaptureQuery) -> bool:
    key = keys.encoded(each.urlkey)
    plain = query.plain()
    if not any(low <= key + b" " and (key < high or key + b" " < high) for low, high in plain_ranges(plain)):
        return False
    first, last = query.times() or ("0", "9")
    return (
        query.collection in (None, each.collection)
        and first <= each.timestamp <= last
        and all(FILTERS[text](each) for text in query.filters)
    )


def plain_ranges(query: CaptureQuery) -> list[tuple[bytes, bytes]]:
    """The rules of matching, spelled out for the few URLs of this test."""
    one = capture(query.url or "http://x/", "").urlkey.encode()
    host = one.partition(b")")[0].partition(b":")[0]
    match query.match:
        case "all":
            return [(b"", b"\xff")]
        case "exact":
            return [(one + b" ", one + b"!")]
        case "prefix":
            return [(one, one + b"\xff")]
        case "range":
            return [(one, capture(query.to_url, "").urlkey.encode())]
        case "host":
            return [(host + b")", host + b"*"), (host + b":", host + b";")]
        case _:
            return [(host + end, host + bytes([end[0] + 1])) for end in (b")", b",", b":")]


def model(captures: Iterable[Capture], query: CaptureQuery) -> list[Row]:
    """The plain answer, in ascending order."""
    rows = [Row(each) for each in sorted(captures, key=keys.place_of) if matches(each, query)]
    if query.dupe_count:
        seen: dict[tuple[str, str], int] = {}
        for index, row in enumerate(rows):
            token = row.capture.urlkey, row.capture.digest
            rows[index] = row._replace(dupe_count=seen.get(token, 0))
            seen[token] = seen.get(token, 0) + 1
    everything = rows
    for name in query.collapse:
        get = GETS[name]
        tokens = [get(row.capture) for row in rows]
        changed = [True, *(one != other for one, other in pairwise(tokens))]
        rows = [row for row, keep in zip(rows, changed, strict=False) if keep]
    if not (query.skip_count and query.collapse):
        return rows
    places = [everything.index(row) for row in rows]
    counted = []
    for begin, end in pairwise([*places, len(everything)]):
        skipped = everything[begin + 1 : end]
        last = skipped[-1].capture.timestamp if skipped else "-"
        counted.append(everything[begin]._replace(skip_count=len(skipped), end_timestamp=last))
    return counted


def bare(rows: Iterable[Row], query: CaptureQuery) -> list[Row]:
    """Backwards everything is counted anyway."""
    return [row if query.skip_count else row._replace(skip_count=0, end_timestamp="-") for row in rows]


def changed(query: CaptureQuery, **parts: object) -> CaptureQuery:
    told = {name: getattr(query, name) for name in CaptureQuery.__dataclass_fields__}
    return CaptureQuery(**(told | parts))  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterable[None]:
    """So that a handful of captures makes several pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "CAPTURES_PER_SPLIT", 3)
        yield


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """Opening one for each example would take most of the time."""
    with Catalog(tmp_path_factory.mktemp("shared") / "catalog", cache_bytes=1 << 20) as catalog:
        yield catalog


@settings(max_examples=150)
@given(captures=some_captures(), query=some_query(), data=st.data())
def test_answers_equal_those_of_the_model(
    shared: Catalog, captures: list[Capture], query: CaptureQuery, data: st.DataObject
) -> None:
    shared.add(CatalogChange(captures=captures))
    try:
        expected = model(captures, query)
        assert list(shared.search(query)) == expected
        check_orders(shared, query, expected, data.draw(st.integers(0, 5)), data.draw(st.integers(0, 3)))
        check_pages(shared, query, expected, data.draw(st.integers(1, 3)))
        check_resuming(shared, query, expected, data.draw(st.integers(1, 4)))
    finally:
        shared.add(CatalogChange(removed=[each.record for each in captures]))
        assert shared.totals() == ({}, {})


def check_orders(catalog: Catalog, query: CaptureQuery, expected: list[Row], limit: int, offset: int) -> None:
    def found(**parts: object) -> list[Row]:
        return bare(catalog.search(changed(query, **parts)), query)

    assert found(sort="reverse") == expected[::-1]
    assert found(sort="reverse", limit=limit, offset=offset) == expected[::-1][offset : offset + limit]
    assert found(limit=limit, offset=offset) == expected[offset : offset + limit]
    if limit:
        assert found(limit=-limit) == expected[-limit:]
    moment = seconds("20200202000000")
    near = sorted(expected, key=lambda row: abs(seconds(row.capture.timestamp) - moment))
    assert found(sort="closest", closest="20200202", limit=limit, offset=offset) == near[offset : offset + limit]


def check_pages(catalog: Catalog, query: CaptureQuery, expected: list[Row], size: int) -> None:
    count = catalog.num_pages(changed(query, page_size=size))
    pages = [list(catalog.search(changed(query, page=page, page_size=size))) for page in range(count)]
    assert [row for page in pages for row in page] == expected
    assert list(catalog.search(changed(query, page=count, page_size=size))) == []


def check_resuming(catalog: Catalog, query: CaptureQuery, expected: list[Row], limit: int) -> None:
    for sort in ("default", "reverse"):
        found: list[Row] = []
        key: str | None = ""
        while key is not None:
            answer = catalog.search(changed(query, sort=sort, limit=limit, resume_key=key))
            found += answer
            assert len(found) <= len(expected), "goes round"
            key = answer.resume_key
        assert bare(found, query) == (expected if sort == "default" else expected[::-1])


def test_pages_are_many_and_cheap_for_many_captures(catalog: Catalog) -> None:
    captures = [capture(f"http://example.com/{n:04d}", "20200101000000", n) for n in range(300)]
    catalog.add(CatalogChange(captures=captures))
    query = CaptureQuery(url="*", page_size=5)
    assert 5 < catalog.num_pages(query) < 40
    assert 0 < len(list(catalog.search(changed(query, page=1)))) < 150
    assert list(catalog.search(changed(query, page=1000))) == []


def test_a_resume_key_outlives_the_capture_it_was_made_for(catalog: Catalog) -> None:
    captures = [capture("http://a.com/", f"2020010{n}000000", n, status="200") for n in range(1, 6)]
    catalog.add(CatalogChange(captures=captures))
    query = CaptureQuery(url="http://a.com/", limit=2)
    answer = catalog.search(query)
    assert [row.capture.record.serial for row in answer] == [1, 2]
    catalog.add(CatalogChange(removed=[RecordId("202001", 2)]))
    rest = catalog.search(changed(query, resume_key=answer.resume_key, limit=None))
    assert [row.capture.record.serial for row in rest] == [3, 4, 5]
    assert rest.resume_key is None


def test_the_closest_of_one_second_are_in_order_of_their_records(catalog: Catalog) -> None:
    times = ("20200101000000", "20200101000000", "20200101000004", "20200101000004", "20200101000009")
    catalog.add(CatalogChange(captures=[capture("http://a.com/", time, n) for n, time in enumerate(times)]))
    query = CaptureQuery(url="http://a.com/", sort="closest", closest="20200101000002")
    assert [row.capture.record.serial for row in catalog.search(query)] == [0, 1, 2, 3, 4]


def test_what_is_collapsed_is_counted_the_same_in_both_directions(catalog: Catalog) -> None:
    captures = [capture("http://a.com/", f"2020010{n}000000", n, digest="sha1:A") for n in range(1, 5)]
    catalog.add(CatalogChange(captures=captures))
    for sort in ("default", "reverse"):
        query = CaptureQuery(url="http://a.com/", collapse=("status", "digest"), skip_count=True, sort=sort)
        assert list(catalog.search(query)) == [Row(captures[0], skip_count=3, end_timestamp="20200104000000")]
