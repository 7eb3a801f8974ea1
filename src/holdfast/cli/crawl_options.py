"""The options of `holdfast crawl`, and the job that they make of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.options import read_bytes
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.crawl.job.job import CrawlJob

SCOPES = ("page", "prefix", "host", "domain", "any")  # spelled out: help must not import the crawler
F = TypeVar("F", bound=Callable[..., Any])

_FIELDS = {  # option: part of the job, and field; in the order in which changes are told
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


def read_seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    from holdfast.env.units import parse_duration

    if value is None:
        return None
    try:
        return parse_duration(value)
    except UsageError as error:
        raise click.BadParameter(str(error), context, parameter) from None


_OPTIONS = (
    click.option("--name", metavar="NAME", help="Of the crawl; by default the host of the first seed."),
    click.option("-c", "--collection", metavar="NAME", help="Of the captures; as the settings say."),
    click.option("--seeds", metavar="FILE", type=click.Path(allow_dash=True), help="More seeds, one to a line."),
    click.option("--scope", type=click.Choice(SCOPES), help="How far from a seed; by default 'prefix'."),
    click.option("--include", metavar="REGEX", multiple=True, help="Also URLs that match; may be repeated."),
    click.option(
        "--exclude", metavar="REGEX", multiple=True, help="Never URLs that match, but for seeds; may be repeated."
    ),
    click.option("--depth", metavar="N", type=click.IntRange(0), help="At most so many links from a seed."),
    click.option("--limit", metavar="N", type=click.IntRange(1), help="At most so many URLs."),
    click.option("--time", metavar="TIME", callback=read_seconds, help="At most so long: 90s, 15m, 2h, 7d."),
    click.option("--quota", metavar="BYTES", callback=read_bytes, help="At most about so much transferred: 10G."),
    click.option("--sitemap/--no-sitemap", default=None, help="Whether sitemaps are read; by default they are."),
    click.option("--robots", type=click.Choice(["obey", "ignore"]), help="What robots.txt says; obeyed by default."),
    click.option(
        "--robots-tags",
        type=click.Choice(["obey", "ignore"]),
        help="rel=nofollow, robots meta and X-Robots-Tag; ignored by default.",
    ),
    click.option("--delay", metavar="TIME", callback=read_seconds, help="Between fetches from a host; 1s by default."),
    click.option("--per-host", metavar="N", type=click.IntRange(1, 256), help="Fetches at a time from a host; 1."),
    click.option("--workers", metavar="N", type=click.IntRange(1, 1024), help="Fetches at a time in all; 64."),
    click.option("--user-agent", metavar="TEXT", help="What servers are told who asks."),
    click.option(
        "--header",
        metavar="'NAME: VALUE'",
        multiple=True,
        help="Sent with each request; Authorization and Cookie only to the origins of the seeds. May be repeated.",
    ),
    click.option(
        "--credentials",
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="Lines 'ORIGIN NAME: VALUE': headers for one origin only, left out of records.",
    ),
    click.option("--proxy", metavar="URL", help="http://HOST:PORT or socks5h://HOST:PORT."),
    click.option("--max-bytes", metavar="BYTES", callback=read_bytes, help="Cut longer responses off; 1 GiB."),
    click.option("--resolve", metavar="HOST=ADDRESS", multiple=True, help="Instead of asking the DNS."),
    click.option("--private", is_flag=True, help="Follow public sites to private addresses, too."),
    click.option("--browser", is_flag=True, help="Load pages in a real browser."),
    click.option("--screenshots", is_flag=True, help="And keep pictures of them."),
    click.option("--revisit", is_flag=True, help="Look again at all that the crawl knows."),
    click.option("--due", is_flag=True, help="Look again at what is due, by what was learnt of it."),
    click.option(
        "--lifetime",
        metavar="[REGEX=]TIME",
        multiple=True,
        help="Remove pages that are gone so long after they were seen; may be repeated.",
    ),
    click.option("--resume", metavar="NAME", help="Go on with this crawl, by the job it has."),
    click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing."),
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors."),
)


def job_options(function: F) -> F:
    """Puts all of them on a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def with_options(job: CrawlJob, chosen: dict[str, Any]) -> CrawlJob:
    """The job with what was given on the command line, which wins. Raises UsageError."""
    parts: dict[str, dict[str, Any]] = {"": {}, "fetch": {}, "browser": {}, "revisit": {}}
    job = _without_outdated(job, chosen)
    for option, value in _values(chosen).items():
        part, field = _FIELDS[option]
        parts[part][field] = value
    own = parts.pop("")
    changed = {name: replace(getattr(job, name), **values) for name, values in parts.items() if values}
    return replace(job, **own, **changed)


def _without_outdated(job: CrawlJob, chosen: dict[str, Any]) -> CrawlJob:
    """Without the credentials that headers, or a proxy, of the command line take the place of."""
    from holdfast.crawl.job.credentials import PROXY_FIELD

    given = {text.partition(":")[0].strip().lower() for text in chosen.get("header") or ()}
    if chosen.get("proxy"):
        given.add(PROXY_FIELD.lower())
    kept = tuple(each for each in job.fetch.credentials if each.name.lower() not in given)
    return job if kept == job.fetch.credentials else replace(job, fetch=replace(job.fetch, credentials=kept))


def secret_arguments(chosen: dict[str, Any]) -> list[str]:
    """What of the command line others must not read."""
    from holdfast.crawl.job.credentials import is_secret

    headers = [text.partition(":") for text in chosen.get("header") or ()]
    secrets = [value.strip() for name, _, value in headers if is_secret(name, value.strip())]
    return [*secrets, (chosen.get("proxy") or "").partition("://")[2].rpartition("@")[0]]


def _values(chosen: dict[str, Any]) -> dict[str, Any]:
    """What was given, in the job's own terms."""
    from holdfast.cli.crawl_plan import listed_credentials
    from holdfast.crawl.job.job import ScopeKind
    from holdfast.crawl.job.validation import header_of, resolution_of

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
        values["credentials"] = listed_credentials(values["credentials"])
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
    """That of all pages, and those of some."""
    from holdfast.crawl.job.validation import lifetime_of
    from holdfast.env.units import parse_duration

    rules = tuple(lifetime_of(each) for each in given if "=" in each)
    of_all = [parse_duration(each) for each in given if "=" not in each]
    return ({"lifetimes": rules} if rules else {}) | ({"lifetime": of_all[-1]} if of_all else {})


def changed_options(old: CrawlJob, new: CrawlJob) -> list[str]:
    """What is another in the new job, by the names of the options."""
    changed = (
        _NAMES.get(option, option.replace("_", "-"))
        for option, (part, field) in _FIELDS.items()
        if _of(old, part, field) != _of(new, part, field)
    )
    return list(dict.fromkeys(changed))


def _of(job: CrawlJob, part: str, field: str) -> object:
    return getattr(getattr(job, part) if part else job, field)
