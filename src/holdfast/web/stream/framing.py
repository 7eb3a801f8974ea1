"""Marks: the token behind each batch of a stream, in a place where readers of the format do not mind it.

jsonl   a line of its own: {"token": "..."}
warc    a record of type metadata, application/warc-fields: holdfast-token: ...
arrow   metadata of the record batch: token
raw     a length with its highest bit set, and so many bytes of token
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol

from holdfast.env.files import Buffer
from holdfast.errors import UnknownName
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, record_id, record_parts
from holdfast.streams import StreamBatch
from holdfast.streams.batch import arrow_schema
from holdfast.streams.options import FACTS
from holdfast.streams.outputs import Output, find_output

FORMATS = ("jsonl", "warc", "arrow", "raw")
TOKEN_FIELD = "holdfast-token"
RAW_MARK = 1 << 63
_TYPES = {
    "jsonl": "application/x-ndjson",
    "warc": "application/warc",
    "arrow": "application/vnd.apache.arrow.stream",
    "raw": "application/octet-stream",
}


class Marked(Protocol):
    """An output that can say, behind a batch, how to go on."""

    fields: tuple[str, ...]

    @property
    def content_type(self) -> str: ...
    def begin(self) -> bytes: ...
    def encode(self, batch: StreamBatch) -> Iterable[Buffer]: ...
    def mark(self, token: str) -> bytes: ...
    def end(self) -> bytes: ...


def marked(form: str, fields: Sequence[str]) -> Marked:
    """Raises UnknownName."""
    if form not in FORMATS:
        raise UnknownName(f"unknown format {form[:40]!r}: known are {', '.join(FORMATS)}")
    return _Arrow(tuple(fields) or (*FACTS, "payload")) if form == "arrow" else _Marked(form, find_output(form, fields))


class _Marked:
    """An output with marks between what it gives."""

    def __init__(self, form: str, output: Output) -> None:
        self.fields = output.fields
        self._form = form
        self._output = output

    @property
    def content_type(self) -> str:
        return _TYPES[self._form]

    def begin(self) -> bytes:
        return self._output.begin()

    def encode(self, batch: StreamBatch) -> Iterable[Buffer]:
        return self._output.encode(batch)

    def end(self) -> bytes:
        return self._output.end()

    def mark(self, token: str) -> bytes:
        match self._form:
            case "jsonl":
                return json.dumps({"token": token}).encode() + b"\n"
            case "raw":
                return (RAW_MARK | len(token)).to_bytes(8, "big") + token.encode()
            case _:
                return b"".join(_metadata(token))


class _Arrow:
    """A stream of Arrow, each batch written with its token, which is known before its rows are."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.fields = fields
        self._sink = io.BytesIO()
        self._writer: Any = None

    @property
    def content_type(self) -> str:
        return _TYPES["arrow"]

    def begin(self) -> bytes:
        import pyarrow

        self._writer = pyarrow.ipc.new_stream(self._sink, arrow_schema(self.fields))
        return self._taken()

    def encode(self, batch: StreamBatch) -> Iterable[Buffer]:
        self._writer.write_batch(batch.to_arrow(self.fields), custom_metadata={"token": batch.token})
        return [self._taken()]

    def mark(self, token: str) -> bytes:
        return b""

    def end(self) -> bytes:
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        written = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return written


def _metadata(token: str) -> list[bytes]:
    now = datetime.now(UTC).strftime("%Y%m%d%H%M%S")
    head = WarcHead("metadata", now, record_id(sha256(token.encode()).digest()[:ID_BYTES]))
    return record_parts(head, [f"{TOKEN_FIELD}: {token}\r\n".encode()], "1.1")
