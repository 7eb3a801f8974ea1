"""A reader: a process that looks into what was fetched, so that neither the loop that fetches nor the conductor has to.

It decodes, finds links, computes digests and signature, and drafts the records. What it gets it gets from the fetcher,
what it makes of it goes to the conductor; it lives as long as both want to.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

from holdfast.crawl.frontier.rows import key_of
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.parse.records import Recorder, RecordPayload, plain
from holdfast.crawl.parse.sitemaps import read_sitemap
from holdfast.crawl.policy.robots import ROBOTS_BYTES_MAX
from holdfast.crawl.policy.robots_gate import agent_of, origin_of
from holdfast.crawl.policy.robots_tags import RobotsTags, read_robots_tags
from holdfast.crawl.policy.traps import Traps
from holdfast.crawl.processes.garbage import collect_seldom
from holdfast.crawl.processes.messages import Fetched, FetchKind, FetchOutcome, ParsedPage, pack, unpack_fetched
from holdfast.env.child_process import frames_from
from holdfast.errors import HoldfastError, TooLarge
from holdfast.formats.html.links import Document, Link, links_of
from holdfast.formats.html.links.references import Hop
from holdfast.formats.http import HttpHead, decoded_content, parse_head
from holdfast.records.draft import RecordDraft, catalog_mime
from holdfast.storage.signature import find_signature
from holdfast.urls import canonical, parse

log = logging.getLogger("holdfast.crawl")

DECODED_BYTES_MAX = 32 << 20  # of a document; one that is longer is kept, but not looked into
_TOLD_MAX = 200_000  # URLs remembered so as not to tell the conductor of them again
_NOT_MODIFIED = 304
_SCRIPTS = ("javascript", "ecmascript")
_FEEDS = frozenset(("application/rss+xml", "application/atom+xml", "application/rdf+xml"))


@dataclass(frozen=True, slots=True)
class ParseWorkerStart:
    """What a reader is told when it begins."""

    job: CrawlJob
    collection: str
    signature: str  # the algorithm
    thorough: bool = False  # look into unchanged pages, too


class _Told:
    """URLs of which the conductor was told lately, and how they were found. The older half is forgotten at once."""

    def __init__(self, count_max: int) -> None:
        self._half = count_max // 2
        self._young: dict[str, str] = {}
        self._old: dict[str, str] = {}
        self._roots = 0

    def forget_if_more(self, roots: int) -> None:
        """With more roots of the scope, what lay outside may lie inside."""
        if roots > self._roots:
            self._roots = roots
            self._young, self._old = {}, {}

    def is_new(self, url: str, hop: str) -> bool:
        """Whether it is told for the first time; from now on it is not."""
        hops = self._young.get(url) or self._old.get(url, "")
        if hop in hops:
            return False
        if self._half:
            if len(self._young) >= self._half:
                self._old, self._young = self._young, {}
            self._young[url] = hops + hop
        return True


class ParseWorker:
    """Makes a Reading of whatever was fetched; raises nothing whatever it is given."""

    def __init__(self, start: ParseWorkerStart) -> None:
        self._recorder = Recorder(start.collection, find_signature(start.signature).digest)
        self._traps = Traps(start.job.traps)
        self._thorough = start.thorough
        # Where depth counts, a URL that was told may come nearer: then all are told.
        self._told = _Told(_TOLD_MAX if start.job.depth is None else 0)
        self._agent = agent_of(start.job) if start.job.fetch.robots_tags else ""  # whom pages may speak to

    def read(self, fetched: Fetched) -> ParsedPage:
        try:
            return self._read(fetched)
        except HoldfastError as error:
            return _failed(fetched, FetchOutcome.PROTOCOL, str(error))
        except Exception as error:  # an edge: one page must not end the crawl
            log.exception("cannot read '%s'", fetched.job.url)
            return _failed(fetched, FetchOutcome.CRASHED, f"{type(error).__name__}: {error}")

    def _read(self, fetched: Fetched) -> ParsedPage:
        if fetched.outcome != FetchOutcome.OK:
            return _failed(fetched, fetched.outcome, fetched.detail)
        payload = self._recorder.payload(fetched)
        if fetched.resource:
            return self._resource(fetched, payload)
        head = parse_head(fetched.head)
        if head is None or head.kind != "response" or head.size != len(fetched.head):
            return _failed(fetched, FetchOutcome.PROTOCOL, "what came is no HTTP response")
        reading = self._response(fetched, head, payload)
        if self._agent and not self._tags(fetched, head).archive:
            Path(fetched.spool).unlink(missing_ok=True) if fetched.spool else None
            return reading._replace(withheld=True, detail="not kept: noarchive")
        drafts = self._recorder.response(fetched, head, payload)
        return reading._replace(drafts=_plain(drafts), date=drafts[0].entry.timestamp)

    def _resource(self, fetched: Fetched, payload: RecordPayload) -> ParsedPage:
        draft = self._recorder.resource(fetched, payload)
        return ParsedPage(
            fetched.job.id,
            fetched.job.url,
            FetchOutcome.OK,
            size=fetched.size,
            resource=fetched.resource,
            drafts=_plain([draft]),
        )

    def _response(self, fetched: Fetched, head: HttpHead, payload: RecordPayload) -> ParsedPage:
        job, fields = fetched.job, head.headers
        not_modified = head.status == _NOT_MODIFIED and bool(job.etag or job.modified)
        unchanged = not_modified or bool(job.known and payload.signature == job.known)
        reading = ParsedPage(
            job.id,
            job.url,
            FetchOutcome.OK,
            fetched.detail,
            fetched.started,
            fetched.elapsed,
            head.status,
            catalog_mime(head.headers.get("Content-Type")),
            fetched.size,
            fetched.transferred,
            fetched.ip,
            fetched.truncated,
            payload.signature if not not_modified else job.known,
            payload.digest if not not_modified else job.known_digest,
            etag=_validator(fields.get("ETag")),
            modified=_validator(fields.get("Last-Modified")),
            unchanged=unchanged,
            part=fetched.part,
            location=self._location(job.url, head),
            sets_cookie="set-cookie" in fields.first(),
            method=job.method,
        )
        links_known = unchanged and job.kind == FetchKind.PAGE and not self._thorough
        if (job.no_links and job.kind == FetchKind.PAGE) or (links_known and not fetched.links):
            return reading
        try:
            return self._looked_into(reading, fetched, head)
        except Exception as error:  # an edge: what cannot be looked into is kept all the same
            log.exception("cannot look into '%s'", job.url)
            outcome = FetchOutcome.PROTOCOL if job.kind == FetchKind.ROBOTS else FetchOutcome.OK
            return reading._replace(outcome=outcome, detail=f"not looked into: {type(error).__name__}: {error}")

    def _looked_into(self, reading: ParsedPage, fetched: Fetched, head: HttpHead) -> ParsedPage:
        self._told.forget_if_more(fetched.job.roots)
        try:
            content = decoded_content(_body(fetched), head.headers, DECODED_BYTES_MAX)
        except TooLarge as error:
            if fetched.job.kind == FetchKind.ROBOTS:  # rules that cannot be read are no permission
                return reading._replace(outcome=FetchOutcome.PROTOCOL, detail=str(error))
            return reading._replace(detail="not looked into: it decodes to too much")
        kind = fetched.job.kind
        if kind == FetchKind.ROBOTS:
            return reading._replace(body=content[: ROBOTS_BYTES_MAX + 1])
        content_type = head.headers.get("Content-Type") or ""
        if kind == FetchKind.SITEMAP and 200 <= head.status < 300:
            return self._sitemap(reading, content, content_type)
        links: Iterable[tuple[str, str]] = fetched.links
        if 200 <= head.status < 300:
            document = Document(reading.url, content, content_type, head.headers, head.status)
            links = [*fetched.links, *links_of(document)]
            if reading.mime.endswith(_SCRIPTS) and fetched.job.hop == Hop.EMBED:
                links += _seen_from_page(document, fetched.job.via)
            if self._agent:
                links = self._tags(fetched, head).followed(links)
            if reading.mime in _FEEDS:
                links += [(url, Hop.LINK) for url in read_sitemap(content, reading.url, content_type).urls]
        return reading._replace(links=tuple(self._untold(links)))

    def _tags(self, fetched: Fetched, head: HttpHead) -> RobotsTags:
        """What the response asks of crawlers; nothing if it is robots.txt or a sitemap, which are for us."""
        if fetched.job.kind != FetchKind.PAGE:
            return RobotsTags()
        try:
            content = decoded_content(_body(fetched), head.headers, DECODED_BYTES_MAX)
        except TooLarge:
            content = b""
        content_type = head.headers.get("Content-Type") or ""
        return read_robots_tags(
            Document(fetched.job.url, content, content_type, head.headers, head.status), self._agent
        )

    def _sitemap(self, reading: ParsedPage, content: bytes, content_type: str) -> ParsedPage:
        sitemap = read_sitemap(content, reading.url, content_type)
        return reading._replace(
            links=tuple(self._untold((url, Hop.MANIFEST) for url in sitemap.urls)),
            sitemaps=tuple((key_of(self._traps.seen_form(url)), url) for url in sitemap.sitemaps),
        )

    def _untold(self, links: Iterable[tuple[str, str]]) -> Iterator[tuple[bytes, str, str]]:
        """Those of which the conductor was not told lately."""
        told, seen_form = self._told, self._traps.seen_form
        for url, hop in links:
            if not told.is_new(url, hop):  # the scope may take the one hop and not the other
                continue
            yield key_of(seen_form(url)), url, hop

    def _location(self, url: str, head: HttpHead) -> str:
        if not 300 <= head.status < 400 or not (location := head.headers.get("Location")):
            return ""
        target = parse(location.strip(), url)
        return canonical(target.href) if target is not None and target.scheme in ("http", "https") else ""


def _seen_from_page(script: Document, page: str) -> list[Link]:
    """What a script may load, relative to the page that it runs in: as browsers take it, but for imports.

    Not of a script of another origin: what such a one names it has at home, as a rule.
    """
    if origin_of(page) != origin_of(script.url) or page.rpartition("/")[0] == script.url.rpartition("/")[0]:
        return []
    return [link for link in links_of(script._replace(url=page)) if link.hop == Hop.SPECULATIVE]


def _body(fetched: Fetched) -> bytes:
    """As much of the body as is looked into."""
    if not fetched.spool:
        return fetched.body
    with Path(fetched.spool).open("rb") as file:
        return file.read(DECODED_BYTES_MAX)


def _plain(drafts: list[RecordDraft]) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(plain, drafts))


def _validator(value: str | None) -> str:
    """A field to be sent back to the server as it is; nothing that could break out of its line."""
    value = (value or "").strip()
    return value if value.isprintable() and len(value) <= 1000 else ""


def _failed(fetched: Fetched, outcome: str, detail: str) -> ParsedPage:
    if fetched.spool:
        Path(fetched.spool).unlink(missing_ok=True)
    return ParsedPage(
        fetched.job.id,
        fetched.job.url,
        outcome,
        detail,
        fetched.started,
        fetched.elapsed,
        ip=fetched.ip,
        transferred=fetched.transferred,
        part=fetched.part,
        resource=fetched.resource,
    )


def main() -> None:
    """The process; its arguments are two sockets: from the fetcher, and to the conductor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started us
    collect_seldom()
    fetched, conductor = (socket(fileno=int(each)) for each in sys.argv[1:3])
    with fetched, conductor:
        start = next(frames_from(conductor), None)
        if start is None:  # the conductor is gone already
            return
        reader = ParseWorker(pickle.loads(start))
        try:
            for frame in frames_from(fetched):
                conductor.sendall(pack(tuple(reader.read(unpack_fetched(frame)))))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)
