"""The child processes of a crawl as a pipeline: jobs go in, parsed pages come out.

    crawl process ──FetchJob──▶ fetcher ──Fetched──▶ parse worker 1 ──ParsedPage──▶ crawl process
          ▲                        ├────────────────▶ parse worker 2 ─────────────────────┘
          └── taken, pause, ... ───┘

If a process dies, all are restarted; the caller sends the jobs in flight again.

`stop` ends the pipeline in order: the fetcher hands on what it has received and ends, then the parse workers end. When
all have ended, `receive` has returned everything that was fetched.

A thread receives, so that the workers go on while the crawl process waits for the disk.
"""

from __future__ import annotations

import logging
import marshal
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from socket import MSG_DONTWAIT, socket, socketpair
from typing import Any

from holdfast.crawl.processes.children import CrawlChildren
from holdfast.crawl.processes.messages import (
    AddressPermit,
    AddressUse,
    Fetched,
    FetcherStart,
    FetchJob,
    ParsedPage,
    ParseWorkerStart,
    pack,
    plain_fetched,
    unpack_parsed,
)
from holdfast.env.child_process import RECEIVE_BYTES, Frames, packed_frame, send_pickled

log = logging.getLogger("holdfast.crawl")

_GATHER_S = 0.02
_WAITING_BYTES_MAX = 64 << 20  # of results received and not taken yet


class ProcessDied(Exception):
    """A process has ended. `suspect` is the job that a parse worker was parsing."""

    def __init__(self, who: str, suspect: int | None) -> None:
        super().__init__(f"the {who} of the crawl died")
        self.suspect = suspect


class Pipeline:
    """For one thread; starts another, which receives."""

    def __init__(self, children: CrawlChildren, fetcher: FetcherStart, worker: ParseWorkerStart) -> None:
        """Sends the children their start messages. Owns them afterwards."""
        self._children = children
        self._selector = DefaultSelector()
        self._living = 0  # processes that have not ended in order
        self._frames: dict[socket, Frames] = {}
        self._worker_numbers: dict[socket, int] = {}
        self._at_worker: dict[int, deque[int]] = {}  # by worker: jobs it has, in order
        self._unsent: dict[socket, bytes] = {}  # dictionaries, by worker
        self._parsed_early: set[int] = set()  # jobs whose result arrived before the fetcher's note
        self._changed = threading.Condition()
        self._waiting: deque[tuple[ParsedPage, int]] = deque()  # with the size of its frame
        self._waiting_bytes = 0
        self._wanted = 1  # results that `receive` waits for
        self._given = 0  # results returned by `receive`
        self._died: ProcessDied | None = None
        self._stopping = False
        self._closed = False
        self.pauses: list[tuple[str, float, str]] = []  # host, until when, why; the caller takes them
        self.recalled: list[tuple[str, list[int]]] = []  # host, and its jobs that were returned
        self.uses: list[AddressUse] = []  # reports about addresses that need permits; the caller takes them
        self.stats: dict[str, Any] = {}
        self._control = children.fetcher
        self._begin(children.fetcher, fetcher)
        for number, source in enumerate(children.workers):
            self._begin(source, worker)
            self._worker_numbers[source] = number
            self._at_worker[number] = deque()
        self._wake, woken = socketpair()
        self._selector.register(woken, EVENT_READ)
        self._woken = woken
        self._start_receiver()

    def _start_receiver(self) -> None:
        self._receiver = threading.Thread(target=self._receive, name="holdfast-results", daemon=True)
        self._receiver.start()

    def _begin(self, source: socket, start: FetcherStart | ParseWorkerStart) -> None:
        with suppress(OSError):  # it has died: the receiving thread will notice
            send_pickled(source, start)
        self._living += 1
        self._frames[source] = Frames()
        self._selector.register(source, EVENT_READ)

    # -- sending ------------------------------------------------------------------------------------------------

    def send(self, jobs: Iterable[FetchJob]) -> None:
        """Sends jobs to the fetcher, which always accepts them."""
        if self._unsent:
            self._send_dictionaries()
        self._send(b"".join(pack(("job", tuple(job))) for job in jobs))

    def read(self, stored: Fetched) -> None:
        """Has a capture parsed again that the archive has."""
        self._send(pack(("read", plain_fetched(stored))))

    def encode_with(self, dictionary: bytes) -> None:
        """Tells the parse workers the dictionary for new contents. Never waits; what does not fit is sent later."""
        for source in self._worker_numbers:
            self._unsent[source] = self._unsent.get(source, b"") + packed_frame(dictionary)
        self._send_dictionaries()

    def _send_dictionaries(self) -> None:
        for source, data in list(self._unsent.items()):
            try:
                self._unsent[source] = data[source.send(data, MSG_DONTWAIT) :]
            except BlockingIOError:
                continue
            except OSError:  # it has died: the receiving thread will notice
                self._unsent[source] = b""
            if not self._unsent[source]:
                del self._unsent[source]

    def pause(self, host: str, until: float, reason: str) -> None:
        """No request to the host before that time."""
        self._send(pack(("pause", host, until, reason)))

    def recall(self, host: str) -> None:
        """Has the fetcher return the jobs of a host that have not started: see `recalled`."""
        self._send(pack(("recall", host)))

    def extend_right(self, until_s: float) -> None:
        """The fetcher may fetch until then, by CLOCK_BOOTTIME."""
        self._send(pack(("right", until_s)))

    def permit(self, permits: Sequence[AddressPermit]) -> None:
        """The fetcher may begin requests to addresses that hosts of other nodes may share."""
        self._send(pack(("permits", [tuple(each) for each in permits])))

    def settled(self, *, behind: int = 0) -> None:
        """All results but the last `behind` are committed, so the fetcher may start more requests."""
        self._send(pack(("settled", self._given - behind)))

    def stop(self, grace_s: float) -> None:
        """Starts no new request; running ones get `grace_s`. Then `receive` until `has_ended`."""
        with self._changed:
            self._stopping = True
        if self._died is not None:  # which ended the receiving thread; the others may still send
            self._receiver.join()
            self._start_receiver()
        self._send(pack(("stop", float(grace_s))))

    def _send(self, data: bytes) -> None:
        try:
            self._control.sendall(data)
        except OSError as error:
            if not self._stopping:
                raise ProcessDied("fetcher", None) from error

    # -- receiving ----------------------------------------------------------------------------------------------

    def receive(self, timeout_s: float, count_max: int, gather: int = 1) -> list[ParsedPage]:
        """Results that have arrived. Waits for the first, then up to `_GATHER_S` for `gather` of them.

        Raises ProcessDied, but not after `stop`.
        """
        with self._changed:
            died = None if self._stopping else self._died
            if not self._waiting and died is None:
                self._changed.wait(timeout_s)
            if 0 < len(self._waiting) < gather:
                self._wanted = gather
                self._changed.wait(_GATHER_S)
                self._wanted = 1
            pages: list[ParsedPage] = []
            while self._waiting and len(pages) < count_max:
                page, size = self._waiting.popleft()
                self._waiting_bytes -= size
                pages.append(page)
            self._given += len(pages)
            self._changed.notify()
            if not pages and died is not None:
                raise died
            return pages

    @property
    def unsettled(self) -> int:
        """Fetched pages that are not received yet."""
        return sum(map(len, self._at_worker.values())) + len(self._waiting)

    @property
    def has_ended(self) -> bool:
        """After `stop`: true if all processes have ended and `receive` has returned everything."""
        with self._changed:
            return self._stopping and not self._living and not self._waiting

    def failures(self) -> list[str]:
        """The processes that ended abnormally."""
        return self._children.failures()

    def _receive(self) -> None:
        """The receiving thread, until a process dies or the pipeline is closed."""
        while True:
            with self._changed:
                while self._waiting_bytes > _WAITING_BYTES_MAX and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            try:
                for key, _ in self._selector.select():
                    source = key.fileobj
                    assert isinstance(source, socket)
                    if source is self._woken:
                        return
                    self._receive_from(source)
            except ProcessDied as died:
                with self._changed:
                    self._died = died
                    self._changed.notify()
                return

    def _receive_from(self, source: socket) -> None:
        try:
            data = source.recv(RECEIVE_BYTES)
        except OSError:
            data = b""
        number = self._worker_numbers.get(source)
        if not data:
            self._ended(source, number)
            return
        received = []
        for frame in self._frames[source].feed(data):
            if number is None:
                self._note(marshal.loads(frame))
            else:
                page = unpack_parsed(frame)
                received.append((page, len(frame)))
                if not (page.part or page.resource):
                    self._gave_back(number, page.job_id)
        if received:
            with self._changed:
                self._waiting.extend(received)
                self._waiting_bytes += sum(size for _, size in received)
                if len(self._waiting) >= self._wanted:
                    self._changed.notify()

    def _ended(self, source: socket, number: int | None) -> None:
        with self._changed:
            if not self._stopping:
                raise ProcessDied("fetcher" if number is None else "parse worker", self._suspect(number))
            self._living -= 1
            self._changed.notify()
        self._selector.unregister(source)

    def _gave_back(self, number: int, job_id: int) -> None:
        try:
            self._at_worker[number].remove(job_id)
        except ValueError:
            self._parsed_early.add(job_id)

    def _suspect(self, number: int | None) -> int | None:
        waiting = self._at_worker.get(number) if number is not None else None
        return waiting[0] if waiting else None

    def _note(self, note: tuple[Any, ...]) -> None:
        match note:
            case ("taken", int(job_id), int(worker)):
                if job_id in self._parsed_early:
                    self._parsed_early.discard(job_id)
                else:
                    self._at_worker[worker].append(job_id)
            case ("pause", str(host), until, str(reason)):
                self.pauses.append((host, float(until), reason))
            case ("recalled", str(host), list(job_ids)):
                self.recalled.append((host, job_ids))
            case ("uses", list(uses)):
                with self._changed:
                    self.uses += map(AddressUse._make, uses)
                    self._changed.notify()  # whoever waits for results asks for permits first
            case ("stats", dict(stats)):
                self.stats = stats

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends all processes. Jobs in flight are lost; their URLs are still queued in the frontier."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._wake.close()  # wakes the receiving thread
        self._receiver.join()
        self._woken.close()
        self._selector.close()
        self._children.close()
