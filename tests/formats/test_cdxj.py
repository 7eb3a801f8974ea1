"""CDXJ lines: golden bytes, as cdxj-indexer writes them, and what is read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import MalformedInput
from holdfast.formats.cdx.cdxj import CdxjRow, cdxj_line, is_header, object_line, parse_cdxj
from holdfast.model import Capture, RecordId

CAPTURE = Capture(
    urlkey="com,example)/",
    timestamp="20200102030405",
    url="http://example.com/",
    mime="text/html",
    status="200",
    digest="sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    length=1043,
    offset=333,
    filename="a.warc.gz",
    type="response",
    size=12,
    contents="-",
    record=RecordId("202001", 7),
    collection="main",
)
LINE = (
    'com,example)/ 20200102030405 {"url": "http://example.com/", "mime": "text/html", "status": "200", '
    '"digest": "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "length": "1043", "offset": "333", "filename": "a.warc.gz"}'
)


def test_the_golden_line() -> None:
    assert cdxj_line(CAPTURE) == LINE
    assert parse_cdxj(LINE + "\n").fields["length"] == "1043"


def test_the_unknown_is_left_out_and_extra_fields_follow_in_their_order() -> None:
    extra = json.dumps({"charset": "utf-8", "method": "POST", "requestBody": "a=b", "size": 3})
    line = cdxj_line(CAPTURE._replace(mime="-", status="-", digest="-", extra=extra))
    assert list(parse_cdxj(line).fields) == ["url", "length", "offset", "filename", "method", "requestBody", "charset"]


def test_numbers_are_read_as_texts() -> None:
    row = parse_cdxj('com,example)/ 2020 {"length": 12, "status": 200, "live": true, "mime": null}')
    assert row == CdxjRow("com,example)/", "2020", {"length": "12", "status": "200", "live": "true"})


@given(st.dictionaries(st.text(), st.text()))
def test_any_texts_round_trip(fields: dict[str, str]) -> None:
    line = object_line("k", "2020", fields.items())
    assert line.isascii() and "\n" not in line
    assert parse_cdxj(line) == CdxjRow("k", "2020", fields)


@pytest.mark.parametrize("line", ["", "k", "k 2020", "k 2020 {", "k 2020 []", "k x {}", ' 2020 {"a": 1}'])
def test_a_line_that_does_not_fit_is_refused(line: str) -> None:
    with pytest.raises(MalformedInput, match="malformed CDXJ line"):
        parse_cdxj(line)


def test_headers_are_known() -> None:
    assert is_header('!meta 0 {"format": "cdxj-gzip-1.0"}') and not is_header(LINE)
