"""One run of a crawl, until it is finished, at a limit or stopped; its progress display and its summary."""

from __future__ import annotations

import signal
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.cli.archive.index import bring_up, is_automatic
from holdfast.cli.terminal import counted, note, show_fields, show_json, visible, writing
from holdfast.env.uninterruptible import raises_nothing
from holdfast.env.units import rounded_duration, rounded_size
from holdfast.errors import CrawlFailed

if TYPE_CHECKING:
    from holdfast.cli.crawl.plan import CrawlPlan
    from holdfast.cli.terminal import Interruption
    from holdfast.crawl.crawl import Summary
    from holdfast.crawl.ingest.tally import CrawlTally
    from holdfast.crawl.job.job import CrawlJob

Progress = Callable[["CrawlTally"], None]

_INDEX_EVERY_S = 300.0  # how often a running crawl updates the index
_REDRAW_S = 0.25
_LINE_S = 30.0
_WINDOW_S = 10.0  # over which rates are taken
_NOTICE = "Ctrl-C again ends at once; finishing the current step"  # cut off at the end where the terminal is narrow
_MARGIN = 3  # free columns: a terminal echoes '^C' at the cursor, which must not wrap
_REASONS_SHOWN = 5
_ALWAYS = ("fetched", "pages", "new", "duplicates", "errors")
_COUNTS = (
    *("fetched", "pages", "new", "duplicates", "unchanged", "changed", "redirects", "gone", "errors", "refused"),
    *("trapped", "truncated", "retries", "besides", "waiting"),
)
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_UNANSWERED = ("connect", "tls", "timeout", "protocol", "dropped")


def run_crawl(
    archive: Path, plan: CrawlPlan, *, began: float, index: bool | None, quiet: bool, verbose: bool, as_json: bool
) -> None:
    """Runs a crawl. Its time counts from `began` on the monotonic clock. `index` None: as the settings say.

    Raises CrawlFailed if nothing at all could be fetched, KeyboardInterrupt after Ctrl-C.
    """
    from holdfast.crawl.processes.children import CrawlChildren
    from holdfast.env.child_process import collect_seldom

    job = plan.job
    with ExitStack() as closing:
        children = closing.enter_context(CrawlChildren(job.readers))  # they start while this process still imports
        from holdfast.crawl.browser.open import available
        from holdfast.crawl.crawl import Crawl
        from holdfast.index.updater import IndexUpdater

        collect_seldom()
        if job.browser.enabled and (reason := available(job.browser)):
            note(f"warning: {reason}; pages are fetched without a browser")
        updater: IndexUpdater | None = None
        with writing(archive) as (opened, interruption):
            if is_automatic(opened, index):
                updater = closing.enter_context(IndexUpdater(archive, _INDEX_EVERY_S))
            with _display(job, interruption, quiet=quiet, verbose=verbose) as progress, _stop_requests() as requested:
                crawl = Crawl(opened, job, began=began, updater=updater, children=children)
                summary = crawl.run(progress, lambda: interruption.pressed or requested())
            summarize(archive, summary, quiet=quiet, as_json=as_json)
            is_cut_short = summary.state == "stopped" or (summary.state == "limit" and summary.tally.queued > 0)
            if interruption.pressed or (is_cut_short and not quiet):
                note(f"holdfast: the queue is kept; 'holdfast crawl --resume {job.name}' continues")
        if updater is not None:
            until = began + job.time_s if job.time_s is not None else None
            bring_up(archive, quiet=quiet or as_json, until=until, updater=updater)
    fail_without_response(archive, plan, summary)


@contextmanager
def _stop_requests() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM or SIGHUP was received; ignored signals stay ignored."""
    received: list[int] = []

    @raises_nothing
    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, remember)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- progress -----------------------------------------------------------------------------------------------------


class Pace:
    """The rate of a run over the last seconds, and the time left until the first limit of its job."""

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
            # A limit that was reached counts from zero again; any other continues.
            self._fetched_before = tally.fetched if tally.fetched >= (self._job.limit or 0) else 0
            received = tally.transferred_bytes
            self._bytes_before = received if received >= (self._job.bytes_max or 0) else 0
        while len(self._points) > 1 and self._points[0][0] < now - _WINDOW_S:
            self._points.popleft()
        self._points.append((now, tally.fetched, tally.transferred_bytes))

    def rates(self) -> tuple[float, float]:
        """URLs and bytes a second."""
        if len(self._points) < 2:
            return 0.0, 0.0
        first, last = self._points[0], self._points[-1]
        seconds = max(last[0] - first[0], 1e-6)
        return (last[1] - first[1]) / seconds, (last[2] - first[2]) / seconds

    def remaining_s(self, tally: CrawlTally) -> float | None:
        """None without a limit, or without progress."""
        job, (urls, received) = self._job, self.rates()
        left = []
        if job.limit is not None and urls > 0:
            left.append((job.limit - (tally.fetched - self._fetched_before)) / urls)
        if job.bytes_max is not None and received > 0:
            left.append((job.bytes_max - (tally.transferred_bytes - self._bytes_before)) / received)
        if job.time_s is not None:
            left.append(job.time_s - (tally.seconds - self._seconds_before))
        return max(0.0, min(left)) if left else None


def progress_lines(name: str, tally: CrawlTally, pace: Pace) -> list[str]:
    """The progress, in four lines that are short enough for a terminal of 80 columns."""
    remaining, (urls, received) = pace.remaining_s(tally), pace.rates()
    left = f", {rounded_duration(remaining)} left" if remaining is not None else ""
    return [
        f"{name}  {rounded_duration(tally.seconds)}{left}",
        f"fetched {tally.fetched:,} ({urls:,.1f}/s), {counted(tally.pages, 'page')}, "
        f"{rounded_size(tally.transferred_bytes)} ({rounded_size(int(received))}/s)",
        f"waiting {tally.queued:,} on {counted(tally.hosts, 'host')}, {tally.in_flight} in flight; "
        f"{counted(tally.errors, 'error')}, {tally.retries:,} retried",
        f"new {tally.new:,}, {tally.unchanged:,} unchanged, "
        f"{counted(tally.duplicates, 'duplicate')} ({rounded_size(tally.saved_bytes)} saved)",
    ]


@contextmanager
def _display(job: CrawlJob, interruption: Interruption, *, quiet: bool, verbose: bool) -> Iterator[Progress]:
    """Shows the tally regularly: in place on a terminal, else as lines if `verbose`."""
    if quiet or not (verbose or sys.stderr.isatty()):
        yield lambda tally: None
        return
    pace = Pace(job)
    if not sys.stderr.isatty():
        yield _at_most_every(_LINE_S, pace, lambda tally: note("; ".join(progress_lines(job.name, tally, pace))))
        return
    from rich.console import Console, Group
    from rich.constrain import Constrain
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    # Drawn only when called: a thread would compete with the crawl. Standard output is not redirected.
    with (
        interruption.displayed(),
        Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False) as live,
    ):

        def draw(tally: CrawlTally) -> None:
            lines = progress_lines(job.name, tally, pace) + [_NOTICE] * interruption.pressed
            block = Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))
            live.update(Constrain(block, max(console.width - _MARGIN, 1)), refresh=True)

        yield _at_most_every(_REDRAW_S, pace, draw)


def _at_most_every(interval_s: float, pace: Pace, show: Progress) -> Progress:
    """Skips calls that come sooner."""
    due = 0.0

    def step(tally: CrawlTally) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + interval_s
            pace.take(tally)
            show(tally)

    return step


# -- summary --------------------------------------------------------------------------------------------------------


def summarize(archive: Path, summary: Summary, *, quiet: bool, as_json: bool) -> None:
    from holdfast.crawl.report.crawls import log_path

    log = str(log_path(archive, summary.name))
    tally = summary.tally.as_dict()
    if as_json:
        head = {name: getattr(summary, name) for name in ("name", "visit", "state", "reason")}
        more = {"saved_bytes": saved_bytes(tally), "reasons": summary.errors, "log": log}
        show_json({"event": "summary"} | head | more | tally)
    elif not quiet:
        end = f"{summary.state} ({summary.reason})" if summary.reason else summary.state
        fields = {"crawl": f"{summary.name}, visit {summary.visit}: {end}"}
        show_fields(fields | tally_fields(tally, summary.errors) | {"log": log})


def tally_fields(tally: Mapping[str, Any], reasons: Mapping[str, int]) -> dict[str, str]:
    """A line for each count; most zeros are left out."""
    counts = defaultdict(int, tally)
    counts["waiting"] = counts["queued"]
    lines = {name: f"{counts[name]:,}" for name in _COUNTS}
    lines["fetched"] += f" in {rounded_duration(counts['seconds'])} ({rate_of(tally):,.1f} a second), "
    lines["fetched"] += f"{rounded_size(counts['transferred_bytes'])} received"
    lines["new"] += f" ({rounded_size(counts['new_bytes'])})"
    lines["duplicates"] += f" ({rounded_size(saved_bytes(tally))} saved)"
    lines["errors"] += _reasons(reasons)
    lines["refused"] += " by robots.txt"
    lines["trapped"] += " of a site without end, or beyond a budget"
    lines["besides"] += " robots.txt and sitemaps"
    return {name: line for name, line in lines.items() if counts[name] or name in _ALWAYS}


def _reasons(reasons: Mapping[str, int]) -> str:
    ranked = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{count:,} {reason}" for reason, count in ranked[:_REASONS_SHOWN]]
    rest = sum(count for _, count in ranked[_REASONS_SHOWN:])
    shown += [f"{rest:,} others"] if rest else []
    return f": {', '.join(shown)}" if shown else ""


def saved_bytes(tally: Mapping[str, Any]) -> int:
    """Bytes received but not stored again."""
    return int(tally.get("content_bytes", 0)) - int(tally.get("new_bytes", 0))


def rate_of(tally: Mapping[str, Any]) -> float:
    seconds = float(tally.get("seconds", 0.0))
    return float(tally.get("fetched", 0)) / seconds if seconds > 0 else 0.0


def fail_without_response(archive: Path, plan: CrawlPlan, summary: Summary) -> None:
    """Raises CrawlFailed if nothing at all could be fetched."""
    tally = summary.tally
    if tally.fetched or summary.state != "finished" or not (tally.errors or tally.refused):
        return
    if tally.errors:
        why = summary.trouble or ", ".join(sorted(summary.errors)) or "all fetches failed"
    else:
        why = str(_last(archive, summary.name, "refused").get("note") or "robots.txt forbids it")
        fetched = _last(archive, summary.name, "fetch")
        if fetched.get("kind") == "robots" and fetched.get("note"):
            why += f": {fetched['note']}"
    if plan.assumed and _last(archive, summary.name, "fetch").get("outcome") in _UNANSWERED:
        why += f"; if it has no TLS, try '{plan.assumed[0].replace('https://', 'http://', 1)}'"
    raise CrawlFailed(
        f"no seed of the crawl '{summary.name}' could be fetched: {visible(why)}; "
        f"see 'holdfast crawl log {summary.name}'"
    )


def _last(archive: Path, name: str, event: str) -> dict[str, Any]:
    from holdfast.crawl.report.crawls import log_path
    from holdfast.crawl.report.log import LogFilter, read_log

    rows = read_log(log_path(archive, name), LogFilter(events=frozenset({event})), last=1)
    return next(rows, {})
