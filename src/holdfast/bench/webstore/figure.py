"""One figure: how long the clients of a subject took for all documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.bench.webstore.workload import Experiment, Line


@dataclass(frozen=True, slots=True)
class WebstoreFigure:
    """A point of a line of one of the paper's figures."""

    experiment: Experiment
    line: Line
    subject: str
    x: int  # clients, per cent of duplicates, or volumes
    operations: int
    content_bytes: int
    seconds: float  # from the first client's start to the last one's end
    cpu_s: float  # of servers and clients
    seconds_all: tuple[float, ...] = ()  # of all repeats, in order

    @property
    def per_s(self) -> float:
        return self.operations / max(self.seconds, 1e-9)

    @property
    def cpu_ms(self) -> float:
        """Processor time of one document, both sides together."""
        return self.cpu_s / max(self.operations, 1) * 1e3


def middle(repeats: Sequence[WebstoreFigure]) -> WebstoreFigure:
    """The repeat with the median time (the better one of an even number), with the times of all of them."""
    ordered = sorted(repeats, key=lambda repeat: repeat.seconds)
    return replace(ordered[(len(ordered) - 1) // 2], seconds_all=tuple(repeat.seconds for repeat in repeats))
