"""`holdfast export`: captures as files that the rest of the world reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from holdfast.cli.options import (
    CDX_NAMES,
    archive_option,
    batch_option,
    filter_options,
    filters_of,
    json_option,
    read_bytes,
)
from holdfast.cli.output import counted, note, progress_bar, show
from holdfast.env.units import rounded_size

if TYPE_CHECKING:
    from holdfast.archive.export.export import ExportOptions
    from holdfast.archive.export.targets import ExportReport

STANDARD_OUTPUT = "-"
FORMATS = ("warc", "warc.gz", "warc.zst", "wacz", "tianwang", "cdxj", "cdx", "zipnum", "parquet", "wet")
STREAMED = ("warc", "warc.gz", "warc.zst", "tianwang", "cdxj", "cdx", "wet")
_SUFFIXES = {
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


@click.command(context_settings=CDX_NAMES)
@archive_option
@filter_options
@batch_option
@click.option("--format", "form", type=click.Choice(FORMATS), help="By default as the suffix of PATH says.")
@click.option("-o", "--output", metavar="PATH", required=True, help="The file or directory; '-' is standard output.")
@click.option("--exact", is_flag=True, help="Write the imported files again, byte for byte but for compression.")
@click.option("--source", metavar="NAME", help="With --exact: only the imported file of this name.")
@click.option("--compress", is_flag=True, help="Compress the data of Tianwang records.")
@click.option("--file-size", metavar="BYTES", callback=read_bytes, help="Begin a new WARC beyond; PATH is a directory.")
@json_option
def export(*, archive: Path, **options: Any) -> None:
    """Write captures to files of every format.

    All of them, or those that filters choose. A file gets its name when it is whole.
    """
    import holdfast
    from holdfast.archive.export.export import ExportOptions

    filters = filters_of(options)
    wanted = ExportOptions(
        _format(options),
        exact=options["exact"],
        source=options["source"],
        compress=options["compress"],
        bytes_max=options["file_size"] or 0,
    )
    _require_sense(wanted, options, has_filters=not filters.is_none or filters.query["limit"] is not None)
    selection = filters.selection()
    with (
        holdfast.open(archive, read_only=True) as opened,
        _target(options["output"], wanted) as target,
        progress_bar("exporting") as progress,
    ):
        if filters.batch is not None:
            opened.journal.require(filters.batch)
        report = opened.export(selection, target, wanted, progress)
    _tell(report, wanted, options["output"], as_json=options["as_json"])


def _format(options: dict[str, Any]) -> str:
    """The one that was named, or that of the longest suffix that is known."""
    if options["form"]:
        return str(options["form"])
    if options["exact"]:
        return "warc"  # not asked: the files have their own
    name = Path(options["output"]).name.lower()
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return _SUFFIXES[suffix]
    raise click.UsageError(f"no format is known by the name '{options['output']}': give --format")


def _require_sense(wanted: ExportOptions, options: dict[str, Any], *, has_filters: bool) -> None:
    form, output = wanted.format, options["output"]
    if wanted.source is not None and not wanted.exact:
        raise click.UsageError("--source needs --exact")
    if wanted.exact and (has_filters or options["form"]):
        raise click.UsageError("--exact writes whole files as they were: leave out --format and all filters")
    if output == STANDARD_OUTPUT and options["as_json"]:
        raise click.UsageError("--json needs -o PATH: standard output takes the export")
    if output == STANDARD_OUTPUT and not wanted.exact and form not in STREAMED:
        raise click.UsageError(f"{form} cannot be written to standard output: give -o PATH")
    if output == STANDARD_OUTPUT and wanted.exact and wanted.source is None:
        raise click.UsageError("--exact writes one file to standard output only: give --source, or a directory")
    if wanted.compress and form != "tianwang":
        raise click.UsageError("--compress is for --format tianwang")
    if wanted.bytes_max and (not form.startswith("warc") or wanted.exact or output == STANDARD_OUTPUT):
        raise click.UsageError("--file-size is for WARC files in a directory")


@contextmanager
def _target(output: str, wanted: ExportOptions) -> Iterator[Path | BinaryIO]:
    """A path; what is no file, such as a pipe, is written to as it is and never replaced."""
    path = Path(output)
    if output == STANDARD_OUTPUT:
        yield sys.stdout.buffer
    elif path.exists() and not path.is_file() and not path.is_dir() and (wanted.exact or wanted.format in STREAMED):
        with path.open("wb") as stream:
            yield stream
    else:
        yield path


def _tell(report: ExportReport, wanted: ExportOptions, output: str, *, as_json: bool) -> None:
    if as_json:
        show(asdict(report) | {"format": None if wanted.exact else wanted.format}, "", as_json=True)
        return
    if not report.records:
        note("note: nothing was selected")
    for remark in report.notes:
        note(f"note: {remark}")
    if report.missing:
        note(f"note: {counted(report.missing, 'record')} left out: removed, or a repeat of what is not here")
    what = f"{counted(report.records, 'record')} ({rounded_size(report.bytes)})"
    if output == STANDARD_OUTPUT:
        return
    where = f"{len(report.files):,} files in '{output}'" if len(report.files) > 1 else f"'{output}'"
    click.echo(f"exported {what} to {where}")
