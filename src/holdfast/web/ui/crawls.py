"""Crawls, for people: which run and which ran, how they are getting on, and where allowed a form to start one.

    GET  /crawls              all of them, and the form
    POST /crawls              starts one
    GET  /crawls/NAME         one: figures, errors, the last lines of its log
    POST /crawls/NAME/stop    asks it to end in order

Everything works without scripts: the browser asks for the token by itself (HTTP Basic), and a reload shows what is new.
With scripts the page follows by itself, and the token is kept for as long as the tab is open.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.crawl.job.job import ScopeKind
from holdfast.crawl.log import Row
from holdfast.env.units import duration_words
from holdfast.errors import HoldfastError, TooLarge, UsageError
from holdfast.formats.http import media_type
from holdfast.web.auth.tokens import error_headers, may_write
from holdfast.web.context import WebContext
from holdfast.web.operations import crawls
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


def routes(site: WebContext) -> list[Route]:
    async def overview(request: Request) -> Response:
        if request.method == "POST":
            return await _start(site, request)
        site.tokens.require_read(request)
        url = request.query_params.get("url", "")[:8192]
        return await _overview(site, request, given={"seeds": url})

    async def one(request: Request) -> Response:
        site.tokens.require_read(request)
        crawl = await run_in_threadpool(crawls.detail, site, request.path_params["name"])
        rows = [line_of(row) for row in crawl["log"]]
        values = {"crawl": crawl, "rows": rows, "about": about(crawl), "scope": SCOPES[ScopeKind(crawl["scope"])]}
        return _page(site, request, "crawl.html", here="/crawls", **values)

    async def stop(request: Request) -> Response:
        may_write(site, request)
        name = request.path_params["name"]
        was_running = await run_in_threadpool(crawls.stop, site, name)
        return _done(site, request, name, {"name": name, "stopping": was_running})

    return [
        Route("/crawls", overview, methods=["GET", "POST"]),
        Route("/crawls/{name}", one),
        Route("/crawls/{name}/stop", stop, methods=["POST"]),
    ]


async def _start(site: WebContext, request: Request) -> Response:
    """Starts what the form asks for; whoever made a mistake gets the form back with what was wrong."""
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
    status = error.http_status if error is not None else 200
    values = {"crawls": [(crawl, about(crawl)) for crawl in found], "given": _EMPTY | given, "scopes": SCOPES}
    message = str(error) if error is not None else ""
    values |= {"collections": site.collections(), "error": message}
    response = _page(site, request, "crawls.html", status=status, **values)
    if error is not None:
        response.headers.update(error_headers(error))
    return response


def about(crawl: dict[str, Any]) -> str:
    """How long it has run, when it ended and why."""
    if not crawl["updated"]:
        return "Not begun."
    lasted = duration_words(crawl["tally"].get("seconds", 0))
    visit = f"Visit {crawl['visit']}. " if crawl["visit"] > 1 else ""
    if crawl["running"]:
        return f"{visit}Running for {lasted}."
    ended = duration_words(max(0.0, time.time() - crawl["updated"]))
    reason = f": {crawl['reason']}" if crawl["reason"] else ""
    return f"{visit}Ran for {lasted}, ended {ended} ago{reason}."


class LogLine(NamedTuple):
    """A row of a crawl's log, for the eye."""

    time: str
    what: str
    url: str
    note: str
    size: int | None


def line_of(row: Row) -> LogLine:
    """Whatever a log holds: it may have been written by another release, or by hand."""
    told = [row.get("status") or row.get("outcome"), row.get("result") or row.get("event")]
    what = " ".join(str(each) for each in told if each not in (None, ""))
    size, moment = row.get("size"), row.get("time")
    return LogLine(
        _clock(moment) if isinstance(moment, int | float) else "",
        what,
        str(row.get("url", "")),
        str(row.get("note", "")),
        size if isinstance(size, int) else None,
    )


def _clock(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return ""


def _page(site: WebContext, request: Request, template: str, **values: Any) -> Response:
    response = render(site, request, template, may_write=site.tokens.has_writers, **values)
    # Without a referrer, browsers hide the origin of a form, by which is seen that it was sent from here.
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def _done(site: WebContext, request: Request, name: str, values: dict[str, Any]) -> Response:
    """To the crawl's page; for programs, and the page's script, what became of it."""
    if wants_page(request):
        return RedirectResponse(f"/crawls/{quote(name)}", 303)
    return as_json(site, values)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form that have something in them. Raises UsageError, TooLarge."""
    if media_type(request.headers.get("content-type")) != _FORM:
        raise UsageError(f"this takes forms of type '{_FORM}'; programs use '/api/crawls'")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES_MAX:
            raise TooLarge(f"the form is longer than {FORM_BYTES_MAX} bytes")
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise UsageError(f"the form cannot be read: {error}") from None
    return {name: value.strip() for name, value in pairs if value.strip()}
