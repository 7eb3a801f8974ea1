"""The calculator: nodes, storage, traffic, availability and the probability of loss of a scenario (H9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast.arguments import checked
from holdfast.env.extras import require
from holdfast.errors import UsageError
from holdfast.plan.lifetimes import DAY_S
from holdfast.plan.loss import any_loss_probability, loss_probability, mean_time_to_loss
from holdfast.plan.scenario import KBIT, NODES_MAX, Scenario, preset
from holdfast.study.chart import Panel, Series
from holdfast.study.result import StudyResult

YEAR_S = 365 * DAY_S
GOAL = 0.999  # of availability, for which the uptime that it takes is computed
_FIGURES = (("figure", "string"), ("value", "float64"), ("unit", "string"))
_TRAFFIC = (("part", "string"), ("down_kbit_per_s", "float64"), ("up_kbit_per_s", "float64"))
_COPIES = (
    *(("copies", "int64"), ("storage_bytes", "float64"), ("nodes", "int64"), ("kbit_per_s", "float64")),
    *(("unavailable", "float64"), ("lost", "float64")),
)
_LIVES = (("life_days", "float64"), ("kbit_per_s", "float64"), ("repair_kbit_per_s", "float64"), ("lost", "float64"))
_UPTIMES = (("uptime", "float64"), ("copies", "int64"), ("unavailable", "float64"))
_LIFE_DAYS = (7, 14, 30, 60, 90, 180, 365, 730, 1095, 1825, 3650)
_COPIES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class NodeEstimate:
    """What a scenario takes. Traffic is that of a mean node, in bytes a second."""

    scenario: Scenario
    nodes: int

    @classmethod
    def of(cls, scenario: Scenario) -> NodeEstimate:
        """Raises UsageError for values that cannot be."""
        scenario.check()
        storage = scenario.copies * scenario.total_bytes
        needed = storage / (scenario.disk_bytes * scenario.fill)
        if needed > NODES_MAX:
            raise UsageError(f"cannot plan for {needed:.3g} nodes: too many pages, or disks that are too small")
        return cls(scenario, scenario.nodes or max(math.ceil(needed), scenario.copies))

    @property
    def storage_bytes(self) -> float:
        """All copies, at the end."""
        return self.scenario.copies * self.scenario.total_bytes

    @property
    def used_bytes(self) -> float:
        """Of a mean node, at the end."""
        return self.storage_bytes / self.nodes

    @property
    def full_days(self) -> float:
        """Until the nodes are full; 0 if the beginning does not fit, infinite without growth."""
        scenario = self.scenario
        room = self.nodes * scenario.disk_bytes * scenario.fill / scenario.copies - scenario.first_bytes
        if room < 0:
            return 0.0
        return room / scenario.new_bytes_day if scenario.new_bytes_day else math.inf

    @property
    def moves_per_day(self) -> float:
        """How often a node's data moves: when it is lost, when its successor joins, and when it was only away long.

        A node that returns has its data, so that only what was moved until then was in vain.
        """
        scenario = self.scenario
        outages = (1 - scenario.uptime) / scenario.outage_s * DAY_S
        taken_for_lost = outages * math.exp(-scenario.lost_after_s / scenario.outage_s)
        moving = (self.repair_s - scenario.lost_after_s) / scenario.outage_s
        in_vain = -math.expm1(-moving) / moving if moving else 1.0
        return 2 / scenario.life_days + taken_for_lost * in_vain

    def traffic(self) -> dict[str, tuple[float, float]]:
        """Down and up, by part."""
        scenario = self.scenario
        each = 1 / (self.nodes * DAY_S)
        requests = scenario.request_bytes_day * each
        copying = (scenario.copies - 1) * scenario.new_bytes_day * each
        links = scenario.link_bytes_day * each if self.nodes > 1 else 0.0
        repair = self.moves_per_day * self.used_bytes / DAY_S if self.nodes > 1 and scenario.copies > 1 else 0.0
        return {
            "fetching": (scenario.fetched_bytes_day * each, 0.0),
            "conditional requests": (requests, requests),
            "links": (links, links),
            "copies": (copying, copying),
            "repair": (repair, repair),
        }

    @property
    def busiest_bytes_s(self) -> float:
        """The traffic of the busier direction."""
        parts = self.traffic().values()
        return max(sum(down for down, _ in parts), sum(up for _, up in parts))

    @property
    def repair_s(self) -> float:
        """From the loss of a node until other nodes have what it held."""
        scenario = self.scenario
        pullers = max(1.0, min(self.nodes - 1.0, scenario.partitions * scenario.copies / self.nodes))
        largest = max(self.used_bytes / pullers, self.scenario.total_bytes / scenario.partitions)
        return scenario.lost_after_s + largest / (scenario.bandwidth_bytes_s * scenario.uptime)

    @property
    def refill_s(self) -> float:
        """Until a node that joins has its share."""
        return self.used_bytes / (self.scenario.bandwidth_bytes_s * self.scenario.uptime)

    @property
    def unavailability(self) -> float:
        """The probability that no node with a copy is up."""
        return float((1 - self.scenario.uptime) ** self.scenario.copies)

    @property
    def loss(self) -> float:
        """The probability that a page is lost within the time of the scenario."""
        scenario = self.scenario
        life_s, span_s = scenario.life_days * DAY_S, scenario.days * DAY_S
        return loss_probability(scenario.copies, life_s, max(self.repair_s, 1.0), span_s)

    @property
    def holder_sets(self) -> int:
        """How many partitions can be lost independently: those with the same holders are lost together."""
        return min(self.scenario.partitions, math.comb(self.nodes, self.scenario.copies))

    def figures(self) -> list[tuple[str, float, str]]:
        """What is printed first: name, value, unit."""
        scenario, parts = self.scenario, self.traffic()
        down, up = sum(each[0] for each in parts.values()), sum(each[1] for each in parts.values())
        loss = self.loss
        life_s = scenario.life_days * DAY_S
        found = [
            ("contents at the beginning, stored", scenario.first_bytes, "bytes"),
            ("new contents, fetched", scenario.fetched_bytes_day, "bytes/day"),
            ("new contents, stored", scenario.new_bytes_day, "bytes/day"),
            ("contents at the end, stored", scenario.total_bytes, "bytes"),
            ("storage with all copies", self.storage_bytes, "bytes"),
            ("nodes", self.nodes, ""),
            ("used disk of a node", self.used_bytes, "bytes"),
            ("full after", self.full_days, "days"),
            ("bandwidth of a node, down", down / KBIT, "kbit/s"),
            ("bandwidth of a node, up", up / KBIT, "kbit/s"),
            ("share of the bandwidth that a node has", 100 * max(down, up) / scenario.bandwidth_bytes_s, "%"),
            ("bandwidth of all nodes, down", down * self.nodes / KBIT / 1e6, "Gbit/s"),
            ("time to repair a lost node", self.repair_s / 3600, "hours"),
            ("time to fill a new node", self.refill_s / DAY_S, "days"),
            ("pages that cannot be read at a given time", 100 * self.unavailability, "%"),
            (f"uptime for {100 * GOAL:g} % of pages", 100 * (1 - (1 - GOAL) ** (1 / scenario.copies)), "%"),
            ("probability that a page is lost", loss, ""),
            ("pages lost, expected", loss * scenario.pages, ""),
            ("probability that anything is lost", any_loss_probability(loss, self.holder_sets), ""),
            (
                "mean time until a page is lost",
                mean_time_to_loss(scenario.copies, life_s, self.repair_s) / YEAR_S,
                "years",
            ),
        ]
        return [each for each in found if math.isfinite(each[1])]

    def notes(self) -> list[str]:
        """What does not fit."""
        scenario = self.scenario
        found = []
        if scenario.nodes is not None and self.used_bytes > scenario.disk_bytes * scenario.fill:
            needed = math.ceil(self.storage_bytes / (scenario.disk_bytes * scenario.fill))
            found.append(
                f"it does not fit: {needed:,} nodes are needed, {self.nodes:,} are full after "
                f"{self.full_days:,.0f} days"
            )
        if self.busiest_bytes_s > scenario.bandwidth_bytes_s:
            found.append("a node has less bandwidth than it needs: repair cannot keep up, and the losses are too low")
        if scenario.copies == 1:
            found.append("with one copy, what a lost node held is lost")
        if self.nodes * 4 > scenario.partitions * scenario.copies:
            found.append(
                f"{scenario.partitions:,} partitions are too few for {self.nodes:,} nodes: some hold nothing, "
                "and others several times their share"
            )
        return found


@checked
def estimate(scenario: Scenario | str) -> StudyResult:
    """Tables `figures`, `traffic`, `copies`, `lives` and `uptimes` of a scenario or a preset.

    Raises UnknownName and UsageError.
    """
    require("search")
    import pyarrow

    chosen = preset(scenario) if isinstance(scenario, str) else scenario
    found = NodeEstimate.of(chosen)
    copies = [_with_copies(chosen, number) for number in range(1, _COPIES_SHOWN + 1)]
    lives = [_with_life(chosen, float(days)) for days in _LIFE_DAYS]
    uptimes = _uptimes()
    rows: dict[str, tuple[list[dict[str, Any]], Any]] = {
        "figures": (
            [{"figure": name, "value": value, "unit": unit} for name, value, unit in found.figures()],
            _FIGURES,
        ),
        "traffic": (
            [
                {"part": name, "down_kbit_per_s": down / KBIT, "up_kbit_per_s": up / KBIT}
                for name, (down, up) in found.traffic().items()
            ],
            _TRAFFIC,
        ),
        "copies": (copies, _COPIES),
        "lives": (lives, _LIVES),
        "uptimes": (uptimes, _UPTIMES),
    }
    tables = {name: pyarrow.Table.from_pylist(each, pyarrow.schema(schema)) for name, (each, schema) in rows.items()}
    return StudyResult("plan", tables, found.notes(), _panels(chosen, copies, lives, uptimes))


def _with_copies(scenario: Scenario, copies: int) -> dict[str, Any]:
    """As many nodes as that takes."""
    found = NodeEstimate.of(
        scenario.changed(copies=copies, nodes=max(copies, scenario.nodes) if scenario.nodes else None)
    )
    return {
        "copies": copies,
        "storage_bytes": found.storage_bytes,
        "nodes": found.nodes,
        "kbit_per_s": found.busiest_bytes_s / KBIT,
        "unavailable": found.unavailability,
        "lost": found.loss,
    }


def _with_life(scenario: Scenario, days: float) -> dict[str, Any]:
    found = NodeEstimate.of(scenario.changed(life_days=days))
    return {
        "life_days": days,
        "kbit_per_s": found.busiest_bytes_s / KBIT,
        "repair_kbit_per_s": found.traffic()["repair"][0] / KBIT,
        "lost": found.loss,
    }


def _uptimes() -> list[dict[str, Any]]:
    return [
        {"uptime": uptime / 100, "copies": copies, "unavailable": (1 - uptime / 100) ** copies}
        for copies in (1, 2, 3, 4, 6)
        for uptime in (10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)
    ]


def _panels(
    scenario: Scenario, copies: list[dict[str, Any]], lives: list[dict[str, Any]], uptimes: list[dict[str, Any]]
) -> list[Panel]:
    names = [str(row["copies"]) for row in copies]
    shown = "kbit/s"
    losses = []
    for days in (90, 365, 1095):
        rows = [_with_copies(scenario.changed(life_days=float(days)), row["copies"]) for row in copies]
        losses.append(Series(f"life {days} days", [_drawn(row["lost"]) for row in rows], [*range(1, len(rows) + 1)]))
    places = [row["life_days"] for row in lives]
    return [
        Panel("Nodes by copies", "copies", "nodes", [Series("nodes", [row["nodes"] for row in copies])], names),
        Panel(
            "Bandwidth of a node by its mean life",
            "mean life of a node (days)",
            f"bandwidth ({shown})",
            [
                Series("all traffic", [row["kbit_per_s"] for row in lives], places),
                Series("repair only", [row["repair_kbit_per_s"] for row in lives], places),
            ],
            is_log_x=True,
            is_log_y=True,
        ),
        Panel(
            f"Probability that a page is lost within {scenario.days:,.0f} days",
            "copies",
            "probability",
            losses,
            is_log_y=True,
        ),
        Panel(
            "Pages that cannot be read at a given time",
            "uptime of a node (%)",
            "share of pages (%)",
            [
                Series(
                    f"{number} cop{'y' if number == 1 else 'ies'}",
                    [100 * row["unavailable"] for row in uptimes if row["copies"] == number],
                    [100 * row["uptime"] for row in uptimes if row["copies"] == number],
                )
                for number in (1, 3, 6)
            ],
            is_log_y=True,
        ),
    ]


def _drawn(value: float) -> float | None:
    """A logarithmic axis has no 0."""
    return value if value > 1e-300 else None
