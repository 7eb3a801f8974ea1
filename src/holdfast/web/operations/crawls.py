"""Crawls, as far as a server has to do with them: which there are, how they are getting on, started and stopped.

A crawl is a process of its own, `holdfast crawl` in a session of its own: it outlives the worker that started it, and
is the one writer of the archive like any other crawl. What it says goes to `output.txt` beside its log. What is asked
for is checked here before a process is started, and whatever keeps that process from its work (another writer, above
all) is told to whoever asked.

Nothing here knows of requests: that the one who asks may do so was checked before (`holdfast.web.auth.tokens`).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.catalog.access_rules import Verdict
from holdfast.crawl.crawls import (
    CrawlStatus,
    crawl_directory,
    crawl_status,
    crawls,
    kept_job,
    log_path,
    request_stop,
)
from holdfast.crawl.job.job import CrawlJob, ScopeKind
from holdfast.crawl.job.validation import checked
from holdfast.crawl.log import Row, read_log
from holdfast.crawl.paths import OUTPUT
from holdfast.env.files import translated_errors
from holdfast.errors import Busy, Denied, HoldfastError, NotFound, UnknownName, UsageError, VolumeFull
from holdfast.web.context import WebContext

SEEDS_MAX = 1000
LOG_ROWS = 50
START_WAIT_S = 15.0  # until a crawl that was started must have said something
_LOOK_EVERY_S = 0.05
_OUTPUT_CHARS = 2000
_FIELDS = ("seeds", "name", "collection", "scope", "depth", "limit")
_ERRORS: tuple[type[HoldfastError], ...] = (Busy, UsageError, VolumeFull, Denied)


# -- what there is -----------------------------------------------------------------------------------------------------


def listing(site: WebContext) -> list[dict[str, Any]]:
    """All crawls, those that run first, then those that did something last."""
    found = sorted(crawls(site.archive.path), key=lambda status: (status.running, status.updated), reverse=True)
    return [_values(site, status) for status in found]


def detail(site: WebContext, name: str, rows: int = LOG_ROWS) -> dict[str, Any]:
    """One crawl with the last rows of its log, the newest first. Raises NotFound."""
    status = _known(site, name)
    last = [row for row in read_log(log_path(site.archive.path, name), last=rows) if _may_be_seen(site, row)]
    return _values(site, status) | {"log": last[::-1]}


def _known(site: WebContext, name: str) -> CrawlStatus:
    try:
        return crawl_status(site.archive.path, name)
    except UnknownName:
        raise NotFound(f"no crawl {name!r} in this archive") from None


def _values(site: WebContext, status: CrawlStatus) -> dict[str, Any]:
    """What may be told of a crawl: neither its process nor what its job has of headers."""
    values = status.as_dict()
    del values["pid"], values["born"]
    job = _job(site, status.name)
    seeds = [seed for seed in job.seeds if site.access.verdict_of_url(seed) is not Verdict.EXCLUDE]
    about = {"seeds": seeds[:SEEDS_MAX], "scope": job.scope.value, "depth": job.depth, "limit": job.limit}
    return values | about | {"collection": job.collection or site.default_collection, "running": status.running}


def _job(site: WebContext, name: str) -> CrawlJob:
    """An empty one where the job cannot be read: its crawl is listed all the same."""
    try:
        return kept_job(site.archive.path, name) or CrawlJob()
    except HoldfastError:
        return CrawlJob()


def _may_be_seen(site: WebContext, row: Row) -> bool:
    return site.access.is_open or site.access.verdict_of_url(str(row.get("url", ""))) is not Verdict.EXCLUDE


# -- what is asked for -------------------------------------------------------------------------------------------------


def wish_of(values: Mapping[str, Any]) -> CrawlJob:
    """The job that a form or a JSON object asks for; checked. Raises UsageError."""
    for name in values:
        if name not in _FIELDS:
            raise UsageError(f"unknown field {name!r} of a crawl: known are {', '.join(_FIELDS)}")
    seeds = _seeds(values.get("seeds"))
    if len(seeds) > SEEDS_MAX:
        raise UsageError(f"{len(seeds)} seeds are too many to be sent at once: give at most {SEEDS_MAX}")
    scope = _text(values, "scope") or ScopeKind.PREFIX.value
    if scope not in list(ScopeKind):
        raise UsageError(f"unknown scope {scope[:40]!r}: one of {', '.join(ScopeKind)}")
    return checked(
        CrawlJob(
            seeds=tuple(seeds),
            name=_text(values, "name"),
            collection=_text(values, "collection"),
            scope=ScopeKind(scope),
            depth=_number(values, "depth"),
            limit=_number(values, "limit"),
        )
    )


def _seeds(value: Any) -> list[str]:
    """A list, or a text with one to a line."""
    if value is None:
        return []
    seeds = value.split("\n") if isinstance(value, str) else value
    if not isinstance(seeds, Sequence) or not all(isinstance(seed, str) for seed in seeds):
        raise UsageError("seeds must be texts: give a list of URLs")
    return [seed.strip() for seed in seeds if seed.strip()]


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name) or ""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text")
    return value.strip()


def _number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 16:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UsageError(f"{name} must be a whole number, found {str(value)[:40]!r}")


# -- starting and stopping ---------------------------------------------------------------------------------------------


def start(site: WebContext, job: CrawlJob) -> dict[str, Any]:
    """Starts a crawl, or goes on with the one of that name; returns when it runs. Not for an event loop.

    Raises Busy if the archive is written to by another process, and whatever else kept the crawl from its work.
    """
    path = site.archive.path.absolute()
    running = next((status for status in crawls(path) if status.running), None)
    if running is not None:
        raise Busy(f"the crawl '{running.name}' is running: stop it, or wait for its end")
    directory = crawl_directory(path, job.name)
    with translated_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / OUTPUT).open("wb") as output:
            process = subprocess.Popen(
                _command(path, job), stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )
    assert process.stdin is not None
    with process.stdin as seeds:
        seeds.write("\n".join(job.seeds).encode())
    threading.Thread(target=process.wait, name="end of a crawl", daemon=True).start()  # or it stays as a zombie
    _await_start(path, job.name, process)
    return _values(site, _status_or_new(path, job.name))


def _command(path: Path, job: CrawlJob) -> list[str]:
    """Seeds go through standard input, so that none can be taken for an option."""
    command = [sys.executable, "-P", "-m", "holdfast", "crawl", "--archive", str(path), "--quiet"]
    command += ["--name", job.name, "--scope", job.scope.value, "--seeds", "-"]
    for option, value in (("--collection", job.collection), ("--depth", job.depth), ("--limit", job.limit)):
        if value not in (None, ""):
            command += [option, str(value)]
    return command


def _await_start(path: Path, name: str, process: subprocess.Popen[bytes]) -> None:
    """Until the process says that it crawls; one that ends before tells why."""
    deadline = time.monotonic() + START_WAIT_S
    while time.monotonic() < deadline:
        ended = process.poll() is not None  # asked first: it may have said something before its end
        if _status_or_new(path, name).pid == process.pid:
            return
        if ended:
            raise _error(process.returncode, _last_words(crawl_directory(path, name) / OUTPUT))
        time.sleep(_LOOK_EVERY_S)


def _status_or_new(path: Path, name: str) -> CrawlStatus:
    return next((status for status in crawls(path) if status.name == name), CrawlStatus(name))


def _last_words(path: Path) -> str:
    text = path.read_bytes()[-_OUTPUT_CHARS:].decode("utf-8", "replace").strip()
    return text.rpartition("\n")[2].removeprefix("holdfast: ")


def _error(code: int, words: str) -> HoldfastError:
    kind = next((each for each in _ERRORS if each.exit_code == code), HoldfastError)
    return kind(words or f"the crawl ended with {code} before it began")


def stop(site: WebContext, name: str) -> bool:
    """Asks a crawl to end in order; returns at once. False if it does not run. Raises NotFound, Denied."""
    _known(site, name)
    return request_stop(site.archive.path, name)
