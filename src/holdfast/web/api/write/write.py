"""Writing over HTTP: one capture, a file of records, or lines of CDX.

    request ── body, up to `serve.body_bytes_max` ── drafts, checked ── writer ── archive.add ── response
                                                                                       └── index_upkeep

Everything is checked before anything changes, and what is acknowledged is durable. A capture sent again with the same
time is known, and not added twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.archive import Archive
from holdfast.archive.ingest.exchange import Exchange, drafts_of, page
from holdfast.archive.ingest.file_reader import ImportInput
from holdfast.archive.ingest.importer import ImportOptions, ImportReport
from holdfast.archive.ingest.writer import Added, AddOutcome
from holdfast.archive.removal import RemovalOptions
from holdfast.batches.entry import REFERENCE
from holdfast.batches.journal import Journal
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.catalog.timestamps import digits
from holdfast.errors import ClusterDown, Denied, HoldfastError, MalformedInput, UsageError
from holdfast.formats.http import parse_head
from holdfast.formats.io.open import open_records
from holdfast.formats.record import Finding, FindingKind
from holdfast.model import RecordId, batch_name
from holdfast.records.draft import Drafting, RecordDraft, keyed_url
from holdfast.records.references import reference_drafts
from holdfast.records.selection import Selection
from holdfast.web.api.endpoint import (
    BINARY,
    COLLECTION,
    HEADERS,
    TEXT,
    TIME,
    Parameter,
    RequestBody,
    endpoint,
    json_response,
    url,
)
from holdfast.web.auth.tokens import error_headers, may_write
from holdfast.web.context import WebContext
from holdfast.web.request import ALL, DEFAULT, RESERVED, RequestTargetPath, body_of, body_parts
from holdfast.web.ui.display import path_to

_HTTP = re.compile(r"application/http\s*(;.*)?", re.IGNORECASE)
_WAIT = {"type": "integer", "minimum": 1, "maximum": 3600}
_ODD = re.compile(r"[^\w.+-]+", re.ASCII)


async def _add(site: WebContext, drafts: list[RecordDraft]) -> list[Added]:
    """Durable on return, and seen by this worker."""
    added: list[Added] = await asyncio.wrap_future(site.writer.add(drafts, site.archive.catalog.refresh))
    _count(site, sum(each.outcome is AddOutcome.ADDED for each in added))
    return added


def _count(site: WebContext, added: int) -> None:
    site.counters.add("writes", added)
    if added:
        site.index_upkeep.note(site.archive.settings.index)


def _collection_to_write(site: WebContext, name: str) -> str:
    """A collection to write to; it may be new. Raises UsageError."""
    if name in ("", DEFAULT):
        return site.default_collection
    if name == ALL or name in RESERVED:
        raise UsageError(f"{name!r} cannot be a collection: the name is reserved for other addresses")
    return batch_name(name)


def _exchange_of(url: str, timestamp: str, content_type: str, body: bytes) -> Exchange:
    """The capture in a body: a whole response, or the payload of one. Raises UsageError."""
    moment = _moment(timestamp)
    if not _HTTP.fullmatch(content_type):
        return page(url, body, content_type or "application/octet-stream", moment)
    head = parse_head(body)
    if head is None or head.kind != "response" or b"\n\r\n" not in body[: head.size]:
        raise UsageError("the body is not an HTTP response: it must begin with a status line and headers")
    return Exchange(url, body[: head.size], body[head.size :], moment)


def _moment(text: str) -> str:
    if not text:
        return ""
    bare = digits(text, "timestamp")
    try:
        if len(bare) != 14:
            raise ValueError
        datetime.strptime(bare, "%Y%m%d%H%M%S")
    except ValueError:
        raise UsageError(f"bad timestamp {text!r}: give 14 digits, such as 20260102030405") from None
    return bare


@endpoint(
    "PUT /api/captures",
    "Written",
    url(),
    Parameter("timestamp", "when it was captured, 14 digits; now by default", TIME),
    COLLECTION,
    Parameter("wait_safe", "at a node of a cluster: seconds to wait until enough nodes have it", _WAIT),
    body=RequestBody(
        "the payload of a response, of whatever type; or as application/http a whole HTTP response, head and body",
        {"*/*": BINARY, "application/http; msgtype=response": BINARY},
    ),
    statuses=(200, 201),
)
async def put_capture(site: WebContext, request: Request) -> Response:
    """Add one capture. Durable when answered; the same capture with the same time is known the second time."""
    given = request.query_params
    collection = _collection_to_write(site, given.get("collection", ""))
    body = await body_of(request, site.settings.body_bytes_max)
    content_type = request.headers.get("content-type", "")
    exchange = _exchange_of(given["url"], given.get("timestamp", ""), content_type, body)
    drafts = await run_in_threadpool(_drafts, site, exchange, collection)
    wait_s = int(given.get("wait_safe", 0))
    if wait_s and site.forwarder is None:
        raise UsageError("this archive is not a node of a cluster: 'wait_safe' is for one")
    (added,) = await _add(site, drafts)
    if added.record is None:
        raise Denied(f"this capture of '{exchange.url}' was removed from the archive for good")
    entry = drafts[0].entry
    if wait_s:
        await _wait_safe(site, added.record, entry.timestamp, wait_s)
    place = site.controls_origin + path_to(collection, entry.timestamp, entry.url)
    values = {
        "record": str(added.record),
        "outcome": added.outcome.value,
        "new_content": added.new_content,
        "url": entry.url,
        "timestamp": entry.timestamp,
        "collection": collection,
        "page": place,
        "safe": True if wait_s else None,
    }
    return json_response(values, 201 if added.outcome is AddOutcome.ADDED else 200, {"Location": place})


async def _wait_safe(site: WebContext, record: RecordId, timestamp: str, wait_s: int) -> None:
    """Returns when enough nodes of the cluster have a record of this one. Raises ClusterDown."""
    assert site.forwarder is not None
    try:
        if await site.forwarder.is_safe(record, wait_s):
            return
        reason = f"is not on enough nodes after {wait_s} s"
    except ClusterDown as error:
        reason = f"may not be on enough nodes: {error}"
    raise ClusterDown(
        f"the capture of {timestamp} is stored here as '{record}', but {reason}; "
        f"the same request with timestamp={timestamp} waits again"
    )


def _drafts(site: WebContext, exchange: Exchange, collection: str) -> list[RecordDraft]:
    """Drafts with an id derived from the capture, so that the same capture sent twice is one record."""
    env = site.archive.env
    if exchange.timestamp:
        named = hashlib.sha256(f"{exchange.url}\n{exchange.timestamp}\n{collection}\n".encode("utf-8", "replace"))
        named.update(exchange.head)
        named.update(exchange.body)
        env = replace(env, random_bytes=lambda count: named.digest()[:count])
    return drafts_of([exchange], Drafting(collection), env)


@endpoint(
    "POST /api/warc",
    "Imported",
    Parameter("name", "the file's name, under which it can be exported again", {**TEXT, "maxLength": 200}),
    COLLECTION,
    body=RequestBody("a WARC, ARC or Tianwang file, also compressed", {"application/warc": BINARY, "*/*": BINARY}),
)
async def import_file(site: WebContext, request: Request) -> dict[str, Any]:
    """Import a file. A damaged one is refused as a whole."""
    name = _ODD.sub("_", request.query_params.get("name", "")).strip("._")[:200] or "upload"
    collection = _collection_to_write(site, request.query_params.get("collection", ""))
    with tempfile.NamedTemporaryFile(prefix="holdfast-", suffix=".upload") as spool:
        async for part in body_parts(request, site.settings.body_bytes_max):
            await run_in_threadpool(spool.write, part)
        spool.flush()
        await run_in_threadpool(_require_sound, Path(spool.name))
        # Read in the writer's thread whatever its size: a process per upload would cost more than it gains.
        source = ImportInput(name, Path(spool.name), size=0)

        def call(archive: Archive) -> ImportReport:
            (report,) = archive.import_files([source], ImportOptions(collection=collection, index=False))
            return report

        report: ImportReport = await asyncio.wrap_future(site.writer.do(call, site.archive.catalog.refresh))
    if report.error is not None:
        raise report.error
    _count(site, report.added)
    values = {name: getattr(report, name) for name in ("records", "added", "known", "refused", "invalid")}
    return {**values, "findings": [str(finding) for finding in report.findings[:100]]}


def _require_sound(spool: Path) -> None:
    """Raises MalformedInput at the first damaged or truncated record: an upload is atomic."""

    def note(finding: Finding) -> None:
        if finding.kind in (FindingKind.LOST, FindingKind.TRUNCATED):
            raise MalformedInput(f"nothing was imported: the file is damaged: {finding}")

    with spool.open("rb") as file:
        count = 0
        for record in open_records(file, report=note, verify_digests=False):
            record.finish()
            count += 1
    if not count:
        raise MalformedInput("nothing was imported: this is not a WARC, ARC or Tianwang file")


async def post_lines(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """POST of CDX lines to a collection or to its `delete`, as OutbackCDX has it; with its responses.

    A bad line is named by its number; then nothing is changed. `badLines=skip` skips such lines.
    """
    try:
        may_write(site, request)
        skip_bad = request.query_params.get("badLines") == "skip"
        collection = _collection_to_write(site, target.collection)
        body = await body_of(request, site.settings.body_bytes_max)
        drafts = await run_in_threadpool(reference_drafts, body.split(b"\n"), collection, skip_bad=skip_bad)
        if target.kind == "delete":
            dropped = await _drop_references(site, drafts, collection) if drafts else 0
            return PlainTextResponse(f"Deleted {dropped} records\n", 200, HEADERS)
        added = await _add(site, drafts) if drafts else []
    except MalformedInput as error:
        return PlainTextResponse(f"At {error}\n", 400, HEADERS)
    except HoldfastError as error:
        return PlainTextResponse(f"{error}\n", error.http_status, {**HEADERS, **error_headers(error)})
    count = sum(each.outcome is AddOutcome.ADDED for each in added)
    return PlainTextResponse(f"Added {count} records\n", 200, HEADERS)


async def _drop_references(site: WebContext, drafts: Sequence[RecordDraft], collection: str) -> int:
    """Removes the records by reference that the lines name; returns their number. Stored records stay."""

    def call(archive: Archive) -> int:
        found = Named(records=tuple(sorted(set(_named(archive, drafts)))))
        # No need to compact: the files of references are elsewhere.
        options = RemovalOptions(f"lines posted to /{collection}/delete", compact=False)
        return archive.remove(found, options).captures if found.records else 0

    return int(await asyncio.wrap_future(site.writer.do(call, site.archive.catalog.refresh)))


def _named(archive: Archive, drafts: Sequence[RecordDraft]) -> Iterator[RecordId]:
    """The references that are at the same place of the same file, of the same URL and time."""
    for draft in drafts:
        entry = draft.entry
        query = CaptureQuery(
            url=keyed_url(entry.url, entry.extra),
            match="exact",
            from_=entry.timestamp,
            to=entry.timestamp,
            collection=entry.collection,
        )
        for row in archive.catalog.search(query):
            if (row.capture.filename, row.capture.offset) == (entry.filename, entry.offset):
                kept = archive.records.entry(row.capture.record)
                if kept is not None and kept.type == REFERENCE:
                    yield row.capture.record


@dataclass(frozen=True, slots=True)
class Named(Selection):
    records: tuple[RecordId, ...] = ()

    def record_ids(self, catalog: Catalog, journal: Journal) -> Iterator[RecordId]:
        return iter(self.records)
