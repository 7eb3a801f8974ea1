"""The gate: holds URLs until their origin's robots.txt is known, and refuses those it forbids (RFC 9309).

Rules are kept in the frontier for as long as they hold. A robots.txt that is unreachable is retried a few times; then
the whole origin is forbidden until its rules are due again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from holdfast.crawl.frontier import Frontier, host_of
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.policy.robots import Robots, answer
from holdfast.crawl.processes.messages import FetchJob, FetchKind, FetchOutcome, ParsedPage
from holdfast.env.lru import LruCache
from holdfast.formats.html.links.references import Hop

AGENT = "Holdfast"  # the name by which rules address us
_RULES_HELD = 4096
_STALE_MAX_S = 30 * 86400.0  # how long old rules hold while there are no newer ones
REDIRECTS_MAX = 5  # as RFC 9309 says
_TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))


@dataclass(slots=True)
class _Request:
    """A robots.txt that is being fetched."""

    redirects: int = 0
    attempts: int = 0
    waiting: set[str] = field(default_factory=set)  # hosts that wait for it


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """The result of a robots.txt: hosts that need not wait any longer, and sitemaps."""

    hosts: set[str]
    origin: str
    sitemaps: tuple[str, ...] = ()
    reason: str = ""
    delay: float = 0.0  # for the host, from now on
    trouble: str = ""  # why it is unreachable


def origin_of(url: str) -> str:
    """Scheme, host and port of a canonical URL."""
    return f"{url.partition(':')[0]}://{host_of(url)}"


class RobotsGate:
    """One thread."""

    def __init__(self, frontier: Frontier, job: CrawlJob) -> None:
        self._frontier = frontier
        self._obeys = job.fetch.robots
        self._retries = job.fetch.retries
        self._agent = agent_of(job)
        self._delay = job.fetch.delay
        self._delay_max = job.fetch.crawl_delay_max_s
        self._rules: LruCache[str, tuple[float, Robots]] = LruCache(_RULES_HELD)
        self._asked: dict[str, _Request] = {}

    def allows(self, url: str) -> bool | None:
        """None if the rules must be fetched first."""
        if not self._obeys:
            return True
        rules = self._known(origin_of(url))
        return None if rules is None else self._permits(rules, url)

    def _permits(self, rules: Robots, url: str) -> bool:
        return rules.allows(url, self._agent) and (rules.delay(self._agent) or 0.0) <= self._delay_max

    def verdict(self, url: str) -> str:
        """What the last rules say of a URL, even if they are due again before the next fetch."""
        if not self._obeys:
            return "ignored"
        rules = self._last(origin_of(url))
        if rules is None:
            return "not known yet"
        if rules[1].are_unknown:
            return "unreachable"
        return "allowed" if self._permits(rules[1], url) else "forbidden"

    def delay(self, url: str) -> float:
        """The pause after each fetch from the host."""
        rules = self._known(origin_of(url)) if self._obeys else None
        asked_for = rules.delay(self._agent) if rules is not None else None
        return max(self._delay, asked_for or 0.0)

    def is_blind(self, url: str) -> bool:
        """Whether a URL is forbidden only because its rules are unreachable."""
        rules = self._known(origin_of(url))
        return rules is not None and rules.are_unknown

    def refusal(self, url: str) -> str:
        """Why a URL is not allowed, for people."""
        rules = self._known(origin_of(url))
        if rules is None or rules.are_unknown:
            return "robots.txt is unreachable"
        delay = rules.delay(self._agent) or 0.0
        if delay > self._delay_max:
            return f"robots.txt asks for {delay:,.0f} s between two fetches"
        return "robots.txt forbids it"

    def ask(self, url: str, host: str, job_id: int) -> FetchJob | None:
        """The robots.txt to fetch for a URL; None if that is under way. `host` waits for it."""
        origin = origin_of(url)
        asked = self._asked.get(origin)
        if asked is not None:
            asked.waiting.add(host)
            return None
        self._asked[origin] = _Request(waiting={host})
        return self._job(job_id, origin, f"{origin}/robots.txt")

    def _job(self, job_id: int, origin: str, url: str) -> FetchJob:
        return FetchJob(job_id, url, host_of(url), FetchKind.ROBOTS, Hop.PREREQUISITE, via=origin, delay=self._delay)

    def again(self, page: ParsedPage, origin: str, job_id: int) -> FetchJob | None:
        """The next fetch where a response does not decide yet: a redirect, or a retry after a transient failure."""
        asked = self._asked[origin]
        if page.outcome == FetchOutcome.OK and page.location and asked.redirects < REDIRECTS_MAX:
            asked.redirects += 1
            return self._job(job_id, origin, page.location)
        final = (FetchOutcome.OK, FetchOutcome.PRIVATE, FetchOutcome.INVALID)
        failed = page.outcome not in final or _is_cut(page)
        if (failed or page.status in _TRANSIENT) and asked.attempts < self._retries:
            asked.attempts += 1
            return self._job(job_id, origin, f"{origin}/robots.txt")
        return None

    def forget(self, origin: str) -> None:
        """The robots.txt that is being fetched will not come."""
        self._asked.pop(origin, None)

    def attempts(self, origin: str) -> int:
        return self._asked[origin].attempts

    def take(self, page: ParsedPage, origin: str) -> RobotsVerdict:
        """The response that decides."""
        asked = self._asked.pop(origin)
        outcome = FetchOutcome.DROPPED if _is_cut(page) else page.outcome
        read = answer(outcome, page.status, page.body, f"{origin}/robots.txt")
        until = time.time() + read.lifetime_s
        rules, trouble = read.rules, ""
        if rules.are_unknown:
            trouble = page.detail or read.reason
            before = self._frontier.robots(origin)
            if before is not None and before[0] > time.time() - _STALE_MAX_S:  # RFC 9309, 2.3.1.4
                rules = Robots.unpack(before[1])
        self._frontier.set_robots(origin, until, rules.pack())
        self._hold(origin, until, rules)
        trouble = trouble if rules.are_unknown else ""
        return RobotsVerdict(asked.waiting, origin, rules.sitemaps, read.reason, self.delay(f"{origin}/"), trouble)

    def _known(self, origin: str) -> Robots | None:
        last = self._last(origin)
        return last[1] if last is not None and last[0] >= time.time() else None

    def _last(self, origin: str) -> tuple[float, Robots] | None:
        """The rules that were read last, and until when they hold."""
        held = self._rules.get(origin)
        if held is not None:
            return held
        stored = self._frontier.robots(origin)
        return self._hold(origin, stored[0], Robots.unpack(stored[1])) if stored is not None else None

    def _hold(self, origin: str, until: float, rules: Robots) -> tuple[float, Robots]:
        self._rules.put(origin, (until, rules))
        return until, rules


def _is_cut(page: ParsedPage) -> bool:
    """Whether rules may be missing at the end; RFC 9309 permits cutting what is too long."""
    return page.truncated in ("disconnect", "time")


def agent_of(job: CrawlJob) -> str:
    """The name by which rules address us; they take what they need from a whole User-Agent."""
    return job.fetch.user_agent or AGENT
