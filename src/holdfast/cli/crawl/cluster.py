"""Crawls of a cluster: the commands hand them to the running node, which informs the others (H1)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.crawl.run import Pace, progress_lines, summarize
from holdfast.cli.terminal import ask_node, note

if TYPE_CHECKING:
    from holdfast.cli.crawl.plan import CrawlPlan

_LOOK_S = 0.3
_LINE_S = 10.0
LOG_ROWS = 1000  # printed by default, of all nodes together


def run_shared_crawl(archive: Path, plan: CrawlPlan, *, quiet: bool, verbose: bool, as_json: bool) -> None:
    """Starts a crawl on all nodes and waits for its end. Ctrl-C stops it. Raises CrawlFailed, KeyboardInterrupt."""
    from holdfast.cli.crawl.run import fail_without_response
    from holdfast.crawl.crawl import Summary
    from holdfast.crawl.ingest.tally import CrawlTally
    from holdfast.crawl.job.file import write_job
    from holdfast.crawl.report.crawls import crawl_status

    name = plan.job.name
    started = ask_node(archive, "crawl-start", job=write_job(plan.job))
    is_shown = not quiet and (verbose or sys.stderr.isatty())
    is_interrupted = False
    pace, shown_s = Pace(plan.job), time.monotonic()
    while True:
        try:
            now = ask_node(archive, "crawl-status", name=name)
            if now["state"] != "running" or now["run"] != started["run"]:
                break
            if is_shown and time.monotonic() - shown_s >= _LINE_S:
                shown_s = time.monotonic()
                tally = CrawlTally(**crawl_status(archive, name).tally)
                pace.take(tally)
                note("; ".join(progress_lines(name, tally, pace)))
            time.sleep(_LOOK_S)
        except KeyboardInterrupt:
            if is_interrupted:
                raise
            is_interrupted = True
            ask_node(archive, "crawl-stop", name=name)
    while (status := crawl_status(archive, name)).running:  # this node's share ends a moment later
        time.sleep(_LOOK_S)
    summary = Summary(name, now["visit"], status.state, now["reason"], CrawlTally(**status.tally), status.errors)
    summarize(archive, summary, quiet=quiet, as_json=as_json)
    if is_interrupted:
        raise KeyboardInterrupt
    fail_without_response(archive, plan, summary)


def shared_log(archive: Path, name: str, last: int | None, conditions: dict[str, Any]) -> list[dict[str, Any]]:
    """The last rows of the logs of all nodes that meet the conditions, by time."""
    last = LOG_ROWS if last is None else last
    rows: list[dict[str, Any]] = ask_node(archive, "crawl-log", name=name, last=last, **conditions)["rows"]
    return rows
