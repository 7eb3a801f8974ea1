"""The generated hosts as a server shows them: encodings, validators, pauses and failures around the pages."""

from __future__ import annotations

import gzip
import time
import zlib
from collections import Counter
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import brotli

from hostile_web.exchange import Answer, Fields, Request, plain
from hostile_web.graph import Thing
from hostile_web.hosts import CLOSED, CLOSED_HOST, Host
from hostile_web.listings import listing
from hostile_web.live import LIVE, live_answer
from hostile_web.pages import Body, body_of, missing
from hostile_web.traps import TrapHosts

if TYPE_CHECKING:
    from hostile_web.generator import Web

_BORN = 1_700_000_000  # when the first edition of every page was made
_EDITION_S = 86_400
_CACHED = 8192  # answers
_PAUSE_S = 1  # the shortest that Retry-After can ask for
ENCODINGS = ("", "", "gzip", "gzip", "br", "deflate")


class Sites:
    """A `World`: all hosts of a `Web`."""

    def __init__(self, web: Web) -> None:
        self.latency_s = web.latency_s
        self._web = web
        self._hosts = {host.name: host for host in (*web.graph.hosts, CLOSED_HOST)}
        self._tries: Counter[str] = Counter()  # of things that fail at first
        self._paused = 0
        self._traps = TrapHosts(web.port, web.private_address)
        self._made = lru_cache(maxsize=_CACHED)(self._make)

    def change(self, share: float) -> None:
        self._web = self._web.change(share)
        self._made.cache_clear()

    def answer(self, request: Request) -> Answer:
        host = self._hosts.get(request.host)
        if host is not None:
            return self._of_host(host, request)
        if request.host == LIVE:
            return live_answer(request.target)
        return self._traps.answer(request)

    def _of_host(self, host: Host, request: Request) -> Answer:
        web = self._web
        listed = listing(web.graph, host, request.target, (web.crawl_delay_s, web.robots_bytes))
        if listed is not None:
            return listed
        if host.name == CLOSED:
            return plain(200, "nobody may read this")
        thing = web.graph.at(host.name, request.target)
        if thing is None:
            return _sent(missing(404), "", ())
        return self._failure(host, thing, request.target) or self._found(host, thing, request)

    def _failure(self, host: Host, thing: Thing, target: str) -> Answer | None:
        """What a page that fails at first answers instead, if it does so now."""
        web = self._web
        pause, fails = web.asks_for_pause(host, thing), web.failures(thing)
        if not pause and not fails:
            return None
        self._tries[host.name + target] += 1
        tries = self._tries[host.name + target]
        if pause and tries == 1 and self._paused < web.pauses:
            self._paused += 1
            return _pause(429 if self._paused % 2 else 503, dated=self._paused % 3 == 0)
        return plain(500, "try again") if tries <= fails else None

    def _found(self, host: Host, thing: Thing, request: Request) -> Answer:
        body, encoding, validators = self._made(host, thing, request.header("accept-encoding"))
        if body.status == 200 and _unchanged(validators, request):
            return Answer(304, validators)
        return _sent(body, encoding, validators, chunked=self._web.graph.draw(5, "chunked", thing) == 0)

    def _make(self, host: Host, thing: Thing, accepted: str) -> tuple[Body, str, Fields]:
        if thing.kind == "print":
            thing = Thing("page", thing.number)  # the same bytes to the last
        edition = self._web.edition(thing)
        body = body_of(self._web.graph, thing, edition, self._web.words)
        encoding = ENCODINGS[self._web.graph.draw(len(ENCODINGS), "encoding", thing)]
        if encoding and encoding in accepted and body.status == 200:
            body = body._replace(content=_encoded(encoding, body.content))
        else:
            encoding = ""
        has_validators = body.status == 200 and (host.validators != "none" or not self._web.mute)
        return body, encoding, _validators(host, thing, body, edition) if has_validators else ()


def _sent(body: Body, encoding: str, validators: Fields, *, chunked: bool = False) -> Answer:
    coding: Fields = (("Content-Encoding", encoding),) if encoding else ()
    fields = (("Server", "tide"), ("Content-Type", body.kind), *coding, *validators, *body.headers)
    return Answer(body.status, fields, body.content, chunked=chunked)


def _encoded(encoding: str, content: bytes) -> bytes:
    if encoding == "gzip":
        return gzip.compress(content, 6, mtime=0)
    return bytes(brotli.compress(content, quality=4)) if encoding == "br" else zlib.compress(content)


def _validators(host: Host, thing: Thing, body: Body, edition: int) -> Fields:
    digest = blake2b(body.content, digest_size=8).hexdigest()
    tag = ("ETag", f'{"W/" if thing.number % 2 else ""}"{digest}"')
    date = ("Last-Modified", formatdate(_BORN + edition * _EDITION_S, usegmt=True))
    return {"both": (tag, date), "etag": (tag,), "date": (date,)}.get(host.validators, (tag, date))


def _unchanged(validators: Fields, request: Request) -> bool:
    """RFC 9110 section 13.2.2: an If-None-Match decides alone."""
    ours = dict(validators)
    if tags := request.header("if-none-match"):
        return ours.get("ETag", "?").removeprefix("W/") in tags
    since = request.header("if-modified-since")
    if not since or "Last-Modified" not in ours:
        return False
    try:
        return parsedate_to_datetime(ours["Last-Modified"]) <= parsedate_to_datetime(since)
    except (TypeError, ValueError):
        return False


def _pause(status: int, *, dated: bool) -> Answer:
    now = time.time()
    until = float(int(now) + _PAUSE_S + 1) if dated else now + _PAUSE_S
    value = formatdate(until, usegmt=True) if dated else str(_PAUSE_S)
    fields = (("Content-Type", "text/plain"), ("Retry-After", value))
    return Answer(status, fields, b"not so fast\n", pause_until=until)
