"""Admission: decides which found URLs are queued, by scope, traps and budgets."""

from __future__ import annotations

from holdfast.crawl.frontier import FoundUrl, Frontier, host_of, key_of
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.policy.scope import Scope
from holdfast.crawl.policy.traps import HostBudget, Traps
from holdfast.crawl.processes.messages import FetchKind
from holdfast.formats.html.links.references import Hop

_SITEMAP_HOPS_MAX = 3  # sitemaps that name sitemaps
_SITEMAPS_MAX = 1000  # of a host


class Admission:
    """One thread."""

    def __init__(self, job: CrawlJob, frontier: Frontier, traps: Traps) -> None:
        self._job = job
        self._frontier = frontier
        self._traps = traps
        self._roots = set(frontier.roots())
        self.trapped: list[tuple[str, str]] = []  # URL and reason; taken by who writes the log
        self._scope = Scope(job, sorted(self._roots))

    def found(self, url: str, hop: str, depth: int, hops: int) -> FoundUrl:
        return FoundUrl(key_of(self._traps.seen_form(url)), url, hop, depth, hops)

    def is_root(self, url: str) -> bool:
        return url in self._roots

    def add_root(self, url: str) -> None:
        """A seed, or what a seed redirects to, extends the scope."""
        if url not in self._roots:
            self._roots.add(url)
            self._scope.add_root(url)
            self._frontier.add_root(url)

    def reads_sitemaps(self, origin: str) -> bool:
        return self._job.sitemap and self._scope.touches(origin)

    def refusal(self, found: FoundUrl) -> str:
        """Why it is not queued; empty if it is: then it counts."""
        refusal = self.explain(found)
        if refusal:
            if found.hops and not self.explain(found._replace(hops=0)):  # only the chain that led to it is too long
                self.trapped.append((found.url, refusal))
            return refusal
        trap = self._traps.refusal(found.url) if found.hop != Hop.SEED else ""
        trap = trap or self._over_budget(found)
        if trap:
            self.trapped.append((found.url, trap))
        return trap

    def explain(self, found: FoundUrl) -> str:
        """Why it is out of the scope; empty if it is in it."""
        if found.hop == Hop.SEED:
            return ""
        if found.hops > self._job.fetch.redirects_max:
            return f"more than {self._job.fetch.redirects_max} redirects in a row"
        if found.kind == FetchKind.SITEMAP:
            most = _SITEMAP_HOPS_MAX
            return f"more than {most} sitemaps that name sitemaps in a row" if found.hops > most else ""
        if "@" in found.url.split("/", 3)[2]:
            return "it contains a user name"
        return self._scope.refusal(found.url, found.hop, found.depth, found.hops)

    def _over_budget(self, found: FoundUrl) -> str:
        """Counts a queued URL; a host counts once for its domain."""
        host = host_of(found.url)
        budgets = [*self._traps.budgets(found.url, new_host=not self._frontier.knows_host(host))]
        if found.kind == FetchKind.SITEMAP:
            budgets.append(HostBudget(f"sitemaps {host}", _SITEMAPS_MAX, f"more than {_SITEMAPS_MAX:,} sitemaps"))
        for name, limit, reason in budgets:
            if found.hop != Hop.SEED and self._frontier.counted(name) >= limit:
                return reason
        for name, _, _ in budgets:
            self._frontier.count(name)
        return ""
