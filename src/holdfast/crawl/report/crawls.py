"""The crawls of an archive: list, jobs, progress and state; stopping one.

Reading takes no lock. A crawl whose process was killed says 'running' in its status for ever; here it is 'interrupted',
because its process is gone: process id and the time when that process began must both agree.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from holdfast.crawl.job.credentials import bound, read_credentials, without_credentials, write_credentials
from holdfast.crawl.job.file import parse_job, write_job
from holdfast.crawl.job.job import CrawlJob, Credential, crawl_name
from holdfast.crawl.paths import CRAWLS, CREDENTIALS, JOB, LOG, PROGRESS, STATUS, STOP
from holdfast.env.files import LocalFiles, replace_file, replace_private_file, translated_errors
from holdfast.errors import InvalidSetting, UnknownName, UsageError

DAMAGED_STATUS = "status.json cannot be read"
_DEAD = ("Z", "X")  # states of a process that has ended but is still listed
_FILES = LocalFiles()


class CrawlState(StrEnum):
    """The state of a crawl, or how its last run ended."""

    RUNNING = "running"
    FINISHED = "finished"  # nothing was left to fetch
    LIMIT = "limit"  # at a limit of its job; the rest waits
    STOPPED = "stopped"  # on request; the rest waits
    INTERRUPTED = "interrupted"  # its process was killed; the rest waits
    FAILED = "failed"  # by an error of ours: see the reason


@dataclass(frozen=True, slots=True)
class CrawlStatus:
    """The content of `status.json`, corrected where it is outdated."""

    name: str
    state: CrawlState = CrawlState.INTERRUPTED
    visit: int = 0  # the first is 1
    started: float = 0.0  # of the last run; seconds since the epoch
    updated: float = 0.0
    reason: str = ""  # of the end
    pid: int = 0
    born: int = 0  # when the process began, in ticks since the machine did
    tally: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)  # how often for which reason
    shared: bool = False  # by the nodes of a cluster: process and time are those of this node, the tally is of all

    @property
    def running(self) -> bool:
        return self.state is CrawlState.RUNNING

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def parse(cls, name: str, text: bytes) -> Self:
        """A damaged status keeps only the name: the crawl itself does not depend on it."""
        try:
            values = json.loads(text)
            known = {key: values[key] for key in cls.__slots__ if key in values}
            status = cls(**known | {"name": name, "state": CrawlState(values["state"])})
            return status if status._is_sound() else cls(name, reason=DAMAGED_STATUS)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return cls(name, reason=DAMAGED_STATUS)

    def _is_sound(self) -> bool:
        """Whether all values have their types."""
        counts = [self.visit, self.started, self.updated, self.pid, self.born]
        counts += [*self.tally.values(), *self.errors.values()]
        numbers = all(isinstance(count, int | float) and math.isfinite(count) for count in counts)
        return numbers and isinstance(self.reason, str)


# -- where things are --------------------------------------------------------------------------------------------------


def crawl_directory(archive: Path, name: str) -> Path:
    """The directory of a crawl, whether it exists or not."""
    return archive / CRAWLS / crawl_name(name)


def log_path(archive: Path, name: str) -> Path:
    return crawl_directory(archive, name) / LOG


def progress_path(archive: Path, name: str) -> Path:
    return crawl_directory(archive, name) / PROGRESS


def keep_job(archive: Path, job: CrawlJob) -> None:
    """Writes the job of a crawl, durably; its credentials into a file that only its owner may read."""
    directory = crawl_directory(archive, job.name)
    credentials = bound(job).fetch.credentials
    _FILES.make_directory(directory)
    if credentials:
        replace_private_file(directory / CREDENTIALS, write_credentials(credentials).encode())
    replace_file(_FILES, directory / JOB, write_job(without_credentials(job)).encode())
    if not credentials and _FILES.exists(directory / CREDENTIALS):
        _FILES.remove(directory / CREDENTIALS)
        _FILES.sync_directory(directory)


def kept_credentials(archive: Path, name: str) -> tuple[Credential, ...]:
    """The credentials of a crawl. Raises Denied and InvalidSetting."""
    path = crawl_directory(archive, name) / CREDENTIALS
    try:
        return read_credentials((_read(path) or b"").decode("utf-8", "replace").splitlines(), str(path))
    except UsageError as error:
        raise InvalidSetting(f"{error}; correct the file, or delete it and give them again") from None


def kept_job(archive: Path, name: str) -> CrawlJob | None:
    """The job of a crawl without its credentials; None if there is no such crawl.

    Raises InvalidSetting or FormatTooNew.
    """
    path = crawl_directory(archive, name) / JOB
    if path.is_dir():
        raise InvalidSetting(
            f"'{path}' is a folder; remove it, and give the crawl its job again: the captures are safe"
        )
    text = _read(path)
    try:
        return None if text is None else parse_job(text, str(path))
    except InvalidSetting as error:
        raise InvalidSetting(f"{error}; correct the file, or delete it: the captures are safe") from None


# -- what there is -----------------------------------------------------------------------------------------------------


def crawls(archive: Path) -> list[CrawlStatus]:
    """All crawls of the archive in that directory, by name."""
    names = [name for name in _FILES.names(archive / CRAWLS) if (archive / CRAWLS / name / JOB).is_file()]
    return [_status(archive, name) for name in names]


def crawl_status(archive: Path, name: str | None = None) -> CrawlStatus:
    """Of one crawl; without a name, of the one that was last active. Raises UnknownName."""
    found = crawls(archive)
    if name is None and found:
        return max(found, key=lambda status: (status.running, status.updated))
    for status in found:
        if status.name == name:
            return status
    known = f"; known are {', '.join(status.name for status in found)}" if found else ""
    wanted = f"no crawl {name!r}" if name is not None else "no crawl"
    raise UnknownName(f"{wanted} in '{archive}'{known or ': begin one with holdfast crawl URL'}")


def _status(archive: Path, name: str) -> CrawlStatus:
    text = _read(archive / CRAWLS / name / STATUS)
    status = CrawlStatus(name) if text is None else CrawlStatus.parse(name, text)
    if status.running and _birth(status.pid) != status.born:
        again = _read(archive / CRAWLS / name / STATUS)  # it may have ended in order meanwhile
        status = CrawlStatus.parse(name, again or b"")
        if status.running and _birth(status.pid) != status.born:
            return replace(status, state=CrawlState.INTERRUPTED, reason="its process was killed")
    return status


def _read(path: Path) -> bytes | None:
    try:
        with translated_errors(path):
            return path.read_bytes()
    except FileNotFoundError:
        return None


# -- progress -----------------------------------------------------------------------------------------------


def write_status(archive: Path, status: CrawlStatus) -> None:
    """Writes the status of a crawl of this process: atomically, and durably unless it is running.

    Fills in time, process and when that began.
    """
    pid = os.getpid()
    status = replace(status, updated=time.time(), pid=pid, born=_birth(pid))
    text = json.dumps(status.as_dict()).encode() + b"\n"
    path = crawl_directory(archive, status.name) / STATUS
    if not status.running:
        replace_file(_FILES, path, text)
        return
    draft = path.with_name(path.name + ".open")
    with translated_errors(path):
        draft.write_bytes(text)
        draft.replace(path)


def _birth(pid: int) -> int:
    """When the process began; 0 if there is none."""
    if pid <= 0:
        return 0
    try:
        facts = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if facts[0].decode() in _DEAD else int(facts[19])


# -- stop -------------------------------------------------------------------------------------------------------


def request_stop(archive: Path, name: str) -> bool:
    """Asks a crawl to stop; returns at once. False if it is not running. Raises UnknownName, Denied.

    One that the nodes of a cluster share is asked by a file, which this machine's node finds.
    """
    status = crawl_status(archive, name)
    if not status.running:
        return False
    if status.shared:
        path = crawl_directory(archive, name) / STOP
        with translated_errors(path):
            path.touch()
        return True
    try:
        process = os.pidfd_open(status.pid)  # from here on the id cannot be reused
    except ProcessLookupError:
        return False
    try:
        if _birth(status.pid) != status.born:
            return False
        with translated_errors(crawl_directory(archive, name)):
            signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True
