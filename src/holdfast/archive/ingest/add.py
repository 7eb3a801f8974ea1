"""Addition of records: the only way in, durable in the order content, record, acknowledgement; catalog after that.

A record is known by its fingerprint, a hash over its literals, its layout and the signatures of its contents: one that
is equal in every byte is not added again. So an import that was interrupted can simply be run again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from holdfast.archive.ingest.intent import Purpose, Unfinished, roll_back
from holdfast.archive.write_state import WriteState
from holdfast.batches.batch import Batch, Frames, bare
from holdfast.batches.entry import REMOVED, SOURCE, JournalEntry
from holdfast.catalog import CatalogChange
from holdfast.env.uninterruptible import Uninterruptible
from holdfast.errors import HoldfastError, VolumeDown
from holdfast.model import OVERFLOW_MAX, ContentKey, RecordId, batch_name
from holdfast.records.draft import RecordDraft, capture_of, fingerprint, is_captured, refusal_mark, signatures_of
from holdfast.storage.store.put import Announced, StoreHints, StoreOptions

_OPTIONS = StoreOptions()


class AddOutcome(StrEnum):
    ADDED = "added"
    KNOWN = "known"  # it was in already
    REFUSED = "refused"  # it was removed, not to come back


class Added(NamedTuple):
    """What became of a record, and its id; None if it was refused."""

    outcome: AddOutcome
    record: RecordId | None
    new_content: bool = False  # the store did not hold its payload


Fetch = Callable[[ContentKey], bytes | None]  # a content of another archive; None: it cannot be read there


class Copy(NamedTuple):
    """A record of another archive: its entry there, and the signatures that its contents have here."""

    entry: JournalEntry
    signatures: Sequence[bytes]


class Adder:
    """Any thread may call; additions happen one after the other."""

    def __init__(self, state: WriteState) -> None:
        self._state = state
        self._shield = Uninterruptible("holdfast-adding")
        self._failed = False

    @property
    def lock(self) -> threading.Lock:
        """Whoever holds it may change batches and catalog."""
        return self._state.lock

    def current_batch(self) -> str:
        """The batch for records that name none."""
        name = self._state.settings.batch
        if name == "month":
            return datetime.fromtimestamp(self._state.env.clock(), UTC).strftime("%Y%m")
        return batch_name(name)

    def frontier(self) -> dict[str, int]:
        """For each batch the first serial number under which nothing was acknowledged yet."""
        with self.lock:
            journal = self._state.journal
            return {name: journal.batch(name).tail.next_serial for name in journal.names()}

    def add(self, drafts: Sequence[RecordDraft], batch: str | None = None) -> list[Added]:
        """Adds the records in their order; those that are added are durable when this returns."""
        name = batch_name(batch) if batch else self.current_batch()
        return self._shield.run(lambda: self._add(drafts, name))

    def add_large(self, draft: RecordDraft, batch: str | None = None) -> Added:
        """Adds a record whose payload is in a file, piece by piece; the file is deleted."""
        name = batch_name(batch) if batch else self.current_batch()
        return self._shield.run(lambda: self._add_large(draft, name))

    def restore(self, name: str, copies: Sequence[Copy], fetch: Fetch) -> list[JournalEntry]:
        """Appends records of another archive under the serial numbers they have; returns them as they are here.

        A record that is not to come back leaves its number. A content that cannot be read leaves a key to which no
        block answers. Durable on return.
        """
        return self._shield.run(lambda: self._restore(name, copies, fetch))

    def add_copies(self, name: str, copies: Sequence[Copy], fetch: Fetch) -> list[Added]:
        """Adds records of another archive as `add` does, under numbers of their own. Durable on return."""
        return self._shield.run(lambda: self._add_copies(name, copies, fetch))

    def close(self) -> None:
        self._shield.close()

    # -- one addition -------------------------------------------------------------------------------------------

    def _add(self, drafts: Sequence[RecordDraft], name: str) -> list[Added]:
        with self.lock:
            self._require_sound()
            batch = self._state.journal.batch(name)
            marks = self._fingerprints(drafts)
            outcomes, new = self._sort_out(drafts, marks)
            self._heal(drafts, outcomes)
            if new:
                added = self._append(batch, [drafts[index] for index in new], [marks[index] for index in new])
                for index, each in zip(new, added, strict=True):
                    outcomes[index] = each
            return self._resolved(outcomes, marks)

    def _fingerprints(self, drafts: Sequence[RecordDraft]) -> list[tuple[bytes, bytes]]:
        """The fingerprint of each draft, and the signature of its payload."""
        unsigned = [draft for draft in drafts if draft.payload and not draft.signature]
        signatures = self._state.contents.sign([draft.payload for draft in unsigned])
        for draft, signature in zip(unsigned, signatures, strict=True):
            draft.signature = signature
        for draft in drafts:
            if not draft.mark:
                draft.mark = fingerprint(draft.entry, (draft.signature,) if draft.signature else ())
        return [(draft.mark, draft.signature) for draft in drafts]

    def _sort_out(
        self, drafts: Sequence[RecordDraft], marks: Sequence[tuple[bytes, bytes]]
    ) -> tuple[list[Added | None], list[int]]:
        """What became of those that are known, and the indexes of those that are new."""
        outcomes: list[Added | None] = [None] * len(drafts)
        new: list[int] = []
        here: set[bytes] = set()
        refusals = bool(self._state.refusals)
        for index, found in enumerate(self._state.catalog.known([mark for mark, _ in marks])):
            if found is not None:
                outcomes[index] = Added(AddOutcome.KNOWN, found)
            elif refusals and self._is_refused(drafts[index].entry, [marks[index][1]] if marks[index][1] else []):
                outcomes[index] = Added(AddOutcome.REFUSED, None)
            elif marks[index][0] not in here:
                here.add(marks[index][0])
                new.append(index)
        return outcomes, new

    def _heal(self, drafts: Sequence[RecordDraft], outcomes: Sequence[Added | None]) -> None:
        """Heals damaged blocks with the payloads of records that are in already."""
        known = [
            draft
            for draft, each in zip(drafts, outcomes, strict=True)
            if each is not None and each.outcome is AddOutcome.KNOWN and draft.payload
        ]
        if known:
            self._state.contents.heal([draft.payload for draft in known], [draft.signature for draft in known])

    def _is_refused(self, entry: JournalEntry, signatures: Sequence[bytes]) -> bool:
        return refusal_mark(entry, signatures) in self._state.refusals

    def _resolved(self, outcomes: list[Added | None], marks: Sequence[tuple[bytes, bytes]]) -> list[Added]:
        """Fills in records that occur twice in one addition."""
        ids = {mark: added.record for (mark, _), added in zip(marks, outcomes, strict=True) if added is not None}
        return [added or Added(AddOutcome.KNOWN, ids[mark]) for (mark, _), added in zip(marks, outcomes, strict=True)]

    def _append(self, batch: Batch, drafts: list[RecordDraft], marks: list[tuple[bytes, bytes]]) -> list[Added]:
        purpose = Purpose(batch.name, batch.tail.next_serial, len(drafts))
        stored = [index for index, draft in enumerate(drafts) if draft.payload]
        announced: list[Announced] = []
        new_contents: set[int] = set()
        hints = StoreHints(
            signatures=[marks[index][1] for index in stored],
            content_types=[drafts[index].entry.mime for index in stored],
            announce=lambda each: self._announce(purpose, each, announced),
        )
        try:
            entries = [draft.entry for draft in drafts]
            if stored:
                results = self._state.contents.put_batch([drafts[index].payload for index in stored], _OPTIONS, hints)
                for index, result in zip(stored, results, strict=True):
                    entries[index] = entries[index]._replace(contents=str(result.key))
                    if not result.duplicate:
                        new_contents.add(index)
            else:
                self._state.intents.announce(purpose, ())
            frames = batch.append(entries)
        except BaseException:
            with suppress(HoldfastError):  # the first failure is the one to be raised
                self._undo(batch, purpose, announced)
            raise
        self._catalogue(batch, frames, drafts)
        return [
            Added(AddOutcome.ADDED, RecordId(batch.name, purpose.first + index), index in new_contents)
            for index in range(len(drafts))
        ]

    def _announce(self, purpose: Purpose, each: list[Announced], announced: list[Announced]) -> None:
        self._state.intents.announce(purpose, each)
        announced += each

    def _undo(self, batch: Batch, purpose: Purpose, announced: list[Announced]) -> None:
        """Nothing of a failed addition stays; if it cannot be undone here, the next writer rolls it back."""
        self._failed = True
        if batch.failed:  # then records may be in it that hold the contents
            return
        roll_back(Unfinished(purpose, tuple(announced)), (), self._state.contents)
        self._state.intents.void()
        self._failed = False

    def _catalogue(self, batch: Batch, frames: Frames, drafts: Sequence[RecordDraft]) -> None:
        serials = [entry.serial for _, each in frames for entry in each]
        fingerprints = {draft.mark: RecordId(batch.name, serial) for draft, serial in zip(drafts, serials, strict=True)}
        urlkeys = [draft.urlkey for draft in drafts]
        self._state.catalog.add(replace(change_of(batch, frames, fingerprints, urlkeys), fresh=True))

    def _require_sound(self) -> None:
        if self._failed:
            raise VolumeDown("an addition failed and could not be undone; open the archive again")

    # -- one large record ---------------------------------------------------------------------------------------

    def _add_large(self, draft: RecordDraft, name: str) -> Added:
        spooled = draft.spooled
        assert spooled is not None
        try:
            with self.lock:
                self._require_sound()
                signatures = [self._state.contents.sign([piece])[0] for piece in self._pieces(spooled)]
                mark = fingerprint(draft.entry, signatures)
                (known,) = self._state.catalog.known([mark])
                if known:
                    for piece, signature in zip(self._pieces(spooled), signatures, strict=True):
                        self._state.contents.heal([piece], [signature])
                    return Added(AddOutcome.KNOWN, known)
                if self._is_refused(draft.entry, signatures):  # before anything is stored: it must not leave bytes
                    return Added(AddOutcome.REFUSED, None)
                return self._append_large(self._state.journal.batch(name), draft, signatures, mark)
        finally:
            spooled.unlink(missing_ok=True)

    def _append_large(self, batch: Batch, draft: RecordDraft, signatures: list[bytes], mark: bytes) -> Added:
        purpose = Purpose(batch.name, batch.tail.next_serial, 1)
        announced: list[Announced] = []
        assert draft.spooled is not None
        try:
            keys, new_content = [], False
            for piece, signature in zip(self._pieces(draft.spooled), signatures, strict=True):
                hints = StoreHints(
                    signatures=[signature], announce=lambda each: self._announce(purpose, each, announced)
                )
                (stored,) = self._state.contents.put_batch([piece], _OPTIONS, hints)
                keys.append(str(stored.key))
                new_content = new_content or not stored.duplicate
            frames = batch.append([draft.entry._replace(contents=" ".join(keys))])
        except BaseException:
            with suppress(HoldfastError):
                self._undo(batch, purpose, announced)
            raise
        draft.mark = mark
        self._catalogue(batch, frames, [draft])
        return Added(AddOutcome.ADDED, RecordId(batch.name, purpose.first), new_content)

    def _pieces(self, spooled: Path) -> Iterator[bytes]:
        with spooled.open("rb") as file:
            while piece := file.read(self._state.settings.piece_bytes_max):
                yield piece

    # -- records of another archive -----------------------------------------------------------------------------

    def _restore(self, name: str, copies: Sequence[Copy], fetch: Fetch) -> list[JournalEntry]:
        with self.lock:
            self._require_sound()
            kept = [Copy(bare(each.entry), ()) if self._is_refused(*each) else each for each in copies]
            return self._append_copies(self._state.journal.batch(name), kept, fetch)

    def _add_copies(self, name: str, copies: Sequence[Copy], fetch: Fetch) -> list[Added]:
        with self.lock:
            self._require_sound()
            marks = [fingerprint(*each) for each in copies]
            added = [Added(AddOutcome.KNOWN, known) if known else None for known in self._state.catalog.known(marks)]
            fresh: dict[bytes, Copy] = {}
            for index, each in enumerate(copies):
                if added[index] is None and self._is_refused(*each):
                    added[index] = Added(AddOutcome.REFUSED, None)
                elif added[index] is None:
                    fresh.setdefault(marks[index], each)
            batch = self._state.journal.batch(name)
            first = batch.tail.next_serial
            if fresh:
                numbered = enumerate(fresh.values(), first)
                self._append_copies(
                    batch, [each._replace(entry=each.entry._replace(serial=serial)) for serial, each in numbered], fetch
                )
            ids = {mark: RecordId(name, serial) for serial, mark in enumerate(fresh, first)}
            return [each or Added(AddOutcome.ADDED, ids[mark]) for each, mark in zip(added, marks, strict=True)]

    def _append_copies(self, batch: Batch, copies: Sequence[Copy], fetch: Fetch) -> list[JournalEntry]:
        first = batch.tail.next_serial
        purpose = Purpose(batch.name, first, copies[-1].entry.serial + 1 - first)
        announced: list[Announced] = []
        try:
            self._state.intents.announce(purpose, ())
            keys = self._store_copies(copies, fetch, lambda each: self._announce(purpose, each, announced))
            entries = [
                each.entry._replace(contents=" ".join(own) or "-") for each, own in zip(copies, keys, strict=True)
            ]
            frames = batch.append_numbered(entries)
        except BaseException:
            with suppress(HoldfastError):
                self._undo(batch, purpose, announced)
            raise
        marks = {
            fingerprint(entry, signatures_of(entry)): RecordId(batch.name, entry.serial)
            for entry in entries
            if entry.type != REMOVED
        }
        elsewhere = self._state.catalog.known(list(marks))
        new = {mark: marks[mark] for mark, known in zip(marks, elsewhere, strict=True) if known is None}
        self._state.catalog.add(replace(change_of(batch, frames, new), fresh=True))
        return entries

    def _store_copies(
        self, copies: Sequence[Copy], fetch: Fetch, announce: Callable[[list[Announced]], None]
    ) -> list[list[str]]:
        """The keys of each record's contents. Those of one record are stored one by one, for it may be large."""
        wanted = [
            (index, ContentKey.parse(key), signature)
            for index, each in enumerate(copies)
            for key, signature in zip(each.entry.contentkeys, each.signatures, strict=True)
        ]
        keys: list[list[str]] = [[] for _ in copies]
        step = 1 if len(copies) == 1 else len(wanted)
        for at in range(0, len(wanted), step or 1):
            some = wanted[at : at + step]
            contents = [fetch(key) for _, key, _ in some]
            there = [
                (index, content) for (index, _, _), content in zip(some, contents, strict=True) if content is not None
            ]
            types = [copies[index].entry.mime for index, _ in there]
            hints = StoreHints(content_types=types, announce=announce)
            stored = iter(self._state.contents.put_batch([content for _, content in there], _OPTIONS, hints))
            for (index, _, signature), content in zip(some, contents, strict=True):
                keys[index].append(self._lost_key(signature) if content is None else str(next(stored).key))
        return keys

    def _lost_key(self, signature: bytes) -> str:
        """Of a content that nobody has. No block gets this number, so no other record's content is ever meant by it."""
        return str(ContentKey(self._state.contents.home(signature), signature, OVERFLOW_MAX))


def change_of(
    batch: Batch, frames: Frames, fingerprints: dict[bytes, RecordId], urlkeys: Sequence[str] = ()
) -> CatalogChange:
    """What the catalog learns from new frames of a batch; the keys of the entries may be known already."""
    name = batch.name
    entries = [entry for _, each in frames for entry in each if entry.serial]
    keyed = zip(entries, urlkeys or [""] * len(entries), strict=True)
    return CatalogChange(
        captures=[capture_of(entry, name, urlkey) for entry, urlkey in keyed if is_captured(entry)],
        fingerprints=fingerprints,
        frames=[(name, place.first_serial, place.pack()) for place, _ in frames if place.first_serial],
        sources=[(entry.filename, RecordId(name, entry.serial)) for entry in entries if entry.type == SOURCE],
        batches={name: batch.state().pack()},
    )
