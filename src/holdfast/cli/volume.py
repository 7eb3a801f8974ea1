"""`holdfast volume`: list and add volumes, change their state, move, compact and train them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.interrupt import writing
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import counted, in_bytes, show, show_table
from holdfast.config import VolumeSettings
from holdfast.model import VolumeState

if TYPE_CHECKING:
    from holdfast.archive import Archive, VolumeReport

_HEADING = (
    "NAME",
    "ORGANIZATION",
    "STATE",
    "BLOCKS",
    "REFERENCES",
    "CONTENTS",
    "ON DISK",
    "RECLAIMABLE",
    "SAVED BY DUPLICATES",
    "FREE",
)
_WORDS = 3  # columns of the heading that hold no numbers


@click.group()
def volume() -> None:
    """List, add, change, move and compact volumes."""


# -- list --------------------------------------------------------------------------------------------------------------


@volume.command("list")
@archive_option
@json_option
def list_(*, archive: Path, as_json: bool) -> None:
    """Print a table of the volumes and how full they are."""
    import holdfast

    with holdfast.open(archive, read_only=True) as opened:
        reports = list(opened.volumes())
    if as_json:
        for report in reports:
            show(_values(report), "", as_json=True)
    else:
        show_table(_HEADING, [_row(report) for report in reports], left=_WORDS)


def _values(report: VolumeReport) -> dict[str, Any]:
    values = asdict(report.settings) | {"up": report.stat is not None}
    if report.stat is None:
        return values | {"reason": report.reason}
    saved = report.stat.referenced_bytes - report.stat.content_bytes
    return values | asdict(report.stat) | {"saved_by_duplicates_bytes": saved}


def _row(report: VolumeReport) -> list[str]:
    settings, stat = report.settings, report.stat
    if stat is None:
        return [settings.name, settings.organization, "down", *["-"] * (len(_HEADING) - _WORDS)]
    return [
        settings.name,
        stat.organization,
        settings.state.value,
        f"{stat.blocks:,}",
        f"{stat.references:,}",
        in_bytes(stat.content_bytes),
        in_bytes(stat.disk_bytes),
        in_bytes(stat.dead_bytes),
        in_bytes(stat.referenced_bytes - stat.content_bytes),
        in_bytes(stat.free_bytes),
    ]


# -- add, set-state ----------------------------------------------------------------------------------------------------


@volume.command()
@archive_option
@click.argument("name")
@click.option("--organization", default="log", show_default=True, help="log or tree.")
@click.option("--depth", default=3, show_default=True, help="Of the directories of organization tree.")
@click.option(
    "--weight", type=click.FloatRange(0), default=1.0, show_default=True, help="Share under weighted placement."
)
@click.option("--path", default="", help="Its directory, if elsewhere; relative paths count from the archive.")
@json_option
def add(*, archive: Path, name: str, organization: str, depth: int, weight: float, path: str, as_json: bool) -> None:
    """Add an empty volume. New contents may go there at once."""
    settings = VolumeSettings(name, organization=organization, weight=weight, depth=depth, path=path)
    with writing(archive) as (opened, _):
        opened.add_volume(settings)
    show(asdict(settings), f"added volume '{name}' of organization {organization}", as_json=as_json)


@volume.command("set-state")
@archive_option
@click.argument("name")
@click.argument("state", type=click.Choice([state.value for state in VolumeState]))
@json_option
def set_state(*, archive: Path, name: str, state: str, as_json: bool) -> None:
    """Let a volume take new contents, or no more of them."""
    with writing(archive) as (opened, _):
        opened.set_state(name, VolumeState(state))
    show({"name": name, "state": state}, f"volume '{name}' is {state}", as_json=as_json)


# -- migrate, compact, train -------------------------------------------------------------------------------------------


@volume.command()
@archive_option
@click.argument("name")
@click.option("--to", "targets", metavar="NAME", multiple=True, help="Only there; may be repeated.")
@json_option
def migrate(*, archive: Path, name: str, targets: tuple[str, ...], as_json: bool) -> None:
    """Make a volume read-only and move all its blocks to others; their contentkeys stay valid.

    Reading goes on meanwhile. Run it again to go on after an interruption.
    """
    with writing(archive) as (opened, interruption), interruption.progress_bar(f"migrating {name}") as progress:
        moved = opened.migrate(name, targets, progress)
    text = f"moved {counted(moved.blocks, 'block')} ({in_bytes(moved.bytes)}) out of volume '{name}'"
    show({"name": name} | asdict(moved), text, as_json=as_json)


@volume.command()
@archive_option
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--min-dead",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Rewrite only files of which at least this share is reclaimable.",
)
@json_option
def compact(*, archive: Path, names: tuple[str, ...], min_dead: float, as_json: bool) -> None:
    """Reclaim the space of removed contents, in all volumes or in those named."""
    with writing(archive) as (opened, interruption):
        for name in _existing(opened, names):
            with interruption.progress_bar(f"compacting {name}") as progress:
                done = opened.compact(name, min_dead, progress)
            reclaimed = done.bytes_before - done.bytes_after
            text = f"{name}: {counted(done.files, 'file')} rewritten, {in_bytes(reclaimed)} reclaimed"
            show({"name": name} | asdict(done), text, as_json=as_json)


@volume.command()
@archive_option
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
def train(*, archive: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Train a compression dictionary from a volume's contents, for contents to come."""
    with writing(archive) as (opened, interruption):
        for name in _existing(opened, names):
            dictionary = opened.train(name)
            values = {"name": name, "dictionary": f"{dictionary.id:08x}", "bytes": len(dictionary.data)}
            text = f"{name}: dictionary {dictionary.id:08x} of {in_bytes(len(dictionary.data))}"
            show(values, text, as_json=as_json)
            interruption.checkpoint()


def _existing(archive: Archive, names: tuple[str, ...]) -> list[str]:
    """The names, if each is that of a volume that is up; without names, all that are up."""
    return [archive.instance.volume(name).name for name in names] or list(archive.instance.volumes)
