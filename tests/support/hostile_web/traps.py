"""Hosts that crawlers do not come back from, and how many requests one with limits makes there.

Each trap is a host of its own under trap.test; only the one with subdomains without end is elsewhere, in a domain that
can be registered, because limits count by that. `Trap.requests_max` takes the settings of a crawl and says how many
requests are the most that `Trap.requests` may find in the log; what crawlers ask every host for is not counted. `SANE`
are settings under which every trap is over in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind, TrapSettings
from holdfast.urls import canonical
from hostile_web.broken import BROKEN
from hostile_web.exchange import Answer, LogEntry, Request, plain
from hostile_web.lure import Lure, Place
from hostile_web.mazes import MAZES

TRAPS_DOMAIN = "trap.test"
HYDRA = "hydra.example.net"  # any number of hosts below it
INSIDE = f"inside.{TRAPS_DOMAIN}"  # resolves to the private address

SANE = CrawlJob(
    scope=ScopeKind.ANY,
    fetch=FetchSettings(
        delay=0.0,
        per_host=4,
        body_bytes_max=1 << 20,
        head_bytes_max=64 << 10,
        connect_timeout_s=5.0,
        stall_timeout_s=1.0,
        fetch_timeout_s=4.0,
        retries=1,
        redirects_max=8,
    ),
    traps=TrapSettings(
        path_segments_max=16, query_variants_max=30, calendar_years=2, hosts_max=10, host_urls_max=60, embed_hops_max=5
    ),
)
_GUESSED = ("/robots.txt", "/sitemap.xml", "/favicon.ico")
_LURES = {lure.name: lure for lure in (*MAZES, *BROKEN)}


@dataclass(frozen=True, slots=True)
class Trap:
    """One trap: where it begins, and what a crawl that survives it asks for at most."""

    name: str
    entry: str
    story: str
    host: str  # whose requests count; '*.domain': those of all hosts below
    _lure: Lure

    def requests_max(self, job: CrawlJob) -> int:
        """How long `requests` of such a crawl may be."""
        return self._lure.most(job)

    def requests(self, log: Iterable[LogEntry]) -> list[LogEntry]:
        """Those that fell into this trap; what crawlers ask every host for is not among them."""
        return [entry for entry in log if self.counts(entry.host) and entry.target not in _GUESSED]

    def counts(self, host: str) -> bool:
        """Whether requests to `host` fall into this trap."""
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host


def traps(port: int) -> tuple[Trap, ...]:
    """All of them, at the port where they are served."""
    found = []
    for lure in _LURES.values():
        wild = lure.name == "subdomains"
        host = f"start.{HYDRA}" if wild else f"{lure.name}.{TRAPS_DOMAIN}"
        entry = canonical(f"{lure.scheme}://{host}:{port or 80}{lure.path}")
        found.append(Trap(lure.name, entry, lure.story, f"*.{HYDRA}" if wild else host, lure))
    return tuple(found)


class TrapHosts:
    """Answers for all hosts that are traps, for the private address, and for hosts that do not exist."""

    def __init__(self, port: int, private_address: str) -> None:
        self._port = port
        self._private = private_address
        self._count = 0

    def answer(self, request: Request) -> Answer:
        if request.address == self._private:
            return plain(200, "a secret of the house")
        if request.target in _GUESSED:
            return plain(404, "not here")
        name = "subdomains" if request.host.endswith(f".{HYDRA}") else request.host.removesuffix(f".{TRAPS_DOMAIN}")
        lure = _LURES.get(name)
        if lure is None:
            return plain(404, "no such host")
        self._count += 1
        return lure.answer(request, Place(request.host, self._port, self._private, self._count))
