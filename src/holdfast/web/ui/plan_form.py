"""The form of plans: an estimate from a preset and what people change in it, and how this archive grows (H9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.catalog.query.search import Permits
from holdfast.env.units import parse_duration, parse_size, rounded_duration, rounded_size
from holdfast.errors import UsageError
from holdfast.plan import PRESETS, Scenario, archive_scenario, estimate, growth, preset
from holdfast.study.engine.run import ClusterArchive
from holdfast.study.engine.scan import Progress
from holdfast.study.result import StudyResult

if TYPE_CHECKING:
    import pyarrow

THIS_ARCHIVE = "archive"
PLANS = ("national", *(name for name in PRESETS if name != "national"), THIS_ARCHIVE)
_DAY_S = 86_400.0
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
    return parse_duration(text) / _DAY_S


def _rate(text: str) -> float:
    return parse_size(text.removesuffix("/s"))


def _count(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _long(days: float) -> str:
    return rounded_duration(days * _DAY_S)


INPUTS = (
    PlanInput("pages", "Pages at the beginning", "1e9", "pages", float, _count),
    PlanInput("page_size", "Size of a page", "70K", "page_bytes", parse_size, rounded_size),
    PlanInput("changed", "Share changed in a day", "0.01", "changed_per_day", float, _count),
    PlanInput("days", "Days to plan for", "1825", "days", float, _count),
    PlanInput("copies", "Copies", "3", "copies", int, _count),
    PlanInput("nodes", "Nodes", "as many as needed", "nodes", int, _count),
    PlanInput("disk", "Disk of a node", "100T", "disk_bytes", parse_size, rounded_size),
    PlanInput(
        *("bandwidth", "Bytes a second of a node", "125M", "bandwidth_bytes_s"),
        _rate,
        lambda value: f"{rounded_size(value)}/s",
    ),
    PlanInput("life", "Mean life of a node", "1825d", "life_days", _days, _long),
    PlanInput("uptime", "Uptime of a node", "0.999", "uptime", float, _count),
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
    changes = {each.field: _read(each, given[each.name]) for each in INPUTS if given.get(each.name, "").strip()}
    scenario = _changed(_scenario(archive, preset, permits, progress), changes)
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
