"""`warc`: the records of captures; valid WARC byte for byte, one gzip member or zstd frame each."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.batches.entry import REFERENCE, lay, runs
from holdfast.env import REAL, Environment
from holdfast.env.files import Buffer
from holdfast.env.thread_map import ThreadMap
from holdfast.formats.warc.writer import Compression, RecordCompressor
from holdfast.records.as_warc import is_well_formed, is_writable, warc_parts, warcinfo
from holdfast.streams.batch import StreamBatch
from holdfast.streams.page import Page


class Warc:
    """Captures only; requests and metadata records are left to `holdfast export`."""

    fields: tuple[str, ...] = ("headers", "payload")

    def __init__(self, compression: Compression = "none", env: Environment = REAL) -> None:
        self._compressor = RecordCompressor(compression)
        self._env = env
        self._spread = ThreadMap()

    def begin(self) -> bytes:
        return self._compressor.compress_record(warcinfo(self._env))

    def encode(self, batch: StreamBatch) -> Iterator[Buffer]:
        small: list[list[Buffer]] = []
        for page in batch:
            if page.is_large:
                yield from self._compressed(small)
                small = []
                yield from self._large(page)
            elif parts := _parts(page):
                small.append(parts)
        yield from self._compressed(small)

    def end(self) -> bytes:
        self._spread.close()
        return b""

    def _compressed(self, records: list[list[Buffer]]) -> list[bytes]:
        return self._spread.map(self._compressor.compress_record, records)

    def _large(self, page: Page) -> Iterator[Buffer]:
        stream = self._compressor.stream()
        for part in _large_parts(page):
            yield stream.compress(part)
        yield stream.flush()


def _parts(page: Page) -> list[Buffer]:
    """The whole record; empty if it has no WARC form."""
    entry = page.entry
    if entry.contents == page.contents and entry.type != REFERENCE and is_well_formed(entry):
        return lay(entry.data, entry.layout, page.buffer) if entry.contents != "-" else [entry.data]
    return [*warc_parts(page.stored)] if is_writable(page.stored) else []


def _large_parts(page: Page) -> Iterator[Buffer]:
    """The literals of the record, and between them its secured payload."""
    entry = page.entry
    if entry.contents == "-" or entry.type == REFERENCE or not is_well_formed(entry):
        yield from warc_parts(page.stored)
        return
    pieces = page.pieces()
    piece, at = memoryview(b""), 0
    for literal, length in runs(entry.layout):
        yield entry.data[at : at + literal]
        at += literal
        while length:
            if not piece:
                piece = memoryview(next(pieces))
            taken = min(length, len(piece))
            yield piece[:taken]
            piece, length = piece[taken:], length - taken  # noqa: PLW2901
