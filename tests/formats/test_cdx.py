"""CDX lines: golden bytes for 11 and 9 fields, and what is read back."""

from __future__ import annotations

import pytest

from holdfast.errors import MalformedInput
from holdfast.formats.cdx.cdx import CDX9, CDX11, CdxLayout, CdxRow, cdx_line
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
LINE11 = (
    "com,example)/ 20200102030405 http://example.com/ text/html 200 3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ - - 1043 333 "
    "a.warc.gz"
)
LINE9 = (
    "com,example)/ 20200102030405 http://example.com/ text/html 200 3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ - 333 a.warc.gz"
)


def test_a_golden_line() -> None:
    assert cdx_line(CAPTURE) == LINE11


def test_rows_are_read_by_the_header() -> None:
    row = CdxRow(*CAPTURE[:5], "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "-", "-", 1043, 333, "a.warc.gz")
    assert CdxLayout(CDX11 + "\n").row(LINE11 + "\n") == row
    assert CdxLayout(CDX9).row(LINE9) == row._replace(length=-1)
    assert CdxLayout(" CDX b N a X").row("2020 com,example)/ http://example.com/ ?") == CdxRow(
        "com,example)/", "2020", "http://example.com/"
    )
    assert CdxLayout.of(LINE11) is None


def test_a_redirect_is_told_and_a_space_does_not_split_a_field() -> None:
    capture = CAPTURE._replace(url="http://e/a b", filename="a b.warc", extra='{"redirect": "http://x/y z"}')
    row = CdxLayout(CDX11).row(cdx_line(capture))
    assert (row.url, row.redirect, row.filename) == ("http://e/a%20b", "http://x/y%20z", "a%20b.warc")


def test_other_digests_keep_their_names() -> None:
    assert CdxLayout(CDX11).row(cdx_line(CAPTURE._replace(digest="sha256:ab"))).digest == "sha256:ab"
    assert CdxLayout(CDX11).row(cdx_line(CAPTURE._replace(digest="-"))).digest == "-"


@pytest.mark.parametrize("line", ["", "a b c", LINE11 + " more", LINE11.replace("333", "33x")])
def test_a_line_that_does_not_fit_is_refused(line: str) -> None:
    with pytest.raises(MalformedInput, match="malformed CDX line"):
        CdxLayout(CDX11).row(line)


@pytest.mark.parametrize("header", ["", "CDX", " CDX a m s", "N b a"])
def test_a_header_that_names_no_key_time_and_url_is_refused(header: str) -> None:
    with pytest.raises(MalformedInput, match="not the header of a CDX file"):
        CdxLayout(header)
