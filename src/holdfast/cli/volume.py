"""`holdfast volume`: list and add volumes, change their state, move, compact and train them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.interrupt import writing, writing_contents
from holdfast.cli.options import Shape, archive_option, connector_option, json_option, shape_options
from holdfast.cli.output import counted, in_bytes, show
from holdfast.cli.volume_list import list_
from holdfast.cli.volume_server import init, secret, serve
from holdfast.cli.volume_upkeep import mend, rebalance, repair
from holdfast.config import VolumeSettings
from holdfast.model import VolumeState

if TYPE_CHECKING:
    from holdfast.archive import Archive, Connection


@click.group()
def volume() -> None:
    """List, add, change, move and compact volumes; give them out to other machines."""


volume.add_command(init)
volume.add_command(secret)
volume.add_command(serve)
volume.add_command(list_)
volume.add_command(repair)
volume.add_command(rebalance)
volume.add_command(mend)


# -- add, set-state ----------------------------------------------------------------------------------------------------


@volume.command()
@archive_option
@click.argument("name")
@shape_options
@click.option(
    "--weight", type=click.FloatRange(0), default=1.0, show_default=True, help="Share under weighted placement."
)
@click.option("--path", default="", help="Its directory, if elsewhere; relative paths count from the archive.")
@click.option(
    "--address", metavar="HOST:PORT", default="", help="Of the volume server that has it; nothing is made here."
)
@click.option("--url", default="", help="Of an object store for its segments: s3://bucket/prefix, file:///directory.")
@click.option("--role", type=click.Choice(["update", "read"]), help="Where new contents are taken in by batches.")
@click.option("--force", is_flag=True, help="Add it even if the server at --address does not answer.")
@json_option
def add(
    *,
    archive: Path,
    name: str,
    shape: Shape,
    weight: float,
    path: str,
    address: str,
    url: str,
    role: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Add an empty volume, or one that a server has. New contents may go there at once."""
    settings = VolumeSettings(name, weight=weight, path=path, address=address, url=url, role=role or "", **shape)
    with writing(archive) as (opened, _):
        opened.add_volume(settings, force=force)
    where = f"at {address}" if address else f"of organization {settings.organization}"
    show(asdict(settings), f"added volume '{name}' {where}", as_json=as_json)


@volume.command("set-state")
@archive_option
@connector_option
@click.argument("name")
@click.argument("state", type=click.Choice([state.value for state in VolumeState]))
@json_option
def set_state(*, archive: Path, connector: Path | None, name: str, state: str, as_json: bool) -> None:
    """Let a volume take new contents, or no more of them."""
    with writing_contents(archive, connector) as (opened, _):
        opened.set_state(name, VolumeState(state))
    show({"name": name, "state": state}, f"volume '{name}' is {state}", as_json=as_json)


@volume.command("take-over")
@archive_option
@click.argument("name")
@json_option
def take_over(*, archive: Path, name: str, as_json: bool) -> None:
    """Make this archive the owner of a volume in an object store.

    For a volume whose directory was lost, or whose machine is gone: what had been uploaded is there. If the other owner
    still lives, it can write no more.
    """
    from holdfast.archive.taking_over import take_over as take

    take(archive, name)
    show({"name": name}, f"volume '{name}' belongs to '{archive}' now", as_json=as_json)


# -- migrate, compact, train -------------------------------------------------------------------------------------------


@volume.command()
@archive_option
@connector_option
@click.argument("name")
@click.option("--to", "targets", metavar="NAME", multiple=True, help="Only there; may be repeated.")
@json_option
def migrate(*, archive: Path, connector: Path | None, name: str, targets: tuple[str, ...], as_json: bool) -> None:
    """Make a volume read-only and move all its blocks to others; their contentkeys stay valid.

    Reading goes on meanwhile. Run it again to go on after an interruption.
    """
    with (
        writing_contents(archive, connector) as (opened, interruption),
        interruption.progress_bar(f"migrating {name}") as progress,
    ):
        moved = opened.migrate(name, targets, progress)
    text = f"moved {counted(moved.blocks, 'block')} ({in_bytes(moved.bytes)}) out of volume '{name}'"
    show({"name": name} | asdict(moved), text, as_json=as_json)


@volume.command()
@archive_option
@connector_option
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
def compact(*, archive: Path, connector: Path | None, names: tuple[str, ...], min_dead: float, as_json: bool) -> None:
    """Reclaim the space of removed contents, in all volumes or in those named."""
    with writing_contents(archive, connector) as (opened, interruption):
        for name in _existing(opened, names):
            with interruption.progress_bar(f"compacting {name}") as progress:
                done = opened.compact(name, min_dead, progress)
            reclaimed = done.bytes_before - done.bytes_after
            text = f"{name}: {counted(done.files, 'file')} rewritten, {in_bytes(reclaimed)} reclaimed"
            show({"name": name} | asdict(done), text, as_json=as_json)


@volume.command()
@archive_option
@connector_option
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
def train(*, archive: Path, connector: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Train a compression dictionary from a volume's contents, for contents to come."""
    with writing_contents(archive, connector) as (opened, interruption):
        for name in _existing(opened, names):
            dictionary = opened.train(name)
            values = {"name": name, "dictionary": f"{dictionary.id:08x}", "bytes": len(dictionary.data)}
            text = f"{name}: dictionary {dictionary.id:08x} of {in_bytes(len(dictionary.data))}"
            show(values, text, as_json=as_json)
            interruption.checkpoint()


def _existing(archive: Archive | Connection, names: tuple[str, ...]) -> list[str]:
    """The names, if each is that of a volume that is up; without names, all that are up."""
    return [archive.instance.volume(name).name for name in names] or list(archive.instance.volumes)
