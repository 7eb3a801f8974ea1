"""Outputs: streams as bytes of a format that other programs read.

| format  | bytes                                                                                            |
|---------|--------------------------------------------------------------------------------------------------|
| `jsonl` | a JSON object per page and line; payloads and contents in base64; null where nothing is known    |
| `raw`   | payloads, each preceded by its length in 8 bytes, big-endian; bare: without the lengths          |
| `arrow` | an Arrow IPC stream, a record batch for each batch; payloads pass through memory whole           |
| `warc`  | the records, byte for byte where they are valid WARC (`holdfast.streams.outputs.warc`)           |
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from holdfast.env.files import Buffer
from holdfast.errors import UnknownName
from holdfast.formats.warc.writer import Compression
from holdfast.streams.batch import StreamBatch, arrow_schema, plain
from holdfast.streams.options import FACTS
from holdfast.streams.page import Page

FORMATS = ("jsonl", "warc", "arrow", "parquet", "raw")
COLUMNS = (*FACTS, "payload")
COMPRESSIONS: tuple[Compression, ...] = ("none", "gzip", "zstd")
_LENGTH_BYTES = 8  # before a raw payload
_ARROW_END = b"\xff\xff\xff\xff\0\0\0\0"


class Output(Protocol):
    """Turns pages into bytes. The results of `begin`, `encode` and `end`, concatenated, are a complete file.

    So are the results up to any batch, followed by `end`. One thread at a time.
    """

    fields: tuple[str, ...]  # of the pages, that it needs

    def begin(self) -> bytes: ...
    def encode(self, batch: StreamBatch) -> Iterable[Buffer]:
        """The batch in pieces of bounded size. Large payloads are secured."""

    def end(self) -> bytes: ...


class Raw:
    fields: tuple[str, ...] = ("payload",)

    def __init__(self, *, bare: bool = False) -> None:
        self._bare = bare

    def begin(self) -> bytes:
        return b""

    def encode(self, batch: StreamBatch) -> Iterator[Buffer]:
        for page in batch:
            if not self._bare:
                size = page.size if page.is_large else len(page.buffer)
                yield size.to_bytes(_LENGTH_BYTES, "big")
            yield from page.pieces()

    def end(self) -> bytes:
        return b""


class ArrowStream:
    """Schema, record batches, end marker; each is a message of its own, so that batches can be appended."""

    def __init__(self, fields: tuple[str, ...] = COLUMNS) -> None:
        self.fields = fields

    def begin(self) -> bytes:
        return bytes(arrow_schema(self.fields).serialize())

    def encode(self, batch: StreamBatch) -> Iterator[Buffer]:
        yield memoryview(batch.to_arrow(self.fields).serialize())

    def end(self) -> bytes:
        return _ARROW_END


_BINARY = ("payload", "content")
_TRIPLES = 3 << 18  # base64 of pieces of this size can be concatenated


class JsonLines:
    """Keys in the order of the fields."""

    def __init__(self, fields: tuple[str, ...] = FACTS) -> None:
        self.fields = fields

    def begin(self) -> bytes:
        return b""

    def encode(self, batch: StreamBatch) -> Iterator[Buffer]:
        lines: list[bytes] = []
        for page in batch:
            if page.is_large and "payload" in self.fields:
                yield b"".join(lines)
                lines = []
                yield from self._large(page)
            else:
                lines.append(self._line(page))
        yield b"".join(lines)

    def end(self) -> bytes:
        return b""

    def _line(self, page: Page) -> bytes:
        values = {name: plain(page, name) if name not in _BINARY else _base64(page, name) for name in self.fields}
        return json.dumps(values, ensure_ascii=False).encode() + b"\n"

    def _large(self, page: Page) -> Iterator[bytes]:
        """The same line in pieces."""
        for index, name in enumerate(self.fields):
            yield (b"{" if index == 0 else b", ") + json.dumps(name).encode() + b": "
            if name == "payload":
                yield b'"'
                yield from map(b64encode, _in_triples(page.pieces()))
                yield b'"'
            else:
                value = plain(page, name) if name not in _BINARY else _base64(page, name)
                yield json.dumps(value, ensure_ascii=False).encode()
        yield b"}\n"


def _base64(page: Page, name: str) -> str:
    return b64encode(page.buffer if name == "payload" else page.content).decode()


def _in_triples(pieces: Iterator[Buffer]) -> Iterator[bytes]:
    left = b""
    for piece in pieces:
        left += piece
        while len(left) >= _TRIPLES:
            yield left[:_TRIPLES]
            left = left[_TRIPLES:]
    yield left


def find_output(form: str, fields: Sequence[str], *, bare: bool = False, compression: Compression = "none") -> Output:
    """The output for a format. `bare`: raw payloads without lengths; `compression` applies to WARC."""
    from holdfast.streams.outputs.warc import Warc

    match form:
        case "jsonl":
            return JsonLines(tuple(fields) or FACTS)
        case "warc":
            return Warc(compression)
        case "arrow" | "parquet":
            return ArrowStream(tuple(fields) or COLUMNS)
        case "raw":
            return Raw(bare=bare)
        case _:
            raise UnknownName(f"unknown format {form!r}: known are {', '.join(FORMATS)}")
