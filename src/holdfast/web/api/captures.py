"""Captures for programs: searched for, one by one with their headers, and their payloads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from holdfast.catalog import CaptureQuery, parse_query
from holdfast.catalog.access_rules import Verdict
from holdfast.errors import Blocked, CaptureNotFound, Denied, MalformedKey
from holdfast.model import Capture, ContentKey, Pick, RecordId
from holdfast.records.records import picked_page
from holdfast.records.stored_record import StoredRecord
from holdfast.urls import page_id, page_id_text, parse_page_id
from holdfast.web.api.endpoint import HEADERS, answer
from holdfast.web.bounded_scan import ScanWatch, in_thread
from holdfast.web.capture.find import Finder
from holdfast.web.context import WebContext
from holdfast.web.request import pick_of
from holdfast.web.ui.display import path_to

LIMIT, LIMIT_MAX = 100, 10_000
_BYTES = {**HEADERS, "Content-Disposition": "attachment"}


# -- values ----------------------------------------------------------------------------------------------------------


def values_of(site: WebContext, capture: Capture) -> dict[str, Any]:
    """A capture as JSON has it: what is not known is null."""
    extra = {} if capture.extra == "-" else json.loads(capture.extra)
    place = capture.collection, capture.timestamp, capture.url
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
        "page": site.controls_origin + path_to(*place),
        "raw": site.controls_origin + path_to(*place, "id_"),
    }


def _known(text: str) -> str | None:
    return None if text == "-" else _shown(text)


def _shown(text: str) -> str:
    """Bytes that are no UTF-8 cannot stand in JSON."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# -- searching -------------------------------------------------------------------------------------------------------


async def search(site: WebContext, request: Request) -> Response:
    """The grammar of the CDX server; the answer in one piece."""
    params = [(name, value) for name, value in request.query_params.multi_items() if name != "collection"]
    collection = site.collection(request.query_params.get("collection") or site.default_collection)
    query = parse_query(params, collection)
    query = replace(query, limit=LIMIT if query.limit is None else query.limit)
    permits = None if site.access.is_open else site.access.permits
    watch = ScanWatch(permits, site.settings.query_seconds_max, cut=lambda: site.counters.add("queries_cut"))
    try:
        return answer(await in_thread(_found, site, query, watch))
    finally:
        watch.stop()


def _found(site: WebContext, query: CaptureQuery, watch: ScanWatch) -> dict[str, Any]:
    rows = site.archive.catalog.search(query, watch)
    captures = [values_of(site, row.capture) for row in rows]
    return {"captures": captures, "resume_key": rows.resume_key}


async def near(site: WebContext, request: Request) -> Response:
    """The capture that replay would show."""
    asked = request.query_params
    collection = site.collection(asked.get("collection") or site.default_collection)
    find = Finder(site).find
    found = await in_thread(find, collection, asked["url"], asked.get("timestamp", ""), pick_of(request))
    return answer(values_of(site, found))


async def of_page(site: WebContext, request: Request) -> Response:
    """By WebBase's page id; of those that may be seen."""
    asked = request.query_params
    collection = site.collection(asked.get("collection") or site.default_collection)
    number = parse_page_id(request.path_params["page_id"])
    pick = pick_of(request) or Pick.parse(site.archive.settings.records.pick)
    return answer(await in_thread(_of_page, site, number, asked.get("timestamp", ""), collection, pick))


def _of_page(site: WebContext, number: int, at: str, collection: str | None, pick: Pick) -> dict[str, Any]:
    found = site.archive.catalog.of_page_id(number, collection)
    known = [each for each in found if site.access.permits(each)]
    capture = picked_page([each for each in known if site.access.verdict(each) is Verdict.ALLOW], at, pick)
    if capture is None and known:
        raise Blocked(f"the captures with the page id {page_id_text(number)} are blocked by a rule of this archive")
    if capture is None:
        raise CaptureNotFound(f"no capture has the page id {page_id_text(number)}")
    return values_of(site, capture)


# -- one capture -----------------------------------------------------------------------------------------------------


async def one(site: WebContext, request: Request) -> Response:
    return answer(await in_thread(_detail, site, request.path_params["record"]))


def _detail(site: WebContext, name: str) -> dict[str, Any]:
    capture = _permitted(site, name)
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


def _permitted(site: WebContext, name: str) -> Capture:
    """The capture of a record. Raises CaptureNotFound, Blocked."""
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


async def payload(site: WebContext, request: Request) -> Response:
    """The payload of one capture as it was transferred, that of a revisit from its original."""
    stored = await in_thread(_stored, site, request.path_params["record"])
    pieces = stored.stream()
    first = await in_thread(next, pieces, b"")
    return StreamingResponse(_joined(first, pieces), 200, _BYTES, "application/octet-stream")


def _stored(site: WebContext, name: str) -> StoredRecord:
    return site.archive.records.of(_permitted(site, name))


def _joined(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from pieces


async def content(site: WebContext, request: Request) -> Response:
    """A content by its key. Where there are access rules, contents are had through their captures only."""
    if not site.access.is_open:
        raise Denied("this archive has access rules: ask for the payload of a capture, /api/captures/<record>/payload")
    key = ContentKey.parse(request.path_params["key"])
    return Response(await in_thread(site.archive.contents.get, key), 200, _BYTES, "application/octet-stream")
