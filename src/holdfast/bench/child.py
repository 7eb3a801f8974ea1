"""One task in a process of its own: a subject, so many callers, one group of workloads, one fresh directory.

The parent calls `run_apart`; everything else happens in the child. The documents are in memory and the sessions are
open before any clock starts. What comes back is checked: counts and sizes under the clock, bytes of a sample after it.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from holdfast.bench.corpus import Corpus, load
from holdfast.bench.measure import Cost, Measurement, measured
from holdfast.bench.subject import (
    Deletes,
    Fetches,
    Handle,
    Scans,
    Served,
    Session,
    StoresAgain,
    Subject,
    Unavailable,
    bytes_on_disk,
)
from holdfast.bench.subjects import subject_class
from holdfast.bench.workload import GROUPS, SEED, Crew, Group, Workload, applies, gather, shares

P = TypeVar("P")
T = TypeVar("T")
_SAMPLE = 100  # documents whose bytes are compared after the clock has stopped
_STOP_TIMEOUT_S = 45.0
_TASK_TIMEOUT_S = 7_200.0
_WARM_UP = 64  # documents of a small life before the first clock: imports, allocators, caches of code


class ChildFailed(Exception):
    """The child ended without a result; the message says why."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one child does."""

    subject: str
    group: Group
    callers: int
    workloads: frozenset[Workload]  # those to be measured; the others run only where they are needed
    corpus: Corpus
    directory: Path  # empty; logs and the warm-up go beside it


def run_task(task: Task) -> list[Measurement]:
    """Measures the task's workloads in this process. Raises Unavailable if the subject cannot run here."""
    if not issubclass(subject_class(task.subject), Served):  # a server would warm up in another process
        warm = replace(task, directory=task.directory.with_name("warm-up"))
        warm.directory.mkdir()
        _Run(warm, _WARM_UP).run()
    return _Run(task).run()


class _Run:
    """The steps of a task, with what one step leaves for the next."""

    def __init__(self, task: Task, documents_max: int | None = None) -> None:
        self._task = task
        self._subject: Subject = subject_class(task.subject)()
        self._documents = load(task.corpus, documents_max)
        self._content_bytes = sum(map(len, self._documents))
        self._handles: list[Handle] = []
        self._measurements: list[Measurement] = []

    def run(self) -> list[Measurement]:
        self._subject.open(self._task.directory)
        try:
            self._store_new()
            if self._task.group is Group.LIFE:
                self._reopen()
            steps: dict[Workload, Callable[[], None]] = {
                Workload.FETCH_RANDOM: self._fetch_random,
                Workload.SCAN: self._scan,
                Workload.STORE_DUPLICATE: self._store_duplicate,
                Workload.DELETE: self._delete,
            }
            for workload in GROUPS[self._task.group]:
                if workload in steps and self._wanted(workload):
                    steps[workload]()
        finally:
            self._subject.close()
        return self._measurements

    def _wanted(self, workload: Workload) -> bool:
        facts = self._subject.facts
        possible = workload in facts.workloads and applies(workload, self._task.callers, facts.writers_max)
        return possible and workload in self._task.workloads

    def _store_new(self) -> None:
        callers = min(self._task.callers, self._subject.facts.writers_max)
        parts = shares(self._documents, callers)
        stored, cost = self._crew(_store, parts)
        self._handles = gather(stored)
        if self._wanted(Workload.STORE_NEW):
            self._note(Workload.STORE_NEW, cost)

    def _reopen(self) -> None:
        self._subject.close()
        allocated, apparent = bytes_on_disk(self._task.directory)
        self._measurements = [
            replace(each, disk_bytes=allocated, apparent_bytes=apparent) for each in self._measurements
        ]
        _, cost = measured(lambda: self._subject.open(self._task.directory))
        if self._wanted(Workload.OPEN):
            self._note(Workload.OPEN, cost, operations=1, content_bytes=0)

    def _fetch_random(self) -> None:
        numbers = _shuffled(len(self._handles))
        parts = shares([self._handles[number] for number in numbers], self._task.callers)
        totals, cost = self._crew(_total, parts)
        self._check(sum(totals), "fetched")
        self._note(Workload.FETCH_RANDOM, cost)
        self._compare_sample(numbers[:_SAMPLE])

    def _scan(self) -> None:
        subject = self._subject
        assert isinstance(subject, Scans)
        sizes, cost = measured(lambda: [len(data) for data in subject.scan()], self._pids())
        self._check(sum(sizes), "scanned")
        if len(sizes) != len(self._documents):
            raise ChildFailed(f"scan found {len(sizes)} documents, expected {len(self._documents)}")
        self._note(Workload.SCAN, cost)

    def _store_duplicate(self) -> None:
        callers = self._task.callers
        pairs = list(zip(shares(self._documents, callers), shares(self._handles, callers), strict=True))
        _, cost = self._crew(_store_again, pairs)
        self._note(Workload.STORE_DUPLICATE, cost)

    def _delete(self) -> None:
        numbers = _shuffled(len(self._handles))
        parts = shares([self._handles[number] for number in numbers], self._task.callers)
        _, cost = self._crew(_delete, parts)
        self._note(Workload.DELETE, cost)

    def _crew(self, work: Callable[[Session, P], T], parts: Sequence[P]) -> tuple[list[T], Cost]:
        """Opens a session for every part, then measures all callers at work."""
        sessions = [self._subject.session() for _ in parts]
        try:
            works = [partial(work, session, part) for session, part in zip(sessions, parts, strict=True)]
            crew: Crew[T] = Crew(works)
            gc.collect()
            return measured(crew.go, self._pids())
        finally:
            for session in sessions:
                session.close()

    def _pids(self) -> list[int]:
        return self._subject.server_pids() if isinstance(self._subject, Served) else []

    def _note(self, workload: Workload, cost: Cost, operations: int = -1, content_bytes: int = -1) -> None:
        self._measurements.append(
            Measurement(
                subject=self._task.subject,
                workload=workload,
                callers=self._task.callers,
                operations=len(self._documents) if operations < 0 else operations,
                content_bytes=self._content_bytes if content_bytes < 0 else content_bytes,
                cost=cost,
                label=workload + self._subject.facts.suffix,
            )
        )

    def _check(self, found_bytes: int, verb: str) -> None:
        if found_bytes != self._content_bytes:
            raise ChildFailed(f"{verb} {found_bytes} bytes, expected {self._content_bytes}")

    def _compare_sample(self, numbers: Sequence[int]) -> None:
        session = self._subject.session()
        assert isinstance(session, Fetches)
        found = session.fetch([self._handles[number] for number in numbers])
        for number, data in zip(numbers, found, strict=True):
            if data != self._documents[number]:
                raise ChildFailed(f"document {number} came back different from what was stored")
        session.close()


def _store(session: Session, documents: Sequence[bytes]) -> list[Handle]:
    return session.store(documents)


def _total(session: Session, handles: Sequence[Handle]) -> int:
    assert isinstance(session, Fetches)
    return sum(map(len, session.fetch(handles)))


def _store_again(session: Session, pair: tuple[Sequence[bytes], Sequence[Handle]]) -> bool:
    assert isinstance(session, StoresAgain)
    session.store_again(*pair)
    return True


def _delete(session: Session, handles: Sequence[Handle]) -> bool:
    assert isinstance(session, Deletes)
    session.delete(handles)
    return True


def _shuffled(count: int) -> list[int]:
    numbers = list(range(count))
    random.Random(SEED).shuffle(numbers)
    return numbers


def run_apart(function: Callable[..., T], *arguments: Any) -> T:
    """Calls the function in a fresh process and returns its result.

    Raises Unavailable as the function raised it, and ChildFailed for everything else that went wrong there. If this
    process is interrupted, the child is given time to stop its servers.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        kind, value = _receive(receiver)
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join(_STOP_TIMEOUT_S)
        if process.is_alive():
            process.kill()
            process.join()
    if kind == "unavailable":
        raise Unavailable(value)
    if kind == "failed":
        raise ChildFailed(value)
    result: T = value
    return result


def _receive(receiver: Connection) -> tuple[str, Any]:
    if not receiver.poll(_TASK_TIMEOUT_S):
        raise ChildFailed(f"no result after {_TASK_TIMEOUT_S:,.0f} s")
    try:
        message: tuple[str, Any] = receiver.recv()
    except EOFError:
        raise ChildFailed("the process ended without a result") from None
    return message


def _child(sender: Connection, function: Callable[..., object], arguments: Sequence[Any]) -> None:
    """The child's edge: every outcome becomes one message."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` runs and servers stop
    try:
        sender.send(("result", function(*arguments)))
    except Unavailable as failure:
        sender.send(("unavailable", str(failure)))
    except KeyboardInterrupt:
        sys.exit(1)
    except Exception as failure:
        sender.send(("failed", f"{type(failure).__name__}: {failure}"))
