"""HTTP heads, and blocks split into literals and payload."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.http import Unframer, parse_head, split

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_response() -> None:
    data = b"HTTP/1.1 404 Not Found\r\nA: 1\r\nB: x\r\n y\r\nA: 2\r\n\r\nbody"
    head = parse_head(data)
    assert head is not None
    assert (head.kind, head.version, head.status, head.reason) == ("response", "1.1", 404, "Not Found")
    assert head.headers.get_all("a") == ["1", "2"]
    assert head.headers["b"] == "x y"
    assert data[head.size :] == b"body"
    assert not head.chunked


def test_a_request() -> None:
    head = parse_head(b"POST /a b HTTP/1.0\r\nHost: e.com\r\n\r\n")
    assert head is not None
    assert (head.kind, head.method, head.target, head.version) == ("request", "POST", "/a b", "1.0")
    assert head.headers["host"] == "e.com"


@pytest.mark.parametrize(
    ("data", "status", "reason", "size"),
    [
        (b"HTTP/1.1 200\r\n\r\nx", 200, "", 16),
        (b"HTTP/1.1 200 OK\nA: b\n\nx", 200, "OK", 22),
        (b"HTTP/2 301 \r\nA: b\n\r\nx", 301, "", 20),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", 200, "OK", 23),
        (b"HTTP/1.1 200 OK\r\n\r\n", 200, "OK", 19),
        ("HTTP/1.1 200 gut für alle\r\n\r\n".encode(), 200, "gut für alle", 30),
    ],
)
def test_tolerated(data: bytes, status: int, reason: str, size: int) -> None:
    head = parse_head(data)
    assert head is not None
    assert (head.status, head.reason, head.size) == (status, reason, size)


@pytest.mark.parametrize("data", [b"", b"<html>", b"HTTP", b"HTTP/1.1 abc", b"\x89PNG\r\n\r\n", b"GET /"])
def test_what_is_no_message(data: bytes) -> None:
    assert parse_head(data) is None
    assert split(data) == (b"", (0, len(data)), data)


def test_a_plain_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
    assert split(head + b"body") == (head, (len(head), 4), b"body")
    assert split(head) == (head, (len(head), 0), b"")


def test_a_chunked_body() -> None:
    body = b"4\r\nWiki\r\n6;name=x\r\npedia \r\n0\r\nTrailer: 1\r\n\r\n"
    literals, layout, payload = split(CHUNKED + body)
    assert payload == b"Wikipedia "
    assert layout == (len(CHUNKED) + 3, 4, 2 + 10, 6, 2 + 3 + 12 + 2)
    assert literals == CHUNKED + b"4\r\n" + b"\r\n6;name=x\r\n" + b"\r\n0\r\nTrailer: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (b"<html>not chunked</html>", b"<html>not chunked</html>"),
        (b"4\r\nWikiNO CRLF", b"WikiNO CRLF"),
        (b"4\r\nWiki\r\nhello\r\n", b"Wikihello\r\n"),
        (b"4\r\nWi", b"Wi"),
        (b"4\nWiki\n0\n\n", b"Wiki"),
        (b"0\r\n\r\nrest", b""),
        (b"", b""),
        (b"fffffffffffffffff\r\n", b"fffffffffffffffff\r\n"),
    ],
)
def test_bodies_that_are_not_what_they_say(body: bytes, payload: bytes) -> None:
    assert split(CHUNKED + body)[2] == payload


chunks = st.lists(st.binary(min_size=1, max_size=40), max_size=5).map(
    lambda parts: b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
)
blocks = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda body: CHUNKED + body, st.one_of(chunks, st.binary(max_size=100))),
    st.builds(
        lambda body, at: CHUNKED + body[: int(at * len(body))] + b"\0" + body[int(at * len(body)) :],
        chunks,
        st.floats(0, 1),
    ),
)


@given(blocks, st.lists(st.integers(1, 30), max_size=40))
def test_no_byte_is_lost_in_whatever_pieces(block: bytes, sizes: list[int]) -> None:
    literals, layout, payload = split(block)
    unframer = Unframer(parse_head(block))
    runs, at = [], 0
    for size in [*sizes, len(block)]:
        runs += unframer.feed(block[at : at + size])
        at += size
    runs += unframer.finish()
    assert b"".join(run for _, run in runs) == block
    assert b"".join(run for is_payload, run in runs if is_payload) == payload
    assert sum(layout) == len(block)
    assert sum(layout[::2]) == len(literals)
    assert sum(layout[1::2]) == len(payload)
    rebuilt, taken = b"", [0, 0]
    for turn, size in enumerate(layout):
        source, kind = (literals, payload)[turn % 2], turn % 2
        rebuilt += source[taken[kind] : taken[kind] + size]
        taken[kind] += size
    assert rebuilt == block
