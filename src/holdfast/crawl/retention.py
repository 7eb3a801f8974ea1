"""Retention: how long a page stays that is not on the web any more (B4).

A page that was seen is allowed to live for `lifetime_s`; each visit that finds it gives it that anew. What is about to
end is visited with the next visit, whether it is due or not. If it is gone by then, all its captures are removed, for
good; if its host could not be reached, it has `grace_s` more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.archive import Archive
from holdfast.archive.removal import RemovalOptions
from holdfast.archive.selection import Selection
from holdfast.catalog import CaptureQuery
from holdfast.crawl.crawls import FRONTIER, crawl_directory, kept_job
from holdfast.crawl.frontier import Frontier, State, UrlRow
from holdfast.crawl.job import CrawlJob, RevisitSettings
from holdfast.errors import UnknownName, UsageError

_NEARLY = 0.9  # of its lifetime, after which a page is looked at again


class Expired(NamedTuple):
    """A page whose lifetime is over."""

    key: bytes
    row: UrlRow
    reason: str


def is_expiring(row: UrlRow, settings: RevisitSettings, now: float) -> bool:
    """Whether a page has to be seen soon in order to stay."""
    return bool(settings.lifetime_s and row.reached) and now - row.reached >= _NEARLY * settings.lifetime_s


def expired(frontier: Frontier, settings: RevisitSettings, now: float) -> Iterator[Expired]:
    """Pages that were looked for when their time was over, and not found."""
    for key, row in frontier.rows():
        if not settings.lifetime_s or not row.reached or row.state == State.QUEUED or row.visited <= row.reached:
            continue
        unreachable = row.state == State.FAILED or row.status >= 500
        allowed = settings.lifetime_s + (settings.grace_s if unreachable else 0.0)
        if now - row.reached >= allowed:
            why = row.outcome if row.state == State.FAILED else f"status {row.status}"
            yield Expired(key, row, f"not seen for {_days(now - row.reached)} ({why})")


def remove_expired(archive: Archive, frontier: Frontier, job: CrawlJob, now: float) -> list[Expired]:
    """Removes all captures of what is expired from the crawl's collection. Durable on return."""
    collection = job.collection or archive.settings.records.collection
    removed = list(expired(frontier, job.revisit, now))
    for index, each in enumerate(removed):
        selection = Selection(CaptureQuery(url=each.row.url), collection=collection)
        last = index == len(removed) - 1
        archive.remove(selection, RemovalOptions(f"crawl '{job.name}': {each.reason}", compact=last))
        frontier.forget(each.key, each.row)
    frontier.commit()
    return removed


def expire(archive: Archive, name: str, *, dry_run: bool, now: float) -> list[Expired]:
    """As `remove_expired`, for a crawl that is not running; in a dry run nothing changes."""
    job = kept_job(archive.path, name)
    path: Path = crawl_directory(archive.path, name) / FRONTIER
    if job is None or not path.exists():
        raise UnknownName(f"no crawl {name!r} in '{archive.path}'")
    if not job.revisit.lifetime_s:
        raise UsageError(f"pages of the crawl {name!r} live for ever: set 'lifetime' in its job's [revisit]")
    frontier = Frontier(path, follow=dry_run)
    try:
        return list(expired(frontier, job.revisit, now)) if dry_run else remove_expired(archive, frontier, job, now)
    finally:
        frontier.close()


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.1f} days"
