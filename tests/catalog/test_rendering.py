"""Rows as text: golden lines for every output."""

from __future__ import annotations

import json

import pytest
from captures import capture

from holdfast.catalog import OUTPUTS, Row, render
from holdfast.catalog.query.render import counters
from holdfast.errors import MalformedQuery

FIRST = Row(capture("http://example.com/", "20200102030405", 1, digest="sha1:AB", extra='{"method": "POST"}'))
SECOND = Row(capture("http://example.com/é>", "20200203040506", 2, digest="-", status="-"))
ROWS = [FIRST, SECOND]


def lines(output: str, *fields: str, rows: list[Row] = ROWS, key: str | None = None) -> list[str]:
    return list(render(rows, fields, output, resume=(lambda: key)))


def test_cdxj() -> None:
    assert lines("cdxj") == [
        'com,example)/ 20200102030405 {"url": "http://example.com/", "mime": "text/html", "status": "200", '
        '"digest": "sha1:AB", "length": "1000", "offset": "1", "filename": "a.warc.gz", "method": "POST"}',
        f'{SECOND.capture.urlkey} 20200203040506 {{"url": "http://example.com/\\u00e9>", "mime": "text/html", '
        '"length": "1000", "offset": "2", "filename": "a.warc.gz"}',
    ]
    assert lines("cdxj", "urlkey", "status", rows=[SECOND]) == [
        f'{SECOND.capture.urlkey} 20200203040506 {{"status": "-"}}'
    ]
    told = lines("cdxj", rows=[FIRST._replace(original=SECOND.capture)])
    assert told[0].endswith('"orig.length": "1000", "orig.offset": "2", "orig.filename": "a.warc.gz"}')


def test_json_is_the_internet_archives() -> None:
    assert lines("json", rows=[FIRST]) == [
        '[["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"],',
        '["com,example)/", "20200102030405", "http://example.com/", "text/html", "200", "AB", "1000"]]',
    ]
    assert json.loads("".join(lines("json", "record", key="k"))) == [
        ["record"],
        ["202001-0000000001"],
        ["202001-0000000002"],
        [],
        ["k"],
    ]
    assert json.loads("".join(lines("json", "record", rows=[]))) == [["record"]]


def test_text_and_its_resume_key() -> None:
    assert lines("text", "timestamp", "statuscode", "digest", key="k") == [
        "20200102030405 200 AB",
        "20200203040506 - -",
        "",
        "k",
    ]


def test_cdx() -> None:
    assert lines("cdx", rows=[FIRST]) == [
        " CDX N b a m s k r M S V g",
        "com,example)/ 20200102030405 http://example.com/ text/html 200 AB - - 1000 1 a.warc.gz",
    ]


def test_link_is_a_timemap() -> None:
    assert list(render(ROWS, (), "link", prefix="http://h/main/")) == [
        '<http://example.com/>; rel="original",',
        '<http://h/main/20200102030405/http://example.com/>; rel="first memento"; '
        'datetime="Thu, 02 Jan 2020 03:04:05 GMT",',
        '<http://h/main/20200203040506/http://example.com/é%3E>; rel="last memento"; '
        'datetime="Mon, 03 Feb 2020 04:05:06 GMT"',
    ]
    assert 'rel="first last memento"' in lines("link", rows=[FIRST])[1]
    assert lines("link", rows=[]) == []


def test_counters() -> None:
    names = counters(dupe_count=True, skip_count=True, resolve_revisits=True)
    row = FIRST._replace(dupe_count=3, skip_count=4, end_timestamp="2021")
    assert lines("text", *names, rows=[row]) == ["- - - 3 4 2021"]
    assert counters(dupe_count=False, skip_count=False, resolve_revisits=False) == ()


def test_an_unknown_output_is_refused() -> None:
    with pytest.raises(MalformedQuery, match="unknown output 'jsn'; did you mean 'json'"):
        render([], (), "jsn")
    assert [list(render([], (), output)) is not None for output in OUTPUTS]
