"""A parse worker: a process that parses fetched responses.

It decodes a page and parses it once, for its links and for the index; it computes digests and signature, encodes the
payload as it will be stored, and drafts the records. Pages come from the fetcher, results go to the crawl process; it
lives as long as both do. A page that takes more than `PAGE_SECONDS_MAX` of CPU time kills it, like a crash: after two
deaths the page is kept without being parsed.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from socket import MSG_DONTWAIT, socket
from typing import Any

from holdfast.crawl.frontier import key_of
from holdfast.crawl.parse.records import Recorder, RecordPayload, date_of, plain
from holdfast.crawl.parse.sitemaps import read_sitemap
from holdfast.crawl.policy.robots import ROBOTS_BYTES_MAX
from holdfast.crawl.policy.robots_gate import agent_of, origin_of
from holdfast.crawl.policy.robots_tags import RobotsTags, read_robots_tags
from holdfast.crawl.policy.traps import Traps
from holdfast.crawl.processes.messages import (
    DECODED_BYTES_MAX,
    Fetched,
    FetchKind,
    FetchOutcome,
    ParsedPage,
    ParseWorkerStart,
    pack,
    unpack_fetched,
)
from holdfast.env.child_process import RECEIVE_BYTES, Frames, collect_seldom, frames_from
from holdfast.errors import HoldfastError, TooLarge
from holdfast.formats.html.links.document import Document, Link, followed_links, links_of
from holdfast.formats.html.links.references import Hop
from holdfast.formats.http import HttpHead, decoded_content, parse_head
from holdfast.index.extract.extract import ExtractionLimits, Payload, extract_page
from holdfast.records.draft import RecordDraft, catalog_mime
from holdfast.storage.signature import find_signature
from holdfast.storage.store.encoder import ContentEncoder, ContentEncoding, SeenSignatures
from holdfast.urls import canonical, parse

log = logging.getLogger("holdfast.crawl")

PAGE_SECONDS_MAX = 60.0
_REPORTED_MAX = 200_000  # URLs remembered, so that they are not reported again
_NOT_MODIFIED = 304
_SCRIPTS = ("javascript", "ecmascript")
_FEEDS = frozenset(("application/rss+xml", "application/atom+xml", "application/rdf+xml"))


class _ReportedLinks:
    """URLs reported recently, and how they were found. When full, it forgets the older half."""

    def __init__(self, count_max: int) -> None:
        self._half = count_max // 2
        self._young: dict[str, str] = {}
        self._old: dict[str, str] = {}
        self._roots = 0

    def forget_if_more(self, roots: int) -> None:
        """With more roots, URLs that were out of scope may be in scope."""
        if roots > self._roots:
            self._roots = roots
            self._young, self._old = {}, {}

    def add(self, links: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those that it is given for the first time, by URL and hop: the scope may admit one hop and not another."""
        if not self._half:
            return [*links]
        young, old = self._young, self._old
        new = []
        for link in links:
            url, hop = link
            hops = young.get(url) or old.get(url, "")
            if hop not in hops:
                young[url] = hops + hop
                new.append(link)
        if len(young) >= self._half:
            self._old, self._young = young, {}
        return new


class ParseWorker:
    """Turns fetched pages into ParsedPages. Never raises."""

    def __init__(self, start: ParseWorkerStart, seen: SeenSignatures | None = None) -> None:
        """`seen` are the signatures that came before, in any of the workers."""
        self._encoder = ContentEncoder(start.encoding, seen) if start.encoding is not None else None
        self._recorder = Recorder(start.collection, find_signature(start.signature).digest, self._encoder)
        self._traps = Traps(start.job.traps)
        self._thorough = start.thorough
        self._limits = ExtractionLimits() if start.index else None
        # With a limit of depth, a shorter way to a known URL matters: all links are reported.
        self._reported = _ReportedLinks(_REPORTED_MAX if start.job.depth is None else 0)
        self._agent = agent_of(start.job) if start.job.fetch.robots_tags else ""  # addressed by robots tags

    def use(self, dictionary: bytes) -> None:
        """Later contents are encoded with this dictionary."""
        if self._encoder is not None:
            self._encoder.use(ContentEncoding(dictionary))

    def read(self, fetched: Fetched) -> ParsedPage:
        try:
            return self._read(fetched)
        except HoldfastError as error:
            return _failed(fetched, FetchOutcome.PROTOCOL, str(error))
        except Exception as error:  # the edge of the process: one page must not end the crawl
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
            return _failed(fetched, FetchOutcome.PROTOCOL, "not an HTTP response")
        page = self._response(fetched, head, payload)
        if fetched.job.record:
            return page._replace(date=date_of(fetched), extracted=b"")
        if self._agent and not self._tags(fetched, head).archive:
            Path(fetched.spool).unlink(missing_ok=True) if fetched.spool else None
            return page._replace(withheld=True, detail="not kept: noarchive", extracted=b"")
        drafts = self._recorder.response(fetched, head, payload)
        return page._replace(drafts=_plain(drafts), date=drafts[0].entry.timestamp)

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
        page = ParsedPage(
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
        is_page = job.kind == FetchKind.PAGE
        links_known = unchanged and is_page and not self._thorough and not fetched.links
        if (job.no_links and is_page) or (links_known and (not_modified or self._limits is None)):
            return page
        try:
            return self._parsed(page, fetched, head, links_known)
        except Exception as error:  # the edge of the process: a page that cannot be parsed is kept all the same
            log.exception("cannot parse '%s'", job.url)
            outcome = FetchOutcome.PROTOCOL if job.kind == FetchKind.ROBOTS else FetchOutcome.OK
            return page._replace(outcome=outcome, detail=f"not parsed: {type(error).__name__}: {error}")

    def _parsed(self, page: ParsedPage, fetched: Fetched, head: HttpHead, links_known: bool) -> ParsedPage:
        self._reported.forget_if_more(fetched.job.roots)
        try:
            content = decoded_content(_body(fetched), head.headers, DECODED_BYTES_MAX)
        except TooLarge as error:
            if fetched.job.kind == FetchKind.ROBOTS:  # unreadable rules permit nothing
                return page._replace(outcome=FetchOutcome.PROTOCOL, detail=str(error))
            return page._replace(detail="not parsed: too large when decoded")
        kind, content_type = fetched.job.kind, head.headers.get("Content-Type") or ""
        document = Document(page.url, content, content_type, head.headers, head.status)
        page_links = None
        if self._limits is not None and not fetched.spool:
            found, page_links = extract_page(Payload(*document), self._limits)
            page = page._replace(extracted=found.pack() if found is not None else b"")
        if kind == FetchKind.ROBOTS:
            return page._replace(body=content[: ROBOTS_BYTES_MAX + 1])
        if links_known:
            return page
        if kind == FetchKind.SITEMAP and 200 <= head.status < 300:
            return self._sitemap(page, content, content_type)
        links: Iterable[tuple[str, str]] = fetched.links
        if 200 <= head.status < 300:
            own = links_of(document) if page_links is None else followed_links(page.url, page_links)
            links = [*fetched.links, *own]
            if page.mime.endswith(_SCRIPTS) and fetched.job.hop == Hop.EMBED:
                links += _relative_to_page(document, fetched.job.via)
            if self._agent:
                links = self._tags(fetched, head).followed(links)
            if page.mime in _FEEDS:
                links += [(url, Hop.LINK) for url in read_sitemap(content, page.url, content_type).urls]
        return page._replace(links=self._unreported(links))

    def _tags(self, fetched: Fetched, head: HttpHead) -> RobotsTags:
        """The robots tags of a response; robots.txt and sitemaps have none."""
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

    def _sitemap(self, page: ParsedPage, content: bytes, content_type: str) -> ParsedPage:
        sitemap = read_sitemap(content, page.url, content_type)
        return page._replace(
            links=self._unreported((url, Hop.MANIFEST) for url in sitemap.urls),
            sitemaps=tuple((key_of(self._traps.seen_form(url)), url) for url in sitemap.sitemaps),
        )

    def _unreported(self, links: Iterable[tuple[str, str]]) -> tuple[tuple[bytes, str, str], ...]:
        seen_form = self._traps.seen_form
        return tuple([(key_of(seen_form(url)), url, hop) for url, hop in self._reported.add(links)])

    def _location(self, url: str, head: HttpHead) -> str:
        if not 300 <= head.status < 400 or not (location := head.headers.get("Location")):
            return ""
        target = parse(location.strip(), url)
        return canonical(target.href) if target is not None and target.scheme in ("http", "https") else ""


def _relative_to_page(script: Document, page: str) -> list[Link]:
    """URLs in a script relative to its page, as browsers resolve them except for imports.

    Scripts of other origins are left out: they usually refer to their own.
    """
    if origin_of(page) != origin_of(script.url) or page.rpartition("/")[0] == script.url.rpartition("/")[0]:
        return []
    return [link for link in links_of(script._replace(url=page)) if link.hop == Hop.SPECULATIVE]


def _body(fetched: Fetched) -> bytes:
    """The part of the body that is parsed."""
    if not fetched.spool:
        return fetched.body
    with Path(fetched.spool).open("rb") as file:
        return file.read(DECODED_BYTES_MAX)


def _plain(drafts: list[RecordDraft]) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(plain, drafts))


def _validator(value: str | None) -> str:
    """A validator to send back to the server as it is; empty if it could break out of its line."""
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
    """The first worker, which forks the others. Its arguments are the sockets of each: from the fetcher, to the crawl.

    Ends abnormally if one of them did.
    """
    collect_seldom()
    sockets = [socket(fileno=int(each)) for each in sys.argv[1:]]
    pairs = list(zip(sockets[::2], sockets[1::2], strict=True))
    seen = SeenSignatures()
    others = [_forked(pair, sockets, seen) for pair in pairs[1:]]
    code = _worked(pairs[0], sockets, seen)
    for pid in others:
        code = code or os.waitpid(pid, 0)[1]
    os._exit(1 if code else 0)


def _forked(own: tuple[socket, socket], all_sockets: list[socket], seen: SeenSignatures) -> int:
    pid = os.fork()
    if not pid:
        os._exit(_worked(own, all_sockets, seen))
    return pid


def _worked(own: tuple[socket, socket], all_sockets: list[socket], seen: SeenSignatures) -> int:
    """Parses pages until the fetcher ends or the crawl process is gone; the exit code."""
    for each in all_sockets:
        if each not in own:
            each.close()
    try:
        _work(*own, seen)
    except (BrokenPipeError, ConnectionResetError):
        pass
    except Exception:  # the edge of the process
        traceback.print_exc()
        return 1
    finally:
        for each in own:
            each.close()
    return 0


def _work(fetched: socket, crawl: socket, seen: SeenSignatures) -> None:
    frames = Frames()
    start: list[bytes] = []
    while not start:
        data = crawl.recv(RECEIVE_BYTES)
        if not data:  # the crawl process is gone already
            return
        start = list(frames.feed(data))
    reader = ParseWorker(pickle.loads(start[0]), seen)
    for frame in frames_from(fetched):
        for dictionary in (*start[1:], *_arrived(crawl, frames)):
            reader.use(dictionary)
        del start[1:]
        signal.setitimer(signal.ITIMER_PROF, PAGE_SECONDS_MAX)
        crawl.sendall(pack(tuple(reader.read(unpack_fetched(frame)))))


def _arrived(source: socket, frames: Frames) -> list[bytes]:
    """The frames that are there now."""
    try:
        return list(frames.feed(source.recv(RECEIVE_BYTES, MSG_DONTWAIT)))
    except BlockingIOError:
        return []
