"""Captures for programs: by URL and time, by their words, one by one with their headers, and their payloads."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from holdfast.catalog import parse_query
from holdfast.catalog.access_rules import Verdict
from holdfast.catalog.query.query import MATCHES, SORTS
from holdfast.errors import Blocked, CaptureNotFound, Denied, MalformedKey
from holdfast.model import Capture, ContentKey, Coverage, RecordId
from holdfast.query.results import FACETS, GROUPS, OFFSET_MAX, Hit, QueryOptions
from holdfast.query.results import LIMIT as QUERY_LIMIT
from holdfast.query.results import SORTS as QUERY_SORTS
from holdfast.records.records import picked_page
from holdfast.urls import page_id, page_id_text, parse_page_id
from holdfast.web.answers import partial_headers
from holdfast.web.api.endpoint import (
    COLLECTION,
    HEADERS,
    PICK,
    TEXT,
    TIMESTAMP,
    Parameter,
    choice,
    collection_in,
    endpoint,
    flag,
    json_response,
    number,
    time,
    url,
)
from holdfast.web.context import WebContext
from holdfast.web.replay.find import Finder
from holdfast.web.request import ALL, pick_of
from holdfast.web.server.bounded_scan import in_thread
from holdfast.web.ui.display import path_to

_LIMIT, _LIMIT_MAX = 100, 10_000
_HITS_MAX = 1000
_BYTES = {**HEADERS, "Content-Disposition": "attachment"}
_RECORD = Parameter(
    "record",
    "the id of a record, such as 202611-0000000001",
    {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]*-[0-9]+$", "maxLength": 80},
    required=True,
)
_PAGE_ID = Parameter(
    "page_id",
    "WebBase's id of a page: 16 hexadecimal digits",
    {"type": "string", "pattern": "^[0-9a-fA-F]{16}$"},
    required=True,
)


# -- values ----------------------------------------------------------------------------------------------------------


def values_of(site: WebContext, capture: Capture) -> dict[str, Any]:
    """A capture in JSON; unknown values are null."""
    extra = {} if capture.extra == "-" else json.loads(capture.extra)
    return {
        "record": str(capture.record),
        "url": _shown(capture.url),
        "urlkey": _shown(capture.urlkey),
        "page_id": page_id_text(page_id(capture.url)),
        "timestamp": capture.timestamp,
        "modified": _known(capture.modified),
        "mime": _known(capture.mime),
        "status": int(capture.status) if capture.status.isascii() and capture.status.isdigit() else None,
        "digest": _known(capture.digest),
        "size": capture.size,
        "type": _shown(capture.type),
        "collection": capture.collection,
        "contents": [] if capture.contents == "-" else capture.contents.split(" "),
        "filename": _known(capture.filename),
        "offset": capture.offset,
        "length": capture.length,
        "method": extra.get("method"),
        "redirect": _known(str(extra["redirect"])) if "redirect" in extra else None,
        **_addresses(site, capture),
    }


def _addresses(site: WebContext, capture: Capture | Hit) -> dict[str, str]:
    place = capture.collection, capture.timestamp, capture.url
    return {"page": site.controls_origin + path_to(*place), "raw": site.controls_origin + path_to(*place, "id_")}


def _known(text: str) -> str | None:
    return None if text == "-" else _shown(text)


def _shown(text: str) -> str:
    """JSON cannot have invalid UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# -- searches --------------------------------------------------------------------------------------------------------


@endpoint(
    "GET /api/captures",
    "Captures",
    url("the URL, or with a star a prefix (example.com/a*) or a domain (*.example.com)"),
    choice("matchType", "what else matches", MATCHES),
    Parameter("toUrl", "the end of a range", TEXT),
    time("from", "the first time"),
    time("to", "the last time"),
    number("limit", f"how many; {_LIMIT} by default", 1, _LIMIT_MAX),
    number("offset", "how many to skip", 0, 10**12),
    choice("sort", "in which order", SORTS),
    time("closest", "the nearest to this time first"),
    Parameter("filter", "[!][=|~]field:expression", TEXT, repeats=True),
    Parameter("collapse", "field[:n], of which only the first of each run is returned", TEXT, repeats=True),
    Parameter("resumeKey", "as the last response gave it: what comes after", TEXT),
    flag("resolveRevisits", "give the type of what a revisit repeats, and its status unless it has its own"),
    COLLECTION,
)
async def search_captures(site: WebContext, request: Request) -> Response:
    """Captures by URL and time, in the grammar of the CDX server."""
    params = [(name, value) for name, value in request.query_params.multi_items() if name != "collection"]
    watch = site.watch(site.permits)

    def found() -> Response:
        collection = site.known_collection(request.query_params.get("collection") or site.default_collection)
        query = parse_query(params, collection)
        query = replace(query, limit=_LIMIT if query.limit is None else query.limit)
        rows = site.answers.search(query, watch)
        captures = [values_of(site, row.capture) for row in rows]
        return _covered({"captures": captures, "resume_key": rows.resume_key}, rows.coverage)

    try:
        return await in_thread(found)
    finally:
        watch.stop()


@endpoint(
    "GET /api/search",
    "Found",
    Parameter("q", "the query, in the query language; everything if it is empty", TEXT),
    choice("sort", "in which order; by default as fits the query", QUERY_SORTS),
    number("limit", f"how many hits; {QUERY_LIMIT} by default", 0, _HITS_MAX),
    number("offset", "how many to skip", 0, OFFSET_MAX),
    choice("group", "what is one hit: a page by default, pages with nearly the same text, or every capture", GROUPS),
    flag("latest", "of the matching captures of a URL only the newest"),
    flag("snippets", "give a piece of each hit's text around the words; true by default"),
    choice("facet", "a field by which all matching captures are counted", FACETS, repeats=True),
    flag("timeline", "count all matching captures by month"),
    COLLECTION,
)
def search_text(site: WebContext, request: Request) -> Response:
    """Pages by their words, metadata and links, in the query language; of all collections by default."""
    given = request.query_params
    options = QueryOptions(
        sort=given.get("sort", ""),
        limit=int(given.get("limit", QUERY_LIMIT)),
        offset=int(given.get("offset", 0)),
        group=given.get("group", GROUPS[0]),
        latest=given.get("latest") == "true",
        snippets=given.get("snippets") != "false",
        facets=tuple(dict.fromkeys(given.getlist("facet"))),
        timeline=given.get("timeline") == "true",
        collection=site.known_collection(given.get("collection") or ALL),
    )
    found = site.query(given.get("q", ""), options)
    names = ("query", "sort", "group", "total", "captures", "is_exact", "offset", "pending")
    values = {name: getattr(found, name) for name in names} | {
        "hits": [_hit(site, each) for each in found.hits],
        "facets": {facet.name: [asdict(value) for value in facet.values] for facet in found.facets},
        "timeline": [asdict(each) for each in found.timeline],
    }
    return _covered(values, found.coverage)


def _covered(values: dict[str, Any], coverage: Coverage | None) -> Response:
    """Adds the coverage to a partial answer of a cluster."""
    headers = partial_headers(coverage)
    return json_response(values | {"partial": str(coverage)} if headers else values, headers=headers)


def _hit(site: WebContext, hit: Hit) -> dict[str, Any]:
    return asdict(hit) | {
        "record": str(hit.record),
        "title": hit.title or None,
        "mime": _known(hit.mime),
        "status": hit.status or None,
        "lang": _known(hit.lang),
        "snippet": hit.snippet._asdict() if hit.snippet else None,
        **_addresses(site, hit),
    }


@endpoint("GET /api/nearest", "Capture", url(), TIMESTAMP, PICK, COLLECTION)
def get_nearest(site: WebContext, request: Request) -> dict[str, Any]:
    """The capture that replay shows for a URL and a time; without one, the newest."""
    given, collection = request.query_params, collection_in(site, request)
    return values_of(site, Finder(site).find(collection, given["url"], given.get("timestamp", ""), pick_of(request)))


@endpoint("GET /api/pages/{page_id}", "Capture", _PAGE_ID, TIMESTAMP, PICK, COLLECTION)
def get_page(site: WebContext, request: Request) -> dict[str, Any]:
    """The capture of a page by WebBase's page id, for a time; without one, the newest."""
    number = parse_page_id(request.path_params["page_id"])
    permitted = filter(site.access.permits, site.archive.catalog.of_page_id(number, collection_in(site, request)))
    known = list(permitted)
    shown = [each for each in known if site.access.verdict(each) is Verdict.ALLOW]
    capture = picked_page(shown, request.query_params.get("timestamp", ""), pick_of(request) or site.pick)
    if capture is None and known:
        raise Blocked(f"the captures with the page id {page_id_text(number)} are blocked by a rule of this archive")
    if capture is None:
        raise CaptureNotFound(f"no capture has the page id {page_id_text(number)}")
    return values_of(site, capture)


# -- one capture -----------------------------------------------------------------------------------------------------


@endpoint("GET /api/captures/{record}", "CaptureDetail", _RECORD)
def get_capture(site: WebContext, request: Request) -> dict[str, Any]:
    """One capture with all its headers."""
    capture = _permitted(site, request)
    stored = site.archive.records.of(capture)
    head = stored.http_head
    original = site.archive.catalog.resolve(capture) if capture.type == "revisit" else None
    return {
        **values_of(site, capture),
        "status_line": f"HTTP/{head.version} {head.status} {_shown(head.reason)}".rstrip() if head else None,
        "headers": [[_shown(name), _shown(value)] for name, value in head.headers] if head else [],
        "record_headers": [[_shown(name), _shown(value)] for name, value in stored.headers],
        "original": values_of(site, original) if original and site.access.permits(original) else None,
    }


def _permitted(site: WebContext, request: Request) -> Capture:
    """The capture of the record that the path names. Raises CaptureNotFound, Blocked."""
    name = request.path_params["record"]
    try:
        capture = site.archive.catalog.capture_of(RecordId.parse(name))
    except MalformedKey as error:
        raise CaptureNotFound(str(error)) from None
    verdict = site.access.verdict(capture) if capture is not None else Verdict.EXCLUDE
    if capture is None or verdict is Verdict.EXCLUDE:
        raise CaptureNotFound(f"no capture has the record {name[:80]!r}")
    if verdict is Verdict.BLOCK:
        raise Blocked(f"the capture of '{capture.url}' is blocked by a rule of this archive")
    return capture


@endpoint("GET /api/captures/{record}/payload", "application/octet-stream", _RECORD)
def get_payload(site: WebContext, request: Request) -> Response:
    """The payload of a capture as it was transferred; that of a revisit from its original."""
    pieces = site.archive.records.of(_permitted(site, request)).stream()
    first = next(pieces, b"")  # fails here, if at all
    return StreamingResponse(chain((first,), pieces), 200, _BYTES, "application/octet-stream")


@endpoint(
    "GET /api/contents/{key}",
    "application/octet-stream",
    Parameter("key", "a contentkey, volume:signature", {**TEXT, "minLength": 1}, required=True),
)
def get_content(site: WebContext, request: Request) -> Response:
    """A content by its contentkey. Not where there are access rules."""
    if not site.access.is_open:
        raise Denied("this archive has access rules: ask for the payload of a capture, /api/captures/<record>/payload")
    key = ContentKey.parse(request.path_params["key"])
    return Response(site.archive.contents.get(key), 200, _BYTES, "application/octet-stream")
