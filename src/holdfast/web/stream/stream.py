"""Streams over HTTP: `/<coll>/stream`, captures in bulk, each once, and from where a client stopped (B2, B10, N5).

    GET ──► admitted? ──► options ──► consumer of a shared scan ──► batch ──► what rules allow ──► bytes, token ──► ...
                                           ▲                                                           │
                                           └────────── the next one, when the client has taken it ─────┘

A batch is read and encoded in a thread, and the next one not before the client has taken what was sent. A client that
is gone is noticed then, and its part in the scan ends. Nothing leaves that an access rule does not allow.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.catalog import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.catalog.query.fields import nearest
from holdfast.catalog.query.grammar import flag
from holdfast.errors import UsageError
from holdfast.streams import Consumer, StreamBatch, StreamOptions
from holdfast.streams.options import BATCH_SIZE_MAX
from holdfast.web.cdx.dialects import parse_params
from holdfast.web.context import WebContext
from holdfast.web.request import RequestTargetPath
from holdfast.web.stream.framing import FORMATS, Marked, marked

TOKEN, COMPLETE = "holdfast-token", "holdfast-complete"  # of an answer with a limit
_OF_CAPTURES = {"url": "url", "matchType": "match", "toUrl": "to_url", "from": "from_", "to": "to"}
_OF_STREAMS = ("query", "batch", "order", "which", "at", "token")
_KNOWN = (*_OF_CAPTURES, *_OF_STREAMS, "filter", "shard", "fields", "format", "limit", "shared", "reverse")
_REPEATED = "filter"
_LIMIT = re.compile(r"[1-9]\d{0,5}", re.ASCII)
_SHARD = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)
_PIECE = 256 << 10  # bytes that are worth a way to another thread and back
_threads: RunVar[anyio.CapacityLimiter] = RunVar("holdfast-streams")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client asks for."""

    options: StreamOptions
    output: Marked
    limit: int | None = None  # captures of this answer; the next one goes on
    any_order: bool = False

    @property
    def headers(self) -> dict[str, str]:
        return {
            "content-type": self.output.content_type,
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }


def parse_wish(text: str, collection: str | None) -> Wish:
    """Raises UsageError, MalformedQuery and MalformedToken."""
    params = parse_params(text)
    given: dict[str, str] = {}
    for name, value in params:
        if name not in _KNOWN:
            raise UsageError(f"unknown parameter {name[:40]!r}{nearest(name, _KNOWN)}")
        if name in given and name != _REPEATED:
            raise UsageError(f"the parameter {name!r} comes more than once: give it once")
        given[name] = value
    fields = tuple(filter(None, given.get("fields", "").replace(" ", "").split(",")))
    output = marked(given.get("format") or FORMATS[0], fields)
    limit = given.get("limit", "")
    if limit and (not _LIMIT.fullmatch(limit) or int(limit) > BATCH_SIZE_MAX):
        raise UsageError(f"bad limit {limit[:40]!r}: a whole number from 1 to {BATCH_SIZE_MAX}")
    texts = {name: given[name] for name in _OF_STREAMS if given.get(name)}
    filters = tuple(value for name, value in params if name == _REPEATED)
    options = StreamOptions(
        collection=collection,
        captures=_captures(given, filters),
        shard=_shard(given.get("shard", "")),
        reverse=flag("reverse", given.get("reverse", "")),
        fields=output.fields,
        **texts,  # type: ignore[arg-type]
    )
    if limit:
        options = replace(options, batch_size=int(limit))
    return Wish(options, output, int(limit) if limit else None, flag("shared", given.get("shared", "")))


def _captures(given: dict[str, str], filters: tuple[str, ...]) -> CaptureQuery | None:
    asked = {field: given[name] for name, field in _OF_CAPTURES.items() if given.get(name)}
    if not asked and not filters:
        return None
    return CaptureQuery(**{"url": "*", **asked}, filters=filters)  # type: ignore[arg-type]


def _shard(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = _SHARD.fullmatch(text)
    if match is None:
        raise UsageError(f"bad shard {text[:40]!r}: give I/N, such as 0/4 for the first of four")
    return int(match[1]), int(match[2])


async def stream(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """Raises UsageError, MalformedQuery, UnknownName, IndexNotFound and Throttled, all before the first byte."""
    if request.method not in ("GET", "HEAD"):
        raise UsageError(f"streams are asked for by GET or HEAD, not by {request.method}")
    wish = parse_wish(target.url, site.collection(target.collection))
    if request.method == "HEAD":
        return Response(b"", headers=wish.headers)
    with ExitStack() as stack:
        stack.enter_context(site.streams.admitted(request.client.host if request.client is not None else ""))
        consumer = await _in_thread(site, lambda: site.streams.join(wish.options, any_order=wish.any_order))
        stack.callback(site.streams.leave, consumer)
        sending = Sending(site, wish, consumer)
        first = await _in_thread(site, sending.begin)
        pieces = _pieces(site, sending, first)
        return _Answer(pieces, wish.headers | sending.told, stack.pop_all())


class _Answer(StreamingResponse):
    """Whatever ends it, also before its first byte, ends its part in the scan."""

    def __init__(self, pieces: AsyncIterator[bytes], headers: dict[str, str], held: ExitStack) -> None:
        super().__init__(pieces, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._held.close)


async def _pieces(site: WebContext, sending: Sending, first: bytes) -> AsyncIterator[bytes]:
    piece: bytes | None = first
    while piece is not None:
        if piece:
            yield piece
        piece = await _in_thread(site, sending.next)


async def _in_thread(site: WebContext, function: Callable[[], T]) -> T:
    """In threads that are kept for streams: as many as may run, so that none waits for another."""
    try:
        limiter = _threads.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(site.settings.streams_max + 1)
        _threads.set(limiter)
    return await anyio.to_thread.run_sync(function, limiter=limiter)


class Sending:
    """One stream on its way to its client. One thread at a time."""

    def __init__(self, site: WebContext, wish: Wish, consumer: Consumer) -> None:
        self._site = site
        self._wish = wish
        self._output = wish.output
        self._consumer = consumer
        self._pieces = self._all() if wish.limit is None else self._one()
        self.told: dict[str, str] = {}  # in the head of an answer with a limit

    def begin(self) -> bytes:
        """The first bytes, when the first batch is there: what fails until then is told by a status."""
        return self.next() or b""

    def next(self) -> bytes | None:
        """Some more bytes; None at the end."""
        return next(self._pieces, None)

    def _all(self) -> Iterator[bytes]:
        """What is left, each batch with its mark."""
        some = self._output.begin()
        for batch in self._consumer.batches():
            yield from self._gathered(batch, some)
            some = self._output.mark(batch.token)
        yield some + self._output.end()

    def _one(self) -> Iterator[bytes]:
        """One batch. The token is known before its first byte, and stands in the head of the answer."""
        batch = next(self._consumer.batches(self._wish.limit), None)
        self.told = {TOKEN: self._consumer.token, COMPLETE: "false" if self._consumer.left else "true"}
        begin = self._output.begin()
        if batch is None:
            yield begin
        else:
            yield from self._gathered(batch, begin)
        yield self._output.end()

    def _gathered(self, batch: StreamBatch, begin: bytes) -> Iterator[bytes]:
        """The batch behind what comes before it, in parts that are worth a way to another thread and back."""
        some, size = [begin], len(begin)
        for piece in self._output.encode(self._allowed(batch)):
            some.append(bytes(piece))
            size += len(piece)
            if size >= _PIECE:
                yield b"".join(some)
                some, size = [], 0
        yield b"".join(some)

    def _allowed(self, batch: StreamBatch) -> StreamBatch:
        """Without what a rule excludes or blocks."""
        access = self._site.access
        if access.is_open:
            return batch
        pages = [page for page in batch if access.verdict(page.capture) is Verdict.ALLOW]
        return StreamBatch(pages, batch.make_token)
