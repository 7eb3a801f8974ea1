"""The processes of a crawl, seen from the conductor: jobs go in, readings come out.

    conductor ──jobs──▶ fetcher ──▶ reader 1 ──readings──▶ conductor
        ▲                  └──────▶ reader 2 ──────────────────┘
        └── notes: who has what, who asked for a pause

If one of them dies, all are started again; the conductor sends again what was under way.

To end in order, the fetcher is told to `stop`. When it has handed on what had come, it ends, and the readers end when
they have read it: once nobody is left, `receive` has given everything that was fetched.

Readings are received by a thread of their own: while the conductor waits for the disk, the readers go on, and the next
group is the larger for it.
"""

from __future__ import annotations

import logging
import marshal
import os
import subprocess
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from socket import socket, socketpair
from typing import Any

from holdfast.crawl.fetch.process import FetcherStart
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.parse.worker import ParseWorkerStart
from holdfast.crawl.processes.messages import FetchJob, ParsedPage, pack, unpack_reading
from holdfast.env.child_process import RECEIVE_BYTES, Frames, send_pickled, start_child

log = logging.getLogger("holdfast.crawl")

_FETCHER = "holdfast.crawl.fetch.process"
_READER = "holdfast.crawl.parse.worker"
_END_TIMEOUT_S = 5.0
_WAITING_BYTES_MAX = 64 << 20  # of readings that were received and not taken yet


class ProcessDied(Exception):
    """One of the processes is gone. `suspect` is the job that a reader died over, if it was one."""

    def __init__(self, who: str, suspect: int | None) -> None:
        super().__init__(f"the {who} of the crawl died")
        self.suspect = suspect


@dataclass(frozen=True, slots=True)
class PipelineStart:
    """What the processes need to know."""

    job: CrawlJob
    directory: Path  # of the crawl
    collection: str
    signature: str
    private_networks: tuple[str, ...]  # that may be asked though they are private
    thorough: bool = False  # look into unchanged pages, too


class Pipeline:
    """One thread calls; another, which it starts, receives."""

    def __init__(self, start: PipelineStart) -> None:
        self._selector = DefaultSelector()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._living = 0  # processes that have not ended in order
        self._frames: dict[socket, Frames] = {}
        self._reader_numbers: dict[socket, int] = {}
        self._at_reader: dict[int, deque[int]] = {}  # by number of reader: jobs that it has, in their order
        self._read_early: set[int] = set()  # jobs that came back before the note that a reader has them
        self._changed = threading.Condition()
        self._waiting: deque[tuple[ParsedPage, int]] = deque()  # with the bytes that it came in
        self._waiting_bytes = 0
        self._given = 0  # readings, to the conductor
        self._died: ProcessDied | None = None
        self._stopping = False
        self._closed = False
        self.pauses: list[tuple[str, float, str]] = []  # host, until when, why; for the conductor to take
        self.recalled: list[tuple[str, list[int]]] = []  # host, and jobs that were given back
        self.stats: dict[str, Any] = {}
        count = start.job.readers or os.cpu_count() or 1
        to_readers = [socketpair() for _ in range(count)]
        self._control = self._start_fetcher(start, [ours for ours, _ in to_readers])
        for number, (_, theirs) in enumerate(to_readers):
            self._start_reader(start, number, theirs)
        for pair in to_readers:
            for each in pair:
                each.close()
        self._wake, woken = socketpair()
        self._selector.register(woken, EVENT_READ)
        self._woken = woken
        self._start_receiver()

    def _start_receiver(self) -> None:
        self._receiver = threading.Thread(target=self._receive, name="holdfast-readings", daemon=True)
        self._receiver.start()

    def _start_fetcher(self, start: PipelineStart, to_readers: list[socket]) -> socket:
        ours, theirs = socketpair()
        self._spawn(_FETCHER, [theirs, *to_readers])
        theirs.close()
        told = FetcherStart(
            job=start.job,
            directory=start.directory,
            allow_private=start.job.fetch.private,
            private_networks=start.private_networks,
        )
        send_pickled(ours, told)
        self._watch(ours)
        return ours

    def _start_reader(self, start: PipelineStart, number: int, from_fetcher: socket) -> None:
        ours, theirs = socketpair()
        self._spawn(_READER, [from_fetcher, theirs])
        theirs.close()
        send_pickled(ours, ParseWorkerStart(start.job, start.collection, start.signature, start.thorough))
        self._reader_numbers[ours] = number
        self._at_reader[number] = deque()
        self._watch(ours)

    def _spawn(self, module: str, sockets: list[socket]) -> None:
        descriptors = [each.fileno() for each in sockets]
        self._processes.append(
            start_child(
                module,
                arguments=[str(each) for each in descriptors],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C is for the conductor
            )
        )

    def _watch(self, source: socket) -> None:
        self._living += 1
        self._frames[source] = Frames()
        self._selector.register(source, EVENT_READ)

    # -- sending ------------------------------------------------------------------------------------------------

    def send(self, jobs: Iterable[FetchJob]) -> None:
        """The fetcher takes them at any time: it never waits for us."""
        self._send(b"".join(pack(("job", tuple(job))) for job in jobs))

    def pause(self, host: str, until: float, reason: str) -> None:
        """Nothing is asked of the host before that time."""
        self._send(pack(("pause", host, until, reason)))

    def settled(self, *, behind: int = 0) -> None:
        """All readings that were received are settled, but for the last so many: the fetcher may go on."""
        self._send(pack(("settled", self._given - behind)))

    def stop(self, grace_s: float) -> None:
        """Nothing new is asked for; what is under way may take so long. `receive` until `has_ended`."""
        with self._changed:
            self._stopping = True
        if self._died is not None:  # over which the receiver has ended; the others may have something yet
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

    def receive(self, timeout_s: float, count_max: int) -> list[ParsedPage]:
        """Readings that are there, after waiting for the first. Raises ProcessDied, but not after `stop`."""
        with self._changed:
            died = None if self._stopping else self._died
            if not self._waiting and died is None:
                self._changed.wait(timeout_s)
            readings: list[ParsedPage] = []
            while self._waiting and len(readings) < count_max:
                reading, size = self._waiting.popleft()
                self._waiting_bytes -= size
                readings.append(reading)
            self._given += len(readings)
            self._changed.notify()
            if not readings and died is not None:
                raise died
            return readings

    @property
    def unsettled(self) -> int:
        """Fetches that have ended and wait to be read or to be received."""
        return sum(map(len, self._at_reader.values())) + len(self._waiting)

    @property
    def has_ended(self) -> bool:
        """After `stop`: whether all processes have ended, and everything that they gave was received."""
        with self._changed:
            return self._stopping and not self._living and not self._waiting

    def failures(self) -> list[str]:
        """After their end: the processes that did not end in order."""
        names = ["fetcher", *["reader"] * len(self._reader_numbers)]
        return [name for name, process in zip(names, self._processes, strict=True) if process.wait(_END_TIMEOUT_S)]

    def _receive(self) -> None:
        """In the receiving thread, until a process dies or the pipeline is closed."""
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
        number = self._reader_numbers.get(source)
        if not data:
            self._ended(source, number)
            return
        received = []
        for frame in self._frames[source].feed(data):
            if number is None:
                self._note(marshal.loads(frame))
            else:
                reading = unpack_reading(frame)
                received.append((reading, len(frame)))
                if not (reading.part or reading.resource):
                    self._gave_back(number, reading.job_id)
        if received:
            with self._changed:
                self._waiting.extend(received)
                self._waiting_bytes += sum(size for _, size in received)
                self._changed.notify()

    def _ended(self, source: socket, number: int | None) -> None:
        with self._changed:
            if not self._stopping:
                raise ProcessDied("fetcher" if number is None else "reader", self._suspect(number))
            self._living -= 1
            self._changed.notify()
        self._selector.unregister(source)

    def _gave_back(self, number: int, job_id: int) -> None:
        try:
            self._at_reader[number].remove(job_id)
        except ValueError:
            self._read_early.add(job_id)

    def _suspect(self, number: int | None) -> int | None:
        waiting = self._at_reader.get(number) if number is not None else None
        return waiting[0] if waiting else None

    def _note(self, note: tuple[Any, ...]) -> None:
        match note:
            case ("taken", int(job_id), int(reader)):
                if job_id in self._read_early:
                    self._read_early.discard(job_id)
                else:
                    self._at_reader[reader].append(job_id)
            case ("pause", str(host), until, str(reason)):
                self.pauses.append((host, float(until), reason))
            case ("recalled", str(host), list(job_ids)):
                self.recalled.append((host, job_ids))
            case ("stats", dict(stats)):
                self.stats = stats

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends all processes; what they had under way is lost, and still in the frontier."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._wake.close()  # the other end of it wakes the receiver
        self._receiver.join()
        self._woken.close()
        for source in self._frames:
            source.close()
        self._selector.close()
        for process in self._processes:
            try:
                process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
