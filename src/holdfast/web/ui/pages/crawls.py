"""The crawl pages: running and past crawls, their progress, and a form to start one if permitted.

    GET  /crawls              all of them, and the form
    POST /crawls              starts one
    GET  /crawls/NAME         one: progress, rate and queue over time, errors, the last lines of its log
    POST /crawls/NAME/stop    asks it to stop; what waits is kept

Everything works without scripts: the browser asks for the token (HTTP Basic), and a reload shows progress. With scripts
the page refreshes itself, and the token is kept while the tab is open.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.crawl.job.job import ScopeKind
from holdfast.crawl.report.crawls import progress_path
from holdfast.crawl.report.log import Row
from holdfast.crawl.report.progress import ProgressSample, read_progress
from holdfast.env.units import duration_words
from holdfast.errors import HoldfastError, UsageError
from holdfast.formats.http import media_type
from holdfast.web.api import crawls
from holdfast.web.auth.tokens import error_headers, may_write
from holdfast.web.context import WebContext
from holdfast.web.request import body_of
from holdfast.web.ui.render import as_json, render, wants_page

FORM_BYTES_MAX = 256 << 10
FIELDS_MAX = 20
_FORM = "application/x-www-form-urlencoded"
SCOPES = {
    ScopeKind.PREFIX: "beside and below it",
    ScopeKind.PAGE: "the page alone",
    ScopeKind.HOST: "its whole host",
    ScopeKind.DOMAIN: "all hosts of its domain",
    ScopeKind.ANY: "wherever links lead",
}
_EMPTY = {"seeds": "", "name": "", "scope": ScopeKind.PREFIX.value, "depth": "", "limit": "", "collection": ""}


async def overview(site: WebContext, request: Request) -> Response:
    url = request.query_params.get("url", "")[:8192]
    return await _overview(site, request, given={"seeds": url})


async def one(site: WebContext, request: Request) -> Response:
    crawl = await run_in_threadpool(crawls.detail, site, request.path_params["name"])
    samples = await run_in_threadpool(read_progress, progress_path(site.archive.path, crawl["name"]))
    rows = [line_of(row) for row in crawl["log"]]
    values: dict[str, Any] = {
        "crawl": crawl,
        "rows": rows,
        "about": about(crawl),
        "scope": SCOPES[ScopeKind(crawl["scope"])],
    }
    values |= {"progress": share_done(crawl), "charts": charts(samples, crawl["visit"])}
    return form_page(site, request, "crawl.html", here="/crawls", **values)


async def stop(site: WebContext, request: Request) -> Response:
    may_write(site, request)
    name = request.path_params["name"]
    was_running = await run_in_threadpool(crawls.stop, site, name)
    return _done(site, request, name, {"name": name, "stopping": was_running})


async def start(site: WebContext, request: Request) -> Response:
    """Starts the crawl described by the form; an error shows the form again with a message."""
    may_write(site, request)
    given = await _form(request)
    try:
        job = crawls.wish_of(given)
        crawl = await run_in_threadpool(crawls.start, site, job)
    except HoldfastError as error:
        if not wants_page(request):
            raise
        return await _overview(site, request, given=given, error=error)
    return _done(site, request, job.name, crawl)


async def _overview(
    site: WebContext, request: Request, *, given: dict[str, str], error: HoldfastError | None = None
) -> Response:
    found = await run_in_threadpool(crawls.listing, site)
    values: dict[str, Any] = {
        "crawls": [(crawl, about(crawl)) for crawl in found],
        "given": _EMPTY | given,
        "scopes": SCOPES,
    }
    values |= {"collections": site.collections(), "error": error}
    response = form_page(site, request, "crawls.html", status=error.http_status if error else 200, **values)
    if error is not None:
        response.headers.update(error_headers(error))
    return response


def about(crawl: dict[str, Any]) -> str:
    """How long it has run, when it ended and why."""
    if not crawl["updated"]:
        return "Not started."
    lasted = duration_words(crawl["tally"].get("seconds", 0))
    visit = f"Visit {crawl['visit']}. " if crawl["visit"] > 1 else ""
    if crawl["running"]:
        return f"{visit}Running for {lasted}."
    ended = duration_words(max(0.0, time.time() - crawl["updated"]))
    reason = f": {crawl['reason']}" if crawl["reason"] else ""
    return f"{visit}Ran for {lasted}, ended {ended} ago{reason}."


def share_done(crawl: dict[str, Any]) -> tuple[int, int]:
    """Addresses that are done, and all that are known or, if that is less, that the job permits."""
    tally = crawl["tally"]
    done = int(tally.get("fetched", 0) + tally.get("errors", 0) + tally.get("refused", 0))
    known = done + int(tally.get("queued", 0) + tally.get("in_flight", 0))
    return done, max(done, min(known, crawl["limit"] or known))


class LineChart(NamedTuple):
    """A figure over time: points of a line in a field of `WIDTH` by `HEIGHT`, and what its ends mean."""

    title: str
    points: str
    most: str
    last: str
    lasted: str


WIDTH, HEIGHT = 300, 60
_STEPS = 150  # points of a line
_RATE_S = 5.0  # over which a rate is taken, or a step if that is longer


def charts(samples: Sequence[ProgressSample], visit: int) -> list[LineChart]:
    """Fetched, rate and queue of a visit; none if it was too short to tell."""
    samples = [each for each in samples if each.visit == visit]
    if len(samples) < 3 or samples[-1].seconds <= samples[0].seconds:
        return []
    start, end = samples[0].seconds, samples[-1].seconds
    steps = [start + (end - start) * step / _STEPS for step in range(_STEPS + 1)]
    fetched = _at(steps, samples, [each.fetched for each in samples])
    waiting = _at(steps, samples, [each.queued for each in samples])
    width_s = (end - start) / _STEPS
    window = max(1, round(_RATE_S / width_s))
    rate = [
        (fetched[at] - fetched[max(0, at - window)]) / (width_s * min(at, window)) if at else 0.0
        for at in range(len(steps))
    ]
    lasted = duration_words(end)
    return [
        _chart("Addresses fetched", fetched, lasted, "{:,.0f}"),
        _chart("Addresses a second", rate[1:], lasted, "{:,.1f}"),
        _chart("Addresses waiting", waiting, lasted, "{:,.0f}"),
    ]


def _at(steps: Sequence[float], samples: Sequence[ProgressSample], values: Sequence[int]) -> list[float]:
    """The values at these times, on straight lines between samples."""
    import numpy as np

    return [float(value) for value in np.interp(steps, [each.seconds for each in samples], values)]


def _chart(title: str, values: Sequence[float], lasted: str, form: str) -> LineChart:
    most = max(values)
    places = (
        (WIDTH * at / (len(values) - 1), HEIGHT - (HEIGHT - 2) * value / (most or 1) - 1)
        for at, value in enumerate(values)
    )
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return LineChart(title, points, form.format(most), form.format(values[-1]), lasted)


def line_of(row: Row) -> dict[str, Any]:
    """A row of a crawl's log for the page. It may come from another release, or be edited by hand."""
    said = [row.get("status") or row.get("outcome"), row.get("result") or row.get("event")]
    clock, size = "", row.get("size")
    with suppress(KeyError, TypeError, ValueError, OverflowError, OSError):  # no time, or none that a clock can show
        clock = datetime.fromtimestamp(row["time"], UTC).strftime("%H:%M:%S")
    return {
        "time": clock,
        "what": " ".join(str(each) for each in said if each not in (None, "")),
        "url": str(row.get("url", "")),
        "note": str(row.get("note", "")),
        "size": size if isinstance(size, int) else None,
    }


def form_page(site: WebContext, request: Request, template: str, **values: Any) -> Response:
    """A page with a form that starts or stops a crawl, if anybody may write."""
    response = render(site, request, template, may_write=site.tokens.has_writers, **values)
    # Without a referrer policy, browsers send no Origin with the form, and it would be refused.
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def _done(site: WebContext, request: Request, name: str, values: dict[str, Any]) -> Response:
    """To the crawl's page; for programs, and the page's script, the result as JSON."""
    if wants_page(request):
        return RedirectResponse(f"/crawls/{quote(name)}", 303)
    return as_json(site, values)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form that have something in them. Raises UsageError, TooLarge."""
    if media_type(request.headers.get("content-type")) != _FORM:
        raise UsageError(f"this takes forms of type '{_FORM}'; programs use '/api/crawls'")
    body = await body_of(request, FORM_BYTES_MAX)
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise UsageError(f"the form cannot be read: {error}") from None
    return {name: value.strip() for name, value in pairs if value.strip()}
