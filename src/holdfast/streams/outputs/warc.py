"""`warc`: the records of captures as WARC, byte for byte where that is valid. One member or frame for each record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from holdfast.batches.entry import REFERENCE, runs
from holdfast.env import REAL, Environment
from holdfast.env.files import Buffer
from holdfast.env.thread_map import ThreadMap
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, record_id, warcinfo_parts
from holdfast.formats.warc.writer import Compression, RecordCompressor
from holdfast.records.as_warc import is_well_formed, is_writable, lay, warc_parts
from holdfast.streams.batch import StreamBatch
from holdfast.streams.page import Page

_INFO = (("software", "Holdfast"),)


class Warc:
    """Requests and the like, which are no captures, are not among them: see `holdfast export`."""

    fields: tuple[str, ...] = ("headers", "payload")

    def __init__(self, compression: Compression = "none", env: Environment = REAL) -> None:
        self._compressor = RecordCompressor(compression)
        self._env = env
        self._spread = ThreadMap()

    def begin(self) -> bytes:
        now = datetime.fromtimestamp(self._env.clock(), UTC).strftime("%Y%m%d%H%M%S")
        head = WarcHead("warcinfo", now, record_id(self._env.random_bytes(ID_BYTES)))
        return self._compressor.compress_record(warcinfo_parts(head, _INFO))

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
    """The whole record; none if it is not one that WARC has."""
    entry = page.entry
    if entry.contents == page.contents and entry.type != REFERENCE and is_well_formed(entry):
        return lay(entry.data, entry.layout, page.buffer if entry.contents != "-" else b"")
    return [*warc_parts(page.stored)] if is_writable(page.stored) else []


def _large_parts(page: Page) -> Iterator[Buffer]:
    """The literals of the record, and between them its payload from where it was secured."""
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
