"""The backup of a batch: an archive of its own that holds this batch and all that it needs (I4).

    spring-backup/
      BACKUP              JSON: which batch, how many records, whether it was sealed
      SHA256SUMS          of the files below that hold the truth; `sha256sum -c` verifies them
      holdfast.toml       settings of the archive
      batches/spring/     the records
      batches/202610/     those records of other batches that belong to it, under their own ids: originals of its
                          revisits, and records that the files imported into it have in common with earlier ones
      volumes/v0/         the payloads of all of them, compressed without a dictionary
      catalog/, keydir/   derived

What flows in: a batch, also while others write to its archive. What flows out: the same batch in another archive, with
the same ids. Records of other batches that are not there yet go to a batch of their own, NAME-originals.

Guarantees. A backup has its name when it is whole; until then it ends in `.open`, and the next run goes on with it. A
batch that is being restored takes no other records, and is reported by `verify` and `check`, until it is whole. Both
can be killed at any moment; reference counts stay exact on both sides. Records that the target refuses stay away.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.archive.backup.batch_copy import BatchCopy, CopyTally
from holdfast.archive.create import Plan, init
from holdfast.archive.export.manifest import listed
from holdfast.batches.batch import BatchState, file_digest
from holdfast.batches.entry import SOURCE
from holdfast.batches.scan import Passed
from holdfast.config import StoreSettings
from holdfast.env import paths
from holdfast.env.files import read_file, replace_file, translated_errors
from holdfast.errors import Busy, Damaged, FormatTooNew, NotFound, UsageError
from holdfast.model import Fault, RecordId, batch_name
from holdfast.records.draft import capture_of

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive

Progress = Callable[[int], None]
FORMAT = 1
_TRIES = 3
_NAME_MAX = 64
_ORIGINALS = "-originals"


@dataclass(frozen=True, slots=True)
class BatchCopyReport:
    """What a backup or a restore has done. With faults, what is sound has been copied nevertheless."""

    batch: str
    path: str  # of the backup
    sealed: bool
    records: int  # that were copied now
    known: int  # that were there already
    removed: int  # numbers of records that had been removed
    refused: int  # that are not to come back, and did not
    originals: int  # records of other batches that belong to it
    put_back: int  # payloads that records had lost here, and have again
    references: int  # records that lie in files elsewhere, and are not in the backup
    bytes: int
    faults: tuple[Fault, ...] = ()


# -- backing up --------------------------------------------------------------------------------------------------------


def back_up(archive: Archive, batch: str, target: Path, progress: Progress | None = None) -> BatchCopyReport:
    """Writes a batch with its payloads to a directory that must not exist yet. Durable on return.

    Raises UsageError or UnknownName before anything is written. An unfinished one is gone on with.
    """
    archive.journal.require(batch)
    if archive.journal.is_restoring(batch):
        raise UsageError(f"batch {batch!r} is not restored to its end: run 'holdfast batch restore' again first")
    if target.exists() or target.is_symlink():
        raise UsageError(f"'{target}' exists: name a directory that does not")
    if not target.parent.is_dir():
        raise UsageError(f"'{target.parent}' is no directory")
    for _ in range(_TRIES):
        generations = {name: archive.journal.files(name) for name in archive.journal.names()}
        with translated_errors(target):
            draft = _begun(archive, batch, target, generations)
        report = _filled(archive, batch, draft, target, progress)
        if all(_is_kept(archive, name, files) for name, files in generations.items()):
            archive.env.files.rename(draft, target)
            archive.env.files.sync_directory(target.parent)
            archive.env.files.remove(target / (paths.BACKUP + paths.UNFINISHED))
            return report
    raise Busy(f"records are being removed beside the backup of batch {batch!r}: try again later")


def _is_kept(archive: Archive, name: str, files: dict[int, int]) -> bool:
    """Whether nothing was removed from a batch: a removal writes files as new generations."""
    now = archive.journal.files(name)
    return all(now.get(number) == generation for number, generation in files.items())


def _begun(archive: Archive, batch: str, target: Path, generations: dict[str, dict[int, int]]) -> Path:
    """The directory that is to become the backup: that of an unfinished one of the same state, or a new one."""
    draft = target.with_name(target.name + paths.UNFINISHED)
    mark = draft / (paths.BACKUP + paths.UNFINISHED)
    facts = json.dumps({"batch": batch, "archive": archive.settings.uid, "files": generations}).encode()
    files = archive.env.files
    if files.exists(mark) and read_file(files, mark) == facts and files.exists(draft / paths.SETTINGS):
        return draft
    if draft.exists():
        if not draft.is_dir() or (not files.exists(mark) and set(files.names(draft)) - {mark.name + paths.UNFINISHED}):
            raise UsageError(f"'{draft}' exists and is no unfinished backup: move it away")
        shutil.rmtree(draft)
    files.make_directory(draft)
    replace_file(files, mark, facts)
    store = StoreSettings(signature=archive.settings.store.signature, train_after=0)
    init(draft, Plan(store=store), env=archive.env)
    return draft


def _filled(archive: Archive, batch: str, draft: Path, target: Path, progress: Progress | None) -> BatchCopyReport:
    from holdfast.archive.archive import Archive

    tally = CopyTally(progress)
    until = BatchState.unpack(archive.catalog.batch_state(batch)).next_serial  # what is behind is not acknowledged yet
    sealed = archive.journal.is_sealed(batch)
    needed = _needed(archive, batch, until)
    with Archive(draft, env=archive.env) as backup:
        copy = BatchCopy(archive, backup, tally)
        copy.run(batch, until)
        copy.take_numbers(batch, until)
        own = tally.records, tally.known
        for name in sorted(needed):
            copy.run(name, max(needed[name]) + 1, needed[name])
        originals = tally.records + tally.known - sum(own)
        tally.records, tally.known = own
        if sealed:
            backup.seal(batch)
        entries = {name: tally.entries.get(name, 0) for name in (batch, *sorted(needed))}
    facts = {
        "format": FORMAT,
        "batch": batch,
        "sealed": sealed,
        "next_serial": until,
        "time": datetime.fromtimestamp(archive.env.clock(), UTC).isoformat(timespec="seconds"),
        "archive": archive.settings.uid,
        "entries": entries,
        "faults": len(tally.faults),
    }
    files = archive.env.files
    replace_file(files, draft / paths.BACKUP, json.dumps(facts, indent=1).encode() + b"\n")
    replace_file(files, draft / paths.CHECKSUMS, _checksums(archive, draft))
    return _report(tally, batch, target, sealed=sealed, originals=originals)


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
    """All files that hold the truth, as `sha256sum` lists them."""
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
    tally = CopyTally(progress)
    with Archive(path, read_only=True, env=archive.env) as backup:
        for name, reason in backup.instance.down.items():
            raise Damaged(
                f"cannot read '{path}': volume {name!r} is down: {reason}; run 'holdfast -a {path} check --repair'"
            )
        copy = BatchCopy(backup, archive, tally)
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
        if (found := tally.entries.get(name, 0)) < count:
            file = str(paths.batch_directory(path, name))
            tally.fault(Fault(name, file, 0, "missing records", f"{count} records", str(found)))
    sealed = archive.journal.is_sealed(batch)
    return _report(tally, batch, path, sealed=sealed, originals=len(ids))


def _read_facts(archive: Archive, path: Path) -> dict[str, Any]:
    if path.exists() and not path.is_dir():
        raise NotFound(f"'{path}' is no backup of a batch: it is no directory")
    try:
        facts = json.loads(read_file(archive.env.files, path / paths.BACKUP))
    except FileNotFoundError:
        if path.name.endswith(paths.UNFINISHED) or (path / (paths.BACKUP + paths.UNFINISHED)).exists():
            raise UsageError(f"'{path}' is an unfinished backup: run 'holdfast batch backup' again") from None
        raise NotFound(f"'{path}' is no backup of a batch: it has no file '{paths.BACKUP}'") from None
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


def _report(tally: CopyTally, batch: str, path: Path, *, sealed: bool, originals: int) -> BatchCopyReport:
    return BatchCopyReport(
        batch,
        str(path),
        sealed,
        tally.records,
        tally.known,
        tally.removed,
        tally.refused,
        originals,
        tally.put_back,
        tally.references,
        tally.bytes,
        tuple(tally.faults.values()),
    )
