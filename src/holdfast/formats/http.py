"""HTTP messages as archives keep them: head, framing, payload and content encodings.

    HTTP/1.1 200 OK CRLF name: value CRLF ... CRLF     literal
    1a2b CRLF                                          literal     Transfer-Encoding: chunked only
    chunk                                              payload
    CRLF 0 CRLF trailers CRLF                          literal

A block is split into literals and payload without losing a byte: all runs together are the block again. Many servers
and tools say 'chunked' of bodies that are not: from the first wrong line on, everything is payload.

`decoded_content` undoes content encodings (gzip, deflate, br, zstd), never beyond the given limit.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.errors import TooLarge
from holdfast.formats.record import Headers

HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
HEAD_BYTES_MAX = 1024 * 1024
CHUNK_LINE_BYTES_MAX = 4096
TRAILER_BYTES_MAX = 64 * 1024

# Servers also say 'ICY 200 OK', 'HTTP 200', 'HTTPX/1.1 200 OK': readers of archives take what follows for the status.
_RESPONSE = re.compile(
    rb"(?:[A-Za-z]{2,16}/(\d{1,2}(?:\.\d{1,2})?)|HTTP|ICY)[ \t]+(\d{3})(?:[ \t]+([^\r\n]*))?[ \t]*\r*(?:\n|$)",
    re.IGNORECASE,
)
_REQUEST = re.compile(rb"([A-Za-z][A-Za-z-]*) ([^\r\n]*?)(?: HTTP/(\d(?:\.\d)?))[ \t]*\r*(?:\n|$)")
_MESSAGE = re.compile(
    rb"(?:[A-Za-z]{2,16}/\d{1,2}(?:\.\d{1,2})?|HTTP|ICY)[ \t]+\d{3}[ \t\r\n]"
    rb"|(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|TRACE|CONNECT|PROPFIND) \S",
    re.IGNORECASE,
)
_HEAD_END = re.compile(rb"\n\r{0,3}\n")
_CHUNKED = re.compile(rb"\ntransfer-encoding[ \t]*:[^\n]*chunked", re.IGNORECASE)
_CHUNK_LINE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_CHUNK_END = re.compile(rb"\r?\n")
_TRAILER_END = re.compile(rb"(?:[^\r\n:]+:[^\n]*\n)*\r?\n")

Run = tuple[bool, bytes]  # whether it is payload, and its bytes


class HttpHead(NamedTuple):
    """The start line and the fields of a message. `size` bytes of the block, the blank line among them."""

    kind: str  # 'request' or 'response'
    version: str
    status: int  # 0 for a request
    reason: str  # '' for a request
    method: str  # '' for a response
    target: str  # '' for a response
    headers: Headers
    size: int
    chunked: bool


def is_message(begin: bytes) -> bool:
    """True if these bytes look like the beginning of an HTTP message."""
    return _MESSAGE.match(begin) is not None


def parse_head(data: bytes, start: int = 0, end: int = sys.maxsize) -> HttpHead | None:
    """The head at `start`, before `end`; None if it is not HTTP. A head without a blank line takes all there is."""
    line = _RESPONSE.match(data, start, end) or _REQUEST.match(data, start, end)
    if line is None:
        return None
    size = head_size(data, start, end)
    if not size:
        return None
    head = data[start : start + size]
    headers = Headers(_fields(head, line.end() - start))
    chunked = b"chunked" in head.lower() and _CHUNKED.search(head) is not None
    if line.re is _RESPONSE:
        reason = (line[3] or b"").decode("utf-8", "surrogateescape").strip()
        return HttpHead("response", (line[1] or b"").decode(), int(line[2]), reason, "", "", headers, size, chunked)
    method, target = line[1].decode(), line[2].decode("utf-8", "surrogateescape")
    return HttpHead("request", line[3].decode(), 0, "", method, target, headers, size, chunked)


def head_size(data: bytes, start: int = 0, end: int = sys.maxsize) -> int:
    """Bytes of the head through its blank line; without one, all there are; 0 if the head is too long."""
    blank = _HEAD_END.search(data, start, min(end, start + HEAD_BYTES_MAX))
    if blank is not None:
        return blank.end() - start
    size = min(end, len(data)) - start
    return size if size < HEAD_BYTES_MAX else 0


def _fields(head: bytes, start: int) -> Iterator[tuple[str, str]]:
    """The fields of a head behind its first line, parsed when somebody reads them: many heads are only passed on."""
    fields: list[tuple[str, str]] = []
    for line in head[start:].decode("utf-8", "surrogateescape").split("\n"):
        name, colon, value = line.partition(":")
        if line[:1] in (" ", "\t") and fields:
            fields[-1] = (fields[-1][0], f"{fields[-1][1]} {line.strip()}".strip())
        elif colon:
            fields.append((name.strip(), value.strip()))
    yield from fields


def media_type(content_type: str | None) -> str:
    """A Content-Type without its parameters, in lower case: 'text/html'; '' if there is none."""
    return content_type.partition(";")[0].strip().lower() if content_type else ""


def split(block: bytes, head: HttpHead | None = None) -> tuple[bytes, tuple[int, ...], bytes]:
    """A whole block at once: its literals joined, lengths of literal and payload by turns, its payload joined.

    `head` is what `parse_head` made of it, if the caller has it.
    """
    head = head or parse_head(block)
    if head is None:
        return b"", (0, len(block)), block
    size = head.size
    if not head.chunked:
        return block[:size], (size, len(block) - size), block[size:]
    literals, payload = [block[:size]], list[bytes]()
    layout = [size]
    chunks = Chunks()
    for is_payload, run in (*chunks.feed(block[size:]), *chunks.finish()):
        (payload if is_payload else literals).append(run)
        if is_payload == (len(layout) % 2 == 0):
            layout[-1] += len(run)
        else:
            layout.append(len(run))
    return b"".join(literals), tuple(layout), b"".join(payload)


class Unframer:
    """Splits a block that comes in pieces. `head` is what `parse_head` made of its beginning."""

    def __init__(self, head: HttpHead | None) -> None:
        self._head_left = head.size if head is not None else 0
        self._chunks = Chunks() if head is not None and head.chunked else None

    def feed(self, piece: bytes) -> list[Run]:
        """The runs of the piece; a few bytes may be held back until it is clear what they are."""
        runs: list[Run] = []
        if self._head_left:
            literal = piece[: self._head_left]
            self._head_left -= len(literal)
            piece = piece[len(literal) :]
            runs.append((False, literal))
        if piece:
            runs += self._chunks.feed(piece) if self._chunks is not None else [(True, piece)]
        return runs

    def finish(self) -> list[Run]:
        """The runs of what was held back."""
        return self._chunks.finish() if self._chunks is not None else []


_SIZE, _DATA, _AFTER, _TRAILER, _REST, _RAW = range(6)


class Chunks:
    """The chunked body of a message, in pieces."""

    def __init__(self) -> None:
        self._state = _SIZE
        self._left = 0  # of the current chunk
        self._held = b""

    def feed(self, piece: bytes) -> list[Run]:
        data = self._held + piece if self._held else piece
        self._held = b""
        runs: list[Run] = []
        at = 0
        while at < len(data):
            if self._state == _DATA:
                chunk = data[at : at + self._left]
                self._left -= len(chunk)
                at += len(chunk)
                runs.append((True, chunk))
                if not self._left:
                    self._state = _AFTER
            elif self._state in (_REST, _RAW):
                runs.append((self._state == _RAW, data[at:]))
                break
            else:
                end = self._line(data, at)
                if end < 0:
                    self._held = data[at:]
                    break
                if end > at:
                    runs.append((False, data[at:end]))
                at = end
        return runs

    def finish(self) -> list[Run]:
        held, self._held = self._held, b""
        # What ends within a line of chunking was cut off there: it is framing unless nothing was framed before.
        return [(self._state == _SIZE and not _partial(held), held)] if held else []

    def _line(self, data: bytes, at: int) -> int:
        """The end of the framing at `at`, changing the state; -1 if more must be seen; `at` if it is none."""
        if self._state == _SIZE:
            pattern, limit = _CHUNK_LINE, CHUNK_LINE_BYTES_MAX
        elif self._state == _AFTER:
            pattern, limit = _CHUNK_END, 2
        else:
            pattern, limit = _TRAILER_END, TRAILER_BYTES_MAX
        match = pattern.match(data, at)
        if match is None:
            if len(data) - at < limit and self._may_grow(data[at:]):
                return -1
            self._state = _RAW if self._state != _TRAILER else _REST
            return at
        if self._state == _SIZE:
            self._left = int(match[1], 16)
            self._state = _DATA if self._left else _TRAILER
        else:
            self._state = _SIZE if self._state == _AFTER else _REST
        return match.end()

    def _may_grow(self, data: bytes) -> bool:
        """True if these bytes may be the beginning of a line of chunking."""
        if self._state == _SIZE:
            return _partial(data)
        return self._state == _TRAILER or data == b"\r"


def _partial(data: bytes) -> bool:
    return re.fullmatch(rb"[ \t]*[0-9a-fA-F]{0,15}[ \t]*(?:;[^\n]*)?\r?", data) is not None


PAYLOAD_BYTES_MAX = 1 << 30
_LAYERS_MAX = 4


def decoded_content(body: bytes, headers: Headers, bytes_max: int = PAYLOAD_BYTES_MAX) -> bytes:
    """The body without the encodings that Content-Encoding names; one that is unknown or wrong is left as it is.

    Raises TooLarge if there would be more than `bytes_max`.
    """
    for name in _layers(headers):
        undone = _decode(name, body, bytes_max)
        if undone is None:
            break
        if len(undone) > bytes_max:
            raise TooLarge(f"a payload of {len(body)} bytes decodes to more than {bytes_max}: raise 'bytes_max'")
        body = undone
    return body


def decoded_beginning(body: bytes, headers: Headers, bytes_max: int) -> bytes:
    """As `decoded_content`, but at most `bytes_max` bytes, and no error if there would be more."""
    for name in _layers(headers):
        undone = _decode(name, body, bytes_max)
        if undone is None:
            break
        body = undone[:bytes_max]
    return body[:bytes_max]


def _layers(headers: Headers) -> list[str]:
    """The encodings, the outermost first."""
    named = ",".join(headers.get_all("content-encoding")).lower()
    return [name.strip() for name in named.split(",") if name.strip()][-_LAYERS_MAX:][::-1]


def _decode(name: str, body: bytes, bytes_max: int) -> bytes | None:
    """The body without one encoding, or a little more than `bytes_max` of it; None if that cannot be."""
    if name in ("gzip", "x-gzip"):
        return _inflate(body, 31, bytes_max)
    if name == "deflate":
        decoded = _inflate(body, 15, bytes_max)
        if decoded is None:  # many servers send it without the zlib frame
            decoded = _inflate(body, -15, bytes_max)
        return decoded
    if name == "br":
        return _unbrotli(body, bytes_max)
    return _unzstd(body, bytes_max) if name == "zstd" else None


def _inflate(body: bytes, window_bits: int, bytes_max: int) -> bytes | None:
    try:
        return zlib.decompressobj(window_bits).decompress(body, bytes_max + 1)
    except zlib.error:
        return None


def _unbrotli(body: bytes, bytes_max: int) -> bytes | None:
    import brotli

    decompressor, parts, size = brotli.Decompressor(), [], 0
    given = body
    try:
        while size <= bytes_max and not decompressor.is_finished():
            part: bytes = decompressor.process(given, output_buffer_limit=min(bytes_max + 1, 1024 * 1024))
            given = b""
            parts.append(part)
            size += len(part)
            if not part and decompressor.can_accept_more_data():
                break  # cut off
    except brotli.error:
        return None
    return b"".join(parts)


def _unzstd(body: bytes, bytes_max: int) -> bytes | None:
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as reader:
            return reader.read(bytes_max + 1)
    except zstandard.ZstdError:
        return None
