"""One figure: how long the clients of a subject took for all documents."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.harness.figure import Figure
from benchmarks.webstore.workload import Experiment, Line


@dataclass(frozen=True, slots=True)
class WebstoreFigure(Figure):
    """A point of a line of one of the paper's figures.

    The workload is the line. The time is from the first client's start to the last one's end, the processor time that
    of servers and clients.
    """

    experiment: Experiment = Experiment.STORE
    x: int = 0  # clients, per cent of duplicates, or volumes

    @property
    def line(self) -> Line:
        return Line(self.workload)

    @property
    def seconds(self) -> float:
        return self.cost.seconds

    @property
    def place(self) -> tuple[object, ...]:
        return self.experiment, self.workload, self.subject, self.x
