"""Content encodings undone: a payload as a reader of the page would want it, never more of it than allowed."""

from __future__ import annotations

import zlib

from holdfast.errors import TooLarge
from holdfast.formats.record import Headers

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
