"""Checking a log volume: every byte of every segment, then the keydir against the segments.

The entries are replayed into a scratch keydir on disk, so that memory stays bounded, and the two keydirs are compared
slot by slot. Works while another process writes: what it writes after the check began is left to the next check.

Repairing a log volume on its own: keep what is sound, report what is lost, leave a clean volume.

Segments are the truth, but where they are damaged a sound keydir knows more: which blocks there were, their counters,
and which were removed. So repair replays all sound entries into a new keydir; where segments are damaged, compares it
with the old one and lists what is lost, what to recount and what must stay removed; replaces the keydir; writes the
corrections; sets the damaged bytes aside; rewrites the damaged segments.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from heapq import merge
from itertools import groupby, repeat
from pathlib import Path
from typing import NamedTuple

from holdfast.env import paths
from holdfast.env.files import replace_file
from holdfast.env.scratch import ScratchDirectory
from holdfast.env.table import verify_table
from holdfast.errors import Damaged, DamagedBlock, DamagedKeydir, HoldfastError
from holdfast.model import ContentKey, Fault
from holdfast.storage.block import BLOCK, REPLICA, Header
from holdfast.storage.codec import ALIAS
from holdfast.storage.volume import BlockKey, Recount
from holdfast.storage.volumes.damage import DAMAGED_BLOCK, LOST_BLOCK, CheckProgress, Lost, Repair, fault_key
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.local import VolumeSpec, key_of
from holdfast.storage.volumes.log.compaction import compact_run
from holdfast.storage.volumes.log.follower import FollowerIndex
from holdfast.storage.volumes.log.keydir import KIND, Keydir, KeydirChange, Position, SegmentFacts, Slot
from holdfast.storage.volumes.log.ledger import SegmentLedger, find_slot
from holdfast.storage.volumes.log.recovery import TAKE_EVERY, acknowledged_end, replay_all, take
from holdfast.storage.volumes.log.segment import Damage, SegmentEntry, damaged_header, read_segment_header
from holdfast.storage.volumes.log.segment_files import ListedSegment, SegmentFiles
from holdfast.storage.volumes.log.volume import LogVolume

_TOTALS = ("blocks", "replicas", "content_bytes", "stored_bytes", "references", "referenced_bytes")


class Difference(NamedTuple):
    """A block on which the segments and the keydir disagree."""

    key: BlockKey
    told: Slot | None  # by the segments
    kept: Slot | None  # in the keydir


def check_log(spec: VolumeSpec, watch: CheckProgress) -> Iterator[Fault]:
    """All faults of the volume."""
    with closing(_LogChecker(spec, watch)) as checker:
        yield from checker.faults()


class _LogChecker:
    """One check of one volume."""

    def __init__(self, spec: VolumeSpec, watch: CheckProgress) -> None:
        self._spec = spec
        self._watch = watch
        self._segments = spec.segments()
        self._keydir_path = str(spec.directory / paths.KEYDIR)
        self._kept: FollowerIndex | None = None
        self._now: FollowerIndex | None = None
        self._dictionaries: set[int] = set()  # that blocks were encoded with
        self._damaged: set[BlockKey] = set()  # blocks with a sound header
        self._damages: list[tuple[ListedSegment, Damage]] = []
        self._is_switching = False  # the keydir does not know a compacted segment yet

    def close(self) -> None:
        for index in (self._kept, self._now):
            if index is not None:
                index.close()
        self._segments.close()

    def _latest(self) -> FollowerIndex:
        """The keydir at the first call, after the segments have been read."""
        if self._now is None:
            self._now = FollowerIndex(self._spec, self._segments)
        return self._now

    def faults(self) -> Iterator[Fault]:
        spec = self._spec
        try:
            self._verify_keydir()
            self._kept = FollowerIndex(self._spec, self._segments)
        except HoldfastError as error:
            yield self._keydir_fault("unreadable keydir", "a keydir", str(error))
        try:
            with ScratchDirectory("check") as scratch:
                keydir = Keydir(scratch.path / paths.KEYDIR, cache_bytes=spec.settings.keydir_cache_bytes)
                try:
                    yield from self._compare(keydir)
                finally:
                    keydir.abandon()
        except Damaged as error:  # the keydir, while it is read
            yield self._keydir_fault("unreadable keydir", "a keydir", str(error))

    def _verify_keydir(self) -> None:
        path, cache_bytes = self._spec.directory / paths.KEYDIR, self._spec.settings.keydir_cache_bytes
        for last_try in (False, False, True):
            try:
                return verify_table(path, KIND, cache_bytes=cache_bytes)
            except DamagedKeydir:  # or its writer has just replaced a file
                if last_try:
                    raise

    def _compare(self, scratch: Keydir) -> Iterator[Fault]:
        ledger = SegmentLedger(scratch, self._segments.lanes, remember_tickets=False)
        yield from self._replay(ledger, scratch)
        yield from self._named_damages(scratch)
        shelf = DictionaryShelf(self._spec.env, self._spec.directory, self._spec.identity)
        yield from shelf.check(self._spec.name, self._dictionaries)
        if self._kept is None:
            yield from self._nameless_damages(scratch, None)
            return
        position, segments = self._kept.facts()
        yield from self._missing_segments(segments)
        agree, unsure = not self._damaged, 0
        lost: set[tuple[int, int]] = set()  # segment and offset of blocks that the keydir knows
        for difference in differences(scratch, self._kept):
            agree = False
            if difference.told is None and difference.kept is not None:
                lost.add((difference.kept.segment, difference.kept.offset))
            if self._has_moved(difference):
                continue
            if difference.told is not None and self._is_rewritten():
                unsure += 1
                continue
            if difference.told is not None or difference.key not in self._damaged:
                yield self._difference_fault(difference)
        yield from self._nameless_damages(scratch, lost)
        if unsure:
            text = (
                f"{unsure} blocks could not be compared with '{self._keydir_path}': segments were rewritten meanwhile"
            )
            self._watch.notes.append(f"{text}; check again")
        for name in _TOTALS if agree else ():  # else they differ for reasons already given
            expected, found = getattr(ledger.position, name), getattr(position, name)
            if expected != found:
                yield self._keydir_fault(f"total of {name.replace('_', ' ')} differs", f"{expected}", f"{found}")

    def _has_moved(self, difference: Difference) -> bool:
        """True if the block was changed, or moved by a compaction, since this check began."""
        key = difference.key
        return find_slot(self._latest().slots(key.signature), key) != difference.kept

    def _is_rewritten(self) -> bool:
        """True if segments were compacted or distributed since this check began: it may have missed their entries."""
        now = self._latest().facts()[1]
        return self._is_switching or any(
            number not in now or now[number].generation != facts.generation for number, facts in self._known().items()
        )

    # -- the segments ---------------------------------------------------------------------------------------------

    def _replay(self, ledger: SegmentLedger, scratch: Keydir) -> Iterator[Fault]:
        current, _ = self._segments.listing(self._known())
        for listed in current:
            yield from self._check_segment_header(listed)
            facts = self._known().get(listed.segment)
            self._is_switching |= facts is not None and facts.generation != listed.generation
            ledger.begin_segment(listed.segment, listed.generation, listed.through)
            begun = replace(ledger.position, serial=ledger.floor(listed.segment))
            for step in self._steps(listed, begun, is_last=listed is current[-1]):
                if isinstance(step, Damage):
                    self._watch.read(step.length)
                    ledger.skip(listed.segment, step.offset, step.length)
                    self._damages.append((listed, step))
                    continue
                self._watch.read(len(step.raw))
                self._watch.blocks += step.header.kind in (BLOCK, REPLICA)
                if step.header.codec != ALIAS.encode():  # in an alias, the field has another meaning
                    self._dictionaries.add(step.header.dictionary)
                ledger.apply_entry(step, listed.segment)
                if ledger.position.serial % TAKE_EVERY == 0:
                    take(ledger, scratch)
        take(ledger, scratch)

    def _known(self) -> dict[int, SegmentFacts]:
        return self._kept.facts()[1] if self._kept is not None else {}

    def _steps(self, listed: ListedSegment, begun: Position, *, is_last: bool) -> Iterator[SegmentEntry | Damage]:
        """The entries of the segment, without those never acknowledged or written after this check began."""
        try:
            file = self._segments.file(listed.segment, listed.generation)
        except FileNotFoundError:
            return  # compacted since it was listed
        known = self._kept.facts()[0] if self._kept is not None else None
        end = size = file.size()
        if is_last and self._segments.lanes.of(listed.segment) == 0:
            end = acknowledged_end(file, self._segments.uid, begun, known)
        if end < size:
            self._watch.notes.append(f"'{file.path}' ends with {size - end} bytes that were never acknowledged")
        try:
            for step in self._segments.walk(listed.segment, file, end, begun.serial):
                if known is not None and isinstance(step, SegmentEntry) and step.header.serial > known.serial:
                    return
                yield step
        except FileNotFoundError:
            return  # an object, compacted since it was opened: unlike a file it does not outlive its name

    def _check_segment_header(self, listed: ListedSegment) -> Iterator[Fault]:
        wanted = (self._segments.uid, listed.segment, listed.generation)
        place = (self._spec.name, str(listed.path), 0)
        try:
            found = read_segment_header(self._segments.file(listed.segment, listed.generation))
        except FileNotFoundError:
            return
        except DamagedBlock as error:
            yield Fault(*place, "damaged segment header", f"header of {wanted}", str(error))
            return
        if found[:3] != wanted:
            yield Fault(*place, "wrong segment header", f"{wanted}", f"{found[:3]}")

    def _missing_segments(self, known: dict[int, SegmentFacts]) -> Iterator[Fault]:
        lanes = self._segments.lanes
        present = {  # a compacted segment stands for a run of them
            number
            for listed in self._segments.listing(known)[0]
            for number in known
            if listed.segment <= number <= listed.through and lanes.of(number) == lanes.of(listed.segment)
        }
        missing = [number for number in known if number not in present]
        for number in missing:
            facts = known[number]
            if number not in self._latest().facts()[1]:
                continue  # compacted since this check began
            if facts.blocks > facts.dead_blocks:
                path = self._segments.path(number, facts.generation)
                yield Fault(self._spec.name, str(path), 0, "missing segment", f"{facts.bytes} bytes", "nothing")

    # -- faults ---------------------------------------------------------------------------------------------------

    def _keydir_fault(self, kind: str, expected: str, found: str, key: ContentKey | None = None) -> Fault:
        remedy = "it can be rebuilt"
        return Fault(self._spec.name, self._keydir_path, 0, kind, expected, found, key, remedy=remedy)

    def _named_damages(self, scratch: Keydir) -> Iterator[Fault]:
        """Damaged entries with a sound header, unless their block was healed since."""
        for listed, damage in self._damages:
            if damage.header is not None:
                yield from self._damage_faults(scratch, listed, damage, damage.header)

    def _nameless_damages(self, scratch: Keydir, lost: set[tuple[int, int]] | None) -> Iterator[Fault]:
        """Damaged ranges without a readable header. `lost`: places of missing blocks, by the keydir."""
        for listed, damage in self._damages:
            if damage.header is not None:
                continue
            header, span = None, range(damage.offset, damage.offset + damage.length)
            if lost is not None and not any(number == listed.segment and at in span for number, at in lost):
                with suppress(FileNotFoundError):
                    header = damaged_header(self._segments.file(listed.segment, listed.generation), damage)
            yield from self._damage_faults(scratch, listed, damage, header)

    def _damage_faults(
        self, scratch: Keydir, listed: ListedSegment, damage: Damage, header: Header | None
    ) -> Iterator[Fault]:
        """The fault of this damage, or only a note if the block was written again since."""
        is_block = header is not None and header.kind in (BLOCK, REPLICA)
        slot = find_slot(scratch.slots(header.signature), header) if header is not None else None
        if header is not None and is_block and slot is not None and slot.serial > header.serial:
            self._watch.notes.append(
                f"'{listed.path}' has {damage.length} damaged bytes at {damage.offset}, of a block that has been "
                "healed; 'holdfast volume compact' removes them"
            )
            return
        kind, key = f"{damage.length} unreadable bytes", None
        if damage.header is not None and is_block:
            kind, block_key = DAMAGED_BLOCK, key_of(damage.header)
            self._damaged.add(block_key)
            key = fault_key(self._spec.name, block_key)
        yield Fault(self._spec.name, str(listed.path), damage.offset, kind, damage.expected, damage.found, key)

    def _difference_fault(self, difference: Difference) -> Fault:
        block_key, told, kept = difference
        key = fault_key(self._spec.name, block_key)
        if kept is None:
            assert told is not None
            return self._keydir_fault("keydir differs", f"a block at {told[3:6]}", "nothing", key)
        if told is None:
            path = str(self._segments.path(kept.segment, kept.generation))
            return Fault(self._spec.name, path, kept.offset, LOST_BLOCK, "a sound block", "none", key)
        if told.references != kept.references:
            return self._keydir_fault("counter differs", f"{told.references} references", f"{kept.references}", key)
        return self._keydir_fault("keydir differs", f"{told}", f"{kept}", key)


def differences(told: Keydir, kept: FollowerIndex) -> Iterator[Difference]:
    """Compares the slots of the segments and of the keydir, by ascending signature."""
    sides = zip(repeat(0), told.all_slots()), zip(repeat(1), kept.all_slots())
    for signature, group in groupby(merge(*sides, key=lambda each: each[1][0]), key=lambda each: each[1][0]):
        slots = {side: found for side, (_, found) in group}
        yield from _slot_differences(signature, slots.get(0, ()), slots.get(1, ()))


def _slot_differences(signature: bytes, told: tuple[Slot, ...], kept: tuple[Slot, ...]) -> Iterator[Difference]:
    if told == kept:
        return
    by_told = {(slot.overflow, slot.home): slot for slot in told}
    by_kept = {(slot.overflow, slot.home): slot for slot in kept}
    for overflow, home in sorted(by_told.keys() | by_kept.keys()):
        left, right = by_told.get((overflow, home)), by_kept.get((overflow, home))
        if left != right:
            yield Difference(BlockKey(signature, overflow, home), left, right)


SET_ASIDE_BYTES_MAX = 64 << 20  # of one damaged range


def repair_log(spec: VolumeSpec, open_volume: Callable[[VolumeSpec], LogVolume] = LogVolume) -> Repair:
    """Leaves the volume sound. Reports what it lost, for other volumes to restore."""
    segments = spec.segments()
    draft = spec.directory / (paths.KEYDIR + paths.UNFINISHED)
    shutil.rmtree(draft, ignore_errors=True)
    told = Keydir(draft, cache_bytes=spec.settings.keydir_cache_bytes)
    kept = _old_keydir(spec, segments)
    try:
        _remember_tickets(told, kept)
        damages = replay_all(
            SegmentLedger(told, segments.lanes), told, segments, kept.facts() if kept is not None else None
        )
        lost, corrections = _remember(spec.name, told, kept, damages)
        known = told.segments()
    finally:
        told.close()
        if kept is not None:
            kept.close()
    keydir = spec.directory / paths.KEYDIR
    shutil.rmtree(keydir, ignore_errors=True)
    draft.rename(keydir)
    for path, damage in damages:
        _set_aside(spec, segments, path, damage)
    harmed = _harmed_segments(segments, damages, known)
    segments.close()
    _rewrite(open_volume(spec), harmed, corrections)
    return Repair(lost, DictionaryShelf(spec.env, spec.directory, spec.identity).repair())


def _old_keydir(spec: VolumeSpec, segments: SegmentFiles) -> FollowerIndex | None:
    try:
        return FollowerIndex(spec, segments)
    except HoldfastError:
        return None


def _remember_tickets(told: Keydir, kept: FollowerIndex | None) -> None:
    """The idempotency keys of the old keydir; the segments, replayed on top, may have later ones."""
    if kept is not None:
        with suppress(Damaged):
            told.apply(KeydirChange(tickets=dict(kept.tickets())))


def _remember(
    name: str, told: Keydir, kept: FollowerIndex | None, damages: list[tuple[Path, Damage]]
) -> tuple[list[Lost], list[Recount]]:
    """What the old keydir knows and the damaged segments do not: lost blocks, and counters to correct."""
    if kept is None:
        return _lost_by_header(name, told, damages), []
    lost: list[Lost] = []
    corrections: list[Recount] = []
    try:
        if damages or _is_shortened(told, kept):
            for key, telling, keeping in differences(told, kept):
                if telling is None and keeping is not None:
                    lost.append(Lost(name, key, keeping.replica, keeping.references))
                    continue
                references = keeping.references if keeping is not None else 0  # 0: its removal was damaged
                if telling is not None and references != telling.references:
                    corrections.append(Recount(key, references))
    except Damaged:  # it cannot be read to its end: the segments must do
        return _lost_by_header(name, told, damages), []
    return lost, corrections


def _is_shortened(told: Keydir, kept: FollowerIndex) -> bool:
    """True if segments of the old keydir are missing, whole or at their end."""
    position, known = kept.facts()
    present = told.segments()
    shorter = (present[number].bytes < known[number].bytes for number in present.keys() & known.keys())
    return told.position().serial < position.serial or not present.keys() >= known.keys() or any(shorter)


def _lost_by_header(name: str, told: Keydir, damages: list[tuple[Path, Damage]]) -> list[Lost]:
    lost = []
    for _, damage in damages:
        header = damage.header
        if header is not None and header.kind in (BLOCK, REPLICA):
            key = key_of(header)
            if find_slot(told.slots(key.signature), key) is None:
                lost.append(Lost(name, key, header.kind == REPLICA, 0))
    return lost


def _set_aside(spec: VolumeSpec, segments: SegmentFiles, path: Path, damage: Damage) -> None:
    """Keeps the damaged bytes for inspection."""
    number, generation = _number(path)
    raw = segments.file(number, generation).read(damage.offset, min(damage.length, SET_ASIDE_BYTES_MAX))
    spec.env.files.make_directory(spec.directory / paths.LOST)
    replace_file(spec.env.files, spec.directory / paths.LOST / f"{path.stem}-{damage.offset}", raw)


def _harmed_segments(
    segments: SegmentFiles, damages: list[tuple[Path, Damage]], known: Mapping[int, SegmentFacts]
) -> set[int]:
    """The segments to rewrite: their header or entries are damaged."""
    harmed = {_number(path)[0] for path, _ in damages}
    for listed in segments.listing(known)[0]:
        try:
            header = read_segment_header(segments.file(listed.segment, listed.generation))
            sound = header[:3] == (segments.uid, listed.segment, listed.generation)
        except DamagedBlock:
            sound = False
        if not sound:
            harmed.add(listed.segment)
    return harmed


def _number(path: Path) -> tuple[int, int]:
    parsed = paths.parse_segment_name(path.name)
    assert parsed is not None
    return parsed


def _rewrite(volume: LogVolume, harmed: set[int], corrections: list[Recount]) -> None:
    try:
        volume.commit(corrections)
        if volume.ledger.position.segment in harmed:
            volume.seal()
        for number in sorted(harmed):
            compact_run(volume, [number], skip_damage=True)
    finally:
        volume.close()
