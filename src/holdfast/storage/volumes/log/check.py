"""Checking a log volume: every byte of every segment, then the keydir against what the segments say.

The entries are replayed into a scratch keydir on disk, so memory stays bounded, and the two keydirs are compared slot
by slot. Works while another process writes: what it writes after the check began is left to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from holdfast.env import paths
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import Damaged, DamagedBlock, DamagedKeydir, HoldfastError
from holdfast.model import ContentKey, Fault
from holdfast.storage.block import BLOCK, REPLICA, Header
from holdfast.storage.codec import ALIAS
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.faults import DAMAGED_BLOCK, LOST_BLOCK, CheckProgress, fault_key
from holdfast.storage.volumes.log.keydir import Keydir, Position, SegmentFacts, Slot, verify_keydir
from holdfast.storage.volumes.log.ledger import SegmentLedger, find_slot
from holdfast.storage.volumes.log.lookup import FollowerIndex
from holdfast.storage.volumes.log.recovery import TAKE_EVERY, acknowledged_end, take
from holdfast.storage.volumes.log.segment import Damage, SegmentEntry, damaged_header, read_segment_header
from holdfast.storage.volumes.log.segment_files import ListedSegment
from holdfast.storage.volumes.spec import VolumeSpec

_TOTALS = ("blocks", "replicas", "content_bytes", "stored_bytes", "references", "referenced_bytes")


class Difference(NamedTuple):
    """A block that the segments and the keydir do not agree on."""

    key: BlockKey
    told: Slot | None  # by the segments
    kept: Slot | None  # in the keydir


def check_log(spec: VolumeSpec, watch: CheckProgress) -> Iterator[Fault]:
    """Every fault of the volume."""
    checker = _LogChecker(spec, watch)
    try:
        yield from checker.faults()
    finally:
        checker.close()


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
        self._damaged: set[BlockKey] = set()  # blocks of which a sound header is left
        self._damages: list[tuple[ListedSegment, Damage]] = []

    def close(self) -> None:
        for index in (self._kept, self._now):
            if index is not None:
                index.close()
        self._segments.close()

    def _follow(self) -> FollowerIndex:
        spec = self._spec
        return FollowerIndex(spec.directory, self._segments, spec.settings.keydir_cache_bytes, spec.env)

    def _latest(self) -> FollowerIndex:
        """The keydir as of the first question for it, when the segments have been read."""
        if self._now is None:
            self._now = self._follow()
        return self._now

    def faults(self) -> Iterator[Fault]:
        spec = self._spec
        try:
            self._verify_keydir()
            self._kept = self._follow()
        except HoldfastError as error:
            yield self._keydir_fault("unreadable keydir", "a keydir", str(error))
        try:
            with scratch_keydir(spec) as scratch:
                yield from self._compare(scratch)
        except Damaged as error:  # the keydir, read on the way
            yield self._keydir_fault("unreadable keydir", "a keydir", str(error))

    def _verify_keydir(self) -> None:
        path, cache_bytes = self._spec.directory / paths.KEYDIR, self._spec.settings.keydir_cache_bytes
        for last_try in (False, False, True):
            try:
                return verify_keydir(path, cache_bytes=cache_bytes)
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
        """Whether the writer has changed the block, or a compaction its place, since this check began."""
        key = difference.key
        return find_slot(self._latest().slots(key.signature), key.overflow, key.home) != difference.kept

    def _is_rewritten(self) -> bool:
        """Whether segments were compacted or distributed since this check began: it may have missed what they said."""
        now = self._latest().facts()[1]
        return any(
            number not in now or now[number].generation != facts.generation for number, facts in self._known().items()
        )

    # -- the segments ---------------------------------------------------------------------------------------------

    def _replay(self, ledger: SegmentLedger, scratch: Keydir) -> Iterator[Fault]:
        current, _ = self._segments.listing(self._known())
        for listed in current:
            yield from self._check_segment_header(listed)
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
                if step.header.codec != ALIAS.encode():  # of an alias, the field means something else
                    self._dictionaries.add(step.header.dictionary)
                ledger.apply_entry(step, listed.segment)
                if ledger.position.serial % TAKE_EVERY == 0:
                    take(ledger, scratch)
        take(ledger, scratch)

    def _known(self) -> dict[int, SegmentFacts]:
        return self._kept.facts()[1] if self._kept is not None else {}

    def _steps(self, listed: ListedSegment, begun: Position, *, is_last: bool) -> Iterator[SegmentEntry | Damage]:
        """What the segment holds, without what was never acknowledged or was written after this check began."""
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
        present = {listed.segment for listed in self._segments.listing(known)[0]}
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
        """Damaged entries of which a sound header is left. A block that has been healed since needs them no more."""
        for listed, damage in self._damages:
            if damage.header is None:
                continue
            if self._is_superseded(scratch, damage.header):
                self._note_superseded(listed, damage)
            else:
                yield self._damage_fault(listed.path, damage)

    def _nameless_damages(self, scratch: Keydir, lost: set[tuple[int, int]] | None) -> Iterator[Fault]:
        """Damaged ranges that do not say what they were. `lost`: where the keydir knows blocks that are not there."""
        for listed, damage in self._damages:
            if damage.header is not None:
                continue
            end = damage.offset + damage.length
            header = None
            if lost is not None and not any(
                segment == listed.segment and damage.offset <= offset < end for segment, offset in lost
            ):
                with suppress(FileNotFoundError):
                    header = damaged_header(self._segments.file(listed.segment, listed.generation), damage)
            if header is not None and self._is_superseded(scratch, header):
                self._note_superseded(listed, damage)
            else:
                yield self._damage_fault(listed.path, damage)

    def _is_superseded(self, scratch: Keydir, header: Header) -> bool:
        """Whether the block has been written again since."""
        slot = find_slot(scratch.slots(header.signature), header.overflow, header.home)
        return header.kind in (BLOCK, REPLICA) and slot is not None and slot.serial > header.serial

    def _note_superseded(self, listed: ListedSegment, damage: Damage) -> None:
        self._watch.notes.append(
            f"'{listed.path}' has {damage.length} damaged bytes at {damage.offset}, of a block that has been healed; "
            "'holdfast volume compact' removes them"
        )

    def _damage_fault(self, path: Path, damage: Damage) -> Fault:
        header, key = damage.header, None
        kind = f"{damage.length} unreadable bytes"
        if header is not None and header.kind in (BLOCK, REPLICA):
            kind = DAMAGED_BLOCK
            block_key = BlockKey(header.signature, header.overflow, header.home)
            self._damaged.add(block_key)
            key = fault_key(self._spec.name, block_key)
        return Fault(self._spec.name, str(path), damage.offset, kind, damage.expected, damage.found, key)

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


@contextmanager
def scratch_keydir(spec: VolumeSpec) -> Iterator[Keydir]:
    """A keydir that is thrown away at the end."""
    with ScratchDirectory("check") as scratch:
        keydir = Keydir(scratch.path / paths.KEYDIR, cache_bytes=spec.settings.keydir_cache_bytes)
        try:
            yield keydir
        finally:
            keydir.abandon()


def differences(told: Keydir, kept: FollowerIndex) -> Iterator[Difference]:
    """What the segments tell and what the keydir keeps, compared by ascending signature."""
    left, right = told.all_slots(), kept.all_slots()
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a[0] < b[0]):
            assert a is not None
            yield from _slot_differences(a[0], a[1], ())
            a = next(left, None)
        elif a is None or b[0] < a[0]:
            yield from _slot_differences(b[0], (), b[1])
            b = next(right, None)
        else:
            yield from _slot_differences(a[0], a[1], b[1])
            a, b = next(left, None), next(right, None)


def _slot_differences(signature: bytes, told: tuple[Slot, ...], kept: tuple[Slot, ...]) -> Iterator[Difference]:
    if told == kept:
        return
    by_told = {(slot.overflow, slot.home): slot for slot in told}
    by_kept = {(slot.overflow, slot.home): slot for slot in kept}
    for overflow, home in sorted(by_told.keys() | by_kept.keys()):
        left, right = by_told.get((overflow, home)), by_kept.get((overflow, home))
        if left != right:
            yield Difference(BlockKey(signature, overflow, home), left, right)
