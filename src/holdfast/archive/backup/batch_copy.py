"""A batch copied from one archive to another: its records under their ids, its payloads, its seal (I4).

Both ways of a backup are such a copy. Records go over in groups, each durable before the next is read, so a copy that
was interrupted goes on where it was. Everything is verified on the way: frames and blocks by their checksums, contents
by their signatures. What cannot be read is named, and what is sound goes over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.archive.export.manifest import Manifest, listed
from holdfast.archive.ingest.add import Copy
from holdfast.batches.batch import bare
from holdfast.batches.entry import REFERENCE, REMOVED, SOURCE, JournalEntry
from holdfast.batches.scan import Passed
from holdfast.env import paths
from holdfast.errors import BatchSealed, Damaged, NotFound, UsageError
from holdfast.model import SERIAL_MAX, ContentKey, Fault, RecordId
from holdfast.records.draft import signatures_of

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive

Translate = Callable[[RecordId], RecordId | None]  # from an id there to the one here; None: it did not come here
GROUP_MAX = 512
_GROUP_BYTES_MAX = 16 << 20
_ELSEWHERE = "restore into another archive to have it"
_LARGE = 8 << 20  # payloads beyond this go over alone, piece by piece


@dataclass(slots=True)
class CopyTally:
    """Counts while a copy runs."""

    progress: Callable[[int], None] | None = None
    records: int = 0  # that were copied
    known: int = 0  # that were there already
    removed: int = 0  # numbers of records that were removed here or there
    refused: int = 0  # that are not to come back
    put_back: int = 0  # contents that records had lost here
    references: int = 0  # records that lie in files elsewhere
    bytes: int = 0
    entries: dict[str, int] = field(default_factory=dict)  # that were found, by batch
    faults: dict[tuple[str, int, str], Fault] = field(default_factory=dict)  # by place, for all is read twice at times

    def advance(self, count: int) -> None:
        self.bytes += count
        if self.progress is not None:
            self.progress(count)

    def fault(self, fault: Fault) -> None:
        self.faults[fault.file, fault.offset, f"{fault.expected} {fault.key}"] = fault


class BatchCopy:
    """Copies to an archive that is open for writing. One thread at a time."""

    def __init__(self, source: Archive, target: Archive, tally: CopyTally) -> None:
        self._source = source
        self._target = target
        self._adder = target.adder
        self._tally = tally
        self._same_signature = source.settings.store.signature == target.settings.store.signature
        self._lost: dict[ContentKey, str] = {}

    # -- reading ------------------------------------------------------------------------------------------------

    def entries(self, batch: str, until: int, only: Container[int] | None = None) -> Iterator[JournalEntry]:
        """The records before the serial `until`, or some of them; damage is noted and passed over."""
        journal = self._source.journal
        found = reached = 0
        for number in journal.files(batch):
            for walked in journal.walk_file(batch, number):
                if isinstance(walked, Passed):
                    if not walked.torn or reached < until - 1:  # else a writer is at work there
                        self._note_damage(batch, number, walked)
                    continue
                for entry in walked.entries:
                    reached = max(reached, entry.serial)
                    if 0 < entry.serial < until and (only is None or entry.serial in only):
                        found += 1
                        yield entry
        self._tally.entries[batch] = found

    def _note_damage(self, batch: str, number: int, passed: Passed) -> None:
        file = self._source.journal.directory(batch) / paths.records_name(number, 0)
        self._tally.fault(Fault(batch, str(file), passed.offset, "damaged frame", "a sound frame", passed.reason))

    def _fetch(self, key: ContentKey) -> bytes | None:
        """A content of the source, verified; None if it cannot be read."""
        if key in self._lost:
            return None
        try:
            content = self._source.contents.get(key)
        except (Damaged, NotFound) as error:
            self._lost[key] = str(error)
            return None
        if self._source.contents.sign([content])[0] != key.signature:
            self._lost[key] = "its bytes do not have its signature"
            return None
        self._tally.advance(len(content))
        return content

    def _copies(self, entries: Iterable[JournalEntry]) -> Iterator[list[Copy]]:
        """Groups of bounded size; a large record by itself."""
        group: list[Copy] = []
        size = 0
        for entry in entries:
            if entry.size > _LARGE and group:
                yield group
                group, size = [], 0
            group.append(Copy(entry, self._signatures(entry)))
            size += entry.size + len(entry.data)
            if len(group) >= GROUP_MAX or size >= _GROUP_BYTES_MAX or entry.size > _LARGE:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _signatures(self, entry: JournalEntry) -> list[bytes]:
        """Of the contents, as the target computes them; those of a content that is lost are zeros."""
        if self._same_signature:
            return signatures_of(entry)
        sign = self._target.contents.sign
        nothing = bytes(len(sign([b""])[0]))
        contents = (self._fetch(ContentKey.parse(key)) for key in entry.contentkeys)
        return [nothing if content is None else sign([content])[0] for content in contents]

    # -- the batch itself ---------------------------------------------------------------------------------------

    def last_serial(self, batch: str, until: int) -> int:
        """The last serial number that the target has of the batch, if it is the same one.

        Raises UsageError if it is another batch of this name, BatchSealed if it is closed and lacks records.
        """
        if batch not in self._target.journal.names():
            return 0
        last = self._target.journal.batch(batch).tail.next_serial - 1
        for own, entry in self._pairs(batch, until):
            if entry.serial > last and self._target.journal.is_sealed(batch):
                raise BatchSealed(f"batch {batch!r} is sealed here, and the backup has records that it lacks")
            if own is not None and REMOVED not in (own.type, entry.type) and not self._is_same(own, entry):
                raise UsageError(
                    f"another batch {batch!r} is here: record {RecordId(batch, entry.serial)} differs from that of the "
                    "backup; restore into another archive"
                )
        return last

    def _pairs(self, batch: str, until: int) -> Iterator[tuple[JournalEntry | None, JournalEntry]]:
        """Each record of the source, behind what the target has under its number."""
        here = self._here(batch)
        own = next(here, None)
        for entry in self.entries(batch, until):
            while own is not None and own.serial < entry.serial:
                own = next(here, None)
            yield (own if own is not None and own.serial == entry.serial else None), entry

    def _here(self, batch: str) -> Iterator[JournalEntry]:
        for walked in self._target.journal.walk(batch):
            if not isinstance(walked, Passed):
                yield from (entry for entry in walked.entries if entry.serial)

    def _is_same(self, own: JournalEntry, other: JournalEntry) -> bool:
        if own.type == SOURCE:  # it may list records under other ids
            own, other = own._replace(data=b"", layout=""), other._replace(data=b"", layout="")
        if own._replace(contents="") != other._replace(contents=""):
            return False
        return not self._same_signature or signatures_of(own) == signatures_of(other)

    def run(
        self, batch: str, until: int, only: Container[int] | None = None, translate: Translate | None = None
    ) -> None:
        """Copies what the target lacks of the batch before the serial `until`, the numbers of removed records too."""
        last = self.last_serial(batch, until)
        lacking = (entry for entry in self.entries(batch, until, only) if not self._is_known(entry, last))
        translated = lacking if translate is None else (_translated(entry, batch, translate) for entry in lacking)
        for group in self._copies(translated):
            self._copy(batch, group)

    def put_back(self, batch: str, until: int) -> None:
        """Puts contents back that records of the batch have lost here, and names records that are damaged here."""
        last = self._target.journal.batch(batch).tail.next_serial - 1
        missing: dict[str, ContentKey] = {}
        pairs = self._pairs(batch, until)
        while some := list(islice(pairs, GROUP_MAX)):
            missing |= self._missing(batch, [each for each in some if each[1].serial <= last])
        if missing:
            with self._adder.lock:
                self._put_back(missing, self._holders(missing))

    def _missing(self, batch: str, pairs: Sequence[tuple[JournalEntry | None, JournalEntry]]) -> dict[str, ContentKey]:
        """Contents that the target lacks, by their keys here, with those in the source."""
        keys: dict[str, ContentKey] = {}
        for own, entry in pairs:
            if own is None and entry.type != REMOVED:
                place = str(self._target.journal.directory(batch))
                wanted = f"record {RecordId(batch, entry.serial)} of '{entry.url}'"
                self._tally.fault(Fault(batch, place, 0, "missing record", wanted, "damage", remedy=_ELSEWHERE))
            elif own is not None and REMOVED not in (own.type, entry.type):
                keys |= dict(zip(own.contentkeys, map(ContentKey.parse, entry.contentkeys), strict=True))
        found = self._target.instance.find_batch([ContentKey.parse(text) for text in keys])
        return {text: keys[text] for text, held in zip(keys, found, strict=True) if not held.blocks and not held.away}

    def _holders(self, missing: Container[str]) -> Counter[str]:
        """How many times all records of the target hold each of the contents."""
        held: Counter[str] = Counter()
        for batch in self._target.journal.names():
            for entry in self._here(batch):
                held.update(text for text in entry.contentkeys if text in missing)
        return held

    def _put_back(self, missing: dict[str, ContentKey], holders: Counter[str]) -> None:
        """All references to a content in one step, so that its counter is exact whatever happens."""
        for text, key in missing.items():
            content = self._fetch(key)
            stored = [] if content is None else self._target.contents.put_batch([content] * holders[text])
            if stored and str(stored[0].key) == text:
                self._tally.put_back += 1
                continue
            if stored:  # it has another key now, which no record knows
                self._target.contents.delete_batch([each.key for each in stored])
            reason = self._lost.get(key, "none")
            place = str(self._target.path / paths.VOLUMES / text.partition(":")[0])
            wanted = f"that of {holders[text]} records"
            fault = Fault(text.partition(":")[0], place, 0, "missing content", wanted, reason, ContentKey.parse(text))
            self._tally.fault(replace(fault, remedy=_ELSEWHERE))

    def take_numbers(self, batch: str, until: int) -> None:
        """Numbers before `until` whose records are lost are not given again."""
        if self._target.journal.batch(batch).tail.next_serial < until:
            entry = bare(JournalEntry("", "", "", b"", serial=until - 1))
            self._adder.restore(batch, [Copy(entry, ())], self._fetch)

    def _is_known(self, entry: JournalEntry, last: int) -> bool:
        if entry.serial > last:
            return False
        self._tally.known += entry.type != REMOVED
        return True

    def _copy(self, batch: str, group: list[Copy]) -> None:
        for before, after in zip(group, self._adder.restore(batch, group, self._fetch), strict=True):
            entry = before.entry
            if entry.type == REMOVED:
                self._tally.removed += 1
            elif after.type == REMOVED:
                self._tally.refused += 1
            else:
                self._tally.records += 1
                self._tally.references += entry.type == REFERENCE
                self._note_lost(batch, entry)
            self._tally.advance(len(entry.data))

    def _note_lost(self, batch: str, entry: JournalEntry) -> None:
        for text in entry.contentkeys:
            key = ContentKey.parse(text)
            if (reason := self._lost.get(key)) is not None:
                wanted = f"that of record {RecordId(batch, entry.serial)} of '{entry.url}'"
                file = str(self._source.path / paths.VOLUMES / key.volume)
                self._tally.fault(Fault(batch, file, 0, "missing content", wanted, reason, key))

    # -- records of other batches -------------------------------------------------------------------------------

    def add(self, batch: str, to: str) -> dict[RecordId, RecordId | None]:
        """Adds all records of a batch to another one as new records, unless they are known; the id of each here."""
        ids: dict[RecordId, RecordId | None] = {}
        for group in self._copies(entry for entry in self.entries(batch, SERIAL_MAX) if entry.type != REMOVED):
            for each, added in zip(group, self._adder.add_copies(to, group, self._fetch), strict=True):
                ids[RecordId(batch, each.entry.serial)] = added.record
                self._note_lost(batch, each.entry)
                self._tally.advance(len(each.entry.data))
        return ids


def _translated(entry: JournalEntry, batch: str, translate: Translate) -> JournalEntry:
    """The list of a file's records with the ids that those of other batches have here; other entries as they are."""
    if entry.type != SOURCE:
        return entry
    manifest = Manifest(entry.filename)
    for record in listed(entry.data):
        manifest.add(record if record.batch == batch else translate(record) or RecordId(batch, 0))
    data = manifest.data()
    return entry._replace(data=data, layout=str(len(data)))
