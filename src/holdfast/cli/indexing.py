"""The index brought up to date at the end of other commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.interrupt import Interruption
from holdfast.cli.output import counted, note
from holdfast.errors import Busy, HoldfastError

if TYPE_CHECKING:
    from holdfast.archive import Archive

index_option = click.option(
    "--index/--no-index",
    default=None,
    help="Whether the index of words is brought up to date; as the settings say.",
)


def is_automatic(archive: Archive, chosen: bool | None) -> bool:
    """What was said on the command line or in the environment wins over the settings."""
    from holdfast.archive import index_keeper

    return index_keeper.is_automatic(archive.settings.index, chosen)


@contextmanager
def kept_up(archive: Archive, *, wanted: bool) -> Iterator[None]:
    """Meanwhile a process of low priority brings the index up to date every so often."""
    if not wanted:
        yield
        return
    from holdfast.archive.index_keeper import IndexKeeper

    with IndexKeeper(archive.path, archive.settings.index.crawl_every_s):
        yield


def bring_up(path: Path, *, quiet: bool) -> None:
    """Indexes what has come. It is derived: that it cannot be done now is worth a warning and no more."""
    import holdfast
    from holdfast.archive import index_keeper

    with Interruption() as interruption, holdfast.open(path, read_only=True) as archive:
        try:
            with interruption.progress_bar("indexing", archive.index.pending(), counts=True) as progress:
                report = index_keeper.bring_up(archive.index, progress)
        except KeyboardInterrupt:
            note("holdfast: what was added is safe, but not yet in the index: 'holdfast index update' goes on")
            raise
        except Busy:
            if not quiet:
                note("note: another process is bringing the index up to date")
            return
        except HoldfastError as error:
            note(f"warning: the index was not brought up to date: {error}")
            return
    if report.captures and not quiet:
        note(f"indexed {counted(report.captures, 'capture')}")
