"""Queries: what cannot be meant is refused with a reason, what is padded is padded right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog import CaptureQuery, parse_query
from holdfast.catalog.timestamps import seconds
from holdfast.errors import MalformedQuery, UsageError


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "no URL given"),
        ({"url": "a", "match": "prefx"}, "unknown match 'prefx'; did you mean 'prefix'?"),
        ({"url": "a", "match": "range"}, "needs the end of the range"),
        ({"url": "a", "sort": "revers"}, "unknown sort 'revers'; did you mean 'reverse'?"),
        ({"url": "a", "filters": ("statu:200",)}, "unknown field 'statu'; did you mean 'status'?"),
        ({"url": "a", "filters": ("",)}, "empty filter"),
        ({"url": "a", "filters": ("~status:(",)}, r"bad regular expression in filter '~status:\('"),
        ({"url": "a", "collapse": ("digets",)}, "unknown field 'digets'; did you mean 'digest'?"),
        ({"url": "a", "collapse": ("timestamp:x",)}, "bad collapse 'timestamp:x'"),
        ({"url": "a", "fields": ("orig.lenght",)}, "did you mean 'orig.length'?"),
        ({"url": "a", "from_": "yesterday"}, "bad time 'yesterday' for 'from'"),
        ({"url": "a", "to": "202001020304050"}, "bad time"),
        ({"url": "a", "offset": -1}, "bad offset -1"),
        ({"url": "a", "page": -1}, "bad page -1"),
        ({"url": "a", "page_size": 0}, "bad page_size 0"),
        ({"url": "a", "closest": "2020"}, "go together"),
        ({"url": "a", "sort": "closest"}, "go together"),
        ({"url": "a/*", "sort": "closest", "closest": "2020"}, "needs a 'limit'"),
        ({"url": "a", "page": 1, "sort": "reverse"}, "pages are in ascending order"),
        ({"url": "a", "limit": -1, "sort": "reverse"}, "a negative 'limit'"),
        ({"url": "a", "resume_key": "x"}, "malformed resume key 'x'"),
        ({"url": "a", "resume_key": "WyJhIDEgYiIsICJ4Il0="}, "is of another query"),
        ({"url": "a", "resume_key": "WyJhIDEgYiJd", "limit": -1}, "a resume key goes with"),
    ],
)
def test_what_cannot_be_meant_is_refused(parts: dict[str, object], message: str) -> None:
    with pytest.raises(MalformedQuery, match=message):
        CaptureQuery(**parts)  # type: ignore[arg-type]


def test_the_name_of_a_collection_is_checked() -> None:
    with pytest.raises(UsageError, match="bad name"):
        CaptureQuery(url="a", collection="A b")


@pytest.mark.parametrize(
    ("url", "ranges"),
    [
        (
            "*.example.com",
            [
                (b"com,example)", b"com,example*"),
                (b"com,example,", b"com,example-"),
                (b"com,example:", b"com,example;"),
            ],
        ),
        ("example.com/*", [(b"com,example)/", b"com,example)0")]),
        ("http://example.com/a/*", [(b"com,example)/a/", b"com,example)/a0")]),
        ("http://example.com/a?*", [(b"com,example)/a?", b"com,example)/a@")]),
        ("http://example.com/a", [(b"com,example)/a 00000000000000", b"com,example)/a 99999999999999!")]),
    ],
)
def test_ranges(url: str, ranges: list[tuple[bytes, bytes]]) -> None:
    assert CaptureQuery(url=url).ranges() == ranges


def test_partial_times_are_padded() -> None:
    assert CaptureQuery(url="a", from_="2020", to="2020-02").times() == ("20200000000000", "20200299999999")
    assert CaptureQuery(url="a").times() is None


@given(st.from_regex(r"[0-9]{14}", fullmatch=True), st.from_regex(r"[0-9]{14}", fullmatch=True))
def test_times_that_never_were_keep_their_order(one: str, other: str) -> None:
    low, high = sorted((one, other))
    assert seconds(low) <= seconds(high)


def test_a_day_has_86400_seconds() -> None:
    assert seconds("20200301000000") - seconds("20200228000000") == 2 * 86400
    assert seconds("20200230000000") == seconds("20200229235959")


def test_parameters_of_cdx_servers() -> None:
    told = (
        "url=a matchType=host from=2020 to=2021 limit=-3 offset=1 filter=!=status:404 filter=mime:html fl=url,digest "
        "collapse=digest collapse=timestamp:4 pageSize=2 showDupeCount=true resolveRevisits=1 fastLatest=false "
        "output=json showResumeKey=true showNumPages="
    )
    query = parse_query([(name, value) for name, _, value in (part.partition("=") for part in told.split())], "main")
    assert query == CaptureQuery(
        url="a",
        match="host",
        from_="2020",
        to="2021",
        limit=-3,
        offset=1,
        filters=("!=status:404", "mime:html"),
        fields=("url", "digest"),
        collapse=("digest", "timestamp:4"),
        page_size=2,
        dupe_count=True,
        resolve_revisits=True,
        collection="main",
    )
    assert parse_query([("url", "a"), ("closest", "2020")]).sort == "closest"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("matchtype", "host", "unknown parameter 'matchtype'; did you mean 'matchType'?"),
        ("limit", "x", "bad number 'x' for 'limit'"),
        ("showDupeCount", "maybe", "bad value 'maybe' for 'showDupeCount'"),
    ],
)
def test_parameters_that_cannot_be_meant(name: str, value: str, message: str) -> None:
    with pytest.raises(MalformedQuery, match=message):
        parse_query([("url", "a"), (name, value)])
