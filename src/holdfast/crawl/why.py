"""What a crawl knows of a URL, and why it does with it what it does."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.crawl.admission import Admission
from holdfast.crawl.crawls import crawl_directory, crawl_status, kept_job
from holdfast.crawl.frontier import Frontier, UrlRow
from holdfast.crawl.gate import Gate
from holdfast.crawl.job import CrawlJob
from holdfast.crawl.layout import FRONTIER
from holdfast.crawl.schedule import History
from holdfast.crawl.traps import Traps
from holdfast.errors import UnknownName, UsageError
from holdfast.formats.links.hops import Hop
from holdfast.urls import canonical, parse

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


def why(archive: Path, name: str | None, url: str) -> dict[str, Any]:
    """Everything known, by name of the fact; changes nothing, also while the crawl runs."""
    status = crawl_status(archive, name)
    job = kept_job(archive, status.name)
    path = crawl_directory(archive, status.name) / FRONTIER
    if job is None or not path.exists():
        raise UnknownName(f"the crawl '{status.name}' has not begun yet")
    parsed = parse(url if "://" in url else f"https://{url}")
    if parsed is None or parsed.scheme not in ("http", "https"):
        raise UsageError(f"{url!r} is no URL that could be crawled: give one with http:// or https://")
    frontier = Frontier(path, follow=True)
    try:
        return {"crawl": status.name, **_explain(frontier, job, canonical(parsed.href))}
    finally:
        frontier.close()


def _explain(frontier: Frontier, job: CrawlJob, url: str) -> dict[str, Any]:
    admission = Admission(job, frontier, Traps(job.traps))
    found = admission.found(url, Hop.LINK, 0, 0)
    row = frontier.row(found.key)
    told: dict[str, Any] = {"url": url, "state": row.state if row else "unknown"}
    refusal = admission.explain(found if row is None else found._replace(hop=row.hop, depth=row.depth))
    refusal = refusal or ("" if row else Traps(job.traps).refusal(url))
    told["scope"] = refusal or "in scope"
    allowed = Gate(frontier, job).allows(url)
    told["robots"] = {True: "allowed", False: "forbidden", None: "not asked yet"}[allowed]
    if not job.fetch.robots:
        told["robots"] = "ignored"
    if row is None:
        told["reason"] = f"not fetched: {refusal}" if refusal else "nothing that was fetched links to it"
        return told
    return told | _facts(row, job)


def _facts(row: UrlRow, job: CrawlJob) -> dict[str, Any]:
    history = History.decode(row.history)
    found_by = _HOPS.get(row.hop, row.hop)
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
        "due": _moment(row.due),
        "is_due": bool(row.due) and row.due <= time.time(),
    }


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""
