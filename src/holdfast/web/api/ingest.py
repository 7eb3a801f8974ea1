"""Captures taken in: one by PUT, a WARC file or lines of CDX by POST."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.archive.ingest.add import AddOutcome
from holdfast.errors import Denied, HoldfastError, MalformedInput
from holdfast.web.api.endpoint import HEADERS, answer
from holdfast.web.auth.tokens import error_headers, may_write
from holdfast.web.context import WebContext
from holdfast.web.request import RequestTargetPath
from holdfast.web.ui.display import path_to
from holdfast.web.write import write


async def put_capture(site: WebContext, request: Request) -> Response:
    asked = request.query_params
    collection = write.collection_to_write(site, asked.get("collection", ""))
    body = await write.body_of(request, site.settings.body_bytes_max)
    content_type = request.headers.get("content-type", "")
    exchange = write.exchange_of(asked["url"], asked.get("timestamp", ""), content_type, body)
    added, draft = await write.put(site, exchange, collection)
    if added.outcome is AddOutcome.REFUSED:
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
    return answer(values, 201 if added.outcome is AddOutcome.ADDED else 200, {"Location": place})


async def post_warc(site: WebContext, request: Request) -> Response:
    asked = request.query_params
    collection = write.collection_to_write(site, asked.get("collection", ""))
    report = await write.put_warc(site, request, asked.get("name", ""), collection)
    values = {name: getattr(report, name) for name in ("records", "added", "known", "refused", "invalid")}
    return answer({**values, "findings": [str(finding) for finding in report.findings[:100]]})


async def post_lines(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """POST of CDX lines to a collection or to its `delete`, as OutbackCDX has it; answered in its words."""
    try:
        may_write(site, request)
        skip_bad = request.query_params.get("badLines") == "skip"
        collection = write.collection_to_write(site, target.collection)
        body = await write.body_of(request, site.settings.body_bytes_max)
        if target.kind == "delete":
            dropped = await write.drop_lines(site, body, collection, skip_bad=skip_bad)
            return PlainTextResponse(f"Deleted {dropped} records\n", 200, HEADERS)
        added = await write.put_lines(site, body, collection, skip_bad=skip_bad)
    except MalformedInput as error:
        return PlainTextResponse(f"At {error}\n", 400, HEADERS)
    except HoldfastError as error:
        return PlainTextResponse(f"{error}\n", error.http_status, {**HEADERS, **error_headers(error)})
    count = sum(each.outcome is AddOutcome.ADDED for each in added)
    return PlainTextResponse(f"Added {count} records\n", 200, HEADERS)
