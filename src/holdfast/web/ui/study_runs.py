"""Studies run for a page: in a thread, one at a time per worker; fresh results are cached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from holdfast.env.lru import LruCache
from holdfast.errors import HoldfastError
from holdfast.study.result import StudyResult

_WAIT_S = 3.0  # for a result, before the page shows progress
_FRESH_S = 10.0  # a result is used again for so long, whatever happens to the catalog
_RESULTS_KEPT = 16


@dataclass(slots=True)
class StudyRun:
    """A study that runs, or has."""

    changes: int  # of the catalog when it began
    steps: int = 0  # captures to be read, or the like
    done: int = 0
    result: StudyResult | None = None
    error: HoldfastError | None = None
    ended_s: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)

    def advance(self, count: int) -> None:
        self.done = min(self.steps, self.done + count)


class StudyRuns:
    """The runs of one worker. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = threading.Lock()  # one at a time
        self._runs: LruCache[Hashable, StudyRun] = LruCache(_RESULTS_KEPT)

    def get(
        self, key: Hashable, changes: int, steps: Callable[[], int], work: Callable[[StudyRun], StudyResult]
    ) -> StudyRun:
        """The run under this key; begins one unless there is one that is fresh enough. Waits a moment for its end."""
        with self._lock:
            run = self._runs.get(key)
            if run is None or not self._is_usable(run, changes):
                run = StudyRun(changes)
                self._runs.put(key, run)
                threading.Thread(target=self._work, args=[run, steps, work], name="study", daemon=True).start()
        run.ended.wait(_WAIT_S)
        return run

    @staticmethod
    def _is_usable(run: StudyRun, changes: int) -> bool:
        if not run.ended.is_set():
            return True
        return run.error is None and (run.changes == changes or time.monotonic() - run.ended_s < _FRESH_S)

    def _work(self, run: StudyRun, steps: Callable[[], int], work: Callable[[StudyRun], StudyResult]) -> None:
        with self._running:
            try:
                run.steps = steps()
                run.result = work(run)
            except HoldfastError as error:
                run.error = error
            finally:
                run.ended_s = time.monotonic()
                run.ended.set()
