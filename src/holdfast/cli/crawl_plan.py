"""From the words of a command to a crawl: which job, whether it is known already, and what that means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.crawl_options import changed_options, with_options
from holdfast.cli.output import counted
from holdfast.errors import Busy, UsageError

if TYPE_CHECKING:
    from holdfast.crawl.crawls import CrawlStatus
    from holdfast.crawl.job import CrawlJob

_JOB_FILE = ".toml"
_HOW = {"limit": "had reached a limit", "failed": "had failed", "running": "is running in another process"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command comes to."""

    job: CrawlJob
    collection: str  # the job's, or that of the archive's settings
    known: CrawlStatus | None  # of the crawl of that name, if there is one
    notes: tuple[str, ...]  # what the person may not expect

    @property
    def action(self) -> str:
        """What running it does."""
        from holdfast.crawl.crawls import CrawlState

        if self.known is None:
            return "begins"
        if self.known.state is CrawlState.FINISHED:
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


def plan_of(archive: Path, words: Sequence[str], chosen: dict[str, Any]) -> Plan:
    """Reads what the command names; changes nothing. Raises UsageError, NotFound or InvalidSetting."""
    from holdfast import config
    from holdfast.crawl import crawls
    from holdfast.crawl.job_rules import checked
    from holdfast.storage import layout

    settings = config.load(archive / layout.SETTINGS)
    if chosen["revisit"] and chosen["due"]:
        raise UsageError("--revisit looks at everything again, --due at a part of it: give one of them")
    seeds, file = _sorted_out(words)
    seeds += _listed(chosen["seeds"])
    job = checked(with_options(_foundation(archive, seeds, file, chosen), chosen))
    kept = crawls.kept_job(archive, job.name)
    known = crawls.crawl_status(archive, job.name) if kept else None
    if known is None and (chosen["revisit"] or chosen["due"]):
        raise UsageError(f"there is no crawl {job.name!r} to look at again; begin it without --revisit and --due")
    notes = _assumptions(seeds)
    if known is not None and kept is not None:
        job, more = _joined(kept, job)
        notes += more
        if (chosen["revisit"] or chosen["due"]) and known.state is not crawls.CrawlState.FINISHED:
            notes.append("its last visit did not come to its end: that goes on first")
    return Plan(job, job.collection or settings.records.collection, known, tuple(notes))


def _sorted_out(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Seeds, and the job file if there is one among them."""
    files = [word for word in words if word.endswith(_JOB_FILE) and "://" not in word]
    if len(files) > 1:
        raise UsageError(f"'{files[0]}' and '{files[1]}' are two jobs: crawl them one after the other")
    return [word for word in words if word not in files], Path(files[0]) if files else None


def _listed(path: str | None) -> list[str]:
    """The seeds of a file; '-' is standard input."""
    from holdfast.crawl.job_file import read_seeds

    if path is None:
        return []
    with click.open_file(path, encoding="utf-8", errors="replace") as lines:
        return read_seeds(lines)


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
        kept = crawls.kept_job(archive, name)
        assert kept is not None
        return replace(kept, seeds=(*kept.seeds, *seeds))
    if not seeds:
        raise UsageError("no seeds: give a URL, a job file, '--seeds FILE' or '--resume NAME'")
    return CrawlJob(seeds=tuple(seeds))


def _assumptions(seeds: Sequence[str]) -> list[str]:
    from holdfast.crawl.job_rules import has_scheme, seed_of

    return [f"'{seed}' is taken for '{seed_of(seed)}'" for seed in seeds if not has_scheme(seed)]


def _joined(kept: CrawlJob, job: CrawlJob) -> tuple[CrawlJob, list[str]]:
    """The job with the seeds that the crawl of its name had before, and what is new about it."""
    notes = []
    if added := [seed for seed in job.seeds if seed not in kept.seeds]:
        notes.append(f"{counted(len(added), 'seed')} more for the crawl '{job.name}'")
    job = replace(job, seeds=tuple(dict.fromkeys((*kept.seeds, *job.seeds))))
    if changes := changed_options(kept, job):
        notes.append(f"not as before in the crawl '{job.name}': {', '.join(changes)}")
    return job, notes
