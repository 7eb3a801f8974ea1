"""The backup of a batch: a separate archive with this batch and everything it needs (I4).

    spring-backup/
      BACKUP              JSON: which batch, how many records, whether it was sealed
      BACKING-UP          until it is complete: the batch that is being backed up
      SHA256SUMS          of the files below that are not derived; `sha256sum -c` verifies them
      holdfast.toml       settings of the archive
      batches/spring/     the records
      batches/202610/     those records of other batches that belong to it, under their own ids: originals of its
                          revisits, and records that the files imported into it have in common with earlier ones
      volumes/v0/         the payloads of all of them, compressed without a dictionary
      catalog/, keydir/   derived

In: a batch; its archive may be in use. Out: the same batch in another archive, with the same ids. Records of other
batches that the target does not have go to a batch of their own, NAME-originals.

Backup and restore copy records in groups; each group is durable before the next is read. Everything is verified:
frames and blocks by their checksums, contents by their signatures. Unreadable records are named; the others are copied.

Guarantees. A backup has its name when it is whole; until then it ends in `.open`, and the next run goes on with it. A
batch that is being restored takes no other records, and is reported by `verify` and `check`, until it is whole. Both
can be killed at any moment; reference counts stay exact on both sides. Records that the target refuses stay away.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.archive.create import Plan, init
from holdfast.archive.ingest.manifest import Manifest, listed
from holdfast.archive.ingest.writer import Copy
from holdfast.batches.batch import BatchState, bare, file_digest
from holdfast.batches.entry import REFERENCE, REMOVED, SOURCE, JournalEntry
from holdfast.batches.frame import FramePlace, Passed
from holdfast.config import StoreSettings
from holdfast.env import paths
from holdfast.env.files import read_file, replace_file, translated_errors
from holdfast.errors import BatchSealed, Busy, Damaged, FormatTooNew, NotFound, UsageError
from holdfast.model import SERIAL_MAX, ContentKey, Fault, RecordId, batch_name
from holdfast.records.draft import capture_of, signatures_of

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive


Progress = Callable[[int], None]
FORMAT = 1
_TRIES = 3
_NAME_MAX = 64
_ORIGINALS = "-originals"


@dataclass(slots=True)
class BatchCopyReport:
    """The result of a backup or a restore. Sound records are copied even if there are faults."""

    batch: str
    path: str  # of the backup
    sealed: bool = False
    records: int = 0  # that were copied now
    known: int = 0  # that were there already
    removed: int = 0  # numbers of records that had been removed
    refused: int = 0  # removed for good here, so not restored
    originals: int = 0  # records of other batches that belong to it
    put_back: int = 0  # payloads that records had lost here, and have again
    references: int = 0  # records that lie in files elsewhere, and are not in the backup
    bytes: int = 0
    faults: tuple[Fault, ...] = ()


# -- backing up --------------------------------------------------------------------------------------------------------


def back_up(archive: Archive, batch: str, target: Path, progress: Progress | None = None) -> BatchCopyReport:
    """Writes a batch with its payloads to a directory that must not exist yet. Durable on return.

    Raises UsageError or UnknownName before anything is written. Resumes an unfinished backup.
    """
    archive.journal.require(batch)
    if archive.journal.is_restoring(batch):
        raise UsageError(f"batch {batch!r} is not completely restored: run 'holdfast batch restore' again first")
    if target.exists() or target.is_symlink():
        raise UsageError(f"'{target}' exists: name a directory that does not")
    if not target.parent.is_dir():
        raise UsageError(f"'{target.parent}' is not a directory")
    for _ in range(_TRIES):
        generations = {name: archive.journal.files(name) for name in archive.journal.names()}
        with translated_errors(target):
            draft = _begun(archive, batch, target, generations)
        report = _filled(archive, batch, draft, target, progress)
        if all(_is_kept(archive, name, files) for name, files in generations.items()):
            archive.env.files.rename(draft, target)
            archive.env.files.sync_directory(target.parent)
            archive.env.files.remove(target / paths.BACKING_UP)
            return report
    raise Busy(f"records are being removed beside the backup of batch {batch!r}: try again later")


def _is_kept(archive: Archive, name: str, files: dict[int, int]) -> bool:
    """True if no record was removed from the batch: a removal writes files as new generations."""
    now = archive.journal.files(name)
    return all(now.get(number) == generation for number, generation in files.items())


def _begun(archive: Archive, batch: str, target: Path, generations: dict[str, dict[int, int]]) -> Path:
    """The directory that becomes the backup: that of an unfinished backup of the same state, or a new one."""
    draft = target.with_name(target.name + paths.UNFINISHED)
    mark = draft / paths.BACKING_UP
    facts = json.dumps({"batch": batch, "archive": archive.settings.uid, "files": generations}).encode()
    files = archive.env.files
    if files.exists(mark) and read_file(files, mark) == facts and files.exists(draft / paths.SETTINGS):
        return draft
    if draft.exists():
        if not draft.is_dir() or (not files.exists(mark) and set(files.names(draft)) - {mark.name + paths.UNFINISHED}):
            raise UsageError(f"'{draft}' exists and is not an unfinished backup: move it away")
        for name in files.names(draft):  # the mark last: killed on the way, this is still known as an unfinished backup
            if name != mark.name:
                path = draft / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        files.make_directory(draft)
    replace_file(files, mark, facts)
    store = StoreSettings(signature=archive.settings.store.signature, train_after=0)
    init(draft, Plan(store=store), env=archive.env)
    return draft


def _filled(archive: Archive, batch: str, draft: Path, target: Path, progress: Progress | None) -> BatchCopyReport:
    from holdfast.archive.archive import Archive

    until = BatchState.unpack(archive.catalog.batch_state(batch)).next_serial  # later records are not acknowledged yet
    report = BatchCopyReport(batch, str(target), archive.journal.is_sealed(batch))
    needed = _needed(archive, batch, until)
    with Archive(draft, env=archive.env) as backup:
        copy = BatchCopy(archive, backup, report, progress)
        copy.run(batch, until)
        copy.take_numbers(batch, until)
        own = report.records, report.known
        for name in sorted(needed):
            copy.run(name, max(needed[name]) + 1, needed[name])
        report.originals = report.records + report.known - sum(own)
        report.records, report.known = own
        if report.sealed:
            backup.seal(batch)
    report.faults = tuple(copy.faults.values())
    facts = {
        "format": FORMAT,
        "batch": batch,
        "sealed": report.sealed,
        "next_serial": until,
        "time": datetime.fromtimestamp(archive.env.clock(), UTC).isoformat(timespec="seconds"),
        "archive": archive.settings.uid,
        "entries": {name: copy.entries_found.get(name, 0) for name in (batch, *sorted(needed))},
        "faults": len(report.faults),
    }
    files = archive.env.files
    replace_file(files, draft / paths.BACKUP, json.dumps(facts, indent=1).encode() + b"\n")
    replace_file(files, draft / paths.CHECKSUMS, _checksums(archive, draft))
    return report


def _needed(archive: Archive, batch: str, until: int) -> dict[str, set[int]]:
    """Records of other batches: originals of revisits, and what files consist of that were imported here."""
    needed: dict[str, set[int]] = {}
    for walked in archive.journal.walk(batch):
        for entry in () if isinstance(walked, Passed) else walked.entries:
            if not 0 < entry.serial < until:
                continue
            records: list[RecordId] = []
            if entry.type == SOURCE:
                records = list(listed(entry.data))
            elif entry.type == "revisit" and entry.contents == "-":
                original = archive.catalog.resolve(capture_of(entry, batch))
                records = [original.record] if original is not None else []
            for record in records:
                if record.batch != batch:
                    needed.setdefault(record.batch, set()).add(record.serial)
    there = archive.journal.names()
    return {name: serials for name, serials in needed.items() if name in there}


def _checksums(archive: Archive, root: Path) -> bytes:
    """All files that are not derived, as `sha256sum` lists them."""
    places = [root / paths.BACKUP, root / paths.SETTINGS]
    for directory in (paths.BATCHES, paths.VOLUMES):
        places += sorted(path for path in (root / directory).rglob("*") if path.is_file())
    inside = [path.relative_to(root) for path in places]
    return "".join(
        f"{file_digest(archive.env, root / path)[1]}  {path.as_posix()}\n"
        for path in inside
        if not {paths.KEYDIR, paths.LOCK} & {*path.parts}
    ).encode()


# -- restoring ---------------------------------------------------------------------------------------------------------


def restore(archive: Archive, path: Path, progress: Progress | None = None) -> BatchCopyReport:
    """Brings the batch of a backup into the archive, under its ids. Durable on return. Idempotent.

    Raises NotFound if there is no backup, UsageError if another batch of its name is here.
    """
    from holdfast.archive.archive import Archive

    facts = _read_facts(archive, path)
    batch, until = batch_name(facts["batch"]), int(facts["next_serial"])
    report = BatchCopyReport(batch, str(path))
    with Archive(path, read_only=True, env=archive.env) as backup:
        for name, reason in backup.instance.down.items():
            raise Damaged(
                f"cannot read '{path}': volume {name!r} is down: {reason}; run 'holdfast -a {path} check --repair'"
            )
        copy = BatchCopy(backup, archive, report, progress)
        copy.last_serial(batch, until)  # raises before anything changes
        writer = archive.journal.batch(batch)
        if writer.tail.next_serial < until:
            writer.begin_restore(str(path.absolute()))
        ids: dict[RecordId, RecordId | None] = {}
        for name in facts["entries"]:
            if name != batch and name in backup.journal.names():
                ids |= copy.add(name, batch[: _NAME_MAX - len(_ORIGINALS)] + _ORIGINALS)
        copy.put_back(batch, until)
        copy.run(batch, until, translate=ids.get)
        copy.take_numbers(batch, until)
        if facts["sealed"] and writer.tail.next_serial == until:
            archive.seal(batch)
        if archive.journal.is_restoring(batch):
            writer.end_restore()
        for name, count in facts["entries"].items():
            if (found := copy.entries_found.get(name, 0)) < count:
                file = str(paths.batch_directory(path, name))
                copy.fault(Fault(name, file, 0, "missing records", f"{count} records", str(found)))
    report.sealed, report.originals = archive.journal.is_sealed(batch), len(ids)
    report.faults = tuple(copy.faults.values())
    return report


def _read_facts(archive: Archive, path: Path) -> dict[str, Any]:
    if path.exists() and not path.is_dir():
        raise NotFound(f"'{path}' is not a backup of a batch: it is not a directory")
    try:
        facts = json.loads(read_file(archive.env.files, path / paths.BACKUP))
    except FileNotFoundError:
        if path.name.endswith(paths.UNFINISHED) or (path / paths.BACKING_UP).exists():
            raise UsageError(f"'{path}' is an unfinished backup: run 'holdfast batch backup' again") from None
        raise NotFound(f"'{path}' is not a backup of a batch: it has no file '{paths.BACKUP}'") from None
    except ValueError as error:
        raise Damaged(f"cannot read '{path / paths.BACKUP}': {error}") from None
    try:
        if facts["format"] > FORMAT:
            raise FormatTooNew(f"'{path}' is a backup of format {facts['format']}: use a later release")
        if not facts["entries"].keys() >= {facts["batch"]}:
            raise ValueError("it does not list its batch")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"cannot read '{path / paths.BACKUP}': {error!r}") from None
    return dict(facts)


Translate = Callable[[RecordId], RecordId | None]  # from an id there to the one here; None: it did not come here
GROUP_MAX = 512
_GROUP_BYTES_MAX = 16 << 20
_ELSEWHERE = "restore into another archive to have it"
_LARGE = 8 << 20  # payloads beyond this go over alone, piece by piece


def put_back(archive: Archive, missing: Iterable[str], fetch: Callable[[str], bytes | None]) -> dict[str, int]:
    """Stores contents again that records refer to, by their keys; returns those that are back, with their references.

    All references to a content are stored in one step, so that its counter is exact whatever happens. What `fetch` does
    not have stays missing.
    """
    wanted = set(missing)
    with archive.writer.lock:
        held: Counter[str] = Counter()
        for batch in archive.journal.names():
            for walked in archive.journal.walk(batch):
                for entry in () if isinstance(walked, Passed) else walked.entries:
                    held.update(text for text in entry.contentkeys if text in wanted)
        restored: dict[str, int] = {}
        for text, references in held.items():
            content = fetch(text)
            stored = [] if content is None else archive.contents.store_batch([content] * references)
            if stored and str(stored[0].key) == text:
                restored[text] = references
            elif stored:  # it has another key now, which no record knows
                archive.contents.delete_batch([each.key for each in stored])
        return restored


class BatchCopy:
    """Copies to an archive that is open for writing. One thread at a time."""

    def __init__(
        self, source: Archive, target: Archive, report: BatchCopyReport, progress: Progress | None = None
    ) -> None:
        self.entries_found: dict[str, int] = {}  # by batch
        self.faults: dict[tuple[str, int, str], Fault] = {}  # by place: all is read twice at times
        self._source = source
        self._target = target
        self._writer = target.writer
        self._report = report
        self._progress = progress
        self._same_signature = source.settings.store.signature == target.settings.store.signature
        self._lost: dict[ContentKey, str] = {}

    def _advance(self, count: int) -> None:
        self._report.bytes += count
        if self._progress is not None:
            self._progress(count)

    def fault(self, fault: Fault) -> None:
        self.faults[fault.file, fault.offset, f"{fault.expected} {fault.key}"] = fault

    # -- reading ------------------------------------------------------------------------------------------------

    def entries(self, batch: str, until: int, only: Container[int] | None = None) -> Iterator[JournalEntry]:
        """The records before the serial `until`, or some of them; damaged ones are noted and skipped."""
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
                        self._verify_inline(batch, walked.place, entry)
                        yield entry
        self.entries_found[batch] = found

    def _note_damage(self, batch: str, number: int, passed: Passed) -> None:
        file = self._source.journal.directory(batch) / paths.records_name(number, 0)
        self.fault(Fault(batch, str(file), passed.offset, "damaged frame", "a sound frame", passed.reason))

    def _verify_inline(self, batch: str, place: FramePlace, entry: JournalEntry) -> None:
        if entry.is_inline and self._source.contents.sign([entry.payload])[0].hex() != entry.signature:
            file = self._source.journal.directory(batch) / paths.records_name(place.number, place.generation)
            wanted = f"{entry.signature} of record {RecordId(batch, entry.serial)}"
            self.fault(Fault(batch, str(file), place.offset, "signature", wanted, "another"))

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
        self._advance(len(content))
        return content

    def _copies(self, entries: Iterable[JournalEntry]) -> Iterator[list[Copy]]:
        """Groups of bounded size; a large record by itself."""
        group: list[Copy] = []
        size = 0
        for entry in entries:
            if entry.size > _LARGE and group:
                yield group
                group, size = [], 0
            signed = self._signed(entry)
            group.append(Copy(signed, self._signatures(signed)))
            size += entry.size + len(entry.data)
            if len(group) >= GROUP_MAX or size >= _GROUP_BYTES_MAX or entry.size > _LARGE:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _signed(self, entry: JournalEntry) -> JournalEntry:
        """A record that keeps its payload with the signature that the target computes; other records as they are."""
        if self._same_signature or not entry.is_inline:
            return entry
        return entry._replace(signature=self._target.contents.sign([entry.payload])[0].hex())

    def _signatures(self, entry: JournalEntry) -> list[bytes]:
        """Of the contents, as the target computes them; those of a content that is lost are zeros."""
        if self._same_signature or entry.is_inline:
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
        if own._replace(contents="", signature="") != other._replace(contents="", signature=""):
            return False
        return not self._same_signature or signatures_of(own) == signatures_of(other)

    def run(
        self, batch: str, until: int, only: Container[int] | None = None, translate: Translate | None = None
    ) -> None:
        """Copies the records before the serial `until` that the target lacks, and the numbers of removed records."""
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
            self._put_back(missing)

    def _missing(self, batch: str, pairs: Sequence[tuple[JournalEntry | None, JournalEntry]]) -> dict[str, ContentKey]:
        """Contents that the target lacks, by their keys here, with those in the source."""
        keys: dict[str, ContentKey] = {}
        for own, entry in pairs:
            if own is None and entry.type != REMOVED:
                place = str(self._target.journal.directory(batch))
                wanted = f"record {RecordId(batch, entry.serial)} of '{entry.url}'"
                self.fault(Fault(batch, place, 0, "missing record", wanted, "damage", remedy=_ELSEWHERE))
            elif own is not None and REMOVED not in (own.type, entry.type):
                keys |= dict(zip(own.contentkeys, map(ContentKey.parse, entry.contentkeys), strict=True))
        found = self._target.instance.find_batch([ContentKey.parse(text) for text in keys])
        return {text: keys[text] for text, held in zip(keys, found, strict=True) if not held.blocks and not held.away}

    def _put_back(self, missing: dict[str, ContentKey]) -> None:
        restored = put_back(self._target, missing, lambda text: self._fetch(missing[text]))
        self._report.put_back += len(restored)
        for text in missing.keys() - restored.keys():
            reason = self._lost.get(missing[text], "none")
            place = str(self._target.path / paths.VOLUMES / text.partition(":")[0])
            wanted = "that of a record"
            fault = Fault(text.partition(":")[0], place, 0, "missing content", wanted, reason, ContentKey.parse(text))
            self.fault(replace(fault, remedy=_ELSEWHERE))

    def take_numbers(self, batch: str, until: int) -> None:
        """Numbers before `until` whose records are lost are not given again."""
        if self._target.journal.batch(batch).tail.next_serial < until:
            entry = bare(JournalEntry("", "", "", b"", serial=until - 1))
            self._writer.restore(batch, [Copy(entry, ())], self._fetch)

    def _is_known(self, entry: JournalEntry, last: int) -> bool:
        if entry.serial > last:
            return False
        self._report.known += entry.type != REMOVED
        return True

    def _copy(self, batch: str, group: list[Copy]) -> None:
        for before, after in zip(group, self._writer.restore(batch, group, self._fetch), strict=True):
            entry = before.entry
            if entry.type == REMOVED:
                self._report.removed += 1
            elif after.type == REMOVED:
                self._report.refused += 1
            else:
                self._report.records += 1
                self._report.references += entry.type == REFERENCE
                self._note_lost(batch, entry)
            self._advance(len(entry.data))

    def _note_lost(self, batch: str, entry: JournalEntry) -> None:
        for text in entry.contentkeys:
            key = ContentKey.parse(text)
            if (reason := self._lost.get(key)) is not None:
                wanted = f"that of record {RecordId(batch, entry.serial)} of '{entry.url}'"
                file = str(self._source.path / paths.VOLUMES / key.volume)
                self.fault(Fault(batch, file, 0, "missing content", wanted, reason, key))

    # -- records of other batches -------------------------------------------------------------------------------

    def add(self, batch: str, to: str) -> dict[RecordId, RecordId | None]:
        """Adds all records of a batch to another one as new records, unless they are known; the id of each here."""
        ids: dict[RecordId, RecordId | None] = {}
        for group in self._copies(entry for entry in self.entries(batch, SERIAL_MAX) if entry.type != REMOVED):
            for each, record in zip(group, self._writer.add_copies(to, group, self._fetch), strict=True):
                ids[RecordId(batch, each.entry.serial)] = record
                self._note_lost(batch, each.entry)
                self._advance(len(each.entry.data))
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
