"""Downloads: a record as captured, and WARC files of the results of a query.

    /<coll>/record/<id>     one record, byte for byte, as WARC; converted if it came in another format
    /<coll>/warc?url=...    the records of all captures that the query of the CDX server finds, with their requests and
                            the like; of revisits also the originals if it says `resolveRevisits=true`

A WARC is written while it is sent; nothing is spooled. Its records are known before its first byte, so a query for too
much is refused with 413 and never ends in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from holdfast.batches.entry import REFERENCE
from holdfast.catalog import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.errors import Blocked, CaptureNotFound, TooLarge, UsageError
from holdfast.formats.warc.writer import RecordCompressor
from holdfast.model import Capture, RecordId
from holdfast.records.as_warc import is_writable, warc_parts, warcinfo
from holdfast.records.selection import with_companions
from holdfast.records.stored_record import StoredRecord
from holdfast.web.api.cdx.dialects import Dialect, parse_params, parse_request
from holdfast.web.context import WebContext
from holdfast.web.replay.response import gathered
from holdfast.web.request import RequestTargetPath, require_reading
from holdfast.web.server.bounded_scan import ScanWatch, in_thread, streamed

RECORDS_MAX = 100_000  # in one downloaded WARC
_SMALL = 1 << 20  # records up to this are compressed in one go


async def download(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """Raises CaptureNotFound, Blocked, MalformedKey, MalformedQuery and TooLarge."""
    require_reading(request, "a download")
    if target.kind == "record":
        return await _record(site, target)
    return await _subset(site, target, is_head=request.method == "HEAD")


async def _record(site: WebContext, target: RequestTargetPath) -> Response:
    record = RecordId.parse(target.url.partition("?")[0])
    collection = site.collection(target.collection)
    stored = await in_thread(site.archive.records.read, record)
    if collection not in (None, stored.entry.collection):
        raise CaptureNotFound(f"record {record} is in another collection")
    verdict = site.access.verdict(_capture(site, stored))
    if verdict is Verdict.EXCLUDE:
        raise CaptureNotFound(f"record {record} does not exist")
    if verdict is Verdict.BLOCK:
        raise Blocked(f"record {record} is blocked by a rule of this archive")
    if not is_writable(stored):
        raise UsageError(f"record {record} describes a file in another format and cannot be a WARC record")
    headers = _headers(f"{record}.warc")
    return await streamed(gathered(warc_parts(stored)), site.watch(None), headers)


def _capture(site: WebContext, stored: StoredRecord) -> Capture:
    """The catalog row of a record, or one made of it: requests have none."""
    return site.archive.catalog.capture_of(stored.id) or stored.capture


def _headers(filename: str) -> dict[str, str]:
    return {
        "content-type": "application/warc",
        "content-disposition": f'attachment; filename="{filename}"',
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
    }


async def _subset(site: WebContext, target: RequestTargetPath, *, is_head: bool) -> Response:
    params = [pair for pair in parse_params(target.url) if pair[0] != "output"]
    limit_max = RECORDS_MAX + 1
    asked = parse_request(params, site.collection(target.collection), Dialect.PYWB, limit_max=limit_max)
    watch = site.watch(None)
    chosen = await watch.run(_chosen, site, asked.query, watch)
    if not chosen:
        raise CaptureNotFound("the query finds no capture that may be downloaded")
    headers = _headers(f"{target.collection}.warc.gz")
    if is_head:
        return StreamingResponse(iter(()), headers=headers)  # without a length: that of the file is not known
    return await streamed(gathered(_members(site, sorted(chosen))), watch, headers)


def _chosen(site: WebContext, query: CaptureQuery, watch: ScanWatch) -> set[RecordId]:
    """The records, if they are not too many."""
    settings = site.settings
    chosen: set[RecordId] = set()
    size = 0

    def permits(capture: Capture) -> bool:
        return watch(capture) and site.access.verdict(capture) is Verdict.ALLOW

    for row in site.archive.catalog.search(query, permits):
        for capture in (row.capture, row.original):
            if capture is not None and capture.record not in chosen:
                chosen.add(capture.record)
                size += capture.size
        if len(chosen) > RECORDS_MAX or size > settings.download_bytes_max:
            raise TooLarge(
                f"the query finds more than {RECORDS_MAX} records or "
                f"{settings.download_bytes_max} bytes: narrow it, or use 'holdfast export'"
            )
    return chosen


def _members(site: WebContext, chosen: Iterable[RecordId]) -> Iterator[bytes]:
    """The file, a member for each record, in parts of bounded size."""
    compressor = RecordCompressor("gzip")
    yield compressor.compress_record(warcinfo(site.archive.env))
    records = site.archive.records
    for record, entry in with_companions(records.entry, chosen):
        stored = records.read(record) if entry.type == REFERENCE else records.stored(record, entry)
        is_allowed = site.access.is_open or site.access.verdict(_capture(site, stored)) is Verdict.ALLOW
        if not is_allowed or not is_writable(stored):
            continue
        parts = warc_parts(stored)
        if stored.payload_size <= _SMALL:
            yield compressor.compress_record(list(parts))
            continue
        stream = compressor.stream()
        yield from map(stream.compress, parts)
        yield stream.flush()
