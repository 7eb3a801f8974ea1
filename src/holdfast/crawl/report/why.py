"""Explains the state of a URL in a crawl, and why it was or was not fetched.

The frontier has the state of a URL; the log says what kept it from being fetched. A URL that the frontier does not know
was never found, or was found and not queued: because of its form, which is judged here again; because of a trap, a
budget or a chain that was too long, which the log says; or because of its depth, which the kept links show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.crawl.frontier import Frontier, UrlRow, UrlState, host_of, key_of
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.paths import FRONTIER
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.policy.robots_gate import RobotsGate, origin_of
from holdfast.crawl.policy.traps import Traps
from holdfast.crawl.processes.messages import FetchKind, FetchOutcome
from holdfast.crawl.report.crawls import crawl_directory, crawl_status, kept_job, log_path
from holdfast.crawl.report.log import Row, last_row
from holdfast.crawl.schedule.revisit import History, Lifetimes
from holdfast.errors import UnknownName, UsageError
from holdfast.formats.html.links.references import Hop
from holdfast.urls import canonical, parse

_IN_SCOPE = "in scope"
_HOPS = {
    Hop.SEED: "a seed",
    Hop.LINK: "a link",
    Hop.EMBED: "a requisite of the page",
    Hop.REDIRECT: "a redirect",
    Hop.SPECULATIVE: "something like a URL in a script",
    Hop.MANIFEST: "a sitemap",
    Hop.FORM: "a form",
    Hop.PREREQUISITE: "robots.txt",
}
_OUTCOMES = {
    FetchOutcome.DNS: "its host has no address",
    FetchOutcome.CONNECT: "no connection to its host",
    FetchOutcome.TLS: "no TLS connection to its host",
    FetchOutcome.TIMEOUT: "no response in time",
    FetchOutcome.PROTOCOL: "the response is not HTTP",
    FetchOutcome.DROPPED: "the connection ended before the response",
    FetchOutcome.PRIVATE: "its host has a private address",
    FetchOutcome.INVALID: "it is not a URL that can be fetched",
    FetchOutcome.CRASHED: "a process of the crawl died over it",
}


def why(archive: Path, name: str | None, url: str) -> dict[str, Any]:
    """All facts by name; changes nothing, also while the crawl runs."""
    status = crawl_status(archive, name)
    job = kept_job(archive, status.name)
    path = crawl_directory(archive, status.name) / FRONTIER
    if job is None or not path.exists():
        raise UnknownName(f"the crawl '{status.name}' has not begun yet")
    urls = list(_readings(url))
    if not urls:
        raise UsageError(f"{url!r} is not a URL that could be crawled: give one with http:// or https://")
    frontier = Frontier(path, follow=True)
    try:
        explanation = _Explanation(frontier, job, log_path(archive, status.name))
        return {"crawl": status.name, **explanation.of(urls)}
    finally:
        frontier.close()


def _readings(text: str) -> Iterator[str]:
    """The canonical URLs that a text may mean: without a scheme, two."""
    for written in [text] if "://" in text else [f"https://{text}", f"http://{text}"]:
        parsed = parse(written)
        if parsed is not None and parsed.scheme in ("http", "https"):
            yield canonical(parsed.href)


class _Explanation:
    """Explains URLs of one crawl."""

    def __init__(self, frontier: Frontier, job: CrawlJob, log: Path) -> None:
        self._frontier = frontier
        self._job = job
        self._log = log
        self._traps = Traps(job.traps)
        self._admission = Admission(job, frontier, self._traps)

    def of(self, urls: list[str]) -> dict[str, Any]:
        """Of the first of these URLs that the crawl knows, or of the first."""
        for url in urls:
            row = self._frontier.row(key_of(self._traps.seen_form(url))) or self._frontier.row(key_of(url))
            if row is not None:
                return self._of_known(row)
        return self._of_unknown(urls[0])

    # -- a URL that is known ------------------------------------------------------------------------------------

    def _of_known(self, row: UrlRow) -> dict[str, Any]:
        found = self._admission.found(row.url, row.hop, row.depth, row.hops)._replace(kind=row.kind)
        scope = self._admission.explain(found) or _IN_SCOPE
        known = {
            "url": row.url,
            "state": row.state,
            "reason": self._reason(row),
            "scope": scope,
            "robots": RobotsGate(self._frontier, self._job).verdict(row.url),
        }
        return known | self._facts(row, scope)

    def _reason(self, row: UrlRow) -> str:
        if row.state == UrlState.QUEUED:
            return self._why_waiting(row)
        if row.state == UrlState.FAILED:
            return f"not fetched: {self._why_failed(row)}"
        if row.state == UrlState.REFUSED:
            return f"not fetched: {self._why_refused(row)}"
        if row.outcome == FetchOutcome.EXPIRED:
            return f"removed: {self._noted(row.url, 'expired') or 'its lifetime was over'}"
        if 300 <= row.status < 400 and row.hops >= self._job.fetch.redirects_max:
            limit = self._job.fetch.redirects_max
            return f"fetched: status {row.status}; not followed: more than {limit} redirects in a row"
        return f"fetched: status {row.status}"

    def _why_waiting(self, row: UrlRow) -> str:
        host = self._frontier.host(host_of(row.url))
        if host.is_down:
            return f"waits for its host: {_OUTCOMES.get(host.trouble, 'it does not answer')}"
        gate = RobotsGate(self._frontier, self._job)
        if gate.allows(row.url) is None and (trouble := self._robots_trouble(row.url)):
            return f"waits for robots.txt: {trouble}"
        if row.attempts:
            last = self._last_fetch(row.url)
            of = self._job.fetch.retries + 1
            return f"waits for attempt {row.attempts + 1} of {of}: {_ending(last) if last else 'the last one failed'}"
        if host.paused_until > time.time():
            return f"waits for its host, which is left alone until {_moment(int(host.paused_until))}"
        return "waits to be fetched"

    def _why_failed(self, row: UrlRow) -> str:
        last = last_row(self._log, "url", row.url, lambda each: each.get("event") in ("fetch", "abandoned"))
        if last is not None and last.get("event") == "abandoned":
            return f"its host was given up: {_OUTCOMES.get(row.outcome, row.outcome)}"
        return _ending(last) if last is not None else _OUTCOMES.get(row.outcome, row.outcome)

    def _why_refused(self, row: UrlRow) -> str:
        if row.outcome == FetchOutcome.NO_RULES:
            trouble = self._robots_trouble(row.url)
            return f"robots.txt could not be fetched{': ' if trouble else ''}{trouble}"
        return self._noted(row.url, "refused") or "robots.txt forbids it"

    def _robots_trouble(self, url: str) -> str:
        """What went wrong with the last fetch of robots.txt; empty if nothing did."""
        last = last_row(self._log, "via", origin_of(url), lambda row: row.get("kind") == FetchKind.ROBOTS)
        if last is None or (last.get("outcome") == FetchOutcome.OK and _means_rules(last.get("status"))):
            return ""
        return _ending(last)

    def _last_fetch(self, url: str) -> Row | None:
        return last_row(self._log, "url", url, lambda row: row.get("event") == "fetch")

    def _noted(self, url: str, event: str) -> str:
        row = last_row(self._log, "url", url, lambda row: row.get("event") == event)
        return str(row.get("note") or "") if row is not None else ""

    def _facts(self, row: UrlRow, scope: str) -> dict[str, Any]:
        job = self._job
        history = History.decode(row.history)
        found_by = _HOPS.get(row.hop, row.hop)
        lifetimes = Lifetimes(job.revisit)
        end, due = lifetimes.end(row), min(row.due, lifetimes.look(row))
        waits = row.state != UrlState.QUEUED and row.outcome != FetchOutcome.EXPIRED and scope == _IN_SCOPE
        return {
            "found": f"{_moment(row.found)} by {found_by}" + (f" on {row.via}" if row.via else ""),
            "via": row.via,
            "hop": row.hop,
            "depth": row.depth,
            "visit": row.visit,
            "attempts": row.attempts,
            "outcome": row.outcome,
            "status": row.status,
            "visited": _moment(row.visited),
            "reached": _moment(row.reached),
            "etag": row.etag,
            "last_modified": row.modified,
            "digest": row.digest,
            "visits": history.visits,
            "changes": history.changes,
            "interval_s": round(history.interval_s(job.revisit)),
            "interval": history.explain(job.revisit),
            "due": _moment(int(due)),
            "is_due": waits and due <= time.time(),
            "expires": "" if math.isinf(end) else _moment(int(end)),
        }

    # -- one that is not ----------------------------------------------------------------------------------------

    def _of_unknown(self, url: str) -> dict[str, Any]:
        found = self._admission.found(url, Hop.LINK, 0, 0)
        refusal = self._admission.explain(found) or self._traps.refusal(url)
        return {
            "url": url,
            "state": "unknown",
            "reason": self._why_unknown(url, found.key, refusal),
            "scope": refusal or _IN_SCOPE,
            "robots": RobotsGate(self._frontier, self._job).verdict(url),
        }

    def _why_unknown(self, url: str, key: bytes, refusal: str) -> str:
        last = last_row(self._log, "url", url, lambda row: row.get("event") in ("trapped", "expired", "fetch"))
        if last is not None and last["event"] == "fetch":
            what = "robots.txt" if last.get("kind") == FetchKind.ROBOTS else "part of a page"
            done = "fetched" if last.get("outcome") == FetchOutcome.OK else "not fetched"
            return f"{done} as {what}: {_ending(last) or 'status {}'.format(last.get('status'))}"
        if last is not None:
            done = "removed" if last["event"] == "expired" else "not fetched"
            return f"{done}: {last.get('note', '')}" + (f"; it was found on {last['via']}" if last.get("via") else "")
        if refusal:
            return f"not fetched: {refusal}"
        linking = self._frontier.linking_to(key) if self._job.depth is not None else None
        if linking is not None and linking[1] > (self._job.depth or 0):
            return f"not fetched: more than {self._job.depth} links from a seed; it was found on {linking[0]}"
        waiting = self._frontier.totals.queued
        rest = f"; {waiting:,} URLs are still to be fetched" if waiting else ""
        return f"no link to it was found in what was fetched{rest}"


def _means_rules(status: object) -> bool:
    """Whether a status of robots.txt decides what the rules are: those of the file, or none."""
    return isinstance(status, int) and status < 500 and status != 429


def _ending(row: Row) -> str:
    """How a logged fetch failed; empty if it did not."""
    outcome, status, note = str(row.get("outcome", "")), row.get("status", 0), str(row.get("note", ""))
    if outcome == FetchOutcome.OK:
        if row.get("truncated") in ("disconnect", "time"):
            return "the response was cut off"
        return f"status {status}" if isinstance(status, int) and status >= 400 else ""
    words = _OUTCOMES.get(outcome, outcome)
    return f"{words} ({note})" if note and note != words else words


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""
