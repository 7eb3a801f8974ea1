"""Streams over HTTP: `/<coll>/stream`, captures in bulk, each once, resumable (B2, B10, N5).

    GET ──► admitted? ──► options ──► consumer of a shared scan ──► batch ──► what rules allow ──► bytes, token ──► ...
                                           ▲                                                           │
                                           └────────── the next one, when the client has taken it ─────┘

A batch is read and encoded in a thread; the next one only after the client has taken what was sent. A disconnected
client is noticed then, and leaves the scan. Captures that access rules do not allow are left out.

The token after each batch is where readers of the format ignore it:

    jsonl   a line of its own: {"token": "..."}
    warc    a record of type metadata, application/warc-fields: holdfast-token: ...
    arrow   metadata of the record batch: token
    raw     a length with its highest bit set, then the token
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.arguments import nearest
from holdfast.catalog import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.catalog.query.query import flag
from holdfast.env.files import Buffer
from holdfast.errors import UnknownName, UsageError
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, record_id, record_parts
from holdfast.streams import StreamBatch, StreamOptions
from holdfast.streams.batch import arrow_schema
from holdfast.streams.options import BATCH_SIZE_MAX, FACTS
from holdfast.streams.outputs import Output, find_output
from holdfast.streams.stream import Feed
from holdfast.web.api.cdx.dialects import parse_params
from holdfast.web.context import WebContext
from holdfast.web.replay.response import gathered
from holdfast.web.request import RequestTargetPath, require_reading

TYPES = {
    "jsonl": "application/x-ndjson",
    "warc": "application/warc",
    "arrow": "application/vnd.apache.arrow.stream",
    "raw": "application/octet-stream",
}
TOKEN, COMPLETE = "holdfast-token", "holdfast-complete"  # headers of a response with a limit
RAW_MARK = 1 << 63
_OF_CAPTURES = {"url": "url", "matchType": "match", "toUrl": "to_url", "from": "from_", "to": "to"}
_OF_STREAMS = ("query", "batch", "order", "which", "at", "token", "shard")
_KNOWN = (*_OF_CAPTURES, *_OF_STREAMS, "filter", "fields", "format", "limit", "shared", "reverse")
_REPEATED = "filter"
_LIMIT = re.compile(r"[1-9]\d{0,5}", re.ASCII)
_threads: RunVar[anyio.CapacityLimiter] = RunVar("holdfast-streams")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamRequest:
    options: StreamOptions
    form: str
    output: Output
    limit: int | None = None  # maximum of captures in this response
    any_order: bool = False


def parse_stream_request(text: str, collection: str | None) -> StreamRequest:
    """Raises UsageError, UnknownName, MalformedQuery and MalformedToken."""
    params = parse_params(text)
    given: dict[str, str] = {}
    for name, value in params:
        if name not in _KNOWN:
            raise UsageError(f"unknown parameter {name[:40]!r}{nearest(name, _KNOWN)}")
        if name in given and name != _REPEATED:
            raise UsageError(f"parameter {name!r} is given more than once")
        given[name] = value
    form = given.get("format") or "jsonl"
    if form not in TYPES:
        raise UnknownName(f"unknown format {form[:40]!r}: known are {', '.join(TYPES)}")
    fields = tuple(filter(None, given.get("fields", "").replace(" ", "").split(",")))
    output = _Arrow(fields or (*FACTS, "payload")) if form == "arrow" else find_output(form, fields)
    limit = given.get("limit", "")
    if limit and (not _LIMIT.fullmatch(limit) or int(limit) > BATCH_SIZE_MAX):
        raise UsageError(f"bad limit {limit[:40]!r}: a whole number from 1 to {BATCH_SIZE_MAX}")
    captures: dict[str, Any] = {field: given[name] for name, field in _OF_CAPTURES.items() if given.get(name)}
    filters = tuple(value for name, value in params if name == _REPEATED)
    options = StreamOptions(
        collection=collection,
        captures=CaptureQuery(**{"url": "*", **captures}, filters=filters) if captures or filters else None,
        reverse=flag("reverse", given.get("reverse", "")),
        fields=output.fields,
        **{name: given[name] for name in _OF_STREAMS if given.get(name)},  # type: ignore[arg-type]
    )
    if limit:
        options = replace(options, batch_size=int(limit))
    any_order = flag("shared", given.get("shared", ""))
    return StreamRequest(options, form, output, int(limit) if limit else None, any_order)


async def stream(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """Raises UsageError, MalformedQuery, UnknownName, IndexNotFound and Throttled, all before the first byte."""
    require_reading(request, "a stream")
    if site.is_clustered:
        collection = await _in_thread(site, lambda: site.known_collection(target.collection))
    else:
        collection = site.collection(target.collection)
    asked = parse_stream_request(target.url, collection)
    headers = {"content-type": TYPES[asked.form], "cache-control": "no-store", "x-content-type-options": "nosniff"}
    if request.method == "HEAD":
        return StreamingResponse(iter(()), headers=headers)  # without a length, which is unknown
    with ExitStack() as stack:
        stack.enter_context(site.streams.admitted(request.client.host if request.client is not None else ""))
        consumer: Feed
        if site.is_clustered:
            consumer = await _in_thread(site, lambda: site.answers.stream(asked.options))
            stack.callback(consumer.close)
        else:
            joined = await _in_thread(site, lambda: site.streams.join(asked.options, any_order=asked.any_order))
            stack.callback(site.streams.leave, joined)
            consumer = joined
        pieces = _whole(site, asked, consumer) if asked.limit is None else _limited(site, asked, consumer, headers)
        first = await _in_thread(site, lambda: next(pieces, None))  # errors up to here become a status
        return _StreamResponse(_sent(site, pieces, first), headers, stack.pop_all())


class _StreamResponse(StreamingResponse):
    """Leaves the scan however it ends, also before its first byte."""

    def __init__(self, pieces: AsyncIterator[bytes], headers: dict[str, str], held: ExitStack) -> None:
        super().__init__(pieces, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._held.close)


async def _sent(site: WebContext, pieces: Iterator[bytes], piece: bytes | None) -> AsyncIterator[bytes]:
    while piece is not None:
        if piece:
            yield piece
        piece = await _in_thread(site, lambda: next(pieces, None))


async def _in_thread(site: WebContext, function: Callable[[], T]) -> T:
    """In a thread reserved for streams: there is one for each stream that may run."""
    try:
        limiter = _threads.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(site.settings.streams_max + 1)
        _threads.set(limiter)
    return await anyio.to_thread.run_sync(function, limiter=limiter)


def _whole(site: WebContext, asked: StreamRequest, consumer: Feed) -> Iterator[bytes]:
    """The rest of the stream, each batch with its token."""
    begin = asked.output.begin()
    for batch in consumer.batches():
        yield from gathered(chain((begin,), asked.output.encode(_allowed(site, batch))))
        begin = _mark(asked.form, batch.token)
    yield begin + asked.output.end()


def _limited(site: WebContext, asked: StreamRequest, consumer: Feed, headers: dict[str, str]) -> Iterator[bytes]:
    """One batch. Its token is known before the first byte, and goes into the headers."""
    batch = next(consumer.batches(asked.limit), None)
    headers |= {TOKEN: consumer.token, COMPLETE: "false" if consumer.left else "true"}
    pieces = asked.output.encode(_allowed(site, batch)) if batch is not None else ()
    yield from gathered(chain((asked.output.begin(),), pieces))
    yield asked.output.end()


def _allowed(site: WebContext, batch: StreamBatch) -> StreamBatch:
    if site.access.is_open:
        return batch
    pages = [page for page in batch if site.access.verdict(page.capture) is Verdict.ALLOW]
    return StreamBatch(pages, batch.make_token)


def _mark(form: str, token: str) -> bytes:
    match form:
        case "jsonl":
            return json.dumps({"token": token}).encode() + b"\n"
        case "raw":
            return (RAW_MARK | len(token)).to_bytes(8, "big") + token.encode()
        case "warc":
            now = datetime.now(UTC).strftime("%Y%m%d%H%M%S")
            head = WarcHead("metadata", now, record_id(sha256(token.encode()).digest()[:ID_BYTES]))
            return b"".join(record_parts(head, [f"{TOKEN}: {token}\r\n".encode()], "1.1"))
        case _:
            return b""  # part of the record batch


class _Arrow:
    """An Arrow stream with the token in the metadata of each record batch."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.fields = fields
        self._sink = io.BytesIO()
        self._writer: Any = None

    def begin(self) -> bytes:
        import pyarrow

        self._writer = pyarrow.ipc.new_stream(self._sink, arrow_schema(self.fields))
        return self._written()

    def encode(self, batch: StreamBatch) -> Iterable[Buffer]:
        self._writer.write_batch(batch.to_arrow(self.fields), custom_metadata={"token": batch.token})
        return [self._written()]

    def end(self) -> bytes:
        self._writer.close()
        return self._written()

    def _written(self) -> bytes:
        written = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return written
