"""Page classes, as in WebBase (B8): what an active state shows, set against what has come since.

    A   shown, and a later version of the same page has come since: an old version
    B   shown, and nothing later has come: unchanged
    C   has come since, and is not shown yet: new, or a new version

A *version* of a page is a capture of the very same URL in the same collection, of whatever status; what was only said
about a page (metadata, conversions) is none. The three classes part the captures: each is in exactly one.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from holdfast.catalog import Catalog
from holdfast.model import SERIAL_MAX, Capture, RecordId
from holdfast.records.active_state import ActiveState

_AT_ONCE = 1024  # captures that are looked up together
ABOUT = ("metadata", "conversion")  # types that tell of a page and are not it


class PageClass(StrEnum):
    """What a capture is to the active state."""

    A = "A"
    B = "B"
    C = "C"


class ClassCounts(NamedTuple):
    """How many captures are of each class."""

    a: int
    b: int
    c: int


class ClassifiedPage(NamedTuple):
    """What the versions of a page have in common. The key tells requests by other methods apart."""

    collection: str
    urlkey: str
    url: str


def page_of(capture: Capture) -> ClassifiedPage:
    return ClassifiedPage(capture.collection, capture.urlkey, capture.url)


def class_of(catalog: Catalog, active: ActiveState | None, capture: Capture) -> PageClass:
    """The class of a capture. Without an active state everything is shown, and nothing is later."""
    if active is None:
        return PageClass.B
    if capture.record not in active:
        return PageClass.C
    later = (each for each in _versions(catalog, page_of(capture)) if each.record not in active)
    return PageClass.A if any(_order(each) > _order(capture) for each in later) else PageClass.B


def count_classes(catalog: Catalog, active: ActiveState | None) -> ClassCounts:
    """Counts all captures. Time and memory are in proportion to what has come since the state, not to what it shows."""
    total = sum(each.captures for each in catalog.totals()[0].values())
    if active is None:
        return ClassCounts(0, total, 0)
    new = 0
    newest: dict[ClassifiedPage, tuple[str, str]] = {}
    for capture in captures_beyond(catalog, active):
        new += 1
        if capture.type not in ABOUT:
            page = page_of(capture)
            newest[page] = max(newest.get(page, ("", "")), _order(capture))
    old = sum(
        each.record in active and _order(each) < last
        for page, last in newest.items()
        for each in _captures(catalog, page)
    )
    return ClassCounts(old, total - old - new, new)


def captures_beyond(catalog: Catalog, state: ActiveState) -> Iterator[Capture]:
    """The captures that are not in the state, in the order in which they came, batch by batch."""
    for batch in catalog.batches():
        serial = max(1, state.batches.get(batch, 0))
        while found := catalog.cursor().of_batch(batch, serial, SERIAL_MAX, _AT_ONCE):
            records = [RecordId(batch, each) for each, _ in found]
            yield from (capture for capture in catalog.cursor().captures(records) if capture is not None)
            serial = records[-1].serial + 1


def _versions(catalog: Catalog, page: ClassifiedPage) -> Iterator[Capture]:
    return (each for each in _captures(catalog, page) if each.type not in ABOUT)


def _captures(catalog: Catalog, page: ClassifiedPage) -> Iterator[Capture]:
    return (each for each in catalog.of_key(page.urlkey, page.collection) if each.url == page.url)


def _order(capture: Capture) -> tuple[str, str]:
    return capture.timestamp, str(capture.record)
