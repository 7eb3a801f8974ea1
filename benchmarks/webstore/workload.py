"""The experiments: what the clients do, in which order, and which figure of the paper a step belongs to.

    1, 2, 3   store, retrieve, store again, delete once, delete for good      1 to 35 clients, one volume
    4         store, when some of the documents are there already             10 clients, one volume, three modes
    5         store, with elimination of duplicates and to chosen volumes     one client, 1 to 16 volumes
    6         the same and retrieve                                           four clients, 1 to 4 volumes

The first three experiments are one life, in the order above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum

CLIENTS = (1, 5, 10, 15, 25, 35)
VOLUMES = (1, 2, 4, 8, 16)
BATCH = 64  # documents, where batches are used
PER_PROCESS = 5  # clients of a process; the paper had so many on each of seven machines
_MODE_CLIENTS = 10
_LEVELS = (0, 20, 40, 60, 80, 100)  # per cent of the documents that are there already
_BALANCED = (1, 2, 3, 4)  # volumes
_BALANCED_CLIENTS = 4
_BALANCED_PER_MACHINE = 2
_PEER_VOLUMES_MAX = 4  # as many as the paper had


class Experiment(IntEnum):
    """By the paper's numbers."""

    RETRIEVE = 1
    DELETE = 2
    STORE = 3
    MODES = 4
    ELIMINATION = 5
    BALANCE = 6


class Operation(StrEnum):
    """What every client does with each of its documents."""

    STORE = "store"
    RETRIEVE = "retrieve"  # in shuffled order
    DELETE = "delete"  # in shuffled order


class Line(StrEnum):
    """A line of a figure. Stores without references, counters and modes have the first of each experiment only."""

    RETRIEVE = "retrieve"
    DELETE_BLOCK = "delete-block"  # the last reference
    DELETE_DUPLICATE = "delete-duplicate"  # one of two references
    STORE_NEW = "store-new"
    STORE_DUPLICATE = "store-duplicate"
    FORCE_NEW = "force-new"
    REGULAR = "regular"
    COMPARE = "compare"
    CHOSEN = "chosen-volume"
    ELIMINATING = "eliminating"  # duplicates, wherever they are
    ELIMINATING_DUPLICATE = "eliminating-duplicate"  # what is stored is one


@dataclass(frozen=True, slots=True)
class Step:
    """All clients do one thing with all their documents; a clock runs meanwhile."""

    operation: Operation
    experiment: Experiment | None = None  # None: it has to be done, and is no figure
    line: Line | None = None
    mode: str = "regular"  # of a store
    is_chosen: bool = False  # the volume of a store is the document's number modulo their number
    copy: int = 0  # a store without counters keeps each copy under a name of its own
    per_cent: int = 100  # of the documents, the first ones


@dataclass(frozen=True, slots=True)
class Life:
    """Servers from start to stop, with some clients."""

    clients: int
    volumes: int
    x: int  # where on the axis its figures stand
    steps: tuple[Step, ...]
    per_machine: int = PER_PROCESS


@dataclass(frozen=True, slots=True)
class Range:
    """What to measure."""

    experiments: tuple[Experiment, ...] = tuple(Experiment)
    clients: tuple[int, ...] = CLIENTS
    volumes: tuple[int, ...] = VOLUMES
    per_process: int = PER_PROCESS  # clients, in the first four experiments


def lives(wanted: Range, *, is_ours: bool) -> Iterator[Life]:
    """Those of one subject, in order."""
    if set(wanted.experiments) & {Experiment.RETRIEVE, Experiment.DELETE, Experiment.STORE}:
        for clients in wanted.clients:
            yield Life(clients, 1, clients, _basic(wanted.experiments), wanted.per_process)
    if Experiment.MODES in wanted.experiments:
        yield from _modes(wanted, is_ours=is_ours)
    if Experiment.ELIMINATION in wanted.experiments:
        yield from _elimination(wanted, is_ours=is_ours)
    if Experiment.BALANCE in wanted.experiments:
        yield from _balance(wanted, is_ours=is_ours)


def _basic(experiments: tuple[Experiment, ...]) -> tuple[Step, ...]:
    """Steps of experiments that were not asked for are taken only where later ones need them."""
    delete = Experiment.DELETE in experiments
    steps = [Step(Operation.STORE, Experiment.STORE, Line.STORE_NEW)]
    if Experiment.RETRIEVE in experiments:
        steps.append(Step(Operation.RETRIEVE, Experiment.RETRIEVE, Line.RETRIEVE))
    if delete or Experiment.STORE in experiments:
        steps.append(Step(Operation.STORE, Experiment.STORE, Line.STORE_DUPLICATE, copy=1))
    if delete:
        steps.append(Step(Operation.DELETE, Experiment.DELETE, Line.DELETE_DUPLICATE, copy=1))
        steps.append(Step(Operation.DELETE, Experiment.DELETE, Line.DELETE_BLOCK))
    return tuple(steps)


def _modes(wanted: Range, *, is_ours: bool) -> Iterator[Life]:
    modes = {Line.FORCE_NEW: "force-new"}
    if is_ours:
        modes |= {Line.REGULAR: "regular", Line.COMPARE: "compare"}
    clients = min(_MODE_CLIENTS, max(wanted.clients))
    for level in _LEVELS:
        before = Step(Operation.STORE, per_cent=level)
        for line, mode in modes.items():
            clocked = Step(Operation.STORE, Experiment.MODES, line, mode, copy=1)
            yield Life(clients, 1, level, (before, clocked) if level else (clocked,), wanted.per_process)


def _elimination(wanted: Range, *, is_ours: bool) -> Iterator[Life]:
    chosen = Step(Operation.STORE, Experiment.ELIMINATION, Line.CHOSEN, is_chosen=True)
    eliminating = (
        Step(Operation.STORE, Experiment.ELIMINATION, Line.ELIMINATING),
        Step(Operation.STORE, Experiment.ELIMINATION, Line.ELIMINATING_DUPLICATE, copy=1),
    )
    for volumes in wanted.volumes:
        if is_ours or volumes <= _PEER_VOLUMES_MAX:
            yield Life(1, volumes, volumes, (chosen,))
        if is_ours:
            yield Life(1, volumes, volumes, eliminating)


def _balance(wanted: Range, *, is_ours: bool) -> Iterator[Life]:
    chosen = Step(Operation.STORE, Experiment.BALANCE, Line.CHOSEN, is_chosen=True)
    eliminating = Step(Operation.STORE, Experiment.BALANCE, Line.ELIMINATING)
    retrieve = Step(Operation.RETRIEVE, Experiment.BALANCE, Line.RETRIEVE)
    clients = min(_BALANCED_CLIENTS, max(wanted.clients))
    for volumes in (each for each in _BALANCED if each <= max(wanted.volumes)):
        yield Life(clients, volumes, volumes, (chosen, retrieve), _BALANCED_PER_MACHINE)
        if is_ours:
            yield Life(clients, volumes, volumes, (eliminating,), _BALANCED_PER_MACHINE)
