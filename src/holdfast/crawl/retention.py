"""Retention: how long a page stays that is not on the web any more (B4).

A page that was seen is allowed to live for `lifetime_s`; each visit that finds it gives it that anew. What is about to
end is visited with the next visit, whether it is due or not. If it is gone by then, all its captures are removed, for
good; if its host could not be reached, it has `grace_s` more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from holdfast.archive import Archive
from holdfast.archive.removal import RemovalOptions
from holdfast.archive.updating import LATEST
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.crawl.crawls import crawl_directory, kept_job
from holdfast.crawl.frontier import Frontier, State, UrlRow
from holdfast.crawl.job import CrawlJob, RevisitSettings
from holdfast.crawl.layout import FRONTIER
from holdfast.crawl.messages import Outcome
from holdfast.errors import UnknownName, UsageError
from holdfast.model import Capture
from holdfast.records.selection import Selection

_AT_A_TIME = 1000  # pages that one removal takes
_REASONS_MAX = 1000  # characters
_NEARLY = 0.9  # of its lifetime, after which a page is looked at again


class Expired(NamedTuple):
    """A page whose lifetime is over."""

    key: bytes
    row: UrlRow
    reason: str


@dataclass(frozen=True, slots=True)
class Pages(Selection):
    """All captures of these very URLs; other spellings that the catalog takes for the same are not meant."""

    urls: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return False

    def captures(self, catalog: Catalog) -> Iterator[Capture]:
        for url in self.urls:
            query = CaptureQuery(url=url, match="exact", filters=(f"=url:{url}",))
            yield from Selection(query, self.batch, self.collection, self.any_method).captures(catalog)


def is_expiring(row: UrlRow, settings: RevisitSettings, now: float) -> bool:
    """Whether a page has to be seen soon in order to stay."""
    return bool(settings.lifetime_s and row.reached) and now - row.reached >= _NEARLY * settings.lifetime_s


def expired(frontier: Frontier, settings: RevisitSettings, now: float) -> Iterator[Expired]:
    """Pages that were looked for when their time was over, and not found."""
    for key, row in frontier.rows():
        if not settings.lifetime_s or not row.reached or row.state == State.QUEUED or row.visited <= row.reached:
            continue
        if row.state == State.REFUSED and row.outcome != Outcome.NO_RULES:  # it may still be there
            continue
        unasked = row.state in (State.FAILED, State.REFUSED)
        unreachable = unasked or row.status >= 500
        allowed = settings.lifetime_s + (settings.grace_s if unreachable else 0.0)
        if now - row.reached >= allowed:
            why = row.outcome if unasked else f"status {row.status}"
            yield Expired(key, row, f"not seen for {_days(now - row.reached)} ({why})")


def remove_expired(archive: Archive, frontier: Frontier, job: CrawlJob, now: float) -> list[Expired]:
    """Removes all captures of what is expired from the crawl's collection. Durable on return."""
    collection = job.collection or archive.settings.records.collection
    removed = list(expired(frontier, job.revisit, now))
    for start in range(0, len(removed), _AT_A_TIME):
        group = removed[start : start + _AT_A_TIME]
        pages = Pages(collection=collection, urls=tuple(each.row.url for each in group))
        reasons = ", ".join(sorted({each.reason for each in group}))
        archive.remove(pages, RemovalOptions(f"crawl '{job.name}': {reasons[:_REASONS_MAX]}"))
        for each in group:
            frontier.forget(each.key, each.row)
        frontier.commit()
    return removed


def remove_superseded(archive: Archive) -> int:
    """Where only the latest captures are kept, and are seen at once: removes the others, and returns how many."""
    if archive.updates.is_batch or archive.settings.records.keep != LATEST:
        return 0
    return archive.updates.run().captures


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
