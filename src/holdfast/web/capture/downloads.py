"""Downloads: a record as it was captured, and WARC files made of what a query finds.

    /<coll>/record/<id>     one record, byte for byte, as WARC; one that came in another format is made so
    /<coll>/warc?url=...    the records of all captures that the query of the CDX server finds, with their requests and
                            the like; of revisits also the originals if it says `resolveRevisits=true`

A WARC is made while it is sent: nothing is put aside. What it will hold is known before its first byte, so that a
query for too much is refused with 413 and never ends in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.requests import Request
from starlette.responses import Response

from holdfast.archive import Archive
from holdfast.archive.export.records import warcinfo
from holdfast.batches.entry import REFERENCE, REMOVED
from holdfast.catalog import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.errors import Blocked, CaptureNotFound, TooLarge, UsageError
from holdfast.formats.warc.writer import RecordCompressor
from holdfast.model import Capture, RecordId
from holdfast.records.as_warc import is_writable, warc_parts
from holdfast.records.selection import companions
from holdfast.records.stored_record import StoredRecord
from holdfast.web.bounded_scan import ScanWatch, in_thread, streamed
from holdfast.web.cdx.dialects import Dialect, parse_params, parse_request
from holdfast.web.context import WebContext
from holdfast.web.request import RequestTargetPath

_SMALL = 1 << 20  # records up to this are compressed in one go
_PIECE = 256 << 10
_NEARBY = 64  # serial numbers within which a companion may have come with another capture
_UNSNIFFED = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox; default-src 'none'"}


async def download(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """Raises CaptureNotFound, Blocked, MalformedKey, MalformedQuery and TooLarge."""
    if request.method not in ("GET", "HEAD"):
        raise UsageError(f"records are asked for by GET or HEAD, not by {request.method}")
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
        raise UsageError(f"record {record} tells of a file in another format and cannot be a WARC record")
    headers = _headers("application/warc", f"{record}.warc")
    return await streamed(_gathered(warc_parts(stored)), ScanWatch(None, site.settings.query_seconds_max), headers)


def _capture(site: WebContext, stored: StoredRecord) -> Capture:
    """The row of a record, whether or not the catalog lists it: requests do not have one of their own."""
    return site.archive.catalog.capture_of(stored.id) or stored.capture


def _gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in parts that are worth a way to another thread and back."""
    some: list[bytes] = []
    size = 0
    for part in parts:
        some.append(part)
        size += len(part)
        if size >= _PIECE:
            yield b"".join(some)
            some, size = [], 0
    if size:
        yield b"".join(some)


def _headers(content_type: str, filename: str) -> dict[str, str]:
    return {"content-type": content_type, "content-disposition": f'attachment; filename="{filename}"', **_UNSNIFFED}


# -- WARC files -----------------------------------------------------------------------------------------------------


async def _subset(site: WebContext, target: RequestTargetPath, *, is_head: bool) -> Response:
    params = [pair for pair in parse_params(target.url) if pair[0] != "output"]
    limit_max = site.settings.download_records_max + 1
    asked = parse_request(params, site.collection(target.collection), Dialect.PYWB, limit_max=limit_max)
    watch = ScanWatch(None, site.settings.query_seconds_max, cut=lambda: site.counters.add("queries_cut"))
    chosen = await watch.run(_chosen, site, asked.query, watch)
    if not chosen:
        raise CaptureNotFound("the query finds no capture that may be downloaded")
    headers = _headers("application/warc", f"{target.collection}.warc.gz")
    if is_head:
        return Response(b"", headers=headers)
    return await streamed(_gathered(_members(site, sorted(chosen))), watch, headers)


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
        if len(chosen) > settings.download_records_max or size > settings.download_bytes_max:
            raise TooLarge(
                f"the query finds more than {settings.download_records_max} records or "
                f"{settings.download_bytes_max} bytes: narrow it, or use 'holdfast export'"
            )
    return chosen


def _members(site: WebContext, chosen: Iterable[RecordId]) -> Iterator[bytes]:
    """The file, a member for each record, in parts of bounded size."""
    compressor = RecordCompressor("gzip")
    yield compressor.compress_record(warcinfo(site.archive, ""))
    for stored in _with_companions(site.archive, chosen):
        if not is_writable(stored) or not _may_go(site, stored):
            continue
        parts = warc_parts(stored)
        if stored.payload_size <= _SMALL:
            yield compressor.compress_record(list(parts))
            continue
        stream = compressor.stream()
        yield from map(stream.compress, parts)
        yield stream.flush()


def _may_go(site: WebContext, stored: StoredRecord) -> bool:
    return site.access.is_open or site.access.verdict(_capture(site, stored)) is Verdict.ALLOW


def _with_companions(archive: Archive, chosen: Iterable[RecordId]) -> Iterator[StoredRecord]:
    """Requests and the like stand beside their captures, each once. What was removed meanwhile is left out."""
    records = archive.records
    given: set[RecordId] = set()
    for record in chosen:
        entry = records.entry(record)
        if entry is None or entry.type == REMOVED or record in given:
            continue
        together = {record: entry} | companions(records.entry, record, entry)
        given = {each for each in given if each.batch == record.batch and each.serial > record.serial - _NEARBY}
        for each in sorted(together.keys() - given):
            is_elsewhere = together[each].type == REFERENCE
            yield records.read(each) if is_elsewhere else records.stored(each, together[each])
        given |= together.keys()
