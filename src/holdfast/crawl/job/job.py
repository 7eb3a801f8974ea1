"""What a crawl is asked to do: one frozen tree, made from options or from a job file, and kept beside the crawl.

Defaults are those of a careful visitor of one site. Sizes are bytes, durations seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class ScopeKind(StrEnum):
    """How far from its seeds a crawl goes. Page requisites belong to their page whatever it is."""

    PAGE = "page"  # the seeds alone
    PREFIX = "prefix"  # what lies beside and below a seed
    HOST = "host"  # the host of a seed, with or without 'www.'
    DOMAIN = "domain"  # all hosts of a seed's registered domain
    ANY = "any"  # wherever links lead


@dataclass(frozen=True, slots=True)
class Credential:
    """A field that is sent to one origin only, and kept out of records."""

    origin: str  # scheme, host and port: 'https://example.com'
    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """`[fetch]`: how servers are asked."""

    # behaviour
    user_agent: str = ""  # empty: Holdfast's own, with its version
    headers: tuple[tuple[str, str], ...] = ()  # sent with every request, but for secrets: see `crawl.credentials`
    credentials: tuple[Credential, ...] = ()
    record_credentials: bool = False  # keep them in the records of requests
    proxy: str = ""  # as curl takes it: 'http://host:port', 'socks5h://host:port'
    robots: bool = True  # obey robots.txt
    robots_tags: bool = False  # obey what pages say themselves: `nofollow` and `noarchive`
    delay: float = 1.0  # between the end of a fetch from a host and the next; 0: none, and no adaptive delay either
    delay_max: float = 60.0  # beyond this the adaptive delay and back-off do not grow; Crawl-delay and Retry-After may
    adaptive: float = 2.0  # a host that took t seconds to answer rests at least this many times t
    per_host: int = 1  # fetches at a time from one host
    per_address: int = 4  # times what is allowed for one host: many hosts may live at one address
    http2: bool = True
    verify_tls: bool = False  # an archive keeps what is there; whether the certificate was good is noted
    cookies: bool = True  # kept for the length of the crawl
    resolve: tuple[tuple[str, str], ...] = ()  # host, or '*.domain', and the address to use for it
    private: bool = False  # fetch from private addresses though the seeds are public
    refuse: tuple[str, ...] = ()  # networks that count as private; empty: all that are not global
    # limits
    body_bytes_max: int = 1 << 30  # of one response; what is longer is cut off and marked
    head_bytes_max: int = 256 << 10
    memory_bytes_max: int = 8 << 20  # of one response; what is longer goes through a file
    connect_timeout_s: float = 20.0
    stall_timeout_s: float = 30.0  # without a byte a second on average
    fetch_timeout_s: float = 1200.0
    retries: int = 3  # of a fetch that failed for a reason that may pass
    outage_s: float = 1800.0  # that a host which has answered is waited for when it does no longer
    crawl_delay_max_s: float = 3600.0  # a host that asks for more than this between two fetches is left alone
    redirects_max: int = 20  # one after the other


@dataclass(frozen=True, slots=True)
class TrapSettings:
    """`[traps]`: where a site without end is cut off."""

    url_length_max: int = 2048
    path_segments_max: int = 32
    segment_repeats_max: int = 3  # the same path segment, or group of segments, in one URL
    query_variants_max: int = 1000  # of one path with different queries
    calendar_years: int = 30  # years in a URL's date that lie farther from today are taken for a calendar without end
    hosts_max: int = 500  # of one registered domain
    host_urls_max: int = 1_000_000  # of one host
    embed_hops_max: int = 5  # requisites of requisites


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    """`[browser]`: pages loaded by a real browser."""

    enabled: bool = False
    screenshots: bool = False
    tabs: int = 2  # pages at a time
    page_timeout_s: float = 60.0
    idle_s: float = 1.0  # without a request, after which a page counts as loaded
    scroll_s: float = 10.0  # at most, to load what loads late
    executable: str = ""  # empty: looked for


@dataclass(frozen=True, slots=True)
class RevisitSettings:
    """`[revisit]`: when a page is looked at again, and how long one that is gone stays."""

    only: str = "all"  # when a finished crawl is run again: 'all' that is known, or what is 'due'
    interval_min_s: float = 3600.0
    interval_max_s: float = 90 * 86400.0
    interval_first_s: float = 86400.0  # of a page of which nothing is known yet
    lifetime_s: float = 0.0  # allowed lifetime of a page that was not seen again; 0: for ever
    lifetimes: tuple[tuple[str, float], ...] = ()  # regular expression and lifetime; the first that matches wins
    grace_s: float = 86400.0  # after which a page is looked for again that could not be reached


@dataclass(frozen=True, slots=True)
class CrawlJob:
    """The whole of it."""

    seeds: tuple[str, ...] = ()
    name: str = ""
    collection: str = ""  # empty: as the archive's settings say
    scope: ScopeKind = ScopeKind.PREFIX
    depth: int | None = None  # links from a seed; None: any
    limit: int | None = None  # URLs fetched
    time_s: float | None = None
    bytes_max: int | None = None  # transferred, all in all
    include: tuple[str, ...] = ()  # regular expressions: widen the scope
    exclude: tuple[str, ...] = ()  # win over everything else
    sitemap: bool = True
    workers: int = 64  # fetches at a time, all in all
    readers: int = 0  # processes that read what was fetched; 0: one for each core
    fetch: FetchSettings = field(default_factory=FetchSettings)
    traps: TrapSettings = field(default_factory=TrapSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    revisit: RevisitSettings = field(default_factory=RevisitSettings)
