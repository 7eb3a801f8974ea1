"""The child process of fetching.

    conductor ──('job', …), ('pause', host, until, reason), ('recall', host), ('flush',), ('settled', count),
                ('stop', seconds)──▶ fetcher ──Fetched──▶ readers
              ◀──('taken', job id, reader), ('pause', …), ('recalled', host, [job id, …]), ('stats', {…})──

The first frame on the control socket is a pickled FetcherStart. What was fetched goes to the reader with the least to
read; while too much waits for the readers, or to be settled by the conductor, nothing new is begun. Each job ends in
one note: a reader has 'taken' it, whatever parts and resources a browser delivered for it before, or it was 'recalled',
for it would have waited for long.

Told to stop, the process begins no further request. It waits that many seconds for those under way, hands all that has
come to the readers, and ends; the readers end after it.
When the conductor closes the control socket, or is gone, the process ends at once: what it had under way is lost, and
the conductor still knows of it.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import pickle
import resource
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.processes.garbage import collect_seldom
from holdfast.crawl.processes.messages import Fetched, FetchJob, pack, pack_fetched
from holdfast.env.child_process import RECEIVE_BYTES, Frames

UNREAD_BYTES_MAX = 64 << 20
_STATS_EVERY_S = 1.0
_COOKIES_EVERY = 30  # stats
_MEASURE_AGAIN_S = 0.01
_LOOK_AGAIN_S = 0.01
_OPEN_FILES = 8192

Deliver = Callable[[Fetched], None]
Browse = Callable[[FetchJob, Deliver], None]  # delivers the parts of a page, and last the page itself
RecallPages = Callable[
    [str, list[FetchJob]], list[FetchJob]
]  # what the fetcher gives back to what the browser gives back


@dataclass(frozen=True, slots=True)
class FetcherStart:
    """What the process needs to know."""

    job: CrawlJob
    directory: Path  # of the crawl
    allow_private: bool = False  # addresses of whatever kind
    private_networks: tuple[str, ...] = ()  # those in which addresses are allowed though they are not public


class FetchingProcess:
    """Between the conductor's socket, the fetcher and the readers' sockets."""

    def __init__(self, control: socket, readers: list[socket], start: FetcherStart, frames: Frames) -> None:
        from holdfast.crawl.fetch.fetcher import Fetcher
        from holdfast.crawl.fetch.frame_writer import FrameWriter

        self._loop = asyncio.get_running_loop()
        self._control = control
        self._frames = frames
        self._start = start
        self._over = self._loop.create_future()
        self._to_conductor = FrameWriter(self._loop, control)
        self._to_readers = [FrameWriter(self._loop, reader) for reader in readers]
        self._spooled: list[deque[tuple[int, str]]] = [deque() for _ in readers]  # files that readers may not know of
        self._delivered = 0  # frames, each of which becomes one reading
        self._settled = 0  # of them
        self._rounds = 0
        self._measuring: asyncio.TimerHandle | None = None
        self._fetcher = Fetcher(
            start.job,
            start.directory,
            allow_private=start.allow_private,
            private_networks=start.private_networks,
            on_pause=self._paused,
            on_recall=self._recalled,
        )
        self._browse: Browse | None = None
        self._recall_pages: RecallPages = lambda host, jobs: []
        self._close_browser: Callable[[], Any] | None = None
        self._shown: Callable[[], int] = lambda: 0  # pages in the browser
        self._stop_browser: Callable[[], None] = lambda: None
        self._ending: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(_STATS_EVERY_S, self._tell)

    async def run(self, first: list[bytes]) -> None:
        """Until the conductor is gone; `first` are frames that came with the start."""
        self._loop.add_signal_handler(signal.SIGTERM, self.stop)
        self._loop.set_exception_handler(self._failed)
        try:
            if self._start.job.browser.enabled:
                await self._open_browser()
            self._loop.add_reader(self._control.fileno(), self._receive)
            for frame in first:
                self._handle(marshal.loads(frame))
            await self._over
        finally:
            await self._close()

    def stop(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A mistake of ours in a callback: better an end that the conductor sees than a fetch that never ends."""
        loop.default_exception_handler(context)
        if not self._over.done():
            self._over.set_exception(context.get("exception") or RuntimeError(str(context.get("message"))))

    async def _open_browser(self) -> None:
        """The browser is a module of its own, and heavy: only a crawl that wants one loads it."""
        from importlib import import_module

        browser = import_module("holdfast.crawl.browser")
        opened = await browser.open_browser(self._fetcher, self._start.job, self._start.directory)
        if opened is not None:
            self._browse, self._close_browser = opened.submit, opened.close
            self._recall_pages = opened.recall
            self._stop_browser = opened.stop
            self._shown = lambda: opened.active

    async def _close(self) -> None:
        self._timer.cancel()
        if self._measuring is not None:
            self._measuring.cancel()
        if self._ending is not None:
            self._ending.cancel()
        self._loop.remove_reader(self._control.fileno())
        if self._close_browser is not None:
            await self._close_browser()
        self._fetcher.close()
        self._to_conductor.flush()
        for outlet in self._to_readers:
            outlet.flush()
        for outlet in (*self._to_readers, self._to_conductor):
            outlet.close()
        for index in range(len(self._spooled)):
            for path in self._not_handed_over(index):
                Path(path).unlink(missing_ok=True)

    # -- from the conductor -------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """All that is there: the event loop tells of a killed conductor once, though frames precede its end."""
        while True:
            try:
                data = self._control.recv(RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.stop()
                return
            for frame in self._frames.feed(data):
                self._handle(marshal.loads(frame))

    def _handle(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("job", fields):
                job = FetchJob._make(fields)
                if job.browse and self._browse is not None:
                    self._browse(job, self._deliver)
                else:
                    self._fetcher.submit(job, self._deliver, recallable=True)
            case ("pause", host, until, reason):
                self._fetcher.pause(host, until, reason)
            case ("recall", host):
                self._fetcher.recall(host)
            case ("flush",):
                self._fetcher.save_cookies()
            case ("settled", int(count)):
                self._settled = count
                self._fetcher.set_unsettled(self._delivered - count)
            case ("stop", float(grace_s)):
                self._stop_browser()
                self._fetcher.stop()
                self._ending = self._ending or self._loop.create_task(self._end_in_order(grace_s))

    async def _end_in_order(self, grace_s: float) -> None:
        """What comes in time is handed to the readers, all of it; then the process ends."""
        deadline = self._loop.time() + grace_s
        while (self._fetcher.active or self._shown()) and self._loop.time() < deadline:
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._fetcher.close()  # so that nothing is delivered any more
        while any(outlet.waiting_bytes for outlet in (*self._to_readers, self._to_conductor)):
            await asyncio.sleep(_LOOK_AGAIN_S)
        self.stop()

    # -- to readers and conductor -------------------------------------------------------------------------------

    def _deliver(self, fetched: Fetched) -> None:
        """Hands something fetched to the reader with the least to read."""
        index = min(range(len(self._to_readers)), key=self._load)
        outlet = self._to_readers[index]
        outlet.put(pack_fetched(fetched))
        self._delivered += 1
        self._fetcher.set_unsettled(self._delivered - self._settled)
        if fetched.spool:
            self._not_handed_over(index)
            self._spooled[index].append((outlet.put_bytes, fetched.spool))
        if not (fetched.part or fetched.resource):
            self._to_conductor.put(pack(("taken", fetched.job.id, index)))
        self._measure()

    def _not_handed_over(self, index: int) -> list[str]:
        """The files of frames that a reader's socket has not taken whole."""
        files, sent = self._spooled[index], self._to_readers[index].sent_bytes
        while files and files[0][0] <= sent:
            files.popleft()
        return [path for _, path in files]

    def _load(self, index: int) -> int:
        outlet = self._to_readers[index]
        return sys.maxsize if outlet.dead else outlet.waiting_bytes

    def _measure(self) -> None:
        unread = sum(outlet.waiting_bytes for outlet in self._to_readers)
        self._fetcher.hold(unread > UNREAD_BYTES_MAX)
        if unread > UNREAD_BYTES_MAX and self._measuring is None:
            self._measuring = self._loop.call_later(_MEASURE_AGAIN_S, self._measure_again)

    def _measure_again(self) -> None:
        self._measuring = None
        self._measure()

    def _paused(self, host: str, until: float, reason: str) -> None:
        self._to_conductor.put(pack(("pause", host, until, reason)))

    def _recalled(self, host: str, jobs: list[FetchJob]) -> None:
        ids = [job.id for job in (*jobs, *self._recall_pages(host, jobs))]
        self._to_conductor.put(pack(("recalled", host, ids)))

    def _tell(self) -> None:
        stats = self._fetcher.stats()
        stats["active"] += self._shown()
        self._to_conductor.put(pack(("stats", stats)))
        self._rounds += 1
        if self._rounds % _COOKIES_EVERY == 0:
            self._fetcher.save_cookies()
        self._timer = self._loop.call_later(_STATS_EVERY_S, self._tell)


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _received_start(control: socket, frames: Frames) -> tuple[FetcherStart, list[bytes]] | None:
    """The first frame, and those that came with it; None if the conductor is gone already."""
    while data := control.recv(RECEIVE_BYTES):
        got = list(frames.feed(data))
        if got:
            start = pickle.loads(got[0])
            assert isinstance(start, FetcherStart), "the first frame is the start"
            return start, got[1:]
    return None


async def _run(control: socket, readers: list[socket]) -> None:
    frames = Frames()
    started = _received_start(control, frames)
    if started is not None:
        await FetchingProcess(control, readers, started[0], frames).run(started[1])


def main() -> None:
    """Runs the process; its arguments are descriptors of sockets: the control socket, then one for each reader."""
    import uvloop

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the conductor
    _allow_many_files()
    collect_seldom()
    control, *readers = [socket(fileno=int(descriptor)) for descriptor in sys.argv[1:]]
    code = 1
    try:
        uvloop.run(_run(control, readers))
        code = 0
    except Exception:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # threads that wait for a name server are not waited for
