"""The physical limit beside the figure: the steps of the store's own sketch, and what it takes to bring them a request.

A pipelined message of 19 KB costs both sides together about 15 µs, as measured on loopback. All of it is shared by the
cores of the machine, clients included: the limit is per core.
"""

from __future__ import annotations

from benchmarks.store.sketch import STEPS, Step
from benchmarks.store.workload import Workload
from benchmarks.webstore.workload import Experiment, Line

_MESSAGE = Step("message", 15)
_SMALL_MESSAGE = Step("small message", 5)
_STORED = (_MESSAGE, *STEPS[Workload.STORE_NEW])
_COUNTED = (_SMALL_MESSAGE, *STEPS[Workload.STORE_DUPLICATE])
_DELETED = (_SMALL_MESSAGE, *STEPS[Workload.DELETE])
_STEPS: dict[Line, tuple[Step, ...]] = {
    Line.RETRIEVE: (_MESSAGE, *STEPS[Workload.FETCH_RANDOM]),
    Line.DELETE_BLOCK: _DELETED,
    Line.DELETE_DUPLICATE: _DELETED,
    Line.STORE_NEW: _STORED,
    Line.STORE_DUPLICATE: _COUNTED,
    Line.FORCE_NEW: _STORED,
    Line.CHOSEN: _STORED,
    Line.ELIMINATING: _STORED,
    Line.ELIMINATING_DUPLICATE: _COUNTED,
}
_FIRST: dict[Experiment, tuple[Line, ...]] = {
    Experiment.RETRIEVE: (Line.RETRIEVE,),
    Experiment.DELETE: (Line.DELETE_BLOCK,),
    Experiment.STORE: (Line.STORE_NEW, Line.STORE_DUPLICATE),
    Experiment.MODES: (Line.FORCE_NEW,),
    Experiment.ELIMINATION: (Line.CHOSEN,),
    Experiment.BALANCE: (Line.CHOSEN, Line.RETRIEVE),
}


def limit_per_s(line: Line, document_bytes: float) -> float | None:
    """Documents per second and core that physics would allow; None where it depends on the level of duplicates."""
    steps = _STEPS.get(line)
    return 1e6 / sum(step.cost_us(document_bytes) for step in steps) if steps else None


def words(experiment: Experiment, document_bytes: float) -> str:
    """The sketches that belong to an experiment, as sums, for a person."""
    parts = []
    for line in _FIRST[experiment]:
        total = " + ".join(f"{step.name} {step.cost_us(document_bytes):.0f} µs" for step in _STEPS[line])
        parts.append(f"{line}: {limit_per_s(line, document_bytes):,.0f}/s = {total}")
    return "sketch of the limit per core, " + "; ".join(parts)
