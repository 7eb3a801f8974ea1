"""Matches in groups: one hit for all captures of a page (P9), or for all pages with nearly the same text (N11).

    matches in order ──► the first of each page, with its captures ──► the first of each text, with its pages

A group stands where the first of its matches stands, and that match is shown. Of matches with equal relevance, the
last one added comes first.

By page, only as many matches are read as the requested hits need. By text, all of them are, up to `TEXTS_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import TooLarge
from holdfast.index.extract.near_pairs import clusters_of
from holdfast.index.schema import schema
from holdfast.query.order import Shown
from holdfast.query.snapshot import Numbers, QuerySnapshot

if TYPE_CHECKING:
    import tantivy

COUNTED_MAX = 500_000  # matches whose pages are counted one by one; of more, the number of pages is estimated
TEXTS_MAX = 100_000  # matches that can be grouped by text
DISTANCE = 3  # bits of 64 in which the sketches of one text may differ
_READ_MIN = 1000  # matches

Ordered = Callable[[int], tuple[int, list[Shown]]]  # from a limit to the number of matches and the first of them


class HitGroup(NamedTuple):
    """A group: the match that represents it, and the others."""

    shown: Shown
    captures: int = 1
    pages: int = 1


class Groups(NamedTuple):
    """The requested groups of a query's matches."""

    total: int  # groups, shown or not
    captures: int  # matches
    is_exact: bool  # of the total
    groups: list[HitGroup]


def by_capture(ordered: Ordered, offset: int, limit: int) -> Groups:
    matches, shown = ordered(offset + limit)
    return Groups(matches, matches, True, [HitGroup(each) for each in shown[offset : offset + limit]])


def by_page(snapshot: QuerySnapshot, query: tantivy.Query, ordered: Ordered, offset: int, limit: int) -> Groups:
    """One hit for each page."""
    wanted = offset + limit
    found = first_of_pages(snapshot, query, ordered, wanted)
    chosen = found.firsts[offset:wanted]
    captures = captures_of(snapshot, query, found.pages[chosen])
    groups = [HitGroup(found.shown[at], count) for at, count in zip(chosen.tolist(), captures, strict=True)]
    return Groups(found.total, found.captures, found.is_exact, groups)


class FirstOfPages(NamedTuple):
    """The first matches of a query, at least those of the wanted number of pages."""

    total: int  # pages
    captures: int  # matches
    is_exact: bool  # of the total
    shown: list[Shown]
    pages: Numbers  # of these
    firsts: NDArray[np.int64]  # the places of the first match of each page


def first_of_pages(snapshot: QuerySnapshot, query: tantivy.Query, ordered: Ordered, wanted: int) -> FirstOfPages:
    most = max(_READ_MIN, 4 * wanted)
    while True:
        matches, shown = ordered(most)
        pages = _pages(snapshot, shown)
        firsts = _firsts(pages)
        if len(firsts) >= wanted or len(shown) >= matches:
            break
        most = min(matches, 8 * most)
    total, is_exact = (len(firsts), True) if len(shown) >= matches else _count_pages(snapshot, query, matches)
    return FirstOfPages(total, matches, is_exact, shown, pages, firsts)


def by_text(snapshot: QuerySnapshot, ordered: Ordered, offset: int, limit: int) -> Groups:
    """One hit for all pages of which the shown captures have nearly the same text. Raises TooLarge."""
    every = every_match(ordered)
    pages = text_pages(snapshot, every)
    total, texts = text_groups(pages.sketches, pages.captures, offset, limit)
    groups = [HitGroup(every[pages.firsts[each.at]], each.captures, each.pages) for each in texts]
    return Groups(total, len(every), True, groups)


def every_match(ordered: Ordered) -> list[Shown]:
    """All matches, in order. Raises TooLarge."""
    matches, shown = ordered(TEXTS_MAX)
    require_comparable(matches)
    return shown


def require_comparable(matches: int) -> None:
    """Raises TooLarge."""
    if matches > TEXTS_MAX:
        raise TooLarge(f"{matches:,} matches cannot be grouped by text: narrow the query to {TEXTS_MAX:,}")


class TextPages(NamedTuple):
    """The pages of all matches of a query, in order."""

    firsts: NDArray[np.int64]  # the place of the first match of each
    captures: NDArray[np.int64]  # how many matches each has
    sketches: Numbers  # of the texts of the first matches


def text_pages(snapshot: QuerySnapshot, every: Sequence[Shown]) -> TextPages:
    pages = _pages(snapshot, every)
    firsts = _firsts(pages)
    numbers, counts = np.unique(pages, return_counts=True)
    captures = counts[np.searchsorted(numbers, pages[firsts])] if len(firsts) else np.zeros(0, np.int64)
    return TextPages(firsts, captures, snapshot.numbers("sketch", [every[at].address for at in firsts.tolist()]))


class TextGroup(NamedTuple):
    """All pages with nearly the same text."""

    at: int  # the place of the first page
    captures: int
    pages: int


def text_groups(sketches: Numbers, captures: NDArray[np.int64], offset: int, limit: int) -> tuple[int, list[TextGroup]]:
    """The number of texts of some pages in order, and the requested ones."""
    texts = _texts(sketches)
    leaders = _firsts(texts)
    groups = []
    for at in leaders[offset : offset + limit].tolist():
        alike = texts == texts[at]
        groups.append(TextGroup(at, int(captures[alike].sum()), int(alike.sum())))
    return len(leaders), groups


def _pages(snapshot: QuerySnapshot, shown: Sequence[Shown]) -> Numbers:
    return snapshot.numbers("page", [each.address for each in shown])


def _firsts(keys: NDArray[np.generic]) -> NDArray[np.int64]:
    """The positions of the first occurrence of each key, ascending."""
    return np.sort(np.unique(keys, return_index=True)[1])


def _texts(sketches: Numbers) -> NDArray[np.int64]:
    """A number for each text: the same for near-duplicates, a unique one for a text without a sketch."""
    known, places = np.unique(sketches, return_inverse=True)
    texts = clusters_of(known, DISTANCE)[places]
    alone = np.flatnonzero(sketches == 0)
    texts[alone] = -1 - alone
    return texts


def _count_pages(snapshot: QuerySnapshot, query: tantivy.Query, matches: int) -> tuple[int, bool]:
    """The number of pages among the matches, and whether it is exact; if not, it is within some per cent."""
    if matches <= COUNTED_MAX:
        return len(np.unique(snapshot.numbers("page", snapshot.gather(query).addresses))), True
    found = snapshot.searcher.aggregate(snapshot.seen(query), {"pages": {"cardinality": {"field": "page"}}})
    return int(found["pages"]["value"]), False


def captures_of(snapshot: QuerySnapshot, query: tantivy.Query, pages: Numbers) -> list[int]:
    """For each of these pages, the number of its captures that match."""
    from tantivy import Occur, Query

    if not len(pages):
        return []
    chosen = Query.term_set_query(schema(), "page", pages.tolist())
    found = snapshot.gather(Query.boolean_query([(Occur.Must, query), (Occur.Must, chosen)]))
    values, counts = np.unique(snapshot.numbers("page", found.addresses), return_counts=True)
    return [int(count) for count in counts[np.searchsorted(values, pages)]]
