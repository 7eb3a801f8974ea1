"""Running a crawl until it ends, a limit is reached, or somebody stops it.

What is seen while a crawl runs: a few lines that change in place on a terminal, now and then a line elsewhere.

What a crawl has done, in numbers: the summary at its end, and `holdfast crawl status`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.cli.index import bring_up, is_automatic, kept_up
from holdfast.cli.interrupt import writing
from holdfast.cli.output import counted, note, show, show_fields, visible
from holdfast.env.units import rounded_duration, rounded_size
from holdfast.errors import CrawlFailed

if TYPE_CHECKING:
    from holdfast.cli.crawl_plan import CrawlPlan
    from holdfast.cli.interrupt import Interruption
    from holdfast.crawl.crawl import Summary
    from holdfast.crawl.ingest.tally import CrawlTally
    from holdfast.crawl.job.job import CrawlJob


Progress = Callable[["CrawlTally"], None]

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

    def take(self, tally: CrawlTally) -> None:
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

    def remaining_s(self, tally: CrawlTally) -> float | None:
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


def progress_lines(name: str, tally: CrawlTally, pace: Pace) -> list[str]:
    """How it goes, in three short lines."""
    remaining = pace.remaining_s(tally)
    left = f", {rounded_duration(remaining)} left" if remaining is not None else ""
    return [
        f"{name}  {rounded_duration(tally.seconds)}{left}",
        f"fetched {tally.fetched:,} ({pace.urls:,.1f}/s), {counted(tally.pages, 'page')}, "
        f"{rounded_size(tally.transferred_bytes)} ({rounded_size(int(pace.bytes))}/s)",
        f"waiting {tally.queued:,} on {counted(tally.hosts, 'host')}, {tally.in_flight} in flight; "
        f"{counted(tally.errors, 'error')}, {tally.unchanged:,} unchanged, "
        f"{counted(tally.duplicates, 'duplicate')} ({rounded_size(tally.saved_bytes)} saved)",
    ]


def at_most_every(interval_s: float, show: Progress) -> Progress:
    """Calls that come sooner after the last are passed over."""
    due = 0.0

    def step(tally: CrawlTally) -> None:
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

        def line(tally: CrawlTally) -> None:
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

        def draw(tally: CrawlTally) -> None:
            pace.take(tally)
            lines = progress_lines(job.name, tally, pace) + [_NOTICE] * interruption.pressed
            block = Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))
            live.update(Constrain(block, max(console.width - _MARGIN, 1)), refresh=True)

        yield at_most_every(_REDRAW_S, draw)


_REASONS_SHOWN = 5
_ALWAYS = ("fetched", "pages", "new", "duplicates", "errors")


def tally_fields(tally: Mapping[str, Any], reasons: Mapping[str, int]) -> dict[str, str]:
    """A line for each count; most of those that are 0 are left out."""
    get = {name: tally.get(name, 0) for name in _NAMES}.__getitem__
    lines = {
        "fetched": f"{get('fetched'):,} in {rounded_duration(get('seconds'))} ({rate_of(tally):,.1f} a second), "
        f"{rounded_size(get('transferred_bytes'))} received",
        "pages": f"{get('pages'):,}",
        "new": f"{get('new'):,} ({rounded_size(get('new_bytes'))})",
        "duplicates": f"{get('duplicates'):,} ({rounded_size(saved_bytes(tally))} saved)",
        "unchanged": f"{get('unchanged'):,}",
        "changed": f"{get('changed'):,}",
        "redirects": f"{get('redirects'):,}",
        "gone": f"{get('gone'):,}",
        "errors": f"{get('errors'):,}{_reasons(reasons)}",
        "refused": f"{get('refused'):,} by robots.txt",
        "trapped": f"{get('trapped'):,} of a site without end, or beyond a budget",
        "truncated": f"{get('truncated'):,}",
        "retries": f"{get('retries'):,}",
        "besides": f"{get('besides'):,} robots.txt and sitemaps",
        "waiting": f"{get('queued'):,}",
    }
    counts = {name: get("queued" if name == "waiting" else name) for name in lines}
    return {name: line for name, line in lines.items() if counts[name] or name in _ALWAYS}


_NAMES = (
    *("fetched", "pages", "new", "duplicates", "unchanged", "changed", "redirects", "gone", "errors", "refused"),
    *(
        "trapped",
        "besides",
        "truncated",
        "retries",
        "transferred_bytes",
        "content_bytes",
        "new_bytes",
        "seconds",
        "queued",
    ),
)


def _reasons(reasons: Mapping[str, int]) -> str:
    """The most frequent ones."""
    ranked = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{count:,} {reason}" for reason, count in ranked[:_REASONS_SHOWN]]
    rest = sum(count for _, count in ranked[_REASONS_SHOWN:])
    shown += [f"{rest:,} others"] if rest else []
    return f": {', '.join(shown)}" if shown else ""


def saved_bytes(tally: Mapping[str, Any]) -> int:
    """What was received and not stored again."""
    return int(tally.get("content_bytes", 0)) - int(tally.get("new_bytes", 0))


def rate_of(tally: Mapping[str, Any]) -> float:
    """URLs a second."""
    seconds = float(tally.get("seconds", 0.0))
    return float(tally.get("fetched", 0)) / seconds if seconds > 0 else 0.0


_STOPPING = (signal.SIGTERM, signal.SIGHUP)
_UNANSWERED = ("connect", "tls", "timeout", "protocol", "dropped")


@dataclass(frozen=True, slots=True)
class Manner:
    """How a crawl is run."""

    began: float  # by the monotonic clock; the time that a run may take counts from here
    quiet: bool = False
    verbose: bool = False
    as_json: bool = False
    index: bool | None = None  # whether the index is kept up to date; None: as the settings say


def run_crawl(archive: Path, plan: CrawlPlan, manner: Manner) -> None:
    """Raises CrawlFailed if nothing at all could be fetched, KeyboardInterrupt after Ctrl-C."""
    from holdfast.crawl.crawl import Crawl
    from holdfast.crawl.processes.garbage import collect_seldom

    collect_seldom()
    job = plan.job
    if job.browser.enabled:
        _warn_without_browser(job)
    quiet = manner.quiet
    with writing(archive) as (opened, interruption):
        indexed = is_automatic(opened, manner.index)
        with (
            display(job, interruption, quiet=quiet, verbose=manner.verbose) as progress,
            _asked_to_stop() as asked,
            kept_up(opened, wanted=indexed),
        ):
            summary = Crawl(opened, job, began=manner.began).run(progress, lambda: interruption.pressed or asked())
        _summarize(archive, summary, quiet=quiet, as_json=manner.as_json)
        if interruption.pressed or (_is_cut_short(summary) and not quiet):
            note(f"holdfast: what waits is kept; 'holdfast crawl --resume {job.name}' goes on")
    if indexed:
        until = manner.began + job.time_s if job.time_s is not None else None
        bring_up(archive, quiet=quiet or manner.as_json, until=until)
    _fail_without_response(archive, plan, summary)


def _is_cut_short(summary: Summary) -> bool:
    return summary.state == "stopped" or (summary.state == "limit" and summary.tally.queued > 0)


def _warn_without_browser(job: CrawlJob) -> None:
    from holdfast.crawl.browser import available

    if reason := available(job.browser):
        note(f"warning: {reason}; pages are fetched without a browser")


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM has come, or the terminal has gone; what was to be ignored stays ignored."""
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.getsignal(number) for number in _STOPPING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, remember)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summarize(archive: Path, summary: Summary, *, quiet: bool, as_json: bool) -> None:
    from holdfast.crawl.crawls import log_path

    log = str(log_path(archive, summary.name))
    tally = summary.tally.as_dict()
    if as_json:
        show(summary_values(summary) | {"log": log}, "", as_json=True)
    elif not quiet:
        end = f"{summary.state} ({summary.reason})" if summary.reason else summary.state
        fields = {"crawl": f"{summary.name}, visit {summary.visit}: {end}"}
        show_fields(fields | tally_fields(tally, summary.errors) | {"log": log})


def summary_values(summary: Summary) -> dict[str, Any]:
    """The summary as JSON has it."""
    tally: dict[str, Any] = summary.tally.as_dict()
    head: dict[str, Any] = {"event": "summary", "name": summary.name, "visit": summary.visit, "state": summary.state}
    more: dict[str, Any] = {"reason": summary.reason, "saved_bytes": saved_bytes(tally), "reasons": summary.errors}
    return head | more | tally


def _fail_without_response(archive: Path, plan: CrawlPlan, summary: Summary) -> None:
    tally = summary.tally
    if tally.fetched or summary.state != "finished" or not (tally.errors or tally.refused):
        return
    why = _trouble(archive, summary) + _http_hint(archive, plan, summary)
    raise CrawlFailed(
        f"no seed of the crawl '{summary.name}' could be fetched: {visible(why)}; "
        f"see 'holdfast crawl log {summary.name}'"
    )


def _trouble(archive: Path, summary: Summary) -> str:
    """What went wrong last; without an error, why robots.txt kept the crawl away."""
    if summary.tally.errors:
        return summary.trouble or ", ".join(sorted(summary.errors)) or "all fetches failed"
    refused = _last(archive, summary.name, "refused")
    return str(refused.get("note") or "robots.txt forbids it")


def _http_hint(archive: Path, plan: CrawlPlan, summary: Summary) -> str:
    """A site that was named without a scheme may speak HTTP only."""
    if not plan.assumed or _last(archive, summary.name, "fetch").get("outcome") not in _UNANSWERED:
        return ""
    return f"; if it has no TLS, try '{plan.assumed[0].replace('https://', 'http://', 1)}'"


def _last(archive: Path, name: str, event: str) -> dict[str, Any]:
    from holdfast.crawl.crawls import log_path
    from holdfast.crawl.log import LogFilter, read_log

    rows = read_log(log_path(archive, name), LogFilter(events=frozenset({event})), last=1)
    return next(rows, {})
