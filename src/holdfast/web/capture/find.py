"""From a URL and a time to the capture that is shown for it.

The capture is taken that stands for the time (`catalog.pick`), with four turns: what only tells of a page (metadata) is
not the page; a redirect from a URL to itself, as from http to https, would lead in a circle, so that the next is taken
that leads on; what an access rule excludes is passed over, what one blocks is refused; and where there is nothing, URLs
that differ by parameters against caches alone count as the same (`busters`), and what follows an escaped `#` does not
count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.catalog import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.catalog.pick import ordered, picked_of
from holdfast.catalog.revisits import resolved
from holdfast.catalog.timestamps import latest, real_time
from holdfast.errors import Blocked, CaptureNotFound, MalformedQuery
from holdfast.model import Capture, Pick
from holdfast.urls import post_key, url_key
from holdfast.web.capture.cache_busters import Busters
from holdfast.web.context import WebContext
from holdfast.web.request import RequestTargetPath

SHOWN = frozenset(("response", "revisit", "resource", "reference"))  # types of records that are a page
_NOT_SHOWN = ("!=type:metadata", "!=type:conversion", "!=type:request")
_LOOK_AT = 50  # captures of a URL, to find one that does not lead in a circle


class _When(NamedTuple):
    """Which capture of a URL is wanted: that which stands for a time, which may be partial or empty."""

    at: str
    pick: Pick


class Finder:
    """Any thread may call it."""

    note_fuzzy: Callable[[], None] | None = None  # called for each URL that is found by another; on the event loop only

    def __init__(self, site: WebContext) -> None:
        self._site = site
        self._catalog = site.archive.catalog
        self._busters = Busters(site.settings.busters)

    def find(self, collection: str | None, url: str, timestamp: str = "", pick: Pick | None = None) -> Capture:
        """The capture of the URL that stands for the time; without one the newest. Raises CaptureNotFound, Blocked.

        Without `pick` the settings decide.
        """
        when = _When(timestamp, pick or self._site.pick)
        try:
            capture = self._best(collection, url, when)
        except MalformedQuery:
            real = real_time(timestamp) if timestamp.isascii() and timestamp.isdigit() else timestamp
            if real == timestamp or len(timestamp) > len(real):
                raise
            return self.find(collection, url, real, pick)
        if capture is None:
            capture = self._by_another(collection, url, when)
        if capture is None:
            raise CaptureNotFound(self._absence(collection, url, when))
        if not self._site.access.is_open and self._site.access.verdict(capture) is Verdict.BLOCK:
            raise Blocked(f"'{url}' is blocked by a rule of this archive")
        return capture

    def find_posted(
        self,
        collection: str | None,
        url: str,
        timestamp: str,
        method: str,
        body: tuple[bytes, str],
        pick: Pick | None = None,
    ) -> Capture:
        """The same for a request with a body, which is part of the key; else of any body by that method."""
        keyed = post_key(url, method, *body)
        try:
            return self.find(collection, keyed, timestamp, pick)
        except CaptureNotFound:
            query = CaptureQuery(url=url, match="exact", collection=collection)
            posted = self._catalog.by_other_methods(query, self._site.access.permits)
            found = [each for each in posted if f'"{method}"' in each.extra]
            if not found:
                raise
            return self.find(collection, post_url(found[-1]), timestamp, pick)

    def _absence(self, collection: str | None, url: str, when: _When) -> str:
        """Why nothing is found."""
        within = f" in collection {collection!r}" if collection else ""
        later = self._best(collection, url, _When(when.at, Pick.NEAREST)) if when.pick is Pick.NOT_NEWER else None
        if later is None:
            return f"'{url}' is not archived{within}"
        return f"'{url}' is not archived up to {when.at}{within}: the first capture after it is of {later.timestamp}"

    def _best(self, collection: str | None, url: str, when: _When) -> Capture | None:
        if not self._site.access.is_open:
            return self._search(collection, url, when)
        capture = self._catalog.closest(url, when.at, collection, when.pick)
        capture = self._told(capture) if capture is not None else None
        if capture is None or (capture.type in SHOWN and not capture.status.startswith("3")):
            return capture
        if capture.type not in SHOWN:
            return self._search(collection, url, when)
        return self._no_circle(capture, collection, url, when)

    def _search(self, collection: str | None, url: str, when: _When) -> Capture | None:
        capture = next(self._best_first(collection, url, when, 1), None)
        if capture is not None and capture.status.startswith("3"):
            return self._no_circle(capture, collection, url, when)
        return capture

    def _best_first(self, collection: str | None, url: str, when: _When, limit: int) -> Iterator[Capture]:
        query = CaptureQuery(url=url, match="exact", filters=_NOT_SHOWN, collection=collection, limit=limit)
        rows = self._catalog.search(ordered(query, when.at, when.pick), permits=self._site.access.permits)
        return (self._told(row.capture) for row in rows)

    def _told(self, capture: Capture) -> Capture:
        """A revisit with the type of what it repeats, and the status where its own row has none."""
        original = self._catalog.resolve(capture) if capture.type == "revisit" else None
        return capture if original is None else resolved(capture, original)

    def _no_circle(self, capture: Capture, collection: str | None, url: str, when: _When) -> Capture:
        """The redirect, or the next best capture that leads on.

        A redirect of another form of the URL (http, www) is not what was asked for: it may have led here by way of
        other URLs. It is followed only where there is no answer of the same day.
        """
        if _is_same(capture.url, url) and not self._leads_to_itself(capture):
            return capture
        other_form = None
        for other in self._best_first(collection, url, when, _LOOK_AT):
            if other.status.startswith("3"):
                if self._leads_to_itself(other):
                    continue
                if not _is_same(other.url, url):
                    other_form = other_form or other
                    continue
            return other_form if other_form and other_form.timestamp[:8] != other.timestamp[:8] else other
        return other_form or capture

    def _leads_to_itself(self, capture: Capture) -> bool:
        head = self._site.archive.records.of(capture).http_head
        location = head.headers.get("location") if head is not None else None
        if not location:
            return False
        from ada_url import join_url

        try:
            return url_key(join_url(capture.url, location)) == capture.urlkey
        except ValueError:
            return False

    def _by_another(self, collection: str | None, url: str, when: _When) -> Capture | None:
        """The capture of a URL that counts as the same."""
        capture = self._by_busters(collection, url, when)
        if capture is None and "%23" in url:
            capture = self._best(collection, url.partition("%23")[0], when)
        if capture is not None and self.note_fuzzy is not None:
            self.note_fuzzy()
        return capture

    def _by_busters(self, collection: str | None, url: str, when: _When) -> Capture | None:
        """The best capture of a URL that differs by parameters against caches only."""
        permits = self._site.access.permits
        for begin in self._busters.beginnings(url):
            query = CaptureQuery(url=begin, match="prefix", collection=collection, limit=Busters.LOOK_AT)
            rows = self._catalog.search(query, permits=permits)
            same = picked_of(self._busters.same(url, (row.capture for row in rows)), when.at, when.pick)
            if same is not None:
                return self._told(same)
        return None


def shown_at(site: WebContext, target: RequestTargetPath, capture: Capture) -> str:
    """The time, of 14 digits, in the address under which a capture is shown, and in those of its parts and links.

    That of the capture itself. Under `not-newer` it is the time that was asked for: the parts of a page are often of a
    moment after it, and belong to it if they are not newer than what was asked for.
    """
    if (target.pick or site.pick) is Pick.NEAREST:
        return capture.timestamp
    if not target.timestamp:
        return max(capture.timestamp, time.strftime("%Y%m%d%H%M%S", time.gmtime(site.archive.env.clock())))
    return real_time(latest(target.timestamp))


def _is_same(url: str, other: str) -> bool:
    """Whether it is the same form of a URL, and not only the same key."""
    return url.rstrip("/") == other.rstrip("/")


def post_url(capture: Capture) -> str:
    """The URL with method and body under which the catalog keeps a capture by another method than GET."""
    from holdfast.records.draft import keyed_url

    return keyed_url(capture.url, capture.extra)
