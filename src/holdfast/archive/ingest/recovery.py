"""Recovery before writing: the catalog catches up with the batches, and an unfinished addition is rolled back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from holdfast.archive.ingest.add import change_of
from holdfast.archive.ingest.intent import roll_back
from holdfast.archive.write_state import WriteState
from holdfast.batches.batch import Batch, BatchState
from holdfast.batches.entry import REMOVED
from holdfast.batches.frame import FramePlace
from holdfast.batches.journal import Journal
from holdfast.batches.scan import Walked
from holdfast.catalog import Catalog, CatalogChange
from holdfast.env import paths
from holdfast.errors import DamagedBatch
from holdfast.model import SERIAL_MAX, RecordId
from holdfast.records.draft import fingerprint, signatures_of
from holdfast.records.records import Records

log = logging.getLogger("holdfast.archive")


def catch_up(state: WriteState) -> None:
    """Brings the catalog to the state of the batches, which are authoritative."""
    require_files(state.journal, state.catalog)
    unfinished = state.intents.last()
    for name in state.journal.names():
        unsure = unfinished.purpose.first if unfinished and unfinished.purpose.batch == name else SERIAL_MAX
        known = BatchState.unpack(state.catalog.batch_state(name))
        _forget_rewritten(state, name, known)
        found = False
        for walked in state.journal.recover(name, known, unsure):
            enter(state.catalog, state.journal.batch(name), walked)
            found = True
        if found:  # only now is it known that all of it has been seen
            state.catalog.add(CatalogChange(batches={name: state.journal.batch(name).state().pack()}))


def require_files(journal: Journal, catalog: Catalog) -> None:
    """Raises DamagedBatch if a journal file that the catalog knows is gone."""
    for path in missing_files(journal, catalog):
        raise DamagedBatch(
            f"'{path}' is missing; put it back, or run 'holdfast reindex' to go on without the records in it"
        )


def missing_files(journal: Journal, catalog: Catalog) -> Iterator[Path]:
    """Journal files that the catalog knows and that are not there in any form."""
    for name in catalog.batches():
        there = journal.files(name)
        for number, (generation, _) in BatchState.unpack(catalog.batch_state(name)).files.items():
            if number not in there:
                yield journal.directory(name) / paths.records_name(number, generation)


def _forget_rewritten(state: WriteState, name: str, known: BatchState) -> None:
    """Removes frames from the catalog whose files were rewritten or lost since."""
    files = state.journal.files(name)
    void = {number for number, (generation, _) in known.files.items() if files.get(number) != generation}
    if void:
        frames = [
            (name, serial) for serial, place in state.catalog.frames(name) if FramePlace.unpack(place).number in void
        ]
        state.catalog.add(CatalogChange(frames_removed=frames))


def enter(catalog: Catalog, batch: Batch, walked: Walked) -> None:
    """Enters a frame that the catalog does not know yet."""
    entries = [entry for entry in walked.entries if entry.serial]
    marks = {
        fingerprint(entry, signatures_of(entry)): RecordId(batch.name, entry.serial)
        for entry in entries
        if entry.type != REMOVED
    }
    catalog.add(change_of(batch, [(walked.place, entries)], marks))


def roll_back_unfinished(state: WriteState, records: Records) -> None:
    """Releases what an unfinished addition stored."""
    unfinished = state.intents.last()
    if unfinished is None:
        state.intents.clear()  # a torn line would spoil the next one
        return
    purpose = unfinished.purpose
    last = purpose.first + purpose.count
    if state.journal.batch(purpose.batch).tail.next_serial < last:
        held = [
            key for entry in records.entries_from(RecordId(purpose.batch, purpose.first)) for key in entry.contentkeys
        ]
        count = roll_back(unfinished, held, state.contents)
        if count:
            log.info("rolled back %d references of an unfinished addition", count)
    state.intents.clear()
