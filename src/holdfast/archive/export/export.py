"""Export: captures and records as files of the formats that other tools read.

    warc, warc.gz, warc.zst   records in the order of the batches, as they came in if that is valid WARC
    wacz                      the same in one file, with index and pages
    tianwang                  responses, in the form of Web InfoMall
    wet                       the text of pages
    cdxj, cdx, zipnum         rows of the catalog, sorted
    parquet                   rows of the catalog as a table, columns named as Common Crawl's

With `exact`, the files that were imported are written again, byte for byte but for their compression (N3). A file
has the suffix `.open` until it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from holdfast.archive.export.exact import export_exact
from holdfast.archive.export.records import export_records
from holdfast.archive.export.targets import ExportReport, ExportTally, output, regular
from holdfast.arguments import check_fields
from holdfast.errors import UnknownName, UsageError
from holdfast.formats.cdx.cdx import CDX11, cdx_line
from holdfast.formats.cdx.cdxj import cdxj_line
from holdfast.formats.cdx.zipnum import ZipNumWriter, loc_line
from holdfast.records.selection import Selection

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive

RECORD_FORMATS = ("warc", "warc.gz", "warc.zst", "wacz", "tianwang", "wet")
ROW_FORMATS = ("cdxj", "cdx", "zipnum", "parquet")
FORMATS = (*RECORD_FORMATS, *ROW_FORMATS)
_LINES = 1000


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What to write."""

    format: str
    exact: bool = False  # the files that were imported, as they were; `format` is theirs
    source: str | None = None  # only the file of this name, with `exact`
    compress: bool = False  # compress the data of Tianwang records
    bytes_max: int = 0  # of one WARC file; then the target is a directory. 0: one file, however large

    def __post_init__(self) -> None:
        check_fields(self)


def export(
    archive: Archive,
    selection: Selection,
    target: Path | BinaryIO,
    options: ExportOptions,
    progress: Callable[[int], None] | None = None,
) -> ExportReport:
    """Writes the selected captures. Raises UsageError before anything is written if the options make no sense."""
    if options.exact:
        return export_exact(archive, target, options.source, progress)
    if options.source is not None:
        raise UsageError("'source' names a file to be written exactly: it needs 'exact'")
    if options.format in ROW_FORMATS:
        return _export_rows(archive, selection, target, options.format, progress)
    if options.format in RECORD_FORMATS:
        return export_records(archive, selection, target, options, progress)
    raise UnknownName(f"unknown format {options.format!r}: known are {', '.join(FORMATS)}")


def _export_rows(
    archive: Archive,
    selection: Selection,
    target: Path | BinaryIO,
    form: str,
    progress: Callable[[int], None] | None,
) -> ExportReport:
    tally = ExportTally(progress)
    if form == "parquet":
        _write_parquet(archive, selection, _path(target, form), tally)
    elif form == "zipnum":
        _write_zipnum(archive, selection, _path(target, form), tally)
    else:
        with output(target, tally) as sink:
            if form == "cdx":
                sink.write(f"{CDX11}\n".encode())
            for lines in _lines(archive, selection, cdx_line if form == "cdx" else cdxj_line, tally):
                sink.write(b"".join(lines))
    return tally.report()


def _path(target: Path | BinaryIO, form: str) -> Path:
    if not isinstance(target, Path):
        raise UsageError(f"{form} cannot be written to a stream: name a file")
    return regular(target)


def _lines(
    archive: Archive, selection: Selection, line: Callable[..., str], tally: ExportTally
) -> Iterator[list[bytes]]:
    captures = selection.captures(archive.catalog)
    while some := list(islice(captures, _LINES)):
        tally.records += len(some)
        yield [line(capture).encode("utf-8", "surrogateescape") + b"\n" for capture in some]


def _write_parquet(archive: Archive, selection: Selection, path: Path, tally: ExportTally) -> None:
    from holdfast.formats.parquet import ParquetCatalogWriter

    with _drafted(path, tally) as draft, ParquetCatalogWriter(draft) as writer:
        captures = selection.captures(archive.catalog)
        while some := list(islice(captures, _LINES)):
            writer.add(some)
            tally.records += len(some)


@contextmanager
def _drafted(path: Path, tally: ExportTally) -> Iterator[Path]:
    """A path to write to; what is there gets the name `path` when all is done."""
    draft = path.with_name(path.name + ".open")
    try:
        yield draft
        tally.advance(draft.stat().st_size)
        draft.replace(path)
        tally.files.append(str(path))
    finally:
        draft.unlink(missing_ok=True)


def _write_zipnum(archive: Archive, selection: Selection, path: Path, tally: ExportTally) -> None:
    """`path` names the index: `name.idx`, beside it `name.cdx.gz` and `name.loc`."""
    stem = path.name.removesuffix(".idx").removesuffix(".cdx.gz")
    cdx, idx, loc = (path.with_name(stem + suffix) for suffix in (".cdx.gz", ".idx", ".loc"))
    with output(cdx, tally) as cdx_sink, output(idx, tally) as idx_sink, output(loc, tally) as loc_sink:
        with ZipNumWriter(cdx_sink, idx_sink, cdx.name) as writer:
            for lines in _lines(archive, selection, cdxj_line, tally):
                for line in lines:
                    writer.add(line)
        loc_sink.write(loc_line(cdx.name).encode())
