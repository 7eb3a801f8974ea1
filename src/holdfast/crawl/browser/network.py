"""The network of a browser: the crawl's own fetcher makes all of Chromium's requests.

The protocol's Fetch domain at the level of the whole browser sees every request before it leaves: of pages, frames in
other processes and workers, preflight checks, and each step of a redirect.

    Fetch.requestPaused ──BrowserRequest──▶ PartCache ──▶ FetchJob ──Fetcher──▶ Fetched ──▶ Fetch.fulfillRequest
"""

from __future__ import annotations

import asyncio
import logging
import re
from base64 import b64decode, b64encode
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import CDPSession, Error

from holdfast.crawl.browser.robots import BrowserRobots
from holdfast.crawl.browser.visit import REQUESTS_MAX, Visit
from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.frontier import host_of
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchOutcome
from holdfast.env.lru import LruCache
from holdfast.errors import TooLarge
from holdfast.formats.html.links.references import Hop
from holdfast.formats.http import HTML_TYPES, HttpHead, decoded_content, media_type, parse_head
from holdfast.urls import canonical

log = logging.getLogger("holdfast.crawl")

CONTENT_BYTES_MAX = 8 << 20
SHOWN_BYTES_MAX = 64 << 20  # of one response, decoded; a page does without one that is longer
_RELOADS_MAX = 3
_OWN = ("data:", "blob:", "about:")  # need no network
_LARGE = 1 << 18  # bytes that are not decoded on the loop

# -- a request ---------------------------------------------------------------------------------------------------------


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset(  # what the fetcher sends itself, or what would make a partial response
    (
        *("accept-encoding", "connection", "content-length", "cookie", "expect", "host", "keep-alive", "range", "te"),
        *("if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "referer", "upgrade"),
        *("proxy-authorization", "proxy-connection", "transfer-encoding", "user-agent"),
    )
)


class BrowserRequest(NamedTuple):
    """A request that waits in the browser for its response."""

    id: str
    url: str
    frame: str
    type: str  # as Chromium's protocol calls it: 'Document', 'Image', ...
    method: str
    headers: dict[str, str]  # names in lower case
    content: bytes

    @property
    def is_from_script(self) -> bool:
        """Whether a script made it."""
        return self.type not in ("Document", "Stylesheet", "Image", "Media", "Font", "Script")

    @property
    def is_fetchable(self) -> bool:
        """Over HTTP, of a reasonable size, and not a stream, which has no end by its nature."""
        is_stream = "text/event-stream" in self.headers.get("accept", "")
        return self.url.startswith(("http:", "https:")) and len(self.content) <= CONTENT_BYTES_MAX and not is_stream

    @classmethod
    def of(cls, event: dict[str, Any]) -> BrowserRequest:
        """From the event Fetch.requestPaused."""
        request = event["request"]
        pieces = [b64decode(entry.get("bytes", "")) for entry in request.get("postDataEntries", ())]
        content = b"".join(pieces) or request.get("postData", "").encode("utf-8", "surrogatepass")
        headers = {name.lower(): value for name, value in request["headers"].items()}
        return cls(
            event["requestId"],
            request["url"],
            event.get("frameId", ""),
            event.get("resourceType", ""),
            request["method"],
            headers,
            content,
        )

    def job(self, page: FetchJob, *, delay: float, cookies: bool) -> FetchJob:
        """On behalf of the page. `delay` is owed to hosts other than the page's own."""
        host = host_of(self.url)
        kept = [(name, value) for name, value in self.headers.items() if _is_pages(name)]
        if cookies and "cookie" in self.headers:
            kept.append(("cookie", self.headers["cookie"]))
        return FetchJob(
            page.id,
            canonical(self.url),
            host,
            hop=Hop.EMBED,
            depth=page.depth,
            via=self.headers.get("referer", ""),
            delay=page.delay if host == page.host else delay,
            method="" if self.method == "GET" else self.method,
            content=self.content,
            fields=tuple((name.title(), value) for name, value in kept),
        )


def _is_pages(name: str) -> bool:
    """Whether the page wants the field sent; 'Sec-' fields are the browser's own, and we are not that browser."""
    return name not in _OURS and not name.startswith("sec-") and _TOKEN.fullmatch(name) is not None


# -- a response --------------------------------------------------------------------------------------------------------


_FRAMING = frozenset(
    (b"content-encoding", b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"trailer", b"alt-svc")
)
_REASONS = {
    FetchOutcome.DNS: "NameNotResolved",
    FetchOutcome.CONNECT: "ConnectionRefused",
    FetchOutcome.TIMEOUT: "TimedOut",
    FetchOutcome.DROPPED: "ConnectionClosed",
    FetchOutcome.PRIVATE: "BlockedByClient",
}


def reason_of(fetched: Fetched) -> str:
    """Why there is no response, in the words of Chromium's protocol."""
    return _REASONS.get(fetched.outcome, "Failed")


def answer_of(fetched: Fetched) -> dict[str, Any] | None:
    """The parameters of Fetch.fulfillRequest, except the request's id; None if there is nothing to show."""
    head = parse_head(fetched.head) if fetched.outcome == FetchOutcome.OK else None
    if head is None or not 200 <= head.status <= 599 or head.status == 304 or fetched.size > SHOWN_BYTES_MAX:
        return None
    body = Path(fetched.spool).read_bytes() if fetched.spool else fetched.body
    try:
        content = decoded_content(body, head.headers, SHOWN_BYTES_MAX)
    except TooLarge:
        return None
    return {
        "responseCode": head.status,
        "binaryResponseHeaders": b64encode(b"\0".join(_fields(fetched.head))).decode("ascii"),
        "body": b64encode(content).decode("ascii"),
    }


def is_page(fetched: Fetched) -> bool:
    """Whether a browser would show it as a page."""
    if fetched.outcome != FetchOutcome.OK or fetched.spool or fetched.truncated or not fetched.body:
        return False
    head = parse_head(fetched.head)
    if head is None or not 200 <= head.status < 300 or not _is_html(head):
        return False
    return not (head.headers.get("Content-Disposition") or "").strip().lower().startswith("attachment")


def _is_html(head: HttpHead | None) -> bool:
    return head is not None and media_type(head.headers.get("Content-Type")) in HTML_TYPES


def _fields(head: bytes) -> list[bytes]:
    """Lines that are not about how the body was sent; folded ones are one line."""
    lines: list[bytes] = []
    for line in head.replace(b"\r\n", b"\n").split(b"\n")[1:]:
        if line[:1] in (b" ", b"\t") and lines:
            lines[-1] += b" " + line.strip()
        elif b":" in line:
            lines.append(line.replace(b"\0", b" "))
    return [line for line in lines if line.partition(b":")[0].strip().lower() not in _FRAMING]


# -- parts that pages share --------------------------------------------------------------------------------------------


Shown = tuple[Fetched, dict[str, Any] | None]  # what was fetched, and the response for Chromium
Key = tuple[str, str, str]

_CACHE_BYTES_MAX = 64 << 20
_PART_BYTES_MAX = 8 << 20
_TYPES = frozenset(("Stylesheet", "Image", "Media", "Font", "Script", "Manifest", "Other"))  # icons are 'Other'
_NOT_KEPT = frozenset(("no-store", "no-cache", "max-age=0"))
_VARYING = frozenset(("*", "cookie"))


class PartCache:
    """Parts that pages share: pictures, styles, scripts, fonts and icons are loaded once in a run, as a browser would.

    Each page is shown in a browser that knows nothing of those before it, so Chromium requests the icon of a site with
    every page. The cache keeps what a browser's cache may keep: not what scripts request, nor what its server forbids
    to keep, sets a cookie with, or varies by who asks. One for all tabs. Belongs to the event loop's thread.
    """

    def __init__(self) -> None:
        self._kept: LruCache[Key, Shown] = LruCache(_CACHE_BYTES_MAX, _size)
        self._under_way: dict[Key, asyncio.Future[Shown]] = {}

    async def get(self, request: BrowserRequest) -> Shown | None:
        """The part, if it is there or under way for another page; None if it is to be fetched."""
        key = _key(request)
        if key is None:
            return None
        if (under_way := self._under_way.get(key)) is not None:
            await asyncio.wait((under_way,))  # it may be cancelled with its page
        return self._kept.get(key)

    def begin(self, request: BrowserRequest, shown: asyncio.Future[Shown]) -> None:
        """The part is being fetched; others wait for it."""
        key = _key(request)
        if key is not None:
            self._under_way[key] = shown
            shown.add_done_callback(lambda _: self._end(key, shown))

    def _end(self, key: Key, shown: asyncio.Future[Shown]) -> None:
        if self._under_way.get(key) is shown:
            del self._under_way[key]
        if shown.cancelled() or shown.exception() is not None:
            return
        fetched, answer = shown.result()
        if answer is not None and _may_be_kept(fetched):
            self._kept.put(key, (fetched._replace(body=b"", spool=""), answer))


def _key(request: BrowserRequest) -> Key | None:
    """The URL and what else a response may depend on."""
    if request.method != "GET" or request.content or request.type not in _TYPES:
        return None
    return canonical(request.url), request.headers.get("accept", ""), request.headers.get("origin", "")


def _may_be_kept(fetched: Fetched) -> bool:
    head = parse_head(fetched.head) if fetched.outcome == FetchOutcome.OK and not fetched.truncated else None
    if head is None or head.status not in (200, 404) or fetched.size > _PART_BYTES_MAX:
        return False
    fields = head.headers
    control = _words(fields.get_all("Cache-Control") + fields.get_all("Pragma"))
    return not (_NOT_KEPT & control or _VARYING & _words(fields.get_all("Vary")) or "Set-Cookie" in fields)


def _words(values: list[str]) -> set[str]:
    return {word.strip() for word in ",".join(values).lower().split(",")}


def _size(shown: Shown) -> int:
    answer = shown[1]
    return len(answer["body"]) + len(answer["binaryResponseHeaders"]) if answer is not None else 0


# -- the gate ----------------------------------------------------------------------------------------------------------


class NetworkGate:
    """Of one Chromium, which shows one page at a time. Belongs to the event loop's thread."""

    def __init__(self, fetcher: Fetcher, job: CrawlJob, robots: BrowserRobots, parts: PartCache) -> None:
        self._fetcher = fetcher
        self._job = job
        self._robots = robots
        self._parts = parts
        self._visit: Visit | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._handing: set[asyncio.Task[None]] = set()  # not cancelled: what was fetched is kept

    async def guard(self, session: CDPSession) -> None:
        """From now on every request passes here."""
        session.on("Fetch.requestPaused", lambda event: self._hold(self._pass(session, event), self._passing))
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})

    def open(self, visit: Visit) -> None:
        """Later requests belong to this page."""
        self._visit = visit

    def shut(self) -> None:
        """Requests get no response any more. What is being fetched is kept when it comes."""
        self._visit = None
        for task in self._passing:
            task.cancel()

    @property
    def handing(self) -> int:
        """Parts that were fetched and are not delivered yet."""
        return len(self._handing)

    def broken(self, why: str) -> None:
        if self._visit is not None:
            self._visit.fail(why)

    # -- a request ----------------------------------------------------------------------------------------------

    @staticmethod
    def _hold(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        """The loop itself holds tasks weakly."""
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(_log_failure)

    async def _pass(self, session: CDPSession, event: dict[str, Any]) -> None:
        with suppress(Error):  # the request, or the browser, is gone: nobody waits for the response
            request, visit = BrowserRequest.of(event), self._visit
            if request.url.startswith(_OWN):
                await session.send("Fetch.continueRequest", {"requestId": request.id})
                return
            if visit is None:
                await _refuse(session, request, "Aborted")
                return
            visit.begin()
            try:
                await self._answer(session, request, visit)
            finally:
                visit.end()

    async def _answer(self, session: CDPSession, request: BrowserRequest, visit: Visit) -> None:
        if request.type == "Document" and visit.frame in ("", request.frame):
            await self._navigate(session, request, visit)
            return
        visit.requests += 1
        if visit.requests > REQUESTS_MAX or not request.is_fetchable:
            await _refuse(session, request, "BlockedByClient")
        elif not await self._robots.allow(request.url, visit.job, visit.keep):
            log.info("robots.txt forbids '%s', which '%s' requests", request.url, visit.job.url)
            await _refuse(session, request, "BlockedByClient")
        else:
            await _give(session, request, *await self._fetch_part(request, visit))

    async def _fetch_part(self, request: BrowserRequest, visit: Visit) -> Shown:
        """Whatever comes is kept, even if the page is gone by then."""
        if (known := await self._parts.get(request)) is not None:
            return known
        job = request.job(visit.job, delay=self._job.fetch.delay, cookies=self._job.fetch.cookies)
        future: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()
        self._parts.begin(request, future)

        def done(fetched: Fetched) -> None:
            if request.is_from_script and not job.method and _is_html(parse_head(fetched.head)):
                # a script has read an HTML page that was not shown: it is still to be visited for itself
                fetched = fetched._replace(job=job._replace(method="GET"))
            self._hold(self._hand_over(fetched, visit, future), self._handing)

        self._fetcher.submit(job, done, polite=False)
        return await future

    async def _hand_over(self, fetched: Fetched, visit: Visit, future: asyncio.Future[Shown]) -> None:
        """The response is made first: who takes a part takes its file, too."""
        answer = None
        if not future.done():
            large = fetched.size > _LARGE
            answer = await asyncio.to_thread(answer_of, fetched) if large else answer_of(fetched)
        visit.keep(fetched._replace(part=True))
        if not future.done():
            future.set_result((fetched, answer))

    # -- the page itself ----------------------------------------------------------------------------------------

    async def _navigate(self, session: CDPSession, request: BrowserRequest, visit: Visit) -> None:
        """The page is here already. Where it goes from here is a link, for the crawl to decide on."""
        url = canonical(request.url)
        if not visit.frame:
            visit.frame = request.frame
        elif url != visit.job.url or request.method != "GET" or visit.reloads >= _RELOADS_MAX:
            if request.method == "GET" and url != visit.job.url:
                visit.left_for.append(url)
            await _refuse(session, request, "Aborted")
            return
        else:
            await self._reload(request, visit)
        await _give(session, request, visit.page, answer_of(visit.page))

    async def _reload(self, request: BrowserRequest, visit: Visit) -> None:
        """A page that loads itself again, perhaps with a cookie: the last response is the page."""
        visit.reloads += 1
        job = request.job(visit.job, delay=visit.job.delay, cookies=self._job.fetch.cookies)
        fetched = await self._fetcher.fetch(job, polite=False)
        if is_page(fetched):
            before, visit.page = visit.page, fetched._replace(job=visit.job)
            visit.keep(before._replace(job=_part_of(before.job), part=True))
        else:
            visit.keep(fetched._replace(job=_part_of(fetched.job), part=True))


def _log_failure(task: asyncio.Task[None]) -> None:
    """A failure costs one request, not the crawl."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a request of a page failed: %r", error)


def _part_of(page: FetchJob) -> FetchJob:
    """For a response of the page's URL that is not the page: it does not finish the URL."""
    return FetchJob(page.id, page.url, page.host, hop=page.hop, depth=page.depth, via=page.via, method="GET")


async def _give(session: CDPSession, request: BrowserRequest, fetched: Fetched, answer: dict[str, Any] | None) -> None:
    if answer is None:
        await _refuse(session, request, reason_of(fetched))
        return
    try:
        await session.send("Fetch.fulfillRequest", {"requestId": request.id, **answer})
    except Error:  # it does not accept the response
        await _refuse(session, request, "Failed")


async def _refuse(session: CDPSession, request: BrowserRequest, reason: str) -> None:
    await session.send("Fetch.failRequest", {"requestId": request.id, "errorReason": reason})
