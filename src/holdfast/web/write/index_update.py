"""The index, brought up to date behind what is put over HTTP, as imports and crawls do it.

    captures put ──► noted ──► a moment later a process of low priority indexes them ──► found by /search

Puts do not wait for it. What comes while it runs is indexed by the next one. In a server of several workers each sees
to what it took in itself; one process writes to the index at a time, and others wait for their turn.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import cache
from pathlib import Path

from holdfast.archive.index_update import is_automatic, start_process
from holdfast.config import IndexSettings
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.web")

GATHER_S = 1.0  # before indexing begins: what comes together is indexed together
_SHARE = 4  # times as long as the last one took is the pause before the next, so that puts without end leave it time
_PAUSE_MAX_S = 300.0


class IndexUpkeep:
    """One in each worker. Any thread may call it; a thread of its own waits for the process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._is_due = False
        self._is_running = False

    def note(self, settings: IndexSettings) -> None:
        """Captures have come. Returns at once."""
        try:
            if not is_automatic(settings):
                return
        except HoldfastError as error:
            log.warning("what was put is not indexed: %s", error)
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
                log.warning("the index is not brought up to date: %s", error)
            pause_s = min(GATHER_S + _SHARE * (time.monotonic() - began), _PAUSE_MAX_S)
            with self._lock:
                if not self._is_due:
                    self._is_running = False
                    return


@cache
def index_upkeep_at(root: Path) -> IndexUpkeep:
    """The one of this process."""
    return IndexUpkeep(root)
