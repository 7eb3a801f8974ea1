"""Crawls over HTTP: list, show, start and stop; for the API and the pages.

A crawl is a separate process, `holdfast crawl` in its own session: it outlives the worker that started it, and is the
one writer of the archive like any other crawl. Its output goes to `output.txt` beside its log. The job is checked
before the process starts; an error that keeps the process from starting (usually another writer) is raised here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog.access_rules import Verdict
from holdfast.crawl.job.job import CrawlJob, ScopeKind, checked
from holdfast.crawl.paths import OUTPUT
from holdfast.crawl.report.crawls import (
    CrawlStatus,
    crawl_directory,
    crawl_status,
    crawls,
    kept_job,
    log_path,
    request_stop,
)
from holdfast.crawl.report.log import Row, read_log
from holdfast.env.files import translated_errors
from holdfast.errors import Busy, Denied, HoldfastError, NotFound, UnknownName, UsageError, VolumeFull
from holdfast.web.api.endpoint import NAME, Parameter, RequestBody, endpoint, json_response, ref
from holdfast.web.context import WebContext
from holdfast.web.request import body_of
from holdfast.web.server.bounded_scan import in_thread

SEEDS_MAX = 1000
LOG_ROWS = 50
START_WAIT_S = 15.0  # until a started crawl must have reported itself
_LOOK_EVERY_S = 0.05
_OUTPUT_CHARS = 2000
_WISH_BYTES_MAX = 4 << 20
_FIELDS = ("seeds", "name", "collection", "scope", "depth", "limit")
_ERRORS: tuple[type[HoldfastError], ...] = (Busy, UsageError, VolumeFull, Denied)


def listing(site: WebContext) -> list[dict[str, Any]]:
    """All crawls: running ones first, then by last activity."""
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
    """The public facts of a crawl: neither its process nor the headers of its job."""
    values = status.as_dict()
    del values["pid"], values["born"]
    job = _job(site, status.name)
    seeds = [seed for seed in job.seeds if site.access.verdict_of_url(seed) is not Verdict.EXCLUDE]
    about = {"seeds": seeds[:SEEDS_MAX], "scope": job.scope.value, "depth": job.depth, "limit": job.limit}
    return values | about | {"collection": job.collection or site.default_collection, "running": status.running}


def _job(site: WebContext, name: str) -> CrawlJob:
    """The job; an empty one if it cannot be read, so that its crawl is still listed."""
    try:
        return kept_job(site.archive.path, name) or CrawlJob()
    except HoldfastError:
        return CrawlJob()


def _may_be_seen(site: WebContext, row: Row) -> bool:
    return site.access.is_open or site.access.verdict_of_url(str(row.get("url", ""))) is not Verdict.EXCLUDE


# -- job ---------------------------------------------------------------------------------------------------------------


def wish_of(values: Mapping[str, Any]) -> CrawlJob:
    """The job that a form or a JSON object describes, checked. Raises UsageError."""
    for name in values:
        if name not in _FIELDS:
            raise UsageError(f"unknown field {name!r} of a crawl: known are {', '.join(_FIELDS)}")
    seeds = _seeds(values.get("seeds"))
    if len(seeds) > SEEDS_MAX:
        raise UsageError(f"{len(seeds)} seeds are too many: give at most {SEEDS_MAX}")
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
        raise UsageError("seeds must be strings: give a list of URLs")
    return [seed.strip() for seed in seeds if seed.strip()]


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name) or ""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a string")
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
    """Starts a crawl, or resumes the one of that name; returns when it runs. Not for an event loop.

    Raises Busy if another process writes to the archive, and whatever else kept the crawl from starting.
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
    threading.Thread(target=process.wait, name="end of a crawl", daemon=True).start()  # reaps it
    _await_start(path, job.name, process)
    return _values(site, _status_or_new(path, job.name))


def _command(path: Path, job: CrawlJob) -> list[str]:
    """The command line. Seeds go through standard input, so that none can be an option."""
    command = [sys.executable, "-P", "-m", "holdfast", "crawl", "--archive", str(path), "--quiet"]
    command += ["--name", job.name, "--scope", job.scope.value, "--seeds", "-"]
    for option, value in (("--collection", job.collection), ("--depth", job.depth), ("--limit", job.limit)):
        if value not in (None, ""):
            command += [option, str(value)]
    return command


def _await_start(path: Path, name: str, process: subprocess.Popen[bytes]) -> None:
    """Waits until the process reports itself. Raises its error if it ends first."""
    deadline = time.monotonic() + START_WAIT_S
    while time.monotonic() < deadline:
        ended = process.poll() is not None  # polled first: it may report itself just before its end
        status = _status_or_new(path, name)
        if status.pid == process.pid or (status.running and status.shared):  # the nodes of a cluster run it
            return
        if ended:
            raise _error(process.returncode, _last_line(crawl_directory(path, name) / OUTPUT))
        time.sleep(_LOOK_EVERY_S)


def _status_or_new(path: Path, name: str) -> CrawlStatus:
    return next((status for status in crawls(path) if status.name == name), CrawlStatus(name))


def _last_line(path: Path) -> str:
    text = path.read_bytes()[-_OUTPUT_CHARS:].decode("utf-8", "replace").strip()
    return text.rpartition("\n")[2].removeprefix("holdfast: ")


def _error(code: int, line: str) -> HoldfastError:
    kind = next((each for each in _ERRORS if each.exit_code == code), HoldfastError)
    return kind(line or f"the crawl ended with exit code {code} before it began")


def stop(site: WebContext, name: str) -> bool:
    """Asks a crawl to stop; returns at once. False if it does not run. Raises NotFound, Denied."""
    _known(site, name)
    return request_stop(site.archive.path, name)


# -- endpoints ---------------------------------------------------------------------------------------------------------

_CRAWL = Parameter("name", "the name of a crawl", NAME, required=True)
_WISH = RequestBody("what to crawl", {"application/json": ref("CrawlWish")})


@endpoint("GET /api/crawls", "Crawls")
def list_crawls(site: WebContext, request: Request) -> dict[str, Any]:
    """All crawls, running ones first."""
    return {"crawls": listing(site)}


@endpoint("GET /api/crawls/{name}", "Crawl", _CRAWL)
def get_crawl(site: WebContext, request: Request) -> dict[str, Any]:
    """One crawl with its log."""
    return detail(site, request.path_params["name"])


@endpoint("POST /api/crawls", "Crawl", body=_WISH, statuses=(201,))
async def start_crawl(site: WebContext, request: Request) -> Response:
    """Start a crawl, or resume the one of that name. Answered when it runs."""
    body = await body_of(request, min(_WISH_BYTES_MAX, site.settings.body_bytes_max))
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(values, dict) or not values.get("seeds"):
        raise UsageError("the body must be a JSON object with 'seeds', a list of URLs")
    return json_response(await in_thread(start, site, wish_of(values)), 201)


@endpoint("POST /api/crawls/{name}/stop", "Stopping", _CRAWL)
def stop_crawl(site: WebContext, request: Request) -> dict[str, Any]:
    """Ask a crawl to stop. Answered at once."""
    name = request.path_params["name"]
    return {"name": name, "was_running": stop(site, name)}
