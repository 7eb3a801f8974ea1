"""The forms of plans: a preset and what people change in it, estimated or simulated; this archive's growth (H9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.catalog.query.search import Permits
from holdfast.env.units import parse_duration, parse_size, rounded_duration, rounded_size
from holdfast.errors import UsageError
from holdfast.plan import (
    PRESETS,
    Scenario,
    archive_scenario,
    cluster_of,
    estimate,
    growth,
    lives_of,
    preset,
    simulate,
)
from holdfast.plan.estimate import NodeEstimate
from holdfast.plan.lifetimes import DAY_S
from holdfast.plan.simulation import Replacement, SimulatedCluster
from holdfast.study.engine.run import ClusterArchive
from holdfast.study.engine.scan import Progress
from holdfast.study.result import StudyResult

if TYPE_CHECKING:
    import pyarrow

THIS_ARCHIVE = "archive"
PLANS = ("national", *(name for name in PRESETS if name != "national"), THIS_ARCHIVE)
REPLACEMENTS = tuple(Replacement)
SIMULATED_NODES_MAX = 20_000
SIMULATED_DEATHS_MAX = 5_000  # of all runs: some seconds
_SIMULATED_DAYS_MAX = 1_000_000
_YEAR_DAYS = 365
_INPUTS = (("input", "string"), ("value", "string"))


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A value of a scenario that can be given; `read` raises UsageError or ValueError."""

    name: str
    label: str
    example: str
    field: str  # of the scenario
    read: Callable[[str], float]
    show: Callable[[float], str]


def _days(text: str) -> float:
    return parse_duration(text) / DAY_S


def _rate(text: str) -> float:
    return parse_size(text.removesuffix("/s"))


def _rate_text(value: float) -> str:
    return f"{rounded_size(value)}/s"


def _count(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _long(days: float) -> str:
    return rounded_duration(days * DAY_S)


INPUTS = (
    PlanInput("pages", "Pages at the beginning", "1e9", "pages", float, _count),
    PlanInput("page_size", "Size of a page", "70K", "page_bytes", parse_size, rounded_size),
    PlanInput("changed", "Share changed in a day", "0.01", "changed_per_day", float, _count),
    PlanInput("days", "Days to plan for", "1825", "days", float, _count),
    PlanInput("copies", "Copies", "3", "copies", int, _count),
    PlanInput("nodes", "Nodes", "as many as needed", "nodes", int, _count),
    PlanInput("disk", "Disk of a node", "100T", "disk_bytes", parse_size, rounded_size),
    PlanInput("bandwidth", "Bytes a second of a node", "125M", "bandwidth_bytes_s", _rate, _rate_text),
    PlanInput("life", "Mean life of a node", "1825d", "life_days", _days, _long),
    PlanInput("uptime", "Uptime of a node", "0.999", "uptime", float, _count),
)
RUN_INPUTS = (  # of a simulation; its `field` is a parameter
    PlanInput("years", "Years to simulate", "5", "years", float, _count),
    PlanInput("runs", "Runs", "3", "runs", int, _count),
    PlanInput("seed", "Seed", "1", "seed", int, _count),
    PlanInput("shape", "Shape of lives", "1", "shape", float, _count),
)


def examples(values: Mapping[str, str]) -> dict[str, str]:
    """What each input of the form stands at if nothing is written there: the chosen preset's value."""
    scenario = PRESETS.get(values["preset"])
    if scenario is None:
        return {each.name: "as it is here" for each in INPUTS}
    known = {each: getattr(scenario, each.field) for each in INPUTS}
    return {each.name: each.show(value).replace(",", "") for each, value in known.items() if value is not None}


def plan_of(
    archive: Archive | ClusterArchive,
    *,
    preset: str,
    permits: Permits | None = None,
    progress: Progress | None = None,
    collection: str | None = None,
    **given: str,
) -> StudyResult:
    """Tables `figures`, `traffic`, `copies` and `inputs` of the estimate, `growth` and `months` of the archive.

    With access rules, nothing of the archive is shown: it would count what they hide. Raises UsageError.
    """
    scenario = _changed(_scenario(archive, preset, permits, progress), _given(INPUTS, given))
    estimated = estimate(scenario)
    tables = {name: estimated.tables[name] for name in ("figures", "traffic", "copies")}
    tables["inputs"] = _inputs(scenario)
    notes, panels, coverage = list(estimated.notes), list(estimated.panels), None
    if permits is None:
        grown = growth(archive, progress=progress)
        tables |= {"growth": grown.tables["figures"], "months": grown.tables["months"]}
        notes += grown.notes
        panels += grown.panels
        coverage = grown.coverage
    else:
        notes.append("access rules hide captures, so the growth of this archive is not shown here")
    return StudyResult("plan", tables, notes, panels, coverage)


def simulation_of(
    archive: Archive | ClusterArchive,
    *,
    preset: str,
    replacement: str,
    permits: Permits | None = None,
    progress: Progress | None = None,
    collection: str | None = None,
    **given: str,
) -> StudyResult:
    """Tables `figures` and `years` of a simulated cluster, and `inputs`. `progress` is called for simulated days.

    Bounded to what takes some seconds. Raises UsageError.
    """
    scenario = _changed(_scenario(archive, preset, permits, None), _given(INPUTS, given))
    years, runs, seed, shape = (_run_value(name, given) for name in ("years", "runs", "seed", "shape"))
    _check_size(scenario, years * runs)
    lives = lives_of(scenario.life_days, shape if given.get("shape", "").strip() else None)
    cluster = cluster_of(scenario, lives=lives, replacement=replacement, years=years)
    _check_deaths(cluster, years * runs)
    made = simulate(cluster, years=years, runs=int(runs), seed=int(seed), progress=progress)
    inputs = _inputs(scenario.changed(nodes=cluster.nodes))
    return StudyResult("simulation", {**made.tables, "inputs": inputs}, made.notes, made.panels)


def simulated_days(values: Mapping[str, str]) -> int:
    """How many days a simulation has, for its progress. Raises UsageError."""
    return int(min(_SIMULATED_DAYS_MAX, max(0, _YEAR_DAYS * _run_value("years", values) * _run_value("runs", values))))


def _run_value(name: str, values: Mapping[str, str]) -> float:
    each = next(each for each in RUN_INPUTS if each.name == name)
    return _read(each, values.get(name, "").strip() or each.example)


_LARGER = "'holdfast plan simulate' has no such limit"


def _check_size(scenario: Scenario, years: float) -> None:
    """Before anything is built that takes long."""
    if not 0 < years * _YEAR_DAYS <= _SIMULATED_DAYS_MAX:
        most = _SIMULATED_DAYS_MAX // _YEAR_DAYS
        raise UsageError(
            f"cannot simulate {years:g} years: give more than 0, and at most {most:,} of all runs together"
        )
    nodes = NodeEstimate.of(scenario).nodes
    if nodes > SIMULATED_NODES_MAX:
        raise UsageError(f"cannot simulate {nodes:,} nodes here, at most {SIMULATED_NODES_MAX:,}; {_LARGER}")


def _check_deaths(cluster: SimulatedCluster, years: float) -> None:
    deaths = cluster.nodes * years * _YEAR_DAYS * DAY_S / cluster.lives.mean_s
    if deaths > SIMULATED_DEATHS_MAX:
        raise UsageError(
            f"cannot simulate {deaths:,.0f} losses of nodes here, at most {SIMULATED_DEATHS_MAX:,}: "
            f"give fewer nodes, years or runs, or longer lives; {_LARGER}"
        )


def _scenario(
    archive: Archive | ClusterArchive, name: str, permits: Permits | None, progress: Progress | None
) -> Scenario:
    if name != THIS_ARCHIVE:
        return preset(name)
    if permits is not None:
        raise UsageError("access rules hide captures, so no plan is made from this archive here: choose another preset")
    return archive_scenario(archive, progress=progress)


def _changed(scenario: Scenario, changes: dict[str, float]) -> Scenario:
    """More copies than an archive has nodes need more nodes."""
    copies = changes.get("copies")
    if copies is not None and "nodes" not in changes and scenario.nodes is not None:
        changes = changes | {"nodes": max(int(copies), scenario.nodes)}
    return scenario.changed(**changes)


def _given(inputs: Sequence[PlanInput], values: Mapping[str, str]) -> dict[str, float]:
    """What is given of these inputs, by field."""
    return {each.field: _read(each, values[each.name]) for each in inputs if values.get(each.name, "").strip()}


def _read(each: PlanInput, text: str) -> float:
    try:
        return each.read(text.strip())
    except (ValueError, OverflowError):
        raise UsageError(
            f"bad {each.name}: {text[:40]!r} is not a number; write '{each.example}' or the like"
        ) from None


def _inputs(scenario: Scenario) -> pyarrow.Table:
    import pyarrow

    rows: list[dict[str, Any]] = []
    for each in INPUTS:
        value = getattr(scenario, each.field)
        rows.append({"input": each.label, "value": each.example if value is None else each.show(value)})
    return pyarrow.Table.from_pylist(rows, pyarrow.schema(_INPUTS))
