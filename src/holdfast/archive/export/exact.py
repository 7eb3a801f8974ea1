"""Imported files written again, byte for byte (N3).

The uncompressed bytes are exactly those of the imported file; each record is compressed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from holdfast.archive.export.manifest import listed
from holdfast.archive.export.records import RecordWriter, write_groups
from holdfast.archive.export.targets import ExportReport, ExportTally, output
from holdfast.batches.entry import REMOVED
from holdfast.errors import CaptureNotFound, UsageError
from holdfast.formats.warc.writer import Compression, RecordCompressor, WarcWriter
from holdfast.model import RecordId
from holdfast.records.stored_record import StoredRecord

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive

_NAMES_LISTED = 10


def export_exact(
    archive: Archive, target: Path | BinaryIO, source: str | None, progress: Callable[[int], None] | None
) -> ExportReport:
    """Writes one file if its name is given, else all of them into a directory. Raises CaptureNotFound."""
    lists = list(archive.catalog.sources(source))
    if not lists and source is not None:  # a WACZ is known by its members
        lists = [each for each in archive.catalog.sources() if each[0].startswith(f"{source}:")]
    if not lists:
        raise _unknown(archive, source)
    tally = ExportTally(progress)
    if source is not None and not (isinstance(target, Path) and target.is_dir()):
        if len(lists) > 1:
            raise UsageError(f"{len(lists)} files {source!r} were imported: name a directory that exists, for all")
        _write(archive, lists[0], target, tally)
        return tally.report()
    if not isinstance(target, Path):
        raise UsageError("several files cannot be written to a stream: name a directory, or one source")
    target.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    for name, record in lists:
        _write(archive, (name, record), target / _free_name(name, taken), tally)
    return tally.report()


def _unknown(archive: Archive, source: str | None) -> CaptureNotFound:
    known = list(islice(archive.catalog.sources(), _NAMES_LISTED + 1))
    if source is None or not known:
        return CaptureNotFound("no file was imported")
    names = ", ".join(repr(name) for name, _ in known[:_NAMES_LISTED])
    return CaptureNotFound(
        f"no file {source!r} was imported: known are {names}{', ...' * (len(known) > _NAMES_LISTED)}"
    )


def _free_name(name: str, taken: set[str]) -> str:
    """A plain file name; a second file of the same name gets a number."""
    plain = name.replace("/", "_").replace("\0", "_").replace(":", "_").lstrip(".") or "stdin"
    free = plain
    number = 2
    while free in taken:
        free = f"{number}-{plain}"
        number += 1
    taken.add(free)
    return free


def _write(archive: Archive, source: tuple[str, RecordId], target: Path | BinaryIO, tally: ExportTally) -> None:
    name, record = source
    before = tally.missing
    with output(target, tally) as sink:
        compressor = RecordCompressor(_compression(target.name if isinstance(target, Path) else name))
        writer = RecordWriter(WarcWriter(sink, compressor=compressor), compressor, archive.contents, exact=True)
        write_groups(_records(archive, record, tally), writer, tally)
    if tally.missing > before:
        tally.notes.append(f"'{name}' is not whole: {tally.missing - before} of its records were removed")
    facts = json.loads(archive.records.read(record).entry.extra)
    if facts.get("truncated"):
        tally.notes.append(f"'{name}' was damaged: {facts['truncated']} of its records are not whole")
    if facts.get("lost"):
        tally.notes.append(f"'{name}' is not whole: {facts.get('lost_bytes', 0)} bytes could not be read at its import")


def _compression(name: str) -> Compression:
    if name.endswith(".gz"):
        return "gzip"
    return "zstd" if name.endswith(".zst") else "none"


def _records(archive: Archive, manifest: RecordId, tally: ExportTally) -> Iterator[StoredRecord]:
    for record in listed(archive.records.read(manifest).entry.data):
        entry = archive.records.entry(record)
        if entry is None or entry.type == REMOVED:
            tally.missing += 1
        else:
            yield archive.records.stored(record, entry)
