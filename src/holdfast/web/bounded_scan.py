"""Looks through the catalog that may take long: in a thread, bounded in time, ended when nobody listens any more.

Whatever a query asks for, the catalog hands every capture it comes by to `permits` first. A watch goes along as that,
so that a query which finds nothing among millions is ended as surely as one that finds too much.
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
THREADS_MAX = 8  # looks at the same time in each worker; more wait
_LOOK_EVERY = 256  # captures between two looks at the clock
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("holdfast-looks")  # one in each event loop

T = TypeVar("T")


class Spent(Exception):
    """A look took more than it may on the event loop."""


class ScanBudget:
    """Permits as it is told, and no more than so many captures. For looks on the event loop."""

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
    """Permits as it is told, until the time is over or `stop` was called. For looks in a thread."""

    def __init__(
        self,
        permits: Permits | None,
        seconds_max: float,
        captures_max: int | None = None,
        *,
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        """`cut` is called, on the event loop, if a look was ended because it asked too much."""
        self._permits = permits
        self._cut = cut
        self._seconds_max = seconds_max
        self._captures_max = captures_max
        self._ends_s = time.monotonic() + seconds_max
        self._stopped = False
        self._seen = 0

    def __call__(self, capture: Capture) -> bool:
        self._seen += 1
        if self._seen % _LOOK_EVERY == 0:
            self.look()
        return self._permits is None or self._permits(capture)

    def look(self) -> None:
        """Raises TooLarge if the time is over."""
        if self._stopped:
            raise Spent
        if time.monotonic() > self._ends_s:
            raise TooLarge(
                f"the query takes longer than {self._seconds_max:g} s: narrow it, "
                "or take it in parts with 'limit' and 'showResumeKey'"
            )
        if self._captures_max is not None and self._seen > self._captures_max:
            raise TooLarge(
                f"the query would have to hold more than {self._captures_max} captures: narrow it, or change its order"
            )

    def stop(self) -> None:
        """Nobody wants to know any more."""
        self._stopped = True

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """What the function returns, which looks with this watch, in a thread. Raises TooLarge."""
        try:
            return await in_thread(function, *arguments)
        except TooLarge:
            self._cut()
            raise


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """One of a few threads kept for long looks, so that they cannot take those of all other requests.

    A client that goes away is not waited for: the look ends by itself when its watch is stopped.
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
    """An answer that is made while it is sent. Raises what its first piece does; after it, a failure breaks it off."""
    try:
        first = await watch.run(next, pieces, b"")
    except BaseException:
        watch.stop()
        raise
    return StreamingResponse(_rest(first, pieces, watch), headers=headers)


async def _rest(first: bytes, pieces: Iterator[bytes], watch: ScanWatch) -> AsyncIterator[bytes]:
    try:
        piece = first
        while piece:
            yield piece
            piece = await watch.run(next, pieces, b"")
    finally:
        watch.stop()
