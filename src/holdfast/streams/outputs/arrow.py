"""`arrow`: an Arrow IPC stream, a record batch for each batch. Payloads pass through memory whole."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.env.files import Buffer
from holdfast.streams.batch import StreamBatch, arrow_schema
from holdfast.streams.options import FACTS

COLUMNS = (*FACTS, "payload")
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream


class ArrowStream:
    """Schema, record batches, mark of the end; each is a message of its own, so that batches can be appended."""

    def __init__(self, fields: tuple[str, ...] = COLUMNS) -> None:
        self.fields = fields

    def begin(self) -> bytes:
        return bytes(arrow_schema(self.fields).serialize())

    def encode(self, batch: StreamBatch) -> Iterator[Buffer]:
        yield memoryview(batch.to_arrow(self.fields).serialize())

    def end(self) -> bytes:
        return _END
