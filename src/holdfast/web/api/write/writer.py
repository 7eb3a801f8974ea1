"""The writer of a worker: opens the archive for writing on demand; and the index updates that follow.

One process writes to an archive at a time. The writer adds all waiting work together (one sync for many), and closes
the archive after `IDLE_S` without work or `TURN_S` with work, so that other workers and crawls get their turn. If
another process holds the archive for longer than `WAIT_S`, the requests fail with Busy.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.archive import Archive
from holdfast.archive.index_update import is_automatic, start_process
from holdfast.archive.ingest.writer import Added
from holdfast.config import IndexSettings
from holdfast.errors import Busy, HoldfastError
from holdfast.records.draft import RecordDraft

IDLE_S = 0.1  # without work, before the archive is closed
TURN_S = 0.5  # with work, before others get a turn
WAIT_S = 5.0  # for the archive, if another process writes
WAITING_MAX = 256  # pieces of work in one worker
_PAUSE_S = 0.03  # between two turns: longer than the poll interval of others
_LOOK_EVERY_S = 0.01
_DRAFTS_MAX = 512  # that are added at once
GATHER_S = 1.0  # before indexing begins, so that captures are indexed together
_SHARE = 4  # pause before the next update, in durations of the last one: a constant stream of puts must not saturate it
_PAUSE_MAX_S = 300.0

log = logging.getLogger("holdfast.web")


OpenArchive = Callable[[Path], Archive]


@dataclass(slots=True)
class _Work:
    """Drafts to add, or another call on the open archive."""

    done: Future[Any]
    drafts: Sequence[RecordDraft] = ()
    call: Callable[[Archive], Any] | None = None
    then: Callable[[], None] | None = None  # called before the result is set, once for equal ones


class Writer:
    """Writes to one archive for all requests of a worker. Any thread may call; a background thread does the work."""

    def __init__(self, path: Path, open_archive: OpenArchive = Archive) -> None:
        self._path = path
        self._open_archive = open_archive
        self._changed = threading.Condition()
        self._waiting: deque[_Work] = deque()
        self._thread: threading.Thread | None = None

    def add(self, drafts: Sequence[RecordDraft], then: Callable[[], None] | None = None) -> Future[list[Added]]:
        """The outcomes in their order, when the records are durable and `then` was called."""
        return self._submit(_Work(Future(), drafts=drafts, then=then))

    def do(self, call: Callable[[Archive], Any], then: Callable[[], None] | None = None) -> Future[Any]:
        """What `call` returns for the archive, open for writing."""
        return self._submit(_Work(Future(), call=call, then=then))

    def settle(self, timeout_s: float = 30.0) -> None:
        """Waits until all is done and the archive closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, timeout_s)

    def _submit(self, work: _Work) -> Future[Any]:
        with self._changed:
            if len(self._waiting) >= WAITING_MAX:
                raise Busy("too many writes are waiting: try again in a moment")
            self._waiting.append(work)
            if self._thread is None:  # not a daemon: begun work is finished
                self._thread = threading.Thread(target=self._run, name="holdfast-writer")
                self._thread.start()
            self._changed.notify_all()
        return work.done

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
            try:
                with self._opened() as archive:
                    self._take_turn(archive)
            except BaseException as error:  # an edge: waiting requests must get it
                self._fail(error)
            time.sleep(_PAUSE_S)  # lets other processes open the archive

    def _opened(self) -> Archive:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return self._open_archive(self._path)
            except Busy:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOOK_EVERY_S)

    def _take_turn(self, archive: Archive) -> None:
        ends = time.monotonic() + TURN_S
        while time.monotonic() < ends and (work := self._next()):
            for each in [each for each in work if each.call is not None]:
                _finish(each, each.call, archive)
            self._add(archive, [each for each in work if each.call is None])

    def _next(self) -> list[_Work]:
        """The next group of waiting work; empty if none arrives in `IDLE_S`."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting), IDLE_S)
            taken: list[_Work] = []
            count = 0
            while self._waiting and count < _DRAFTS_MAX:
                work = self._waiting.popleft()
                if work.done.set_running_or_notify_cancel():  # else it was cancelled
                    taken.append(work)
                    count += len(work.drafts)
            return taken

    def _add(self, archive: Archive, work: Sequence[_Work]) -> None:
        """Adds all together; if that fails, one by one, so that a bad record fails alone."""
        if not work:
            return
        try:
            added = iter(archive.add_drafts([draft for each in work for draft in each.drafts]))
            for then in {each.then for each in work if each.then is not None}:
                then()
        except Exception:  # an edge: each request gets its own error
            for each in work:
                _finish(each, partial(_add, drafts=each.drafts), archive)
            return
        for each in work:
            each.done.set_result([next(added) for _ in each.drafts])

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, deque()
        for work in waiting:
            if work.done.set_running_or_notify_cancel():
                work.done.set_exception(error)


def _add(archive: Archive, drafts: Sequence[RecordDraft]) -> list[Added]:
    return archive.add_drafts(drafts)


def _finish(work: _Work, call: Callable[[Archive], Any] | None, archive: Archive) -> None:
    assert call is not None
    try:
        result = call(archive)
        if work.then is not None:
            work.then()
    except Exception as error:  # an edge: the error belongs to this request alone
        work.done.set_exception(error)
    else:
        work.done.set_result(result)


class IndexUpkeep:
    """Updates the index after puts, as imports and crawls do: in a low-priority process, a moment later.

    Puts do not wait for it; later captures are indexed by the next update. Each worker covers its own puts; one process
    writes to the index at a time. Any thread may call it; a background thread waits for the process.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._is_due = False
        self._is_running = False

    def note(self, settings: IndexSettings) -> None:
        """Schedules an update. Returns at once."""
        try:
            if not is_automatic(settings):
                return
        except HoldfastError as error:
            log.warning("new captures are not indexed: %s", error)
            return
        with self._lock:
            self._is_due = True
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="holdfast-index", daemon=True).start()

    def _run(self) -> None:
        pause_s = GATHER_S
        while True:
            time.sleep(pause_s)
            with self._lock:
                self._is_due = False
            began = time.monotonic()
            try:
                with start_process("catch_up", self._root) as process:
                    process.wait()
            except OSError as error:
                log.warning("cannot update the index: %s", error)
            pause_s = min(GATHER_S + _SHARE * (time.monotonic() - began), _PAUSE_MAX_S)
            with self._lock:
                if not self._is_due:
                    self._is_running = False
                    return
