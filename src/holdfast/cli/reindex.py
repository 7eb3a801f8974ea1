"""`holdfast reindex`: the catalog made anew from the batches."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.interrupt import writing
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import counted, show
from holdfast.errors import DamagedBatch, DamagedCatalog


@click.command()
@archive_option
@json_option
def reindex(*, archive: Path, as_json: bool) -> None:
    """Make the catalog anew from the batches.

    It may be damaged or missing. Searching goes on meanwhile. Nothing but the catalog is written.
    """
    from holdfast.env import paths

    try:
        found = _reindex(archive) if (archive / paths.CATALOG).is_dir() else _rebuild(archive)
    except (DamagedBatch, DamagedCatalog):
        found = _rebuild(archive)
    show({"captures": found}, f"the catalog has {counted(found, 'capture')}", as_json=as_json)


def _reindex(archive: Path) -> int:
    with writing(archive) as (opened, interruption), interruption.progress_bar("reading batches") as progress:
        return opened.reindex(progress)


def _rebuild(archive: Path) -> int:
    """Nothing can be asked of the catalog: whoever opens the archive for writing makes a missing one."""
    from holdfast.archive.reindex import forget_catalog

    forget_catalog(archive)
    with writing(archive) as (opened, _):
        return sum(total.captures for total in opened.catalog.totals()[0].values())
