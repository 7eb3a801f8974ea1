"""Replay: a capture as the response to a request, rewritten unless the raw bytes are requested.

A document requested at another time than its capture's is first redirected to the exact time, so that its parts are
requested at the time of the page; a part is served from its nearest capture. Under the pick `not-newer`, addresses keep
the requested time (`find.shown_at`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import Receive, Scope

from holdfast.errors import CaptureNotFound, TooLarge
from holdfast.formats.http import HTML_TYPES
from holdfast.model import Capture
from holdfast.urls import canonical
from holdfast.web.context import WebContext
from holdfast.web.memento import memento
from holdfast.web.replay.cache import CachedReply
from holdfast.web.replay.csp import Header, Policy, policy_headers, policy_of
from holdfast.web.replay.find import Finder, shown_at
from holdfast.web.replay.response import Archived, read
from holdfast.web.replay.rules import renamed
from holdfast.web.request import (
    DOCUMENTS,
    KEYED_BODY_BYTES_MAX,
    READING,
    RequestInfo,
    RequestTargetPath,
    body_of,
    body_range,
    content_range,
)
from holdfast.web.rewrite import runtime
from holdfast.web.rewrite.addresses import Scene
from holdfast.web.rewrite.content import CaptureKind, kind_of, rewritten, use_of
from holdfast.web.rewrite.headers import archived_headers, octets

STREAMED = 1 << 20  # larger payloads are not gathered in memory
_ON_LOOP = 64 << 10  # larger documents are rewritten in a thread
REWRITE_BYTES_MAX = 32 << 20  # larger pages are refused
_CODE_BYTES_MAX = 8 << 20  # of a script or a style sheet: dense code takes a microsecond per byte
_PAGE_BEGINS = re.compile(
    rb"[\s\0\xef\xbb\xbf]*+(?:<!--.{0,1000}?-->\s*+)?+"
    rb"<(?:!doctype html|html|head|title|body|script|iframe|style|table|div|font|h1|b|a|br|p)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_REPLIES_MIN = 8  # that fit into the cache: a larger reply would evict too many others
_OK, _PARTIAL = 200, 206
_PART = str(_PARTIAL)
_RANGE_END = 1 << 62  # of something of unknown size
_SLASHES_BEFORE_PATH = 2  # of a URL; without a third slash, browsers would resolve relative references wrongly
_NO_BODY = frozenset((204, 205, 304))


class Flow(NamedTuple):
    """A response whose body is read while it is sent."""

    status: int
    headers: list[Header]
    pieces: Iterator[bytes]


class Replayer:
    """Responds for one origin. For the thread of the event loop."""

    def __init__(self, site: WebContext, *, on_controls: bool) -> None:
        self._site = site
        self._on_controls = on_controls
        self._records = site.archive.records
        self._policies = {policy: policy_headers(policy, site.controls_origin) for policy in Policy}
        self._runtime = runtime.runtime_of(site.settings)
        self.finder = Finder(site)

    async def answer(
        self, target: RequestTargetPath, asked: RequestInfo, scope: Scope, receive: Receive
    ) -> CachedReply | Flow:
        """Raises CaptureNotFound, Blocked, and what reading may."""
        capture = await self._find(target, asked, scope, receive)
        if asked.range and capture.status == _PART:
            capture = self._holding(target, asked, capture)
        time = shown_at(self._site, target, capture)
        if self._is_approximate(target, asked, capture, time):
            return self._to_exact(target, capture, time)
        use = use_of(asked.dest)  # browsers cache one response per address, but ours depends on the use
        seen_from = "" if time == capture.timestamp else f"-{time}"
        etag = f'"{capture.record}{seen_from}-{target.modifier or "mp_"}{use}-{self._runtime.version}"'
        own = [(b"etag", etag.encode()), *memento.headers(self._site, capture, target)]
        if asked.etag and etag in asked.etag:
            return CachedReply(304, own, b"")
        if asked.if_range and asked.if_range != etag and capture.status != _PART:  # each part has a tag of its own
            asked = asked._replace(range="")
        place = (self._site.controls_origin, target.prefix, time, target.modifier)
        names = self._site.rules.callbacks(target.url, capture.url)
        key = (capture.record, *place, use, asked.encodings, asked.range, names)
        reply = self._site.replies.get(key)
        if reply is not None:
            self._site.counters.add("cache_hits")
            return reply._replace(headers=[*reply.headers, *own])
        made = await self._make(target, asked, capture, time)
        if isinstance(made, CachedReply):
            if made.size <= self._site.settings.cache_bytes // _REPLIES_MIN:
                self._site.replies.put(key, made)
            self._site.counters.add("cache_misses")
        return made._replace(headers=[*made.headers, *own])

    async def _find(self, target: RequestTargetPath, asked: RequestInfo, scope: Scope, receive: Receive) -> Capture:
        if asked.method in READING:
            return self.finder.find_target(target)
        collection = self._site.collection(target.collection)
        posted = (await body_of(Request(scope, receive), KEYED_BODY_BYTES_MAX), asked.content_type)
        return self.finder.find_posted(collection, target.url, target.timestamp, asked.method, posted, target.pick)

    def _holding(self, target: RequestTargetPath, asked: RequestInfo, capture: Capture) -> Capture:
        """Of several parts of a film, the one with the requested bytes."""
        begin = body_range(asked.range, _RANGE_END)
        if not isinstance(begin, tuple):
            return capture
        return self.finder.holding(capture, self._site.collection(target.collection), begin[0])

    def _is_approximate(self, target: RequestTargetPath, asked: RequestInfo, capture: Capture, time: str) -> bool:
        """True if a document must be requested again at the time under which it is shown."""
        is_exact = time == target.timestamp and target.url.count("/") > _SLASHES_BEFORE_PATH
        if is_exact or target.modifier not in ("mp_", "if_", "fr_"):
            return False
        return asked.method in READING and capture.mime in HTML_TYPES and asked.dest in (*DOCUMENTS, "")

    def _to_exact(self, target: RequestTargetPath, capture: Capture, time: str) -> CachedReply:
        url = target.url if target.url.count("/") > _SLASHES_BEFORE_PATH else canonical(target.url) or target.url
        address = f"{target.prefix}{time}{target.modifier}/{url}"
        location = (b"location", address.encode("utf-8", "surrogateescape"))
        return CachedReply(302, [location, *memento.headers(self._site, capture, target)], b"")

    # -- making a response ----------------------------------------------------------------------------------------

    async def _make(
        self, target: RequestTargetPath, asked: RequestInfo, capture: Capture, time: str
    ) -> CachedReply | Flow:
        archived = read(self._records, capture)
        scene = Scene(target.prefix, time, capture.url, modifier=target.modifier or "mp_")
        kind = self._kind(archived, target, asked)
        if kind is CaptureKind.PLAIN or archived.status in _NO_BODY:
            return await self._plain(archived, asked, scene)
        limit = REWRITE_BYTES_MAX
        if kind is not CaptureKind.HTML:
            limit = min(limit, _CODE_BYTES_MAX)
        names = self._site.rules.callbacks(target.url, capture.url) if kind is CaptureKind.SCRIPT else None
        if archived.size <= min(limit, _ON_LOOP):
            try:
                return self._rewritten(archived.plain(_ON_LOOP), archived, scene, kind, names)
            except TooLarge:
                pass  # larger once decoded
        plain = await _decoded(archived, limit)
        if plain is not None:
            return await run_in_threadpool(self._rewritten, plain, archived, scene, kind, names)
        if kind is CaptureKind.HTML:  # without rewriting, it could lead out of the archive
            raise TooLarge(f"'{capture.url}' is a page of more than {limit} bytes, the limit")
        return await self._plain(archived, asked, scene)

    def _kind(self, archived: Archived, target: RequestTargetPath, asked: RequestInfo) -> CaptureKind:
        """By the media type; without one, a document that begins like HTML is a page, as in browsers."""
        if target.modifier == "id_":
            return CaptureKind.PLAIN
        mime = archived.mime
        if not mime and archived.size <= STREAMED and _PAGE_BEGINS.match(archived.plain(STREAMED)):
            mime = "text/html"
        return kind_of(mime, target.modifier, asked.dest, archived.capture.url)

    def _rewritten(
        self, plain: bytes, archived: Archived, scene: Scene, kind: CaptureKind, names: tuple[str, str] | None
    ) -> CachedReply:
        if names is not None:
            plain = renamed(plain, names)
        body, content_type = rewritten(plain, archived, scene, kind, self._runtime, self._site.controls_origin)
        headers = [
            *self._headers(archived, scene, is_page=kind is CaptureKind.HTML, keeps_encoding=False),
            (b"content-type", octets(content_type)),
            (b"content-length", b"%d" % len(body)),
        ]
        return CachedReply(archived.status, headers, body)

    async def _plain(self, archived: Archived, asked: RequestInfo, scene: Scene) -> CachedReply | Flow:
        body = None
        if archived.encoding and not asked.understands(archived.encoding):
            body = await _decoded(archived, REWRITE_BYTES_MAX)  # None: as it is, then
        headers = self._headers(archived, scene, is_page=False, keeps_encoding=body is None)
        if content_type := archived.headers.get("content-type"):
            headers.append((b"content-type", octets(content_type)))
        if archived.status in _NO_BODY:
            return CachedReply(archived.status, headers, b"")
        if body is not None:
            return CachedReply(archived.status, [*headers, (b"content-length", b"%d" % len(body))], body)
        return await self._ranged(archived, asked, headers)

    async def _ranged(self, archived: Archived, asked: RequestInfo, headers: list[Header]) -> CachedReply | Flow:
        size, status = archived.size, archived.status
        if status == _PARTIAL:
            return await self._part(archived, asked, headers)
        wanted = body_range(asked.range, size) if asked.range and status == _OK else None
        if status == _OK:
            headers.append((b"accept-ranges", b"bytes"))
        if wanted is False:
            return _unsatisfiable(size)
        begin, end = wanted if isinstance(wanted, tuple) else (0, size)
        if wanted is not None:
            status = _PARTIAL
            headers.append((b"content-range", b"bytes %d-%d/%d" % (begin, end - 1, size)))
        return await self._bytes(archived, status, headers, begin, end)

    async def _part(self, archived: Archived, asked: RequestInfo, headers: list[Header]) -> CachedReply | Flow:
        """Of a capture that is a part itself, the range requested; all of it if that is the whole, or none is."""
        part = content_range(archived.headers.get("content-range") or "")
        if part is None or part.end - part.begin != archived.size:
            return await self._bytes(archived, _PARTIAL, headers, 0, archived.size)
        is_whole = part.begin == 0 and part.end == part.size
        wanted = body_range(asked.range, part.size or _RANGE_END) if asked.range else None
        if wanted is False or (isinstance(wanted, tuple) and not part.begin <= wanted[0] < part.end):
            return _unsatisfiable(part.size)
        if wanted is None and not is_whole:
            return await self._bytes(archived, _PARTIAL, headers, 0, archived.size)
        headers = [each for each in headers if each[0] != b"content-range"]
        headers.append((b"accept-ranges", b"bytes"))
        if wanted is None:
            return await self._bytes(archived, _OK, headers, 0, archived.size)
        assert isinstance(wanted, tuple)
        begin, end = wanted[0], min(wanted[1], part.end)
        size = b"%d" % part.size if part.size else b"*"
        headers.append((b"content-range", b"bytes %d-%d/%b" % (begin, end - 1, size)))
        return await self._bytes(archived, _PARTIAL, headers, begin - part.begin, end - part.begin)

    async def _bytes(
        self, archived: Archived, status: int, headers: list[Header], begin: int, end: int
    ) -> CachedReply | Flow:
        """These bytes of the payload as it is kept."""
        headers.append((b"content-length", b"%d" % (end - begin)))
        if archived.size > STREAMED:
            assert archived.record is not None
            payload = await run_in_threadpool(self._site.spool.payload, archived.record.id, archived)
            _verify(archived, payload.size)
            return Flow(status, headers, payload.parts(begin, end))
        body = archived.payload()
        _verify(archived, len(body))
        return CachedReply(status, headers, body[begin:end])

    def _headers(self, archived: Archived, scene: Scene, *, is_page: bool, keeps_encoding: bool) -> list[Header]:
        headers = archived_headers(archived.headers, scene, keeps_encoding=keeps_encoding)
        is_raw = self._on_controls or scene.modifier == "id_"
        headers += self._policies[policy_of(archived.mime, is_page=is_page, is_raw=is_raw)]
        if archived.original_status:
            headers.append((b"x-archive-orig-status", b"%d" % archived.original_status))
        return [*headers, (b"vary", b"accept-encoding"), (b"cache-control", b"no-cache")]


def _unsatisfiable(size: int) -> CachedReply:
    return CachedReply(416, [(b"content-range", b"bytes */%d" % size), (b"content-length", b"0")], b"")


async def _decoded(archived: Archived, bytes_max: int) -> bytes | None:
    """The decoded payload; None if it exceeds `bytes_max`."""
    if archived.size > bytes_max:
        return None
    try:
        return await run_in_threadpool(archived.plain, bytes_max)
    except TooLarge:
        return None


def _verify(archived: Archived, size: int) -> None:
    """Raises CaptureNotFound if the payload does not have the announced length."""
    if size != archived.size:
        raise CaptureNotFound(f"the payload of '{archived.capture.url}' does not have the length in its record")
