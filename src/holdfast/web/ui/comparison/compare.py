"""The comparison of two captures as a whole, and of their links and headers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.formats.html.links.document import Document, Link, links_of
from holdfast.formats.html.links.references import LINKS_MAX, Hop
from holdfast.formats.record import Headers
from holdfast.model import Capture, Pick
from holdfast.web.context import WebContext
from holdfast.web.replay.find import Finder
from holdfast.web.replay.response import StoredRecords
from holdfast.web.ui.comparison.side import Side, lines_of, side_of
from holdfast.web.ui.comparison.text import TextDifference, text_difference

VIEWS = ("text", "links", "headers")
FIELDS_MAX = 1000
ROLES = {
    Hop.REDIRECT: "redirect",
    Hop.EMBED: "part of the page",
    Hop.LINK: "link",
    Hop.FORM: "form",
    Hop.SPECULATIVE: "in a script",
}
_USUAL = frozenset(  # differ from one response to the next, even if the page does not change
    ("date", "age", "expires", "set-cookie", "etag", "x-request-id", "cf-ray", "x-served-by", "x-timer", "x-cache")
)
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two captures and their differences; parts not requested or not applicable are None."""

    a: Side
    b: Side
    is_same_content: bool
    text: TextDifference | None = None
    links: LinkDifference | None = None
    headers: HeaderDifference | None = None
    why_no_text: str = ""

    @property
    def is_same_capture(self) -> bool:
        return self.a.capture.record == self.b.capture.record

    def as_dict(self) -> dict[str, Any]:
        parts = ("a", "b", "text", "links", "headers")
        return {
            "is_same_capture": self.is_same_capture,
            "is_same_content": self.is_same_content,
            "why_no_text": self.why_no_text,
            **{name: part.as_dict() if (part := getattr(self, name)) else None for name in parts},
        }


def compare(
    site: WebContext,
    url: str,
    a: str,
    b: str,
    collection: str | None,
    pick: Pick | None = None,
    *,
    views: Collection[str] = VIEWS,
) -> Comparison:
    """Compares the captures of a URL that stand for two times. Blocks the thread. Raises CaptureNotFound, Blocked."""
    finder = Finder(site)
    first, second = (finder.find(collection, url, at, pick) for at in (a, b))
    return compare_captures(site.archive.records, first, second, views=views)


def compare_captures(records: StoredRecords, a: Capture, b: Capture, *, views: Collection[str] = VIEWS) -> Comparison:
    """Compares any two captures, also of different URLs."""
    one, other = side_of(records, a), side_of(records, b)
    text, why = _text(one, other) if "text" in views else (None, "")
    has_links = "links" in views and not one.problem and not other.problem
    return Comparison(
        one,
        other,
        _is_same(one, other),
        text,
        link_difference(one, other) if has_links else None,
        header_difference(one, other) if "headers" in views else None,
        why,
    )


def _is_same(a: Side, b: Side) -> bool:
    """By digest where both have one of the same algorithm, else byte by byte."""
    one, other = a.capture.digest, b.capture.digest
    if _UNKNOWN not in (one, other) and one.partition(":")[0] == other.partition(":")[0]:
        return one == other
    return not a.problem and not b.problem and a.is_whole and b.is_whole and bool(a.content) and a.content == b.content


def _text(a: Side, b: Side) -> tuple[TextDifference | None, str]:
    """The difference of the texts; if there is none, why."""
    if a.problem or b.problem:
        return None, a.problem or b.problem
    texts = []
    for side in (a, b):
        found = lines_of(side) if side.content or not side.size else None
        if found is None:
            what = f"bytes that are called '{side.kind}'" if side.content else f"of type '{side.kind or 'unknown'}'"
            return None, f"the capture of {side.capture.timestamp} is not text, but {what}"
        texts.append(found)
    (old, is_old_cut), (new, is_new_cut) = texts
    return text_difference(old, new, is_cut=is_old_cut or is_new_cut), ""


# -- links -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkDifference:
    """Links added, removed and kept; of each side at most `LINKS_MAX` are read."""

    added: list[Link]
    removed: list[Link]
    kept: int
    is_cut: bool

    def as_dict(self) -> dict[str, Any]:
        added, removed = (
            [{"url": link.url, "role": ROLES.get(link.hop, link.hop)} for link in links]
            for links in (self.added, self.removed)
        )
        return {"added": added, "removed": removed, "kept": self.kept, "is_cut": self.is_cut}


def link_difference(a: Side, b: Side) -> LinkDifference:
    """Links are compared by URL; they are given in the order of the documents."""
    old, new = (
        links_of(Document(side.capture.url, side.content, side.content_type, side.headers, side.status))
        for side in (a, b)
    )
    old_urls, new_urls = {link.url for link in old}, {link.url for link in new}
    return LinkDifference(
        [link for link in new if link.url not in old_urls],
        [link for link in old if link.url not in new_urls],
        len(old_urls & new_urls),
        len(old) >= LINKS_MAX or len(new) >= LINKS_MAX or not (a.is_whole and b.is_whole),
    )


# -- headers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """A field by its name in lower case, and its values on each side."""

    name: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    @property
    def state(self) -> str:
        """`same`, `added`, `removed` or `changed`."""
        if self.a == self.b:
            return "same"
        return "added" if not self.a else "removed" if not self.b else "changed"

    @property
    def is_usual(self) -> bool:
        """True if it differs between most responses, and so says little."""
        return self.name in _USUAL


@dataclass(frozen=True, slots=True)
class HeaderDifference:
    """Status and fields; differing ones first."""

    a_status: int
    b_status: int
    rows: list[HeaderRow]

    @property
    def changed(self) -> int:
        return sum(row.state != "same" for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        rows = [asdict(row) | {"state": row.state, "is_usual": row.is_usual} for row in self.rows]
        return {"status": [self.a_status, self.b_status], "changed": self.changed, "fields": rows}


def header_difference(a: Side, b: Side) -> HeaderDifference:
    old, new = _by_name(a.headers), _by_name(b.headers)
    rows = [HeaderRow(name, old.get(name, ()), new.get(name, ())) for name in sorted(old.keys() | new.keys())]
    rows.sort(key=lambda row: (row.state == "same", row.is_usual))
    return HeaderDifference(a.status, b.status, rows)


def _by_name(headers: Headers) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items()[:FIELDS_MAX]:
        found[name.lower()] = (*found.get(name.lower(), ()), value)
    return found
