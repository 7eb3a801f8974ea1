"""`holdfast plan`: plans for archiving more of the web, as tables, files and charts (H9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import PATH, Decorator, archive_option, duration_option, size_option, together, with_default
from holdfast.cli.study.result import check_form, form_options, show_result
from holdfast.cli.study.study import measured, run_and_show
from holdfast.cli.terminal import Interruption

if TYPE_CHECKING:
    from holdfast.plan.disk_model import DiskSpeed
    from holdfast.plan.scenario import Scenario

THIS_ARCHIVE = "archive"
PRESETS = ("thesis", "national", THIS_ARCHIVE)
DISKS = ("paper", "hdd", "ssd", "nvme", "measured")
REPLACEMENTS = ("join", "same", "none")
_DAY_S = 86400.0


def _number(*names: str, help: str) -> Decorator[Any]:
    return click.option(*names, type=float, metavar="N", help=help)


scenario_options = together(  # named as the fields of a scenario, but for --life
    archive_option,
    with_default("--preset", type=click.Choice(PRESETS), default="national", help="Start from this."),
    _number("--pages", help="Pages at the beginning."),
    _number("--images", "images_per_page", help="Images to a page."),
    size_option("--page-size", "page_bytes", help="Mean size of a page, as fetched."),
    size_option("--image-size", "image_bytes", help="Mean size of an image."),
    _number("--page-stored", help="Stored bytes to a fetched byte of a page."),
    _number("--image-stored", help="Stored bytes to a fetched byte of an image."),
    _number("--changed", "changed_per_day", help="Share of the pages that change in a day: 0.01."),
    _number("--new", "new_per_day", help="New pages and images in a day, as a share of all."),
    _number("--visits", "visits_per_day", help="Visits of each page in a day."),
    _number("--links", "links_per_page", help="Links of a page."),
    _number("--link-length", "link_bytes", help="Bytes of a link."),
    _number("--days", help="How long to plan for."),
    click.option("--copies", type=click.IntRange(1), help="Copies of each content, on different nodes."),
    size_option("--disk", "disk_bytes", help="Disk of a node."),
    _number("--fill", help="Share of a disk that may be used."),
    size_option("--bandwidth", "bandwidth_bytes_s", help="Bytes a second that a node has, each way."),
    duration_option("--life", "life_s", help="Mean time until a node leaves for good: 365d."),
    _number("--uptime", help="Share of the time that a node is up: 0.99."),
    duration_option("--outage", "outage_s", help="Mean time that a node is away before it returns."),
    duration_option(
        "--lost-after", "lost_after_s", help="When a node that is away counts as lost, and its data moves."
    ),
    click.option("--partitions", type=click.IntRange(1), help="Partitions of the cluster."),
    click.option("--nodes", type=click.IntRange(1), help="Nodes; as many as are needed by default."),
)


@click.group()
def plan() -> None:
    """Estimate what it takes to archive the web, or more of it."""


ESTIMATE = ("figures", "traffic", "copies", "lives", "uptimes")


@plan.command("estimate")
@scenario_options
@form_options(ESTIMATE)
def estimate(**values: Any) -> None:
    """Compute nodes, storage, bandwidth, availability and the probability of loss.

    Options change single values of a preset. 'archive' measures this archive, or the cluster of a node that runs.
    """
    check_form(values)
    from holdfast.plan import estimate

    show_result(estimate(_scenario(values)), values, ESTIMATE[:3])


SIMULATE = ("figures", "years")


@plan.command("simulate")
@scenario_options
@with_default("--years", type=float, default=10.0, help="Years to simulate.")
@with_default("--runs", type=click.IntRange(1), default=1, help="Repeat with other seeds.")
@with_default("--seed", type=int, default=1, help="The same seed gives the same history.")
@click.option("--shape", type=float, metavar="N", help="Lives by Weibull with this shape: below 1 many leave early.")
@click.option("--trace", metavar="FILE", type=PATH, help="Lives from a file: one a line, in days.")
@with_default(
    "--replacement",
    type=click.Choice(REPLACEMENTS),
    default="join",
    help="After a loss: a new node joins, the same returns with an empty disk, or none.",
)
@click.option("--liars", type=float, default=0.0, help="Share of nodes that say they have what they have not.")
@duration_option("--check-every", default="1h", help="Between two checks.")
@form_options(SIMULATE)
def simulate(*, years: float, runs: int, seed: int, shape: float | None, trace: Path | None, **values: Any) -> None:
    """Simulate years of a cluster: nodes die and join, partitions move, are repaired and are lost.

    Nodes are as full as at the end of the estimate. The column 'calculated' is what the calculator says of the same.
    """
    check_form(values)
    from holdfast.errors import UsageError
    from holdfast.plan import cluster_of, lives_of, simulate
    from holdfast.plan.lifetimes import read_trace

    if shape is not None and trace is not None:
        raise UsageError("lives come from a trace or have a shape: give one of --trace and --shape")
    scenario = _scenario(values | {"partitions": None})
    lives = read_trace(trace) if trace is not None else lives_of(scenario.life_days, shape)
    cluster = cluster_of(
        scenario,
        partitions=values["partitions"],
        lives=lives,
        replacement=values["replacement"],
        liars=values["liars"],
        check_s=values["check_every"],
        years=years,
    )
    days = max(1, int(min(years, 1e4) * 365) * runs)
    with Interruption() as interruption, interruption.progress_bar("days", days, counts=True) as advance:
        result = simulate(cluster, years=years, runs=runs, seed=seed, progress=advance)
    show_result(result, values, SIMULATE)


GROWTH = ("figures", "months")


@plan.command("growth")
@archive_option
@duration_option("--window", default="365d", help="Look back.")
@with_default("--reserve", type=float, default=0.1, help="Share of the disk that stays free.")
@size_option("--growth", help="Bytes a day, instead of the measured growth.")
@form_options(GROWTH)
def growth(*, archive: Path, window: float, reserve: float, growth: int | None, **form: Any) -> None:
    """Show how this archive grows, and when its disk is full; of a running node, those of the whole cluster."""
    from holdfast.plan import growth as of_archive

    given = float(growth) if growth is not None else None

    def run(opened: Any, progress: Callable[[int], None]) -> Any:
        return of_archive(opened, window_days=window / _DAY_S, reserve=reserve, bytes_day=given, progress=progress)

    run_and_show(archive, None, run, form, GROWTH)


DISK = ("choice", "table_3", "table_4", "disk")


@plan.command("disk")
@with_default("--disk", "kind", type=click.Choice(DISKS), default="paper", help="Which disk.")
@click.option("--directory", type=PATH, default=Path(), help="Where to measure a disk; the current one by default.")
@click.option("--seek", "seek_ms", type=float, metavar="MS", help="Mean seek in milliseconds.")
@click.option("--short-seek", "short_seek_ms", type=float, metavar="MS", help="Seek to a place nearby.")
@click.option("--turn", "turn_ms", type=float, metavar="MS", help="More for a write that does not follow the last one.")
@size_option("--read-rate", help="Bytes read a second, in sequence.")
@size_option("--write-rate", help="Bytes written a second, in sequence.")
@size_option("--size", "disk_bytes", help="Size of the disk.")
@size_option("--bucket", "bucket_bytes", help="Size of a bucket.")
@size_option("--buffer", "buffer_bytes", help="Size of the buffer for additions.")
@size_option("--page-size", "page_bytes", help="Mean size of a page as stored.")
@with_default("--adds", type=float, default=1.0, help="Pages added, in the mix that is compared.")
@with_default("--streams", type=float, default=1.0, help="Pages streamed, in that mix.")
@with_default("--reads", type=float, default=0.1, help="Pages read at random, in that mix.")
@click.option(
    "--measured", metavar="FILE", type=PATH, help="Figures of 'python -m benchmarks webbase' to print beside."
)
@form_options(DISK)
def disk(*, adds: float, streams: float, reads: float, measured: Path | None, **values: Any) -> None:
    """Choose an organization of volumes for a disk, by WebBase's model.

    Tables 3 and 4 of the WebBase paper by the model, beside the paper's figures and measured ones.
    """
    check_form(values)
    from holdfast.plan import disk
    from holdfast.plan.disk import PageMix
    from holdfast.plan.disk_model import RepositoryShape

    shape = RepositoryShape(**_given(values, "disk_bytes", "bucket_bytes", "buffer_bytes", "page_bytes"))
    result = disk(_speed(values), shape=shape, mix=PageMix(adds, streams, reads), measured=measured)
    show_result(result, values, DISK)


def _speed(values: dict[str, Any]) -> DiskSpeed:
    """The disk that was chosen or measured, with the values that were given."""
    from dataclasses import replace

    from holdfast.plan.disk_model import DISKS, MB
    from holdfast.plan.disk_probe import FILE_BYTES, measured_disk

    if values["kind"] == "measured":
        with Interruption() as interruption, interruption.progress_bar("writing", FILE_BYTES) as advance:
            speed = measured_disk(values["directory"], progress=advance)
    else:
        speed = DISKS[values["kind"]]
    changes = _given(values, "seek_ms", "short_seek_ms", "turn_ms")
    if "seek_ms" in changes:
        changes.setdefault("short_seek_ms", min(speed.short_seek_ms, changes["seek_ms"]))
    rates = _given(values, "read_rate", "write_rate")
    return replace(speed, **changes, **{name.replace("rate", "mb_s"): rate / MB for name, rate in rates.items()})


def _given(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """The options of these names that were given."""
    return {name: float(values[name]) for name in names if values[name] is not None}


def _scenario(values: dict[str, Any]) -> Scenario:
    """The preset with the values that were given."""
    from dataclasses import fields

    from holdfast.plan import preset

    chosen = _own_scenario(values["archive"]) if values["preset"] == THIS_ARCHIVE else preset(values["preset"])
    changes = {each.name: values.get(each.name) for each in fields(chosen)}
    if values["life_s"] is not None:
        changes["life_days"] = values["life_s"] / _DAY_S
    if values["preset"] == THIS_ARCHIVE and values["copies"] is not None and values["nodes"] is None:
        changes["nodes"] = max(values["copies"], chosen.nodes or 1)
    return chosen.changed(**changes)


def _own_scenario(path: Path) -> Scenario:
    """This archive; if it is a node of a cluster that runs, the cluster."""
    from holdfast.plan import archive_scenario

    made: Scenario = measured(path, None, 2, lambda opened, progress: archive_scenario(opened, progress=progress))
    return made
