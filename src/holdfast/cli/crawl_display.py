"""What is seen while a crawl runs: a few lines that change in place on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli.crawl_words import in_time
from holdfast.cli.output import counted, in_bytes, note

if TYPE_CHECKING:
    from holdfast.cli.interrupt import Interruption
    from holdfast.crawl.job import CrawlJob
    from holdfast.crawl.tally import Tally

Progress = Callable[["Tally"], None]

_REDRAW_S = 0.25
_LINE_S = 30.0
_WINDOW_S = 10.0  # over which rates are taken
_NOTICE = "Ctrl-C again ends at once; finishing what has begun"  # the first half fits where the whole does not
_MARGIN = 3  # columns that stay free: a terminal shows '^C' where the cursor is, which must not go to another line


class Pace:
    """How fast a run goes, over the last seconds, and how long until the first limit of its job."""

    def __init__(self, job: CrawlJob, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._clock = clock
        self._points: deque[tuple[float, int, int]] = deque()  # time, URLs, bytes
        self._fetched_before = 0
        self._bytes_before = 0
        self._seconds_before = 0.0

    def take(self, tally: Tally) -> None:
        now = self._clock()
        if not self._points:
            self._seconds_before = tally.seconds
            # A limit that was reached counts anew from there; one that was not goes on counting.
            self._fetched_before = tally.fetched if tally.fetched >= (self._job.limit or 0) else 0
            received = tally.transferred_bytes
            self._bytes_before = received if received >= (self._job.bytes_max or 0) else 0
        while len(self._points) > 1 and self._points[0][0] < now - _WINDOW_S:
            self._points.popleft()
        self._points.append((now, tally.fetched, tally.transferred_bytes))

    @property
    def urls(self) -> float:
        """URLs a second."""
        return self._rate(1)

    @property
    def bytes(self) -> float:
        """Bytes a second."""
        return self._rate(2)

    def _rate(self, place: int) -> float:
        if len(self._points) < 2:
            return 0.0
        first, last = self._points[0], self._points[-1]
        return (last[place] - first[place]) / max(last[0] - first[0], 1e-6)

    def remaining_s(self, tally: Tally) -> float | None:
        """None if the job has no limit, or nothing moves."""
        job = self._job
        left = []
        if job.limit is not None and self.urls > 0:
            left.append((job.limit - (tally.fetched - self._fetched_before)) / self.urls)
        if job.bytes_max is not None and self.bytes > 0:
            left.append((job.bytes_max - (tally.transferred_bytes - self._bytes_before)) / self.bytes)
        if job.time_s is not None:
            left.append(job.time_s - (tally.seconds - self._seconds_before))
        return max(0.0, min(left)) if left else None


def progress_lines(name: str, tally: Tally, pace: Pace) -> list[str]:
    """How it goes, in three short lines."""
    remaining = pace.remaining_s(tally)
    left = f", {in_time(remaining)} left" if remaining is not None else ""
    return [
        f"{name}  {in_time(tally.seconds)}{left}",
        f"fetched {tally.fetched:,} ({pace.urls:,.1f}/s), {counted(tally.pages, 'page')}, "
        f"{in_bytes(tally.transferred_bytes)} ({in_bytes(int(pace.bytes))}/s)",
        f"waiting {tally.queued:,} on {counted(tally.hosts, 'host')}, {tally.in_flight} in flight; "
        f"{counted(tally.errors, 'error')}, {tally.unchanged:,} unchanged, "
        f"{counted(tally.duplicates, 'duplicate')} ({in_bytes(tally.saved_bytes)} saved)",
    ]


def at_most_every(interval_s: float, show: Progress) -> Progress:
    """Calls that come sooner after the last are passed over."""
    due = 0.0

    def step(tally: Tally) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + interval_s
            show(tally)

    return step


@contextmanager
def display(job: CrawlJob, interruption: Interruption, *, quiet: bool, verbose: bool) -> Iterator[Progress]:
    """Takes the tally as often as it likes to come."""
    if quiet or not (verbose or sys.stderr.isatty()):
        yield lambda tally: None
    elif sys.stderr.isatty():
        with _live(job, interruption) as show:
            yield show
    else:
        pace = Pace(job)

        def line(tally: Tally) -> None:
            pace.take(tally)
            note("; ".join(progress_lines(job.name, tally, pace)))

        yield at_most_every(_LINE_S, line)


@contextmanager
def _live(job: CrawlJob, interruption: Interruption) -> Iterator[Progress]:
    from rich.console import Console, Group
    from rich.constrain import Constrain
    from rich.live import Live
    from rich.text import Text

    pace = Pace(job)
    console = Console(stderr=True)
    # Drawn by calls alone: a thread of its own would take turns with the crawl. Standard output stays as it is.
    with (
        interruption.displayed(),
        Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False) as live,
    ):

        def draw(tally: Tally) -> None:
            pace.take(tally)
            lines = progress_lines(job.name, tally, pace) + [_NOTICE] * interruption.pressed
            block = Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))
            live.update(Constrain(block, max(console.width - _MARGIN, 1)), refresh=True)

        yield at_most_every(_REDRAW_S, draw)
