"""`holdfast index`: update, rebuild, rank and inspect the index; and its update at the end of other commands."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import archive_option, json_option
from holdfast.cli.terminal import Advance, Interruption, counted, note, reading, show, show_facts
from holdfast.env.units import rounded_size
from holdfast.errors import Busy, HoldfastError

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.index.index import BuildReport, IndexStatus
    from holdfast.index.ranks.ranks import RankingReport
    from holdfast.index.updater import IndexUpdater


@click.group()
def index() -> None:
    """Update or rebuild the index of words, metadata and links."""


ranks_option = click.option("--ranks/--no-ranks", default=True, help="Whether to update page ranks, too.")


@index.command()
@archive_option
@ranks_option
@json_option
def update(*, archive: Path, ranks: bool, as_json: bool) -> None:
    """Index what is new.

    Imports and crawls do this themselves, unless --no-index or the settings say otherwise. The archive is only read:
    others may write to it meanwhile. After an interruption, run it again to continue.
    """
    _write(archive, rebuild=False, ranks=ranks, as_json=as_json)


@index.command()
@archive_option
@ranks_option
@json_option
def build(*, archive: Path, ranks: bool, as_json: bool) -> None:
    """Rebuild the index.

    It may be damaged or missing. Searches use the old one meanwhile. After an interruption, run it again to continue.
    """
    _write(archive, rebuild=True, ranks=ranks, as_json=as_json)


@index.command()
@archive_option
@click.option("--force", is_flag=True, help="Compute them again even if no link has changed.")
@json_option
def rank(*, archive: Path, force: bool, as_json: bool) -> None:
    """Update page ranks and in-links.

    'index update' does this, too. Nothing is done if no capture and no link has changed since the last time.
    """
    with reading(archive) as opened:
        report = opened.index.rank(force=force)
    show(asdict(report), _ranks_text(report), as_json=as_json)


@index.command()
@archive_option
@json_option
def status(*, archive: Path, as_json: bool) -> None:
    """Print what is indexed, and what is not."""
    with reading(archive) as opened:
        found = opened.index.status()
    show_facts(asdict(found), _for_people(found), as_json=as_json)


def _write(archive: Path, *, rebuild: bool, ranks: bool, as_json: bool) -> None:
    with Interruption() as interruption, reading(archive) as opened:
        total, done = opened.index.pending(rebuild=rebuild), 0
        try:
            with interruption.progress_bar("indexing", total, counts=True) as advance:

                def progress(records: int) -> None:
                    nonlocal done
                    done += records
                    advance(records)

                report = opened.index.build(progress) if rebuild else opened.index.update(progress)
            if ranks:
                opened.index.rank()
        except KeyboardInterrupt:
            stays = f"{counted(done, 'record')} {'is' if done == 1 else 'are'} indexed and stay so"
            note(f"holdfast: {stays if done else 'nothing was indexed yet'}; run the same command again to continue")
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


def is_automatic(archive: Archive, chosen: bool | None) -> bool:
    """Whether to update the index; the command line and the environment win over the settings."""
    from holdfast.archive import index_update

    return index_update.is_automatic(archive.settings.index, chosen)


class _TimeOver(Exception):
    """Time for indexing ran out."""

    def __init__(self, left: int) -> None:
        self.left = left


def bring_up(path: Path, *, quiet: bool, until: float | None = None, updater: IndexUpdater | None = None) -> None:
    """Indexes new records, at most until that time of the monotonic clock. Failures are warnings: the index is derived.

    A crawl passes its own `updater`.
    """
    try:
        with Interruption() as interruption:
            report = _brought_up(path, interruption, until, updater)
    except _TimeOver as over:
        if not quiet:
            left = counted(over.left, "record")
            note(f"note: time ran out before {left} could be indexed: 'holdfast index update' continues")
    except KeyboardInterrupt:
        note("holdfast: all additions are safe, but not yet indexed: 'holdfast index update' continues")
        raise
    except Busy:
        if not quiet:
            note("note: another process is updating the index")
    except HoldfastError as error:
        note(f"warning: the index was not updated: {error}")
    else:
        if report.captures and not quiet:
            note(f"indexed {counted(report.captures, 'capture')}")


def _brought_up(
    path: Path, interruption: Interruption, until: float | None, updater: IndexUpdater | None
) -> BuildReport:
    if updater is not None and not updater.is_dead:
        total = updater.finish()
        with interruption.progress_bar("indexing", total, counts=True) as progress:
            return updater.result(_limited(progress, until, total))
    from holdfast.index.updater import bring_up

    with reading(path) as archive:
        total = archive.index.pending()
        with interruption.progress_bar("indexing", total, counts=True) as progress:
            return bring_up(archive.index, _limited(progress, until, total))


def _limited(progress: Advance, until: float | None, left: int) -> Advance:
    """Raises _TimeOver at the first step after that time, or now if it has passed."""

    def step(count: int) -> None:
        nonlocal left
        progress(count)
        left -= count
        if until is not None and time.monotonic() >= until:
            raise _TimeOver(left)

    step(0)
    return step
