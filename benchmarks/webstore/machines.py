"""The clients: processes with some threads each, which hold their documents in memory and do what they are told.

A process stands for a machine of the paper. Between processes nothing is shared but the clock: on Linux,
`time.perf_counter` is the same everywhere, so a step lasts from the first client's start to the last one's end.

What comes back is checked: sizes under the clock, bytes of a sample after it, and that what was deleted is gone.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from benchmarks.harness.measure import SEED
from benchmarks.harness.process import ChildFailed, Unavailable
from benchmarks.store.workload import Crew
from benchmarks.webstore.subject import Document, Handle, Session
from benchmarks.webstore.workload import Life, Operation, Step
from holdfast.errors import HoldfastError

_SAMPLE = 20  # documents of each client whose bytes are compared
_ANSWER_TIMEOUT_S = 1_800.0
_REST_TIMEOUT_S = 5.0
_STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Post:
    """All that a client process is told at its start."""

    subject: str
    place: Any
    pages: tuple[Path, ...]  # of all clients
    clients: tuple[int, ...]  # those of this process
    clients_total: int

    def documents(self, client: int) -> list[Document]:
        """Pages are dealt out like cards."""
        numbers = range(client, len(self.pages), self.clients_total)
        return [Document(number, self.pages[number].read_bytes()) for number in numbers]


@dataclass(frozen=True, slots=True)
class Done:
    """What a process did in one step."""

    start: float
    end: float
    operations: int
    content_bytes: int


class Machines:
    """The client processes of a life. Raises ChildFailed if one of them fails."""

    def __init__(self, subject: str, place: Any, pages: tuple[Path, ...], life: Life) -> None:
        context = get_context("spawn")
        self._running: list[tuple[BaseProcess, Connection]] = []
        for first in range(0, life.clients, life.per_machine):
            clients = tuple(range(first, min(first + life.per_machine, life.clients)))
            ours, theirs = context.Pipe()
            post = Post(subject, place, pages, clients, life.clients)
            process = context.Process(target=_work, args=(theirs, post))
            process.start()
            theirs.close()
            self._running.append((process, ours))

    def pids(self) -> list[int]:
        return [process.pid for process, _ in self._running if process.pid is not None]

    def prepare(self, step: Step) -> None:
        """Returns when all clients stand ready for it."""
        self._tell(step)
        self._answers()

    def go(self) -> list[Done]:
        """Lets all clients take the step that was prepared."""
        self._tell(None)
        done: list[Done] = self._answers()
        return done

    def finish(self) -> None:
        """Checks what was done, and closes what was opened for it."""
        self._tell(None)
        self._answers()

    def stop(self) -> None:
        for _, pipe in self._running:
            pipe.close()  # which ends a process that waits for its next step
        for process, _ in self._running:
            process.join(_REST_TIMEOUT_S)
            if process.is_alive():  # in the middle of a step
                process.terminate()
                process.join(_STOP_TIMEOUT_S)
            if process.is_alive():
                process.kill()
                process.join()
        self._running.clear()

    def _tell(self, message: Step | None) -> None:
        for _, pipe in self._running:
            try:
                pipe.send(message)
            except OSError:
                continue  # its reason, if it had one, is what `_answers` finds

    def _answers(self) -> list[Any]:
        return [_answer(pipe) for _, pipe in self._running]


def _answer(pipe: Connection) -> Any:
    if not pipe.poll(_ANSWER_TIMEOUT_S):
        raise ChildFailed(f"a client did not answer for {_ANSWER_TIMEOUT_S:,.0f} s")
    try:
        kind, value = pipe.recv()
    except (EOFError, OSError):
        raise ChildFailed("a client's process ended") from None
    if kind == "unavailable":
        raise Unavailable(value)
    if kind == "failed":
        raise ChildFailed(value)
    return value


def _work(pipe: Connection, post: Post) -> None:
    """The process's edge: every outcome becomes one message."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` runs, and mounts are undone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    try:
        clients = _Clients(post)
        while True:
            clients.take(pipe.recv(), pipe)
    except (EOFError, OSError) as failure:
        if pipe.closed or isinstance(failure, EOFError):
            return
        _report(pipe, "failed", failure)
    except Unavailable as failure:
        _report(pipe, "unavailable", failure)
    except Exception as failure:
        _report(pipe, "failed", failure)


def _report(pipe: Connection, kind: str, failure: Exception) -> None:
    words = str(failure) if kind == "unavailable" else f"{type(failure).__name__}: {failure}"
    try:
        pipe.send((kind, words))
    except OSError:
        return  # nobody is there to be told


class _Clients:
    """Those of one process, with what they remember from step to step."""

    def __init__(self, post: Post) -> None:
        from benchmarks.webstore.subjects import SUBJECTS

        self._subject = SUBJECTS[post.subject]
        self._place = post.place
        self._documents = [post.documents(client) for client in post.clients]
        self._handles: dict[int, list[list[Handle]]] = {}  # by copy, of each client

    def take(self, step: Step, pipe: Connection) -> None:
        """One step, with an answer to each of three messages: prepare, go, finish."""
        machine = self._subject.machine(self._place)
        try:
            sessions = [machine.session() for _ in self._documents]
            tasks = [self._task(step, number) for number in range(len(sessions))]
            works = [partial(_clocked, *pair) for pair in zip(sessions, tasks, strict=True)]
            crew: Crew[_Result] = Crew(works)
            gc.collect()
            pipe.send(("ready", None))
            pipe.recv()
            results = crew.go()
            pipe.send(("done", _done(results)))
            pipe.recv()
            self._finish(step, sessions, results)
            for session in sessions:
                session.close()
        finally:
            machine.close()
        pipe.send(("finished", None))

    def _task(self, step: Step, number: int) -> _Task:
        documents = self._documents[number]
        if step.per_cent < 100:
            documents = documents[: round(len(documents) * step.per_cent / 100)]
        if step.operation is Operation.STORE:
            return _Task(step, documents, [])
        handles = list(zip(self._handles[step.copy][number], documents, strict=True))
        random.Random(SEED + number).shuffle(handles)
        return _Task(step, [document for _, document in handles], [handle for handle, _ in handles])

    def _finish(self, step: Step, sessions: Sequence[Session], results: Sequence[_Result]) -> None:
        if step.operation is Operation.STORE:
            self._handles[step.copy] = [result.handles for result in results]
        for number, session in enumerate(sessions):
            task = self._task(step, number)
            if step.operation is Operation.RETRIEVE:
                _compare(session, task)
            elif step.operation is Operation.DELETE and step.copy == 0:
                _miss(session, task)


@dataclass(frozen=True, slots=True)
class _Task:
    """What one client does: documents to be stored, or those that belong to the handles."""

    step: Step
    documents: list[Document]
    handles: list[Handle]


@dataclass(frozen=True, slots=True)
class _Result:
    """What one client did."""

    start: float
    end: float
    operations: int
    content_bytes: int
    handles: list[Handle]


def _clocked(session: Session, task: _Task) -> _Result:
    expected = sum(len(document.data) for document in task.documents)
    handles: list[Handle] = []
    start = time.perf_counter()
    if task.step.operation is Operation.STORE:
        handles = session.store(task.documents, task.step)
    elif task.step.operation is Operation.RETRIEVE:
        found = sum(map(len, session.fetch(task.handles)))
    else:
        session.delete(task.handles)
    end = time.perf_counter()
    if task.step.operation is Operation.RETRIEVE and found != expected:
        raise ChildFailed(f"{found} bytes were retrieved, expected {expected}")
    return _Result(start, end, len(task.documents), expected, handles)


def _done(results: Sequence[_Result]) -> Done:
    return Done(
        start=min(result.start for result in results),
        end=max(result.end for result in results),
        operations=sum(result.operations for result in results),
        content_bytes=sum(result.content_bytes for result in results),
    )


def _compare(session: Session, task: _Task) -> None:
    for document, data in zip(task.documents[:_SAMPLE], session.fetch(task.handles[:_SAMPLE]), strict=True):
        if data != document.data:
            raise ChildFailed(f"page {document.number} came back different from what was stored")


def _miss(session: Session, task: _Task) -> None:
    """What was deleted must not be found."""
    for document, handle in list(zip(task.documents, task.handles, strict=True))[:1]:
        try:
            list(session.fetch([handle]))
        except (OSError, HoldfastError):
            continue
        raise ChildFailed(f"page {document.number} was deleted and is still there")
