"""`holdfast import`: records of files into the archive."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.import_inputs import Found, find_inputs
from holdfast.cli.import_report import Holdings, Tally
from holdfast.cli.indexing import bring_up, index_option, is_automatic
from holdfast.cli.interrupt import Interruption, writing
from holdfast.cli.options import archive_option, is_verbose, json_option
from holdfast.cli.output import counted, note
from holdfast.errors import MalformedInput
from holdfast.model import batch_name

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.importing import ImportOptions

JOBS = min(os.cpu_count() or 1, 4)


def _named(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Refused before anything is read."""
    return None if value is None else batch_name(value)


@click.command("import")
@archive_option
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("-c", "--collection", metavar="NAME", callback=_named, help="Of the records; as the settings say.")
@click.option("--batch", metavar="NAME", callback=_named, help="Where the records go; by default that of the month.")
@click.option("--jobs", type=click.IntRange(1, 64), default=JOBS, help=f"Files read at a time; here {JOBS} by default.")
@click.option("--strict", is_flag=True, help="Stop at the first fault of a file.")
@click.option("--no-verify", is_flag=True, help="Do not compare blocks and payloads with their digests.")
@index_option
@json_option
@click.pass_context
def import_(
    context: click.Context,
    *,
    archive: Path,
    paths: tuple[str, ...],
    collection: str | None,
    batch: str | None,
    jobs: int,
    strict: bool,
    no_verify: bool,
    index: bool | None,
    as_json: bool,
) -> None:
    """Add the records of WARC, ARC, WACZ and Tianwang files.

    PATH is a file, a folder, or '-' for standard input. What is damaged is passed over and reported. What is in
    already is not added twice: after an interruption, run the same command again.

    Exits with 11 if something could not be read.
    """
    from holdfast.archive.importing import ImportOptions

    # Indexed below, when the archive is no longer open for writing.
    options = ImportOptions(collection, batch, jobs, strict, not no_verify, index=False)
    tally = Tally(as_json=as_json, verbose=is_verbose(context))
    with ExitStack() as closing, writing(archive) as (opened, interruption):
        with interruption.allowed():
            found = find_inputs(paths, lambda: interruption.pressed, closing)
        _remark(found, verbose=is_verbose(context))
        before = Holdings.of(opened)
        try:
            _import(opened, found, options, tally, interruption)
        except KeyboardInterrupt:
            note("holdfast: what was added stays; run the same command again to go on")
            raise
        tally.summarize(Holdings.of(opened).since(before))
        wanted = is_automatic(opened, index)
    if wanted:
        bring_up(archive, quiet=as_json)
    if tally.failed:
        raise click.exceptions.Exit(MalformedInput.exit_code)


def _import(archive: Archive, found: Found, options: ImportOptions, tally: Tally, interruption: Interruption) -> None:
    from holdfast.archive.importing import ImportReport

    for path, error in found.broken:
        if options.strict:
            raise error
        tally.take(ImportReport(Path(path).name, error=error), path)
    held: list[ImportReport] = []  # until the progress bar has left the terminal
    with interruption.progress_bar("importing", found.total_bytes) as progress:
        for report in archive.iter_import(found.inputs, options, progress):
            if sys.stdout.isatty():
                held.append(report)
            else:
                tally.take(report, found.path_of(report.name))
    interruption.checkpoint()
    for report in held:
        tally.take(report, found.path_of(report.name))


def _remark(found: Found, *, verbose: bool) -> None:
    if found.passed_over:
        note(f"note: passed over {counted(len(found.passed_over), 'file')} of other kinds in folders")
    for path in found.passed_over if verbose else ():
        note(f"note: passed over '{path}'")
