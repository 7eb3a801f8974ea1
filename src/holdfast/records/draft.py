"""A draft: a record to be added, split into literals and payload.

    head of the record │ head of the HTTP message │ payload │ end of the record
    └──────────── literal ────────────┘             content   └─── literal ───┘

The payload is the transferred body without the framing of chunks, which is literal too. Literals go into the
batch, the payload into the store; `layout` says how to join them again (N3). A small payload stays with its record
(`fits_inline`): its block would be mostly header. The fingerprint of a record does not depend on that.

`extra` marks faults of a record. `truncated`: its payload is incomplete. `block`: the length of its block, if its head
says another. `dateFrom`: the source of its time, if its date is unreadable: the readable part (`part`), the `Date` of
the HTTP message (`http`), the adjacent record in the file (`neighbour`), or nothing (`none`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from holdfast.batches.entry import CHECKPOINT, FILE_HEAD, REFERENCE, REMOVED, SOURCE, JournalEntry, lay, one_line
from holdfast.formats.dates import mail_timestamp, partial_timestamp, warc_timestamp
from holdfast.formats.http import HttpHead, Unframer, parse_head, split
from holdfast.formats.io.record_block import BytesBlock
from holdfast.formats.record import Record
from holdfast.formats.tianwang import unzipped
from holdfast.formats.warc.compose import digest_of, digest_text
from holdfast.model import Capture, RecordId
from holdfast.records.stored_record import block_length
from holdfast.storage.store.encoder import ContentEncoder, EncodedContent
from holdfast.urls import post_key, url_key

CAPTURED = frozenset({"response", "revisit", "resource", "metadata", "conversion", REFERENCE})  # that the catalog lists
REVISIT_MIME = "warc/revisit"
_FIELDS_TYPE = "application/warc-fields"
_NO_DATE = "19700101000000"
_DATE_FIELDS = {"warc": "warc-date", "arc": "archive-date", "tianwang": "date"}
CUT_IN_FILE = "unspecified"  # why a payload is incomplete, as in WARC-Truncated
PIECE_BYTES_MAX = 32 << 20  # larger payloads are split into pieces of this size
INLINE_BYTES_MAX = 8 << 10  # smaller requests and metadata stay in their record
_LITERAL_BYTES_MAX = 4 << 20  # framing beyond this is kept as payload,
_RUNS_MAX = 400_000  # and so are chunks beyond this many
_DIGEST = re.compile(r"[A-Za-z0-9-]+:[A-Za-z0-9+/=_-]+")
_PLAIN_REQUESTS = (b"GET ", b"HEAD ")  # that are not looked up
_LAST_MODIFIED = re.compile(rb"\nlast-modified:[ \t]*([^\r\n]{1,64})", re.IGNORECASE)
_REPEATED = frozenset({"response", "resource", "conversion"})  # records whose payloads are often the same
REPEATED_BYTES_MAX = 1024  # of their payloads that stay with the record
_REDIRECTS = frozenset({"301", "302", "303", "307", "308"})


@dataclass(slots=True)
class RecordDraft:
    """A record whose block is in memory. `entry` lacks its serial number and contentkeys."""

    entry: JournalEntry
    payload: bytes | EncodedContent = b""
    signature: bytes = b""  # of the payload; empty: not computed yet
    mark: bytes = b""  # the record's fingerprint; empty: not computed yet
    urlkey: str = ""  # of a capture; empty: not computed yet
    record_id: str = ""  # of a WARC record
    concurrent_to: tuple[str, ...] = ()
    request: tuple[str, bytes, str] | None = None  # method, body and type, of a request
    spooled: Path | None = None  # a large payload, in its own file


def is_captured(entry: JournalEntry) -> bool:
    """Whether the catalog lists the record (as the indexers of other archives do)."""
    if entry.type not in CAPTURED or entry.url in ("", "-"):
        return False
    return not (entry.type in ("resource", "metadata") and entry.mime == _FIELDS_TYPE)


def fits_inline(entry: JournalEntry) -> bool:
    """True if the payload stays with its record."""
    return entry.size <= (REPEATED_BYTES_MAX if entry.type in _REPEATED else INLINE_BYTES_MAX)


def fingerprint(entry: JournalEntry, signatures: Sequence[bytes]) -> bytes:
    """16 bytes that identify a record by its type, collection, layout, literals and the signatures of its payload.

    Independent of where the payload is kept.
    """
    named = f"{entry.type} {entry.layout} {entry.collection}\n"
    hashed = hashlib.blake2b(named.encode("utf-8", "surrogateescape"), digest_size=16)
    for signature in signatures:
        hashed.update(signature)
    hashed.update(entry.literals)
    return hashed.digest()


def refusal_mark(entry: JournalEntry, signatures: Sequence[bytes]) -> bytes:
    """The fingerprint of a record whatever its collection."""
    return fingerprint(entry._replace(collection="-"), signatures)


def first_refusal_mark(entry: JournalEntry, payload: bytes) -> bytes:
    """What format 1 wrote to `refused` for a record other than a response: its payload was one of its literals."""
    whole = entry.data if entry.is_inline else b"".join(lay(entry.data, entry.layout, payload))
    return refusal_mark(entry._replace(data=whole, layout=str(len(whole)), signature="-"), ())


def signatures_of(entry: JournalEntry) -> list[bytes]:
    """The signatures of an entry's payload, one for each piece."""
    if entry.is_inline:
        return [bytes.fromhex(entry.signature)]
    return [bytes.fromhex(key.partition(":")[2].partition("~")[0]) for key in entry.contentkeys]


def origin_of(entry: JournalEntry, batch: str) -> RecordId:
    """The id of a record of the batch on the node that recorded it: its own, unless it is a copy."""
    return RecordId(batch, entry.serial) if entry.origin == "-" else RecordId.parse(entry.origin)


def urlkey_of(entry: JournalEntry) -> str:
    """The key under which the catalog lists an entry."""
    return url_key(keyed_url(entry.url, entry.extra))


def keyed_url(url: str, extra: str) -> str:
    """The URL of a capture, with the method and body of its request unless that was GET."""
    if extra == "-" or '"method"' not in extra:
        return url
    facts = json.loads(extra)
    if facts["method"] == "GET":
        return url
    body = facts.get("requestBody", "")
    return f"{url}{'&' if '?' in url else '?'}__wb_method={facts['method']}{'&' if body else ''}{body}"


def capture_of(entry: JournalEntry, batch: str, urlkey: str = "") -> Capture:
    """The row of the catalog for an entry of the batch, whose key may be known already."""
    length, offset, kind = entry.length, entry.offset, entry.type
    if kind == REFERENCE:  # the capture it refers to, if known
        kind = "revisit" if entry.mime == REVISIT_MIME else "response"
    if entry.filename == "-":
        length, offset = sum(map(int, entry.layout.split("+"))), 0
    key = urlkey or urlkey_of(entry)
    about = key, entry.timestamp, entry.url, entry.mime, entry.status, entry.digest, length, offset, entry.filename
    held = kind, entry.size, entry.contents, RecordId(batch, entry.serial), entry.collection
    return Capture(*about, *held, entry.refers_to, entry.extra, modified_of(entry))


def modified_of(entry: JournalEntry) -> str:
    """The `Last-Modified` of a response as 14 digits, at the latest its time of capture (RFC 9110); `-` without one."""
    if entry.type not in ("response", "revisit"):
        return "-"
    head = entry.data[: int(entry.layout.partition("+")[0])] if entry.layout != "-" else entry.data
    match = _LAST_MODIFIED.search(head) if b"odified:" in head or b"ODIFIED:" in head else None
    modified = mail_timestamp(match[1].decode("latin-1").strip()) if match is not None else ""
    if not modified or entry.timestamp == _NO_DATE:
        return modified or "-"
    return min(modified, entry.timestamp)


@dataclass(slots=True)
class Drafting:
    """Makes drafts of the records of one file."""

    collection: str
    filename: str = "-"
    sign: Callable[[bytes], bytes] | None = None  # to compute signatures here
    encoder: ContentEncoder | None = None  # to encode signed payloads here
    last_timestamp: str = ""  # of the record before, for one with an unreadable date

    def is_large(self, record: Record) -> bool:
        return record.content_length > PIECE_BYTES_MAX

    def draft(self, record: Record) -> RecordDraft:
        """Reads the record, as far as it goes. Raises MalformedInput in strict mode."""
        block = record.block
        if not isinstance(block, BytesBlock):
            data = block.read()
            block = BytesBlock(data, 0, len(data))
        record.finish()
        head = None
        if record.has_http and not (record.type == "request" and block.startswith(_PLAIN_REQUESTS)):
            head = block.http()
        start = head.size if head else _head_size(record, block)
        literals, payload = block.cut(start)
        runs: tuple[int, ...] = (start, len(payload)) if payload else (start,)
        if payload and head is not None and head.chunked:
            unframed = split(block.whole(), head)
            if len(unframed[1]) <= _RUNS_MAX and len(unframed[0]) - start <= _LITERAL_BYTES_MAX:
                literals, runs, payload = unframed
        message = _unzipped_message(record, block)
        facts = _facts(record, parse_head(message) if message else head)
        if facts["digest"] == "-" and record.type in CAPTURED and record.type != "revisit":
            facts["digest"] = digest_of([split(message)[2] if message else payload])
        entry = self._entry(record, _framed(record, literals, runs), len(payload), facts, head)
        kept: bytes | EncodedContent = payload
        signature = b""
        if payload and self.sign is not None:
            signature = self.sign(payload)
            if self.encoder is not None and not fits_inline(entry):
                kept = self.encoder.encode(payload, entry.mime, signature)
        record_id, concurrent_to = _links(record)
        request = None
        if record.type == "request" and head is not None and head.method not in ("GET", "HEAD", ""):
            request = head.method, block.cut(start)[1], head.headers.get("Content-Type") or ""
        return RecordDraft(entry, kept, signature, b"", "", record_id, concurrent_to, request)

    def _entry(
        self, record: Record, framed: tuple[bytes, str], size: int, facts: dict[str, str], head: HttpHead | None
    ) -> JournalEntry:
        data, layout = framed
        timestamp, extra = record.timestamp, facts["extra"]
        if not timestamp:
            timestamp, found_in = self._dated(record, head)
            extra = _with_mark(extra, "dateFrom", found_in)
        self.last_timestamp = timestamp if timestamp != _NO_DATE else self.last_timestamp
        return JournalEntry(
            _type_of(record.type),
            one_line(record.url),
            timestamp,
            data,
            0,
            one_line(record.ip),
            self.collection,
            record.format,
            facts["status"],
            facts["mime"],
            facts["digest"],
            size,
            "-",
            "-",
            layout,
            one_line(self.filename),
            record.offset,
            record.length,
            facts["refers_to"],
            extra,
        )

    def _dated(self, record: Record, head: HttpHead | None) -> tuple[str, str]:
        """A time for a record with an unreadable date, and its source."""
        date = record.headers.get(_DATE_FIELDS[record.format.partition("/")[0]]) or ""
        if left := partial_timestamp(date):
            return left, "part"
        if head is not None and (sent := mail_timestamp(head.headers.get("Date") or "")):
            return sent, "http"
        return (self.last_timestamp, "neighbour") if self.last_timestamp else (_NO_DATE, "none")

    def large_draft(self, record: Record, spool: Path) -> RecordDraft:
        """Reads a record that is too large for memory; its payload goes to the file `spool`.

        Raises MalformedInput in strict mode if it is damaged, and deletes the file.
        """
        result = _LargeDraft()
        try:
            with spool.open("xb") as file:
                for is_payload, run in _runs(record, result):
                    if is_payload:
                        result.payload(run)
                        file.write(run)
                    else:
                        result.literal(run)
            record.finish()
        except BaseException:
            spool.unlink(missing_ok=True)
            raise
        facts = _facts(record, result.head)
        if facts["digest"] == "-" and record.type != "revisit":
            facts["digest"] = digest_text("sha1", result.sha1.digest())
        framed = _framed(record, b"".join(result.literals), tuple(result.lengths))
        entry = self._entry(record, framed, result.size, facts, result.head)
        record_id, concurrent_to = _links(record)
        return RecordDraft(entry, record_id=record_id, concurrent_to=concurrent_to, spooled=spool)

    def complete(self, drafts: Sequence[RecordDraft]) -> None:
        """Matches requests with responses, and computes what does not need the archive."""
        pair_requests(drafts)
        _date_by_next(drafts)
        for draft in drafts:
            if draft.signature or not draft.payload:
                draft.mark = fingerprint(draft.entry, (draft.signature,) if draft.signature else ())
            if is_captured(draft.entry):
                draft.urlkey = urlkey_of(draft.entry)


@dataclass(slots=True)
class _LargeDraft:
    """A large record while it is read: its layout so far."""

    lengths: list[int] = field(default_factory=lambda: [0])  # of literal and payload runs in turn
    literals: list[bytes] = field(default_factory=list)
    head: HttpHead | None = None
    size: int = 0
    literal_size: int = 0
    sha1: hashlib._Hash = field(default_factory=lambda: hashlib.sha1(usedforsecurity=False))

    def literal(self, run: bytes) -> None:
        if len(self.lengths) % 2 == 0:
            self.lengths.append(0)
        self.lengths[-1] += len(run)
        self.literals.append(run)
        self.literal_size += len(run)

    def payload(self, run: bytes) -> None:
        if len(self.lengths) % 2:
            self.lengths.append(0)
        self.lengths[-1] += len(run)
        self.size += len(run)
        self.sha1.update(run)


def payload_runs(record: Record) -> Iterator[bytes]:
    """The payload of a record without the framing of chunks, in runs of bounded size."""
    return (run for is_payload, run in _runs(record, _LargeDraft()) if is_payload and run)


def _runs(record: Record, result: _LargeDraft) -> Iterator[tuple[bool, bytes]]:
    """The block in runs of literal and payload."""
    first = record.block.read(1 << 20)
    if not record.has_http or (head := parse_head(first)) is None:
        while first:
            yield True, first
            first = record.block.read(1 << 20)
        return
    result.head = head
    unframer = Unframer(head)
    while first and result.literal_size <= _LITERAL_BYTES_MAX and len(result.lengths) <= _RUNS_MAX:
        yield from unframer.feed(first)
        first = record.block.read(1 << 20)
    yield from unframer.finish()
    while first:
        yield True, first
        first = record.block.read(1 << 20)


def _unzipped_message(record: Record, block: BytesBlock) -> bytes:
    """The message in a Tianwang record whose data is compressed; empty for all others."""
    if record.format != "tianwang/1.0" or "unzip-length" not in record.headers:
        return b""
    return unzipped(block.whole())


def _head_size(record: Record, block: BytesBlock) -> int:
    """Of the message in a request whose head was not parsed."""
    if not record.has_http or record.type != "request":
        return 0
    data = block.whole()
    end = data.find(b"\r\n\r\n")
    return end + 4 if end >= 0 else len(data)


def _framed(record: Record, literals: bytes, runs: tuple[int, ...]) -> tuple[bytes, str]:
    """The literals of the whole record, and the layout that goes with them."""
    lengths = list(runs)
    lengths[0] += len(record.head)
    if len(lengths) % 2:
        lengths[-1] += len(record.tail)
    else:
        lengths.append(len(record.tail))
    return record.head + literals + record.tail, "+".join(map(str, lengths))


def _facts(record: Record, head: HttpHead | None) -> dict[str, str]:
    """The catalog's fields of a record, from its header and that of the HTTP message."""
    fields = record.headers.first()
    status = mime = refers_to = extra = "-"
    if head is not None and record.type != "request":
        status = str(head.status) if head.status else "-"
        mime = catalog_mime(head.headers.get("Content-Type"))
        if status in _REDIRECTS and (location := head.headers.get("Location")):
            extra = json.dumps({"redirect": location})
    elif head is None:
        mime = catalog_mime(fields.get("content-type"))
    if record.type == "revisit":
        mime = REVISIT_MIME
        refers_to = refers_to_of(record)
    digest = fields.get("warc-payload-digest", "-")
    if digest != "-" and (record.truncated or not _DIGEST.fullmatch(digest)):
        digest = "-"
    extra = marked(extra, record)
    return {"status": status, "mime": mime, "digest": digest, "refers_to": refers_to, "extra": extra}


def marked(extra: str, record: Record) -> str:
    """`extra` with the marks of an incomplete record, or of one with a wrong length. The record must be finished."""
    fields = record.headers.first()
    if record.truncated or "warc-truncated" in fields:
        extra = _with_mark(extra, "truncated", one_line(fields.get("warc-truncated", CUT_IN_FILE)))
    if record.findings and block_length(record.format, record.head) != record.content_length:
        extra = _with_mark(extra, "block", record.content_length)
    return extra


def _with_mark(extra: str, name: str, value: str | int) -> str:
    return json.dumps(({} if extra == "-" else json.loads(extra)) | {name: value})


def _date_by_next(drafts: Sequence[RecordDraft]) -> None:
    """Records at the beginning of a file with an unreadable date get that of the next one."""
    dated = next((draft.entry.timestamp for draft in drafts if '"dateFrom": "none"' not in draft.entry.extra), "")
    for draft in drafts:
        if '"dateFrom": "none"' not in draft.entry.extra:
            break
        if dated:
            extra = _with_mark(draft.entry.extra, "dateFrom", "neighbour")
            draft.entry = draft.entry._replace(timestamp=dated, extra=extra)


@lru_cache(maxsize=256)
def _type_of(kind: str) -> str:
    """The type of an imported record; never one of the journal's own types."""
    kind = one_line(kind)
    return f"foreign-{kind}" if kind in (CHECKPOINT, FILE_HEAD, REFERENCE, REMOVED, SOURCE) else kind


@lru_cache(maxsize=1024)
def catalog_mime(content_type: str | None) -> str:
    """The MIME type as the catalog has it: without parameters, otherwise as the server wrote it; '-' if unknown."""
    return one_line(content_type.partition(";")[0].strip().partition(" ")[0]) if content_type else "-"


def refers_to_of(record: Record) -> str:
    """The original that a revisit names: timestamp, a space, URL."""
    url = one_line(record.headers.get("WARC-Refers-To-Target-URI") or "-")
    date = record.headers.get("WARC-Refers-To-Date")
    refers_to = f"{(warc_timestamp(date) if date else '') or '-'} {url}"
    return "-" if refers_to == "- -" else refers_to


def _links(record: Record) -> tuple[str, tuple[str, ...]]:
    fields = record.headers.first()
    concurrent_to = record.headers.get_all("warc-concurrent-to") if "warc-concurrent-to" in fields else ()
    return fields.get("warc-record-id", ""), tuple(concurrent_to)


def pair_requests(drafts: Sequence[RecordDraft]) -> None:
    """Adds method and body to the keys of responses to requests other than GET.

    A request belongs to the response before or after it with its URL, or to the one that WARC-Concurrent-To names.
    """
    for index, draft in enumerate(drafts):
        if draft.request is None:
            continue
        for neighbour in (index - 1, index + 1):
            if 0 <= neighbour < len(drafts) and _belongs(draft, drafts[neighbour]):
                other = drafts[neighbour]
                other.entry = other.entry._replace(extra=_with_method(other.entry, *draft.request))
                break


def _belongs(request: RecordDraft, other: RecordDraft) -> bool:
    if other.entry.type not in ("response", "revisit") or other.entry.url != request.entry.url:
        return False
    tied = {*request.concurrent_to, *other.concurrent_to}
    return not tied or request.record_id in tied or other.record_id in tied


def _with_method(entry: JournalEntry, method: str, body: bytes, content_type: str) -> str:
    extra = _with_mark(entry.extra, "method", method.upper())
    keyed = post_key("", method, body, content_type).removeprefix(f"?__wb_method={method.upper()}")
    return _with_mark(extra, "requestBody", keyed.removeprefix("&")) if keyed else extra
