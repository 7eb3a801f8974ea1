"""How well the parts of a page fit together in time (N9).

A page is shown with the capture of each part that is nearest to its own. Where none is near, the page as shown never
was: a headline of one year beside a picture of another. The report tells how far each part lies from its page, between
which times all of them lie, what is missing, and whether that is more than the archive's settings let pass in silence.

For programs the parts are found as a crawler would: what the page embeds, and what its style sheets embed, one level
deep. In a browser the page itself knows better what it loaded; `report` takes whatever was chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from holdfast.catalog.timestamps import seconds
from holdfast.errors import Blocked, CaptureNotFound, Damaged, TooLarge
from holdfast.formats.html.links import Document, links_of
from holdfast.formats.html.links.references import Hop
from holdfast.model import Capture, Pick
from holdfast.web.capture.find import Finder, shown_at
from holdfast.web.capture.response import read
from holdfast.web.context import WebContext
from holdfast.web.request import ALL, RequestTargetPath

PARTS_MAX = 1000  # of a page; what follows is not looked up
SHEETS_MAX = 50  # style sheets that are looked into
PAGE_BYTES_MAX = 8 << 20
_CSS = "text/css"


class Chosen(NamedTuple):
    """A part of a page, and the capture that is shown for it; without one, why."""

    url: str
    capture: Capture | None
    reason: str = ""  # 'not archived', 'blocked'
    via: str = ""  # the style sheet that embeds it


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part that is there."""

    url: str
    timestamp: str
    distance_s: int  # from the page; before it: negative
    via: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"url": self.url, "timestamp": self.timestamp, "distance_s": self.distance_s, "via": self.via}


@dataclass(frozen=True, slots=True)
class CoherenceReport:
    """A page and its parts, the farthest first."""

    url: str
    timestamp: str
    parts: tuple[PagePart, ...]
    missing: tuple[Chosen, ...]
    earliest: str
    latest: str
    warning_s: int
    is_cut: bool = False  # the page has more parts than were looked up

    @property
    def spread_s(self) -> int:
        """From the earliest to the latest capture, the page among them."""
        return seconds(self.latest) - seconds(self.earliest)

    @property
    def is_warning(self) -> bool:
        return self.spread_s > self.warning_s

    def as_dict(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "timestamp": self.timestamp,
            "earliest": self.earliest,
            "latest": self.latest,
            "spread_s": self.spread_s,
            "warning_s": self.warning_s,
            "is_warning": self.is_warning,
            "is_cut": self.is_cut,
            "parts": [part.as_dict() for part in self.parts],
            "missing": [{"url": part.url, "reason": part.reason, "via": part.via} for part in self.missing],
        }


def report(page: Capture, chosen: Iterable[Chosen], warning_s: int, *, is_cut: bool = False) -> CoherenceReport:
    """Of a page and the captures that are shown for its parts."""
    moment = seconds(page.timestamp)
    parts, missing = [], []
    for each in chosen:
        if each.capture is None:
            missing.append(each)
        else:
            timestamp = each.capture.timestamp
            parts.append(PagePart(each.url, timestamp, seconds(timestamp) - moment, each.via))
    parts.sort(key=lambda part: -abs(part.distance_s))
    times = [page.timestamp, *(part.timestamp for part in parts)]
    return CoherenceReport(
        page.url, page.timestamp, tuple(parts), tuple(missing), min(times), max(times), warning_s, is_cut
    )


def coherence(
    site: WebContext, url: str, timestamp: str, collection: str | None, pick: Pick | None = None
) -> CoherenceReport:
    """Of the capture of a URL that stands for a time. Not for an event loop. Raises CaptureNotFound, Blocked."""
    page = Finder(site).find(collection, url, timestamp, pick)
    target = RequestTargetPath("replay", ALL if collection is None else collection, timestamp, url=url, pick=pick)
    search = _PartSearch(site, collection, page, target._replace(timestamp=shown_at(site, target, page)))
    chosen = list(islice(search.parts(), PARTS_MAX + 1))
    return report(page, chosen[:PARTS_MAX], site.settings.coherence_warning_s, is_cut=len(chosen) > PARTS_MAX)


class _PartSearch:
    """Looks up the parts of one page, each once."""

    def __init__(self, site: WebContext, collection: str | None, page: Capture, target: RequestTargetPath) -> None:
        """`target` is how the page is shown, at the time at which its parts are asked for."""
        self._site = site
        self._finder = Finder(site)
        self._collection = collection
        self._page = page
        self._target = target
        self._seen = {page.url}

    def parts(self) -> Iterator[Chosen]:
        sheets: list[Chosen] = []
        for chosen in self._embedded(self._page, ""):
            if chosen.capture is not None and chosen.capture.mime == _CSS and len(sheets) < SHEETS_MAX:
                sheets.append(chosen)
            yield chosen
        for sheet in sheets:
            assert sheet.capture is not None
            yield from self._embedded(sheet.capture, sheet.url)

    def _embedded(self, capture: Capture, via: str) -> Iterator[Chosen]:
        try:
            archived = read(self._site.archive.records, capture)
            content = archived.plain(PAGE_BYTES_MAX)
        except (CaptureNotFound, Damaged, TooLarge):
            return  # what cannot be read embeds nothing
        content_type = archived.headers.get("content-type") or ""
        document = Document(capture.url, content[:PAGE_BYTES_MAX], content_type, archived.headers, archived.status)
        for link in links_of(document):
            if link.hop == Hop.EMBED and link.url not in self._seen:
                self._seen.add(link.url)
                yield self._look_up(link.url, via)

    def _look_up(self, url: str, via: str) -> Chosen:
        try:
            found = self._finder.find(self._collection, url, self._target.timestamp, self._target.pick)
            return Chosen(url, found, via=via)
        except CaptureNotFound:
            return Chosen(url, None, "not archived", via)
        except Blocked:
            return Chosen(url, None, "blocked", via)
