"""Simulated clusters, several times if wanted: losses, moved bytes and times of repair beside the calculator's (H9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast.arguments import checked
from holdfast.env.extras import require
from holdfast.errors import UnknownName, UsageError
from holdfast.plan.estimate import NodeEstimate
from holdfast.plan.lifetimes import DAY_S, ExponentialLives, NodeLives, WeibullLives
from holdfast.plan.loss import COPIES_MAX, loss_probability
from holdfast.plan.scenario import KBIT, Scenario, preset
from holdfast.plan.simulation import Replacement, SimulatedCluster, Simulation
from holdfast.study.chart import Panel, Series
from holdfast.study.display import in_size_unit
from holdfast.study.result import StudyResult
from holdfast.study.statistics.mean import mean_interval

NODES_MAX = 1_000_000
PARTITIONS_MAX = 1 << 23
YEARS_MAX = 1000
RUNS_MAX = 10_000
COPIES_A_NODE = 16  # that the default number of partitions gives each, at least
HASHES_MAX = 30_000_000  # about 10 seconds
_YEAR_S = 365 * DAY_S
_FIGURES = (
    *(
        ("figure", "string"),
        ("value", "float64"),
        ("value_low", "float64"),
        ("value_high", "float64"),
        ("unit", "string"),
    ),
    ("calculated", "float64"),
)
_YEARS = (
    *(("year", "int64"), ("deaths", "float64"), ("joins", "float64"), ("moved_bytes", "float64")),
    *(("incomplete_percent", "float64"), ("lost_percent", "float64")),
)


def usual_partitions(nodes: int, copies: int, least: int = 1024) -> int:
    """1024 as in a new cluster, or the power of two that gives each node some."""
    return max(least, 1 << math.ceil(math.log2(max(1.0, nodes * COPIES_A_NODE / copies))))


@checked
def lives_of(mean_days: float, shape: float | None = None) -> NodeLives:
    """Exponential lives, or with a shape those of Weibull. Raises UsageError."""
    if not 0 < mean_days < math.inf:
        raise UsageError(f"bad mean life: {mean_days:g} days must be more than 0, and finite")
    if shape is None:
        return ExponentialLives(mean_days * DAY_S)
    if not 0.1 <= shape <= 20:
        raise UsageError(f"bad shape of lives: {shape:g} must be 0.1 to 20")
    return WeibullLives(mean_days * DAY_S, shape)


@checked
def cluster_of(
    scenario: Scenario | str,
    *,
    nodes: int | None = None,
    partitions: int | None = None,
    lives: NodeLives | None = None,
    replacement: Replacement | str = Replacement.JOIN,
    liars: float = 0.0,
    check_s: float = 3600.0,
    years: float = 10.0,
) -> SimulatedCluster:
    """The cluster of a scenario or a preset, with the contents that it begins with, and as they grow.

    Raises UnknownName and UsageError.
    With other than the scenario's nodes, each node has as much as in the scenario.
    """
    scenario = preset(scenario) if isinstance(scenario, str) else scenario
    if replacement not in list(Replacement):
        raise UnknownName(f"no replacement {replacement!r}: there are {', '.join(Replacement)}")
    found = NodeEstimate.of(scenario)
    count = nodes or found.nodes
    scale = count / found.nodes
    lives = lives or lives_of(scenario.life_days)
    number = partitions or usual_partitions(count, scenario.copies)
    joins = count * years * _YEAR_S / max(lives.mean_s, 1.0) if replacement != Replacement.NONE else 0
    made = SimulatedCluster(
        nodes=count,
        copies=scenario.copies,
        partitions=number,
        lives=lives,
        stored_bytes=scenario.total_bytes * scale,
        bandwidth_bytes_s=scenario.bandwidth_bytes_s * scenario.uptime,
        lost_after_s=scenario.lost_after_s,
        replacement=Replacement(replacement),
        liars=liars,
        check_s=check_s,
        is_hashed=(count + joins) * number <= HASHES_MAX,
    )
    _check(made)
    return made


def _check(cluster: SimulatedCluster) -> None:
    if not 1 <= cluster.copies <= COPIES_MAX:
        raise UsageError(f"cannot simulate {cluster.copies} copies: it must be 1 to {COPIES_MAX}")
    if not cluster.copies <= cluster.nodes <= NODES_MAX:
        raise UsageError(
            f"cannot simulate {cluster.nodes:,} nodes: it must be as many as copies ({cluster.copies}) to {NODES_MAX:,}"
        )
    if not 1 <= cluster.partitions <= PARTITIONS_MAX:
        raise UsageError(f"cannot simulate {cluster.partitions:,} partitions: it must be 1 to {PARTITIONS_MAX:,}")
    if not 0 <= cluster.liars < 1:
        raise UsageError(f"bad share of nodes that lie: {cluster.liars:g} must be from 0 to less than 1")
    if not 0 < cluster.check_s < math.inf:
        raise UsageError("bad time between checks: it must be more than 0, and finite")
    if not 0 < cluster.bandwidth_bytes_s < math.inf:
        raise UsageError("bad bandwidth: it must be more than 0, and finite")
    if not (0 <= cluster.stored_bytes < math.inf and 0 <= cluster.lost_after_s < math.inf):
        raise UsageError("bad size or time: it must be finite, and not negative")
    if cluster.repair_s is not None and not 0 < cluster.repair_s < math.inf:
        raise UsageError("bad time of repair: it must be more than 0, and finite")
    if not 60.0 <= cluster.lives.mean_s < math.inf:
        raise UsageError("bad lives: their mean must be a minute or more, and finite")


@checked
def simulate(
    cluster: SimulatedCluster,
    *,
    years: float = 10.0,
    runs: int = 1,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> StudyResult:
    """Tables `figures` and `years`; means over runs, with 95 % confidence intervals if there are several.

    `progress` is called with 1 for every simulated day. Raises UsageError.
    """
    require("search")
    import pyarrow

    _check(cluster)
    if not 0 < years <= YEARS_MAX:
        raise UsageError(f"cannot simulate {years:g} years: it must be more than 0, and at most {YEARS_MAX}")
    if not 1 <= runs <= RUNS_MAX:
        raise UsageError(f"cannot simulate {runs} runs: it must be 1 to {RUNS_MAX:,}")
    histories = []
    step = (lambda: progress(1)) if progress is not None else lambda: None
    for run in range(runs):
        simulation = Simulation(cluster, seed + run)
        histories.append((_figures_of(simulation, years, rows := _years_of(simulation, years, step)), rows))
    figures = _summary(cluster, years, [each for each, _ in histories])
    rows = _mean_rows([rows for _, rows in histories])
    tables = {
        "figures": pyarrow.Table.from_pylist(figures, pyarrow.schema(_FIGURES)),
        "years": pyarrow.Table.from_pylist(rows, pyarrow.schema(_YEARS)),
    }
    return StudyResult("simulation", tables, _notes(cluster, runs, figures), _panels(cluster, rows))


def _years_of(simulation: Simulation, years: float, step: Callable[[], None]) -> list[dict[str, float]]:
    """Runs the simulation; a row for each year, the last of which may be shorter."""
    rows = []
    counts = simulation.counts
    for year in range(1, math.ceil(years) + 1):
        deaths, joins, moved, lost = counts.deaths, counts.joins, counts.moved_bytes, counts.lost_partitions
        simulation.run_until(min(float(year), years) * _YEAR_S, step)
        incomplete = (simulation.copies_in_sync() < simulation.cluster.copies) & ~simulation.lost
        rows.append(
            {
                "year": year,
                "deaths": counts.deaths - deaths,
                "joins": counts.joins - joins,
                "moved_bytes": counts.moved_bytes - moved,
                "incomplete_percent": 100 * float(incomplete.mean()),
                "lost_percent": 100 * (counts.lost_partitions - lost) / simulation.cluster.partitions,
            }
        )
    return rows


def _figures_of(simulation: Simulation, years: float, rows: Sequence[dict[str, float]]) -> dict[str, tuple[float, str]]:
    counts, cluster = simulation.counts, simulation.cluster
    load = simulation.load()
    node_s = years * _YEAR_S * cluster.nodes
    found = {
        "nodes that died": (counts.deaths, ""),
        "nodes that joined": (counts.joins, ""),
        "copies repaired": (counts.repaired_copies, ""),
        "copies handed over to new nodes": (counts.handed_over_copies, ""),
        "moved bytes": (float(counts.moved_bytes), "bytes"),
        "traffic of a node for repair": (counts.moved_bytes / node_s / KBIT, "kbit/s"),
        "mean time of repair": (counts.repair_s / max(1, counts.repaired_copies) / 3600, "hours"),
        "95 % of repairs within": (simulation.repair_quantile_s(0.95) / 3600, "hours"),
        "longest repair": (counts.repair_longest_s / 3600, "hours"),
        "partitions with too few copies, at year's end": (
            float(np.mean([row["incomplete_percent"] for row in rows])),
            "%",
        ),
        "fullest node, relative to the mean": (
            float(load.max() / load.mean()) if len(load) and load.any() else 0.0,
            "",
        ),
        "nodes that hold nothing": (float((load == 0).mean() * 100) if len(load) else 100.0, "%"),
        "partitions lost": (float(counts.lost_partitions), ""),
        "probability that a page is lost": (float(simulation.lost.mean()), ""),
    }
    if cluster.liars:
        found["nodes that lied and were expelled"] = counts.expelled, ""
        found["honest nodes that were outvoted"] = counts.expelled_honest, ""
    return found


def _summary(
    cluster: SimulatedCluster, years: float, found: Sequence[dict[str, tuple[float, str]]]
) -> list[dict[str, Any]]:
    calculated = _calculated(cluster, years)
    rows = []
    for name, (_, unit) in found[0].items():
        values = np.array([each[name][0] for each in found])
        low, high = mean_interval(values.tolist())
        mean = float(values.mean())
        rows.append(
            {
                "figure": name,
                "value": mean,
                "value_low": low,
                "value_high": high,
                "unit": unit,
                "calculated": calculated.get(name),
            }
        )
    return rows


def _calculated(cluster: SimulatedCluster, years: float) -> dict[str, float]:
    """What the calculator and the chain say of the same cluster."""
    life_s, span_s = cluster.lives.mean_s, years * _YEAR_S
    if cluster.replacement is Replacement.NONE:
        return {}
    one_s = cluster.stored_bytes / cluster.partitions / cluster.bandwidth_bytes_s
    held = cluster.partitions * cluster.copies / cluster.nodes
    if cluster.replacement is Replacement.SAME:
        mean_s, moves = (held + 1) / 2 * one_s, 1
    else:
        mean_s, moves = (1 + held / max(1, cluster.nodes - 1) / 2) * one_s, 2  # behind others that the puller got
    repair_s = cluster.repair_s if cluster.repair_s is not None else cluster.lost_after_s + mean_s
    deaths = cluster.nodes * span_s / (life_s + (cluster.lost_after_s if moves == 1 else 0))
    moved = moves * cluster.stored_bytes * cluster.copies * deaths / cluster.nodes
    if cluster.copies == 1:  # what died cannot be repaired
        moved = 0.0
    found = {
        "nodes that died": deaths,
        "moved bytes": moved,
        "traffic of a node for repair": moved / span_s / cluster.nodes / KBIT,
        "mean time of repair": repair_s / 3600,
        "probability that a page is lost": loss_probability(cluster.copies, life_s, max(repair_s, 1.0), span_s),
    }
    if cluster.copies == 1 or cluster.repair_s is not None or cluster.liars:
        for name in ("mean time of repair", "moved bytes", "traffic of a node for repair"):
            found.pop(name)
    if cluster.liars:
        found.pop("probability that a page is lost")
    return found


def _mean_rows(histories: Sequence[Sequence[dict[str, float]]]) -> list[dict[str, Any]]:
    rows = []
    for each in zip(*histories, strict=True):
        means = {name: float(np.mean([row[name] for row in each])) for name in each[0]}
        rows.append(means | {"year": int(means["year"])})
    return rows


def _notes(cluster: SimulatedCluster, runs: int, figures: Sequence[dict[str, Any]]) -> list[str]:
    notes = []
    if not cluster.is_hashed:
        notes.append("nodes were ranked by draws instead of hashes: the hashes of so many nodes would take too long")
    if runs == 1:
        notes.append("one run has no confidence interval: use several (--runs)")
    lost = next(row["value"] for row in figures if row["figure"] == "partitions lost")
    if not lost:
        notes.append(
            f"no partition of {runs * cluster.partitions:,} was lost: 'calculated' is a probability that is too small "
            "to be seen here"
        )
    return notes


def _panels(cluster: SimulatedCluster, rows: Sequence[dict[str, Any]]) -> list[Panel]:
    names = [str(row["year"]) for row in rows]
    lost = np.cumsum([row["lost_percent"] for row in rows]).tolist()
    unit, moved = in_size_unit([row["moved_bytes"] for row in rows])
    return [
        Panel(
            "Moved by repair and hand-over",
            "year",
            f"moved ({unit})",
            [Series("moved", moved)],
            names,
        ),
        Panel(
            "Partitions with too few copies, and lost ones",
            "year",
            "share of partitions (%)",
            [Series("too few copies", [row["incomplete_percent"] for row in rows]), Series("lost so far", lost)],
            names,
        ),
    ]
