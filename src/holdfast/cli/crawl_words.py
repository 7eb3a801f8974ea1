"""A job in words: what `holdfast crawl` says before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import counted, in_bytes

if TYPE_CHECKING:
    from holdfast.cli.crawl_plan import Plan
    from holdfast.crawl.job import CrawlJob
    from holdfast.urls import Url

_SHOWN = 3  # of a list


def in_time(seconds: float) -> str:
    """A duration for people: '50ms', '0.4s', '12s', '2m 3s', '1h 20m', '3d 4h'."""
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.3g}ms"
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for size, unit, smaller, rest in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            part = whole % size // smaller
            return f"{whole // size:,}{unit} {part}{rest}" if part else f"{whole // size:,}{unit}"
    return f"{whole}s"


def plan_words(plan: Plan) -> dict[str, str]:
    """The plan, a line for each of its parts."""
    job = plan.job
    fetch = job.fetch
    words = {
        "crawl": f"'{job.name}' {plan.action}",
        "seeds": _several(job.seeds),
        "scope": scope_words(job),
        "robots.txt": "is obeyed" if fetch.robots else "is ignored",
        "delay": _delay_words(job),
        "limits": _limit_words(job),
        "sitemaps": "are read" if job.sitemap else "are not read",
        "collection": plan.collection,
    }
    if fetch.robots_tags:
        words["robots tags"] = "are obeyed"
    if fetch.credentials:
        words["credentials"] = _several([f"{each.name} for {each.origin}" for each in fetch.credentials])
    if job.browser.enabled:
        words["browser"] = f"{counted(job.browser.tabs, 'page')} at a time"
        words["browser"] += ", with screenshots" if job.browser.screenshots else ""
    if lifetimes := _lifetime_words(job):
        words["lifetime"] = lifetimes
    if plan.known is not None:
        name, count = ("known", "seen") if plan.is_revisit else ("waiting", "queued")
        words[name] = counted(int(plan.known.tally.get(count, 0)), "URL")
    return words


def scope_words(job: CrawlJob) -> str:
    """How far the crawl goes."""
    from holdfast.crawl.job import ScopeKind

    match job.scope:
        case ScopeKind.PAGE:
            where = "the seeds alone"
        case ScopeKind.PREFIX:
            where = f"what begins with {_several(sorted({_folder(seed) for seed in job.seeds}), 'or')}"
        case ScopeKind.HOST:
            where = f"all of {_several(sorted({_host(seed) for seed in job.seeds}))}"
        case ScopeKind.DOMAIN:
            where = f"all hosts of {_several(sorted({_domain(seed) for seed in job.seeds}))}"
        case _:
            where = "wherever links lead"
    if job.depth is not None:
        where += f", at most {counted(job.depth, 'link')} from a seed"
    where += f"; also what matches {_several(job.include, 'or')}" if job.include else ""
    where += f"; never what matches {_several(job.exclude, 'or')}, but for seeds" if job.exclude else ""
    return f"{where}; and what these pages need from anywhere"


def _delay_words(job: CrawlJob) -> str:
    from holdfast.crawl.quantities import write_duration

    between = f"{write_duration(job.fetch.delay)} between fetches from a host" if job.fetch.delay else "none"
    return f"{between}; {job.fetch.per_host} at a time from a host, {job.workers} in all"


def _limit_words(job: CrawlJob) -> str:
    limits = []
    if job.limit is not None:
        limits.append(counted(job.limit, "URL"))
    if job.time_s is not None:
        limits.append(in_time(job.time_s))
    if job.bytes_max is not None:
        limits.append(f"about {in_bytes(job.bytes_max)} transferred")
    return ", ".join(limits) or "none"


def _lifetime_words(job: CrawlJob) -> str:
    """When pages that are gone are removed; empty if they are not."""
    revisit = job.revisit
    rules = [f"{in_time(seconds) if seconds else 'for ever'} for '{rule}'" for rule, seconds in revisit.lifetimes]
    if revisit.lifetime_s:
        rules.append(in_time(revisit.lifetime_s) + (" for others" if rules else ""))
    return f"{_several(rules)}; then pages that are gone are removed, for good" if rules else ""


def _several(items: Sequence[str], word: str = "and") -> str:
    shown = list(items[:_SHOWN])
    if len(items) > _SHOWN:
        shown.append(f"{len(items) - _SHOWN:,} more")
    return f" {word} ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _folder(seed: str) -> str:
    return seed.partition("?")[0].rpartition("/")[0] + "/"


def _host(seed: str) -> str:
    url = _url(seed)
    return f"{url.host}:{url.port}" if url.port else url.host


def _domain(seed: str) -> str:
    from holdfast.urls import registered_domain

    return registered_domain(_url(seed).host)


def _url(seed: str) -> Url:
    from holdfast.urls import parse

    url = parse(seed)
    assert url is not None, seed
    return url
