"""`holdfast volume`: list and add volumes, change their state, move, compact and train them.

`holdfast volume list`: how every volume is, once or again and again (B5).

`holdfast volume repair`, `rebalance` and `mend`: volumes brought in line, with each other and with themselves.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.interrupt import Interruption, writing, writing_contents
from holdfast.cli.options import Shape, archive_option, connector_option, json_option, read_bytes, shape_options
from holdfast.cli.output import counted, note, show, show_lines, table_lines
from holdfast.cli.volume_serve import init, secret, serve
from holdfast.config import VolumeSettings
from holdfast.env.units import rounded_size
from holdfast.errors import Damaged, VolumeDown
from holdfast.model import VolumeState

if TYPE_CHECKING:
    from holdfast.archive import Archive, Connection, VolumeReport


_LOOK_S = 0.1  # how long Ctrl-C may go unnoticed
_WORDS = 4  # columns at the beginning that hold no numbers
_HEADING = ("NAME", "ORGANIZATION", "STATE", "ACTIVITY", "BLOCKS", "ON DISK", "CAPACITY", "FREE", "DEAD", "WAITING")
_WIDE = ("ROLE", "WEIGHT", "CLIENTS", "REFERENCES", "REPLICAS", "CONTENTS", "RECLAIMABLE", "SAVED BY DUPLICATES")
_PLACE = "PLACE"


@click.command("list")
@archive_option
@connector_option
@click.option("--wide", is_flag=True, help="Print all columns.")
@click.option(
    "--watch",
    "watch_s",
    metavar="SECONDS",
    type=click.FloatRange(0.1),
    help="Look again every so many seconds, until Ctrl-C.",
)
@json_option
def list_(*, archive: Path, connector: Path | None, wide: bool, watch_s: float | None, as_json: bool) -> None:
    """Print a table of the volumes: what they are doing, how full and how fragmented they are."""
    import holdfast

    opened = holdfast.connect(connector, read_only=True) if connector else holdfast.open(archive, read_only=True)
    with opened:

        def lines() -> list[str]:
            reports = list(opened.volumes())
            return [json.dumps(values_of(each)) for each in reports] if as_json else table_of(reports, wide=wide)

        if watch_s is None:
            show_lines(lines())
        else:
            _watch(lines, watch_s, in_place=sys.stdout.isatty() and not as_json)


class _Ending:
    """Whether Ctrl-C was pressed. A handler may interrupt any line, so it takes no lock."""

    def __init__(self) -> None:
        self.pressed = False

    def press(self, *_: object) -> None:
        self.pressed = True

    def wait(self, seconds: float) -> None:
        """Sleeps, but not much longer than until Ctrl-C."""
        until_s = time.monotonic() + seconds
        while not self.pressed and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _LOOK_S))


def _watch(lines: Callable[[], list[str]], every_s: float, *, in_place: bool) -> None:
    """Shows them until Ctrl-C, which is no failure here: on a terminal in place, else one below the other.

    Ctrl-C waits for the table that is being drawn.
    """
    ending = _Ending()
    before = signal.signal(signal.SIGINT, ending.press)
    try:
        if in_place:
            _draw(lines, every_s, ending)
        while not ending.pressed:
            show_lines(lines())
            ending.wait(every_s)
    finally:
        signal.signal(signal.SIGINT, before)


def _draw(lines: Callable[[], list[str]], every_s: float, ending: _Ending) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, vertical_overflow="crop") as live:
        while not ending.pressed:
            live.update(Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines())), refresh=True)
            ending.wait(every_s)


def values_of(report: VolumeReport) -> dict[str, Any]:
    """Everything that is known of a volume."""
    activity = report.activity
    values = asdict(report.settings) | {"up": report.stat is not None, "activity": activity.state}
    if report.stat is None:
        return values | {"reason": report.reason}
    more = {
        "outstanding": activity.outstanding,
        "clients": activity.clients,
        "capacity_bytes": report.capacity_bytes,
        "fragmentation": report.fragmentation,
        "saved_by_duplicates_bytes": report.stat.referenced_bytes - report.stat.content_bytes,
    }
    return values | asdict(report.stat) | more


def table_of(reports: Sequence[VolumeReport], *, wide: bool) -> list[str]:
    """A table, and below it why volumes are down."""
    heading = [*_HEADING, *(_WIDE if wide else ()), _PLACE]
    rows = [[*_row(each), *(_more(each) if wide else ()), each.place] for each in reports]
    lines = table_lines(heading, rows, left=_WORDS, tail=1)
    down = [f"{each.settings.name} is down: {each.reason}" for each in reports if each.stat is None]
    return [*lines, "", *down] if down else lines


def _row(report: VolumeReport) -> list[str]:
    settings, stat = report.settings, report.stat
    if stat is None or report.capacity_bytes is None or report.fragmentation is None:
        words = [settings.name, settings.organization, settings.state.value, report.activity.state]
        return [*words, *["-"] * (len(_HEADING) - _WORDS)]
    return [
        settings.name,
        stat.organization,
        settings.state.value,
        report.activity.state,
        f"{stat.blocks:,}",
        rounded_size(stat.disk_bytes),
        rounded_size(report.capacity_bytes),
        rounded_size(stat.free_bytes),
        f"{report.fragmentation:.0%}",
        f"{report.activity.outstanding:,}",
    ]


def _more(report: VolumeReport) -> list[str]:
    stat = report.stat
    if stat is None:
        return [report.settings.role or "-", f"{report.settings.weight:g}", *["-"] * (len(_WIDE) - 2)]
    return [
        report.settings.role or "-",
        f"{report.settings.weight:g}",
        f"{report.activity.clients:,}",
        f"{stat.references:,}",
        f"{stat.replicas:,}",
        rounded_size(stat.content_bytes),
        rounded_size(stat.dead_bytes),
        rounded_size(stat.referenced_bytes - stat.content_bytes),
    ]


@click.command()
@archive_option
@connector_option
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
def repair(*, archive: Path, connector: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Bring volumes in line with each other after one was away or lost: from replicas, and with enough of them.

    All volumes are looked at, or what concerns those named. Clients go on meanwhile. Run it again to go on after an
    interruption. Exits with 5 if a content is lost, with 9 if a volume is down: the others are in line then.
    """
    from holdfast.storage.maintenance.merge import Merger
    from holdfast.storage.maintenance.restore import Restorer

    with writing_contents(archive, connector) as (opened, interruption):
        for name in names:
            opened.instance.volume(name).stat()  # one that is down cannot be repaired
        with interruption.progress_bar("repairing") as progress:
            done = Restorer(opened.instance, names).run(progress)
        merged = Merger(opened.instance).run()
    text = (
        f"looked at {counted(done.blocks, 'block')}: {done.restored} restored, {done.aligned} brought in line, "
        f"{done.dictionaries} dictionaries restored, {merged} merged, {done.lost} lost"
    )
    show(asdict(done) | {"merged": merged}, text, as_json=as_json)
    if done.lost:
        raise click.exceptions.Exit(Damaged.exit_code)
    _require_all_up(done.down)


@click.command()
@archive_option
@connector_option
@click.option("--rate-limit", metavar="BYTES/s", callback=read_bytes, help="Read no faster, for example 50M.")
@json_option
def rebalance(*, archive: Path, connector: Path | None, rate_limit: int | None, as_json: bool) -> None:
    """Move blocks to where new ones would be placed now, after a volume was added; their contentkeys stay valid.

    Clients go on meanwhile. Run it again to go on after an interruption. Exits with 9 if a volume is down: then not
    everything was moved.
    """
    from holdfast.storage.maintenance.rebalance import Rebalancer

    with (
        writing_contents(archive, connector) as (opened, interruption),
        interruption.progress_bar("rebalancing") as progress,
    ):
        done = Rebalancer(opened.instance, rate_limit).run(progress)
    text = f"moved {done.moved} of {counted(done.blocks, 'block')} ({rounded_size(done.bytes)})"
    show(asdict(done), text, as_json=as_json)
    _require_all_up(done.down)


def _require_all_up(down: Sequence[str]) -> None:
    """Raises VolumeDown if something is left to be done."""
    if down:
        raise VolumeDown(f"{', '.join(down)} {'was' if len(down) == 1 else 'were'} down; run it again afterwards")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@json_option
def mend(*, directory: Path, as_json: bool) -> None:
    """Repair the files of a volume by themselves, while no server gives it out.

    What it lost for good can come back from replicas: start its server, then run 'holdfast volume repair'.
    """
    from holdfast.env import REAL
    from holdfast.storage.maintenance.mend import mend_volume

    with Interruption() as interruption, interruption.progress_bar("checking") as progress:
        mended = mend_volume(directory.absolute(), REAL, progress)
    for fault in mended.faults:
        show(
            {"event": "fault"} | asdict(fault) | {"key": str(fault.key) if fault.key else None},
            str(fault),
            as_json=as_json,
        )
    values = {"event": "summary", "faults": len(mended.faults), "lost": len(mended.lost)}
    lost = f"; {counted(len(mended.lost), 'block')} lost, 'holdfast volume repair' restores them from replicas"
    text = f"{counted(len(mended.faults), 'fault')} mended{lost if mended.lost else ''}"
    if as_json:
        show(values, "", as_json=True)
    else:
        note(text)


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
    from holdfast.archive.volumes.take_over import take_over as take

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
    text = f"moved {counted(moved.blocks, 'block')} ({rounded_size(moved.bytes)}) out of volume '{name}'"
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
            text = f"{name}: {counted(done.files, 'file')} rewritten, {rounded_size(reclaimed)} reclaimed"
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
            text = f"{name}: dictionary {dictionary.id:08x} of {rounded_size(len(dictionary.data))}"
            show(values, text, as_json=as_json)
            interruption.checkpoint()


def _existing(archive: Archive | Connection, names: tuple[str, ...]) -> list[str]:
    """The names, if each is that of a volume that is up; without names, all that are up."""
    return [archive.instance.volume(name).name for name in names] or list(archive.instance.volumes)
