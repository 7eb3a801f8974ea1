"""The crew: workers, started when they are needed, each served by a thread that waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from mmap import mmap
from typing import Self

from holdfast import errors
from holdfast.env.child_process import LITTLE_MEMORY, start_child
from holdfast.errors import HoldfastError
from holdfast.index.extract.result import Failure
from holdfast.index.workers.task import IndexTask, TaskResult, WorkerOptions, pack, unpack
from holdfast.index.workers.worker import SLOT_BYTES

_AHEAD = 3  # tasks for each worker that are under way or done and not yet taken
_DEATHS_MAX = 3  # of workers in a row that had not begun a document
_TIMES_UP = (-signal.SIGPROF, -signal.SIGALRM)
_PIPE_BYTES = 1 << 20


class WorkerDied(Exception):
    """A worker ended while it had a task."""

    def __init__(self, serial: int, exit_code: int) -> None:
        self.serial = serial
        self.exit_code = exit_code

    @property
    def failure(self) -> str:
        return Failure.TIMEOUT if self.exit_code in _TIMES_UP else Failure.CRASHED


class WorkerPool:
    """Some workers. `run` is for one thread at a time; `close` ends them, whatever they are doing."""

    def __init__(self, count: int, options: WorkerOptions) -> None:
        self._count = count
        self._options = options
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="holdfast-index")
        self._own = threading.local()
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def run(self, tasks: Iterable[IndexTask]) -> Iterator[tuple[IndexTask, TaskResult]]:
        """What came of each task, in their order. Raises what reading the archive may."""
        waiting: deque[tuple[IndexTask, Future[TaskResult]]] = deque()
        for task in tasks:
            waiting.append((task, self._pool.submit(self._do, task)))
            if len(waiting) >= self._count * _AHEAD:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()

    def _do(self, task: IndexTask) -> TaskResult:
        """A document at which a worker dies is left out the next time."""
        known: dict[int, str] = {}
        deaths = 0
        while True:
            try:
                return self._worker().do(task, known)
            except WorkerDied as death:
                self._own.worker = None
                if self._closed:
                    raise HoldfastError("the index was closed while it was being written") from None
                if death.serial and death.serial not in known:
                    known[death.serial] = death.failure
                    continue
                deaths += 1
                if deaths >= _DEATHS_MAX:
                    raise HoldfastError(
                        f"processes that read for the index die (exit {death.exit_code}) before they begin: "
                        "is there enough memory? See 'index.worker_bytes_max'"
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
        for worker in self._workers:  # also one that was being started meanwhile
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
