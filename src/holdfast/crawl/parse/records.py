"""From what was fetched to drafts of records: a response and its request, or a revisit where nothing was modified.

    WARC head │ HTTP head │ 4bd3 CRLF │ payload │ CRLF 0 CRLF CRLF │ end of the record
                            └─ framing of chunks, where the head announces it ─┘

The head stays as the server sent it. If it says that the body comes in chunks, the body is framed as one chunk: curl
has taken the server's own framing away, and a message must be what its head says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple

from holdfast.batches.entry import JournalEntry, one_line
from holdfast.crawl.processes.messages import Fetched, FetchJob
from holdfast.env.files import Buffer
from holdfast.formats.http import HttpHead
from holdfast.formats.warc.compose import ID_BYTES, RECORD_END, WarcHead, digest_text, record_id
from holdfast.records.draft import REVISIT_MIME, RecordDraft, catalog_mime, fingerprint, pair_requests, urlkey_of
from holdfast.urls import url_key

_FORMAT = "warc/1.1"
_CHUNKS_END = b"\r\n0\r\n\r\n"
_NOT_MODIFIED = 304
_READ_BYTES = 1 << 20


class RecordPayload(NamedTuple):
    """What is known of the bytes of a payload."""

    signature: bytes = b""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Makes drafts for one collection. Any thread may call it."""

    collection: str
    sign: Callable[[Buffer], bytes]

    def payload(self, fetched: Fetched) -> RecordPayload:
        """Signed with the archive's algorithm, also where the body is in a file."""
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
        """The response, and the request that it answers."""
        job = fetched.job
        if head.status == _NOT_MODIFIED and job.known_date and (job.etag or job.modified):
            answer = self._revisit(fetched)
        else:
            answer = self._response(fetched, head, payload)
        request = self._request(fetched, answer.record_id)
        if request is not None and fetched.job.method:
            _tie(answer, request, fetched.job)
        return [answer, request] if request else [answer]

    def resource(self, fetched: Fetched, payload: RecordPayload) -> RecordDraft:
        """What was made of a page: a picture of it, or its text."""
        url = fetched.job.url
        head = WarcHead(
            "resource",
            _date(fetched),
            record_id(token_bytes(ID_BYTES)),
            url=url,
            content_type=fetched.resource,
            block_digest=payload.digest,
            payload_digest=payload.digest,
        )
        raw = head.encode(fetched.size)
        facts = {"mime": catalog_mime(fetched.resource), "digest": payload.digest, "size": fetched.size}
        entry = self._entry("resource", fetched, raw + RECORD_END, facts)
        layout = f"{len(raw)}+{fetched.size}+{len(RECORD_END)}"
        return _draft(entry._replace(layout=layout), fetched.body, payload.signature)

    def _response(self, fetched: Fetched, head: HttpHead, payload: RecordPayload) -> RecordDraft:
        before = b"%x\r\n" % fetched.size if head.chunked and fetched.size else b""
        after = _CHUNKS_END if before else b"0\r\n\r\n" if head.chunked else b""
        warc_head = WarcHead(
            "response",
            _date(fetched),
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
        facts = {
            "status": str(head.status),
            "mime": catalog_mime(head.headers.get("Content-Type")),
            "digest": payload.digest,
            "size": fetched.size,
            "extra": _redirect(head),
        }
        literals = (raw + fetched.head + before, after + RECORD_END)
        entry = self._entry("response", fetched, b"".join(literals), facts)
        runs: Sequence[int] = (len(literals[0]), fetched.size, len(literals[1]))
        if not fetched.size:
            runs = (len(entry.data),)
        entry = entry._replace(layout="+".join(map(str, runs)))
        draft = _draft(entry, fetched.body, payload.signature, Path(fetched.spool) if fetched.spool else None)
        draft.record_id = warc_head.record_id
        return draft

    def _revisit(self, fetched: Fetched) -> RecordDraft:
        """What the server said of a page that it has not modified; it costs no content."""
        job = fetched.job
        head = WarcHead(
            "revisit",
            _date(fetched),
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
        facts = {
            "status": str(_NOT_MODIFIED),
            "mime": REVISIT_MIME,
            "digest": job.known_digest or "-",
            "refers_to": f"{job.known_date} {job.url}",
        }
        data = head.encode(len(fetched.head)) + fetched.head + RECORD_END
        entry = self._entry("revisit", fetched, data, facts)._replace(layout=str(len(data)))
        draft = _draft(entry, b"", b"")
        draft.record_id = head.record_id
        return draft

    def _request(self, fetched: Fetched, concurrent_to: str) -> RecordDraft | None:
        if not fetched.request:
            return None
        head = WarcHead(
            "request",
            _date(fetched),
            record_id(token_bytes(ID_BYTES)),
            url=fetched.job.url,
            ip=fetched.ip,
            concurrent_to=(concurrent_to,),
        )
        data = head.encode(len(fetched.request)) + fetched.request + RECORD_END
        entry = self._entry("request", fetched, data, {"mime": "-"})._replace(layout=str(len(data)))
        return RecordDraft(entry, mark=fingerprint(entry, ()))

    def _entry(self, kind: str, fetched: Fetched, data: bytes, facts: dict[str, Any]) -> JournalEntry:
        return JournalEntry(
            kind,
            fetched.job.url,
            _date(fetched),
            data,
            ip=one_line(fetched.ip),
            collection=self.collection,
            format=_FORMAT,
            status=facts.get("status", "-"),
            mime=facts.get("mime", "-"),
            digest=facts.get("digest", "-"),
            size=facts.get("size", 0),
            refers_to=facts.get("refers_to", "-"),
            extra=facts.get("extra", "-"),
        )


def _tie(answer: RecordDraft, request: RecordDraft, job: FetchJob) -> None:
    """Method and content of a request that is no GET belong to the key of its answer."""
    kind = next((value for name, value in job.fields if name.lower() == "content-type"), "")
    request.request = (job.method, job.content, kind)
    pair_requests([answer, request])
    if answer.urlkey:
        answer.urlkey = urlkey_of(answer.entry)


def plain(draft: RecordDraft) -> tuple[Any, ...]:
    """What a process tells another of a draft."""
    spooled = str(draft.spooled) if draft.spooled else ""
    return tuple(draft.entry), draft.payload, draft.signature, draft.mark, draft.urlkey, spooled


def draft_of(told: tuple[Any, ...]) -> RecordDraft:
    entry, payload, signature, mark, urlkey, spooled = told
    return RecordDraft(
        JournalEntry._make(entry), payload, signature, mark, urlkey, spooled=Path(spooled) if spooled else None
    )


def _draft(entry: JournalEntry, payload: bytes, signature: bytes, spooled: Path | None = None) -> RecordDraft:
    if spooled is not None:  # its pieces are signed when they are stored
        return RecordDraft(entry, urlkey=url_key(entry.url), spooled=spooled)
    mark = fingerprint(entry, (signature,) if signature else ())
    return RecordDraft(entry, payload, signature, mark, url_key(entry.url))


def _date(fetched: Fetched) -> str:
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
