"""Drafts of records from fetched pages: a response or, if it was not modified, a revisit; and its request.

    WARC head │ HTTP head │ 4bd3 CRLF │ payload │ CRLF 0 CRLF CRLF │ end of the record
                            └─ framing of chunks, where the head announces it ─┘

The head stays as the server sent it. If it announces chunks, the body is framed as one chunk: curl has removed the
server's framing, and a message must agree with its head.

`describe` makes the warcinfo record of a visit.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple

import holdfast
from holdfast.batches.entry import JournalEntry, one_line
from holdfast.crawl.fetch.request import USER_AGENT
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.processes.messages import Fetched, FetchJob
from holdfast.env.files import Buffer
from holdfast.formats.http import HttpHead
from holdfast.formats.warc.compose import (
    ID_BYTES,
    RECORD_END,
    WARC_FIELDS,
    WarcHead,
    digest_text,
    record_id,
    warcinfo_parts,
)
from holdfast.records.draft import (
    REVISIT_MIME,
    RecordDraft,
    catalog_mime,
    fingerprint,
    fits_inline,
    pair_requests,
    urlkey_of,
)
from holdfast.storage.store.encoder import ContentEncoder, EncodedContent
from holdfast.storage.volume import Encoded
from holdfast.urls import url_key

_FORMAT = "warc/1.1"
_CHUNKS_END = b"\r\n0\r\n\r\n"
_NOT_MODIFIED = 304
_READ_BYTES = 1 << 20


class RecordPayload(NamedTuple):
    """Signature and digest of a payload."""

    signature: bytes = b""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Drafts the records of one collection. Thread-safe."""

    collection: str
    sign: Callable[[Buffer], bytes]
    encoder: ContentEncoder | None = None  # of payloads; None: they are encoded when they are stored

    def payload(self, fetched: Fetched) -> RecordPayload:
        """Signature by the archive's algorithm, and SHA-1 digest, of a body in memory or in a file."""
        if not fetched.spool or not fetched.size:
            return self._signed(fetched.body)
        with (
            Path(fetched.spool).open("rb") as file,
            mmap(file.fileno(), 0, access=ACCESS_READ) as mapped,
            memoryview(mapped) as body,
        ):
            return self._signed(body)

    def _signed(self, body: Buffer) -> RecordPayload:
        digest = digest_text("sha1", hashlib.sha1(body, usedforsecurity=False).digest())
        return RecordPayload(self.sign(body) if len(body) else b"", digest)

    def response(self, fetched: Fetched, head: HttpHead, payload: RecordPayload) -> list[RecordDraft]:
        """The response and its request."""
        job = fetched.job
        if head.status == _NOT_MODIFIED and job.known_date and (job.etag or job.modified):
            response = self._revisit(fetched)
        else:
            response = self._response(fetched, head, payload)
        request = self._request(fetched, response.record_id)
        if request is not None and job.method not in ("", "GET"):
            _tie(response, request, fetched.job)
        return [response, request] if request else [response]

    def resource(self, fetched: Fetched, payload: RecordPayload) -> RecordDraft:
        """Something made from a page: a screenshot, or its text."""
        url = fetched.job.url
        head = WarcHead(
            "resource",
            date_of(fetched),
            record_id(token_bytes(ID_BYTES)),
            url=url,
            content_type=fetched.resource,
            block_digest=payload.digest,
            payload_digest=payload.digest,
        )
        raw = head.encode(fetched.size)
        entry = self._entry(
            "resource",
            fetched,
            raw + RECORD_END,
            mime=catalog_mime(fetched.resource),
            digest=payload.digest,
            size=fetched.size,
            layout=f"{len(raw)}+{fetched.size}+{len(RECORD_END)}",
        )
        return self._draft(entry, fetched.body, payload.signature)

    def _response(self, fetched: Fetched, head: HttpHead, payload: RecordPayload) -> RecordDraft:
        before = b"%x\r\n" % fetched.size if head.chunked and fetched.size else b""
        after = _CHUNKS_END if before else b"0\r\n\r\n" if head.chunked else b""
        warc_head = WarcHead(
            "response",
            date_of(fetched),
            record_id(token_bytes(ID_BYTES)),
            url=fetched.job.url,
            ip=fetched.ip,
            block_digest=_block_digest(fetched, before, after),
            payload_digest=payload.digest,
            protocols=fetched.protocols,
            truncated=fetched.truncated,
            extra=fetched.facts,
        )
        raw = warc_head.encode(len(fetched.head) + len(before) + fetched.size + len(after))
        before, after = raw + fetched.head + before, after + RECORD_END
        size = fetched.size
        entry = self._entry(
            "response",
            fetched,
            before + after,
            status=str(head.status),
            mime=catalog_mime(head.headers.get("Content-Type")),
            digest=payload.digest,
            size=size,
            layout=f"{len(before)}+{size}+{len(after)}" if size else str(len(before) + len(after)),
            extra=_redirect(head),
        )
        draft = self._draft(entry, fetched.body, payload.signature, Path(fetched.spool) if fetched.spool else None)
        draft.record_id = warc_head.record_id
        return draft

    def _revisit(self, fetched: Fetched) -> RecordDraft:
        """A 304 response; it has no content."""
        job = fetched.job
        head = WarcHead(
            "revisit",
            date_of(fetched),
            record_id(token_bytes(ID_BYTES)),
            url=job.url,
            ip=fetched.ip,
            payload_digest=job.known_digest,
            protocols=fetched.protocols,
            profile="server-not-modified",
            refers_to_url=job.url,
            refers_to_date=job.known_date,
            extra=fetched.facts,
        )
        data = head.encode(len(fetched.head)) + fetched.head + RECORD_END
        entry = self._entry(
            "revisit",
            fetched,
            data,
            status=str(_NOT_MODIFIED),
            mime=REVISIT_MIME,
            digest=job.known_digest or "-",
            layout=str(len(data)),
            refers_to=f"{job.known_date} {job.url}",
        )
        draft = self._draft(entry, b"", b"")
        draft.record_id = head.record_id
        return draft

    def _request(self, fetched: Fetched, concurrent_to: str) -> RecordDraft | None:
        if not fetched.request:
            return None
        head = WarcHead(
            "request",
            date_of(fetched),
            record_id(token_bytes(ID_BYTES)),
            url=fetched.job.url,
            ip=fetched.ip,
            concurrent_to=(concurrent_to,),
        )
        data = head.encode(len(fetched.request)) + fetched.request + RECORD_END
        entry = self._entry("request", fetched, data, layout=str(len(data)))
        return RecordDraft(entry, mark=fingerprint(entry, ()))

    def _entry(self, kind: str, fetched: Fetched, data: bytes, **facts: Any) -> JournalEntry:
        ip, url = one_line(fetched.ip), fetched.job.url
        return JournalEntry(kind, url, date_of(fetched), data, 0, ip, self.collection, _FORMAT, **facts)

    def _draft(self, entry: JournalEntry, payload: bytes, signature: bytes, spooled: Path | None = None) -> RecordDraft:
        urlkey = url_key(entry.url)
        if spooled is not None:  # signed piece by piece when stored
            return RecordDraft(entry, urlkey=urlkey, spooled=spooled)
        mark = fingerprint(entry, (signature,) if signature else ())
        kept: bytes | EncodedContent = payload
        if payload and self.encoder is not None and not fits_inline(entry):
            kept = self.encoder.encode(payload, entry.mime, signature)
        return RecordDraft(entry, kept, signature, mark, urlkey)


def _tie(response: RecordDraft, request: RecordDraft, job: FetchJob) -> None:
    """Adds method and body of a request other than GET to the URL key of its response."""
    kind = next((value for name, value in job.fields if name.lower() == "content-type"), "")
    request.request = (job.method, job.content, kind)
    pair_requests([response, request])
    if response.urlkey:
        response.urlkey = urlkey_of(response.entry)


def plain(draft: RecordDraft) -> tuple[Any, ...]:
    """A draft as plain values, for another process."""
    spooled = str(draft.spooled) if draft.spooled else ""
    payload: object = draft.payload
    if isinstance(draft.payload, EncodedContent):
        payload = tuple(draft.payload.encoded)
    return tuple(draft.entry), payload, draft.signature, draft.mark, draft.urlkey, spooled


def draft_of(values: tuple[Any, ...]) -> RecordDraft:
    entry, payload, signature, mark, urlkey, spooled = values
    if isinstance(payload, tuple):
        payload = EncodedContent(Encoded._make(payload))
    return RecordDraft(
        JournalEntry._make(entry), payload, signature, mark, urlkey, spooled=Path(spooled) if spooled else None
    )


def date_of(fetched: Fetched) -> str:
    """When its request was sent, as 14 digits."""
    return _digits(int(fetched.started))


@lru_cache(64)
def _digits(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y%m%d%H%M%S")


def _redirect(head: HttpHead) -> str:
    if head.status in (301, 302, 303, 307, 308) and (location := head.headers.get("Location")):
        return json.dumps({"redirect": location})
    return "-"


def _block_digest(fetched: Fetched, before: bytes, after: bytes) -> str:
    hashed = hashlib.sha1(fetched.head, usedforsecurity=False)
    hashed.update(before)
    if fetched.spool:
        with Path(fetched.spool).open("rb") as file:
            while piece := file.read(_READ_BYTES):
                hashed.update(piece)
    else:
        hashed.update(fetched.body)
    hashed.update(after)
    return digest_text("sha1", hashed.digest())


def describe(job: CrawlJob, visit: int, collection: str) -> RecordDraft:
    """The warcinfo record of a visit."""
    date = _digits(int(time.time()))
    facts = [
        ("software", f"Holdfast {holdfast.__version__}"),
        ("isPartOf", job.name),
        ("description", f"visit {visit} of the crawl '{job.name}', scope {job.scope}, {_seeds(job)}"),
        ("robots", "obey" if job.fetch.robots else "ignore"),
        ("http-header-user-agent", _user_agent(job)),
    ]
    head, block, end = warcinfo_parts(WarcHead("warcinfo", date, record_id(token_bytes(ID_BYTES))), facts)
    data = head + block + end
    entry = JournalEntry("warcinfo", "-", date, data, collection=collection, format=_FORMAT)
    return RecordDraft(entry._replace(mime=WARC_FIELDS, size=len(block), layout=str(len(data))))


def _seeds(job: CrawlJob) -> str:
    return f"{len(job.seeds)} seed" if len(job.seeds) == 1 else f"{len(job.seeds)} seeds"


def _user_agent(job: CrawlJob) -> str:
    """The User-Agent; a configured header of that name wins."""
    given = [value for name, value in job.fetch.headers if name.lower() == "user-agent"]
    return given[0] if given else job.fetch.user_agent or USER_AGENT
