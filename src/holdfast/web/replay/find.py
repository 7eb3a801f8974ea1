"""Finds the capture to show for a URL and a time.

`catalog.pick` defines the capture for a time. The exceptions:

- Metadata and conversions are not the page, and are skipped.
- A redirect from a URL to itself, as from http to https, would loop: the next capture that leads on is used.
- Excluded captures are skipped; blocked ones are refused.
- If nothing is found, the rules of replay say which URLs count as the same, and an escaped fragment is ignored.
- A request with a body is answered by the capture of the same body; else by the one whose body is most alike.
- Of captures of parts (206), the one with the first byte requested.
- Of captures in one second, the one whose record the address names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ada_url import join_url

from holdfast.catalog import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.catalog.pick import ordered, picked_of
from holdfast.catalog.revisits import resolved
from holdfast.catalog.timestamps import latest, real_time
from holdfast.errors import Blocked, CaptureNotFound, MalformedQuery
from holdfast.formats.dates import timestamp_at
from holdfast.model import Capture, Pick, RecordId
from holdfast.records.draft import keyed_url
from holdfast.urls import canonical, post_key, url_key
from holdfast.web.context import WebContext
from holdfast.web.replay.rules import ReplayRules
from holdfast.web.request import RequestTargetPath, content_range

SHOWN = frozenset(("response", "revisit", "resource", "reference"))  # types of records that are a page
NOT_SHOWN = ("!=type:metadata", "!=type:conversion", "!=type:request")
_LOOK_AT = 50  # captures of a URL searched for one that does not redirect to itself


class _Wanted(NamedTuple):
    """The capture of a URL for a time, which may be partial or empty."""

    collection: str | None
    url: str
    at: str
    pick: Pick


class Finder:
    """Any thread may call it."""

    note_fuzzy: Callable[[], None] | None = None  # called for each URL that is found by another; on the event loop only

    def __init__(self, site: WebContext) -> None:
        self._site = site
        self._catalog = site.archive.catalog
        self._rules = site.rules

    def find(self, collection: str | None, url: str, timestamp: str = "", pick: Pick | None = None) -> Capture:
        """The capture of the URL for the time; without a time, the newest. Raises CaptureNotFound, Blocked.

        Without `pick` the settings decide.
        """
        wanted = _Wanted(collection, url, timestamp, pick or self._site.pick)
        try:
            capture = self._best(wanted)
        except MalformedQuery:
            real = real_time(timestamp) if timestamp.isascii() and timestamp.isdigit() else timestamp
            if real == timestamp or len(timestamp) > len(real):
                raise
            return self.find(collection, url, real, pick)
        if capture is None:
            capture = self._fuzzy(wanted)
        if capture is None:
            raise CaptureNotFound(self._absence(wanted))
        if not self._site.access.is_open and self._site.access.verdict(capture) is Verdict.BLOCK:
            raise Blocked(f"'{url}' is blocked by a rule of this archive")
        return capture

    def find_target(self, target: RequestTargetPath) -> Capture:
        """The capture that an address names. Raises CaptureNotFound, Blocked."""
        collection = self._site.collection(target.collection)
        named = self._named(target.record, target, collection) if target.record is not None else None
        return named or self.find(collection, target.url, target.timestamp, target.pick)

    def _named(self, record: RecordId, target: RequestTargetPath, collection: str | None) -> Capture | None:
        """The capture of the record, if it is of that URL and second.

        Pages lead on to addresses with the same record, so one that does not fit is ignored. So is one that redirects
        to exactly its own URL.
        """
        capture = self._catalog.capture_of(record)
        if capture is None or capture.timestamp != target.timestamp or capture.type not in SHOWN:
            return None
        if collection not in (None, capture.collection) or canonical(capture.url) != canonical(target.url):
            return None
        match self._site.access.verdict(capture):
            case Verdict.EXCLUDE:
                return None
            case Verdict.BLOCK:
                raise Blocked(f"'{target.url}' is blocked by a rule of this archive")
        capture = self._described(capture)
        return None if canonical(self._redirect(capture)) == canonical(capture.url) else capture

    def find_posted(
        self,
        collection: str | None,
        url: str,
        timestamp: str,
        method: str,
        body: tuple[bytes, str],
        pick: Pick | None = None,
    ) -> Capture:
        """The same for a request with a body, which is part of the key; else the one whose body is most alike."""
        keyed = post_key(url, method, *body)
        try:
            return self.find(collection, keyed, timestamp, pick)
        except CaptureNotFound:
            posted = list(self._posted(collection, url, method))
            if not posted:
                raise
            scores = [self._rules.likeness(keyed, each) for each, _ in posted]
            alike = [each for each, score in zip(posted, scores, strict=True) if score == max(scores)]
            picked = picked_of([capture for _, capture in alike], timestamp, pick or self._site.pick)
            if picked is None:
                raise
            self._note_fuzzy()
            return self.find(collection, keyed_url(picked.url, picked.extra), timestamp, pick)

    def _posted(self, collection: str | None, url: str, method: str) -> Iterator[tuple[str, Capture]]:
        """Captures of the URL, or of one that counts as the same, by that method; with their URLs and bodies."""
        same = self._rules.same(url)
        known: set[RecordId] = set()
        for begin in self._rules.beginnings(url):
            query = CaptureQuery(url=begin, match="prefix", collection=collection, limit=ReplayRules.LOOK_AT)
            for row in self._catalog.search(query, permits=self._site.access.permits):
                capture = row.capture
                is_so = '"method"' in capture.extra and f'"{method}"' in capture.extra
                if is_so and capture.record not in known and self._rules.same(capture.url) == same:
                    known.add(capture.record)
                    yield keyed_url(capture.url, capture.extra), capture

    def holding(self, capture: Capture, collection: str | None, begin: int) -> Capture:
        """Of captures of parts of the URL, the nearest that holds the byte at `begin`; else the given one."""
        wanted = _Wanted(collection, capture.url, capture.timestamp, Pick.NEAREST)
        for other in self._best_first(wanted, _LOOK_AT):
            head = self._site.archive.records.read(other.record).http_head
            part = content_range(head.headers.get("content-range") or "") if head is not None else None
            if other.status == "206" and part is not None and part.begin <= begin < part.end:
                return other
        return capture

    def _absence(self, wanted: _Wanted) -> str:
        """Why nothing is found."""
        within = f" in collection {wanted.collection!r}" if wanted.collection else ""
        later = self._best(wanted._replace(pick=Pick.NEAREST)) if wanted.pick is Pick.NOT_NEWER else None
        if later is None:
            return f"'{wanted.url}' is not archived{within}"
        return (
            f"'{wanted.url}' is not archived up to {wanted.at}{within}: "
            f"the first capture after it is of {later.timestamp}"
        )

    def _best(self, wanted: _Wanted) -> Capture | None:
        capture = None
        if self._site.access.is_open:
            capture = self._catalog.closest(wanted.url, wanted.at, wanted.collection, wanted.pick)
            if capture is None:
                return None
            capture = self._described(capture)
        if capture is None or capture.type not in SHOWN:
            capture = next(self._best_first(wanted, 1), None)
        if capture is not None and capture.status.startswith("3"):
            return self._no_circle(capture, wanted)
        return capture

    def _best_first(self, wanted: _Wanted, limit: int) -> Iterator[Capture]:
        query = CaptureQuery(
            url=wanted.url, match="exact", filters=NOT_SHOWN, collection=wanted.collection, limit=limit
        )
        rows = self._catalog.search(ordered(query, wanted.at, wanted.pick), permits=self._site.access.permits)
        return (self._described(row.capture) for row in rows)

    def _described(self, capture: Capture) -> Capture:
        """A revisit with the type of what it repeats, and the status where its own row has none."""
        original = self._catalog.resolve(capture) if capture.type == "revisit" else None
        return capture if original is None else resolved(capture, original)

    def _no_circle(self, capture: Capture, wanted: _Wanted) -> Capture:
        """The redirect, or the next best capture that leads on.

        A redirect of another form of the URL (http, www) is not what was requested: it may lead here by way of other
        URLs. It is followed only if there is no other capture of the same day.
        """
        if _is_same_form(capture.url, wanted.url) and not self._leads_to_itself(capture):
            return capture
        other_form = None
        for other in self._best_first(wanted, _LOOK_AT):
            if other.status.startswith("3"):
                if self._leads_to_itself(other):
                    continue
                if not _is_same_form(other.url, wanted.url):
                    other_form = other_form or other
                    continue
            return other_form if other_form and other_form.timestamp[:8] != other.timestamp[:8] else other
        return other_form or capture

    def _leads_to_itself(self, capture: Capture) -> bool:
        location = self._redirect(capture)
        try:
            return location != "" and url_key(location) == capture.urlkey
        except ValueError:
            return False

    def _redirect(self, capture: Capture) -> str:
        """Where a redirect leads; empty if it is none."""
        if not capture.status.startswith("3"):
            return ""
        head = self._site.archive.records.read(capture.record).http_head
        location = (head.headers.get("location") or "") if head is not None else ""
        try:
            return join_url(capture.url, location) if location else ""
        except ValueError:
            return ""

    def _fuzzy(self, wanted: _Wanted) -> Capture | None:
        """The capture of a URL that counts as the same."""
        capture = self._by_rules(wanted)
        if capture is None and "%23" in wanted.url:
            capture = self._best(wanted._replace(url=wanted.url.partition("%23")[0]))
        if capture is not None:
            self._note_fuzzy()
        return capture

    def _note_fuzzy(self) -> None:
        if self.note_fuzzy is not None:
            self.note_fuzzy()

    def _by_rules(self, wanted: _Wanted) -> Capture | None:
        """The best capture of a URL that counts as the same."""
        key = self._rules.same(wanted.url)
        for begin in self._rules.beginnings(wanted.url):
            query = CaptureQuery(url=begin, match="prefix", collection=wanted.collection, limit=ReplayRules.LOOK_AT)
            rows = self._catalog.search(query, permits=self._site.access.permits)
            captures = (row.capture for row in rows if row.capture.type in ("response", "revisit"))
            same = [capture for capture in captures if self._rules.same(_keyed(capture)) == key]
            capture = picked_of(same, wanted.at, wanted.pick)
            if capture is not None:
                return self._described(capture)
        return None


def shown_at(site: WebContext, target: RequestTargetPath, capture: Capture) -> str:
    """The time, 14 digits, in the address under which a capture is shown, and in the addresses of its parts and links.

    It is the time of the capture. Under `not-newer` it is the requested time: parts of a page are often captured a
    moment after it, and belong to it if they are not newer than the requested time.
    """
    if (target.pick or site.pick) is Pick.NEAREST:
        return capture.timestamp
    if not target.timestamp:
        return max(capture.timestamp, timestamp_at(site.archive.env.clock()))
    return real_time(latest(target.timestamp))


def _keyed(capture: Capture) -> str:
    return keyed_url(capture.url, capture.extra)


def _is_same_form(url: str, other: str) -> bool:
    """True if both are the same form of a URL, not only the same key."""
    return url.rstrip("/") == other.rstrip("/")
