"""Patterns of heads: what one accepts, the parser and the rules accept with the same result (I3, N3)."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_builders import CODINGS, digest, page, warc_record, whole

from holdfast.formats.io.open import open_records
from holdfast.formats.record import Finding
from holdfast.formats.warc.head_pattern import HeadPatterns

BLOCK = page(b"hello")
FIELDS = (
    "WARC-IP-Address: 192.0.2.1",
    f"WARC-Block-Digest: {digest(BLOCK)}",
    f"WARC-Payload-Digest: {digest(b'hello')}",
    "WARC-Concurrent-To: <urn:uuid:1>",
    "WARC-Concurrent-To: <urn:uuid:2>",
    "WARC-Refers-To-Date: 2020-01-02T03:04:05Z",
    "X-Other: any text = value",
)
USUAL = warc_record(BLOCK, *FIELDS)
HEAD = USUAL[: USUAL.index(b"\r\n\r\n")]
ODD = (
    (b"192.0.2.1", b"192.0.2.300"),
    (b"192.0.2.1", b"2001:db8::1"),
    (b"2020-01-02", b"2020-02-30"),
    (b"2020-01-02T03:04:05Z", b"2020-01-02"),
    (b"<urn:uuid:1>", b"urn:uuid:1"),
    (b"http://example.com/", b"http://example.com/\xc3\xa4"),
    (b"http://example.com/", b"http://example.com/=?utf-8?Q?a"),
    (b"http://example.com/", b"<http://example.com/x>"),
    (b"any text", b"any  text "),
    (b"any text", b""),
    (b"any text", b"\r\n folded"),
    (b"any text", b"WARC/1.0\r\nX"),
    (b"X-Other", b"WARC-Truncated"),
    (b"X-Other", b"Content-Length"),
    (b"X-Other", b"WARC-Segment-Number"),
    (b"msgtype=response", b"msgtype=request"),
    (b"sha1:", b"sha1:A"),
    (b"WARC-Type: response", b"WARC-Type: monkey"),
    (b"WARC/1.1", b"WARC/1.0"),
    (b"WARC/1.1", b"warc/1.1"),
    (b"WARC-Type: ", b"WARC-Type:"),
    (b"\r\nX-Other", b"\nX-Other"),
)


def read(file: bytes) -> tuple[list[Any], list[Finding]]:
    findings: list[Finding] = []
    seen = []
    for record in open_records(io.BytesIO(file), report=findings.append):
        text = whole(record)
        about = record.format, record.type, record.url, record.timestamp, record.ip, record.has_http, record.truncated
        fields = record.headers.items(), record.headers.first(), record.headers.get_all("warc-concurrent-to")
        seen.append((text, about, fields, record.offset, record.length, record.content_length, record.findings))
    return seen, findings


def both_ways(file: bytes) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        quick = read(file)
        patch.setattr(HeadPatterns, "record", lambda *_: None)
        assert read(file) == quick
    return quick[0]


@pytest.mark.parametrize("coding", CODINGS)
def test_heads_of_a_known_shape(coding: str) -> None:
    hits: list[object] = []
    usual = HeadPatterns.record
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeadPatterns, "record", lambda *given: hits.append(found := usual(*given)) or found)
        read(b"".join([CODINGS[coding](USUAL)] * 4))
    assert [found is not None for found in hits] == [False, True, True, True]
    assert len(both_ways(b"".join([CODINGS[coding](USUAL)] * 4))) == 4


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(("old", "new"), ODD, ids=str)
def test_heads_that_are_almost_of_a_known_shape(coding: str, old: bytes, new: bytes) -> None:
    odd = USUAL.replace(old, new)
    assert odd != USUAL
    both_ways(b"".join(map(CODINGS[coding], [USUAL, USUAL, odd, USUAL, odd, odd, USUAL])))


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(
    "odd",
    [
        USUAL[:-4] + b"\n\n",
        USUAL + b"\r\n",
        USUAL[:-10],
        USUAL.replace(b"hello", b"hallo"),
        USUAL + USUAL,
        USUAL.replace(b"hello", b"hello, world"),
    ],
)
def test_blocks_that_are_not_as_the_head_says(coding: str, odd: bytes) -> None:
    both_ways(b"".join(map(CODINGS[coding], [USUAL, USUAL, odd, USUAL])))


@given(
    st.sampled_from(sorted(CODINGS)),
    st.lists(st.tuples(st.integers(0, len(HEAD) - 1), st.binary(max_size=3), st.integers(0, 3)), max_size=3),
)
def test_heads_with_any_bytes_changed(coding: str, changes: list[tuple[int, bytes, int]]) -> None:
    odd = bytearray(USUAL)
    for at, new, gone in changes:
        odd[at : at + gone] = new
    both_ways(b"".join(map(CODINGS[coding], [USUAL, bytes(odd), USUAL])))
