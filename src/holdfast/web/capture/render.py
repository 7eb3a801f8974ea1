"""Replay: a capture as the answer to a request, rewritten unless its bytes are wanted as they are.

Documents asked for at another time than that of their capture are sent to the exact one first, so that all their parts
are asked for at the time of the page; parts themselves are answered with the capture nearest to it. Where captures may
not be newer than the time that is asked for, that time stays in all addresses (`finding.shown_at`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope

from holdfast.errors import CaptureNotFound, TooLarge
from holdfast.formats.http import HTML_TYPES
from holdfast.model import Capture
from holdfast.urls import canonical
from holdfast.web import runtime
from holdfast.web.capture.cache import CachedReply
from holdfast.web.capture.csp import Policies, policy_of
from holdfast.web.capture.find import Finder, shown_at
from holdfast.web.capture.kinds import DOCUMENTS, CaptureKind, kind_of, use_of
from holdfast.web.capture.response import Archived, read
from holdfast.web.context import WebContext
from holdfast.web.memento import memento
from holdfast.web.request import RequestInfo, RequestTargetPath, body_range, small_body
from holdfast.web.rewrite.addresses import Scene
from holdfast.web.rewrite.content import rewritten
from holdfast.web.rewrite.headers import archived_headers, octets

STREAMED = 1 << 20  # larger payloads are not gathered in memory
_ON_LOOP = 64 << 10  # to rewrite more than this takes long enough to let others go on
_CODE_BYTES_MAX = 8 << 20  # of a script or a style sheet: dense code takes a microsecond for each byte
_PAGE_BEGINS = re.compile(
    rb"[\s\0\xef\xbb\xbf]*+(?:<!--.{0,1000}?-->\s*+)?+"
    rb"<(?:!doctype html|html|head|title|body|script|iframe|style|table|div|font|h1|b|a|br|p)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_OK = 200
_SLASHES_BEFORE_PATH = 2  # of a URL; without a third one, browsers would join what is relative to it wrongly
_NO_BODY = frozenset((204, 205, 304))
Header = tuple[bytes, bytes]


class Flow(NamedTuple):
    """An answer whose body is read while it is sent."""

    status: int
    headers: list[Header]
    pieces: Iterator[bytes]


class Replayer:
    """Answers for one origin. For the thread of the event loop."""

    def __init__(self, site: WebContext, *, on_controls: bool) -> None:
        self._site = site
        self._on_controls = on_controls
        self._records = site.archive.records
        self._policies = Policies(site.controls_origin)
        self.finder = Finder(site)

    async def answer(
        self, target: RequestTargetPath, asked: RequestInfo, scope: Scope, receive: Receive
    ) -> CachedReply | Flow:
        """Raises CaptureNotFound, Blocked, and what reading may."""
        capture = await self._find(target, asked, scope, receive)
        time = shown_at(self._site, target, capture)
        if self._is_approximate(target, asked, capture, time):
            return self._to_exact(target, capture, time)
        kind = self._kind(target, asked, capture)
        use = use_of(
            asked.dest
        )  # decides the kind together with the record; a browser keeps one answer for each address
        seen_from = "" if time == capture.timestamp else f"-{time}"
        etag = f'"{capture.record}{seen_from}-{target.modifier or "mp_"}{use}-{runtime.VERSION}"'
        links = memento.headers(self._site, capture, target)
        if asked.etag and etag in asked.etag:
            return CachedReply(304, [(b"etag", etag.encode()), *links], b"")
        key = (capture.record, target.prefix, time, target.modifier, use, asked.encodings, asked.range)
        reply = self._site.replies.get(key)
        if reply is None:
            made = await self._make(target, asked, capture, kind, time)
            if isinstance(made, Flow):
                return made._replace(headers=[*made.headers, (b"etag", etag.encode()), *links])
            reply = made
            self._site.replies.put(key, reply)
            self._site.counters.add("cache_misses")
        else:
            self._site.counters.add("cache_hits")
        return reply._replace(headers=[*reply.headers, (b"etag", etag.encode()), *links])

    async def _find(self, target: RequestTargetPath, asked: RequestInfo, scope: Scope, receive: Receive) -> Capture:
        collection = self._site.collection(target.collection)
        if asked.method in ("GET", "HEAD"):
            return self.finder.find(collection, target.url, target.timestamp, target.pick)
        body = await small_body(scope, receive)
        posted = (body, asked.content_type)
        return self.finder.find_posted(collection, target.url, target.timestamp, asked.method, posted, target.pick)

    def _is_approximate(self, target: RequestTargetPath, asked: RequestInfo, capture: Capture, time: str) -> bool:
        """Whether a document has to be asked for again at the time that it is shown at."""
        is_exact = time == target.timestamp and target.url.count("/") > _SLASHES_BEFORE_PATH
        if is_exact or target.modifier not in ("mp_", "if_", "fr_"):
            return False
        return asked.method in ("GET", "HEAD") and capture.mime in HTML_TYPES and asked.dest in (*DOCUMENTS, "")

    def _to_exact(self, target: RequestTargetPath, capture: Capture, time: str) -> CachedReply:
        url = target.url if target.url.count("/") > _SLASHES_BEFORE_PATH else canonical(target.url) or target.url
        address = f"{target.prefix}{time}{target.modifier}/{url}"
        location = (b"location", address.encode("utf-8", "surrogateescape"))
        return CachedReply(302, [location, *memento.headers(self._site, capture, target)], b"")

    def _kind(self, target: RequestTargetPath, asked: RequestInfo, capture: Capture) -> CaptureKind:
        if target.modifier == "id_":
            return CaptureKind.PLAIN
        return kind_of(capture.mime, target.modifier, asked.dest, capture.url)

    # -- an answer made -----------------------------------------------------------------------------------------

    async def _make(
        self, target: RequestTargetPath, asked: RequestInfo, capture: Capture, kind: CaptureKind, time: str
    ) -> CachedReply | Flow:
        archived = read(self._records, capture)
        if (
            target.modifier != "id_" and archived.mime != capture.mime
        ):  # a revisit's row may not tell, or none was named
            kind = self._looked_into(archived, target, asked)
        scene = Scene(target.prefix, time, capture.url, modifier=target.modifier or "mp_")
        if kind is CaptureKind.PLAIN or archived.status in _NO_BODY:
            return await self._plain(archived, asked, scene)
        if archived.size > self._limit(kind):
            return await self._unrewritten(archived, asked, scene, kind)
        if archived.size <= _ON_LOOP:
            try:
                return self._rewritten(archived.plain(_ON_LOOP), archived, scene, kind)
            except TooLarge:
                pass  # its encodings hide more
        try:
            plain = await run_in_threadpool(archived.plain, self._limit(kind))
        except TooLarge:
            return await self._unrewritten(archived, asked, scene, kind)
        return await run_in_threadpool(self._rewritten, plain, archived, scene, kind)

    def _looked_into(self, archived: Archived, target: RequestTargetPath, asked: RequestInfo) -> CaptureKind:
        """What a capture is whose row does not tell; without a type, a page if it begins like one, as for browsers."""
        mime = archived.mime
        if not mime and archived.size <= STREAMED and _PAGE_BEGINS.match(archived.plain(STREAMED)):
            mime = "text/html"
        return kind_of(mime, target.modifier, asked.dest, archived.capture.url)

    def _limit(self, kind: CaptureKind) -> int:
        limit = self._site.settings.rewrite_bytes_max
        return limit if kind is CaptureKind.HTML else min(limit, _CODE_BYTES_MAX)

    async def _unrewritten(
        self, archived: Archived, asked: RequestInfo, scene: Scene, kind: CaptureKind
    ) -> CachedReply | Flow:
        """What is too large to be rewritten is sent as it is, but for pages. Raises TooLarge."""
        if kind is not CaptureKind.HTML:
            return await self._plain(archived, asked, scene)
        url, limit = archived.capture.url, self._limit(kind)
        raise TooLarge(f"'{url}' is a page of more than {limit} bytes; raise 'serve.rewrite_bytes_max'")

    def _rewritten(self, plain: bytes, archived: Archived, scene: Scene, kind: CaptureKind) -> CachedReply:
        body, content_type = rewritten(plain, archived, scene, kind, self._site.controls_origin)
        headers = [
            *self._headers(archived, scene, is_page=kind is CaptureKind.HTML, keeps_encoding=False),
            (b"content-type", octets(content_type)),
            (b"content-length", b"%d" % len(body)),
        ]
        return CachedReply(archived.status, headers, body)

    async def _plain(self, archived: Archived, asked: RequestInfo, scene: Scene) -> CachedReply | Flow:
        keeps, body = True, None
        if archived.encoding and not asked.understands(archived.encoding):
            try:
                body = await run_in_threadpool(archived.plain, self._site.settings.rewrite_bytes_max)
                keeps = False
            except TooLarge:
                pass  # as it is, then: the client may know what to do with it
        headers = self._headers(archived, scene, is_page=False, keeps_encoding=keeps)
        if content_type := archived.headers.get("content-type"):
            headers.append((b"content-type", octets(content_type)))
        if archived.status in _NO_BODY:
            return CachedReply(archived.status, headers, b"")
        if body is not None:
            return CachedReply(archived.status, [*headers, (b"content-length", b"%d" % len(body))], body)
        return await self._ranged(archived, asked, headers)

    async def _ranged(self, archived: Archived, asked: RequestInfo, headers: list[Header]) -> CachedReply | Flow:
        size = archived.size
        status = archived.status
        wanted = body_range(asked.range, size) if asked.range and status == _OK else None
        if status == _OK:
            headers.append((b"accept-ranges", b"bytes"))
        if wanted is False:
            return CachedReply(416, [(b"content-range", b"bytes */%d" % size), (b"content-length", b"0")], b"")
        begin, end = wanted if isinstance(wanted, tuple) else (0, size)
        if wanted is not None:
            status = 206
            headers.append((b"content-range", b"bytes %d-%d/%d" % (begin, end - 1, size)))
        headers.append((b"content-length", b"%d" % (end - begin)))
        if size > STREAMED:
            assert archived.record is not None
            payload = await run_in_threadpool(self._site.spool.payload, archived.record.id, archived)
            _verify(archived, payload.size)
            return Flow(status, headers, payload.parts(begin, end))
        body = archived.payload()
        _verify(archived, len(body))
        return CachedReply(status, headers, body if wanted is None else body[begin:end])

    def _headers(self, archived: Archived, scene: Scene, *, is_page: bool, keeps_encoding: bool) -> list[Header]:
        headers = archived_headers(archived.headers, scene, keeps_encoding=keeps_encoding)
        is_raw = self._on_controls or scene.modifier == "id_"
        headers += self._policies[policy_of(archived.mime, is_page=is_page, is_raw=is_raw)]
        if archived.original_status:
            headers.append((b"x-archive-orig-status", b"%d" % archived.original_status))
        return [*headers, (b"vary", b"accept-encoding"), (b"cache-control", b"no-cache")]


def _verify(archived: Archived, size: int) -> None:
    """What was announced must be what is sent. Raises CaptureNotFound."""
    if size != archived.size:
        raise CaptureNotFound(f"the payload of '{archived.capture.url}' has not the length that is noted")
