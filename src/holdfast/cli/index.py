"""`holdfast index`: words, metadata and links of captures, brought up to date, made anew, looked at.

The index brought up to date at the end of other commands.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.interrupt import Interruption
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import Advance, counted, note, show, show_fields
from holdfast.env.units import rounded_size
from holdfast.errors import Busy, HoldfastError

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.index.build import BuildReport
    from holdfast.index.index import IndexStatus
    from holdfast.index.ranks.generations import RankingReport


@click.group()
def index() -> None:
    """Bring the index of words, metadata and links up to date, or make it anew."""


ranks_option = click.option("--ranks/--no-ranks", default=True, help="Whether page ranks are brought up to date, too.")


@index.command()
@archive_option
@ranks_option
@json_option
def update(*, archive: Path, ranks: bool, as_json: bool) -> None:
    """Index what has come since the last time.

    Imports and crawls do this by themselves, unless they are told not to. The archive is only read: others may write to
    it meanwhile. What was interrupted goes on where it stood.
    """
    _write(archive, anew=False, ranks=ranks, as_json=as_json)


@index.command()
@archive_option
@ranks_option
@json_option
def build(*, archive: Path, ranks: bool, as_json: bool) -> None:
    """Make the index anew.

    It may be damaged or missing. Searching goes on with the old one meanwhile. A build that was interrupted goes on
    where it stood.
    """
    _write(archive, anew=True, ranks=ranks, as_json=as_json)


@index.command()
@archive_option
@click.option("--force", is_flag=True, help="Compute them anew even if no link has changed.")
@json_option
def rank(*, archive: Path, force: bool, as_json: bool) -> None:
    """Bring page ranks and in-links up to date.

    'index update' does this, too. Nothing is done if no capture and no link has changed since the last time.
    """
    import holdfast

    with holdfast.open(archive, read_only=True) as opened:
        report = opened.index.rank(force=force)
    show(asdict(report), _ranks_text(report), as_json=as_json)


@index.command()
@archive_option
@json_option
def status(*, archive: Path, as_json: bool) -> None:
    """Tell what is indexed, and what is not."""
    import holdfast

    with holdfast.open(archive, read_only=True) as opened:
        found = opened.index.status()
    if as_json:
        show(asdict(found), "", as_json=True)
    else:
        show_fields(_for_people(found))


def _write(archive: Path, *, anew: bool, ranks: bool, as_json: bool) -> None:
    import holdfast

    with Interruption() as interruption, holdfast.open(archive, read_only=True) as opened:
        total, done = opened.index.pending(rebuild=anew), 0
        try:
            with interruption.progress_bar("indexing", total, counts=True) as advance:

                def progress(records: int) -> None:
                    nonlocal done
                    done += records
                    advance(records)

                report = opened.index.build(progress) if anew else opened.index.update(progress)
            if ranks:
                opened.index.rank()
        except KeyboardInterrupt:
            stays = f"{counted(done, 'record')} {'is' if done == 1 else 'are'} indexed and stay so"
            note(f"holdfast: {stays if done else 'nothing was indexed yet'}; run the same command again to go on")
            raise
    show(asdict(report), _report_text(report), as_json=as_json)


def _ranks_text(report: RankingReport) -> str:
    what = f"{counted(report.pages, 'page')} with {counted(report.links, 'link')}"
    return f"ranked {what}" if report.computed else f"no link has changed: {what} are ranked already"


def _report_text(report: BuildReport) -> str:
    taken = f"; took out {counted(report.removed, 'record')} that left the archive" if report.removed else ""
    if not report.captures:
        return f"nothing to index{taken}"
    return (
        f"indexed {counted(report.captures, 'capture')} with {counted(report.links, 'link')} "
        f"({rounded_size(report.bytes)} read){taken}"
    )


def _for_people(found: IndexStatus) -> dict[str, str]:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(found.failed.items()))
    reached = ", ".join(f"{name}-{serial:010d}" for name, serial in found.batches.items())
    waiting = f"{found.removed_pending:,}"
    if found.unpurged:
        waiting += f"; words of {found.unpurged:,} deleted documents are still on disk: 'holdfast index build'"
    return {
        "captures": f"{found.captures:,}",
        "documents": f"{found.documents:,}",
        "links": f"{found.links:,}",
        "indexed up to": reached or "nothing",
        "not indexed yet": counted(found.pending, "record"),
        "without text": reasons or "0",
        "to be taken out": waiting,
        "on disk": rounded_size(found.bytes),
    }


index_option = click.option(
    "--index/--no-index",
    default=None,
    help="Whether the index of words is brought up to date; as the settings say.",
)


def is_automatic(archive: Archive, chosen: bool | None) -> bool:
    """What was said on the command line or in the environment wins over the settings."""
    from holdfast.archive import index_update

    return index_update.is_automatic(archive.settings.index, chosen)


@contextmanager
def kept_up(archive: Archive, *, wanted: bool) -> Iterator[None]:
    """Meanwhile a process of low priority brings the index up to date every so often."""
    if not wanted:
        yield
        return
    from holdfast.archive.index_update import IndexKeeper

    with IndexKeeper(archive.path, archive.settings.index.crawl_every_s):
        yield


class _TimeOver(Exception):
    """What is left of the index is for another time."""


def bring_up(path: Path, *, quiet: bool, until: float | None = None) -> None:
    """Indexes what has come. It is derived: that it cannot be done now is worth a warning and no more.

    It ends, as far as it has come, at `until`, by the monotonic clock.
    """
    import holdfast
    from holdfast.archive import index_update

    with Interruption() as interruption, holdfast.open(path, read_only=True) as archive:
        try:
            with interruption.progress_bar("indexing", archive.index.pending(), counts=True) as progress:
                report = index_update.bring_up(archive.index, _limited(progress, until))
        except _TimeOver:
            if not quiet:
                left = counted(archive.index.pending(), "record")
                note(f"note: the time is over before {left} could be indexed: 'holdfast index update' goes on")
            return
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


def _limited(progress: Advance, until: float | None) -> Advance:
    """Raises _TimeOver in the place of the first step after that time, and at once if there is none left."""

    def step(count: int) -> None:
        progress(count)
        if until is not None and time.monotonic() >= until:
            raise _TimeOver

    step(0)
    return step
