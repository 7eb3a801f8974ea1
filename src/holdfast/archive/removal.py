"""True removal (N2): of captures, their records, and contents that nothing else refers to.

The plan is made durable first (file `removal`), and each step is idempotent, so the next writer finishes a removal that
a crash interrupted:

    1. the catalog forgets the captures
    2. journal files with such records are rewritten without them, and the old files deleted
    3. the index hides the records from its readers
    4. each content loses one reference per removed record; a content without references is dead
    5. fingerprints of records removed for good are written to `refused`, and a line to `audit.log`
    6. the catalog's table is compacted, then the volumes with dead contents; additions may continue

Finally the records are purged from the files of the index, by the process that is writing the index if there is one.

Compaction removes dead contents from the disk; `Archive.remove` compacts at once by default. The request and metadata
recorded with a capture are removed with it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from holdfast.archive.ingest.writer import ArchiveWriter
from holdfast.arguments import check_fields
from holdfast.batches.entry import REMOVED, JournalEntry
from holdfast.batches.frame import FramePlace
from holdfast.catalog import CatalogChange
from holdfast.catalog.query.filters import names_field
from holdfast.env import Environment, paths
from holdfast.env.files import read_file, replace_file
from holdfast.errors import ContentNotFound, Damaged, UsageError
from holdfast.index.removal import withdraw
from holdfast.model import ContentKey, RecordId
from holdfast.records.draft import fingerprint, is_captured, refusal_mark, signatures_of
from holdfast.records.records import Records
from holdfast.records.selection import Selection, companions
from holdfast.storage.audit import append_audit

_ENTRIES_KEPT = 256  # of those around a capture, which are those around the next one, too
_CAPTURES_LISTED = 10_000  # in the audit line


@dataclass(frozen=True, slots=True)
class RemovalOptions:
    """The reason of a removal, and its options."""

    reason: str
    refuse: bool = False  # the same records are not to be imported again
    compact: bool = True  # free the disk space at once
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Removal:
    """The result of a removal; of a dry run, what it would remove."""

    captures: int
    records: int
    contents: int  # that nobody else holds; those kept in batches are counted for each capture
    shared: int  # that others hold, who keep them
    bytes: int  # of payload in the contents that nobody else holds
    volumes: tuple[str, ...]  # that have dead contents now
    orphaned: int  # captures of the same URLs that repeat a removed one and cannot be read any more
    listed: tuple[tuple[str, str, str], ...]  # record id, timestamp and URL of the captures, as far as they are listed


class RemovesEverywhere(Protocol):
    """Removes records from all nodes of a cluster, this one included. Any thread may call."""

    def remove(self, selection: Selection, options: RemovalOptions) -> Removal:
        """What is removed here; other nodes remove it when they can. Durable on return. Raises ClusterDown."""

    def completeness(self) -> Callable[[str], bool]:
        """A function that says of a URL whether all of its captures that live nodes have are here."""


class Remover:
    """One thread at a time, while nobody adds."""

    def __init__(self, writer: ArchiveWriter) -> None:
        self._writer = writer
        self._plan_path = writer.root / paths.REMOVAL

    def remove(
        self,
        selection: Selection,
        options: RemovalOptions,
        announce: Callable[[dict[RecordId, JournalEntry]], None] | None = None,
    ) -> Removal:
        """Calls `announce` before anything is changed.

        Raises UsageError without a reason, or for a filter without a field. An empty selection is not an error.
        """
        if not options.reason.strip():
            raise UsageError("a removal needs a reason: it is written to the audit log")
        for text in selection.query.filters if selection.query is not None else ():
            if not names_field(text):  # '404' is in many a digest
                raise UsageError(
                    f"filter {text!r} names no field: what is removed is said exactly, as by '=status:404'"
                )
        found = self._find(selection)
        plan, removal = self._plan(found, options)
        if found and not options.dry_run:
            if announce is not None:
                announce(found)
            self._write(plan)
            self._carry_out(plan)
        return removal

    def resume(self) -> list[str]:
        """Finishes an interrupted removal; returns the volumes still to compact."""
        plan = read_plan(self._writer.root, self._writer.env)
        if plan is None:
            return []
        if "records" in plan:
            self._carry_out(plan, is_resumed=True)
        volumes: list[str] = plan["volumes"]
        return volumes

    def _write(self, plan: dict[str, Any]) -> None:
        replace_file(self._writer.env.files, self._plan_path, json.dumps(plan).encode())

    def finish(self) -> None:
        """The volumes are compacted."""
        self._writer.intents.clear()  # it may name contents that are gone
        self._writer.env.files.remove(self._plan_path)
        self._writer.env.files.sync_directory(self._writer.root)

    # -- planning -----------------------------------------------------------------------------------------------

    def _find(self, selection: Selection) -> dict[RecordId, JournalEntry]:
        """The records that go, those of the captures first in each batch."""
        records = Records(self._writer.journal, self._writer.catalog, self._writer.contents)
        read = lru_cache(_ENTRIES_KEPT)(records.entry)
        found: dict[RecordId, JournalEntry] = {}
        whole = replace(selection, any_method=True)
        for record in whole.record_ids(self._writer.catalog, self._writer.journal):
            entry = read(record)
            if entry is None or entry.type == REMOVED:
                continue
            found[record] = entry
            if whole.takes_companions:
                found.update(companions(read, record, entry))
        return found

    def _plan(self, found: dict[RecordId, JournalEntry], options: RemovalOptions) -> tuple[dict[str, Any], Removal]:
        serials: dict[str, list[int]] = {}
        held: Counter[str] = Counter()
        for record, entry in found.items():
            serials.setdefault(record.batch, []).append(record.serial)
            held.update(entry.contentkeys)
        contents = list(self._counted(held))
        captures = [
            (str(record), entry.timestamp, entry.url)
            for record, entry in found.items()
            if self._writer.catalog.capture_of(record) is not None
        ]
        last = [each for each in contents if each[2] <= each[3]]
        inline = [entry.size for entry in found.values() if entry.is_inline and is_captured(entry)]
        volumes = sorted({name for key, *_ in last for name in self._writer.contents.holders(ContentKey.parse(key))})
        plan = {
            "time": datetime.fromtimestamp(self._writer.env.clock(), UTC).isoformat(timespec="seconds"),
            "reason": options.reason,
            "records": serials,
            "contents": contents,  # key, size, references before, and how many go
            "fingerprints": [fingerprint(entry, signatures_of(entry)).hex() for entry in found.values()],
            "origins": [entry.origin for entry in found.values() if entry.origin != "-"],
            "refuse": options.refuse,
            "refusals": [refusal_mark(entry, signatures_of(entry)).hex() for entry in found.values()],
            "compact": options.compact,
            "volumes": volumes if options.compact else [],
            "captures": captures[:_CAPTURES_LISTED],
            "capture_count": len(captures),
            "files": {batch: self._writer.journal.files(batch) for batch in serials},
        }
        return plan, Removal(
            captures=len(captures),
            records=len(found),
            contents=len(last) + len(inline),
            shared=len(contents) - len(last),
            bytes=sum(size for _, size, _, _ in last) + sum(inline),
            volumes=tuple(volumes),
            orphaned=self._orphaned(found),
            listed=tuple(captures[:_CAPTURES_LISTED]),
        )

    def _orphaned(self, found: dict[RecordId, JournalEntry]) -> int:
        """How many revisits of the same URLs stay behind without their original."""
        urls = {entry.url for entry in found.values() if entry.contents != "-" or entry.is_inline}
        left = [
            capture
            for url in urls
            for capture in self._writer.catalog.lookup(url)
            if capture.type == "revisit" and capture.contents == "-" and capture.record not in found
        ]
        originals = [self._writer.catalog.resolve(capture) for capture in left]
        return sum(original is not None and original.record in found for original in originals)

    def _counted(self, held: Counter[str]) -> Iterable[tuple[str, int, int, int]]:
        for text, count in held.items():
            try:
                stat = self._writer.contents.stat(ContentKey.parse(text))
            except ContentNotFound:  # lost before: there is nothing to release
                continue
            yield text, stat.size, stat.references, count

    # -- carrying out -------------------------------------------------------------------------------------------

    def _carry_out(self, plan: dict[str, Any], *, is_resumed: bool = False) -> None:
        writer = self._writer
        ids = [RecordId(batch, serial) for batch, serials in plan["records"].items() for serial in serials]
        marks = [bytes.fromhex(mark) for mark in plan["fingerprints"]]
        origins = [RecordId.parse(text) for text in plan.get("origins", ())]
        change = CatalogChange(removed=ids, fingerprints_removed=marks, origins_removed=origins)
        gone = writer.catalog.add(change)
        for batch, serials in plan["records"].items():
            self._rewrite(batch, set(serials), {int(n): g for n, g in plan["files"][batch].items()})
        withdraw(writer.root, writer.env, ids)
        self._release(plan["contents"])
        if plan["refuse"]:
            writer.refusals.add([bytes.fromhex(mark) for mark in plan["refusals"]])
        self._audit(plan)
        if plan["compact"]:
            writer.catalog.compact(None if is_resumed else gone)
        writer.catalog.sync()  # an older state of it would bring back removed captures
        if plan["volumes"]:  # additions may follow, so none of the steps above may be repeated
            self._write({"volumes": plan["volumes"]})
        else:
            self.finish()

    def _rewrite(self, name: str, serials: set[int], generations: dict[int, int]) -> None:
        """Rewrites the files of a batch that contain the serials, unless that has been done before."""
        batch = self._writer.journal.batch(name)
        places = [(serial, FramePlace.unpack(packed)) for serial, packed in self._writer.catalog.frames(name)]
        for number in _holding(places, serials):
            generation = generations[number]
            if self._writer.journal.files(name)[number] != generation:
                continue
            frames = batch.rewrite(number, generation, serials)
            self._writer.catalog.add(
                CatalogChange(
                    frames_removed=[(name, serial) for serial, place in places if place.number == number],
                    frames=[(name, place.first_serial, place.pack()) for place, _ in frames if place.first_serial],
                    batches={name: batch.state().pack()},
                )
            )
            self._writer.journal.forget(name, number)
            batch.drop(number, generation)
        if self._writer.journal.is_sealed(name):
            batch.write_seal()

    def _release(self, contents: Sequence[tuple[str, int, int, int]]) -> None:
        """Releases the references that are still there."""
        keys: list[ContentKey] = []
        for text, size, before, count in contents:
            found = self._writer.contents.references(ContentKey.parse(text), size)
            if found is None:
                self._writer.contents.require_up(text.partition(":")[0])
            else:
                keys += [found[0]] * min(max(found[1] - before + count, 0), count)
        if keys:
            self._writer.contents.delete_batch(keys)

    def _audit(self, plan: dict[str, Any]) -> None:
        """One line, also if this is done twice."""
        line = {
            "time": plan["time"],
            "event": "removal",
            "reason": plan["reason"],
            "captures": plan["capture_count"],
            "records": sum(map(len, plan["records"].values())),
            "refused": plan["refuse"],
            "listed": plan["captures"],
        }
        append_audit(self._writer.root, self._writer.env, json.dumps(line).encode() + b"\n")


def read_plan(root: Path, env: Environment) -> dict[str, Any] | None:
    """The rest of an interrupted removal; None if there is none. Raises Damaged."""
    path = root / paths.REMOVAL
    try:
        facts: dict[str, Any] = json.loads(read_file(env.files, path))
        if not isinstance(facts, dict) or not isinstance(facts["volumes"], list):
            raise ValueError("not the plan of a removal")
        return facts
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise Damaged(
            f"cannot read '{path}': {error}; it is the plan of a removal that was interrupted: delete it to go on, and "
            "remove again"
        ) from None


def _holding(places: Sequence[tuple[int, FramePlace]], serials: set[int]) -> list[int]:
    """The files that contain any of the serials."""
    firsts = [serial for serial, _ in places]
    numbers = set()
    for serial in serials:
        index = bisect_right(firsts, serial) - 1
        if index >= 0:
            numbers.add(places[index][1].number)
    return sorted(numbers)
