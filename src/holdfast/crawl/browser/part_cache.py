"""Parts that pages share: pictures, styles, scripts, fonts and icons are loaded once in a run, as a browser would.

Each page is shown in a browser that knows nothing of those before it, so Chromium asks for the icon of a site with
every page. Without a browser a crawl fetches a URL once in a visit; so it does with one, as far as a cache may go: not
what scripts ask for, nor what its server forbids to keep, sets a cookie with, or answers by who asks.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.crawl.browser.request import BrowserRequest
from holdfast.crawl.processes.messages import Fetched, FetchOutcome
from holdfast.env.lru import LruCache
from holdfast.formats.http import parse_head
from holdfast.urls import canonical

Shown = tuple[Fetched, dict[str, Any] | None]  # what was fetched, and what Chromium is told of it
Key = tuple[str, str, str]

BYTES_MAX = 64 << 20
PART_BYTES_MAX = 8 << 20
_TYPES = frozenset(("Stylesheet", "Image", "Media", "Font", "Script", "Manifest", "Other"))  # icons are 'Other'
_NOT_KEPT = frozenset(("no-store", "no-cache", "max-age=0"))
_VARYING = frozenset(("*", "cookie"))


class PartCache:
    """Of one run of a crawl, for all its tabs. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._kept: LruCache[Key, Shown] = LruCache(BYTES_MAX, _size)
        self._under_way: dict[Key, asyncio.Future[Shown]] = {}

    async def get(self, asked: BrowserRequest) -> Shown | None:
        """The part, if it is there or under way for another page; None if it is to be fetched."""
        key = _key(asked)
        if key is None:
            return None
        if (under_way := self._under_way.get(key)) is not None:
            await asyncio.wait((under_way,))  # which may be cancelled with its page: that is no business of ours
        return self._kept.get(key)

    def begin(self, asked: BrowserRequest, shown: asyncio.Future[Shown]) -> None:
        """The part is being fetched; others wait for it."""
        key = _key(asked)
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


def _key(asked: BrowserRequest) -> Key | None:
    """By URL and by what else an answer may depend on."""
    if asked.method != "GET" or asked.content or asked.type not in _TYPES:
        return None
    return canonical(asked.url), asked.headers.get("accept", ""), asked.headers.get("origin", "")


def _may_be_kept(fetched: Fetched) -> bool:
    head = parse_head(fetched.head) if fetched.outcome == FetchOutcome.OK and not fetched.truncated else None
    if head is None or head.status not in (200, 404) or fetched.size > PART_BYTES_MAX:
        return False
    fields = head.headers
    told = ",".join(fields.get_all("Cache-Control") + fields.get_all("Pragma")).lower()
    varying = ",".join(fields.get_all("Vary")).lower()
    return not (
        _NOT_KEPT & {word.strip() for word in told.split(",")}
        or _VARYING & {word.strip() for word in varying.split(",")}
        or "Set-Cookie" in fields
    )


def _size(shown: Shown) -> int:
    answer = shown[1]
    return len(answer["body"]) + len(answer["binaryResponseHeaders"]) if answer is not None else 0
