"""The intake: what the readers made of what was fetched goes into the archive, then into the frontier, then to the log.

One group at a time: first the records are durable, then, in one step, all that the frontier learns of them. A crash
between the two lets the URLs of the group be fetched again; it loses nothing.
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
from holdfast.archive.ingest.add import Added
from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow, UrlState, host_of, key_of
from holdfast.crawl.frontier.host_queue import link_depth
from holdfast.crawl.ingest.outcomes import count, visited
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.log import CrawlLog, row_of_fetch
from holdfast.crawl.parse.records import draft_of
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.policy.robots_gate import RobotsGate
from holdfast.crawl.processes.feeder import Feeder, Flight
from holdfast.crawl.processes.messages import FetchJob, FetchKind, FetchOutcome, ParsedPage
from holdfast.crawl.schedule.retention import Retention
from holdfast.crawl.schedule.revisit import due_after
from holdfast.errors import VolumeFull
from holdfast.formats.html.links.references import Hop

_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))  # statuses that another attempt may change
_RATE_LIMITED = frozenset((429, 503))  # for these the fetcher has paused the host already
_HOPELESS = frozenset((FetchOutcome.PRIVATE, FetchOutcome.INVALID, FetchOutcome.PROTOCOL, FetchOutcome.CRASHED))
_UNREACHABLE = frozenset((FetchOutcome.DNS, FetchOutcome.CONNECT, FetchOutcome.TIMEOUT))
_PAUSE_LEAST_S = 0.25


@dataclass(slots=True)
class IngestParts:
    """What the intake works on."""

    archive: Archive
    job: CrawlJob
    frontier: Frontier
    gate: RobotsGate
    feeder: Feeder
    admission: Admission
    log: CrawlLog
    pause: Callable[[str, float, str], None]  # host, until when, why
    retention: Retention


@dataclass(slots=True)
class _Group:
    """Readings whose records are on their way into the archive."""

    readings: Sequence[ParsedPage]
    added: Future[list[Added | None]]  # of the first record of each


class CrawlIngest:
    """One thread calls; another adds to the archive."""

    def __init__(self, parts: IngestParts) -> None:
        self._parts = parts
        self._job = parts.job
        self._frontier = parts.frontier
        self._rows: list[dict[str, Any]] = []  # for the log
        self._adding = ThreadPoolExecutor(1, "holdfast-intake")
        self._group: _Group | None = None
        self.settled = 0  # readings that are taken in, durably
        self.trouble = ""  # the last error, in full
        self.errors: Counter[str] = Counter()

    # -- one group ----------------------------------------------------------------------------------------------

    def take(self, readings: Sequence[ParsedPage]) -> list[FetchJob]:
        """Begins with a group, and ends with the one before it, which is durable when this returns.

        While the records of the one are on their way to the disk, what the other brought is settled. Returns what is to
        be fetched because of it.
        """
        before, self._group = self._group, self._begin(readings) if readings else None
        return self._finish(before) if before is not None else []

    def _begin(self, readings: Sequence[ParsedPage]) -> _Group:
        kept = [reading if self._is_kept(reading) else None for reading in readings]
        return _Group(readings, self._adding.submit(self._add, kept))

    def _finish(self, group: _Group) -> list[FetchJob]:
        jobs: list[FetchJob] = []
        for reading in group.readings:
            if reading.outcome == FetchOutcome.NO_SPACE:
                raise VolumeFull(f"no space left beside the archive: {reading.detail}")
        for reading, added in zip(group.readings, group.added.result(), strict=True):
            jobs += self._settle(reading, added)
        self.commit()
        self.settled += len(group.readings)
        return jobs

    @property
    def is_busy(self) -> bool:
        """Whether a group was begun and not ended."""
        return self._group is not None

    def close(self) -> None:
        self._adding.shutdown()

    def commit(self) -> None:
        self._note_trapped("")
        if self._frontier.is_changed:
            self._frontier.commit()
        if self._rows:
            self._parts.log.write(self._rows)
            self._rows = []

    def _note_trapped(self, via: str) -> None:
        for url, reason in self._parts.admission.trapped:
            self._frontier.totals.tally.trapped += 1
            self.event("trapped", url=url, **({"via": via} if via else {}), note=reason)
        self._parts.admission.trapped.clear()

    def _is_kept(self, reading: ParsedPage) -> bool:
        """An answer that is asked for again is not kept; the last one is."""
        if reading.part or reading.resource:
            return True
        flight = self._parts.feeder.flights.get(reading.job_id)
        return flight is not None and not self._is_asked_again(reading, flight)

    def _is_asked_again(self, reading: ParsedPage, flight: Flight) -> bool:
        if flight.job.kind == FetchKind.ROBOTS:
            return False
        if reading.outcome in _HOPELESS:
            return False
        allowed = self._job.fetch.retries
        if reading.outcome == FetchOutcome.OK and reading.status not in _PASSING:
            allowed = min(allowed, 1) if reading.truncated == "disconnect" else 0
        row = self._frontier.row(flight.key)
        return row is not None and (row.attempts < allowed or self._is_outage(reading, flight.host))

    def _is_outage(self, reading: ParsedPage, host: str) -> bool:
        """A host that has answered before does not now: it is waited for, and no attempt is counted."""
        known = self._frontier.host(host)
        return reading.outcome in _UNREACHABLE and known.is_down and not known.is_lost(self._job.fetch.outage_s)

    def _add(self, readings: Sequence[ParsedPage | None]) -> list[Added | None]:
        """Into the archive; what became of the first record of each."""
        archive = self._parts.archive
        drafts = [[draft_of(told) for told in reading.drafts] if reading else [] for reading in readings]
        small = [draft for each in drafts for draft in each if draft.spooled is None]
        added = iter(archive.add_drafts(small) if small else [])
        outcomes: list[Added | None] = []
        for each in drafts:
            results = [archive.add_large(draft) if draft.spooled else next(added) for draft in each]
            outcomes.append(results[0] if results else None)
        return outcomes

    # -- one reading --------------------------------------------------------------------------------------------

    def _settle(self, reading: ParsedPage, added: Added | None) -> list[FetchJob]:
        tally = self._frontier.totals.tally
        tally.transferred_bytes += reading.transferred
        if reading.resource:
            return []
        if reading.part:
            self._settle_part(reading, added)
            return []
        flight = self._parts.feeder.land(reading.job_id)
        if flight is None:
            return []
        if flight.job.kind == FetchKind.ROBOTS:
            return self._settle_robots(reading, flight)
        row = self._frontier.row(flight.key)
        if row is None:
            return []
        self._count_host(reading, flight)
        if self._is_asked_again(reading, flight):
            self._postpone(reading, flight, row)
        elif reading.outcome == FetchOutcome.OK:
            self._settle_answer(reading, flight.key, row, added)
        else:
            self._settle_failure(reading, flight.key, row)
        return []

    def _postpone(self, reading: ParsedPage, flight: Flight, row: UrlRow) -> None:
        for told in reading.drafts:
            if told[-1]:
                Path(told[-1]).unlink(missing_ok=True)
        self._frontier.totals.tally.retries += 1
        outage = self._is_outage(reading, flight.host)
        attempts = row.attempts + (not outage)
        self._frontier.postpone(flight.key, row._replace(attempts=attempts))
        if reading.status not in _RATE_LIMITED:
            self._back_off(flight.job.host, self._frontier.host(flight.host).failures // 2 if outage else row.attempts)
        self._note(reading, row, result="retry", retry=attempts)

    def _back_off(self, host: str, attempts: int) -> None:
        fetch = self._job.fetch
        pause = min(max(fetch.delay, _PAUSE_LEAST_S) * 2**attempts, fetch.delay_max)
        self._parts.pause(host, time.time() + pause, "it failed")

    def _count_host(self, reading: ParsedPage, flight: Flight) -> None:
        host = flight.host
        known = self._frontier.host(host)
        fetched = known.fetched + (reading.outcome == FetchOutcome.OK)
        failures = known.failures + 1 if reading.outcome in _UNREACHABLE else 0
        since = (known.failing_since or int(time.time())) if failures else 0
        trouble = reading.outcome if failures else ""
        changed = known._replace(failures=failures, fetched=fetched, failing_since=since, trouble=trouble)
        self._frontier.set_host(host, changed)

    def _settle_failure(self, reading: ParsedPage, key: bytes, row: UrlRow) -> None:
        self._frontier.totals.tally.errors += 1
        self.errors[reading.outcome] += 1
        self.trouble = reading.detail or reading.outcome
        failed = row._replace(state=UrlState.FAILED, outcome=reading.outcome, status=0, visited=int(reading.started))
        self._frontier.settle(key, failed, due=due_after(failed, self._job.revisit))
        self._note(reading, row, result="error")

    # -- answers ------------------------------------------------------------------------------------------------

    def _settle_answer(self, reading: ParsedPage, key: bytes, row: UrlRow, added: Added | None) -> None:
        after = visited(reading, row)
        self._frontier.settle(key, after, due=due_after(after, self._job.revisit))
        self._parts.retention.note(key, after)
        new = bool(added and added.new_content)
        result = count(reading, row, self._frontier.totals.tally, self.errors, new=new)
        if not (reading.part and reading.location):  # the browser has followed a part's redirect itself
            self._follow(reading, key, row)
        self._note(reading, row, result=result, record=str(added.record) if added and added.record else "")

    def _follow(self, reading: ParsedPage, key: bytes, row: UrlRow) -> None:
        """Links, and where a redirect leads, are queued."""
        links = [self._found(link, row) for link in reading.links]
        if reading.location:
            links += self._redirect(reading, key, row)
        sitemaps = [
            FoundUrl(name, url, Hop.MANIFEST, 0, row.hops + 1, FetchKind.SITEMAP) for name, url in reading.sitemaps
        ]
        deepen = self._job.depth is not None
        if deepen and links and row.kind == FetchKind.PAGE:
            self._frontier.keep_links(key, links)
        if links or sitemaps:
            self._frontier.find([*links, *sitemaps], row.url, self._parts.admission.refusal, deepen=deepen)
            self._note_trapped(row.url)

    def _found(self, link: tuple[bytes, str, str], row: UrlRow) -> FoundUrl:
        name, url, hop = link
        if row.kind == FetchKind.SITEMAP:
            return FoundUrl(name, url, hop, 1)
        if hop == Hop.REDIRECT and self._parts.admission.is_root(row.url):  # a page that refreshes to another
            self._parts.admission.add_root(url)
        in_a_row = hop == Hop.REDIRECT or hop == Hop.EMBED == row.hop
        return FoundUrl(name, url, hop, link_depth(row.depth, hop), row.hops + 1 if in_a_row else 0)

    def _redirect(self, reading: ParsedPage, key: bytes, row: UrlRow) -> list[FoundUrl]:
        if row.kind == FetchKind.SITEMAP:
            target = self._parts.admission.found(reading.location, Hop.MANIFEST, 0, row.hops + 1)
            target = target._replace(kind=FetchKind.SITEMAP)
        else:
            hop = Hop.EMBED if row.hop == Hop.EMBED else Hop.REDIRECT
            target = self._parts.admission.found(reading.location, hop, row.depth, row.hops + 1)
            if self._parts.admission.is_root(row.url):
                self._parts.admission.add_root(target.url)
            if target.key == key and target.url != row.url:  # only a session id was added: it is another page here
                target = target._replace(key=key_of(target.url))
            if reading.sets_cookie and self._repeat(target.key):
                return []
        return [target]

    def _repeat(self, key: bytes) -> bool:
        """A redirect leads back to what redirected to it, and a cookie was set: that may be answered otherwise now."""
        row = self._frontier.row(key)
        if row is None or row.state != UrlState.DONE or not 300 <= row.status < 400 or row.repeated:
            return False
        self._frontier.queue_again(key, row._replace(repeated=1))
        return True

    # -- parts of pages that a browser loaded -------------------------------------------------------------------

    def _settle_part(self, reading: ParsedPage, added: Added | None) -> None:
        """It need not be fetched for itself any more."""
        if reading.outcome != FetchOutcome.OK:
            return
        if reading.method:  # its answer is not what the URL itself would give
            self._note(reading, UrlRow(reading.url, hop=Hop.EMBED), result="part")
            return
        found = self._parts.admission.found(reading.url, Hop.EMBED, 0, 0)
        row = self._frontier.row(found.key)
        if row is None:
            self._frontier.see(found.key)
            page = self._parts.feeder.flights.get(reading.job_id)
            depth, via = (page.job.depth, page.job.url) if page else (0, "")
            row = UrlRow(reading.url, hop=Hop.EMBED, depth=depth, via=via, found=int(time.time()))
        if found.key in self._parts.feeder.keys:  # the fetcher has it, too: that will settle it
            return
        unchanged = bool(row.signature) and row.signature == reading.signature.hex()
        visited = row._replace(visit=self._frontier.totals.visit)
        self._settle_answer(reading._replace(unchanged=unchanged), found.key, visited, added)

    # -- robots.txt ---------------------------------------------------------------------------------------------

    def _settle_robots(self, reading: ParsedPage, flight: Flight) -> list[FetchJob]:
        parts, origin = self._parts, flight.job.via
        again = parts.feeder.follow_up(flight, lambda job_id: parts.gate.again(reading, origin, job_id))
        asked = UrlRow(reading.url, FetchKind.ROBOTS, hop=Hop.PREREQUISITE, via=origin)
        if again is not None:
            if not reading.location and reading.status not in _RATE_LIMITED:
                self._back_off(flight.job.host, parts.gate.attempts(origin))
            self._note(reading, asked, result="redirect" if reading.location else "retry")
            return [again]
        opened = parts.gate.take(reading, origin)
        if opened.delay > self._job.fetch.delay:  # it is owed after the file itself, too, which was asked for before
            parts.pause(host_of(f"{origin}/"), time.time() + opened.delay, "Crawl-delay")
        for host in opened.hosts:
            parts.feeder.hungry(host)
        self.event("robots", origin=origin, note=opened.reason)
        self._note(reading, asked, result="robots")
        if opened.trouble:
            self.trouble = opened.trouble
        elif parts.admission.reads_sitemaps(origin):
            self._find_sitemaps(opened.sitemaps or (f"{origin}/sitemap.xml",), origin)
        self._frontier.totals.tally.besides += 1
        return []

    def _find_sitemaps(self, urls: Sequence[str], origin: str) -> None:
        found = [self._parts.admission.found(url, Hop.MANIFEST, 0, 0)._replace(kind=FetchKind.SITEMAP) for url in urls]
        self._frontier.find(found, f"{origin}/robots.txt", self._parts.admission.refusal)

    # -- what is not fetched ------------------------------------------------------------------------------------

    def refuse(self, key: bytes, row: UrlRow) -> None:
        """robots.txt forbids it, or cannot be had."""
        tally = self._frontier.totals.tally
        row, why = row._replace(state=UrlState.REFUSED, outcome=""), self._parts.gate.refusal(row.url)
        due = 0
        if self._parts.gate.is_blind(row.url):
            row = row._replace(outcome=FetchOutcome.NO_RULES, status=0, visited=int(time.time()))
            due = due_after(row, self._job.revisit)
            tally.errors += 1
            self.errors[why] += 1
        else:
            tally.refused += 1
        self._frontier.settle(key, row, due=due)
        self._rows.append({"event": "refused", "time": time.time(), "url": row.url, "via": row.via, "note": why})

    def abandon(self, key: bytes, row: UrlRow) -> None:
        """Its host does not answer."""
        self._frontier.totals.tally.errors += 1
        self.errors["host given up"] += 1
        trouble = self._frontier.host(host_of(row.url)).trouble or FetchOutcome.CONNECT
        failed = row._replace(state=UrlState.FAILED, outcome=trouble, status=0, visited=int(time.time()))
        self._frontier.settle(key, failed, due=due_after(failed, self._job.revisit))
        note = f"its host is given up: {trouble}"
        self._rows.append({"event": "abandoned", "time": time.time(), "url": row.url, "via": row.via, "note": note})

    # -- the log ------------------------------------------------------------------------------------------------

    def event(self, event: str, **facts: Any) -> None:
        """Written with the next group."""
        self._rows.append({"event": event, "time": round(time.time(), 3), **facts})

    def events(self, rows: Sequence[dict[str, Any]]) -> None:
        """Likewise, of rows that are made already."""
        self._rows.extend(rows)

    def _note(self, reading: ParsedPage, row: UrlRow, **facts: Any) -> None:
        self._rows.append(row_of_fetch(reading, row) | facts)
