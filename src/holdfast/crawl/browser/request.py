"""What Chromium asks for, as a job for the fetcher."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any, NamedTuple

from holdfast.crawl.frontier import host_of
from holdfast.crawl.processes.messages import FetchJob
from holdfast.formats.html.links.references import Hop
from holdfast.urls import canonical

CONTENT_BYTES_MAX = 8 << 20
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset(  # what the fetcher says itself, or what would make an answer that is not whole
    (
        *("accept-encoding", "connection", "content-length", "cookie", "expect", "host", "keep-alive", "range", "te"),
        *("if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "referer", "upgrade"),
        *("proxy-authorization", "proxy-connection", "transfer-encoding", "user-agent"),
    )
)


class BrowserRequest(NamedTuple):
    """A request that waits in the browser for its answer."""

    id: str
    url: str
    frame: str
    type: str  # as Chromium's protocol calls it: 'Document', 'Image', ...
    method: str
    headers: dict[str, str]  # names in lower case
    content: bytes

    @property
    def is_document(self) -> bool:
        return self.type == "Document"

    @property
    def is_from_script(self) -> bool:
        """Not for what such a request shows, but for what a script makes of it."""
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
    """Whether it is the page that wants a field sent; 'Sec-' are the browser's own, and we are not that browser."""
    return name not in _OURS and not name.startswith("sec-") and _TOKEN.fullmatch(name) is not None
