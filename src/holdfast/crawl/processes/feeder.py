"""The feeder: keeps the fetcher supplied from the frontier, a few URLs ahead for each host.

Hosts take turns: the free slots are divided among hosts with queued URLs, at least one each; then a host goes to the
end of the line. If more hosts wait than the frontier keeps live, a host makes room for the next as soon as it has a
request running, and queues again when that has ended. So no host starves. The fetcher decides when a request may be
sent, the robots gate whether.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

from holdfast.crawl.frontier import Frontier, UrlRow, host_of
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.policy.robots_gate import RobotsGate
from holdfast.crawl.processes.messages import FetchJob, FetchKind
from holdfast.formats.html.links.references import Hop

_AHEAD = 4  # times what a host, or the whole crawl, may fetch at a time
_AHEAD_MAX = 8192
_DEATHS_LOOKED_INTO = 2  # of parse workers; then the page is kept unparsed
_LOOKED_AT_MAX = 1000  # URLs of a host at a time, of which few may be fetched


class Flight(NamedTuple):
    """A URL in flight."""

    job: FetchJob
    key: bytes  # empty for a robots.txt
    host: str  # that was fed


class Feeder:
    """For one thread."""

    def __init__(
        self,
        frontier: Frontier,
        gate: RobotsGate,
        job: CrawlJob,
        is_held: Callable[[UrlRow], bool],
        is_ours: Callable[[str], bool] = lambda host: True,
        kept: Callable[[UrlRow], str] = lambda row: "",
    ) -> None:
        """`is_held`: whether the archive has the capture that a 304 response would refer to.

        `is_ours`: whether a host may be fed. The others sleep until they are woken. `kept`: the record of a capture
        that this visit has made already; empty without one.
        """
        self._is_held = is_held
        self._is_ours = is_ours
        self._kept = kept
        self._frontier = frontier
        self._gate = gate
        self._job = job
        self._ids = count(1)
        self._hungry: OrderedDict[str, None] = OrderedDict()  # in the order of their turns
        self._outstanding: dict[str, int] = {}
        self.flights: dict[int, Flight] = {}
        self.keys: set[bytes] = set()  # of URLs in flight
        self._suspects: Counter[int] = Counter()  # by job: parse workers that died of it
        self._asleep: dict[str, float] = {}  # hosts with a long pause, and its end
        fetch = job.fetch
        self._ahead = fetch.per_host + 1 if fetch.delay else max(_AHEAD * fetch.per_host, 8)
        self._window = min(_AHEAD * job.workers, _AHEAD_MAX) if not fetch.delay else _AHEAD_MAX

    def feed(
        self, allowance: int | None, refuse: Callable[[bytes, UrlRow], None], abandon: Callable[[bytes, UrlRow], None]
    ) -> list[FetchJob]:
        """Jobs for the fetcher, at most `allowance` URLs in flight. Commit the frontier first.

        `refuse` is called with URLs that robots.txt forbids, `abandon` with those of an abandoned host.
        """
        frontier = self._frontier
        for host in frontier.enliven():
            if host in self._asleep or self._is_full(host) or not self._is_ours(host):  # new URLs were found there
                frontier.sleep(host)
            else:
                self._hungry[host] = None
        self._hungry.update((host, None) for host in frontier.fed)
        frontier.fed.clear()
        room = self._window - len(self.flights)
        if allowance is not None:
            room = min(room, allowance - len(self.keys))
        jobs: list[FetchJob] = []
        crowded = frontier.is_crowded
        share = max(room // max(len(self._hungry), 1), 1)
        for _ in range(len(self._hungry)):
            if room <= 0:
                break
            host, _ = self._hungry.popitem(last=False)
            if not frontier.is_live(host):  # it made room for others, and returns at its turn
                continue
            if not self._is_ours(host):
                frontier.sleep(host)
                continue
            wanted = min(self._ahead - self._outstanding.get(host, 0), room)
            if wanted > 0:
                sent = self._feed_host(host, min(wanted, share), refuse, abandon)
                jobs += sent
                room -= len(sent)
                if share < wanted and len(sent) == share:  # it may take more after the others
                    self.hungry(host)
            self._rest(host, crowded=crowded)
        return jobs

    def _feed_host(
        self,
        host: str,
        wanted: int,
        refuse: Callable[[bytes, UrlRow], None],
        abandon: Callable[[bytes, UrlRow], None],
    ) -> list[FetchJob]:
        known = self._frontier.host(host)
        if known.is_down:
            wanted = 1 - self._outstanding.get(host, 0)  # one URL shows whether it is back
        jobs: list[FetchJob] = []
        looked_at = 0
        while len(jobs) < wanted and looked_at < _LOOKED_AT_MAX:
            taken = self._frontier.take(host, wanted - len(jobs), self.keys)
            looked_at += len(taken)
            if known.is_lost(self._job.fetch.outage_s):
                for key, row in taken:
                    abandon(key, row)
            else:
                jobs += self._jobs_of(host, taken, refuse)
            if not taken or self._frontier.is_given_back(host):
                return jobs
        if looked_at >= _LOOKED_AT_MAX:  # most were refused: there may be more
            self.hungry(host)
        return jobs

    def _jobs_of(
        self,
        host: str,
        taken: list[tuple[bytes, UrlRow]],
        refuse: Callable[[bytes, UrlRow], None],
    ) -> list[FetchJob]:
        """Jobs for the URLs that may be fetched. If robots.txt must be fetched first, the rest is given back."""
        jobs: list[FetchJob] = []
        for index, (key, row) in enumerate(taken):
            allowed = self._gate.allows(row.url)
            if allowed is None:
                for back, _ in reversed(taken[index:]):
                    self._frontier.give_back(host, back)
                asked = self._gate.ask(row.url, host, next(self._ids))
                if asked is not None:
                    jobs.append(self._begin(asked, b"", host))
                return jobs
            if allowed:
                jobs.append(self._begin(self._job_of(row, host), key, host))
            else:
                refuse(key, row)
        return jobs

    def _job_of(self, row: UrlRow, host: str) -> FetchJob:
        browse = (
            self._job.browser.enabled and row.kind == FetchKind.PAGE and row.hop not in (Hop.EMBED, Hop.SPECULATIVE)
        )
        if (row.etag or row.modified) and (self._frontier.totals.thorough or not self._is_held(row)):
            row = row._replace(etag="", modified="")
        return FetchJob(
            next(self._ids),
            row.url,
            host,
            row.kind,
            row.hop,
            row.depth,
            row.hops,
            row.via,
            self._gate.delay(row.url),
            row.etag,
            row.modified,
            bytes.fromhex(row.signature),
            row.digest,
            row.date,
            browse,
            bool(row.unreadable),
            "" if browse else self._kept(row),  # what a browser finds is not in the response
            self._frontier.roots_added,
        )

    def _begin(self, job: FetchJob, key: bytes, host: str) -> FetchJob:
        self.flights[job.id] = Flight(job, key, host)
        if key:
            self.keys.add(key)
        self._outstanding[host] = self._outstanding.get(host, 0) + 1
        return job

    def _rest(self, host: str, *, crowded: bool) -> None:
        """A host without URLs to fetch makes room for others; if hosts wait for room, every host does."""
        if self._outstanding.get(host):
            if crowded:
                self._hungry.pop(host, None)
                self._frontier.sleep(host)  # until a result arrives
        elif self._frontier.is_exhausted(host) and host not in self._hungry:
            self._frontier.leave(host)

    def _is_full(self, host: str) -> bool:
        """True if the host has as many URLs in flight as it may."""
        return self._outstanding.get(host, 0) >= self._ahead

    def ask_robots(self, url: str) -> list[FetchJob]:
        """Fetches robots.txt for its sitemaps where its rules are not obeyed."""
        host = host_of(url)
        asked = self._gate.ask(url, host, next(self._ids))
        return [self._begin(asked, b"", host)] if asked is not None else []

    def follow_up(self, flight: Flight, make: Callable[[int], FetchJob | None]) -> FetchJob | None:
        """Another fetch in place of one that has ended."""
        job = make(next(self._ids))
        return self._begin(job, flight.key, flight.host) if job is not None else None

    def fetch_anyway(self, job: FetchJob) -> FetchJob:
        """The job without the capture that could not be read."""
        job = job._replace(record="")
        self.flights[job.id] = self.flights[job.id]._replace(job=job)
        return job

    def land(self, job_id: int) -> Flight | None:
        """A job has ended; returns its flight."""
        flight = self.flights.pop(job_id, None)
        if flight is not None:
            self.keys.discard(flight.key)
            left = self._outstanding.get(flight.host, 0) - 1
            if left > 0:
                self._outstanding[flight.host] = left
            else:
                self._outstanding.pop(flight.host, None)
            self.hungry(flight.host)
            if flight.host not in self._asleep:
                self._frontier.wake(flight.host)  # it may have made room for others
        return flight

    def hungry(self, host: str) -> None:
        """The host may be given more URLs."""
        self._hungry[host] = None

    def suspect(self, job_id: int) -> bool:
        """Notes that a parse worker died, perhaps of this job. True if the job is abandoned.

        The first death may be chance: anybody can kill a process. After the second the page is not parsed.
        """
        self._suspects[job_id] += 1
        flight = self.flights.get(job_id)
        if flight is not None and self._suspects[job_id] == _DEATHS_LOOKED_INTO:
            self.flights[job_id] = flight._replace(job=flight.job._replace(no_links=True))
        return flight is not None and self._suspects[job_id] > _DEATHS_LOOKED_INTO

    # -- hosts with long pauses ----------------------------------------------------------------------

    def recall(self, host: str, job_ids: Sequence[int], until: float) -> None:
        """The fetcher returned jobs: the host pauses until then, and makes room for others."""
        fed = {host}
        for job_id in job_ids:
            if (flight := self.flights.get(job_id)) is not None:
                fed.add(flight.host)
                self._release(flight)
        for each in fed:
            self._asleep[each] = until
            self._hungry.pop(each, None)
            self._frontier.sleep(each)

    def release_all(self) -> None:
        """Nothing is in flight any more: all URLs without a result are fed again."""
        for flight in list(self.flights.values()):
            self._release(flight)
            self._frontier.sleep(flight.host)  # its queue is read again from the start
            self._frontier.wake(flight.host)

    def _release(self, flight: Flight) -> None:
        self.land(flight.job.id)
        self._frontier.release(flight.key)
        if flight.job.kind == FetchKind.ROBOTS:  # fetched again when the host wakes
            self._gate.forget(flight.job.via)

    def wake(self, now: float) -> None:
        """Wakes hosts whose pause is over."""
        for host in [host for host, until in self._asleep.items() if until <= now]:
            del self._asleep[host]
            self._frontier.wake(host)

    @property
    def hosts(self) -> int:
        """Hosts with URLs in flight."""
        return len(self._outstanding)

    @property
    def waits(self) -> bool:
        """True if URLs are in flight, or hosts asleep."""
        return bool(self.flights or self._asleep)

    @property
    def idle(self) -> bool:
        """True if nothing is in flight and no host is hungry or asleep."""
        return not self.flights and not self._hungry and not self._asleep
