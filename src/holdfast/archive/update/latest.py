"""Latest only (B15): captures that a later one of their page has superseded, and that nothing needs any more.

Of each page stay: the newest capture; if that is an error, or repeats something that is not here, also the newest that
can be shown; and whatever those repeat. The last is decided over the whole archive: a revisit that stays, of whatever
page and collection, keeps its original. So no page that can be shown now cannot be shown afterwards.

What a page's captures are: see `records/page_classes.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from holdfast.batches.journal import Journal
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.catalog.revisits import can_stand_alone
from holdfast.model import Capture, RecordId
from holdfast.records.active_state import ActiveState
from holdfast.records.page_classes import ABOUT, captures_beyond
from holdfast.records.selection import Selection

_REVISIT = "revisit"
_ERRORS = ("4", "5")  # what the status of an error begins with
AT_A_TIME = 10_000  # captures that one removal takes


@dataclass(frozen=True, slots=True)
class Superseded(Selection):
    """Some captures that are superseded, but for those that have been referred to since they were chosen."""

    records: tuple[RecordId, ...] = ()
    chosen: ActiveState = field(default_factory=lambda: ActiveState(0, ""))  # what there was then

    @property
    def is_whole(self) -> bool:
        return False

    def record_ids(self, catalog: Catalog, journal: Journal) -> Iterator[RecordId]:
        needed = set(_originals(catalog, captures_beyond(catalog, self.chosen)))
        return (record for record in self.records if record not in needed)


def superseded(catalog: Catalog, shown: ActiveState, chosen: ActiveState) -> Iterator[Superseded]:
    """All captures of the state `shown` that are superseded in it, in the order of the batches, in groups.

    `chosen` is all that there is now. Takes 4 bytes of memory for each that is superseded, and some for each revisit.
    """
    gone: dict[str, array[int]] = {}
    needed: set[RecordId] = set()
    for collection in catalog.collections():
        rows = catalog.search(CaptureQuery(url="*", collection=collection))
        for _, group in groupby((row.capture for row in rows), key=lambda each: each.urlkey):
            captures = list(group)
            old = {each.record for each in _old(catalog, captures, shown)}
            for record in old:
                gone.setdefault(record.batch, array("I")).append(record.serial)
            staying = (each for each in captures if each.record not in old)
            needed.update(_originals(catalog, staying))
    records = (
        record
        for batch in sorted(gone)
        for serial in sorted(gone.pop(batch))
        if (record := RecordId(batch, serial)) not in needed
    )
    group_: list[RecordId] = []
    for record in records:
        group_.append(record)
        if len(group_) == AT_A_TIME:
            yield Superseded(records=tuple(group_), chosen=chosen)
            group_ = []
    if group_:
        yield Superseded(records=tuple(group_), chosen=chosen)


def _old(catalog: Catalog, captures: list[Capture], shown: ActiveState) -> Iterator[Capture]:
    """Of the captures under one key, by time, those that a later one of the very same URL has superseded."""
    pages: dict[str, list[Capture]] = {}
    for capture in captures:
        if capture.record in shown and capture.type not in ABOUT:
            pages.setdefault(capture.url, []).append(capture)
    for versions in pages.values():
        newest = versions.pop()
        kept: Capture | None = newest
        if not _can_be_shown(catalog, newest):
            kept = next((each for each in reversed(versions) if _can_be_shown(catalog, each)), None)
        yield from (each for each in versions if each is not kept)


def _can_be_shown(catalog: Catalog, capture: Capture) -> bool:
    if capture.status.startswith(_ERRORS):
        return False
    if capture.type != _REVISIT or capture.contents != "-" or can_stand_alone(capture):
        return True
    return catalog.resolve(capture) is not None


def _originals(catalog: Catalog, captures: Iterator[Capture]) -> Iterator[RecordId]:
    """The records that those of the captures need which have no payload of their own."""
    for capture in captures:
        if capture.type == _REVISIT and (original := catalog.resolve(capture)) is not None:
            yield original.record
