"""One task in a process of its own: a subject, so many callers, one group of workloads, one fresh directory.

The parent calls `run_apart(run_task, task)`; all else happens in the child. Documents are in memory and sessions are
open before any clock starts. What comes back is checked: counts and sizes under the clock, bytes of a sample after it.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.harness.corpus import Corpus, load
from benchmarks.harness.figure import Figure
from benchmarks.harness.measure import SEED, Cost, bytes_on_disk, measured
from benchmarks.harness.process import ChildFailed
from benchmarks.store.subject import (
    Deletes,
    Fetches,
    Handle,
    Scans,
    Served,
    Session,
    StoresAgain,
    Subject,
)
from benchmarks.store.subjects import subject_class
from benchmarks.store.workload import GROUPS, Crew, Group, Workload, applies, gather, shares

P = TypeVar("P")
T = TypeVar("T")
_SAMPLE = 100  # documents whose bytes are compared after the clock has stopped
_WARM_UP = 64  # documents of a small life before the first clock: imports, allocators, caches of code


@dataclass(frozen=True, slots=True)
class Task:
    """What one child does."""

    subject: str
    group: Group
    callers: int
    workloads: frozenset[Workload]  # those to be measured; the others run only where they are needed
    corpus: Corpus
    directory: Path  # empty; logs and the warm-up go beside it


def run_task(task: Task) -> list[Figure]:
    """Measures the task's workloads in this process. Raises Unavailable if the subject cannot run here."""
    task.directory.mkdir(parents=True, exist_ok=True)
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
        self._figures: list[Figure] = []

    def run(self) -> list[Figure]:
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
        return self._figures

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
        self._figures = [replace(each, disk_bytes=allocated, apparent_bytes=apparent) for each in self._figures]
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
        self._figures.append(
            Figure(
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
