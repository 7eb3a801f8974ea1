"""In which order URLs are fetched, and how far from the seeds they are."""

from __future__ import annotations

from holdfast.crawl.frontier.rows import UrlRow
from holdfast.crawl.messages import Kind
from holdfast.formats.links.hops import Hop

_DEEP = 60  # levels of depth that are told apart
_LAST_PRIORITY = 2 + _DEEP


def link_depth(depth: int, hop: str) -> int:
    """Requisites and redirects are as far from the seeds as what they belong to."""
    return depth if hop in (Hop.EMBED, Hop.REDIRECT) else depth + 1


def priority_of(row: UrlRow) -> int:
    """Seeds first, then what completes a page, then by depth; guesses last."""
    if row.hop == Hop.SEED or (row.kind != Kind.PAGE and not row.hops):
        return 0
    if row.hop == Hop.EMBED:
        return 1
    near = 2 + min(row.depth, _DEEP)
    return near if row.hop not in (Hop.SPECULATIVE, Hop.FORM) else near + _LAST_PRIORITY
