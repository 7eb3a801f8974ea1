"""One figure: how a server answered one workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.replay.workload import ReplayWorkload


@dataclass(frozen=True, slots=True)
class Answered:
    """What wrk saw during one measurement. Every answer had a status of 2xx."""

    requests: int
    seconds: float
    content_bytes: int  # of all answers, heads included
    p50_ms: float
    p99_ms: float
    cpu_s: float = 0.0  # of the server's processes meanwhile

    @property
    def per_s(self) -> float:
        return self.requests / max(self.seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class ReplayFigure:
    """A workload on a server: as fast as it goes, and at half that rate."""

    server: str
    workload: ReplayWorkload
    top: Answered
    half: Answered | None = None
    per_s_all: tuple[float, ...] = ()  # of all repeats, in order

    @property
    def per_s(self) -> float:
        return self.top.per_s

    @property
    def cpu_ms(self) -> float:
        """Processor time of an answer."""
        return self.top.cpu_s / max(self.top.requests, 1) * 1e3

    @property
    def answer_bytes(self) -> float:
        return self.top.content_bytes / max(self.top.requests, 1)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of all processes of a server; what they share counts once."""

    server: str
    before_bytes: int  # started, a sample answered
    after_bytes: int  # at the end of the run


@dataclass(frozen=True, slots=True)
class Soak:
    """A long life: how much memory the processes of Holdfast had after each part of the requests."""

    requests: int
    seconds: float
    memory_bytes: tuple[int, ...]  # after equal parts of the requests


def middle(repeats: Sequence[ReplayFigure]) -> ReplayFigure:
    """The repeat with the median rate (the lower one of an even number), with the rates of all of them."""
    ordered = sorted(repeats, key=lambda repeat: repeat.per_s)
    return replace(ordered[(len(ordered) - 1) // 2], per_s_all=tuple(repeat.per_s for repeat in repeats))
