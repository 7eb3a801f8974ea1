"""Captures taken in: one by PUT, a WARC file or lines of CDX by POST."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.archive.adding import Outcome
from holdfast.errors import Denied, HoldfastError, MalformedInput
from holdfast.replay import writing
from holdfast.replay.api.endpoint import HEADERS, answer
from holdfast.replay.pages.display import path_to
from holdfast.replay.site import Site
from holdfast.replay.target import Target
from holdfast.replay.tokens import error_headers, may_write


async def put_capture(site: Site, request: Request) -> Response:
    asked = request.query_params
    collection = writing.collection_to_write(site, asked.get("collection", ""))
    body = await writing.body_of(request, site.settings.body_bytes_max)
    content_type = request.headers.get("content-type", "")
    exchange = writing.exchange_of(asked["url"], asked.get("timestamp", ""), content_type, body)
    added, draft = await writing.put(site, exchange, collection)
    if added.outcome is Outcome.REFUSED:
        raise Denied(f"this capture of '{exchange.url}' was removed from the archive, and is not to come back")
    entry = draft.entry
    place = site.controls_origin + path_to(collection, entry.timestamp, entry.url)
    values = {
        "record": str(added.record),
        "outcome": added.outcome.value,
        "new_content": added.new_content,
        "url": entry.url,
        "timestamp": entry.timestamp,
        "collection": collection,
        "page": place,
    }
    return answer(values, 201 if added.outcome is Outcome.ADDED else 200, {"Location": place})


async def post_warc(site: Site, request: Request) -> Response:
    asked = request.query_params
    collection = writing.collection_to_write(site, asked.get("collection", ""))
    report = await writing.put_warc(site, request, asked.get("name", ""), collection)
    values = {name: getattr(report, name) for name in ("records", "added", "known", "refused", "invalid")}
    return answer({**values, "findings": [str(finding) for finding in report.findings[:100]]})


async def post_lines(site: Site, request: Request, target: Target) -> Response:
    """POST of CDX lines to a collection or to its `delete`, as OutbackCDX has it; answered in its words."""
    try:
        may_write(site, request)
        skip_bad = request.query_params.get("badLines") == "skip"
        collection = writing.collection_to_write(site, target.collection)
        body = await writing.body_of(request, site.settings.body_bytes_max)
        if target.kind == "delete":
            dropped = await writing.drop_lines(site, body, collection, skip_bad=skip_bad)
            return PlainTextResponse(f"Deleted {dropped} records\n", 200, HEADERS)
        added = await writing.put_lines(site, body, collection, skip_bad=skip_bad)
    except MalformedInput as error:
        return PlainTextResponse(f"At {error}\n", 400, HEADERS)
    except HoldfastError as error:
        return PlainTextResponse(f"{error}\n", error.http_status, {**HEADERS, **error_headers(error)})
    count = sum(each.outcome is Outcome.ADDED for each in added)
    return PlainTextResponse(f"Added {count} records\n", 200, HEADERS)
