"""True removal (N2): captures, their records, and contents that nobody else holds.

The plan of a removal is made durable before it begins (file `removal`), and each of its steps is idempotent, so the
next writer finishes what a crash interrupted:

    1. the catalog forgets the captures
    2. every journal file that holds one of the records is rewritten without them, and the old form deleted
    3. the index withdraws the records: its readers find them no more
    4. each content loses as many references as there were records that held it; what has none left is dead
    5. fingerprints of what is not to come back are written to `refused`, and a line to `audit.log`
    6. the catalog's table is compacted, then the volumes that have dead contents now, while others may add

At the end the records leave the files of the index; if another process is writing the index, it sees to that.

Dead contents leave the disk with compaction, which `Archive.remove` does at once by default. The request and the
metadata that were recorded with a capture go with it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from holdfast.archive.write_state import WriteState
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
from holdfast.records.draft import fingerprint, refusal_mark, signatures_of
from holdfast.records.records import Records
from holdfast.records.selection import Selection, companions
from holdfast.storage.audit import append_audit

_ENTRIES_KEPT = 256  # of those around a capture, which are those around the next one, too
_CAPTURES_LISTED = 10_000  # in the audit line


@dataclass(frozen=True, slots=True)
class RemovalOptions:
    """How to remove, and why."""

    reason: str
    refuse: bool = False  # the same records are not to be imported again
    compact: bool = True  # free the disk space at once
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Removal:
    """What was removed, or in a dry run would be."""

    captures: int
    records: int
    contents: int  # that nobody else holds
    shared: int  # that others hold, who keep them
    bytes: int  # of payload in the contents that nobody else holds
    volumes: tuple[str, ...]  # that have dead contents now
    orphaned: int  # captures of the same URLs that repeat a removed one and cannot be read any more
    listed: tuple[tuple[str, str, str], ...]  # record id, timestamp and URL of the captures, as far as they are listed


@dataclass(slots=True)
class _Plan:
    """Everything that a removal does, as JSON on disk."""

    facts: dict[str, Any]

    @property
    def records(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = self.facts["records"]
        return found

    @property
    def volumes(self) -> list[str]:
        """Those that are to be compacted."""
        found: list[str] = self.facts["volumes"]
        return found

    @property
    def contents(self) -> list[tuple[str, int, int, int]]:
        """Key, size, references before, and how many go."""
        found: list[tuple[str, int, int, int]] = self.facts["contents"]
        return found


class Remover:
    """One thread at a time, while nobody adds."""

    def __init__(self, root: Path, state: WriteState) -> None:
        self._root = root
        self._state = state

    def remove(self, selection: Selection, options: RemovalOptions) -> Removal:
        """Raises UsageError without a reason, or for a filter without a field. Nothing selected is no error."""
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
            replace_file(self._state.env.files, self._root / paths.REMOVAL, json.dumps(plan.facts).encode())
            self._carry_out(plan)
        return removal

    def resume(self) -> list[str]:
        """Finishes a removal that was interrupted; returns the volumes that are still to be compacted."""
        plan = read_plan(self._root, self._state.env)
        if plan is None:
            return []
        if "records" in plan.facts:
            self._carry_out(plan, is_resumed=True)
        return plan.volumes

    def finish(self) -> None:
        """The volumes are compacted."""
        self._state.intents.clear()  # it may name contents that are gone
        self._state.env.files.remove(self._root / paths.REMOVAL)
        self._state.env.files.sync_directory(self._root)

    # -- planning -----------------------------------------------------------------------------------------------

    def _find(self, selection: Selection) -> dict[RecordId, JournalEntry]:
        """The records that go, those of the captures first in each batch."""
        records = Records(self._state.journal, self._state.catalog, self._state.contents)
        read = lru_cache(_ENTRIES_KEPT)(records.entry)
        found: dict[RecordId, JournalEntry] = {}
        whole = replace(selection, any_method=True)
        for record in whole.record_ids(self._state.catalog, self._state.journal):
            entry = read(record)
            if entry is None or entry.type == REMOVED:
                continue
            found[record] = entry
            found.update(companions(read, record, entry))
        return found

    def _plan(self, found: dict[RecordId, JournalEntry], options: RemovalOptions) -> tuple[_Plan, Removal]:
        serials: dict[str, list[int]] = {}
        held: Counter[str] = Counter()
        for record, entry in found.items():
            serials.setdefault(record.batch, []).append(record.serial)
            held.update(entry.contentkeys)
        contents = list(self._counted(held))
        captures = [
            (str(record), entry.timestamp, entry.url)
            for record, entry in found.items()
            if self._state.catalog.capture_of(record) is not None
        ]
        facts = {
            "time": datetime.fromtimestamp(self._state.env.clock(), UTC).isoformat(timespec="seconds"),
            "reason": options.reason,
            "records": serials,
            "contents": contents,
            "fingerprints": [fingerprint(entry, signatures_of(entry)).hex() for entry in found.values()],
            "refuse": options.refuse,
            "refusals": [refusal_mark(entry, signatures_of(entry)).hex() for entry in found.values()],
            "compact": options.compact,
            "volumes": [],
            "captures": captures[:_CAPTURES_LISTED],
            "capture_count": len(captures),
            "files": {batch: self._state.journal.files(batch) for batch in serials},
        }
        last = [each for each in contents if each[2] <= each[3]]
        volumes = sorted({name for key, *_ in last for name in self._state.contents.holders(ContentKey.parse(key))})
        if options.compact:
            facts["volumes"] = volumes
        return _Plan(facts), Removal(
            len(captures),
            len(found),
            len(last),
            len(contents) - len(last),
            sum(size for _, size, _, _ in last),
            tuple(volumes),
            self._orphaned(found),
            tuple(captures[:_CAPTURES_LISTED]),
        )

    def _orphaned(self, found: dict[RecordId, JournalEntry]) -> int:
        """How many revisits of the same URLs stay behind without their original."""
        urls = {entry.url for entry in found.values() if entry.contents != "-"}
        left = [
            capture
            for url in urls
            for capture in self._state.catalog.lookup(url)
            if capture.type == "revisit" and capture.contents == "-" and capture.record not in found
        ]
        originals = [self._state.catalog.resolve(capture) for capture in left]
        return sum(original is not None and original.record in found for original in originals)

    def _counted(self, held: Counter[str]) -> Iterable[tuple[str, int, int, int]]:
        for text, count in held.items():
            try:
                stat = self._state.contents.stat(ContentKey.parse(text))
            except ContentNotFound:  # lost before: there is nothing to release
                continue
            yield text, stat.size, stat.references, count

    # -- carrying out -------------------------------------------------------------------------------------------

    def _carry_out(self, plan: _Plan, *, is_resumed: bool = False) -> None:
        ids = [RecordId(batch, serial) for batch, serials in plan.records.items() for serial in serials]
        marks = [bytes.fromhex(mark) for mark in plan.facts["fingerprints"]]
        gone = self._state.catalog.add(CatalogChange(removed=ids, fingerprints_removed=marks))
        for batch, serials in plan.records.items():
            self._rewrite(batch, set(serials), {int(n): g for n, g in plan.facts["files"][batch].items()})
        withdraw(self._root, self._state.env, ids)
        self._release(plan.contents)
        if plan.facts["refuse"]:
            self._state.refusals.add([bytes.fromhex(mark) for mark in plan.facts["refusals"]])
        self._audit(plan)
        if plan.facts["compact"]:
            self._state.catalog.compact(None if is_resumed else gone)
        self._state.catalog.sync()  # an older state of it would bring back what is gone
        if plan.volumes:  # others may add from now on, so none of the steps above may be done again
            left = json.dumps({"volumes": plan.volumes}).encode()
            replace_file(self._state.env.files, self._root / paths.REMOVAL, left)
        else:
            self.finish()

    def _rewrite(self, name: str, serials: set[int], generations: dict[int, int]) -> None:
        """Rewrites those files of a batch that hold the serials, unless that has been done before."""
        batch = self._state.journal.batch(name)
        places = [(serial, FramePlace.unpack(packed)) for serial, packed in self._state.catalog.frames(name)]
        for number in _holding(places, serials):
            generation = generations[number]
            if self._state.journal.files(name)[number] != generation:
                continue
            frames = batch.rewrite(number, generation, serials)
            self._state.catalog.add(
                CatalogChange(
                    frames_removed=[(name, serial) for serial, place in places if place.number == number],
                    frames=[(name, place.first_serial, place.pack()) for place, _ in frames if place.first_serial],
                    batches={name: batch.state().pack()},
                )
            )
            self._state.journal.forget(name, number)
            batch.drop(number, generation)
        if self._state.journal.is_sealed(name):
            batch.write_seal()

    def _release(self, contents: Sequence[tuple[str, int, int, int]]) -> None:
        """Releases the references that are still there."""
        keys: list[ContentKey] = []
        for text, size, before, count in contents:
            found = self._state.contents.references(ContentKey.parse(text), size)
            if found is None:
                self._state.contents.require_up(text.partition(":")[0])
            else:
                keys += [found[0]] * min(max(found[1] - before + count, 0), count)
        if keys:
            self._state.contents.delete_batch(keys)

    def _audit(self, plan: _Plan) -> None:
        """One line, also if this is done twice."""
        facts = plan.facts
        line = {
            "time": facts["time"],
            "event": "removal",
            "reason": facts["reason"],
            "captures": facts["capture_count"],
            "records": sum(map(len, plan.records.values())),
            "refused": facts["refuse"],
            "listed": facts["captures"],
        }
        text = json.dumps(line).encode() + b"\n"
        append_audit(self._root, self._state.env, text)


def read_plan(root: Path, env: Environment) -> _Plan | None:
    """What is left of a removal that was interrupted; None if there is none. Raises Damaged."""
    path = root / paths.REMOVAL
    try:
        facts = json.loads(read_file(env.files, path))
        if not isinstance(facts, dict) or not isinstance(facts["volumes"], list):
            raise ValueError("not the plan of a removal")
        return _Plan(facts)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise Damaged(
            f"cannot read '{path}': {error}; it is the plan of a removal that was interrupted: delete it to go on, and "
            "remove again"
        ) from None


def _holding(places: Sequence[tuple[int, FramePlace]], serials: set[int]) -> list[int]:
    """The files that hold one of the serials."""
    firsts = [serial for serial, _ in places]
    numbers = set()
    for serial in serials:
        index = bisect_right(firsts, serial) - 1
        if index >= 0:
            numbers.add(places[index][1].number)
    return sorted(numbers)
