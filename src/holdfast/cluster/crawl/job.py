"""The job of a crawl that all nodes share: one key, written by compare-and-swap, and a copy of it on every node."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from holdfast.crawl.job.credentials import bound
from holdfast.crawl.job.file import parse_job, write_job
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.paths import CRAWLS, SHARED
from holdfast.crawl.report.crawls import CrawlState, crawl_directory
from holdfast.env.files import LocalFiles, replace_file
from holdfast.errors import Busy, UsageError

_BYTES_MAX = 768 << 10  # a message of NATS has 1 MiB
_FILES = LocalFiles()


def topic_of(name: str) -> str:
    """The name of a crawl as a part of subjects and keys: a dot separates them, and '=' is in no name."""
    return name.replace(".", "=")


@dataclass(frozen=True, slots=True)
class SharedJob:
    """Value of `crawl.<name>`."""

    name: str
    job: str  # as TOML
    visit: int = 1
    run: int = 1  # counts starts
    state: CrawlState = CrawlState.RUNNING
    reason: str = ""
    roots: tuple[str, ...] = ()  # found by redirects of seeds; they widen the scope
    began: int = 0  # the visit, in seconds since the epoch
    service: int = 0  # number of the one with which the first visit began

    @property
    def key(self) -> str:
        return f"crawl.{topic_of(self.name)}"

    @property
    def is_running(self) -> bool:
        return self.state is CrawlState.RUNNING

    def crawl_job(self) -> CrawlJob:
        return parse_job(self.job, f"the job of the crawl '{self.name}'")

    @classmethod
    def started(cls, job: CrawlJob, before: SharedJob | None, service: int = 1) -> SharedJob:
        """The value after a start, with a service of this number.

        Raises Busy if it runs, UsageError for a job that cannot be shared.
        """
        if bound(job).fetch.credentials:
            raise UsageError(
                "a crawl of a cluster cannot have credentials, since all nodes would store them: crawl into an archive "
                "that is no node, then 'holdfast export' there and 'holdfast import' here"
            )
        text = write_job(job)
        if len(text.encode()) > _BYTES_MAX:
            raise UsageError(
                f"the job of the crawl '{job.name}' has {len(text.encode())} bytes, a cluster allows {_BYTES_MAX}: "
                "divide its seeds among several crawls"
            )
        now = int(time.time())
        if before is None:
            return cls(job.name, text, began=now, service=service)
        if before.is_running:
            raise Busy(f"the crawl '{job.name}' is running; 'holdfast crawl stop {job.name}' ends it")
        begun = replace(before, job=text, run=before.run + 1, state=CrawlState.RUNNING, reason="")
        is_new = before.state is CrawlState.FINISHED
        return replace(begun, visit=before.visit + 1, began=now) if is_new else begun

    def ended(self, state: CrawlState, reason: str) -> SharedJob:
        return replace(self, state=state, reason=reason)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        values = json.loads(data)
        return cls(**values | {"state": CrawlState(values["state"]), "roots": tuple(values["roots"])})


# -- the copy of a node ------------------------------------------------------------------------------------------------


def keep_shared(archive: Path, shared: SharedJob) -> None:
    """Writes the copy, durably: a rebuilt service is filled from it."""
    directory = crawl_directory(archive, shared.name)
    _FILES.make_directory(directory)
    replace_file(_FILES, directory / SHARED, shared.to_json())


def kept_shared(archive: Path) -> dict[str, SharedJob]:
    """The copies that this node has, by name."""
    paths = sorted((archive / CRAWLS).glob(f"*/{SHARED}"))
    return {each.name: each for each in (SharedJob.from_json(path.read_bytes()) for path in paths)}
