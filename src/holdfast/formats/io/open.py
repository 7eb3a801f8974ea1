"""The entry point: a stream of any known format becomes records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from holdfast.errors import MalformedInput
from holdfast.formats.arc import ArcFraming
from holdfast.formats.io.salvage import Framing, ReadMode, RecordReader
from holdfast.formats.io.sniff import begins_well, foreign_compression, make_source, sniff, sniff_coding
from holdfast.formats.io.source import CHUNK_BYTES
from holdfast.formats.record import Finding, FindingKind, Record, Report
from holdfast.formats.tianwang import TianwangFraming
from holdfast.formats.warc.reader import WarcFraming

_LOOK_BYTES_MAX = 8 * 1024 * 1024  # how far a damaged start may reach


def open_records(
    stream: BinaryIO,
    *,
    strict: bool = False,
    report: Report | None = None,
    validate: bool = True,
    verify_digests: bool = True,
) -> Iterator[Record]:
    """The records of a file in order: WARC, ARC or Tianwang, plain, gzip or zstd, recognized by its bytes.

    A record is valid until the next is requested: read its block before. Damaged ranges are skipped and
    given to `report`, as are records of which a part is missing, and broken rules (`validate`: of the head;
    `verify_digests`: of the payload, or of the block if there is no digest of the payload, after `finish`). With
    `strict` all digests are verified, and the first fault raises MalformedInput. The stream need not seek; it is not
    closed.
    """
    first = _read_first(stream)
    if foreign := foreign_compression(first):
        return _unread(stream, first, foreign, ReadMode(strict, report))
    first, kind = _look(stream, first)
    source = make_source(sniff_coding(first), stream, first)
    reader = RecordReader(source, _framing(kind, strict=strict), ReadMode(strict, report, validate, verify_digests))
    if first and not kind:
        reader.doubt("this is not a WARC, ARC or Tianwang file")
    return iter(reader)


def _unread(stream: BinaryIO, first: bytes, reason: str, reading: ReadMode) -> Iterator[Record]:
    """No records: all of the file is reported as lost."""
    if reading.strict:
        raise MalformedInput(reason)
    size, piece = 0, first
    while piece:
        size += len(piece)
        piece = stream.read(CHUNK_BYTES)
    if reading.report is not None:
        reading.report(Finding(FindingKind.LOST, 0, size, reason))
    yield from ()


def _read_first(stream: BinaryIO) -> bytes:
    first = stream.read(CHUNK_BYTES)
    while not begins_well(first) and len(first) < CHUNK_BYTES and (more := stream.read(CHUNK_BYTES - len(first))):
        first += more  # a pipe gives little at a time
    return first


def _look(stream: BinaryIO, first: bytes) -> tuple[bytes, str]:
    """As many of the first bytes as it takes to recognize the format, and the format."""
    kind = sniff(first)
    while not kind and len(first) < _LOOK_BYTES_MAX:
        more = stream.read(max(len(first), CHUNK_BYTES))  # twice as much each time: looked at twice in all
        if not more:
            break
        first += more
        kind = sniff(first)
    return first, kind


def _framing(kind: str, *, strict: bool) -> Framing:
    if kind.startswith("arc"):
        return ArcFraming()
    if kind.startswith("tianwang"):
        return TianwangFraming()
    return WarcFraming(thorough=strict)
