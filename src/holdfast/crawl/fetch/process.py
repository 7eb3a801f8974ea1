"""The fetcher process.

    crawl process ──('job', …), ('read', …), ('pause', host, until, reason), ('recall', host), ('right', until),
                    ('permits', [permit, …]), ('settled', count), ('stop', seconds)──▶
                        fetcher ──Fetched──▶ parse workers
                  ◀──('taken', job id, worker), ('pause', …), ('recalled', host, [job id, …]), ('uses', [use, …]),
                     ('stats', {…})──

The first frame on the control socket is a pickled FetcherStart. 'read' is a response that the archive has already: it
goes to a parse worker like one that was fetched. Responses go to the parse worker with the least to
do; while too many wait to be parsed or committed, no request begins. Each job ends in one message: a worker has 'taken'
it, after all parts that a browser loaded for it, or it was 'recalled' because it would have waited too long. A page and
its parts go to one worker, so the crawl process has the parts when it has the page.

After 'stop', the process begins no further request. It waits that many seconds for running ones, hands everything
received to the parse workers, and ends; they end after it. When the crawl process closes the control socket, or dies,
the fetcher ends at once: running requests are lost, and their URLs are still queued in the frontier.

In a cluster the process has a right to fetch until a moment of CLOCK_BOOTTIME, which 'right' extends. Past it the
process ends, which closes all sockets. It looks at the clock before every call into libcurl, so a process that was
stopped and goes on later sends nothing. For addresses that hosts of other nodes may share it needs permits: it reports
its 'uses' of them, and gets 'permits'.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import Any

from holdfast.crawl.processes.messages import (
    AddressPermit,
    Fetched,
    FetcherStart,
    FetchJob,
    fetched_of,
    pack,
    pack_fetched,
)
from holdfast.env.child_process import RECEIVE_BYTES, Frames, collect_seldom

UNREAD_BYTES_MAX = 64 << 20
LAPSED = 3  # exit code: the right to fetch is over
_STATS_EVERY_S = 1.0
_USES_EVERY_S = 0.03
_COOKIES_EVERY = 30  # stats
_MEASURE_AGAIN_S = 0.01
_LOOK_AGAIN_S = 0.01
_OPEN_FILES = 8192

Deliver = Callable[[Fetched], None]
Browse = Callable[[FetchJob, Deliver], None]  # delivers the parts of a page, and last the page itself
RecallPages = Callable[[str, list[FetchJob]], list[FetchJob]]  # recalls pages from the browser


class FetchingProcess:
    """Connects the crawl process's socket, the fetcher and the parse workers' sockets."""

    def __init__(self, control: socket, workers: list[socket], start: FetcherStart, frames: Frames) -> None:
        from holdfast.crawl.fetch.fetcher import Fetcher

        self._loop = asyncio.get_running_loop()
        self._control = control
        self._frames = frames
        self._start = start
        self._over = self._loop.create_future()
        self._to_crawl = FrameWriter(self._loop, control)
        self._to_workers = [FrameWriter(self._loop, worker) for worker in workers]
        self._spooled: list[deque[tuple[int, str]]] = [
            deque() for _ in workers
        ]  # files that workers may not have received yet
        self._delivered = 0  # frames, one result each
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
            guard=self._require_right if start.until_s is not None else None,
            needs_permits=start.needs_permits,
        )
        self._using: asyncio.TimerHandle | None = None
        if start.needs_permits:
            self._report_uses()
        self._until_s = start.until_s
        self._lapse: asyncio.TimerHandle | None = None
        if start.until_s is not None:
            self._extend_right(start.until_s)
        self._browse: Browse | None = None
        self._recall_pages: RecallPages = lambda host, jobs: []
        self._close_browser: Callable[[], Any] | None = None
        self._shown: Callable[[], int] = lambda: 0  # pages in the browser
        self._stop_browser: Callable[[], None] = lambda: None
        self._ending: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(_STATS_EVERY_S, self._tell)

    async def run(self, first: list[bytes]) -> None:
        """Runs until the crawl process is gone; `first` are frames that came with the start."""
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
        """A bug in a callback ends the process, which the crawl process notices, rather than hang a fetch."""
        loop.default_exception_handler(context)
        if not self._over.done():
            self._over.set_exception(context.get("exception") or RuntimeError(str(context.get("message"))))

    async def _open_browser(self) -> None:
        """Loads the browser, which is heavy, only for crawls that use one."""
        from importlib import import_module

        browser = import_module("holdfast.crawl.browser.open")
        opened = await browser.open_browser(self._fetcher, self._start.job, self._start.directory)
        if opened is not None:
            self._browse, self._close_browser = opened.submit, opened.close
            self._recall_pages = opened.recall
            self._stop_browser = opened.stop
            self._shown = lambda: opened.active

    async def _close(self) -> None:
        self._timer.cancel()
        if self._lapse is not None:
            self._lapse.cancel()
        if self._using is not None:
            self._using.cancel()
        if self._measuring is not None:
            self._measuring.cancel()
        if self._ending is not None:
            self._ending.cancel()
        self._loop.remove_reader(self._control.fileno())
        if self._close_browser is not None:
            await self._close_browser()
        self._fetcher.close()
        self._to_crawl.flush()
        for outlet in self._to_workers:
            outlet.flush()
        for outlet in (*self._to_workers, self._to_crawl):
            outlet.close()
        for index in range(len(self._spooled)):
            for path in self._not_handed_over(index):
                Path(path).unlink(missing_ok=True)

    # -- from the crawl process -------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Reads all frames that are there: the event loop reports the end of a killed crawl process only once."""
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
                    self._browse(job, self._to_one_worker())
                else:
                    self._fetcher.submit(job, self._deliver, recallable=True)
            case ("read", fields):
                self._deliver(fetched_of(fields))
            case ("pause", host, until, reason):
                self._fetcher.pause(host, until, reason)
            case ("recall", host):
                self._fetcher.recall(host)
            case ("right", float(until_s)):
                self._extend_right(until_s)
            case ("permits", permits):
                for values in permits:
                    self._fetcher.permit(AddressPermit._make(values))
            case ("settled", int(count)):
                self._settled = count
                self._fetcher.set_unsettled(self._delivered - count)
            case ("stop", float(grace_s)):
                self._stop_browser()
                self._fetcher.stop()
                self._ending = self._ending or self._loop.create_task(self._end_in_order(grace_s))

    def _extend_right(self, until_s: float) -> None:
        self._until_s = until_s
        if self._lapse is not None:
            self._lapse.cancel()
        left_s = until_s - time.clock_gettime(time.CLOCK_BOOTTIME)
        self._lapse = self._loop.call_later(max(left_s, 0.0), self._end_right)

    def _end_right(self) -> None:
        self._require_right()
        assert self._until_s is not None
        self._extend_right(self._until_s)  # the timer was early

    def _require_right(self) -> None:
        """Ends the process if its right to fetch is over. The kernel closes its sockets at once."""
        if self._until_s is not None and time.clock_gettime(time.CLOCK_BOOTTIME) >= self._until_s:
            os._exit(LAPSED)

    async def _end_in_order(self, grace_s: float) -> None:
        """Hands everything that arrives in time to the workers, then ends the process."""
        deadline = self._loop.time() + grace_s
        while (self._fetcher.active or self._shown()) and self._loop.time() < deadline:
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._fetcher.close()  # no more results
        while any(outlet.waiting_bytes for outlet in (*self._to_workers, self._to_crawl)):
            await asyncio.sleep(_LOOK_AGAIN_S)
        self.stop()

    # -- to parse workers and crawl process ---------------------------------------------------------------------

    def _deliver(self, fetched: Fetched) -> None:
        self._hand(fetched, self._least_loaded())

    def _to_one_worker(self) -> Deliver:
        """Delivers a page and its parts. Two workers might be done with the page first; a crawl that ends, or dies,
        between the two would lose the parts of a page that counts as fetched.
        """
        chosen: list[int] = []

        def deliver(fetched: Fetched) -> None:
            if not chosen:
                chosen.append(self._least_loaded())
            self._hand(fetched, chosen[0])

        return deliver

    def _least_loaded(self) -> int:
        """The worker with the least to read."""
        return min(range(len(self._to_workers)), key=self._load)

    def _hand(self, fetched: Fetched, index: int) -> None:
        outlet = self._to_workers[index]
        outlet.put(pack_fetched(fetched))
        self._delivered += 1
        self._fetcher.set_unsettled(self._delivered - self._settled)
        if fetched.spool:
            self._not_handed_over(index)
            self._spooled[index].append((outlet.put_bytes, fetched.spool))
        if not (fetched.part or fetched.resource):
            self._to_crawl.put(pack(("taken", fetched.job.id, index)))
        self._measure()

    def _not_handed_over(self, index: int) -> list[str]:
        """The files of frames that a worker's socket has not taken completely."""
        files, sent = self._spooled[index], self._to_workers[index].sent_bytes
        while files and files[0][0] <= sent:
            files.popleft()
        return [path for _, path in files]

    def _load(self, index: int) -> int:
        outlet = self._to_workers[index]
        return sys.maxsize if outlet.dead else outlet.waiting_bytes

    def _measure(self) -> None:
        unread = sum(outlet.waiting_bytes for outlet in self._to_workers)
        self._fetcher.hold(unread > UNREAD_BYTES_MAX)
        if unread > UNREAD_BYTES_MAX and self._measuring is None:
            self._measuring = self._loop.call_later(_MEASURE_AGAIN_S, self._measure_again)

    def _measure_again(self) -> None:
        self._measuring = None
        self._measure()

    def _paused(self, host: str, until: float, reason: str) -> None:
        self._to_crawl.put(pack(("pause", host, until, reason)))

    def _recalled(self, host: str, jobs: list[FetchJob]) -> None:
        ids = [job.id for job in (*jobs, *self._recall_pages(host, jobs))]
        self._to_crawl.put(pack(("recalled", host, ids)))

    def _report_uses(self) -> None:
        if uses := self._fetcher.uses():
            self._to_crawl.put(pack(("uses", [tuple(use) for use in uses])))
        self._using = self._loop.call_later(_USES_EVERY_S, self._report_uses)

    def _tell(self) -> None:
        stats = self._fetcher.stats()
        stats["active"] += self._shown()
        self._to_crawl.put(pack(("stats", stats)))
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
    """The first frame, and those that came with it; None if the crawl process is gone already."""
    while data := control.recv(RECEIVE_BYTES):
        got = list(frames.feed(data))
        if got:
            start = pickle.loads(got[0])
            assert isinstance(start, FetcherStart), "the first frame is the start"
            return start, got[1:]
    return None


async def _run(control: socket, workers: list[socket]) -> None:
    frames = Frames()
    started = _received_start(control, frames)
    if started is not None:
        await FetchingProcess(control, workers, started[0], frames).run(started[1])


def main() -> None:
    """Runs the process; its arguments are descriptors of sockets: the control socket, then one for each worker."""
    import uvloop

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the crawl process
    _allow_many_files()
    collect_seldom()
    control, *workers = [socket(fileno=int(descriptor)) for descriptor in sys.argv[1:]]
    code = 1
    try:
        uvloop.run(_run(control, workers))
        code = 0
    except Exception:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # does not wait for threads in the resolver


_JOINED_BYTES_MAX = 1 << 18


class FrameWriter:
    """Writes the frames of one event-loop turn together. For the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: socket) -> None:
        self._loop = loop
        self._target = target
        self._frames: deque[bytes] = deque()
        self._offset = 0  # of the first frame, written already
        self._scheduled = False
        self._blocked = False
        self.put_bytes = 0  # ever
        self.sent_bytes = 0  # ever
        self.dead = False
        target.setblocking(False)

    @property
    def waiting_bytes(self) -> int:
        return 0 if self.dead else self.put_bytes - self.sent_bytes

    def put(self, frame: bytes) -> None:
        """Queues a frame; dropped if the other process is gone."""
        if self.dead:
            return
        self._frames.append(frame)
        self.put_bytes += len(frame)
        if not self._scheduled and not self._blocked:
            self._scheduled = True
            self._loop.call_soon(self._write)

    def close(self) -> None:
        self._give_up()
        self._target.close()

    def flush(self) -> None:
        """Writes what can be written at once."""
        self._write()

    def _write(self) -> None:
        self._scheduled = False
        try:
            while self._frames and not self.dead:
                sent = self._target.send(self._next())
                self._sent(sent)
        except BlockingIOError:
            if not self._blocked:
                self._blocked = True
                self._loop.add_writer(self._target.fileno(), self._write)
            return
        except OSError:
            self._give_up()
            return
        self._unblock()

    def _next(self) -> bytes | memoryview:
        first = self._frames[0]
        if self._offset or len(first) > _JOINED_BYTES_MAX:
            return memoryview(first)[self._offset :]
        if len(self._frames) == 1:
            return first
        count, size = 0, 0
        for frame in self._frames:
            size += len(frame)
            if size > _JOINED_BYTES_MAX:
                break
            count += 1
        if count > 1:
            joined = b"".join([self._frames.popleft() for _ in range(count)])
            self._frames.appendleft(joined)
            return joined
        return first

    def _sent(self, count: int) -> None:
        self.sent_bytes += count
        self._offset += count
        if self._offset == len(self._frames[0]):
            self._frames.popleft()
            self._offset = 0

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(self._target.fileno())

    def _give_up(self) -> None:
        with suppress(OSError, ValueError):
            self._unblock()
        self.dead = True
        self._frames.clear()
