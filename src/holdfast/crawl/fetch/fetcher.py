"""The fetcher: all requests of a crawl, including those of pages in browsers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.crawl.fetch.addresses import (
    ADDRESSES_MAX,
    AddressPolicy,
    Lookup,
    ResolvedName,
    Resolver,
    literal,
    system_lookup,
)
from holdfast.crawl.fetch.cookies import Jar
from holdfast.crawl.fetch.politeness import FetchTurn, Politeness, Rules, TransferEnd
from holdfast.crawl.fetch.request import Requests, RequestTarget, place_of
from holdfast.crawl.fetch.response import retry_after_of, set_cookies_of
from holdfast.crawl.fetch.transfer import FetchOrder, Transfers
from holdfast.crawl.job.credentials import bound
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.paths import COOKIES, SPOOL
from holdfast.crawl.processes.messages import AddressPermit, AddressUse, Fetched, FetchJob, FetchOutcome
from holdfast.crawl.schedule.retry import RATE_LIMITED
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.crawl")

Done = Callable[[Fetched], None]
Paused = Callable[[str, float, str], None]
Recalled = Callable[[str, list[FetchJob]], None]
RECALL_S = 30.0  # jobs that would wait longer are returned
UNSETTLED_MIN = 16  # fewer would leave processes idle
_CONNECTIONS_MIN = 64
_CONNECTIONS_MAX = 1024


@dataclass(eq=False, slots=True)
class _Fetch:
    """A fetch from its submission to its end."""

    job: FetchJob
    done: Done
    place: RequestTarget
    recallable: bool
    addresses: tuple[str, ...] = ()  # to be tried next
    turn: FetchTurn | None = field(default=None)
    attempts: int = 0  # at further addresses


def _boot_time_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def unsettled_max(workers: int) -> int:
    """Limit of requests made and not yet committed to the frontier: a killed crawl repeats them."""
    return max(workers, UNSETTLED_MIN)


class Fetcher:
    """Takes jobs, returns their results. For the event loop's thread; nothing blocks.

    `on_pause` is called when a host pauses: host, until when (seconds since the epoch), and why. That
    is when its server asks for it, or when its delay is so long that its jobs are returned. `on_recall` is
    called with the returned jobs: they have not begun, will not be fetched, and their `done` is not called.
    """

    def __init__(
        self,
        job: CrawlJob,
        directory: Path,
        *,
        allow_private: bool = False,
        private_networks: Iterable[str] = (),
        lookup: Lookup = system_lookup,
        on_pause: Paused = lambda host, until, reason: None,
        on_recall: Recalled = lambda host, jobs: None,
        guard: Callable[[], None] | None = None,
        needs_permits: bool = False,
    ) -> None:
        """`directory` is the crawl's, for cookies and large bodies. Needs a running loop.

        `guard` is called before every call into libcurl. With `needs_permits`, polite fetches begin only while there is
        a `permit` for their address.
        """
        settings = bound(job).fetch
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._workers = max(job.workers, 1)
        self._on_pause = on_pause
        self._on_recall = on_recall
        self._cookies_path = directory / COOKIES
        spool = directory / SPOOL
        spool.mkdir(parents=True, exist_ok=True)
        for left in spool.iterdir():  # left by a killed process
            left.unlink()
        self._jar = Jar()
        if settings.cookies:
            self._jar.load(self._cookies_path)
        self._policy = AddressPolicy(
            private=settings.private or allow_private, refuse=settings.refuse, networks=private_networks
        )
        self._resolver = Resolver(self._loop, settings.resolve, lookup)
        rules = Rules(max(settings.per_host, 1), max(settings.per_address, 1), settings.delay_max, settings.adaptive)
        self._needs_permits = needs_permits and not settings.proxy
        self._politeness = Politeness(rules, needs_permits=self._needs_permits)
        self._requests = Requests(settings)
        connections = min(max(self._workers * 8, _CONNECTIONS_MIN), _CONNECTIONS_MAX)
        self._transfers = Transfers(self._loop, settings, spool, connections, guard)
        self._clock = _boot_time_s if needs_permits else time.monotonic  # permits end while the machine sleeps, too
        self._epoch = time.time() - self._clock()
        self._active = 0
        self._unsettled_max = unsettled_max(self._workers)
        self._unsettled = 0  # fetches that have ended and are not committed yet
        self._held = False
        self._closed = False
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        """Seconds since the epoch, monotonic."""
        return self._epoch + self._clock()

    def submit(self, job: FetchJob, done: Done, *, polite: bool = True, recallable: bool = False) -> None:
        """Fetches at the host's turn; `done` is called once, never before this returns.

        Without `polite` the host's delay is ignored, its pauses and limits are not: for parts of a page in a browser.
        A `recallable` job may be returned instead of fetched; see `on_recall`.
        """
        place = place_of(job.url)
        if place is None:
            refused = Fetched(job, FetchOutcome.INVALID, f"cannot fetch '{job.url}': not a URL of the web")
            self._loop.call_soon(done, refused)
            return
        host = job.host or place.authority
        fetch = _Fetch(job, done, place, recallable and polite)
        if self._politeness.add(host, fetch, job.delay, self.now(), urgent=not polite):
            self._locate(host, place)
        self._schedule()
        if recallable and not self._politeness.waits(host).active:  # otherwise its end decides how long the host rests
            self._recall_if_slow(host)

    async def fetch(self, job: FetchJob, *, polite: bool = True) -> Fetched:
        """As `submit`, awaitable. If the caller is cancelled, the fetch still runs to its end."""
        future: asyncio.Future[Fetched] = self._loop.create_future()

        def done(fetched: Fetched) -> None:
            if not future.done():
                future.set_result(fetched)
            elif fetched.spool:
                Path(fetched.spool).unlink(missing_ok=True)

        self.submit(job, done, polite=polite)
        return await future

    def pause(self, host: str, until: float, reason: str) -> None:
        """No request to the host before `until`, in seconds since the epoch."""
        self._politeness.pause(host, until, reason, self.now())
        self._recall_if_paused(host, until)
        self._schedule()

    def recall(self, host: str) -> None:
        """Returns all recallable jobs of the host; `on_recall` is called in any case, even with none."""
        self._on_recall(host, self._taken_back(host))

    def permit(self, permit: AddressPermit) -> None:
        """Polite fetches from its address may begin, from and until times of CLOCK_BOOTTIME."""
        from_s, until_s = permit.from_s + self._epoch, permit.until_s + self._epoch
        self._politeness.permit(permit._replace(from_s=from_s, until_s=until_s), self.now())
        self._schedule()

    def uses(self) -> list[AddressUse]:
        """What has changed about addresses that need permits. Call it often."""
        return [use._replace(owed_s=use.owed_s - self._epoch) for use in self._politeness.uses(self.now())]

    def hold(self, held: bool) -> None:
        """While held, no request begins; running ones continue."""
        if held != self._held:
            self._held = held
            self._schedule()

    def set_unsettled(self, count: int) -> None:
        """The number of ended fetches not committed yet; while it is too high, fewer begin."""
        fewer, self._unsettled = count < self._unsettled, count
        if fewer:
            self._schedule()

    def stop(self) -> None:
        """Drops recallable jobs that have not started; `on_recall` is not called for them."""
        self._politeness.recall_all(lambda fetch: fetch.recallable)

    @property
    def active(self) -> int:
        """Running fetches."""
        return self._active

    def stats(self) -> dict[str, int]:
        """Current figures."""
        return {
            "active": self._active,
            "waiting": self._politeness.waiting,
            "connections": self._transfers.sockets,
            "hosts": self._politeness.hosts,
            "cookies": len(self._jar),
        }

    def save_cookies(self) -> None:
        """Saves the cookies if they have changed. A failed write is retried at the next call."""
        if self._settings.cookies and self._jar.changed:
            try:
                self._jar.save(self._cookies_path, self.now())
            except (HoldfastError, OSError) as problem:
                log.warning("cannot write the cookies down: %s", problem)

    def close(self) -> None:
        """Aborts running fetches; their `done` is not called."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._resolver.close()
        self._transfers.close()
        self.save_cookies()

    # -- from a host's name to its turn -------------------------------------------------------------------------

    def _locate(self, host: str, place: RequestTarget) -> None:
        if self._settings.proxy:
            self._politeness.locate(host, "", self.now())
        else:
            self._resolver.find(place.host, lambda answer: self._located(host, answer))

    def _located(self, host: str, answer: ResolvedName) -> None:
        self._politeness.locate(host, answer.addresses[0] if answer.addresses else "", self.now())
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Begins every fetch that may begin now."""
        self._scheduled = False
        if self._closed:
            return
        while self._active < min(self._workers, self._unsettled_max - self._unsettled) and not self._held:
            turn = self._politeness.next(self.now())
            if turn is None:
                self._wake_at(self._politeness.wake())
                return
            self._begin(turn)

    def _recall_if_paused(self, host: str, until: float) -> None:
        if until - self.now() > RECALL_S:
            self.recall(host)

    def _recall_if_slow(self, host: str) -> None:
        """One fetch, the next, may wait for a host that rests for long; the others are returned."""
        wait = self._politeness.waits(host)
        if wait.count > 1 and wait.until - self.now() > RECALL_S and (jobs := self._taken_back(host)):
            self._on_pause(host, wait.until, wait.reason)
            self._on_recall(host, jobs)

    def _taken_back(self, host: str) -> list[FetchJob]:
        fetches: list[_Fetch] = self._politeness.recall(host, lambda fetch: fetch.recallable)
        return [fetch.job for fetch in fetches]

    def _wake_at(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at is not None:
            self._timer = self._loop.call_later(max(at - self.now(), 0.0005), self._pump)

    # -- from its turn to its end -------------------------------------------------------------------------------

    def _begin(self, turn: FetchTurn) -> None:
        self._active += 1
        fetch: _Fetch = turn.item
        fetch.turn = turn
        if self._settings.proxy:
            address = literal(fetch.place.host)
            refusal = self._policy.refusal(address) if address else ""
            self._start(fetch, "") if not refusal else self._end_early(fetch, FetchOutcome.PRIVATE, refusal)
            return
        answer = self._resolver.known(fetch.place.host)
        if answer is not None:
            self._connect(fetch, answer)
        else:
            self._resolver.find(fetch.place.host, lambda found: self._connect(fetch, found))

    def _connect(self, fetch: _Fetch, answer: ResolvedName) -> None:
        if self._closed:
            return
        if not answer.addresses:
            self._end_early(fetch, FetchOutcome.DNS, answer.failure)
            return
        refusal = ""
        allowed = []
        for address in answer.addresses:
            why = self._policy.refusal(address)
            refusal = refusal or why
            if not why:
                allowed.append(address)
        if not allowed:
            self._end_early(fetch, FetchOutcome.PRIVATE, refusal)
            return
        fetch.addresses = tuple(allowed[1:])
        self._start(fetch, allowed[0])

    def _start(self, fetch: _Fetch, address: str) -> None:
        assert fetch.turn is not None, "a fetch that starts has its turn"
        if self._needs_permits and not self._politeness.is_permitted(fetch.turn, address, self.now()):
            self._postpone(fetch, address)
            return
        job, place, requests = fetch.job, fetch.place, self._requests
        cookies = ""
        if self._settings.cookies and len(self._jar):
            cookies = self._jar.value(place.host, place.target, secure=place.secure, now=self.now())
        secrets = requests.secrets(place)
        fields = kept = requests.fields(job, cookies, secrets)
        if secrets and not self._settings.record_credentials:
            kept = requests.fields(job, cookies, secrets, reveal=False)
        self._transfers.start(
            FetchOrder(
                job=job,
                place=place,
                target=requests.target(place),
                fields=fields,
                secret=secrets is not None,
                message=requests.message(place, kept, job),
                address=address,
                done=lambda fetched, status: self._ended(fetch, fetched, status),
            )
        )

    def _postpone(self, fetch: _Fetch, address: str) -> None:
        """The permit ended while the name was looked up, or is for another address: the fetch waits for its turn."""
        turn, now = fetch.turn, self.now()
        assert turn is not None, "a fetch that starts has its turn"
        self._active -= 1
        fetch.turn = None
        self._politeness.ended(turn, TransferEnd(contacted=False), now)
        self._politeness.add(turn.host.name, fetch, turn.delay, now)
        self._politeness.locate(turn.host.name, address, now)
        self._schedule()

    def _ended(self, fetch: _Fetch, fetched: Fetched, status: int) -> None:
        if fetched.outcome == FetchOutcome.CONNECT and fetch.addresses and fetch.attempts < ADDRESSES_MAX:
            fetch.attempts += 1
            first, fetch.addresses = fetch.addresses[0], fetch.addresses[1:]
            self._resolver.prefer(fetch.place.host, first)
            self._start(fetch, first)
            return
        if self._settings.cookies and status and b"\nset-cookie" in fetched.head.lower():
            for line in set_cookies_of(fetched.head):
                self._jar.take(line, fetch.place.host, fetch.place.target, self.now())
        asked = retry_after_of(fetched.head) if status in RATE_LIMITED else None
        self._end(fetch, fetched, TransferEnd(fetched.elapsed, status, asked))

    def _end_early(self, fetch: _Fetch, outcome: str, detail: str) -> None:
        """Ends a fetch that reached no server."""
        fetched = Fetched(fetch.job, outcome, detail, started=time.time())
        self._loop.call_soon(self._end, fetch, fetched, TransferEnd(contacted=False))

    def _end(self, fetch: _Fetch, fetched: Fetched, end: TransferEnd) -> None:
        turn = fetch.turn
        assert turn is not None, "a fetch that ends had its turn"
        self._active -= 1
        paused = self._politeness.ended(turn, end, self.now())
        if paused is not None:
            self._on_pause(turn.host.name, *paused)
            self._recall_if_paused(turn.host.name, paused[0])
        else:
            self._recall_if_slow(turn.host.name)
        self._schedule()
        fetch.done(fetched)
