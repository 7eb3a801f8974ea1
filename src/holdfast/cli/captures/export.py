"""`holdfast export`: captures as files in standard formats."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import (
    CDX_NAMES,
    archive_option,
    batch_option,
    filter_options,
    filters_of,
    format_of,
    json_option,
    size_option,
    with_default,
)
from holdfast.cli.terminal import (
    STANDARD_STREAM,
    asking,
    counted,
    is_running_node,
    note,
    output_target,
    progress_bar,
    reading,
    require_whole,
    show_json,
)
from holdfast.env.units import rounded_size

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.export import ExportOptions, ExportReport

FORMATS = ("warc", "warc.gz", "warc.zst", "wacz", "tianwang", "cdxj", "cdx", "zipnum", "parquet", "wet")
STREAMED = ("warc", "warc.gz", "warc.zst", "tianwang", "cdxj", "cdx", "wet")


@click.command(context_settings=CDX_NAMES)
@archive_option
@filter_options
@batch_option
@click.option("--format", "form", type=click.Choice(FORMATS), help="By default by the suffix of PATH.")
@click.option("-o", "--output", metavar="PATH", required=True, help="The file or directory; '-' is standard output.")
@click.option("--exact", is_flag=True, help="Write the imported files again, byte for byte but for compression.")
@click.option("--source", metavar="NAME", help="With --exact: only the imported file of this name.")
@click.option("--compress", is_flag=True, help="Compress the data of Tianwang records.")
@size_option("--file-size", "bytes_max", help="Start a new WARC at this size; PATH is a directory.")
@with_default("--warc-version", type=click.Choice(("1.0", "1.1")), default="1.1", help="Of WARC files.")
@json_option
def export(*, archive: Path, **options: Any) -> None:
    """Write captures to files in standard formats.

    All captures, or the ones that filters select. A file gets its name when it is complete.
    """
    from holdfast.archive.export import ExportOptions

    filters = filters_of(options)
    given = {name: options[name] for name in ("exact", "source", "compress", "warc_version")}
    wanted = ExportOptions(_format(options), bytes_max=options["bytes_max"] or 0, **given)
    _require_sense(wanted, options, has_filters=not filters.is_none or filters.query["limit"] is not None)
    selection = filters.selection()
    with (
        (_own if wanted.exact else asking)(archive) as opened,
        output_target(options["output"], streamed=wanted.exact or wanted.format in STREAMED) as target,
        progress_bar("exporting") as progress,
    ):
        report = opened.export(selection, target, wanted, progress)
    _show_export(report, wanted, options["output"], as_json=options["as_json"])
    require_whole(report.coverage)


def _own(archive: Path) -> Archive:
    """Imported files as they were are known to the node where they were imported."""
    if is_running_node(archive):
        note("note: --exact writes the files that were imported at this node, from what it has itself")
    return reading(archive)


def _format(options: dict[str, Any]) -> str:
    """The one that was named, or that of the suffix."""
    if options["form"]:
        return str(options["form"])
    if options["exact"]:
        return "warc"  # not used: the files have their own
    from holdfast.archive.export import SUFFIXES

    if (known := format_of(options["output"], SUFFIXES)) is None:
        raise click.UsageError(f"no format is known by the name '{options['output']}': give --format")
    return str(known)


def _require_sense(wanted: ExportOptions, options: dict[str, Any], *, has_filters: bool) -> None:
    form, output = wanted.format, options["output"]
    if wanted.source is not None and not wanted.exact:
        raise click.UsageError("--source needs --exact")
    if wanted.exact and (has_filters or options["form"]):
        raise click.UsageError("--exact writes whole files as they were: leave out --format and all filters")
    if output == STANDARD_STREAM and options["as_json"]:
        raise click.UsageError("--json needs -o PATH: standard output takes the export")
    if output == STANDARD_STREAM and not wanted.exact and form not in STREAMED:
        raise click.UsageError(f"{form} cannot be written to standard output: give -o PATH")
    if output == STANDARD_STREAM and wanted.exact and wanted.source is None:
        raise click.UsageError("--exact writes one file to standard output only: give --source, or a directory")
    if wanted.compress and form != "tianwang":
        raise click.UsageError("--compress is for --format tianwang")
    if wanted.warc_version != "1.1" and (not form.startswith("warc") or wanted.exact):
        raise click.UsageError("--warc-version is for WARC files that are not written --exact")
    if wanted.bytes_max and (not form.startswith("warc") or wanted.exact or output == STANDARD_STREAM):
        raise click.UsageError("--file-size is for WARC files in a directory")


def _show_export(report: ExportReport, wanted: ExportOptions, output: str, *, as_json: bool) -> None:
    if as_json:
        values = asdict(report) | {"format": None if wanted.exact else wanted.format}
        if (coverage := values.pop("coverage")) is not None and coverage["missing"]:
            values["partial"] = str(report.coverage)
        show_json(values)
        return
    if not report.records:
        note("note: nothing was selected")
    for remark in report.notes:
        note(f"note: {remark}")
    if report.missing:
        note(f"note: {counted(report.missing, 'record')} left out: removed, or a repeat of what is not here")
    what = f"{counted(report.records, 'record')} ({rounded_size(report.bytes)})"
    if output == STANDARD_STREAM:
        return
    where = f"{len(report.files):,} files in '{output}'" if len(report.files) > 1 else f"'{output}'"
    click.echo(f"exported {what} to {where}")
