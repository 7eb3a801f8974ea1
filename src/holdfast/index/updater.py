"""Updates the index during a crawl, in a separate process.

    crawl process ──add: [batch, serial, what was extracted]; finish──► updater ──► words, tables
                  ◄──total; done, ...; end or failed────────────────

The crawl sends what it extracted from each page. The updater keeps it in memory and indexes at intervals, earlier if
much has arrived, and at the end of the crawl. Documents that were not sent, or did not fit, are read from the archive,
as in a rebuild: the result is the same. The archive is only read. After a kill at any moment, the next update resumes
from the last commit.
"""

from __future__ import annotations

import logging
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast import errors
from holdfast.env.child_process import collect_seldom, frame_head, frames_from, packed_frame, start_child
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.index.build import Progress
    from holdfast.index.index import BuildReport, Index
    from holdfast.index.workers.pool import PreparedDocuments
    from holdfast.model import RecordId

log = logging.getLogger("holdfast.index")

RANKED_LINKS_MAX = 1_000_000  # ranking more takes longer than a few seconds: left to 'index update'
_NICENESS = 5
_UNSENT_BYTES_MAX = 32 << 20  # documents beyond are dropped
_INDEXED_BYTES = 16 << 20  # of documents that trigger an update
_END_TIMEOUT_S = 60.0


def bring_up(index: Index, progress: Progress | None = None, prepared: PreparedDocuments | None = None) -> BuildReport:
    """Indexes new records, and ranks pages if that takes seconds. Raises Busy if another process writes."""
    report = index.update(progress, prepared)
    if index.links <= RANKED_LINKS_MAX:
        index.rank()
    return report


class IndexUpdater:
    """The crawl's side of the updater. `add` is for one thread, inside the `with`."""

    def __init__(self, root: Path, every_s: float) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._frames = frames_from(ours)
        self._unsent: deque[bytes | memoryview] = deque()
        self._unsent_bytes = 0
        self.is_dead = False
        with theirs:
            self._process = start_child(
                "holdfast.index.updater",
                arguments=[str(theirs.fileno()), str(root.absolute()), str(every_s)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def add(self, pages: Sequence[tuple[RecordId, bytes]]) -> None:
        """Records with their extracts (`Extracted.pack`). Never blocks: excess is dropped."""
        if self.is_dead:
            return
        if self._unsent_bytes <= _UNSENT_BYTES_MAX:
            body = marshal.dumps(("add", [(*record, extracted) for record, extracted in pages]))
            head = frame_head(len(body))
            self._unsent += (head, body)
            self._unsent_bytes += len(head) + len(body)
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            self._send()

    def finish(self) -> int:
        """Requests the last update; returns the number of records to index. Then call `result`."""
        self._unsent.append(packed_frame(marshal.dumps(("finish",))))
        self._socket.setblocking(True)
        self._send()
        (total,) = self._received("total")
        return int(total)

    def result(self, progress: Progress) -> BuildReport:
        """The report of the last update. Raises its errors and those of `progress`; finished work is kept."""
        from holdfast.index.index import BuildReport

        try:
            while True:
                kind, *values = self._next()
                if kind == "end":
                    return BuildReport(*values)
                progress(values[0])
        except BaseException:
            self.close()
            raise

    def _send(self) -> None:
        try:
            while self._unsent:
                first = self._unsent[0]
                sent = self._socket.send(first)
                self._unsent_bytes -= sent
                if sent < len(first):
                    self._unsent[0] = memoryview(first)[sent:]
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            raise
        except OSError:
            self.is_dead = True

    def _received(self, kind: str) -> list[Any]:
        found, *values = self._next()
        assert found == kind, f"the updater sent '{found}', not '{kind}'"
        return values

    def _next(self) -> tuple[Any, ...]:
        frame = next(self._frames, None)
        if frame is None:
            self.is_dead = True
            raise HoldfastError("the index updater died; 'holdfast index update' continues")
        message: tuple[Any, ...] = marshal.loads(frame)
        if message[0] == "failed":
            raise getattr(errors, message[1])(message[2])
        return message

    def close(self) -> None:
        """Ends the process; committed work stays. Idempotent."""
        self._process.terminate()
        self._socket.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# -- the process ---------------------------------------------------------------------------------------------------


class _Stopped(Exception):
    """The crawl does not wait any longer."""


class _Updater:
    """In the process: one thread receives, the main thread indexes."""

    def __init__(self, crawl: socket.socket, index: Index, prepared: PreparedDocuments) -> None:
        self._crawl = crawl
        self._index = index
        self._prepared = prepared
        self._changed = threading.Condition()
        self._is_finishing = False
        self._is_idle = True
        self._is_stopped = False
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self._receive, daemon=True).start()

    def run(self, every_s: float) -> None:
        """Runs until the crawl ends."""
        _import_early()
        collect_seldom()
        while True:
            with self._changed:
                self._changed.wait_for(self._is_due, every_s)
            self._is_idle = False
            if self._is_finishing:
                break
            try:
                self._index.update(self._check, self._prepared)
            except HoldfastError as error:
                self._prepared.clear()  # a later update reads them from the archive
                log.info("the index was not updated: %s", error)
            self._is_idle = True
        self._finish()

    def _finish(self) -> None:
        try:
            self._send("total", self._index.pending())
            report = bring_up(self._index, self._advance, self._prepared)
            self._send("end", *astuple(report))
        except HoldfastError as error:
            self._send("failed", type(error).__name__, str(error))

    def _is_due(self) -> bool:
        return self._is_finishing or self._prepared.bytes > _INDEXED_BYTES

    def _advance(self, records: int) -> None:
        self._send("done", records)
        self._check(records)

    def _check(self, records: int) -> None:
        if self._is_stopped:
            raise _Stopped

    def _send(self, *message: Any) -> None:
        with suppress(OSError):
            self._crawl.sendall(packed_frame(marshal.dumps(message)))

    def _receive(self) -> None:
        with suppress(OSError):
            for frame in frames_from(self._crawl):
                match marshal.loads(frame):
                    case ("add", pages):
                        for page in pages:
                            self._prepared.add(*page)
                    case _:
                        self._is_finishing = True
                if self._is_due():
                    with self._changed:
                        self._changed.notify()
        if not self._is_finishing:
            os._exit(0)  # the crawl was killed; the next update does the uncommitted work again

    def _stop(self, *_: object) -> None:
        if self._is_idle:
            os._exit(0)
        self._is_stopped = True


def _import_early() -> None:
    """Imports what every update needs while the crawl waits for its first page, not at its end."""
    for name in ("pyarrow.parquet", "tantivy", "holdfast.index.build", "holdfast.index.ranks.page_rank"):
        import_module(name)


@contextmanager
def _opened(root: Path) -> Iterator[tuple[Index, PreparedDocuments]]:
    """Opens no more of the archive than needed: a crawl of one page must not wait for it."""
    from holdfast import config
    from holdfast.batches.journal import Journal
    from holdfast.catalog import Catalog
    from holdfast.env import REAL, paths
    from holdfast.index.index import Index
    from holdfast.index.workers.pool import PreparedDocuments

    path = root / paths.SETTINGS
    settings = config.merged(config.load(path), path)
    journal = Journal(root, REAL, writable=False)
    cache_bytes = settings.records.catalog_cache_bytes
    with Catalog(root / paths.CATALOG, read_only=True, cache_bytes=cache_bytes, env=REAL) as catalog:
        yield Index(root, settings.index, REAL, lambda: catalog), PreparedDocuments(journal)
    journal.close()


def main() -> None:
    """The process. Arguments: socket, archive, seconds between updates."""
    from holdfast.index.workers.worker import forgo_pandas

    forgo_pandas()
    os.nice(_NICENESS)
    crawl, root, every_s = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]), float(sys.argv[3])
    with suppress(_Stopped), _opened(root) as (index, prepared):
        _Updater(crawl, index, prepared).run(every_s)
    os._exit(0)
