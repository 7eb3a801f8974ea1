"""Long scans of the catalog: in a thread, bounded in time, stopped when the client disconnects.

The catalog passes every scanned capture to `permits`. A budget or a watch takes its place, so that a query without
matches among millions is stopped just like one with too many.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from starlette.responses import StreamingResponse

from holdfast.catalog.query.search import Permits
from holdfast.errors import TooLarge
from holdfast.model import Capture

LINES_PER_PIECE = 500
THREADS_MAX = 8  # scans at the same time in each worker; more wait
_CHECK_EVERY = 256  # captures between two checks of the clock
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("holdfast-scans")  # one in each event loop

T = TypeVar("T")


class Spent(Exception):
    """A scan used up its budget, or was stopped."""


class ScanBudget:
    """Permits what `permits` does, up to a number of captures scanned; then raises Spent. For the event loop."""

    __slots__ = ("_left", "_permits")

    def __init__(self, captures: int, permits: Permits | None) -> None:
        self._left = captures
        self._permits = permits

    def __call__(self, capture: Capture) -> bool:
        self._left -= 1
        if self._left < 0:
            raise Spent
        return self._permits is None or self._permits(capture)


class ScanWatch:
    """Permits what `permits` does, until its time is over or `stop` was called. For scans in a thread."""

    def __init__(
        self,
        permits: Permits | None,
        seconds_max: float,
        captures_max: int | None = None,
        *,
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        """`cut` is called, on the event loop, if a scan was ended because it was too large."""
        self._permits = permits
        self._cut = cut
        self._seconds_max = seconds_max
        self._captures_max = captures_max
        self._ends_s = time.monotonic() + seconds_max
        self._stopped = False
        self._seen = 0

    def __call__(self, capture: Capture) -> bool:
        self._seen += 1
        if self._seen % _CHECK_EVERY == 0:
            self.check()
        return self._permits is None or self._permits(capture)

    def check(self) -> None:
        """Raises TooLarge if the time is over, and Spent after `stop`."""
        if self._stopped:
            raise Spent
        if time.monotonic() > self._ends_s:
            raise TooLarge(
                f"the query takes longer than {self._seconds_max:g} s: narrow it, "
                "or split it with 'limit' and 'showResumeKey'"
            )
        if self._captures_max is not None and self._seen > self._captures_max:
            raise TooLarge(
                f"the query needs more than {self._captures_max} captures in memory: narrow it, or change its order"
            )

    def stop(self) -> None:
        """Stops the scan: nobody needs the result."""
        self._stopped = True

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """The result of a function that scans with this watch, in a thread. Raises TooLarge."""
        try:
            return await in_thread(function, *arguments)
        except TooLarge:
            self._cut()
            raise


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Runs in one of a few threads reserved for scans, so that scans cannot occupy the threads of other requests.

    Does not wait after the client disconnects: the scan ends when its watch is stopped.
    """
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(THREADS_MAX)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(function, *arguments, limiter=limiter, abandon_on_cancel=True)


def pieces_of(lines: Iterator[str]) -> Iterator[bytes]:
    """The lines with their ends, many at a time."""
    while some := list(islice(lines, LINES_PER_PIECE)):
        some.append("")
        yield "\n".join(some).encode("utf-8", "surrogateescape")


async def streamed(pieces: Iterator[bytes], watch: ScanWatch, headers: dict[str, str]) -> StreamingResponse:
    """A response that is produced while it is sent. Raises what its first piece raises; a later failure cuts it off."""
    try:
        first = await watch.run(next, pieces, b"")
    except BaseException:
        watch.stop()
        raise

    async def body() -> AsyncIterator[bytes]:
        try:
            piece = first
            while piece:
                yield piece
                piece = await watch.run(next, pieces, b"")
        finally:
            watch.stop()

    return StreamingResponse(body(), headers=headers)
