"""The worker pool: splits the records to be indexed into tasks, which worker processes carry out.

    builder ──tasks──► pool ──► workers, one per core: read records, extract, make rows and documents
            ◄─results, in the order of tasks──┘

Workers start on demand, each with a thread that waits for it. The kernel enforces limits of memory and CPU time,
whatever the libraries do. If a document kills a worker, the reason is recorded, and another worker skips it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from mmap import mmap
from typing import TYPE_CHECKING, Self

from holdfast import errors
from holdfast.batches.frame import FramePlace
from holdfast.env.child_process import LITTLE_MEMORY, start_child
from holdfast.errors import HoldfastError
from holdfast.index.extract.extract import Failure
from holdfast.index.state import IndexState
from holdfast.index.workers.worker import SLOT_BYTES, IndexTask, TaskResult, WorkerOptions, pack, read_prepared, unpack
from holdfast.model import RecordId

if TYPE_CHECKING:
    from holdfast.batches.journal import Journal
    from holdfast.catalog import Catalog

_AHEAD = 3  # tasks per worker that are in progress or waiting to be taken
_DEATHS_MAX = 3  # of workers in a row, before their first document
_TIMES_UP = (-signal.SIGPROF, -signal.SIGALRM)
TASK_RECORDS = 128
_PREPARED_BYTES_MAX = 64 << 20


class WorkerDied(Exception):
    """A worker died during a task."""

    def __init__(self, serial: int, exit_code: int) -> None:
        self.serial = serial
        self.exit_code = exit_code

    @property
    def failure(self) -> str:
        return Failure.TIMEOUT if self.exit_code in _TIMES_UP else Failure.CRASHED


class WorkerPool:
    """Worker processes. `run` is for one thread at a time; `close` kills the workers."""

    def __init__(self, count: int, options: WorkerOptions) -> None:
        self._count = count
        self._options = options
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="holdfast-index")
        self._own = threading.local()
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def run(
        self, tasks: Iterable[IndexTask], prepared: PreparedDocuments | None = None
    ) -> Iterator[tuple[IndexTask, TaskResult]]:
        """The result of each task, in order. Raises what reading the archive may.

        A task whose documents are all `prepared` needs no worker.
        """
        waiting: deque[tuple[IndexTask, Future[TaskResult]]] = deque()
        for each in tasks:
            task, found = prepared.read(each) if prepared is not None else (each, None)
            waiting.append((task, self._pool.submit(self._do, task) if found is None else _done(found)))
            while waiting and (len(waiting) >= self._count * _AHEAD or waiting[0][1].done()):
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()

    def _do(self, task: IndexTask) -> TaskResult:
        """Retries without the document that killed the worker."""
        known: dict[int, str] = {}
        deaths = 0
        while True:
            try:
                return self._worker().do(task, known)
            except WorkerDied as death:
                self._own.worker = None
                if self._closed:
                    raise HoldfastError("the index was closed during an update") from None
                if death.serial and death.serial not in known:
                    known[death.serial] = death.failure
                    continue
                deaths += 1
                if deaths >= _DEATHS_MAX:
                    raise HoldfastError(
                        f"index workers die at start (exit {death.exit_code}): is there enough memory?"
                    ) from None

    def _worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = _Worker(self._options)
            with self._lock:
                self._workers.append(worker)
        return worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for worker in self._workers:
                worker.kill()
        self._pool.shutdown()
        for worker in self._workers:  # one may have started meanwhile
            worker.kill()


class _Worker:
    """The parent's side of one process."""

    def __init__(self, options: WorkerOptions) -> None:
        descriptor = os.memfd_create("holdfast-index")
        try:
            os.ftruncate(descriptor, SLOT_BYTES)
            self._slot = mmap(descriptor, SLOT_BYTES)
            self._process = start_child(
                "holdfast.index.workers.worker",
                arguments=[str(descriptor)],
                env=LITTLE_MEMORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[descriptor],
            )
        finally:
            os.close(descriptor)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._sink, self._source = self._process.stdin, self._process.stdout
        limits = options.limits
        hello = (options.root, limits.document_bytes, limits.text_characters, options.seconds_max)
        self._hello = pack((*hello, options.memory_bytes_max))

    def do(self, task: IndexTask, known: dict[int, str]) -> TaskResult:
        """Raises WorkerDied, and what reading the archive may."""
        try:
            self._sink.write(self._hello + pack((tuple(task), known)))
            self._hello = b""
            self._sink.flush()
            is_done, found = unpack(self._source)
        except (EOFError, BrokenPipeError):
            raise WorkerDied(int.from_bytes(self._slot[:], "little"), self._process.wait()) from None
        if not is_done:
            name, message = found
            self.kill()
            raise getattr(errors, name)(message)
        return TaskResult(*found)

    def kill(self) -> None:
        """Ends it. Idempotent."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._sink, self._source):
            with suppress(OSError):
                pipe.close()


def _done(found: TaskResult) -> Future[TaskResult]:
    future: Future[TaskResult] = Future()
    future.set_result(found)
    return future


class PreparedDocuments:
    """Documents that a crawl extracted, until they are indexed. Bounded: drops documents beyond. Thread-safe."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._documents: dict[tuple[str, int], bytes] = {}  # by batch and serial; as `Extracted.pack` gives them
        self._lock = threading.Lock()
        self.bytes = 0

    def add(self, batch: str, serial: int, extracted: bytes) -> None:
        with self._lock:
            if self.bytes + len(extracted) <= _PREPARED_BYTES_MAX:
                self._documents[batch, serial] = extracted
                self.bytes += len(extracted)

    def clear(self) -> None:
        """Drops all documents: they can be read from the archive."""
        with self._lock:
            self._documents, self.bytes = {}, 0

    def read(self, task: IndexTask) -> tuple[IndexTask, TaskResult | None]:
        """The task with its prepared documents, and its result if no content has to be read from the archive."""
        with self._lock:
            keys = [(task.batch, serial) for serial in range(task.first, task.end)]
            taken = {key[1]: self._documents.pop(key) for key in keys if key in self._documents}
            self.bytes -= sum(map(len, taken.values()))
        task = task._replace(prepared=taken)
        return task, read_prepared(task, self._journal) if taken else None


# -- what is to be indexed ----------------------------------------------------------------------------------------


def tasks(wanted: Sequence[tuple[str, int, int]], catalog: Catalog) -> Iterator[IndexTask]:
    """Tasks for these records, in order."""
    for number, (batch, first, end) in enumerate(wanted):
        places: list[bytes] = []
        begin = first
        for serial, packed in catalog.frames(batch, first) if first < end else ():
            if serial >= end:
                break
            if places and serial - begin >= TASK_RECORDS:
                yield IndexTask(batch, number, begin, serial, tuple(places))
                places, begin = [], serial
            places.append(packed)
        if places:
            yield IndexTask(batch, number, begin, end, tuple(places))


def tasks_for(records: Sequence[RecordId], state: IndexState, catalog: Catalog) -> Iterator[IndexTask]:
    """Tasks for single records, one per frame, in the order of their numbers."""
    frames: dict[tuple[str, bytes], list[int]] = {}
    for record in sorted(records, key=lambda each: state.number_of(each) or 0):
        packed = catalog.frame_of(record)
        if packed is not None:
            frames.setdefault((record.batch, packed), []).append(record.serial)
    for (batch, packed), serials in frames.items():
        number = state.batch_number(batch)
        assert number is not None, "only records of the index are indexed again"
        place = FramePlace.unpack(packed)
        yield IndexTask(batch, number, place.first_serial, serials[-1] + 1, (packed,), tuple(serials))
