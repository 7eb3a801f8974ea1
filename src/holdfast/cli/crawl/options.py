"""The options of `holdfast crawl`, and how they change a job."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import duration_option, size_option, together

if TYPE_CHECKING:
    from holdfast.crawl.job.job import CrawlJob

_OBEYED = click.Choice(("obey", "ignore"))
SCOPES = ("page", "prefix", "host", "domain", "any")  # spelled out: help must not import the crawler
_STAT = Path("/proc/self/stat")
_ARGUMENTS_START, _ARGUMENTS_END = 45, 46  # fields of it after the name of the program

_FIELDS = {  # option: part of the job, and field; in the order in which changes are listed
    "name": ("", "name"),
    "collection": ("", "collection"),
    "scope": ("", "scope"),
    "include": ("", "include"),
    "exclude": ("", "exclude"),
    "depth": ("", "depth"),
    "limit": ("", "limit"),
    "time": ("", "time_s"),
    "quota": ("", "bytes_max"),
    "sitemap": ("", "sitemap"),
    "workers": ("", "workers"),
    "robots": ("fetch", "robots"),
    "robots_tags": ("fetch", "robots_tags"),
    "delay": ("fetch", "delay"),
    "per_host": ("fetch", "per_host"),
    "user_agent": ("fetch", "user_agent"),
    "header": ("fetch", "headers"),
    "credentials": ("fetch", "credentials"),
    "proxy": ("fetch", "proxy"),
    "max_bytes": ("fetch", "body_bytes_max"),
    "resolve": ("fetch", "resolve"),
    "private": ("fetch", "private"),
    "browser": ("browser", "enabled"),
    "screenshots": ("browser", "screenshots"),
    "only": ("revisit", "only"),
    "lifetime": ("revisit", "lifetime_s"),
    "lifetimes": ("revisit", "lifetimes"),
}
_NAMES = {"only": "revisit", "lifetimes": "lifetime"}  # of options, where fields have others


job_options = together(
    click.option("--name", metavar="NAME", help="Name of the crawl; by default the host of the first seed."),
    click.option(
        "-c", "--collection", metavar="NAME", help="Collection of the captures; by default as the settings say."
    ),
    click.option(
        "--seeds", metavar="FILE", type=click.Path(allow_dash=True), help="A file with more seeds, one per line."
    ),
    click.option("--scope", type=click.Choice(SCOPES), help="How far from a seed to go; 'prefix' by default."),
    click.option("--include", metavar="REGEX", multiple=True, help="Also fetch URLs that match; may be repeated."),
    click.option(
        "--exclude", metavar="REGEX", multiple=True, help="Never fetch URLs that match, except seeds; may be repeated."
    ),
    click.option("--depth", metavar="N", type=click.IntRange(0), help="At most N links from a seed."),
    click.option("--limit", metavar="N", type=click.IntRange(1), help="At most N URLs."),
    duration_option("--time", help="At most this long: 90s, 15m, 2h, 7d."),
    size_option("--quota", help="Transfer at most about this much: 10G."),
    click.option("--sitemap/--no-sitemap", default=None, help="Whether to read sitemaps; yes by default."),
    click.option("--robots", type=_OBEYED, help="Whether to obey robots.txt; it is by default."),
    click.option(
        "--robots-tags",
        type=_OBEYED,
        help="Whether to obey rel=nofollow, robots meta and X-Robots-Tag; ignored by default.",
    ),
    duration_option("--delay", help="Pause between fetches from a host; 1s by default."),
    click.option(
        "--per-host", metavar="N", type=click.IntRange(1, 256), help="Parallel fetches from a host; 1 by default."
    ),
    click.option(
        "--workers", metavar="N", type=click.IntRange(1, 1024), help="Parallel fetches in all; 64 by default."
    ),
    click.option("--user-agent", metavar="TEXT", help="The User-Agent to send; by default Holdfast's own."),
    click.option(
        "--header",
        metavar="'NAME: VALUE'",
        multiple=True,
        help="Send it with each request; Authorization and Cookie only to the origins of the seeds. May be repeated.",
    ),
    click.option(
        "--credentials",
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="A file with lines 'ORIGIN NAME: VALUE': headers for one origin only, kept out of records.",
    ),
    click.option("--proxy", metavar="URL", help="http://HOST:PORT or socks5h://HOST:PORT."),
    size_option("--max-bytes", help="Truncate longer responses; 1 GiB by default."),
    click.option(
        "--resolve", metavar="HOST=ADDRESS", multiple=True, help="Use this address instead of DNS; may be repeated."
    ),
    click.option("--private", is_flag=True, help="Also fetch from private addresses if the seeds are public."),
    click.option("--browser", is_flag=True, help="Load pages in a real browser."),
    click.option("--screenshots", is_flag=True, help="Load pages in a browser, and keep screenshots."),
    click.option("--revisit", is_flag=True, help="Visit all that the crawl knows again."),
    click.option("--due", is_flag=True, help="Visit only pages that are due, by how often they changed."),
    click.option(
        "--lifetime",
        metavar="[REGEX=]TIME",
        multiple=True,
        help="Remove pages that are gone this long after they were last seen; may be repeated.",
    ),
    click.option("--resume", metavar="NAME", help="Continue this crawl with the job that it has."),
    click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
)


def with_options(job: CrawlJob, chosen: dict[str, Any]) -> CrawlJob:
    """The job with the options of the command line applied. Raises UsageError."""
    parts: dict[str, dict[str, Any]] = {"": {}, "fetch": {}, "browser": {}, "revisit": {}}
    job = _without_outdated(job, chosen)
    for option, value in _values(chosen).items():
        part, field = _FIELDS[option]
        parts[part][field] = value
    own = parts.pop("")
    changed = {name: replace(getattr(job, name), **values) for name, values in parts.items() if values}
    return replace(job, **own, **changed)


def _without_outdated(job: CrawlJob, chosen: dict[str, Any]) -> CrawlJob:
    """The job without credentials that headers or a proxy of the command line replace."""
    from holdfast.crawl.job.credentials import PROXY_FIELD

    given = {text.partition(":")[0].strip().lower() for text in chosen.get("header") or ()}
    if chosen.get("proxy"):
        given.add(PROXY_FIELD.lower())
    kept = tuple(each for each in job.fetch.credentials if each.name.lower() not in given)
    return job if kept == job.fetch.credentials else replace(job, fetch=replace(job.fetch, credentials=kept))


def secret_arguments(chosen: dict[str, Any]) -> list[str]:
    from holdfast.crawl.job.credentials import is_secret

    headers = [text.partition(":") for text in chosen.get("header") or ()]
    secrets = [value.strip() for name, _, value in headers if is_secret(name, value.strip())]
    return [*secrets, (chosen.get("proxy") or "").partition("://")[2].rpartition("@")[0]]


def mask_arguments(secrets: Iterable[str]) -> None:
    """Overwrites these texts in the arguments of this process, which `ps` shows to everybody, with asterisks.

    They can be read until then, while the program starts. Does nothing where the system has no /proc.
    """
    import ctypes

    wanted = [os.fsencode(secret) for secret in secrets if secret]
    with suppress(OSError, IndexError, ValueError):
        facts = _STAT.read_bytes().rpartition(b")")[2].split() if wanted else []
        start, end = int(facts[_ARGUMENTS_START]), int(facts[_ARGUMENTS_END])
        if not 0 < start < end:
            return
        arguments = ctypes.string_at(start, end - start)
        for secret in wanted:
            at = arguments.find(secret)
            while at >= 0:
                ctypes.memset(start + at, ord("*"), len(secret))
                at = arguments.find(secret, at + len(secret))


def _values(chosen: dict[str, Any]) -> dict[str, Any]:
    """The given options as fields of the job."""
    from holdfast.cli.crawl.plan import read_lines
    from holdfast.crawl.job.credentials import read_credentials
    from holdfast.crawl.job.job import ScopeKind, header_of, resolution_of

    given = {name: value for name, value in chosen.items() if value is not None and value is not False and value != ()}
    values = {name: value for name, value in given.items() if name in _FIELDS}
    if chosen.get("sitemap") is False:
        values["sitemap"] = False
    if "scope" in values:
        values["scope"] = ScopeKind(values["scope"])
    for name in ("robots", "robots_tags"):
        if name in values:
            values[name] = values[name] == "obey"
    if "header" in values:
        values["header"] = tuple(map(header_of, values["header"]))
    if "credentials" in values:
        path = values["credentials"]
        values["credentials"] = read_lines(path, lambda lines: read_credentials(lines, path))
    if "resolve" in values:
        values["resolve"] = tuple(map(resolution_of, values["resolve"]))
    if "lifetime" in values:
        values |= _lifetimes(values.pop("lifetime"))
    if chosen.get("screenshots"):
        values["browser"] = True
    if chosen.get("due") or chosen.get("revisit"):
        values["only"] = "due" if chosen.get("due") else "all"
    return values


def _lifetimes(given: tuple[str, ...]) -> dict[str, Any]:
    """The lifetime of all pages, and the rules for some."""
    from holdfast.crawl.job.job import lifetime_of
    from holdfast.env.units import parse_duration

    rules = tuple(lifetime_of(each) for each in given if "=" in each)
    of_all = [parse_duration(each) for each in given if "=" not in each]
    return ({"lifetimes": rules} if rules else {}) | ({"lifetime": of_all[-1]} if of_all else {})


def changed_options(old: CrawlJob, new: CrawlJob) -> list[str]:
    changed = (
        _NAMES.get(option, option.replace("_", "-"))
        for option, (part, field) in _FIELDS.items()
        if _of(old, part, field) != _of(new, part, field)
    )
    return list(dict.fromkeys(changed))


def _of(job: CrawlJob, part: str, field: str) -> object:
    return getattr(getattr(job, part) if part else job, field)
