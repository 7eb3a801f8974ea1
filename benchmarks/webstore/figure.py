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
    server_cpu_s: float = 0.0  # the servers' part of the processor time

    @property
    def line(self) -> Line:
        return Line(self.workload)

    @property
    def seconds(self) -> float:
        return self.cost.seconds

    @property
    def server_cpu_us(self) -> float:
        """Processor time of the servers for one operation."""
        return self.server_cpu_s / max(self.operations, 1) * 1e6

    @property
    def client_cpu_us(self) -> float:
        """Processor time of the clients for one operation."""
        return self.cpu_us - self.server_cpu_us

    @property
    def place(self) -> tuple[object, ...]:
        return self.experiment, self.workload, self.subject, self.x
