"""`Web`: a web of any size from a seed, that knows what a right crawl of it finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from holdfast.crawl.job.job import ScopeKind
from hostile_web import listings
from hostile_web.exchange import LogEntry
from hostile_web.graph import Graph, Thing
from hostile_web.hosts import CLOSED_HOST, Host, allowed
from hostile_web.live import LIVE, LivePage
from hostile_web.server import Server, serving
from hostile_web.site import Sites
from hostile_web.survey import Order, parsed, surveyed, target
from hostile_web.traps import HYDRA, INSIDE, TRAPS_DOMAIN, Trap, traps


@dataclass(frozen=True)
class Web:
    """What the test wants of its web. Equal values are equal webs; nothing here is touched by serving it."""

    seed: int = 1
    hosts: int = 6  # that hold pages
    pages: int = 3000  # beside requisites, redirects and so on
    address_count: int = 3  # that these hosts share
    crawl_delay_s: float = 0.02  # that b.alpha.test asks for
    pauses: int = 3  # that gamma.example asks for, all in all; a second each
    flaky: int = 200  # one page in so many answers 500 once or twice before it is well; 0: none
    latency_s: float = 0.0  # of every answer
    words: int = 40  # of a paragraph, of which pages have some five; many make heads small beside pages
    mute: bool = True  # delta.test gives no validators
    robots_bytes: int = 10 << 20  # of the long robots.txt
    tls: bool = False  # one more host, where the openssl command is installed
    port: int = 0  # as the server found it
    tls_port: int = 0
    changes: tuple[float, ...] = ()  # so far: the share of the pages that changed each time

    # where

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.seed, self.pages, self.hosts, self.port, self.tls_port)

    @property
    def addresses(self) -> tuple[str, ...]:
        shared = [f"127.0.1.{number + 1}" for number in range(self.address_count)]
        return (*shared, self.trap_address, self.private_address)

    @property
    def trap_address(self) -> str:
        return "127.0.1.100"

    @property
    def private_address(self) -> str:
        """Nobody may be led here from outside; `refuse` says so."""
        return "127.0.2.1"

    @property
    def refuse(self) -> tuple[str, ...]:
        """Networks that a crawl is to take for private, while the rest of the loopback passes for public."""
        return ("127.0.2.0/24",)

    @property
    def resolve(self) -> tuple[tuple[str, str], ...]:
        """Addresses of all hosts, as `CrawlJob.fetch.resolve` takes them."""
        names = [host.name for host in (*self.graph.hosts, CLOSED_HOST)]
        own = [(name, self.addresses[number % self.address_count]) for number, name in enumerate(names)]
        private = (INSIDE, self.private_address)
        wild = [(f"*.{domain}", self.trap_address) for domain in (TRAPS_DOMAIN, HYDRA)]
        return (*own, (LIVE, self.trap_address), private, *wild)

    @property
    def seeds(self) -> tuple[str, ...]:
        return (self.graph.page_url(0),)

    @property
    def live(self) -> LivePage:
        """The page that a script builds."""
        return LivePage(self.port)

    @property
    def traps(self) -> tuple[Trap, ...]:
        return traps(self.port)

    # what is right

    def allowed(self, url: str) -> bool:
        """Whether robots.txt lets everybody fetch `url`; hosts that are not of the graph have no rules."""
        parts = parsed(url)
        rules = next((host.rules for host in (*self.graph.hosts, CLOSED_HOST) if host.name == parts.host), ())
        return allowed(rules, target(parts))

    def reachable(
        self,
        *,
        scope: ScopeKind | str = ScopeKind.ANY,
        roots: Iterable[str] = (),
        robots: bool = True,
        sitemap: bool = True,
    ) -> set[str]:
        """Canonical URLs that a right crawl captures, missing pages and redirects among them.

        Not among them: robots.txt and sitemaps, which `robots_urls` and `sitemap_urls` give. `robots`: obeyed or not.
        """
        order = Order(ScopeKind(scope), tuple(roots) or self.seeds, sitemap)
        return surveyed(self.graph, self.allowed if robots else lambda url: True, order).reached

    @cached_property
    def forbidden(self) -> frozenset[str]:
        """What pages within reach link to, and robots.txt forbids."""
        return frozenset(surveyed(self.graph, self.allowed, Order(ScopeKind.ANY, self.seeds)).refused)

    def expected_status(self, url: str) -> int:
        """What `url` answers in the end, when failures that pass have passed."""
        parts = parsed(url)
        thing = self.graph.at(parts.host, target(parts))
        if thing is None or thing.kind == "missing":
            return 404
        if thing.kind in ("page", "print"):
            return self.graph.status_of(thing.number)
        return self.graph.redirect_status(thing) if thing.kind == "redirect" else 200

    @property
    def robots_urls(self) -> frozenset[str]:
        return listings.robots_urls(self.graph)

    @property
    def sitemap_urls(self) -> frozenset[str]:
        return listings.sitemap_urls(self.graph)

    # failures

    def asks_for_pause(self, host: Host, thing: Thing) -> bool:
        return host.pauses and thing.kind == "page" and self.graph.draw(4, "pause", thing) == 0

    def failures(self, thing: Thing) -> int:
        """How often a page answers 500 before it is well."""
        if thing.kind != "page" or not self.flaky or self.graph.draw(self.flaky, "flaky", thing):
            return 0
        return 1 + self.graph.draw(2, "failures", thing)

    # change

    def change(self, share: float = 0.1) -> Web:
        """The web later: in that share of its pages the words are others, links are as they were."""
        return replace(self, changes=(*self.changes, share))

    @cached_property
    def _turns(self) -> tuple[frozenset[int], ...]:
        candidates = [number for number in range(self.pages) if self.graph.status_of(number) == 200]
        return tuple(
            frozenset(Random(f"{self.seed}/{turn}").sample(candidates, round(len(candidates) * share)))
            for turn, share in enumerate(self.changes)
        )

    def edition(self, thing: Thing) -> int:
        return sum(thing.number in turn for turn in self._turns) if thing.kind in ("page", "print") else 0

    @property
    def changed(self) -> frozenset[str]:
        """URLs of what the last change changed; printed forms of pages too."""
        numbers = self._turns[-1] if self._turns else frozenset()
        return frozenset(self.graph.url_of(Thing(kind, number)) for number in numbers for kind in ("page", "print"))

    def new_contents(self, reached: Set[str]) -> int:
        """How many contents the last change brought, of what was reached: a page and its printed form are one."""
        numbers = self._turns[-1] if self._turns else frozenset()
        pairs = ({self.graph.url_of(Thing(kind, number)) for kind in ("page", "print")} for number in numbers)
        return sum(not reached.isdisjoint(pair) for pair in pairs)

    # running

    def built(self, port: int, tls_port: int) -> Sites:
        return Sites(replace(self, port=port, tls_port=tls_port))

    @contextmanager
    def serving(self, *, thread: bool = False) -> Iterator[Served]:
        """Serves it, from a process of its own unless a thread is asked for, for the length of the block."""
        with serving(self, thread=thread) as server:
            yield Served(server, replace(self, port=server.port, tls_port=server.tls_port))


class Served:
    """A web that is being served: `web` knows the port, and follows the changes."""

    def __init__(self, server: Server, web: Web) -> None:
        self._server = server
        self.web = web

    @property
    def seeds(self) -> tuple[str, ...]:
        return self.web.seeds

    @property
    def port(self) -> int:
        return self.web.port

    @property
    def resolve(self) -> tuple[tuple[str, str], ...]:
        return self.web.resolve

    def log(self) -> list[LogEntry]:
        """Every request that was answered so far, in the order of arrival."""
        return self._server.log()

    def clear_log(self) -> None:
        self._server.clear_log()

    def change(self, share: float = 0.1) -> frozenset[str]:
        """Changes that share of the pages and returns their URLs."""
        self._server.change(share)
        self.web = self.web.change(share)
        return self.web.changed
