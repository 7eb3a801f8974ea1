"""Coherence: how near in time the parts of a page were captured (N9).

A page is shown with the nearest capture of each part. If none is near, the page never looked like this: a headline of
one year beside a picture of another. The report gives the distance of each part from its page, the span of all, what is
missing, and whether the spread deserves a warning.

Parts are found as a crawler finds them: what the page and its style sheets embed, one level deep. In a browser the
banner's script reports what was really loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from holdfast.catalog.timestamps import seconds
from holdfast.errors import Blocked, CaptureNotFound, Damaged, TooLarge
from holdfast.formats.html.links.document import Document, links_of
from holdfast.formats.html.links.references import Hop
from holdfast.model import Capture, Pick
from holdfast.web.context import WebContext
from holdfast.web.replay.find import Finder, shown_at
from holdfast.web.replay.response import read
from holdfast.web.request import ALL, RequestTargetPath

PARTS_MAX = 1000  # of a page; what follows is not looked up
SHEETS_MAX = 50  # style sheets that are looked into
PAGE_BYTES_MAX = 8 << 20
_CSS = "text/css"


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part that is archived."""

    url: str
    timestamp: str
    distance_s: int  # from the page; before it: negative
    via: str  # the style sheet that embeds it; empty: the page


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A part that cannot be shown."""

    url: str
    reason: str  # 'not archived', 'blocked'
    via: str


@dataclass(frozen=True, slots=True)
class CoherenceReport:
    """A page and its parts, the farthest first."""

    url: str
    timestamp: str
    parts: tuple[PagePart, ...]
    missing: tuple[MissingPart, ...]
    earliest: str
    latest: str
    warning_s: int
    is_cut: bool  # the page has more parts than were looked up

    @property
    def spread_s(self) -> int:
        """From the earliest to the latest capture, the page among them."""
        return seconds(self.latest) - seconds(self.earliest)

    @property
    def is_warning(self) -> bool:
        return self.spread_s > self.warning_s

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"spread_s": self.spread_s, "is_warning": self.is_warning}


def coherence(
    site: WebContext, url: str, timestamp: str, collection: str | None, pick: Pick | None = None
) -> CoherenceReport:
    """Of the capture of a URL that stands for a time. Not for an event loop. Raises CaptureNotFound, Blocked."""
    finder = Finder(site)
    page = finder.find(collection, url, timestamp, pick)
    target = RequestTargetPath("replay", ALL if collection is None else collection, timestamp, url=url, pick=pick)
    time = shown_at(site, target, page)  # at which the parts of the page are requested
    parts: list[PagePart] = []
    missing: list[MissingPart] = []
    documents = [(page, "")]  # the page, then its style sheets
    embedded = _embedded(site, documents)
    for part, via in islice(embedded, PARTS_MAX):
        try:
            capture = finder.find(collection, part, time, pick)
        except (CaptureNotFound, Blocked) as error:
            missing.append(MissingPart(part, "blocked" if isinstance(error, Blocked) else "not archived", via))
            continue
        parts.append(PagePart(part, capture.timestamp, seconds(capture.timestamp) - seconds(page.timestamp), via))
        if capture.mime == _CSS and not via and len(documents) <= SHEETS_MAX:
            documents.append((capture, part))
    parts.sort(key=lambda part: -abs(part.distance_s))
    times = [page.timestamp, *(part.timestamp for part in parts)]
    is_cut = next(embedded, None) is not None
    warning_s = site.settings.coherence_warning_s
    return CoherenceReport(
        page.url, page.timestamp, tuple(parts), tuple(missing), min(times), max(times), warning_s, is_cut
    )


def _embedded(site: WebContext, documents: list[tuple[Capture, str]]) -> Iterator[tuple[str, str]]:
    """The URL of each part, once, and the style sheet that embeds it. `documents` may grow meanwhile."""
    seen = {documents[0][0].url}
    for capture, via in documents:
        try:
            archived = read(site.archive.records, capture)
            content = archived.plain(PAGE_BYTES_MAX)[:PAGE_BYTES_MAX]
        except (CaptureNotFound, Damaged, TooLarge):
            continue  # unreadable: no parts
        document = Document(capture.url, content, archived.content_type, archived.headers, archived.status)
        for link in links_of(document):
            if link.hop == Hop.EMBED and link.url not in seen:
                seen.add(link.url)
                yield link.url, via
