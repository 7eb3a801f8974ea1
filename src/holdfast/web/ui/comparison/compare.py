"""The comparison of two captures as a whole: its parts put together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from holdfast.model import Capture, Pick
from holdfast.records.records import Records
from holdfast.web.capture.find import Finder
from holdfast.web.context import WebContext
from holdfast.web.ui.comparison.headers import HeaderDifference, header_difference
from holdfast.web.ui.comparison.links import LinkDifference, link_difference
from holdfast.web.ui.comparison.side import Side, side_of
from holdfast.web.ui.comparison.text import TextDifference, lines_of, text_difference

VIEWS = ("text", "links", "headers")
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two captures and what differs; parts that were not requested, or do not apply to such contents, are None."""

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
        return {
            "a": self.a.as_dict(),
            "b": self.b.as_dict(),
            "is_same_capture": self.is_same_capture,
            "is_same_content": self.is_same_content,
            "text": self.text.as_dict() if self.text else None,
            "why_no_text": self.why_no_text,
            "links": self.links.as_dict() if self.links else None,
            "headers": self.headers.as_dict() if self.headers else None,
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
    """Compares the captures of a URL nearest to two times. Blocks the thread. Raises CaptureNotFound, Blocked."""
    finder = Finder(site)
    first, second = (finder.find(collection, url, at, pick) for at in (a, b))
    return compare_captures(site.archive.records, first, second, views=views)


def compare_captures(records: Records, a: Capture, b: Capture, *, views: Collection[str] = VIEWS) -> Comparison:
    """Compares any two captures, also of different URLs."""
    one, other = side_of(records, a), side_of(records, b)
    is_same = _is_same(one, other)
    text, why = _text(one, other) if "text" in views else (None, "")
    has_links = "links" in views and not one.problem and not other.problem
    return Comparison(
        one,
        other,
        is_same,
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
    for side in (a, b):
        if side.problem:
            return None, side.problem
    lines = []
    for side in (a, b):
        found = lines_of(side) if side.content or not side.size else None
        if found is None:
            return None, f"the capture of {side.capture.timestamp} is not text, but {_what(side)}"
        lines.append(found)
    return text_difference(lines[0][0], lines[1][0], is_cut=lines[0][1] or lines[1][1]), ""


def _what(side: Side) -> str:
    return f"bytes that are called '{side.kind}'" if side.content else f"of type '{side.kind or 'unknown'}'"
