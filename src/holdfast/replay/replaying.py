"""Replay: a capture as the answer to a request, rewritten unless its bytes are wanted as they are.

Documents asked for at another time than that of their capture are sent to the exact one first, so that all their parts
are asked for at the time of the page; parts themselves are answered with the capture nearest to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope

from holdfast.errors import CaptureNotFound, TooLarge
from holdfast.model import Capture
from holdfast.replay import assets, memento
from holdfast.replay.asked import Asked, body_range, small_body
from holdfast.replay.finding import Finder
from holdfast.replay.kinds import DOCUMENTS, HTML_TYPES, Kind, kind_of
from holdfast.replay.policy import ARCHIVED, INERT
from holdfast.replay.reading import Archived, read
from holdfast.replay.replies import Reply
from holdfast.replay.rewriting.addresses import Scene
from holdfast.replay.rewriting.content import rewritten
from holdfast.replay.rewriting.headers import archived_headers
from holdfast.replay.site import Site
from holdfast.replay.target import Target
from holdfast.urls import canonical

STREAMED = 1 << 20  # larger payloads are not gathered in memory
_THREADED = 256 << 10  # to rewrite more than this takes long enough to let others go on
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

    def __init__(self, site: Site, *, on_controls: bool) -> None:
        self._site = site
        self._on_controls = on_controls
        self._records = site.archive.records
        self.finder = Finder(site)

    async def answer(self, target: Target, asked: Asked, scope: Scope, receive: Receive) -> Reply | Flow:
        """Raises CaptureNotFound, Blocked, and what reading may."""
        capture = await self._find(target, asked, scope, receive)
        if self._is_approximate(target, asked, capture):
            return self._to_exact(target, capture)
        kind = self._kind(target, asked, capture)
        etag = f'"{capture.record}-{target.modifier or "mp_"}{kind}{assets.VERSION}"'
        links = memento.headers(self._site, capture, target)
        if asked.etag and etag in asked.etag:
            return Reply(304, [(b"etag", etag.encode()), *links], b"")
        key = (capture.record, target.prefix, target.modifier, kind, asked.encodings, asked.range)
        reply = self._site.replies.get(key)
        if reply is None:
            made = await self._make(target, asked, capture, kind)
            if isinstance(made, Flow):
                return made._replace(headers=[*made.headers, (b"etag", etag.encode()), *links])
            reply = made
            self._site.replies.put(key, reply)
            self._site.counters.add("cache_misses")
        else:
            self._site.counters.add("cache_hits")
        return reply._replace(headers=[*reply.headers, (b"etag", etag.encode()), *links])

    async def _find(self, target: Target, asked: Asked, scope: Scope, receive: Receive) -> Capture:
        collection = self._site.collection(target.collection)
        if asked.method in ("GET", "HEAD"):
            return self.finder.find(collection, target.url, target.timestamp)
        body = await small_body(scope, receive)
        posted = (body, asked.content_type)
        return self.finder.find_posted(collection, target.url, target.timestamp, asked.method, posted)

    def _is_approximate(self, target: Target, asked: Asked, capture: Capture) -> bool:
        """Whether a document has to be asked for again at the time of its capture."""
        is_exact = capture.timestamp == target.timestamp and target.url.count("/") > _SLASHES_BEFORE_PATH
        if is_exact or target.modifier not in ("mp_", "if_", "fr_"):
            return False
        return asked.method in ("GET", "HEAD") and capture.mime in HTML_TYPES and asked.dest in (*DOCUMENTS, "")

    def _to_exact(self, target: Target, capture: Capture) -> Reply:
        url = target.url if target.url.count("/") > _SLASHES_BEFORE_PATH else canonical(target.url) or target.url
        address = f"{target.prefix}{capture.timestamp}{target.modifier}/{url}"
        location = (b"location", address.encode("utf-8", "surrogateescape"))
        return Reply(302, [location, *memento.headers(self._site, capture, target)], b"")

    def _kind(self, target: Target, asked: Asked, capture: Capture) -> Kind:
        if target.modifier == "id_":
            return Kind.PLAIN
        return kind_of(capture.mime, target.modifier, asked.dest, capture.url)

    # -- an answer made -----------------------------------------------------------------------------------------

    async def _make(self, target: Target, asked: Asked, capture: Capture, kind: Kind) -> Reply | Flow:
        archived = read(self._records, capture)
        if target.modifier != "id_" and capture.type == "revisit":  # whose row may not tell the type
            kind = kind_of(archived.mime, target.modifier, asked.dest, capture.url)
        scene = Scene(target.prefix, capture.timestamp, capture.url, modifier=target.modifier or "mp_")
        if kind is Kind.PLAIN or archived.status in _NO_BODY:
            return self._plain(archived, asked, scene)
        if archived.size > self._site.settings.rewrite_bytes_max:
            if kind is not Kind.HTML:
                return self._plain(archived, asked, scene)
            raise TooLarge(f"'{capture.url}' is a page of {archived.size} bytes; raise 'serve.rewrite_bytes_max'")
        if archived.size > _THREADED:
            return await run_in_threadpool(self._rewritten, archived, asked, scene, kind)
        return self._rewritten(archived, asked, scene, kind)

    def _rewritten(self, archived: Archived, asked: Asked, scene: Scene, kind: Kind) -> Reply:
        plain = archived.plain(self._site.settings.rewrite_bytes_max)
        body, content_type = rewritten(plain, archived, scene, kind, self._site.controls_origin)
        headers = [
            *self._headers(archived, scene, asked, keeps_encoding=False),
            (b"content-type", content_type.encode("latin-1", "replace")),
            (b"content-length", b"%d" % len(body)),
        ]
        return Reply(archived.status, headers, body)

    def _plain(self, archived: Archived, asked: Asked, scene: Scene) -> Reply | Flow:
        encoded = archived.encoding
        keeps = not encoded or asked.understands(encoded)
        headers = self._headers(archived, scene, asked, keeps_encoding=keeps)
        if content_type := archived.headers.get("content-type"):
            headers.append((b"content-type", content_type.encode("latin-1", "replace")))
        if archived.status in _NO_BODY:
            return Reply(archived.status, headers, b"")
        if not keeps:
            body = archived.plain(self._site.settings.rewrite_bytes_max)
            return Reply(archived.status, [*headers, (b"content-length", b"%d" % len(body))], body)
        return self._ranged(archived, asked, headers)

    def _ranged(self, archived: Archived, asked: Asked, headers: list[Header]) -> Reply | Flow:
        size = archived.size
        wanted = body_range(asked.range, size) if asked.range and archived.status == 200 else None
        if archived.status == 200:
            headers.append((b"accept-ranges", b"bytes"))
        if wanted is False:
            return Reply(416, [(b"content-range", b"bytes */%d" % size), (b"content-length", b"0")], b"")
        begin, end = wanted if isinstance(wanted, tuple) else (0, size)
        status = archived.status
        if wanted is not None:
            status = 206
            headers.append((b"content-range", b"bytes %d-%d/%d" % (begin, end - 1, size)))
        headers.append((b"content-length", b"%d" % (end - begin)))
        if size <= STREAMED:
            body = archived.payload()
            if len(body) != size:  # kept otherwise than its row says
                raise CaptureNotFound(f"the payload of '{archived.capture.url}' has not the length that is noted")
            return Reply(status, headers, body[begin:end])
        return Flow(status, headers, archived.stream_range(begin, end))

    def _headers(self, archived: Archived, scene: Scene, asked: Asked, *, keeps_encoding: bool) -> list[Header]:
        headers = archived_headers(archived.headers, scene, keeps_encoding=keeps_encoding)
        headers += INERT if self._on_controls or scene.modifier == "id_" else ARCHIVED
        return [*headers, (b"vary", b"accept-encoding"), (b"cache-control", b"no-cache")]
