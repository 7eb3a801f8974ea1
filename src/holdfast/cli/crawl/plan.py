"""From the arguments of `holdfast crawl` to a plan: the job, the state of its crawl, and the next step."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.crawl.options import changed_options, with_options
from holdfast.cli.terminal import STANDARD_STREAM, counted
from holdfast.env.units import duration_text, rounded_duration, rounded_size
from holdfast.errors import Busy, UsageError

if TYPE_CHECKING:
    from holdfast.crawl.job.job import CrawlJob
    from holdfast.crawl.report.crawls import CrawlStatus
    from holdfast.urls import Url

T = TypeVar("T")
_JOB_FILE = ".toml"
_OTHERS = 0o044  # may read
_SHOWN = 3  # of a list
_HOW = {"limit": "had reached a limit", "failed": "had failed", "running": "is running in another process"}


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """What a command will do."""

    job: CrawlJob
    collection: str  # the job's, or that of the archive's settings
    known: CrawlStatus | None  # of the crawl of that name, if there is one
    notes: tuple[str, ...]  # surprises worth a remark
    assumed: tuple[str, ...] = ()  # seeds that were written without a scheme

    @property
    def is_revisit(self) -> bool:
        """True if it starts another visit."""
        return self.known is not None and self.known.state.value == "finished"

    @property
    def action(self) -> str:
        if self.known is None:
            return "begins"
        if self.is_revisit:
            what = "what is due" if self.job.revisit.only == "due" else "all it knows"
            return f"was finished: visits {what} again (visit {self.known.visit + 1})"
        how = _HOW.get(self.known.state.value, f"was {self.known.state}")
        return f"{how}: continues (visit {max(self.known.visit, 1)})"

    def as_dict(self) -> dict[str, Any]:
        known = self.known.as_dict() if self.known else None
        return {"action": self.action, "notes": self.notes, "collection": self.collection, "known": known}

    def require_idle(self) -> None:
        """Raises Busy if the crawl is running."""
        if self.known is not None and self.known.running:
            name = self.job.name
            raise Busy(f"the crawl '{name}' is running (pid {self.known.pid}); 'holdfast crawl stop {name}' ends it")


def plan_of(
    archive: Path, words: Sequence[str], chosen: dict[str, Any], commands: Sequence[str] = (), *, makes: bool = False
) -> CrawlPlan:
    """Reads job, seeds and crawl state; changes nothing. Raises UsageError, NotFound or InvalidSetting.

    A word that looks like one of `commands` is reported as a misspelt command. With `makes`, there need be no archive.
    """
    from holdfast import config
    from holdfast.crawl.job.credentials import bound
    from holdfast.crawl.job.file import read_seeds
    from holdfast.crawl.job.job import checked, has_scheme, seed_of
    from holdfast.crawl.report import crawls
    from holdfast.env import paths

    file_of_settings = archive / paths.SETTINGS
    settings = config.Settings() if makes and not file_of_settings.exists() else config.load(file_of_settings)
    is_revisit = chosen["revisit"] or chosen["due"]
    if chosen["revisit"] and chosen["due"]:
        raise UsageError("--revisit visits everything again, --due only what is due: give one of them")
    if chosen["seeds"] == chosen["credentials"] == STANDARD_STREAM:
        raise UsageError("standard input can be read once: give --seeds or --credentials a file")
    seeds, file = _sorted_out(words)
    _require_urls(seeds, [status.name for status in crawls.crawls(archive)], commands)
    if chosen["seeds"] is not None:
        seeds += read_lines(chosen["seeds"], read_seeds)
    foundation = _foundation(archive, seeds, file, chosen)
    job = checked(with_options(foundation, chosen))
    kept = _kept(archive, job.name)
    known = crawls.crawl_status(archive, job.name) if kept else None
    if known is None and is_revisit:
        raise UsageError(f"there is no crawl {job.name!r} to visit again; start it without --revisit and --due")
    assumed = {seed: seed_of(seed) for seed in seeds if not has_scheme(seed)}
    notes = [f"'{seed}' is taken for '{url}'" for seed, url in assumed.items()]
    notes += _exposed(chosen["credentials"])
    if file is not None and bound(foundation).fetch.credentials:
        notes += _exposed(file)
    if known is not None and kept is not None:
        job, more = _joined(kept, bound(replace(job, seeds=(*kept.seeds, *job.seeds))))
        notes += more + (_in_full(kept, job, settings.records.collection) if known.visit else [])
        if is_revisit and known.state is not crawls.CrawlState.FINISHED:
            notes.append("its last visit is unfinished and continues first")
    job = bound(job)
    return CrawlPlan(job, job.collection or settings.records.collection, known, tuple(notes), tuple(assumed.values()))


# -- the words ---------------------------------------------------------------------------------------------------------


def _sorted_out(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Seeds, and the job file if there is one among them."""
    files = [word for word in words if word.endswith(_JOB_FILE) and "://" not in word]
    if len(files) > 1:
        raise UsageError(f"'{files[0]}' and '{files[1]}' are two jobs: crawl them one after the other")
    return [word for word in words if word not in files], Path(files[0]) if files else None


def read_lines(path: str, read: Callable[[Iterable[str]], T]) -> T:
    """What `read` makes of the lines of a file; '-' is standard input."""
    with click.open_file(path, encoding="utf-8-sig", errors="replace") as lines:
        return read(lines)


def _exposed(path: str | Path | None) -> list[str]:
    """A note if other users may read a file with credentials."""
    if path is None or not Path(path).is_file() or not Path(path).stat().st_mode & _OTHERS:
        return []
    return [f"'{path}' holds credentials and others may read it: 'chmod 600 {path}'"]


def _require_urls(words: Sequence[str], crawls: Sequence[str], commands: Sequence[str]) -> None:
    """Raises UsageError, with a suggestion, if a word cannot be a seed."""
    from holdfast.crawl.job.job import has_scheme, seed_of

    for place, word in enumerate(words):
        try:
            url = seed_of(word)
        except UsageError as error:
            near = difflib.get_close_matches(word, commands, n=1) if place == 0 and word.isalpha() else []
            if word in crawls:
                meant = f"there is a crawl of that name, '--resume {word}' continues it"
            elif near:
                meant = f"did you mean 'holdfast crawl {near[0]}'?"
            else:
                raise UsageError(str(error)) from None
            raise UsageError(f"'{word}' is not a URL: {meant}") from None
        if not has_scheme(word) and Path(word).is_file():
            raise UsageError(
                f"'{word}' is a file: '--seeds {word}' reads seeds from it; if the site is meant, write '{url}'"
            )


# -- the job -----------------------------------------------------------------------------------------------------------


def _foundation(archive: Path, seeds: list[str], file: Path | None, chosen: dict[str, Any]) -> CrawlJob:
    from holdfast.crawl.job.file import read_job
    from holdfast.crawl.job.job import CrawlJob
    from holdfast.crawl.report import crawls

    name = chosen["resume"] or chosen["name"]
    if chosen["resume"] and (file or (chosen["name"] and chosen["name"] != name)):
        raise UsageError("--resume NAME uses the crawl's own job: give no job file and no other name")
    if file is not None:
        return read_job(file, seeds)
    if chosen["resume"] or (name and not seeds):
        crawls.crawl_status(archive, name)  # or UnknownName, with the names there are
        kept = _kept(archive, name)
        assert kept is not None
        return replace(kept, seeds=(*kept.seeds, *seeds))
    if not seeds:
        raise UsageError("no seeds: give a URL, a job file, '--seeds FILE' or '--resume NAME'")
    return CrawlJob(seeds=tuple(seeds))


def _kept(archive: Path, name: str) -> CrawlJob | None:
    """The job that a crawl has, with its credentials."""
    from holdfast.crawl.job.credentials import bound
    from holdfast.crawl.report import crawls

    job = crawls.kept_job(archive, name)
    if job is None:
        return None
    credentials = (*crawls.kept_credentials(archive, name), *job.fetch.credentials)
    return bound(replace(job, fetch=replace(job.fetch, credentials=credentials)))


def _joined(kept: CrawlJob, job: CrawlJob) -> tuple[CrawlJob, list[str]]:
    """The job with the seeds that the crawl already had, and notes on what changed."""
    notes = []
    if added := [seed for seed in job.seeds if seed not in kept.seeds]:
        notes.append(f"{counted(len(added), 'seed')} more for the crawl '{job.name}'")
    job = replace(job, seeds=tuple(dict.fromkeys((*kept.seeds, *job.seeds))))
    if changes := changed_options(kept, job):
        notes.append(f"changed for the crawl '{job.name}': {', '.join(changes)}")
    return job, notes


def _in_full(kept: CrawlJob, job: CrawlJob, collection: str) -> list[str]:
    """Why known pages are fetched unconditionally, if they are."""
    from holdfast.crawl.crawl import reach_of

    if reach_of(kept) != reach_of(job):
        return ["pages are fetched in full this time, because what they link to may be in scope now"]
    if (kept.collection or collection) != (job.collection or collection):
        return ["pages are fetched in full this time, because that collection does not have them"]
    return []


# -- the plan in words -------------------------------------------------------------------------------------------------


def plan_words(plan: CrawlPlan) -> dict[str, str]:
    job = plan.job
    fetch = job.fetch
    between = f"{duration_text(fetch.delay)} between fetches from a host" if fetch.delay else "none"
    words = {
        "crawl": f"'{job.name}' {plan.action}",
        "seeds": _several(job.seeds),
        "scope": scope_words(job),
        "robots.txt": "is obeyed" if fetch.robots else "is ignored",
        "delay": f"{between}; {fetch.per_host} at a time from a host, {job.workers} in all",
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
    from holdfast.crawl.job.job import ScopeKind
    from holdfast.urls import registered_domain

    urls = [_url(seed) for seed in job.seeds]
    match job.scope:
        case ScopeKind.PAGE:
            where = "the seeds alone"
        case ScopeKind.PREFIX:
            folders = {seed.partition("?")[0].rpartition("/")[0] + "/" for seed in job.seeds}
            where = f"what begins with {_several(sorted(folders), 'or')}"
        case ScopeKind.HOST:
            where = f"all of {_several(sorted({f'{url.host}:{url.port}' if url.port else url.host for url in urls}))}"
        case ScopeKind.DOMAIN:
            where = f"all hosts of {_several(sorted({registered_domain(url.host) for url in urls}))}"
        case _:
            where = "wherever links lead"
    if job.depth is not None:
        where += f", at most {counted(job.depth, 'link')} from a seed"
    where += f"; also what matches {_several(job.include, 'or')}" if job.include else ""
    where += f"; never what matches {_several(job.exclude, 'or')}, but for seeds" if job.exclude else ""
    return f"{where}; plus page requisites from anywhere"


def _limit_words(job: CrawlJob) -> str:
    limits = []
    if job.limit is not None:
        limits.append(counted(job.limit, "URL"))
    if job.time_s is not None:
        limits.append(rounded_duration(job.time_s))
    if job.bytes_max is not None:
        limits.append(f"about {rounded_size(job.bytes_max)} transferred")
    return ", ".join(limits) or "none"


def _lifetime_words(job: CrawlJob) -> str:
    """When pages that are gone are removed; empty if never."""
    revisit = job.revisit
    rules = [
        f"{rounded_duration(seconds) if seconds else 'for ever'} for '{rule}'" for rule, seconds in revisit.lifetimes
    ]
    if revisit.lifetime_s:
        rules.append(rounded_duration(revisit.lifetime_s) + (" for others" if rules else ""))
    return f"{_several(rules)}; then pages that are gone are removed for good" if rules else ""


def _several(items: Sequence[str], word: str = "and") -> str:
    shown = list(items[:_SHOWN])
    if len(items) > _SHOWN:
        shown.append(f"{len(items) - _SHOWN:,} more")
    return f" {word} ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _url(seed: str) -> Url:
    from holdfast.urls import parse

    url = parse(seed)
    assert url is not None, seed
    return url
