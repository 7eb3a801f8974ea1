"""What makes sense in a job: checked before anything is fetched, whether it came from options or from a file."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

from holdfast.crawl.job.job import CrawlJob
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
_PATHS = ("/", "./", "../", "~", "\\")  # how the names of files begin
_DOTS = re.compile("[.\u3002\uff0e\uff61]")  # all that browsers take for one
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
            raise UsageError(f"seed {text!r} is no URL that can be fetched: {mistake}")
        written = ASSUMED_SCHEME + written
    url = parse(written)
    if url is None or url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"seed {text!r} is no URL that can be fetched: write 'https://example.com/'")
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
        return ""  # the rest is said by who reads it
    if colon and _PORT.fullmatch(port) is None:
        return "only http and https are fetched; write 'https://example.com/'"
    if colon or name.lower() == "localhost" or _DOTS.search(name.strip(".")):
        return ""
    return "write 'https://example.com/'" + (f"; if '{name}' is a host, 'https://{name}/'" if name else "")


def has_scheme(seed: str) -> bool:
    """Whether a seed says how it is to be fetched."""
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
        raise UsageError(f"{key} {pattern!r} is no regular expression: {error}") from None


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
            raise UsageError(f"fetch.refuse {network!r} is no network: {error}") from None


def header_of(text: str) -> tuple[str, str]:
    """Name and value of a header. Raises UsageError."""
    name, colon, value = text.partition(":")
    if not colon or _TOKEN.fullmatch(name) is None or _CONTROL.search(value):
        shown = name.partition(" ")[0]  # the rest may be a secret
        raise UsageError(f"{shown if shown == text else shown + ' ...'!r} is no header: write 'Name: value'")
    if name.lower() in _OURS:
        raise UsageError(f"the header {name!r} is written for each request as it needs it: leave it out")
    return name, value.strip()


def lifetime_of(text: str) -> tuple[str, float]:
    """A regular expression, and the lifetime of the pages whose URLs it is found in. Raises UsageError."""
    pattern, _, duration = text.rpartition("=")
    if not pattern:
        raise UsageError(f"{text!r} is no lifetime of some pages: write 'REGEX=30d'")
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
        raise UsageError(f"{text!r} is no address for a host: write 'example.com=192.0.2.7'")
    return host.lower(), address.strip("[]")
