"""The feeder: keeps the fetcher supplied from the frontier, a few URLs ahead for each host.

Hosts take turns: the room that there is gets divided among those that could take some, one URL at least; then a host
goes to the end of the line. Where more hosts wait than the frontier keeps live, a host makes room for the next as
soon as it has something under way, and waits for its next turn when that has come back. So none starves, however many
there are. When a host may be asked is the fetcher's business; whether, is the gate's.
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
_DEATHS_LOOKED_INTO = 2  # of readers over a page, which is then kept without being looked into
_LOOKED_AT_MAX = 1000  # URLs of a host at a time, of which few may be fetched


class Flight(NamedTuple):
    """A URL that is under way."""

    job: FetchJob
    key: bytes  # empty for a robots.txt
    host: str  # that was fed


class Feeder:
    """One thread. `refuse` is told of what the gate forbids, `abandon` of what belongs to a host that is given up."""

    def __init__(self, frontier: Frontier, gate: RobotsGate, job: CrawlJob, is_held: Callable[[UrlRow], bool]) -> None:
        """`is_held` says whether the archive has what a server may call not modified."""
        self._is_held = is_held
        self._frontier = frontier
        self._gate = gate
        self._job = job
        self._ids = count(1)
        self._hungry: OrderedDict[str, None] = OrderedDict()  # in the order of their turns
        self._outstanding: dict[str, int] = {}
        self.flights: dict[int, Flight] = {}
        self.keys: set[bytes] = set()  # of what is under way
        self._suspects: Counter[int] = Counter()  # jobs that a reader died over
        self._asleep: dict[str, float] = {}  # hosts that are left alone for long, until when
        fetch = job.fetch
        self._ahead = fetch.per_host + 1 if fetch.delay else max(_AHEAD * fetch.per_host, 8)
        self._window = min(_AHEAD * job.workers, _AHEAD_MAX) if not fetch.delay else _AHEAD_MAX

    def feed(
        self, allowance: int | None, refuse: Callable[[bytes, UrlRow], None], abandon: Callable[[bytes, UrlRow], None]
    ) -> list[FetchJob]:
        """What to send to the fetcher now, at most `allowance` URLs. Commit the frontier first."""
        frontier = self._frontier
        for host in frontier.enliven():
            if host in self._asleep or self._is_full(host):  # something was found there meanwhile
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
            if not frontier.is_live(host):  # it gave its place to others, and comes back when it is its turn
                continue
            wanted = min(self._ahead - self._outstanding.get(host, 0), room)
            if wanted > 0:
                sent = self._feed_host(host, min(wanted, share), refuse, abandon)
                jobs += sent
                room -= len(sent)
                if share < wanted and len(sent) == share:  # it could take more when the others have had theirs
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
        """Of URLs that may be fetched; the rest waits if robots.txt has to be asked for first."""
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
            self._frontier.roots_added,
        )

    def _begin(self, job: FetchJob, key: bytes, host: str) -> FetchJob:
        self.flights[job.id] = Flight(job, key, host)
        if key:
            self.keys.add(key)
        self._outstanding[host] = self._outstanding.get(host, 0) + 1
        return job

    def _rest(self, host: str, *, crowded: bool) -> None:
        """A host from which nothing is to be had now makes room for others; where it is crowded, any does."""
        if self._outstanding.get(host):
            if crowded:
                self._hungry.pop(host, None)
                self._frontier.sleep(host)  # until something has come back
        elif self._frontier.is_exhausted(host) and host not in self._hungry:
            self._frontier.leave(host)

    def _is_full(self, host: str) -> bool:
        """Whether a host has as much under way as it may have."""
        return self._outstanding.get(host, 0) >= self._ahead

    def ask_robots(self, url: str) -> list[FetchJob]:
        """For its sitemaps, where its rules are not obeyed."""
        host = host_of(url)
        asked = self._gate.ask(url, host, next(self._ids))
        return [self._begin(asked, b"", host)] if asked is not None else []

    def follow_up(self, flight: Flight, make: Callable[[int], FetchJob | None]) -> FetchJob | None:
        """Another fetch for the same purpose, in place of the one that has come back."""
        job = make(next(self._ids))
        return self._begin(job, flight.key, flight.host) if job is not None else None

    def land(self, job_id: int) -> Flight | None:
        """What was under way has come back."""
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
                self._frontier.wake(flight.host)  # if it has made room for others
        return flight

    def hungry(self, host: str) -> None:
        """The host may be fed."""
        self._hungry[host] = None

    def suspect(self, job_id: int) -> bool:
        """A reader died, perhaps over this job. Whether that happened so often that it is given up.

        Once may be bad luck, as anybody can kill a process; after the second time it is not looked into.
        """
        self._suspects[job_id] += 1
        flight = self.flights.get(job_id)
        if flight is not None and self._suspects[job_id] == _DEATHS_LOOKED_INTO:
            self.flights[job_id] = flight._replace(job=flight.job._replace(no_links=True))
        return flight is not None and self._suspects[job_id] > _DEATHS_LOOKED_INTO

    # -- hosts that are left alone for long ----------------------------------------------------------------------

    def recall(self, host: str, job_ids: Sequence[int], until: float) -> None:
        """The fetcher has given jobs back: the host is not to be asked for a while, and makes room for others."""
        fed = {host}
        for flight in filter(None, map(self.land, job_ids)):
            fed.add(flight.host)
            if flight.job.kind == FetchKind.ROBOTS:  # it is asked for again when the host is fed again
                self._gate.forget(flight.job.via)
        for each in fed:
            self._asleep[each] = until
            self._hungry.pop(each, None)
            self._frontier.sleep(each)

    def wake(self, now: float) -> None:
        """Hosts whose time has come."""
        for host in [host for host, until in self._asleep.items() if until <= now]:
            del self._asleep[host]
            self._frontier.wake(host)

    @property
    def hosts(self) -> int:
        """With something under way."""
        return len(self._outstanding)

    @property
    def waits(self) -> bool:
        """Whether something is under way, or asleep."""
        return bool(self.flights or self._asleep)

    @property
    def idle(self) -> bool:
        """Nothing is under way, and nobody is hungry or asleep."""
        return not self.flights and not self._hungry and not self._asleep
