"""The writer of an archive: additions, and recovery after a crash.

Records are added only here, in the order contents, record, acknowledgement; the catalog follows. A record is identified
by its fingerprint, a hash over its literals, its layout and the signatures of its contents: one that is equal in every
byte is not added again. So an interrupted import can simply be repeated.

The batches are authoritative. Before an archive is written, its catalog is updated from them, and the contents of an
unfinished addition are released (`intent`).
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from holdfast.archive.directory import OUTDATED
from holdfast.archive.ingest.intent import IntentLog, Purpose, Unfinished, roll_back
from holdfast.batches.batch import Batch, BatchState, Frames, bare
from holdfast.batches.entry import REMOVED, SOURCE, JournalEntry, with_contents, with_payload
from holdfast.batches.frame import FramePlace, Walked
from holdfast.batches.journal import Journal
from holdfast.catalog import Catalog, CatalogChange
from holdfast.config import RecordSettings
from holdfast.env import Environment, paths
from holdfast.env.files import read_file
from holdfast.env.uninterruptible import uninterrupted
from holdfast.errors import DamagedBatch, HoldfastError, VolumeDown
from holdfast.model import OVERFLOW_MAX, SERIAL_MAX, ContentKey, RecordId, batch_name
from holdfast.records import draft as drafts_module
from holdfast.records.draft import (
    RecordDraft,
    capture_of,
    fingerprint,
    first_refusal_mark,
    fits_inline,
    is_captured,
    origin_of,
    refusal_mark,
    signatures_of,
)
from holdfast.records.records import Records
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.put import Announced, StoreHints, StoreOptions

log = logging.getLogger("holdfast.archive")

_OPTIONS = StoreOptions()
_REFUSAL_BYTES = 33
_REFUSAL = re.compile(rb"[0-9a-f]{32}")


class AddOutcome(StrEnum):
    ADDED = "added"
    KNOWN = "known"  # it was there already
    REFUSED = "refused"  # it was removed for good


class Added(NamedTuple):
    """The result for a record, and its id; None if it was refused."""

    outcome: AddOutcome
    record: RecordId | None
    new_content: bool = False  # the store did not hold its payload


Announce = Callable[[list[Announced]], None]
Fetch = Callable[[ContentKey], bytes | None]  # a content of another archive; None: it cannot be read there


class Copy(NamedTuple):
    """A record of another archive: its entry there, and the signatures that its contents have here."""

    entry: JournalEntry
    signatures: Sequence[bytes]


class Refusals:
    """Records that were removed for good, in any collection.

    One line of 32 hexadecimal digits for each, its fingerprint. Any thread may read; one at a time may add.
    """

    def __init__(self, root: Path, env: Environment) -> None:
        self._path = root / paths.REFUSED
        self._env = env
        self._marks = set(self.all())

    def __contains__(self, mark: bytes) -> bool:
        return mark in self._marks

    def __bool__(self) -> bool:
        return bool(self._marks)

    def add(self, marks: Sequence[bytes]) -> None:
        """Durable on return. Idempotent."""
        if not marks:
            return
        files = self._env.files
        fresh = not files.exists(self._path)
        file = files.open(self._path, writable=True, create=fresh)
        try:
            file.truncate(file.size() - file.size() % _REFUSAL_BYTES)  # a line that was torn
            file.append(["".join(f"{each.hex()}\n" for each in marks).encode()])
            file.sync()
        finally:
            file.close()
        if fresh:
            files.sync_directory(self._path.parent)
        self._marks.update(marks)

    def all(self) -> Iterator[bytes]:
        """The fingerprints in the file."""
        try:
            text = read_file(self._env.files, self._path)
        except FileNotFoundError:
            return
        for start in range(0, len(text), _REFUSAL_BYTES):  # by offset: a power cut may have damaged a line and its end
            if _REFUSAL.fullmatch(line := text[start : start + _REFUSAL_BYTES - 1]):
                yield bytes.fromhex(line.decode())


class ArchiveWriter:
    """Contents, batches, catalog and their logs, which additions and removals change together.

    The holder of `lock` may change batches and catalog. Any thread may add; additions run one after the other.
    """

    def __init__(
        self,
        root: Path,
        contents: Contents,
        journal: Journal,
        catalog: Catalog,
        settings: RecordSettings,
        env: Environment,
    ) -> None:
        self.root = root
        self.contents = contents
        self.journal = journal
        self.catalog = catalog  # replaced by a reindex
        self.env = env
        self.lock = threading.Lock()
        self.intents = IntentLog(root, env)
        self.refusals = Refusals(root, env)
        self._settings = settings
        self._failed = False
        self._undoable: Unfinished | None = None  # of a failed addition that no batch has records of

    def current_batch(self) -> str:
        """The default batch."""
        name = self._settings.batch
        if name == "month":
            return self._own(datetime.fromtimestamp(self.env.clock(), UTC).strftime("%Y%m"))
        return self._own(batch_name(name))

    def _own(self, name: str) -> str:
        """The batch of this node of a cluster: it ends in the node's name, so that ids are the same everywhere (I4)."""
        suffix = f".{self._settings.node}" if self._settings.node else ""
        return name if name.endswith(suffix) else batch_name(name + suffix)

    def ends(self) -> dict[str, int]:
        """For each batch, the first serial number that is not acknowledged."""
        with self.lock:
            return {name: self.journal.batch(name).tail.next_serial for name in self.journal.names()}

    def add(self, drafts: Sequence[RecordDraft], batch: str | None = None) -> list[Added]:
        """Adds the records in order. Durable on return."""
        name = self._own(batch_name(batch)) if batch else self.current_batch()
        return uninterrupted(lambda: self._add(drafts, name))

    def add_large(self, draft: RecordDraft, batch: str | None = None) -> Added:
        """Adds a record whose payload is in a file, piece by piece; the file is deleted."""
        name = self._own(batch_name(batch)) if batch else self.current_batch()
        return uninterrupted(lambda: self._add_large(draft, name))

    def restore(self, name: str, copies: Sequence[Copy], fetch: Fetch) -> list[JournalEntry]:
        """Appends records of another archive under the serial numbers they have; returns them as they are here.

        A record that was removed for good leaves its number. An unreadable content leaves a key without a block.
        Durable on return.
        """
        return uninterrupted(lambda: self._restore(name, copies, fetch))

    def add_copies(
        self, name: str, copies: Sequence[Copy], fetch: Fetch, marks: Sequence[bytes] | None = None
    ) -> list[RecordId | None]:
        """Adds records of another archive as `add` does, with new serial numbers; None for those refused.

        `marks` are their fingerprints, if the caller knows them.
        """
        marks = [fingerprint(*each) for each in copies] if marks is None else marks
        return uninterrupted(lambda: self._add_copies(name, copies, fetch, marks))

    def close(self) -> None:
        self.intents.close()

    # -- additions ----------------------------------------------------------------------------------------------

    def _add(self, drafts: Sequence[RecordDraft], name: str) -> list[Added]:
        with self.lock:
            self._require_sound()
            batch = self.journal.batch(name)
            self._sign(drafts)
            outcomes, new = self._sort_out(
                [draft.mark for draft in drafts],
                lambda index: self._is_draft_refused(drafts[index]),
            )
            known = [
                draft for draft in drafts if draft.payload and (found := outcomes.get(draft.mark)) and found.record
            ]
            if known:  # heals blocks that are damaged
                self.contents.heal([draft.payload for draft in known], [draft.signature for draft in known])
            if new:
                outcomes.update(zip(new, self._append(batch, [drafts[index] for index in new.values()]), strict=True))
            added = []
            for draft in drafts:
                added.append(outcomes[draft.mark])
                if draft.mark in new:  # the same record again in one addition
                    outcomes[draft.mark] = Added(AddOutcome.KNOWN, added[-1].record)
            return added

    def _sign(self, drafts: Sequence[RecordDraft]) -> None:
        """Computes the signatures and fingerprints that are not known yet."""
        unsigned = [draft for draft in drafts if draft.payload and not draft.signature]
        signatures = self.contents.sign([self._plain(draft) for draft in unsigned])
        for draft, signature in zip(unsigned, signatures, strict=True):
            draft.signature = signature
        for draft in drafts:
            if not draft.mark:
                draft.mark = fingerprint(draft.entry, _signatures(draft))

    def _sort_out(
        self, marks: Sequence[bytes], is_refused: Callable[[int], bool]
    ) -> tuple[dict[bytes, Added], dict[bytes, int]]:
        """By fingerprint: the result for known or refused records, and the first index of new ones."""
        outcomes: dict[bytes, Added] = {}
        new: dict[bytes, int] = {}
        for index, (mark, known) in enumerate(zip(marks, self.catalog.known(marks), strict=True)):
            if known is not None:
                outcomes[mark] = Added(AddOutcome.KNOWN, known)
            elif is_refused(index):
                outcomes[mark] = Added(AddOutcome.REFUSED, None)
            else:
                new.setdefault(mark, index)
        return outcomes, new

    def _plain(self, draft: RecordDraft) -> bytes:
        return bytes(self.contents.plain(draft.payload))

    def _is_draft_refused(self, draft: RecordDraft) -> bool:
        return bool(self.refusals) and self._is_refused(draft.entry, _signatures(draft), self._plain(draft))

    def _is_refused(self, entry: JournalEntry, signatures: Sequence[bytes], payload: bytes = b"") -> bool:
        if not self.refusals:
            return False
        return refusal_mark(entry, signatures) in self.refusals or first_refusal_mark(entry, payload) in self.refusals

    def _append(self, batch: Batch, drafts: list[RecordDraft]) -> list[Added]:
        first = batch.tail.next_serial
        entries = [draft.entry for draft in drafts]
        inline = [index for index, draft in enumerate(drafts) if draft.payload and fits_inline(draft.entry)]
        for index in inline:
            entries[index] = with_payload(entries[index], self._plain(drafts[index]), drafts[index].signature)
        stored = [index for index, draft in enumerate(drafts) if draft.payload and not entries[index].is_inline]
        new_contents = self._new_inline(entries, inline)
        with self._intent(batch, len(drafts)) as announce:
            if stored:
                hints = StoreHints(
                    signatures=[drafts[index].signature for index in stored],
                    content_types=[entries[index].mime for index in stored],
                    announce=announce,
                )
                results = self.contents.put_encoded([drafts[index].payload for index in stored], hints)
                for index, result in zip(stored, results, strict=True):
                    entries[index] = with_contents(entries[index], str(result.key))
                    if not result.duplicate:
                        new_contents.add(index)
            else:
                announce([])
            frames = batch.append(entries)
        ids = [RecordId(batch.name, serial) for serial in range(first, first + len(drafts))]
        self._catalogue(batch, frames, drafts, ids)
        added = AddOutcome.ADDED
        return [Added(added, record, index in new_contents) for index, record in enumerate(ids)]

    def _new_inline(self, entries: Sequence[JournalEntry], inline: Sequence[int]) -> set[int]:
        """Of the records that keep their payload, those whose payload is new."""
        first = {entries[index].digest: index for index in reversed(inline) if entries[index].digest != "-"}
        return {first[digest] for digest in first.keys() - self.catalog.known_digests([*first])}

    @contextmanager
    def _intent(self, batch: Batch, count: int) -> Iterator[Announce]:
        """An addition of `count` records, atomic. Yields the function that announces its contents.

        What cannot be undone at once, as on a full disk, is undone before the next addition, or by the next writer.
        """
        purpose = Purpose(batch.name, batch.tail.next_serial, count)
        announced: list[Announced] = []

        def announce(each: list[Announced]) -> None:
            self.intents.announce(purpose, each)
            announced.extend(each)

        try:
            yield announce
        except BaseException:
            self._failed = True
            if not batch.failed:  # else it may have records that hold the contents
                self._undoable = Unfinished(purpose, tuple(announced))
                with suppress(HoldfastError):  # raise the first failure
                    self._undo(self._undoable)
            raise

    def _undo(self, unfinished: Unfinished) -> None:
        roll_back(unfinished, (), self.contents)
        self.intents.void()
        self._failed, self._undoable = False, None

    def _catalogue(self, batch: Batch, frames: Frames, drafts: Sequence[RecordDraft], ids: Sequence[RecordId]) -> None:
        fingerprints = {draft.mark: record for draft, record in zip(drafts, ids, strict=True)}
        urlkeys = [draft.urlkey for draft in drafts]
        self.catalog.add(replace(_change(batch, frames, fingerprints, urlkeys), fresh=True))

    def _require_sound(self) -> None:
        if self._failed:
            try:
                if self._undoable is not None:
                    self._undo(self._undoable)  # there may be room by now
                    return
            except HoldfastError as error:
                raise VolumeDown(f"an addition failed and cannot be undone yet: {error}") from error
            raise VolumeDown("an addition failed and could not be undone; open the archive again")

    # -- one large record ---------------------------------------------------------------------------------------

    def _add_large(self, draft: RecordDraft, name: str) -> Added:
        spooled = draft.spooled
        assert spooled is not None
        try:
            with self.lock:
                self._require_sound()
                signatures = [self.contents.sign([piece])[0] for piece in self._pieces(spooled)]
                draft.mark = fingerprint(draft.entry, signatures)
                (known,) = self.catalog.known([draft.mark])
                if known:
                    for piece, signature in zip(self._pieces(spooled), signatures, strict=True):
                        self.contents.heal([piece], [signature])
                    return Added(AddOutcome.KNOWN, known)
                if self._is_refused(draft.entry, signatures):  # before anything is stored
                    return Added(AddOutcome.REFUSED, None)
                return self._append_large(self.journal.batch(name), draft, spooled, signatures)
        finally:
            spooled.unlink(missing_ok=True)

    def _append_large(self, batch: Batch, draft: RecordDraft, spooled: Path, signatures: list[bytes]) -> Added:
        record = RecordId(batch.name, batch.tail.next_serial)
        keys, new_content = [], False
        with self._intent(batch, 1) as announce:
            for piece, signature in zip(self._pieces(spooled), signatures, strict=True):
                hints = StoreHints(signatures=[signature], announce=announce)
                (stored,) = self.contents.store_batch([piece], _OPTIONS, hints)
                keys.append(str(stored.key))
                new_content = new_content or not stored.duplicate
            frames = batch.append([draft.entry._replace(contents=" ".join(keys))])
        self._catalogue(batch, frames, [draft], [record])
        return Added(AddOutcome.ADDED, record, new_content)

    def _pieces(self, spooled: Path) -> Iterator[bytes]:
        with spooled.open("rb") as file:
            while piece := file.read(drafts_module.PIECE_BYTES_MAX):
                yield piece

    # -- records of another archive -----------------------------------------------------------------------------

    def _restore(self, name: str, copies: Sequence[Copy], fetch: Fetch) -> list[JournalEntry]:
        with self.lock:
            self._require_sound()
            kept = [Copy(bare(each.entry), ()) if self._is_refused(*each) else each for each in copies]
            return self._append_copies(self.journal.batch(name), kept, fetch)

    def _add_copies(
        self, name: str, copies: Sequence[Copy], fetch: Fetch, marks: Sequence[bytes]
    ) -> list[RecordId | None]:
        with self.lock:
            self._require_sound()
            outcomes, new = self._sort_out(marks, lambda index: self._is_refused(*copies[index]))
            batch = self.journal.batch(name)
            first = batch.tail.next_serial
            fresh = [
                Copy(copies[index].entry._replace(serial=serial), copies[index].signatures)
                for serial, index in enumerate(new.values(), first)
            ]
            made = {mark: RecordId(name, serial) for serial, mark in enumerate(new, first)}
            if fresh:
                self._append_copies(batch, fresh, fetch, made)
            ids = {mark: each.record for mark, each in outcomes.items()}
            return [ids[mark] if mark in ids else made[mark] for mark in marks]

    def _append_copies(
        self, batch: Batch, copies: Sequence[Copy], fetch: Fetch, new: dict[bytes, RecordId] | None = None
    ) -> list[JournalEntry]:
        """`new` are their fingerprints, if no other record here has one of them."""
        with self._intent(batch, copies[-1].entry.serial + 1 - batch.tail.next_serial) as announce:
            announce([])
            keys = self._store_copies(copies, fetch, announce)
            entries = [
                each.entry._replace(contents=" ".join(own) or "-") for each, own in zip(copies, keys, strict=True)
            ]
            frames = batch.append_numbered(entries)
        if new is None:
            marks = _fingerprints(batch, entries)
            elsewhere = self.catalog.known(list(marks))
            new = {mark: marks[mark] for mark, known in zip(marks, elsewhere, strict=True) if known is None}
        self.catalog.add(replace(_change(batch, frames, new), fresh=True))
        return entries

    def _store_copies(self, copies: Sequence[Copy], fetch: Fetch, announce: Announce) -> list[list[str]]:
        """The keys of each record's contents, which are stored one by one: a record may be large."""
        wanted = [
            (index, ContentKey.parse(key), signature)
            for index, each in enumerate(copies)
            if not each.entry.is_inline
            for key, signature in zip(each.entry.contentkeys, each.signatures, strict=True)
        ]
        keys: list[list[str]] = [[] for _ in copies]
        step = 1 if len(copies) == 1 else len(wanted)
        for at in range(0, len(wanted), step or 1):
            some = [(index, signature, fetch(key)) for index, key, signature in wanted[at : at + step]]
            there = [(index, content) for index, _, content in some if content is not None]
            hints = StoreHints(content_types=[copies[index].entry.mime for index, _ in there], announce=announce)
            stored = iter(self.contents.store_batch([content for _, content in there], _OPTIONS, hints))
            for index, signature, content in some:
                keys[index].append(self._lost_key(signature) if content is None else str(next(stored).key))
        return keys

    def _lost_key(self, signature: bytes) -> str:
        """The key of a content that does not exist. No block gets this number."""
        return str(ContentKey(self.contents.home(signature), signature, OVERFLOW_MAX))

    # -- recovery -----------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Updates the catalog from the batches, then releases the contents of an unfinished addition.

        Raises DamagedBatch if a journal file that the catalog knows is gone.
        """
        for path in missing_files(self.journal, self.catalog):
            raise DamagedBatch(
                f"'{path}' is missing; put it back, or run 'holdfast reindex' to go on without the records in it"
            )
        unfinished = self.intents.last()
        for name in self.journal.names():
            self._catch_up(name, unfinished)
        if unfinished is not None:
            self._roll_back(unfinished)
        self.intents.clear()  # also a torn line, which would damage the next one

    def _catch_up(self, name: str, unfinished: Unfinished | None) -> None:
        unsure = unfinished.purpose.first if unfinished and unfinished.purpose.batch == name else SERIAL_MAX
        known = BatchState.unpack(self.catalog.batch_state(name))
        self._forget_rewritten(name, known)
        found = False
        for walked in self.journal.recover(name, known, unsure):
            self._enter(self.catalog, self.journal.batch(name), walked)
            found = True
        if found:  # only now is it known to be complete
            self.catalog.add(CatalogChange(batches={name: self.journal.batch(name).state().pack()}))

    def _forget_rewritten(self, name: str, known: BatchState) -> None:
        """Removes frames from the catalog whose files were rewritten or lost since."""
        files = self.journal.files(name)
        void = {number for number, (generation, _) in known.files.items() if files.get(number) != generation}
        if void:
            places = ((serial, FramePlace.unpack(place)) for serial, place in self.catalog.frames(name))
            frames = [(name, serial) for serial, place in places if place.number in void]
            self.catalog.add(CatalogChange(frames_removed=frames))

    def _enter(self, catalog: Catalog, batch: Batch, walked: Walked) -> None:
        """Adds a frame that the catalog does not know yet."""
        entries = [entry for entry in walked.entries if entry.serial]
        catalog.add(_change(batch, [(walked.place, entries)], _fingerprints(batch, entries)))

    def _roll_back(self, unfinished: Unfinished) -> None:
        batch, first, count = unfinished.purpose.batch, unfinished.purpose.first, unfinished.purpose.count
        if self.journal.batch(batch).tail.next_serial < first + count:
            records = Records(self.journal, self.catalog, self.contents)
            held = [key for entry in records.entries_from(RecordId(batch, first)) for key in entry.contentkeys]
            released = roll_back(unfinished, held, self.contents)
            if released:
                log.info("rolled back %d references of an unfinished addition", released)

    def reindex(self, progress: Callable[[int], None] | None) -> Catalog:
        """Rebuilds the catalog from the batches and replaces the old one. For the holder of `lock`."""
        draft = self.root / (paths.CATALOG + paths.UNFINISHED)
        shutil.rmtree(draft, ignore_errors=True)
        cache = self._settings.catalog_cache_bytes
        with Catalog(draft, cache_bytes=cache, env=self.env, changes=self.catalog.changes) as catalog:
            for name in self.journal.names():
                batch = self.journal.batch(name)
                for walked in self.journal.walk(name):
                    if isinstance(walked, Walked):
                        self._enter(catalog, batch, walked)
                        if progress is not None:
                            progress(walked.place.length)
            catalog.sync()
        self.catalog.close()
        path, outdated = self.root / paths.CATALOG, self.root / (paths.CATALOG + OUTDATED)
        shutil.rmtree(outdated, ignore_errors=True)
        path.rename(outdated)
        draft.rename(path)
        shutil.rmtree(outdated, ignore_errors=True)
        self.catalog = Catalog(path, cache_bytes=cache, env=self.env)
        return self.catalog


def _signatures(draft: RecordDraft) -> tuple[bytes, ...]:
    return (draft.signature,) if draft.signature else ()


def _fingerprints(batch: Batch, entries: Sequence[JournalEntry]) -> dict[bytes, RecordId]:
    return {
        fingerprint(entry, signatures_of(entry)): RecordId(batch.name, entry.serial)
        for entry in entries
        if entry.type != REMOVED
    }


def _change(
    batch: Batch, frames: Frames, fingerprints: dict[bytes, RecordId], urlkeys: Sequence[str] = ()
) -> CatalogChange:
    """The catalog's additions from new frames of a batch; the keys of the entries may be known."""
    name = batch.name
    entries = [entry for _, each in frames for entry in each if entry.serial]
    keyed = zip(entries, urlkeys or [""] * len(entries), strict=True)
    return CatalogChange(
        captures=[capture_of(entry, name, urlkey) for entry, urlkey in keyed if is_captured(entry)],
        fingerprints=fingerprints,
        frames=[(name, place.first_serial, place.pack()) for place, _ in frames if place.first_serial],
        sources=[(entry.filename, RecordId(name, entry.serial)) for entry in entries if entry.type == SOURCE],
        batches={name: batch.state().pack()},
        origins=[(origin_of(entry, name), RecordId(name, entry.serial)) for entry in entries if entry.origin != "-"],
    )


def missing_files(journal: Journal, catalog: Catalog) -> Iterator[Path]:
    """Journal files that the catalog knows and that are gone in every generation."""
    for name in catalog.batches():
        there = journal.files(name)
        for number, (generation, _) in BatchState.unpack(catalog.batch_state(name)).files.items():
            if number not in there:
                yield journal.directory(name) / paths.records_name(number, generation)
