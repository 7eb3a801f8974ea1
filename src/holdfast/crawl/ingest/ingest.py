"""Ingest: parsed pages go into the archive, then the frontier, then the log.

One group at a time: first its records are durable, then the frontier commits its URLs in one step. After a crash
between the two, the URLs of the group are fetched again; nothing is lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.archive import Archive
from holdfast.archive.ingest.writer import Added
from holdfast.crawl.frontier import GONE, FoundUrl, Frontier, UrlRow, UrlState, host_of, key_of, link_depth
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.parse.records import draft_of
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.policy.robots_gate import RobotsGate
from holdfast.crawl.processes.feeder import Feeder, Flight
from holdfast.crawl.processes.messages import FetchJob, FetchKind, FetchOutcome, ParsedPage
from holdfast.crawl.report.log import CrawlLog, row_of_fetch
from holdfast.crawl.schedule.retention import Retention
from holdfast.crawl.schedule.retry import RATE_LIMITED, failure_pause_s
from holdfast.crawl.schedule.revisit import History, due_after
from holdfast.errors import VolumeFull
from holdfast.formats.html.links.references import Hop
from holdfast.formats.http import HTML_TYPES
from holdfast.index.updater import IndexUpdater

_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))  # statuses that may be transient
_HOPELESS = frozenset((FetchOutcome.PRIVATE, FetchOutcome.INVALID, FetchOutcome.PROTOCOL, FetchOutcome.CRASHED))
_UNREACHABLE = frozenset((FetchOutcome.DNS, FetchOutcome.CONNECT, FetchOutcome.TIMEOUT))
_GROUP_MIN = 12


@dataclass(slots=True)
class _Group:
    """Pages whose records are being added to the archive."""

    pages: Sequence[ParsedPage]
    added: Future[list[Added | None]]  # of the first record of each


class CrawlIngest:
    """One thread calls; another adds to the archive."""

    def __init__(
        self,
        archive: Archive,
        job: CrawlJob,
        frontier: Frontier,
        gate: RobotsGate,
        feeder: Feeder,
        admission: Admission,
        retention: Retention,
        log: CrawlLog,
        updater: IndexUpdater | None,
        pause: Callable[[str, float, str], None],
        note_delay: Callable[[str, float], None] = lambda host, delay_s: None,
    ) -> None:
        """`pause` keeps the fetcher from a host: host, until when, why. `updater` gets what the index needs.

        `note_delay` is called with hosts that ask for a longer delay than the job's.
        """
        self._archive = archive
        self._job = job
        self._frontier = frontier
        self._gate = gate
        self._feeder = feeder
        self._admission = admission
        self._retention = retention
        self._log = log
        self._updater = updater
        self._pause = pause
        self._note_delay = note_delay
        self._rows: list[dict[str, Any]] = []  # for the log
        self._adding = ThreadPoolExecutor(1, "holdfast-intake")
        self._group: _Group | None = None
        self.settled = 0  # pages committed
        self.trouble = ""  # the last error, in full
        self.errors: Counter[str] = Counter()

    # -- one group ----------------------------------------------------------------------------------------------

    def take(self, pages: Sequence[ParsedPage]) -> list[FetchJob]:
        """Starts adding a group to the archive, and commits the group before it, which is durable on return.

        The two overlap: one is written while the links of the other are queued. Returns follow-up jobs.
        """
        before, self._group = self._group, self._begin(pages) if pages else None
        return self._finish(before) if before is not None else []

    def _begin(self, pages: Sequence[ParsedPage]) -> _Group:
        kept = [page if self._is_kept(page) else None for page in pages]
        return _Group(pages, self._adding.submit(self._add, kept))

    def _finish(self, group: _Group) -> list[FetchJob]:
        jobs: list[FetchJob] = []
        for page in group.pages:
            if page.outcome == FetchOutcome.NO_SPACE:
                raise VolumeFull(f"no space left next to the archive: {page.detail}")
        for page, added in zip(group.pages, group.added.result(), strict=True):
            jobs += self._settle(page, added)
        self.commit()
        self.settled += len(group.pages)
        return jobs

    @property
    def is_busy(self) -> bool:
        """True if a group is not committed yet."""
        return self._group is not None

    @property
    def gatherable(self) -> int:
        """How many results are worth waiting for: a commit costs about the same for one and for many."""
        pending = len(self._group.pages) if self._group else 0
        return min(_GROUP_MIN, len(self._feeder.flights) - pending)

    def close(self) -> None:
        self._adding.shutdown()

    def commit(self) -> None:
        self._note_trapped("")
        if self._frontier.is_changed:
            self._frontier.commit()
        if self._rows:
            self._log.write(self._rows)
            self._rows = []

    def _note_trapped(self, via: str) -> None:
        for url, reason in self._admission.trapped:
            self._frontier.totals.tally.trapped += 1
            self.event("trapped", url=url, **({"via": via} if via else {}), note=reason)
        self._admission.trapped.clear()

    def _is_kept(self, page: ParsedPage) -> bool:
        """True unless the fetch will be retried: only the last response is kept."""
        if page.part or page.resource:
            return True
        flight = self._feeder.flights.get(page.job_id)
        return flight is not None and not self._is_asked_again(page, flight)

    def _is_asked_again(self, page: ParsedPage, flight: Flight) -> bool:
        if flight.job.kind == FetchKind.ROBOTS or flight.job.record or page.outcome in _HOPELESS:
            return False
        allowed = self._job.fetch.retries
        if page.outcome == FetchOutcome.OK and page.status not in _PASSING:
            allowed = min(allowed, 1) if page.truncated == "disconnect" else 0
        row = self._frontier.row(flight.key)
        return row is not None and (row.attempts < allowed or self._is_outage(page, flight.host))

    def _is_outage(self, page: ParsedPage, host: str) -> bool:
        """True if a host that responded before does not now. Its URLs wait, and no attempt is counted."""
        known = self._frontier.host(host)
        return page.outcome in _UNREACHABLE and known.is_down and not known.is_lost(self._job.fetch.outage_s)

    def _add(self, pages: Sequence[ParsedPage | None]) -> list[Added | None]:
        """Adds the records to the archive; returns the result for the first record of each page."""
        archive = self._archive
        drafts = [[draft_of(packed) for packed in page.drafts] if page else [] for page in pages]
        small = [draft for each in drafts for draft in each if draft.spooled is None]
        added = iter(archive.writer.add(small) if small else [])  # unchecked: the drafts are ours
        outcomes: list[Added | None] = []
        extracted = []
        for page, each in zip(pages, drafts, strict=True):
            results = [archive.writer.add_large(draft) if draft.spooled else next(added) for draft in each]
            outcomes.append(results[0] if results else None)
            if page and page.extracted and results and results[0].record:
                extracted.append((results[0].record, page.extracted))
        if self._updater is not None and extracted:
            self._updater.add(extracted)
        return outcomes

    # -- one page --------------------------------------------------------------------------------------------

    def _settle(self, page: ParsedPage, added: Added | None) -> list[FetchJob]:
        tally = self._frontier.totals.tally
        tally.transferred_bytes += page.transferred
        if page.resource:
            return []
        if page.part:
            self._settle_part(page, added)
            return []
        flight = self._feeder.land(page.job_id)
        if flight is None:
            return []
        if flight.job.kind == FetchKind.ROBOTS:
            return self._settle_robots(page, flight)
        row = self._frontier.row(flight.key)
        if row is None:
            return []
        if flight.job.record and page.outcome == FetchOutcome.OK:
            self._settle_stored(page, flight, row)
            return []
        self._count_host(page, flight)
        if self._is_asked_again(page, flight):
            self._postpone(page, flight, row)
        elif page.outcome == FetchOutcome.OK:
            self._settle_answer(page, flight.key, row, added)
        else:
            self._settle_failure(page, flight.key, row)
        return []

    def _postpone(self, page: ParsedPage, flight: Flight, row: UrlRow) -> None:
        for packed in page.drafts:
            if packed[-1]:
                Path(packed[-1]).unlink(missing_ok=True)
        self._frontier.totals.tally.retries += 1
        outage = self._is_outage(page, flight.host)
        attempts = row.attempts + (not outage)
        self._frontier.postpone(flight.key, row._replace(attempts=attempts))
        if page.status not in RATE_LIMITED:  # else the fetcher has paused the host already
            self._back_off(flight.job.host, self._frontier.host(flight.host).failures // 2 if outage else row.attempts)
        self._note(page, row, result="retry", retry=attempts)

    def _back_off(self, host: str, attempts: int) -> None:
        fetch = self._job.fetch
        pause_s = failure_pause_s(fetch.delay, attempts, fetch.delay_max)
        self._pause(host, time.time() + pause_s, "it failed")

    def _count_host(self, page: ParsedPage, flight: Flight) -> None:
        host = flight.host
        known = self._frontier.host(host)
        fetched = known.fetched + (page.outcome == FetchOutcome.OK)
        failures = known.failures + 1 if page.outcome in _UNREACHABLE else 0
        since = (known.failing_since or int(time.time())) if failures else 0
        trouble = page.outcome if failures else ""
        changed = known._replace(failures=failures, fetched=fetched, failing_since=since, trouble=trouble)
        self._frontier.set_host(host, changed)

    def _settle_failure(self, page: ParsedPage, key: bytes, row: UrlRow) -> None:
        self._frontier.totals.tally.errors += 1
        self.errors[page.outcome] += 1
        self.trouble = page.detail or page.outcome
        failed = row._replace(state=UrlState.FAILED, outcome=page.outcome, status=0, visited=int(page.started))
        self._frontier.settle(key, failed, due=due_after(failed, self._job.revisit))
        self._note(page, row, result="error")

    # -- answers ------------------------------------------------------------------------------------------------

    def _settle_stored(self, page: ParsedPage, flight: Flight, row: UrlRow) -> None:
        """A page that was read from the archive instead of fetched again: the node that fetched it is gone."""
        self._settle_visited(page, flight.key, row)
        self._follow(page, flight.key, row)
        self.event("stored", url=row.url, record=flight.job.record)

    def _settle_visited(self, page: ParsedPage, key: bytes, row: UrlRow) -> None:
        after = visited(page, row)
        self._frontier.settle(key, after, due=due_after(after, self._job.revisit))
        self._retention.note(key, after)

    def _settle_answer(self, page: ParsedPage, key: bytes, row: UrlRow, added: Added | None) -> None:
        self._settle_visited(page, key, row)
        new = bool(added and added.new_content)
        result = count(page, row, self._frontier.totals.tally, self.errors, new=new)
        if not (page.part and page.location):  # the browser follows redirects of parts itself
            self._follow(page, key, row)
        self._note(page, row, result=result, record=str(added.record) if added and added.record else "")

    def _follow(self, page: ParsedPage, key: bytes, row: UrlRow) -> None:
        """Queues links and the target of a redirect."""
        links = [self._found(link, row) for link in page.links]
        if page.location:
            links += self._redirect(page, key, row)
        sitemaps = [
            FoundUrl(name, url, Hop.MANIFEST, 0, row.hops + 1, FetchKind.SITEMAP) for name, url in page.sitemaps
        ]
        deepen = self._job.depth is not None
        if deepen and links and row.kind == FetchKind.PAGE:
            self._frontier.keep_links(key, links)
        if links or sitemaps:
            self._frontier.find([*links, *sitemaps], row.url, self._admission.refusal, deepen=deepen)
            self._note_trapped(row.url)

    def _found(self, link: tuple[bytes, str, str], row: UrlRow) -> FoundUrl:
        name, url, hop = link
        if row.kind == FetchKind.SITEMAP:
            return FoundUrl(name, url, hop, 1)
        if hop == Hop.REDIRECT and self._admission.is_root(row.url):  # a seed that refreshes to another page
            self._admission.add_root(url)
        in_a_row = hop == Hop.REDIRECT or hop == Hop.EMBED == row.hop
        return FoundUrl(name, url, hop, link_depth(row.depth, hop), row.hops + 1 if in_a_row else 0)

    def _redirect(self, page: ParsedPage, key: bytes, row: UrlRow) -> list[FoundUrl]:
        if row.kind == FetchKind.SITEMAP:
            target = self._admission.found(page.location, Hop.MANIFEST, 0, row.hops + 1)
            target = target._replace(kind=FetchKind.SITEMAP)
        else:
            hop = Hop.EMBED if row.hop == Hop.EMBED else Hop.REDIRECT
            target = self._admission.found(page.location, hop, row.depth, row.hops + 1)
            if self._admission.is_root(row.url):
                self._admission.add_root(target.url)
            if target.key == key and target.url != row.url:  # it only adds a session id, so it counts as another page
                target = target._replace(key=key_of(target.url))
            if page.sets_cookie and self._repeat(target.key):
                return []
        return [target]

    def _repeat(self, key: bytes) -> bool:
        """Queues a URL again that redirected here, since a cookie was set: the response may differ now. Once."""
        row = self._frontier.row(key)
        if row is None or row.state != UrlState.DONE or not 300 <= row.status < 400 or row.repeated:
            return False
        self._frontier.queue_again(key, row._replace(repeated=1))
        return True

    # -- parts of pages that a browser loaded -------------------------------------------------------------------

    def _settle_part(self, page: ParsedPage, added: Added | None) -> None:
        """A part that a page loaded need not be fetched by itself."""
        if page.outcome != FetchOutcome.OK:
            return
        if page.method:  # a GET of the URL may give another response
            self._note(page, UrlRow(page.url, hop=Hop.EMBED), result="part")
            return
        found = self._admission.found(page.url, Hop.EMBED, 0, 0)
        row = self._frontier.row(found.key)
        if row is None:
            self._frontier.see(found.key)
            flight = self._feeder.flights.get(page.job_id)
            depth, via = (flight.job.depth, flight.job.url) if flight else (0, "")
            row = UrlRow(page.url, hop=Hop.EMBED, depth=depth, via=via, found=int(time.time()))
        if found.key in self._feeder.keys:  # in flight by itself: that fetch commits it
            return
        unchanged = bool(row.signature) and row.signature == page.signature.hex()
        visited = row._replace(visit=self._frontier.totals.visit)
        self._settle_answer(page._replace(unchanged=unchanged), found.key, visited, added)

    # -- robots.txt ---------------------------------------------------------------------------------------------

    def _settle_robots(self, page: ParsedPage, flight: Flight) -> list[FetchJob]:
        origin = flight.job.via
        again = self._feeder.follow_up(flight, lambda job_id: self._gate.again(page, origin, job_id))
        asked = UrlRow(page.url, FetchKind.ROBOTS, hop=Hop.PREREQUISITE, via=origin)
        if again is not None:
            if not page.location and page.status not in RATE_LIMITED:
                self._back_off(flight.job.host, self._gate.attempts(origin))
            self._note(page, asked, result="redirect" if page.location else "retry")
            return [again]
        opened = self._gate.take(page, origin)
        if opened.delay > self._job.fetch.delay:  # also owed after the fetch of robots.txt itself
            self._pause(host_of(f"{origin}/"), time.time() + opened.delay, "Crawl-delay")
            self._note_delay(host_of(f"{origin}/"), opened.delay)
        for host in opened.hosts:
            self._feeder.hungry(host)
        self.event("robots", origin=origin, note=opened.reason)
        self._note(page, asked, result="robots")
        if opened.trouble:
            self.trouble = opened.trouble
        elif self._admission.reads_sitemaps(origin):
            self._find_sitemaps(opened.sitemaps or (f"{origin}/sitemap.xml",), origin)
        self._frontier.totals.tally.besides += 1
        return []

    def _find_sitemaps(self, urls: Sequence[str], origin: str) -> None:
        found = [self._admission.found(url, Hop.MANIFEST, 0, 0)._replace(kind=FetchKind.SITEMAP) for url in urls]
        self._frontier.find(found, f"{origin}/robots.txt", self._admission.refusal)

    # -- URLs that are not fetched ------------------------------------------------------------------------------

    def refuse(self, key: bytes, row: UrlRow) -> None:
        """robots.txt forbids it, or is unavailable."""
        tally = self._frontier.totals.tally
        row, why = row._replace(state=UrlState.REFUSED, outcome=""), self._gate.refusal(row.url)
        due = 0
        if self._gate.is_blind(row.url):
            row = row._replace(outcome=FetchOutcome.NO_RULES, status=0, visited=int(time.time()))
            due = due_after(row, self._job.revisit)
            tally.errors += 1
            self.errors[why] += 1
        else:
            tally.refused += 1
        self._frontier.settle(key, row, due=due)
        self._rows.append({"event": "refused", "time": time.time(), "url": row.url, "via": row.via, "note": why})

    def abandon(self, key: bytes, row: UrlRow) -> None:
        """The host of a URL does not respond."""
        self._frontier.totals.tally.errors += 1
        self.errors["host given up"] += 1
        trouble = self._frontier.host(host_of(row.url)).trouble or FetchOutcome.CONNECT
        failed = row._replace(state=UrlState.FAILED, outcome=trouble, status=0, visited=int(time.time()))
        self._frontier.settle(key, failed, due=due_after(failed, self._job.revisit))
        note = f"its host is given up: {trouble}"
        self._rows.append({"event": "abandoned", "time": time.time(), "url": row.url, "via": row.via, "note": note})

    # -- the log ------------------------------------------------------------------------------------------------

    def event(self, event: str, **facts: Any) -> None:
        """Adds a row to the log, written with the next commit."""
        self._rows.append({"event": event, "time": round(time.time(), 3), **facts})

    def events(self, rows: Sequence[dict[str, Any]]) -> None:
        """Adds complete rows to the log."""
        self._rows.extend(rows)

    def _note(self, page: ParsedPage, row: UrlRow, **facts: Any) -> None:
        self._rows.append(row_of_fetch(page, row) | facts)


NOT_MODIFIED = 304
_PARTIAL = 206


def visited(page: ParsedPage, row: UrlRow) -> UrlRow:
    """The row after a response."""
    at = int(page.started)
    row = row._replace(state=UrlState.DONE, outcome=FetchOutcome.OK, status=page.status, visited=at, attempts=0)
    if 200 <= page.status < 400:
        row = row._replace(reached=at)
    if page.status == NOT_MODIFIED and page.unchanged:
        return row._replace(history=History.decode(row.history).after(False, page.started).encode())
    if not 200 <= page.status < 300:
        return row
    if page.truncated or page.status == _PARTIAL:  # a part must not be validated later
        return row._replace(etag="", modified="")
    changed = bool(row.signature) and not page.unchanged
    return row._replace(
        signature=page.signature.hex(),
        digest=page.digest,
        date=page.date,
        etag=page.etag,
        modified=page.modified,
        history=History.decode(row.history).after(changed, page.started).encode(),
    )


def count(page: ParsedPage, row: UrlRow, tally: CrawlTally, errors: Counter[str], *, new: bool) -> str:
    """Counts a response and returns its result in a word. robots.txt and sitemaps are counted separately."""
    if page.status != NOT_MODIFIED and not page.withheld:
        tally.content_bytes += page.size
        tally.new_bytes += page.size if new else 0
    if row.kind != FetchKind.PAGE:
        tally.besides += 1
        return _word(page, new=new)
    tally.fetched += 1
    tally.pages += page.status == 200 and page.mime in HTML_TYPES
    tally.truncated += bool(page.truncated)
    tally.new += new
    word = _word(page, new=new)
    tally.duplicates += bool(page.size) and not new and page.status != NOT_MODIFIED and not page.withheld
    if word == "error":
        errors[f"status {page.status}"] += 1
    tally.unchanged += word == "unchanged"
    tally.redirects += word == "redirect"
    tally.gone += word == "gone"
    tally.errors += word == "error"
    tally.changed += bool(row.signature) and word in ("new", "duplicate", "empty")
    return word


def _word(page: ParsedPage, *, new: bool) -> str:
    if page.withheld:
        return "withheld"
    if page.unchanged:
        return "unchanged"
    if page.location:
        return "redirect"
    if page.status in GONE:
        return "gone"
    if page.status >= 500:
        return "error"
    return "new" if new else "duplicate" if page.size else "empty"
