"""`raw`: payloads and nothing else, each behind its length.

    ┌─────────────────────────┬─────────┬─────────────────────────┬─────────┬─────
    │ length, 8 bytes, the    │ payload │ length                  │ payload │ ...
    │ highest first           │         │                         │         │
    └─────────────────────────┴─────────┴─────────────────────────┴─────────┴─────

Bare, the lengths are left out, for those who look for something in all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.env.files import Buffer
from holdfast.streams.batch import StreamBatch

_LENGTH_BYTES = 8


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
