"""`holdfast update`: what has come taken into what streams and queries see, and what is superseded removed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.interrupt import writing
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import counted, note, show
from holdfast.env.units import rounded_size

if TYPE_CHECKING:
    from holdfast.archive.update.update import UpdateReport, UpdateStatus


@click.group()
def update() -> None:
    """Take what has come into what streams and queries see; remove what is superseded."""


@update.command()
@archive_option
@json_option
def status(*, archive: Path, as_json: bool) -> None:
    """Print the scheme, the active state, and how many captures are old, unchanged and new (A, B, C)."""
    import holdfast

    with holdfast.open(archive, read_only=True) as opened:
        found = opened.updates.status()
    show(_values(found), "\n".join(_lines(found)), as_json=as_json)


@update.command()
@archive_option
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="For streams that read an older state, before what only that one shows is removed.",
)
@click.option(
    "--min-dead",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Compact only files of which at least this share is reclaimable.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what 'records.keep = \"latest\"' would remove.")
@json_option
def run(*, archive: Path, wait_s: float, min_dead: float, dry_run: bool, as_json: bool) -> None:
    """Update: transfer and switch under the batch scheme; remove what is superseded, and compact.

    Reading goes on meanwhile. Run it again to go on after an interruption.
    """
    from holdfast.archive.update.update import UpdateOptions

    options = UpdateOptions(wait_s, min_dead, dry_run)
    with writing(archive) as (opened, interruption), interruption.progress_bar("updating") as progress:
        done = opened.updates.run(options, progress)
    if not done.leases_ended:
        note(f"holdfast: streams still read an older state after {wait_s:g} s: they miss what was removed")
    show(asdict(done), "\n".join(_told(done, dry_run=dry_run)), as_json=as_json)


def _values(found: UpdateStatus) -> dict[str, Any]:
    values = {
        name: getattr(found, name) for name in ("scheme", "keep", "waiting_blocks", "waiting_bytes", "unfinished")
    }
    active = found.active
    state = {"generation": active.generation, "time": active.time, "batches": dict(active.batches)} if active else None
    return values | {"active": state, "classes": found.classes._asdict()}


def _lines(found: UpdateStatus) -> list[str]:
    keeps = "all captures are kept" if found.keep == "all" else "only the latest capture of a page is kept"
    lines = [f"{found.scheme} updates; {keeps}"]
    if found.active is not None:
        lines.append(f"active state {found.active.generation}, since {found.active.time}")
        lines.append(
            f"waiting in update volumes: {counted(found.waiting_blocks, 'block')} ({rounded_size(found.waiting_bytes)})"
        )
    old, unchanged, new = found.classes
    lines += [
        f"class A (old version)  {old:,}",
        f"class B (unchanged)    {unchanged:,}",
        f"class C (new)          {new:,}",
    ]
    if found.unfinished:
        lines.append(f"an update was interrupted at step '{found.unfinished}': 'holdfast update run' carries it on")
    return lines


def _told(done: UpdateReport, *, dry_run: bool) -> list[str]:
    gone = f"{counted(done.captures, 'superseded capture')} ({counted(done.contents, 'content')})"
    if dry_run:
        return [f"would remove {gone}"]
    lines = ["carried on an update that had been interrupted"] if done.resumed else []
    if done.generation:
        lines.append(f"moved {counted(done.moved.blocks, 'block')} ({rounded_size(done.moved.bytes)}) to read volumes")
        lines.append(f"switched to active state {done.generation}")
    return [*lines, f"removed {gone}", f"reclaimed {rounded_size(done.reclaimed_bytes)}"]
