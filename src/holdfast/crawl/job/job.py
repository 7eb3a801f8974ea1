"""The job of a crawl: one frozen tree, made from options or a job file, and kept with the crawl.

Defaults are those of a careful visitor of one site. Sizes are bytes, durations seconds. `checked` says whether a job
makes sense, before anything is fetched.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any

from holdfast.env.units import parse_duration
from holdfast.errors import UsageError
from holdfast.model import batch_name
from holdfast.urls import parse

ASSUMED_SCHEME = "https://"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9._-]+|\[[0-9a-f:]+\]")
_PROXIES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
_NAME_CHARS_MAX = 64
_REVISITS = ("all", "due")
_PATHS = ("/", "./", "../", "~", "\\")  # how paths of files begin
_DOTS = re.compile("[.\u3002\uff0e\uff61]")  # all that browsers accept
_PORT = re.compile(r"\d{1,5}")
_OTHER_SCHEMES = frozenset(  # whose URLs could pass for a host and its port, or for a user and a host
    {"about", "blob", "data", "file", "ftp", "http", "https", "javascript", "mailto", "sms", "tel", "urn", "ws", "wss"}
)
_OURS = frozenset({"content-length", "transfer-encoding", "host", "connection"})

_LEAST: dict[str, int] = {  # the others: 0
    "limit": 1,
    "time_s": 1,
    "bytes_max": 1,
    "workers": 1,
    "per_host": 1,
    "per_address": 1,
    "body_bytes_max": 1,
    "head_bytes_max": 1024,
    "memory_bytes_max": 4096,
    "connect_timeout_s": 1,
    "stall_timeout_s": 1,
    "fetch_timeout_s": 1,
    "url_length_max": 16,
    "path_segments_max": 1,
    "segment_repeats_max": 1,
    "query_variants_max": 1,
    "hosts_max": 1,
    "host_urls_max": 1,
    "tabs": 1,
    "page_timeout_s": 1,
    "interval_min_s": 1,
    "interval_max_s": 1,
    "interval_first_s": 1,
}
_MOST: dict[str, int] = {
    "workers": 1024,
    "readers": 64,
    "per_host": 256,
    "per_address": 256,
    "tabs": 64,
    "retries": 100,
}


class ScopeKind(StrEnum):
    """How far from its seeds a crawl goes. Page requisites belong to their page whatever it is."""

    PAGE = "page"  # the seeds alone
    PREFIX = "prefix"  # the folder of a seed and everything below it
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
    """`[fetch]`: how to fetch."""

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
    adaptive: float = 2.0  # a host that took t seconds to respond gets a pause of at least this many times t
    per_host: int = 1  # fetches at a time from one host
    per_address: int = 4  # times the limit of one host: many hosts may share an address
    http2: bool = True
    verify_tls: bool = False  # pages are archived in any case; the record notes whether the certificate was valid
    cookies: bool = True  # kept for the length of the crawl
    resolve: tuple[tuple[str, str], ...] = ()  # host, or '*.domain', and the address to use for it
    private: bool = False  # fetch from private addresses though the seeds are public
    refuse: tuple[str, ...] = ()  # networks that count as private; empty: all that are not global
    # limits
    body_bytes_max: int = 1 << 30  # of one response; longer ones are cut off and marked
    head_bytes_max: int = 256 << 10
    memory_bytes_max: int = 8 << 20  # of one response; longer ones go through a file
    connect_timeout_s: float = 20.0
    stall_timeout_s: float = 30.0  # while less than a byte a second comes
    fetch_timeout_s: float = 1200.0
    retries: int = 3  # of a fetch that failed for a transient reason
    outage_s: float = 1800.0  # how long to wait for a host that stopped responding
    crawl_delay_max_s: float = 3600.0  # a host that asks for a longer delay is not fetched from
    redirects_max: int = 20  # in a row


@dataclass(frozen=True, slots=True)
class TrapSettings:
    """`[traps]`: limits for endless sites."""

    url_length_max: int = 2048
    path_segments_max: int = 32
    segment_repeats_max: int = 3  # the same path segment, or group of segments, in one URL
    query_variants_max: int = 1000  # of one path with different queries
    calendar_years: int = 30  # dates farther from today are taken for an endless calendar
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
    """`[revisit]`: when a page is visited again, and how long one that is gone stays."""

    only: str = "all"  # URLs that another visit fetches: 'all' known ones, or those that are 'due'
    interval_min_s: float = 3600.0
    interval_max_s: float = 90 * 86400.0
    interval_first_s: float = 86400.0  # of a page of which nothing is known yet
    lifetime_s: float = 0.0  # of a page that was not seen again; 0: for ever
    lifetimes: tuple[tuple[str, float], ...] = ()  # regular expression and lifetime; the first that matches wins
    grace_s: float = 86400.0  # after which an unreachable page is tried again


@dataclass(frozen=True, slots=True)
class CrawlJob:
    """The whole job."""

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
    readers: int = 0  # parse workers; 0: one per core
    fetch: FetchSettings = field(default_factory=FetchSettings)
    traps: TrapSettings = field(default_factory=TrapSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    revisit: RevisitSettings = field(default_factory=RevisitSettings)


# -- what makes sense --------------------------------------------------------------------------------------------------


def checked(job: CrawlJob) -> CrawlJob:
    """The job with seeds in canonical form and a name. Raises UsageError; without seeds too."""
    seeds = tuple(dict.fromkeys(map(seed_of, job.seeds)))
    if not seeds:
        raise UsageError("a crawl needs seeds: name at least one URL")
    _check_numbers(job, "")
    for key, patterns in (("include", job.include), ("exclude", job.exclude)):
        for pattern in patterns:
            _check_pattern(key, pattern)
    if job.collection:
        batch_name(job.collection)
    if job.revisit.only not in _REVISITS:
        raise UsageError(f"revisit.only must be one of {', '.join(_REVISITS)}, found {job.revisit.only!r}")
    if job.revisit.interval_min_s > job.revisit.interval_max_s:
        raise UsageError("revisit.interval_min must not be larger than revisit.interval_max")
    for pattern, seconds in job.revisit.lifetimes:
        _check_pattern("revisit.lifetimes", pattern)
        _check_number("lifetime_s", seconds, f"revisit.lifetimes {pattern!r}")
    _check_fetch(job)
    return replace(job, seeds=seeds, name=crawl_name(job.name) if job.name else name_for(seeds[0]))


# -- seeds and names ---------------------------------------------------------------------------------------------------


def seed_of(text: str) -> str:
    """The canonical URL of a seed. One without a scheme gets 'https://'. Raises UsageError."""
    written = text.strip()
    if not _SCHEME.match(written):
        if mistake := _mistake(written):
            raise UsageError(f"seed {text!r} is not a URL that can be fetched: {mistake}")
        written = ASSUMED_SCHEME + written
    url = parse(written)
    if url is None or url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"seed {text!r} is not a URL that can be fetched: write 'https://example.com/'")
    if url.username or url.password:
        shown = url.href.replace(f"{url.username}:{url.password}@", "***@").replace(f"{url.username}@", "***@")
        raise UsageError(f"seed '{shown}' has a user name in it: give it with --credentials")
    return url.href.partition("#")[0]


def _mistake(written: str) -> str:
    """What is wrong with a seed that names no scheme; empty if it begins with a host."""
    authority = re.split(r"[/?#\\]", written, maxsplit=1)[0]
    if written.startswith(_PATHS) or written in (".", ".."):
        return "it is a path; write 'https://example.com/', or '--seeds FILE' for a list of seeds"
    if "://" in written:
        return "write it with its scheme, as 'https://example.com/'"
    name, colon, port = authority.partition(":")
    if colon and name.lower() in _OTHER_SCHEMES:
        return "only http and https are fetched; write 'https://example.com/'"
    if "@" in authority or authority.startswith("["):
        return ""  # the parser of URLs says the rest
    if colon and _PORT.fullmatch(port) is None:
        return "only http and https are fetched; write 'https://example.com/'"
    if colon or name.lower() == "localhost" or _DOTS.search(name.strip(".")):
        return ""
    return "write 'https://example.com/'" + (f"; if '{name}' is a host, 'https://{name}/'" if name else "")


def has_scheme(seed: str) -> bool:
    """Whether a seed has a scheme."""
    return _SCHEME.match(seed.strip()) is not None


def name_for(seed: str) -> str:
    """The name of a crawl that was given none: the host of its first seed, and its port if it is not the usual one."""
    url = parse(seed)
    assert url is not None, seed
    host = url.host.removeprefix("www.") + (f"-{url.port}" if url.port else "")
    return re.sub(r"[^a-z0-9._-]+", "-", host).strip("._-")[:_NAME_CHARS_MAX] or "crawl"


def crawl_name(text: str) -> str:
    """`text` if it can name a crawl; raises UsageError otherwise."""
    try:
        return batch_name(text)
    except UsageError:
        raise UsageError(
            f"bad name {text!r} of a crawl: use 1 to 64 of a-z, 0-9, '.', '-' and '_', starting with a letter or digit"
        ) from None


# -- values ------------------------------------------------------------------------------------------------------------


def _check_numbers(part: Any, prefix: str) -> None:
    for each in fields(part):
        value = getattr(part, each.name)
        if is_dataclass(value):
            _check_numbers(value, f"{each.name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            _check_number(each.name, value, prefix + each.name.removesuffix("_s"))


def _check_number(field: str, value: float, key: str) -> None:
    least = _LEAST.get(field, 0)
    if not math.isfinite(value) or value < least:
        raise UsageError(f"{key} must be at least {least}, found {value}")
    if field in _MOST and value > _MOST[field]:
        raise UsageError(f"{key} must be at most {_MOST[field]}, found {value}")


def _check_pattern(key: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{key} {pattern!r} is not a regular expression: {error}") from None


def _check_fetch(job: CrawlJob) -> None:
    fetch = job.fetch
    for name, value in fetch.headers:
        header_of(f"{name}: {value}")
    for host, address in fetch.resolve:
        resolution_of(f"{host}={address}")
    if _CONTROL.search(fetch.user_agent):
        raise UsageError(f"user agent {fetch.user_agent!r} has control characters in it")
    if fetch.proxy and fetch.proxy.partition("://")[0] not in _PROXIES:
        shown = fetch.proxy.rpartition("@")[2]
        raise UsageError(f"proxy {shown!r} must begin with one of {', '.join(f'{each}://' for each in _PROXIES)}")
    for network in fetch.refuse:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise UsageError(f"fetch.refuse {network!r} is not a network: {error}") from None


def header_of(text: str) -> tuple[str, str]:
    """Name and value of a header. Raises UsageError."""
    name, colon, value = text.partition(":")
    if not colon or _TOKEN.fullmatch(name) is None or _CONTROL.search(value):
        shown = name.partition(" ")[0]  # the rest may be a secret
        raise UsageError(f"{shown if shown == text else shown + ' ...'!r} is not a header: write 'Name: value'")
    if name.lower() in _OURS:
        raise UsageError(f"the header {name!r} is written for each request as it needs it: leave it out")
    return name, value.strip()


def lifetime_of(text: str) -> tuple[str, float]:
    """A regular expression, and the lifetime of the pages whose URLs it is found in. Raises UsageError."""
    pattern, _, duration = text.rpartition("=")
    if not pattern:
        raise UsageError(f"{text!r} is not a lifetime for some pages: write 'REGEX=30d'")
    _check_pattern("lifetime of", pattern)
    return pattern, parse_duration(duration)


def resolution_of(text: str) -> tuple[str, str]:
    """Host, or '*.domain', and the address to use for it. Raises UsageError."""
    host, _, address = text.rpartition("=")
    try:
        ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        address = ""
    if not address or _HOST.fullmatch(host.lower()) is None:
        raise UsageError(f"{text!r} is not an address for a host: write 'example.com=192.0.2.7'")
    return host.lower(), address.strip("[]")
