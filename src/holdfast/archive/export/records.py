"""Records as files: put together from literals and payloads in groups, compressed on all cores, appended in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from holdfast.archive.export.targets import ExportReport, ExportTally, output, regular
from holdfast.batches.entry import REFERENCE, REMOVED
from holdfast.env.files import Buffer
from holdfast.env.thread_map import ThreadMap
from holdfast.errors import TooLarge, UsageError
from holdfast.formats.cdx.cdxj import cdxj_line
from holdfast.formats.http import HTML_TYPES, decoded_content
from holdfast.formats.tianwang import TianwangWriter, page_attributes
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, record_id, warcinfo_parts
from holdfast.formats.warc.writer import Compression, RecordCompressor, WarcFiles, WarcFilesOptions, WarcWriter
from holdfast.model import ContentKey, RecordId
from holdfast.records.as_warc import as_warc, is_writable, lay, warc_parts
from holdfast.records.draft import is_captured
from holdfast.records.selection import Selection, companions
from holdfast.records.stored_record import StoredRecord
from holdfast.storage.store.contents import Contents

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive
    from holdfast.archive.export.export import ExportOptions


_GROUP_MAX = 256
_GROUP_BYTES_MAX = 16 << 20
_LARGE = 8 << 20  # payloads beyond this are not gathered


@dataclass(slots=True)
class Assembled:
    """A record with all its bytes in memory; those of a large one are to be read from `stored.raw()`."""

    stored: StoredRecord
    parts: list[Buffer]
    is_large: bool = False

    @property
    def size(self) -> int:
        return len(self.stored.entry.data) + self.stored.payload_size


def assemble(records: Iterable[StoredRecord], contents: Contents) -> Iterator[list[Assembled]]:
    """The records in their order, in groups of bounded size."""
    group: list[StoredRecord] = []
    size = 0
    for record in records:
        if record.payload_size > _LARGE:
            if group:
                yield _assembled(group, contents)
            yield [Assembled(record, [], is_large=True)]
            group, size = [], 0
            continue
        group.append(record)
        size += record.payload_size + len(record.entry.data)
        if len(group) >= _GROUP_MAX or size >= _GROUP_BYTES_MAX:
            yield _assembled(group, contents)
            group, size = [], 0
    if group:
        yield _assembled(group, contents)


def _assembled(group: list[StoredRecord], contents: Contents) -> list[Assembled]:
    keys = [ContentKey.parse(key) for record in group for key in record.entry.contentkeys]
    payloads = iter(contents.get_batch(keys))
    assembled = []
    for record in group:
        entry = record.entry
        count = len(entry.contentkeys)
        payload = next(payloads) if count == 1 else b"".join(next(payloads) for _ in range(count))
        assembled.append(Assembled(record, lay(entry.data, entry.layout, payload)))
    return assembled


_COMPRESSIONS: dict[str, Compression] = {"warc": "none", "warc.gz": "gzip", "warc.zst": "zstd", "wet": "none"}
_INFO = (("software", "Holdfast"),)


class Written(NamedTuple):
    """Where a record went."""

    filename: str
    offset: int
    length: int


class Appender(Protocol):
    """What both a single WARC file and a row of them can do."""

    def append(self, piece: bytes) -> tuple[int, int] | tuple[str, int, int]: ...
    def begin(self, size: int | None = None) -> None: ...
    def feed(self, data: bytes) -> None: ...
    def end(self) -> tuple[int, int] | tuple[str, int, int]: ...


@dataclass(slots=True)
class RecordWriter:
    """Writes assembled records to a WARC file, or to several."""

    appender: Appender
    compressor: RecordCompressor
    contents: Contents
    filename: str = ""
    exact: bool = False  # records are written as they came
    written: Callable[[StoredRecord, Written], None] | None = None

    def write(self, group: list[Assembled], spread: ThreadMap) -> None:
        if len(group) == 1 and group[0].is_large:
            self._write_large(group[0].stored)
            return
        pieces = spread.map(self.compressor.compress_record, [each.parts for each in group])
        for each, piece in zip(group, pieces, strict=True):
            self._note(each.stored, self.appender.append(piece))

    def _write_large(self, stored: StoredRecord) -> None:
        self.appender.begin()
        for part in stored.raw() if self.exact else warc_parts(stored):
            self.appender.feed(part)
        self._note(stored, self.appender.end())

    def _note(self, stored: StoredRecord, place: tuple[int, int] | tuple[str, int, int]) -> None:
        if self.written is not None:
            self.written(stored, Written(*place) if len(place) == 3 else Written(self.filename, *place))


def write_groups(records: Iterable[StoredRecord], writer: RecordWriter, tally: ExportTally) -> None:
    """Writes the records in their order, as WARC that every reader takes unless they are wanted exactly."""
    spread = ThreadMap()
    try:
        for group in assemble(records if writer.exact else filter(is_writable, records), writer.contents):
            if not writer.exact:
                for each in group:
                    each.parts = each.parts if each.is_large else as_warc(each.stored, each.parts)
            writer.write(group, spread)
            tally.records += len(group)
    finally:
        spread.close()


def export_records(
    archive: Archive,
    selection: Selection,
    target: Path | BinaryIO,
    options: ExportOptions,
    progress: Callable[[int], None] | None,
) -> ExportReport:
    tally = ExportTally(progress)
    selected = _selected(archive, selection, tally, with_originals=options.format == "wacz")
    records = _without_references(selected, tally)
    if options.format == "wacz":
        _write_wacz(archive, records, target, tally)
    elif options.format == "tianwang":
        with output(target, tally) as sink:
            _write_tianwang(records, TianwangWriter(sink, compress=options.compress), tally)
    elif options.format == "wet":
        _write_wet(records, target, tally)
    else:
        _write_warc(archive, records, target, options, tally)
    return tally.report()


def _without_references(records: Iterator[StoredRecord], tally: ExportTally) -> Iterator[StoredRecord]:
    """Records by reference lie in files elsewhere, which can be copied as they are."""
    count = 0
    for stored in records:
        if stored.entry.type == REFERENCE:
            count += 1
        else:
            yield stored
    if count:
        tally.notes.append(f"{count} records by reference were left out: they lie in files of their own")


def _selected(
    archive: Archive, selection: Selection, tally: ExportTally, *, with_originals: bool
) -> Iterator[StoredRecord]:
    """The records in the order of the batches, those that belong to a selected capture beside it.

    What a selected capture only repeats is given too, if wanted; else it is noted that it is missing.
    """
    if selection.is_whole:
        for whole, entry in selection.entries(archive.journal):
            yield archive.records.stored(whole, entry)
        return
    given: set[RecordId] = set()  # companions that came with an earlier capture: only those nearby matter
    originals: set[RecordId] = set()
    for record in selection.record_ids(archive.catalog, archive.journal):
        found = archive.records.entry(record)
        if found is None or found.type == REMOVED:
            continue
        together = {record: found} | companions(archive.records.entry, record, found)
        given = {each for each in given if each.batch == record.batch and each.serial > record.serial - 64}
        for each in sorted(together.keys() - given):
            yield archive.records.stored(each, together[each])
        given |= together.keys()
        if found.type == "revisit" and found.contents == "-":
            original = archive.catalog.resolve(archive.records.stored(record, found).capture)
            if original is not None:
                originals.add(original.record)
    if not originals:
        return
    missing = originals.difference(selection.record_ids(archive.catalog, archive.journal))
    if with_originals:
        for each in sorted(missing):
            found = archive.records.entry(each)
            if found is not None and found.type != REMOVED:
                yield archive.records.stored(each, found)
    elif missing:
        tally.notes.append(f"{len(missing)} originals of revisits were not selected: their payloads are not exported")


# -- WARC ---------------------------------------------------------------------------------------------------------


def _write_warc(
    archive: Archive,
    records: Iterator[StoredRecord],
    target: Path | BinaryIO,
    options: ExportOptions,
    tally: ExportTally,
) -> None:
    compression = _COMPRESSIONS[options.format]
    if options.bytes_max:
        if not isinstance(target, Path):
            raise UsageError("several WARC files cannot be written to a stream: name a directory")
        files_options = WarcFilesOptions(bytes_max=options.bytes_max, compression=compression, info=_INFO)
        with WarcFiles(target, "holdfast", files_options, env=archive.env) as files:
            write_groups(records, RecordWriter(files, files.compressor, archive.contents), tally)
        tally.files += map(str, files.finished)
        tally.advance(sum(path.stat().st_size for path in files.finished))
        return
    compressor = RecordCompressor(compression)
    with output(target, tally) as sink:
        writer = WarcWriter(sink, compressor=compressor)
        writer.write(warcinfo(archive, target.name if isinstance(target, Path) else ""))
        write_groups(records, RecordWriter(writer, compressor, archive.contents), tally)


def warcinfo(archive: Archive, filename: str) -> list[bytes]:
    now = datetime.fromtimestamp(archive.env.clock(), UTC).strftime("%Y%m%d%H%M%S")
    head = WarcHead("warcinfo", now, record_id(archive.env.random_bytes(ID_BYTES)), filename=filename)
    return warcinfo_parts(head, _INFO)


# -- WACZ ---------------------------------------------------------------------------------------------------------


def _write_wacz(archive: Archive, records: Iterator[StoredRecord], target: Path | BinaryIO, tally: ExportTally) -> None:
    from holdfast.formats.wacz.writer import WaczWriter

    if not isinstance(target, Path):
        raise UsageError("wacz cannot be written to a stream: name a file")
    regular(target)
    with WaczWriter(target, env=archive.env) as wacz:

        def note(stored: StoredRecord, place: Written) -> None:
            if not is_captured(stored.entry):
                return
            capture = stored.capture._replace(filename=place.filename, offset=place.offset, length=place.length)
            wacz.add_index_line(cdxj_line(capture).encode("utf-8", "surrogateescape"))
            if capture.mime in HTML_TYPES and capture.status == "200":
                wacz.add_page(capture.url, capture.timestamp)

        with wacz.warc("data.warc.gz") as sink:
            compressor = RecordCompressor("gzip")
            writer = WarcWriter(sink, compressor=compressor)
            writer.write(warcinfo(archive, "data.warc.gz"))
            write_groups(
                records, RecordWriter(writer, compressor, archive.contents, "data.warc.gz", written=note), tally
            )
    tally.files.append(str(target))
    tally.advance(target.stat().st_size)


# -- Tianwang and WET ---------------------------------------------------------------------------------------------


def _write_tianwang(records: Iterator[StoredRecord], writer: TianwangWriter, tally: ExportTally) -> None:
    for stored in records:
        entry = stored.entry
        if entry.type != "response" or entry.url == "-":
            continue
        ip = entry.ip if entry.ip != "-" else ""
        origin = stored.headers.get("origin") or "" if entry.format.startswith("tianwang/") else ""
        writer.write(page_attributes(entry.url, entry.timestamp, origin=origin, ip=ip), stored.message())
        tally.records += 1


@contextmanager
def _wet_writer(target: Path | BinaryIO, tally: ExportTally) -> Iterator[WarcWriter]:
    with output(target, tally) as sink:
        packed = isinstance(target, Path) and target.name.endswith(".gz")
        yield WarcWriter(sink, compression="gzip" if packed else "none")


def _write_wet(records: Iterator[StoredRecord], target: Path | BinaryIO, tally: ExportTally) -> None:
    from holdfast.formats.wet import has_text, text_of, wet_record

    with _wet_writer(target, tally) as writer:
        for stored in records:
            entry = stored.entry
            if entry.type not in ("response", "resource") or not has_text(entry.mime if entry.mime != "-" else ""):
                continue
            head = stored.http_head
            content_type = (head.headers.get("Content-Type") if head else stored.headers.get("Content-Type")) or ""
            try:
                payload = stored.payload()
                content = decoded_content(payload, head.headers) if head else payload
            except TooLarge as error:
                tally.notes.append(str(error))
                continue
            text = text_of(content, content_type)
            if text:
                refers_to = stored.headers.get("WARC-Record-ID") or ""
                writer.write(wet_record(stored.capture, text, refers_to=refers_to))
                tally.records += 1
