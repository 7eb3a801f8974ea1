"""From the words of a command to a crawl: which job, whether it is known already, and what that means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.crawl_options import changed_options, with_options
from holdfast.cli.crawl_seeds import assumed, exposed, listed, require_urls, sorted_out
from holdfast.cli.output import counted
from holdfast.errors import Busy, UsageError

if TYPE_CHECKING:
    from holdfast.crawl.crawls import CrawlStatus
    from holdfast.crawl.job import CrawlJob

_HOW = {"limit": "had reached a limit", "failed": "had failed", "running": "is running in another process"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command comes to."""

    job: CrawlJob
    collection: str  # the job's, or that of the archive's settings
    known: CrawlStatus | None  # of the crawl of that name, if there is one
    notes: tuple[str, ...]  # what the person may not expect
    assumed: tuple[str, ...] = ()  # seeds that were written without a scheme

    @property
    def is_revisit(self) -> bool:
        """Whether it begins another visit."""
        return self.known is not None and self.known.state.value == "finished"

    @property
    def action(self) -> str:
        """What running it does."""
        if self.known is None:
            return "begins"
        if self.is_revisit:
            what = "what is due" if self.job.revisit.only == "due" else "all it knows"
            return f"was finished: looks again at {what} (visit {self.known.visit + 1})"
        how = _HOW.get(self.known.state.value, f"was {self.known.state}")
        return f"{how}: goes on (visit {max(self.known.visit, 1)})"

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        known = self.known.as_dict() if self.known else None
        return {"action": self.action, "notes": self.notes, "collection": self.collection, "known": known}

    def require_idle(self) -> None:
        """Raises Busy if the crawl is running."""
        if self.known is not None and self.known.running:
            name = self.job.name
            raise Busy(f"the crawl '{name}' is running (pid {self.known.pid}); 'holdfast crawl stop {name}' ends it")


def plan_of(archive: Path, words: Sequence[str], chosen: dict[str, Any], commands: Sequence[str] = ()) -> Plan:
    """Reads what the command names; changes nothing. Raises UsageError, NotFound or InvalidSetting.

    Words that look like one of `commands` are taken for slips of the pen.
    """
    from holdfast import config
    from holdfast.crawl import crawls
    from holdfast.crawl.credentials import bound
    from holdfast.crawl.job_rules import checked
    from holdfast.storage import layout

    settings = config.load(archive / layout.SETTINGS)
    if chosen["revisit"] and chosen["due"]:
        raise UsageError("--revisit looks at everything again, --due at a part of it: give one of them")
    if chosen["seeds"] == chosen["credentials"] == "-":
        raise UsageError("standard input can be read once: give --seeds or --credentials a file")
    seeds, file = sorted_out(words)
    require_urls(seeds, [status.name for status in crawls.crawls(archive)], commands)
    seeds += listed(chosen["seeds"])
    foundation = _foundation(archive, seeds, file, chosen)
    job = checked(with_options(foundation, chosen))
    kept = _kept(archive, job.name)
    known = crawls.crawl_status(archive, job.name) if kept else None
    if known is None and (chosen["revisit"] or chosen["due"]):
        raise UsageError(f"there is no crawl {job.name!r} to look at again; begin it without --revisit and --due")
    bare = assumed(seeds)
    notes = [f"'{seed}' is taken for '{url}'" for seed, url in bare.items()]
    notes += exposed(chosen["credentials"])
    if file is not None and bound(foundation).fetch.credentials:
        notes += exposed(file)
    if known is not None and kept is not None:
        job, more = _joined(kept, bound(replace(job, seeds=(*kept.seeds, *job.seeds))))
        notes += more + (_in_full(kept, job, settings.records.collection) if known.visit else [])
        if (chosen["revisit"] or chosen["due"]) and known.state is not crawls.CrawlState.FINISHED:
            notes.append("its last visit did not come to its end: that goes on first")
    job = bound(job)
    return Plan(job, job.collection or settings.records.collection, known, tuple(notes), tuple(bare.values()))


def _foundation(archive: Path, seeds: list[str], file: Path | None, chosen: dict[str, Any]) -> CrawlJob:
    """The job that options are applied to."""
    from holdfast.crawl import crawls
    from holdfast.crawl.job import CrawlJob
    from holdfast.crawl.job_file import read_job

    name = chosen["resume"] or chosen["name"]
    if chosen["resume"] and (file or (chosen["name"] and chosen["name"] != name)):
        raise UsageError("--resume NAME goes on with the job that the crawl has: give no job file and no other name")
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
    from holdfast.crawl import crawls
    from holdfast.crawl.credentials import bound

    job = crawls.kept_job(archive, name)
    if job is None:
        return None
    credentials = (*crawls.kept_credentials(archive, name), *job.fetch.credentials)
    return bound(replace(job, fetch=replace(job.fetch, credentials=credentials)))


def _joined(kept: CrawlJob, job: CrawlJob) -> tuple[CrawlJob, list[str]]:
    """The job with the seeds that the crawl of its name had before, and what is new about it."""
    notes = []
    if added := [seed for seed in job.seeds if seed not in kept.seeds]:
        notes.append(f"{counted(len(added), 'seed')} more for the crawl '{job.name}'")
    job = replace(job, seeds=tuple(dict.fromkeys((*kept.seeds, *job.seeds))))
    if changes := changed_options(kept, job):
        notes.append(f"not as before in the crawl '{job.name}': {', '.join(changes)}")
    return job, notes


def _in_full(kept: CrawlJob, job: CrawlJob, collection: str) -> list[str]:
    """Why pages that are known are not asked for on condition, if they are not."""
    from holdfast.crawl.conductor import reach_of

    if reach_of(kept) != reach_of(job):
        return ["pages are fetched in full this time, because what they link to may be in scope now"]
    if (kept.collection or collection) != (job.collection or collection):
        return ["pages are fetched in full this time, because that collection has not got them"]
    return []
