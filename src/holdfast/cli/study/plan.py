"""`holdfast plan`: plans for archiving more of the web, as tables, files and charts (H9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import PATH, archive_option, read_bytes, read_seconds, together
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


def _size(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(name, metavar="SIZE", callback=read_bytes, help=help)


def _time(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(name, metavar="TIME", callback=read_seconds, help=help)


def _number(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(name, type=float, metavar="N", help=help)


scenario_options = together(
    archive_option,
    click.option(
        "--preset", type=click.Choice(PRESETS), default="national", show_default=True, help="Start from this."
    ),
    _number("--pages", "Pages at the beginning."),
    _number("--images", "Images per page."),
    _size("--page-size", "Mean size of a page, as fetched."),
    _size("--image-size", "Mean size of an image."),
    _number("--page-stored", "Stored bytes per fetched byte of a page."),
    _number("--image-stored", "Stored bytes per fetched byte of an image."),
    _number("--changed", "Share of pages that change per day: 0.01."),
    _number("--new", "New pages and images per day, as a share of all."),
    _number("--visits", "Visits to each page per day."),
    _number("--links", "Links per page."),
    _number("--link-length", "Bytes of a link."),
    _number("--days", "How long to plan for."),
    click.option("--copies", type=click.IntRange(1), help="Copies of each content, on different nodes."),
    _size("--disk", "Disk of a node."),
    _number("--fill", "Share of a disk that may be used."),
    _size("--bandwidth", "Bytes per second that a node can transfer, each way."),
    _time("--life", "Mean time until a node leaves for good: 365d."),
    _number("--uptime", "Share of the time that a node is up: 0.99."),
    _time("--outage", "Mean time that a node is away before it returns."),
    _time("--lost-after", "When a node that is away counts as lost, and its data moves."),
    click.option("--partitions", type=click.IntRange(1), help="Partitions of the cluster."),
    click.option("--nodes", type=click.IntRange(1), help="Nodes; as many as are needed by default."),
)
_FIELDS = {  # of a scenario, by option
    "pages": "pages",
    "images": "images_per_page",
    "page_size": "page_bytes",
    "image_size": "image_bytes",
    "page_stored": "page_stored",
    "image_stored": "image_stored",
    "changed": "changed_per_day",
    "new": "new_per_day",
    "visits": "visits_per_day",
    "links": "links_per_page",
    "link_length": "link_bytes",
    "days": "days",
    "copies": "copies",
    "disk": "disk_bytes",
    "fill": "fill",
    "bandwidth": "bandwidth_bytes_s",
    "uptime": "uptime",
    "outage": "outage_s",
    "lost_after": "lost_after_s",
    "partitions": "partitions",
    "nodes": "nodes",
}


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
@click.option("--years", type=float, default=10.0, show_default=True, help="Years to simulate.")
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="Repeat with other seeds.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same history.")
@click.option("--shape", type=float, metavar="N", help="Lives by Weibull with this shape: below 1 many leave early.")
@click.option("--trace", metavar="FILE", type=PATH, help="Lives from a file: one a line, in days.")
@click.option(
    "--replacement",
    type=click.Choice(REPLACEMENTS),
    default="join",
    show_default=True,
    help="After a loss: a new node joins, the same returns with an empty disk, or none.",
)
@click.option("--liars", type=float, default=0.0, help="Share of nodes that claim to hold what they do not.")
@click.option("--check-every", metavar="TIME", callback=read_seconds, default="1h", help="Time between two checks.")
@form_options(SIMULATE)
def simulate(
    *,
    years: float,
    runs: int,
    seed: int,
    shape: float | None,
    trace: Path | None,
    replacement: str,
    liars: float,
    check_every: float,
    **values: Any,
) -> None:
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
        replacement=replacement,
        liars=liars,
        check_s=check_every,
        years=years,
    )
    days = max(1, int(min(years, 1e4) * 365) * runs)
    with Interruption() as interruption, interruption.progress_bar("days", days, counts=True) as advance:
        result = simulate(cluster, years=years, runs=runs, seed=seed, progress=advance)
    show_result(result, values, SIMULATE)


GROWTH = ("figures", "months")


@plan.command("growth")
@archive_option
@click.option("--window", metavar="TIME", callback=read_seconds, default="365d", show_default=True, help="Look back.")
@click.option("--reserve", type=float, default=0.1, show_default=True, help="Share of the disk that stays free.")
@click.option("--growth", metavar="SIZE", callback=read_bytes, help="Bytes per day, instead of the measured growth.")
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
@click.option("--disk", "kind", type=click.Choice(DISKS), default="paper", show_default=True, help="Which disk.")
@click.option("--directory", type=PATH, default=Path(), help="Where to measure a disk; the current one by default.")
@click.option("--seek", type=float, metavar="MS", help="Mean seek in milliseconds.")
@click.option("--short-seek", type=float, metavar="MS", help="Seek to a place nearby.")
@click.option("--turn", type=float, metavar="MS", help="Extra time of a write that does not follow the last one.")
@click.option("--read-rate", metavar="SIZE", callback=read_bytes, help="Bytes per second of sequential reads.")
@click.option("--write-rate", metavar="SIZE", callback=read_bytes, help="Bytes per second of sequential writes.")
@click.option("--size", metavar="SIZE", callback=read_bytes, help="Size of the disk.")
@click.option("--bucket", metavar="SIZE", callback=read_bytes, help="Size of a bucket.")
@click.option("--buffer", metavar="SIZE", callback=read_bytes, help="Size of the buffer for additions.")
@click.option("--page-size", metavar="SIZE", callback=read_bytes, help="Mean size of a page as stored.")
@click.option("--adds", type=float, default=1.0, show_default=True, help="Pages added, in the mix that is compared.")
@click.option("--streams", type=float, default=1.0, show_default=True, help="Pages streamed, in that mix.")
@click.option("--reads", type=float, default=0.1, show_default=True, help="Pages read at random, in that mix.")
@click.option(
    "--measured", metavar="FILE", type=PATH, help="Figures of 'python -m benchmarks webbase' to print beside."
)
@form_options(DISK)
def disk(*, adds: float, streams: float, reads: float, measured: Path | None, **values: Any) -> None:
    """Choose an organization of volumes for a disk, by WebBase's model.

    Tables 3 and 4 of the WebBase paper by the model, beside the paper's figures and measured ones.
    """
    check_form(values)
    from dataclasses import fields

    from holdfast.plan import disk
    from holdfast.plan.disk import PageMix
    from holdfast.plan.disk_model import RepositoryShape

    names = {"size": "disk_bytes", "bucket": "bucket_bytes", "buffer": "buffer_bytes", "page_size": "page_bytes"}
    sizes = {field: float(values[option]) for option, field in names.items() if values[option] is not None}
    assert sizes.keys() <= {each.name for each in fields(RepositoryShape)}
    result = disk(_speed(values), shape=RepositoryShape(**sizes), mix=PageMix(adds, streams, reads), measured=measured)
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
    changes: dict[str, Any] = {"seek_ms": values["seek"], "short_seek_ms": values["short_seek"]}
    changes |= {"turn_ms": values["turn"]}
    if values["seek"] is not None and values["short_seek"] is None:
        changes["short_seek_ms"] = min(speed.short_seek_ms, values["seek"])
    for option, field in (("read_rate", "read_mb_s"), ("write_rate", "write_mb_s")):
        changes[field] = values[option] / MB if values[option] is not None else None
    return replace(speed, **{name: value for name, value in changes.items() if value is not None})


def _scenario(values: dict[str, Any]) -> Scenario:
    """The preset with the values that were given."""
    from holdfast.plan import preset

    chosen = _own_scenario(values["archive"]) if values["preset"] == THIS_ARCHIVE else preset(values["preset"])
    changes = {field: values[option] for option, field in _FIELDS.items()}
    if values["life"] is not None:
        changes["life_days"] = values["life"] / _DAY_S
    if values["preset"] == THIS_ARCHIVE and values["copies"] is not None and values["nodes"] is None:
        changes["nodes"] = max(values["copies"], chosen.nodes or 1)
    return chosen.changed(**changes)


def _own_scenario(path: Path) -> Scenario:
    """This archive; if it is a node of a cluster that runs, the cluster."""
    from holdfast.plan import archive_scenario

    made: Scenario = measured(path, None, 2, lambda opened, progress: archive_scenario(opened, progress=progress))
    return made
