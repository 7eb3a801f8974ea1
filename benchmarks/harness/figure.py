"""One figure: a workload on a subject, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from benchmarks.harness.measure import Cost

OURS = "holdfast"
NO_COST = Cost(0.0, 0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Figure:
    """What was done, and what it cost. Benchmarks that count more derive from it."""

    subject: str
    workload: str
    operations: int
    cost: Cost = NO_COST  # none where only space is measured
    content_bytes: int = 0  # of payloads
    disk_bytes: int = 0  # allocated, of what was written
    apparent_bytes: int = 0
    pages: int = 0  # responses among the records
    callers: int = 1
    form: str = ""  # which of several, such as the size of a catalog
    label: str = ""  # of the workload, for bulk forms
    p50_ms: float = 0.0  # of single operations, where they were timed
    p95_ms: float = 0.0
    seconds_all: tuple[float, ...] = ()  # of all repeats, in order

    @property
    def per_s(self) -> float:
        return self.operations / max(self.cost.seconds, 1e-9)

    @property
    def pages_per_s(self) -> float:
        return self.pages / max(self.cost.seconds, 1e-9)

    @property
    def per_cpu_s(self) -> float:
        return self.operations / max(self.cost.cpu_s, 1e-6)

    @property
    def mb_per_s(self) -> float:
        return self.content_bytes / max(self.cost.seconds, 1e-9) / 1e6

    @property
    def cpu_us(self) -> float:
        """Processor time of one operation."""
        return self.cost.cpu_s / max(self.operations, 1) * 1e6

    @property
    def rss_grown_bytes(self) -> int:
        return max(0, self.cost.rss_peak_bytes - self.cost.rss_before_bytes)

    @property
    def place(self) -> tuple[object, ...]:
        """What repeats of the same measurement have in common."""
        return self.subject, self.workload, self.form, self.callers


F = TypeVar("F", bound=Figure)


def median(repeats: Sequence[F]) -> F:
    """The repeat with the median time (the better one of an even number), with the times of all of them."""
    ordered = sorted(repeats, key=lambda repeat: repeat.cost.seconds)
    return replace(ordered[(len(ordered) - 1) // 2], seconds_all=tuple(repeat.cost.seconds for repeat in repeats))
