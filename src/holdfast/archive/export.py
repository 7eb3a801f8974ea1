"""Export: captures and records as files in standard formats.

    warc, warc.gz, warc.zst   records in the order of the batches, as they came in if that is valid WARC
    wacz                      the same in one file, with index and pages
    tianwang                  responses, in the form of Web InfoMall
    wet                       the text of pages
    cdxj, cdx, zipnum         rows of the catalog, sorted
    parquet                   rows of the catalog as a table, columns named as Common Crawl's

Records are read in groups, decoded, assembled and compressed on all cores, and appended in order. With
`exact`, imported files are written again: their uncompressed bytes are those of the imported file, and each record is
compressed again (N3). A file has the suffix `.open` until it is complete.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast, get_args

from holdfast.archive.ingest.manifest import listed
from holdfast.arguments import check_fields
from holdfast.batches.entry import REFERENCE, REMOVED, lay
from holdfast.env import Environment
from holdfast.env.files import Buffer, require_parent, translated_errors
from holdfast.errors import CaptureNotFound, HoldfastError, TooLarge, UnknownName, UsageError
from holdfast.formats.cdx.cdx import CDX11, cdx_line
from holdfast.formats.cdx.cdxj import cdxj_line
from holdfast.formats.cdx.zipnum import ZipNumWriter, loc_line
from holdfast.formats.http import HTML_TYPES, decoded_content
from holdfast.formats.tianwang import TianwangWriter, page_attributes
from holdfast.formats.warc.compose import Version
from holdfast.formats.warc.writer import (
    Compression,
    RecordCompressor,
    WarcFiles,
    WarcFilesOptions,
    WarcWriter,
    WrittenRecord,
)
from holdfast.model import Capture, Coverage, RecordId
from holdfast.records.as_warc import WARCINFO, as_older_warc, as_warc, is_writable, warc_parts, warcinfo
from holdfast.records.draft import is_captured
from holdfast.records.selection import Selection, with_companions
from holdfast.records.stored_record import StoredRecord
from holdfast.storage.store.contents import BulkRead

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive

_COMPRESSIONS: dict[str, Compression] = {"warc": "none", "warc.gz": "gzip", "warc.zst": "zstd"}
ROW_FORMATS = ("cdxj", "cdx", "zipnum", "parquet")
FORMATS = (*_COMPRESSIONS, "wacz", "tianwang", "wet", *ROW_FORMATS)
SUFFIXES = {
    ".warc": "warc",
    ".warc.gz": "warc.gz",
    ".warc.zst": "warc.zst",
    ".wacz": "wacz",
    ".tw": "tianwang",
    ".cdxj": "cdxj",
    ".cdx": "cdx",
    ".idx": "zipnum",
    ".cdx.gz": "zipnum",
    ".parquet": "parquet",
    ".wet": "wet",
    ".wet.gz": "wet",
}
_ROWS = 1000  # at a time
_GROUP_MAX = 128  # records that are fetched together, and compressed by one thread
_GROUP_BYTES_MAX = 4 << 20
_THREADS = os.cpu_count() or 1
_AHEAD_MAX = 2 * _THREADS  # groups that are compressed and not yet written
_LARGE = 8 << 20  # payloads beyond this are not gathered
_BUFFER = 1 << 20
_NAMES_LISTED = 10
_WACZ_WARC = "data.warc.gz"

Target = Path | BinaryIO


class _Group(NamedTuple):
    """Neighbouring records with their contents, or a single large record without: it is read in pieces."""

    records: list[StoredRecord]
    payloads: Iterator[Buffer] | None


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The format of an export, and its options."""

    format: str
    exact: bool = False  # the files that were imported, as they were; `format` is theirs
    source: str | None = None  # only the file of this name, with `exact`
    compress: bool = False  # compress the data of Tianwang records
    bytes_max: int = 0  # of one WARC file; then the target is a directory. 0: one file, however large
    warc_version: str = "1.1"  # or "1.0", for older readers; records that came in as 1.0 stay so

    def __post_init__(self) -> None:
        check_fields(self)
        if self.warc_version not in get_args(Version):
            raise UsageError(
                f"bad version of WARC: {self.warc_version!r} must be one of {', '.join(get_args(Version))}"
            )


@dataclass(slots=True)
class ExportReport:
    """The result of an export."""

    records: int = 0
    bytes: int = 0
    files: tuple[str, ...] = ()
    missing: int = 0  # records that should have been written and are not there any more
    notes: tuple[str, ...] = ()
    coverage: Coverage | None = None  # of a cluster


def format_by_name(target: object) -> str:
    """The format named by the suffix of a target. Raises UsageError."""
    name = Path(target).name.lower() if isinstance(target, str | Path) else ""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return SUFFIXES[suffix]
    raise UsageError(f"no format is known by the name {name!r}: give one of {', '.join(FORMATS)}")


class ExportSource(Protocol):
    """Where the captures and records of one export come from: an archive, or all nodes of a cluster."""

    coverage: Coverage | None  # of a cluster; final when the first capture or record is read
    missing: int  # records that were selected and are not there any more

    def require_batch(self, batch: str) -> None:
        """Raises NotFound."""

    def captures(self, selection: Selection) -> Iterator[Capture]:
        """In the order of the catalog."""

    def records(self, selection: Selection) -> Iterator[StoredRecord]:
        """In the order of the batches, with the companions of each selected capture."""

    def original(self, revisit: StoredRecord) -> RecordId | None:
        """The record that a revisit of `records` repeats; None if it is not known."""

    def unselected(self, selection: Selection, records: Iterable[RecordId]) -> set[RecordId]:
        """Those of the records that a selection, which has a query, does not name."""

    def read(self, records: Iterable[RecordId]) -> Iterator[StoredRecord]:
        """Originals of revisits, without those that were removed."""

    def payloads(self, records: Sequence[StoredRecord]) -> Iterator[Buffer]:
        """Their contents, in order. Read by this call; any thread may take them from the iterator.

        Raises the error of the first that cannot be read, here or there.
        """


class ArchiveSource:
    """An open archive, as an `ExportSource`."""

    coverage: Coverage | None = None
    missing = 0

    def __init__(self, archive: Archive) -> None:
        self._catalog, self._journal, self._records = archive.catalog, archive.journal, archive.records
        self._contents = archive.contents

    def require_batch(self, batch: str) -> None:
        self._journal.require(batch)

    def captures(self, selection: Selection) -> Iterator[Capture]:
        return selection.captures(self._catalog)

    def records(self, selection: Selection) -> Iterator[StoredRecord]:
        found = (
            selection.entries(self._journal)
            if selection.is_whole
            else with_companions(self._records.entry, selection.record_ids(self._catalog, self._journal))
        )
        return (self._records.stored(record, entry) for record, entry in found)

    def original(self, revisit: StoredRecord) -> RecordId | None:
        found = self._catalog.resolve(revisit.capture)
        return found.record if found is not None else None

    def unselected(self, selection: Selection, records: Iterable[RecordId]) -> set[RecordId]:
        return set(records).difference(selection.record_ids(self._catalog, self._journal))

    def read(self, records: Iterable[RecordId]) -> Iterator[StoredRecord]:
        for record in records:
            found = self._records.entry(record)
            if found is not None and found.type != REMOVED:
                yield self._records.stored(record, found)

    def payloads(self, records: Sequence[StoredRecord]) -> Iterator[Buffer]:
        """Read in disk order, decoded by the thread that takes them."""
        keys = [key for record in records for key in record.entry.contentkeys]
        return _decoded(self._contents.gather(keys)) if keys else iter(())


class Exporter:
    """One export from an archive. `progress` is called with the bytes written since its last call.

    `env` gives the time and the id of the record that begins a WARC file: with a fixed one, the same records make the
    same bytes. With a `source`, captures and records come from there.
    """

    def __init__(
        self,
        archive: Archive,
        progress: Callable[[int], None] | None = None,
        env: Environment | None = None,
        source: ExportSource | None = None,
    ) -> None:
        self._archive = archive
        self._source = source or ArchiveSource(archive)
        self._env = env or archive.env
        self._progress = progress
        self._report = ExportReport()

    def run(self, selection: Selection, target: Target, options: ExportOptions) -> ExportReport:
        """Writes the selected captures. Raises UsageError before anything is written if the options make no sense."""
        if options.exact:
            self._exact(target, options.source)
        elif options.source is not None:
            raise UsageError("'source' names a file to be written exactly: it needs 'exact'")
        elif options.format not in FORMATS:
            raise UnknownName(f"unknown format {options.format!r}: known are {', '.join(FORMATS)}")
        else:
            if selection.batch is not None:
                self._source.require_batch(selection.batch)
            self._write(selection, target, options)
            self._report.missing += self._source.missing
            self._report.coverage = self._source.coverage
        return self._report

    def _write(self, selection: Selection, target: Target, options: ExportOptions) -> None:
        if options.format in ROW_FORMATS:
            self._rows(selection, target, options.format)
        else:
            records = self._without_references(self._selected(selection, with_originals=options.format == "wacz"))
            if options.format == "wacz":
                self._wacz(records, _file(target, "wacz"))
            elif options.format == "tianwang":
                self._tianwang(records, target, compress=options.compress)
            elif options.format == "wet":
                self._wet(records, target)
            else:
                self._warc(records, target, options)

    def _advance(self, count: int) -> None:
        self._report.bytes += count
        if self._progress is not None:
            self._progress(count)

    @contextmanager
    def _output(self, target: Target) -> Iterator[BinaryIO]:
        """A sink. On leaving, the file is complete, durable and has its name; after an exception it is deleted."""
        if not isinstance(target, Path):
            yield cast(BinaryIO, _CountedSink(target, self._advance))
            target.flush()
            return
        draft = _regular(target).with_name(target.name + ".open")
        with translated_errors(target):
            file = draft.open("wb", buffering=_BUFFER)
        try:
            yield cast(BinaryIO, _CountedSink(file, self._advance))
            with translated_errors(draft):
                file.flush()
                os.fsync(file.fileno())
                file.close()
                draft.replace(target)
            self._report.files += (str(target),)
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise

    # -- rows of the catalog ------------------------------------------------------------------------------------

    def _rows(self, selection: Selection, target: Target, form: str) -> None:
        if form == "parquet":
            self._parquet(selection, _file(target, form))
        elif form == "zipnum":
            self._zipnum(selection, _file(target, form))
        else:
            with self._output(target) as sink:
                if form == "cdx":
                    sink.write(f"{CDX11}\n".encode())
                for lines in self._lines(selection, cdx_line if form == "cdx" else cdxj_line):
                    sink.write(b"".join(lines))

    def _lines(self, selection: Selection, line: Callable[..., str]) -> Iterator[list[bytes]]:
        captures = self._source.captures(selection)
        while some := list(islice(captures, _ROWS)):
            self._report.records += len(some)
            yield [line(capture).encode("utf-8", "surrogateescape") + b"\n" for capture in some]

    def _parquet(self, selection: Selection, path: Path) -> None:
        from holdfast.formats.parquet import ParquetCatalogWriter

        draft = path.with_name(path.name + ".open")
        try:
            with ParquetCatalogWriter(draft) as writer:
                captures = self._source.captures(selection)
                while some := list(islice(captures, _ROWS)):
                    writer.add(some)
                    self._report.records += len(some)
            self._advance(draft.stat().st_size)
            draft.replace(path)
            self._report.files += (str(path),)
        finally:
            draft.unlink(missing_ok=True)

    def _zipnum(self, selection: Selection, path: Path) -> None:
        """`path` names the index: `name.idx`, beside it `name.cdx.gz` and `name.loc`."""
        stem = path.name.removesuffix(".idx").removesuffix(".cdx.gz")
        cdx, idx, loc = (path.with_name(stem + suffix) for suffix in (".cdx.gz", ".idx", ".loc"))
        with self._output(cdx) as cdx_sink, self._output(idx) as idx_sink, self._output(loc) as loc_sink:
            with ZipNumWriter(cdx_sink, idx_sink, cdx.name) as writer:
                for lines in self._lines(selection, cdxj_line):
                    for line in lines:
                        writer.add(line)
            loc_sink.write(loc_line(cdx.name).encode())

    # -- which records ------------------------------------------------------------------------------------------

    def _selected(self, selection: Selection, *, with_originals: bool) -> Iterator[StoredRecord]:
        """The records in the order of the batches, with the companions of each selected capture.

        With `with_originals`, also the originals of selected revisits; otherwise a note counts them.
        """
        originals: set[RecordId] = set()
        for stored in self._source.records(selection):
            yield stored
            if not selection.is_whole and stored.entry.type == "revisit" and stored.entry.contents == "-":
                original = self._source.original(stored)
                if original is not None:
                    originals.add(original)
        missing = self._source.unselected(selection, originals) if originals else ()
        if with_originals:
            yield from self._source.read(sorted(missing))
        elif missing:
            self._report.notes += (
                f"{len(missing)} originals of revisits were not selected: their payloads are not exported",
            )

    def _without_references(self, records: Iterator[StoredRecord]) -> Iterator[StoredRecord]:
        """Leaves out records by reference: their files can be copied as they are."""
        count = 0
        for stored in records:
            if stored.entry.type == REFERENCE:
                count += 1
            else:
                yield stored
        if count:
            self._report.notes += (f"{count} records by reference were left out: they are in other files",)

    # -- WARC and WACZ ------------------------------------------------------------------------------------------

    def _write_records(
        self,
        records: Iterable[StoredRecord],
        writer: WarcWriter | WarcFiles,
        compressor: RecordCompressor,
        *,
        exact: bool = False,
        older: bool = False,
        note: Callable[[StoredRecord, int, int], None] | None = None,
    ) -> None:
        """Writes the records in their order, as WARC that every reader takes unless they are wanted exactly.

        `older` makes them WARC 1.0.

        Threads compress while this one fetches the next records and writes those before. `note` is called with each
        record, its offset and its length in the file.
        """

        def compress(group: _Group) -> list[bytes]:
            return [compressor.compress_record(parts) for parts in _assembled(group, exact=exact, older=older)]

        def append(group: _Group, pieces: Future[list[bytes]]) -> None:
            written(group.records, writer.append_all(pieces.result()))

        def written(some: list[StoredRecord], places: Sequence[tuple[int, int] | WrittenRecord]) -> None:
            self._report.records += len(some)
            if note is not None:
                for stored, place in zip(some, places, strict=True):
                    note(stored, place[-2], place[-1])

        ahead: deque[tuple[_Group, Future[list[bytes]]]] = deque()
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-export") as threads:
            for group in _groups(records if exact else filter(is_writable, records), self._source):
                while ahead and (len(ahead) >= _AHEAD_MAX or group.payloads is None):
                    append(*ahead.popleft())
                if group.payloads is None:
                    (stored,) = group.records
                    writer.begin()
                    parts: Iterable[Buffer] = stored.raw() if exact else warc_parts(stored)
                    for part in as_older_warc(parts) if older else parts:
                        writer.feed(part)
                    written([stored], [writer.end()])
                else:
                    ahead.append((group, threads.submit(compress, group)))
            while ahead:
                append(*ahead.popleft())

    def _warc(self, records: Iterator[StoredRecord], target: Target, options: ExportOptions) -> None:
        compression, version = _COMPRESSIONS[options.format], cast(Version, options.warc_version)
        older = version == "1.0"
        if options.bytes_max:
            if not isinstance(target, Path):
                raise UsageError("several WARC files cannot be written to a stream: name a directory")
            files_options = WarcFilesOptions(
                bytes_max=options.bytes_max, compression=compression, version=version, info=WARCINFO
            )
            with WarcFiles(target, "holdfast", files_options, env=self._env) as files:
                self._write_records(records, files, files.compressor, older=older)
            self._report.files += tuple(map(str, files.finished))
            self._advance(sum(path.stat().st_size for path in files.finished))
            return
        compressor = RecordCompressor(compression)
        with self._output(target) as sink:
            writer = WarcWriter(sink, compressor=compressor)
            writer.write(warcinfo(self._env, target.name if isinstance(target, Path) else "", version))
            self._write_records(records, writer, compressor, older=older)

    def _wacz(self, records: Iterator[StoredRecord], target: Path) -> None:
        from holdfast.formats.wacz.writer import WaczWriter

        with WaczWriter(target, env=self._env) as wacz:

            def note(stored: StoredRecord, offset: int, length: int) -> None:
                if not is_captured(stored.entry):
                    return
                capture = stored.capture._replace(filename=_WACZ_WARC, offset=offset, length=length)
                wacz.add_index_line(cdxj_line(capture).encode("utf-8", "surrogateescape"))
                if capture.mime in HTML_TYPES and capture.status == "200":
                    wacz.add_page(capture.url, capture.timestamp)

            with wacz.warc(_WACZ_WARC) as sink:
                compressor = RecordCompressor("gzip")
                writer = WarcWriter(sink, compressor=compressor)
                writer.write(warcinfo(self._env, _WACZ_WARC))
                self._write_records(records, writer, compressor, note=note)
        self._report.files += (str(target),)
        self._advance(target.stat().st_size)

    # -- Tianwang and WET ---------------------------------------------------------------------------------------

    def _tianwang(self, records: Iterator[StoredRecord], target: Target, *, compress: bool) -> None:
        with self._output(target) as sink:
            writer = TianwangWriter(sink, compress=compress)
            for stored in records:
                entry = stored.entry
                if entry.type != "response" or entry.url == "-":
                    continue
                ip = entry.ip if entry.ip != "-" else ""
                origin = stored.headers.get("origin") or "" if entry.format.startswith("tianwang/") else ""
                writer.write(page_attributes(entry.url, entry.timestamp, origin=origin, ip=ip), stored.message())
                self._report.records += 1

    def _wet(self, records: Iterator[StoredRecord], target: Target) -> None:
        from holdfast.formats.html.text import has_text, text_of
        from holdfast.formats.wet import wet_record

        packed = isinstance(target, Path) and target.name.endswith(".gz")
        with self._output(target) as sink:
            writer = WarcWriter(sink, compression="gzip" if packed else "none")
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
                    self._report.notes += (str(error),)
                    continue
                if text := text_of(content, content_type):
                    refers_to = stored.headers.get("WARC-Record-ID") or ""
                    writer.write(wet_record(stored.capture, text, refers_to=refers_to))
                    self._report.records += 1

    # -- imported files, exactly --------------------------------------------------------------------------------

    def _exact(self, target: Target, source: str | None) -> None:
        """Writes one file if its name is given, else all of them into a directory. Raises CaptureNotFound."""
        catalog = self._archive.catalog
        lists = list(catalog.sources(source))
        if not lists and source is not None:  # a WACZ is known by its members
            lists = [each for each in catalog.sources() if each[0].startswith(f"{source}:")]
        if not lists:
            raise self._unknown(source)
        if source is not None and not (isinstance(target, Path) and target.is_dir()):
            if len(lists) > 1:
                raise UsageError(f"{len(lists)} files {source!r} were imported: name a directory that exists, for all")
            self._exact_file(*lists[0], target)
            return
        if not isinstance(target, Path):
            raise UsageError("several files cannot be written to a stream: name a directory, or one source")
        target.mkdir(parents=True, exist_ok=True)
        taken: set[str] = set()
        for name, record in lists:
            self._exact_file(name, record, target / _free_name(name, taken))

    def _unknown(self, source: str | None) -> CaptureNotFound:
        known = list(islice(self._archive.catalog.sources(), _NAMES_LISTED + 1))
        if source is None or not known:
            return CaptureNotFound("no file was imported")
        names = ", ".join(repr(name) for name, _ in known[:_NAMES_LISTED])
        more = ", ..." if len(known) > _NAMES_LISTED else ""
        return CaptureNotFound(f"no file {source!r} was imported: known are {names}{more}")

    def _exact_file(self, name: str, manifest: RecordId, target: Target) -> None:
        report, before = self._report, self._report.missing
        entry = self._archive.records.read(manifest).entry
        ending = Path(target.name if isinstance(target, Path) else name).suffix
        with self._output(target) as sink:
            compressor = RecordCompressor("gzip" if ending == ".gz" else "zstd" if ending == ".zst" else "none")
            writer = WarcWriter(sink, compressor=compressor)
            self._write_records(self._listed(entry.data), writer, compressor, exact=True)
        if report.missing > before:
            report.notes += (f"'{name}' is not whole: {report.missing - before} of its records were removed",)
        facts = json.loads(entry.extra)
        if facts.get("truncated"):
            report.notes += (f"'{name}' was damaged: {facts['truncated']} of its records are not whole",)
        if facts.get("lost"):
            lost = facts.get("lost_bytes", 0)
            report.notes += (f"'{name}' is not whole: {lost} bytes could not be read at its import",)

    def _listed(self, manifest: bytes) -> Iterator[StoredRecord]:
        for record in listed(manifest):
            entry = self._archive.records.entry(record)
            if entry is None or entry.type == REMOVED:
                self._report.missing += 1
            else:
                yield self._archive.records.stored(record, entry)


class _CountedSink:
    """A stream that counts what passes."""

    def __init__(self, sink: IO[bytes], advance: Callable[[int], None]) -> None:
        self._sink = sink
        self._advance = advance

    def write(self, data: Buffer) -> int:
        self._sink.write(data)
        self._advance(len(data))
        return len(data)

    def flush(self) -> None:
        self._sink.flush()


def _regular(path: Path) -> Path:
    """The path, if a file can be put there. Raises UsageError or NotFound."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a directory: name a file")
    if path.exists() and not path.is_file():
        raise UsageError(f"'{path}' is not a regular file")
    return require_parent(path)


def _file(target: Target, form: str) -> Path:
    if not isinstance(target, Path):
        raise UsageError(f"{form} cannot be written to a stream: name a file")
    return _regular(target)


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


def _groups(records: Iterable[StoredRecord], source: ExportSource) -> Iterator[_Group]:
    """The records in their order, in groups of bounded size; a large one by itself."""
    group: list[StoredRecord] = []
    size = 0
    for record in records:
        payload_size = record.payload_size
        if payload_size > _LARGE:
            if group:
                yield _Group(group, source.payloads(group))
            yield _Group([record], None)
            group, size = [], 0
            continue
        group.append(record)
        size += payload_size + len(record.entry.data)
        if len(group) >= _GROUP_MAX or size >= _GROUP_BYTES_MAX:
            yield _Group(group, source.payloads(group))
            group, size = [], 0
    if group:
        yield _Group(group, source.payloads(group))


def _decoded(bulk: BulkRead) -> Iterator[Buffer]:
    for content in bulk.decode():
        if isinstance(content, HoldfastError):
            raise content
        yield content


def _assembled(group: _Group, *, exact: bool, older: bool) -> Iterator[Sequence[Buffer]]:
    """The parts of each record."""
    payloads = group.payloads
    assert payloads is not None
    for record in group.records:
        entry = record.entry
        count = len(entry.contentkeys)
        parts: Sequence[Buffer] = (entry.data,)
        if count:
            payload = next(payloads) if count == 1 else b"".join(next(payloads) for _ in range(count))
            parts = lay(entry.data, entry.layout, payload)
        if not exact:
            parts = as_warc(record, parts)
        yield list(as_older_warc(parts)) if older else parts
