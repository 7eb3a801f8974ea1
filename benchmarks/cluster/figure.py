"""One figure of a cluster, with all of its repeats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median


@dataclass(frozen=True, slots=True)
class ClusterFigure:
    """What was measured."""

    workload: str
    name: str
    value: float
    unit: str
    values: tuple[float, ...] = ()  # of all repeats

    @property
    def place(self) -> tuple[str, str]:
        """What repeats of the same figure have in common."""
        return self.workload, self.name


def medians(figures: Iterable[ClusterFigure]) -> list[ClusterFigure]:
    """The median of each figure, in the order in which they came first."""
    found: dict[tuple[str, str], list[ClusterFigure]] = {}
    for each in figures:
        found.setdefault(each.place, []).append(each)
    return [
        replace(same[0], value=median(each.value for each in same), values=tuple(each.value for each in same))
        for same in found.values()
    ]
