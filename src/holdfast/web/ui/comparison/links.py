"""Links and embedded resources of two captures: added, removed, kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.formats.html.links import LINKS_MAX, Document, Link, links_of
from holdfast.formats.html.links.references import Hop
from holdfast.web.ui.comparison.side import Side

ROLES = {
    Hop.REDIRECT: "redirect",
    Hop.EMBED: "part of the page",
    Hop.LINK: "link",
    Hop.FORM: "form",
    Hop.SPECULATIVE: "in a script",
}


@dataclass(frozen=True, slots=True)
class LinkDifference:
    """Links added, removed and kept; of each side at most `LINKS_MAX` are read."""

    added: list[Link]
    removed: list[Link]
    kept: int
    is_cut: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "added": [_as_dict(link) for link in self.added],
            "removed": [_as_dict(link) for link in self.removed],
            "kept": self.kept,
            "is_cut": self.is_cut,
        }


def _as_dict(link: Link) -> dict[str, str]:
    return {"url": link.url, "role": ROLES.get(link.hop, link.hop)}


def link_difference(a: Side, b: Side) -> LinkDifference:
    """Links are compared by URL; they are given in the order of the documents."""
    old, new = links_of(_document(a)), links_of(_document(b))
    old_urls, new_urls = {link.url for link in old}, {link.url for link in new}
    return LinkDifference(
        [link for link in new if link.url not in old_urls],
        [link for link in old if link.url not in new_urls],
        len(old_urls & new_urls),
        len(old) >= LINKS_MAX or len(new) >= LINKS_MAX or not (a.is_whole and b.is_whole),
    )


def _document(side: Side) -> Document:
    return Document(side.capture.url, side.content, side.content_type, side.headers, side.status)
