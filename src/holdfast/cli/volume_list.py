"""`holdfast volume list`: how every volume is, once or again and again (B5)."""

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

from holdfast.cli.options import archive_option, connector_option, json_option
from holdfast.cli.output import in_bytes, show_lines, table_lines

if TYPE_CHECKING:
    from holdfast.archive import VolumeReport

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
        in_bytes(stat.disk_bytes),
        in_bytes(report.capacity_bytes),
        in_bytes(stat.free_bytes),
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
        in_bytes(stat.content_bytes),
        in_bytes(stat.dead_bytes),
        in_bytes(stat.referenced_bytes - stat.content_bytes),
    ]
