"""Running a crawl until it ends, a limit is reached, or somebody stops it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.cli.crawl_display import display
from holdfast.cli.crawl_report import saved_bytes, tally_fields
from holdfast.cli.indexing import bring_up, is_automatic, kept_up
from holdfast.cli.interrupt import writing
from holdfast.cli.output import note, show, show_fields, visible
from holdfast.errors import CrawlFailed

if TYPE_CHECKING:
    from holdfast.cli.crawl_plan import Plan
    from holdfast.crawl.conductor import Summary
    from holdfast.crawl.job import CrawlJob

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


def run_crawl(archive: Path, plan: Plan, manner: Manner) -> None:
    """Raises CrawlFailed if nothing at all could be fetched, KeyboardInterrupt after Ctrl-C."""
    from holdfast.crawl.collecting import collect_seldom
    from holdfast.crawl.conductor import Crawl

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


def _fail_without_response(archive: Path, plan: Plan, summary: Summary) -> None:
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


def _http_hint(archive: Path, plan: Plan, summary: Summary) -> str:
    """A site that was named without a scheme may speak HTTP only."""
    if not plan.assumed or _last(archive, summary.name, "fetch").get("outcome") not in _UNANSWERED:
        return ""
    return f"; if it has no TLS, try '{plan.assumed[0].replace('https://', 'http://', 1)}'"


def _last(archive: Path, name: str, event: str) -> dict[str, Any]:
    from holdfast.crawl.crawls import log_path
    from holdfast.crawl.log import LogFilter, read_log

    rows = read_log(log_path(archive, name), LogFilter(events=frozenset({event})), last=1)
    return next(rows, {})
