"""Retention: removes pages that are gone from the web when their lifetime is over (B4).

Nothing is removed unless it was visited after its end, and gone (`schedule.revisit`). Then all captures of the page in
the crawl's collection are removed, for good: every so often while a crawl runs, so that one slow host does not delay
the others, and at the end of a run. The frontier forgets a removed page at the end of the visit; until then links to it
do not bring it back.

A page that was captured by something else meanwhile, in the same collection, counts as seen then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from holdfast.archive import Archive
from holdfast.archive.removal import RemovalOptions
from holdfast.archive.update import LATEST
from holdfast.catalog.timestamps import moment
from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow, UrlState
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.paths import FRONTIER
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.policy.traps import Traps
from holdfast.crawl.processes.messages import FetchOutcome
from holdfast.crawl.report.crawls import crawl_directory, kept_job, log_path
from holdfast.crawl.report.log import CrawlLog, Row
from holdfast.crawl.schedule.revisit import Lifetimes
from holdfast.env.units import interval_words
from holdfast.errors import ClusterDown, UnknownName, UsageError
from holdfast.records.selection import ChosenUrls

_AT_A_TIME = 1000  # pages that one removal takes
_REASONS_MAX = 1000  # characters
_ANSWERS = ("response", "revisit")  # records that say that a page is there
_EVERY_S = 10.0  # at least between removals while a crawl runs
_SHARE = 20  # and this many times the duration of the last one


class Expired(NamedTuple):
    """A page whose lifetime is over, and which is gone."""

    key: bytes
    row: UrlRow
    seen: float  # when it was last there; seconds since the epoch
    lifetime_s: float
    reason: str


class Expiring(NamedTuple):
    """A page whose lifetime is over, or soon will be. Times are seconds since the epoch."""

    row: UrlRow
    seen: float
    lifetime_s: float
    end: float
    look: float  # when it is looked for next


class Retention:
    """For one crawl, on its thread.

    In an archive open for reading nothing can be removed. On a node of a cluster pages are removed from all nodes, and
    only while the node runs; until then they stay.
    """

    def __init__(self, archive: Archive, frontier: Frontier, job: CrawlJob) -> None:
        self._archive = archive
        self._frontier = frontier
        self._job = job
        self._collection = job.collection or archive.settings.records.collection
        self._noted: dict[bytes, None] = {}
        self._not_before = 0.0  # by the monotonic clock
        self.lifetimes = Lifetimes(job.revisit)

    # -- what is expired ----------------------------------------------------------------------------------------

    def expired(self) -> Iterator[Expired]:
        """All pages to be removed."""
        if self.lifetimes.are_used:
            for key, row in self._frontier.rows():
                if (found := self._judge(key, row)) is not None:
                    yield found

    def _judge(self, key: bytes, row: UrlRow) -> Expired | None:
        if not self.lifetimes.is_expired(row):
            return None
        seen = self._seen(row)
        allowed_s = self.lifetimes.of(row.url)
        if row.visited <= seen + allowed_s:
            return None
        since = interval_words(max(0.0, time.time() - seen))
        reason = f"not seen for {since} (lifetime {interval_words(allowed_s)}), then status {row.status}"
        return Expired(key, row, seen, allowed_s, reason)

    def _seen(self, row: UrlRow) -> float:
        """When a response last said that the page exists, to this crawl or another."""
        url = row.url
        dates = [
            capture.timestamp
            for capture in self._archive.catalog.lookup(url, self._collection)
            if capture.url == url and capture.type in _ANSWERS and capture.status[:1] not in ("4", "5")
        ]
        return max(row.reached, moment(max(dates)).timestamp() if dates else 0.0)

    def expiring(self, within_s: float) -> list[Expiring]:
        """Pages whose lifetime is over or ends within that time, the first to end first.

        Pages out of scope are not among them: they are not visited, so they stay.
        """
        lifetimes = self.lifetimes
        admission = Admission(self._job, self._frontier, Traps(self._job.traps))
        until = time.time() + within_s
        found = []
        for _, row in self._frontier.rows() if lifetimes.are_used else ():
            found_as = FoundUrl(b"", row.url, row.hop, row.depth, row.hops, row.kind)
            if lifetimes.end(row) > until or admission.explain(found_as):
                continue
            seen, lifetime_s = self._seen(row), lifetimes.of(row.url)
            if seen + lifetime_s <= until:
                found.append(Expiring(row, seen, lifetime_s, seen + lifetime_s, lifetimes.look(row)))
        return sorted(found, key=lambda each: (each.end, each.row.url))

    # -- while a crawl runs -------------------------------------------------------------------------------------

    def note(self, key: bytes, row: UrlRow) -> None:
        """Notes a visited page; if it is expired, it is removed soon."""
        if self.lifetimes.is_expired(row):
            if not self._noted:
                self._not_before = max(self._not_before, time.monotonic() + _EVERY_S)
            self._noted[key] = None

    @property
    def is_due(self) -> bool:
        """True if pages wait to be removed, and the last removal is long enough ago for its cost."""
        return bool(self._noted) and self._archive.can_remove and time.monotonic() >= self._not_before

    def remove_noted(self) -> list[Expired]:
        """Removes the noted captures. The frontier keeps the pages until the end of the visit. Durable on return."""
        started = time.monotonic()
        noted, self._noted = self._noted, {}
        rows = ((key, self._frontier.row(key)) for key in noted)
        found = [each for key, row in rows if row is not None and (each := self._judge(key, row)) is not None]
        self._remove(found, self._mark)
        ended = time.monotonic()
        self._not_before = ended + max(_EVERY_S, _SHARE * (ended - started))
        return found

    def _mark(self, key: bytes, row: UrlRow) -> None:
        empty = UrlRow(row.url)
        kept = {name: getattr(empty, name) for name in ("reached", "signature", "digest", "date", "etag", "modified")}
        self._frontier.settle(key, row._replace(outcome=FetchOutcome.EXPIRED, **kept))

    def remove_all(self) -> list[Expired]:
        """Removes everything that is expired, and forgets it. Durable on return."""
        self._noted = {}
        found: list[Expired] = []
        if not self._archive.can_remove:
            return found
        marked: list[tuple[bytes, UrlRow]] = []
        for key, row in self._frontier.rows() if self.lifetimes.are_used else ():
            if (expired := self._judge(key, row)) is not None:
                found.append(expired)
            elif self.is_removed(row):
                marked.append((key, row))
        self._remove(found, self._frontier.forget)
        for key, row in marked:
            self._frontier.forget(key, row)
        self._frontier.commit()
        return found

    def is_removed(self, row: UrlRow) -> bool:
        """True if the captures of a page are removed; the frontier forgets it at the end of the visit."""
        return self.lifetimes.are_used and row.outcome == FetchOutcome.EXPIRED and row.state == UrlState.DONE

    def _remove(self, found: list[Expired], settle: Callable[[bytes, UrlRow], None]) -> None:
        for start in range(0, len(found), _AT_A_TIME):
            group = found[start : start + _AT_A_TIME]
            pages = ChosenUrls(collection=self._collection, urls=tuple(each.row.url for each in group))
            reasons = ", ".join(sorted({each.reason for each in group}))
            self._archive.remove(pages, RemovalOptions(f"crawl '{self._job.name}': {reasons[:_REASONS_MAX]}"))
            for each in group:
                settle(each.key, each.row)
            self._frontier.commit()


# -- for a crawl that is not running -----------------------------------------------------------------------------------


def expire(archive: Archive, name: str, *, dry_run: bool) -> list[Expired]:
    """Removes expired captures, and returns them; a dry run changes nothing."""
    job = _job(archive, name)
    if not (dry_run or archive.can_remove):
        raise ClusterDown(f"'{archive.path}' is a node of a cluster: its pages expire only while it runs")
    frontier = Frontier(crawl_directory(archive.path, name) / FRONTIER, follow=dry_run)
    try:
        retention = Retention(archive, frontier, job)
        if dry_run:
            return list(retention.expired())
        removed = retention.remove_all()
    finally:
        frontier.close()
    with closing(CrawlLog(log_path(archive.path, name))) as log:
        log.write(expired_events(removed))
    return removed


def expiring(archive: Archive, name: str, within_s: float) -> list[Expiring]:
    """The captures that will expire next. Changes nothing; the crawl may be running."""
    job = _job(archive, name)
    frontier = Frontier(crawl_directory(archive.path, name) / FRONTIER, follow=True)
    try:
        return Retention(archive, frontier, job).expiring(within_s)
    finally:
        frontier.close()


def expired_events(removed: Iterable[Expired]) -> list[Row]:
    """What the log says of removed pages."""
    now = round(time.time(), 3)
    return [{"event": "expired", "time": now, "url": each.row.url, "note": each.reason} for each in removed]


def remove_superseded(archive: Archive) -> int:
    """Where only the latest captures are kept, and are seen at once: removes the others, and returns how many."""
    if archive.updates.is_batch or archive.settings.records.keep != LATEST or not archive.can_remove:
        return 0
    return archive.updates.run().captures


def _job(archive: Archive, name: str) -> CrawlJob:
    job = kept_job(archive.path, name)
    if job is None or not (crawl_directory(archive.path, name) / FRONTIER).exists():
        raise UnknownName(f"no crawl {name!r} in '{archive.path}'")
    if not Lifetimes(job.revisit).are_used:
        raise UsageError(
            f"pages of the crawl {name!r} live for ever: set 'lifetime' in its job's [revisit], or give it --lifetime"
        )
    return job
