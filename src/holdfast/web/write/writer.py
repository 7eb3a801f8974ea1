"""The writer: one thread of a worker that opens the archive for writing when there is something to write.

One process writes to an archive at a time. The writer adds all that waits at once (one sync for many), and closes the
archive after a tenth of a second without work, or half a second with: so other workers, and crawls, get their turn.
Whoever waits for the archive longer than `WAIT_S` is told who writes: Busy.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from holdfast.archive import Archive
from holdfast.archive.ingest.add import Added
from holdfast.errors import Busy
from holdfast.records.draft import RecordDraft

IDLE_S = 0.1  # without work, before the archive is closed
TURN_S = 0.5  # with work, before others get a turn
WAIT_S = 5.0  # for the archive, if another process writes
WAITING_MAX = 256  # pieces of work in one worker
_PAUSE_S = 0.03  # between two turns: longer than others take to look again
_LOOK_EVERY_S = 0.01
_DRAFTS_MAX = 512  # that are added at once


@dataclass(slots=True)
class _Work:
    """Drafts to be added, or anything else to be done with the open archive."""

    done: Future[Any]
    drafts: Sequence[RecordDraft] = ()
    call: Callable[[Archive], Any] | None = None
    then: Callable[[], None] | None = None  # before whoever waits is told; the same of several is called once


class Writer:
    """Writes to one archive for all requests of a worker. Any thread may call; a thread of its own does the work."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._waiting: deque[_Work] = deque()
        self._thread: threading.Thread | None = None

    def add(self, drafts: Sequence[RecordDraft], then: Callable[[], None] | None = None) -> Future[list[Added]]:
        """What became of the records, in their order, when they are durable and `then` was called."""
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
                raise Busy("too many writes wait already: try again in a moment")
            self._waiting.append(work)
            if self._thread is None:  # not a daemon: what was begun is ended in order
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
            except BaseException as error:  # an edge: whoever waits must hear of it
                self._fail(error)
            time.sleep(_PAUSE_S)  # so that others find the archive free

    def _opened(self) -> Archive:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return Archive(self._path)
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
        """What waits, as much as is added at once; nothing if nothing comes."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting), IDLE_S)
            taken: list[_Work] = []
            count = 0
            while self._waiting and count < _DRAFTS_MAX:
                work = self._waiting.popleft()
                if work.done.set_running_or_notify_cancel():  # else nobody waits for it any more
                    taken.append(work)
                    count += len(work.drafts)
            return taken

    def _add(self, archive: Archive, work: Sequence[_Work]) -> None:
        """All at once; if that fails each by itself, so that nobody suffers for another's."""
        if not work:
            return
        try:
            added = iter(archive.add_drafts([draft for each in work for draft in each.drafts]))
            for then in {each.then for each in work if each.then is not None}:
                then()
        except Exception:  # an edge: each of them hears of its own
            for each in work:
                _finish(each, partial(Archive.add_drafts, drafts=each.drafts), archive)
            return
        for each in work:
            each.done.set_result([next(added) for _ in each.drafts])

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, deque()
        for work in waiting:
            if work.done.set_running_or_notify_cancel():
                work.done.set_exception(error)


def _finish(work: _Work, call: Callable[[Archive], Any] | None, archive: Archive) -> None:
    assert call is not None
    try:
        result = call(archive)
        if work.then is not None:
            work.then()
    except Exception as error:  # an edge: it belongs to whoever asked, and others' work goes on
        work.done.set_exception(error)
    else:
        work.done.set_result(result)


@cache
def writer_at(path: Path) -> Writer:
    """The one of this process."""
    return Writer(path)
