"""`jsonl`: one JSON object for each page and line. Payloads and contents are in base64; what is not known is null."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

from holdfast.env.files import Buffer
from holdfast.streams.batch import StreamBatch, plain
from holdfast.streams.options import FACTS
from holdfast.streams.page import Page

_BINARY = ("payload", "content")
_TRIPLES = 3 << 18  # base64 of pieces of this size can be put one behind the other


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
