"""Taking captures in over HTTP: what is sent becomes drafts, and those go to the writer.

    request ── body, up to `serve.body_bytes_max` ── drafts, checked ── writer ── archive.add ── answer
                                                                                       └── index_upkeep

Nothing is changed before all that was sent has been checked, and what is answered is durable. A capture that was sent
with its time, and is sent again, is known and not added twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from holdfast.archive import Archive
from holdfast.archive.ingest.add import Added, AddOutcome
from holdfast.archive.ingest.exchange import Exchange, drafts_of, page
from holdfast.archive.ingest.importer import ImportOptions, ImportReport
from holdfast.archive.ingest.input import ImportInput
from holdfast.archive.remove.removal import RemovalOptions
from holdfast.batches.entry import REFERENCE
from holdfast.batches.journal import Journal
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.catalog.timestamps import digits
from holdfast.errors import MalformedInput, TooLarge, UsageError
from holdfast.formats import Finding, FindingKind, open_records
from holdfast.formats.http import parse_head
from holdfast.model import RecordId, batch_name
from holdfast.records.draft import Drafting, RecordDraft, keyed_url
from holdfast.records.references import reference_drafts
from holdfast.records.selection import Selection
from holdfast.web.context import WebContext
from holdfast.web.request import ALL, DEFAULT, RESERVED
from holdfast.web.write.index_update import index_upkeep_at
from holdfast.web.write.writer import Writer, writer_at

_HTTP = re.compile(r"application/http\s*(;.*)?", re.IGNORECASE)
_ODD = re.compile(r"[^\w.+-]+", re.ASCII)


def writer_of(site: WebContext) -> Writer:
    return writer_at(site.archive.path)


async def _added(site: WebContext, drafts: list[RecordDraft]) -> list[Added]:
    """Whoever asks this worker next sees what was added."""
    added: list[Added] = await asyncio.wrap_future(writer_of(site).add(drafts, site.archive.catalog.refresh))
    _count(site, sum(each.outcome is AddOutcome.ADDED for each in added))
    return added


def _count(site: WebContext, added: int) -> None:
    """What was added is counted, and will be indexed."""
    site.counters.add("writes", added)
    if added:
        index_upkeep_at(site.archive.path).note(site.archive.settings.index)


# -- what is sent -------------------------------------------------------------------------------------------------


def collection_to_write(site: WebContext, name: str) -> str:
    """A collection that captures may go to; it may be new. Raises UsageError."""
    if name in ("", DEFAULT):
        return site.default_collection
    if name == ALL or name in RESERVED:
        raise UsageError(f"{name!r} cannot be a collection: addresses with this name mean something else")
    return batch_name(name)


async def body_of(request: Request, bytes_max: int) -> bytes:
    """Raises TooLarge, as early as that is known."""
    return b"".join([part async for part in _parts(request, bytes_max)])


async def _parts(request: Request, bytes_max: int) -> AsyncIterator[bytes]:
    length = request.headers.get("content-length", "")
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else 0
    if size > bytes_max:
        raise TooLarge(f"the body has {size} bytes; 'serve.body_bytes_max' is {bytes_max}")
    size = 0
    with suppress(ClientDisconnect):
        async for part in request.stream():
            size += len(part)
            if size > bytes_max:
                raise TooLarge(f"the body is longer than 'serve.body_bytes_max', which is {bytes_max}")
            yield part
        return
    raise MalformedInput("the body was cut off")


def exchange_of(url: str, timestamp: str, content_type: str, body: bytes) -> Exchange:
    """The capture that a body stands for: a whole response, or the payload of one. Raises UsageError."""
    moment = _moment(timestamp)
    if not _HTTP.fullmatch(content_type):
        return page(url, body, content_type or "application/octet-stream", moment)
    head = parse_head(body)
    if head is None or head.kind != "response" or b"\n\r\n" not in body[: head.size]:
        raise UsageError("the body is no HTTP response: it must begin with a status line and headers")
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


async def put(site: WebContext, exchange: Exchange, collection: str) -> tuple[Added, RecordDraft]:
    """Adds one capture. Durable on return."""
    drafts = await run_in_threadpool(_drafts, site, exchange, collection)
    (added,) = await _added(site, drafts)
    return added, drafts[0]


def _drafts(site: WebContext, exchange: Exchange, collection: str) -> list[RecordDraft]:
    """With an id made of what it consists of: the same capture sent twice is one record."""
    env = site.archive.env
    if exchange.timestamp:
        named = hashlib.sha256(f"{exchange.url}\n{exchange.timestamp}\n{collection}\n".encode("utf-8", "replace"))
        named.update(exchange.head)
        named.update(exchange.body)
        env = replace(env, random_bytes=lambda count: named.digest()[:count])
    return drafts_of([exchange], Drafting(site.archive.settings.records, collection), env)


async def put_lines(site: WebContext, body: bytes, collection: str, *, skip_bad: bool = False) -> list[Added]:
    """Adds records by reference. Raises MalformedInput with the number of a bad line; then nothing is changed."""
    drafts = await _references(body, collection, skip_bad=skip_bad)
    return await _added(site, drafts) if drafts else []


async def _references(body: bytes, collection: str, *, skip_bad: bool) -> list[RecordDraft]:
    return await run_in_threadpool(partial(reference_drafts, body.split(b"\n"), collection, skip_bad=skip_bad))


async def drop_lines(site: WebContext, body: bytes, collection: str, *, skip_bad: bool = False) -> int:
    """Removes the records by reference that the lines name; how many. Records that the archive has itself stay.

    Raises MalformedInput as `put_lines` does.
    """
    drafts = await _references(body, collection, skip_bad=skip_bad)

    def call(archive: Archive) -> int:
        found = Named(records=tuple(sorted(set(_named(archive, drafts)))))
        # Nothing of a reference has to leave the disk at once: its file is elsewhere.
        options = RemovalOptions(f"lines posted to /{collection}/delete", compact=False)
        return archive.remove(found, options).captures if found.records else 0

    return int(await asyncio.wrap_future(writer_of(site).do(call, site.archive.catalog.refresh))) if drafts else 0


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
    """Records by their ids."""

    records: tuple[RecordId, ...] = ()

    def record_ids(self, catalog: Catalog, journal: Journal) -> Iterator[RecordId]:
        return iter(self.records)


async def put_warc(site: WebContext, request: Request, name: str, collection: str) -> ImportReport:
    """Imports a file of any known format. One that is damaged is refused as a whole."""
    with tempfile.NamedTemporaryFile(prefix="holdfast-", suffix=".upload") as spool:
        async for part in _parts(request, site.settings.body_bytes_max):
            await run_in_threadpool(spool.write, part)
        spool.flush()
        await run_in_threadpool(_require_sound, Path(spool.name))
        # Read in a thread of the writer whatever its size: a process for each upload would cost more than it gains.
        source = ImportInput(_ODD.sub("_", name).strip("._")[:200] or "upload", Path(spool.name), size=0)

        def call(archive: Archive) -> ImportReport:
            (report,) = archive.import_files([source], ImportOptions(collection=collection, index=False))
            return report

        done = writer_of(site).do(call, site.archive.catalog.refresh)
        report: ImportReport = await asyncio.wrap_future(done)
        if report.error is not None:
            raise report.error
        _count(site, report.added)
        return report


def _require_sound(spool: Path) -> None:
    """Raises MalformedInput at the first record that is damaged or cut off: an upload comes whole or not at all."""

    def note(finding: Finding) -> None:
        if finding.kind in (FindingKind.LOST, FindingKind.TRUNCATED):
            raise MalformedInput(f"nothing was imported, for the file is damaged: {finding}")

    with spool.open("rb") as file:
        count = 0
        for record in open_records(file, report=note, verify_digests=False):
            record.finish()
            count += 1
    if not count:
        raise MalformedInput("nothing was imported: this is not a WARC, ARC or Tianwang file")
