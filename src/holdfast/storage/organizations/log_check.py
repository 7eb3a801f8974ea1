"""Checking a log volume: every byte of every segment, then the keydir against what the segments say.

The entries are replayed into a scratch keydir on disk, so memory stays bounded, and the two keydirs are compared slot
by slot. Works while another process writes: what it writes after the check began is left to the next one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from holdfast.errors import Damaged, DamagedBlock, HoldfastError
from holdfast.model import Fault
from holdfast.storage import layout
from holdfast.storage.block import BLOCK, DICT, REPLICA
from holdfast.storage.faults import Watch, fault_key
from holdfast.storage.keydir import Keydir, Position, Slot
from holdfast.storage.ledger import Ledger
from holdfast.storage.organizations.log_index import FollowerIndex
from holdfast.storage.organizations.log_recovery import TAKE_EVERY, torn_from
from holdfast.storage.organizations.segments import Listed, SegmentFiles
from holdfast.storage.organizations.spec import VolumeSpec
from holdfast.storage.segment import SEGMENT_HEADER_BYTES, Damage, Entry, read_segment_header, walk
from holdfast.storage.volume import BlockKey

_TOTALS = ("blocks", "replicas", "content_bytes", "stored_bytes", "references", "referenced_bytes")
_SERIAL_MAX = 1 << 62


class Difference(NamedTuple):
    """A block that the segments and the keydir do not agree on."""

    key: BlockKey
    told: Slot | None  # by the segments
    kept: Slot | None  # in the keydir


def check_log(spec: VolumeSpec, watch: Watch) -> Iterator[Fault]:
    """Every fault of the volume."""
    segments = SegmentFiles(spec.env, spec.directory, spec.identity.uid, spec.settings.open_segments_max)
    path = spec.directory / layout.KEYDIR
    try:
        kept = FollowerIndex(spec.directory, segments, spec.settings.keydir_cache_bytes, spec.env)
    except HoldfastError as error:
        yield Fault(spec.name, str(path), 0, "unreadable keydir", "a keydir", str(error), remedy="it can be rebuilt")
        kept = None
    try:
        yield from _check_against(spec, segments, kept, watch)
    except Damaged as error:  # the keydir, read on the way
        yield Fault(spec.name, str(path), 0, "unreadable keydir", "a keydir", str(error), remedy="it can be rebuilt")
    finally:
        if kept is not None:
            kept.close()
        segments.close()


def _check_against(
    spec: VolumeSpec, segments: SegmentFiles, kept: FollowerIndex | None, watch: Watch
) -> Iterator[Fault]:
    last_serial = kept.facts()[0].serial if kept is not None else _SERIAL_MAX
    with scratch_keydir(spec) as scratch:
        ledger = Ledger(scratch)
        yield from _replay(spec, segments, ledger, scratch, last_serial, watch)
        if kept is None:
            return
        yield from _missing_segments(spec, segments, kept)
        for difference in differences(scratch, kept):
            yield _fault(spec, segments, difference)
        yield from _check_totals(spec, ledger.position, kept.facts()[0])
        known = {number for number, _ in scratch.dictionaries()}
        for number in known ^ kept.dictionary_numbers():
            place = str(spec.directory / layout.KEYDIR)
            found = "nothing" if number in known else "an unknown one"
            yield Fault(
                spec.name,
                place,
                0,
                "keydir differs",
                f"dictionary {number:08x}",
                found,
                remedy="it can be rebuilt",
            )


@contextmanager
def scratch_keydir(spec: VolumeSpec) -> Iterator[Keydir]:
    directory = Path(mkdtemp(prefix="holdfast-check-"))
    try:
        keydir = Keydir(directory / layout.KEYDIR, cache_bytes=spec.settings.keydir_cache_bytes)
        try:
            yield keydir
        finally:
            keydir.abandon()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _replay(
    spec: VolumeSpec, segments: SegmentFiles, ledger: Ledger, scratch: Keydir, last_serial: int, watch: Watch
) -> Iterator[Fault]:
    current, _ = segments.listing()
    for listed in current:
        file = segments.file(listed.segment, listed.generation)
        yield from _check_segment_header(spec, listed, segments)
        ledger.begin_segment(listed.segment, listed.generation, listed.through)
        end = size = file.size()
        if listed is current[-1]:
            end = torn_from(file, segments.uid, SEGMENT_HEADER_BYTES, size, ledger.position.serial)
            if end < size:
                watch.notes.append(f"'{file.path}' ends with {size - end} bytes that were never acknowledged")
        for count, step in enumerate(walk(file, segments.uid, SEGMENT_HEADER_BYTES, end, ledger.position.serial), 1):
            if isinstance(step, Damage):
                watch.read(step.length)
                ledger.skip(listed.segment, step.offset, step.length)
                yield _damage(spec, file.path, step)
                continue
            if step.header.serial > last_serial:
                break  # written after this check began
            watch.read(len(step.raw))
            watch.blocks += step.header.kind in (BLOCK, REPLICA)
            ledger.apply(step.header, listed.segment, step.offset)
            if count % TAKE_EVERY == 0:
                _take(ledger, scratch)
    _take(ledger, scratch)


def _take(ledger: Ledger, scratch: Keydir) -> None:
    scratch.write(ledger.take())
    ledger.settle()


def _check_segment_header(spec: VolumeSpec, listed: Listed, segments: SegmentFiles) -> Iterator[Fault]:
    wanted = (segments.uid, listed.segment, listed.generation)
    try:
        found = read_segment_header(segments.file(listed.segment, listed.generation))
    except DamagedBlock as error:
        yield Fault(spec.name, str(listed.path), 0, "damaged segment header", f"header of {wanted}", str(error))
        return
    if found[:3] != wanted:
        yield Fault(spec.name, str(listed.path), 0, "wrong segment header", f"{wanted}", f"{found[:3]}")


def _missing_segments(spec: VolumeSpec, segments: SegmentFiles, kept: FollowerIndex) -> Iterator[Fault]:
    present = {listed.segment for listed in segments.listing()[0]}
    for number, facts in kept.facts()[1].items():
        if number not in present and facts.blocks > facts.dead_blocks:
            path = segments.path(number, facts.generation)
            yield Fault(spec.name, str(path), 0, "missing segment", f"{facts.bytes} bytes", "nothing")


def _damage(spec: VolumeSpec, path: Path, damage: Damage) -> Fault:
    header = damage.header
    if header is None or header.kind not in (BLOCK, REPLICA):
        kind = (
            "damaged dictionary" if header is not None and header.kind == DICT else f"{damage.length} unreadable bytes"
        )
        return Fault(spec.name, str(path), damage.offset, kind, damage.expected, damage.found)
    key = fault_key(spec.name, BlockKey(header.signature, header.overflow, header.home))
    return Fault(spec.name, str(path), damage.offset, "damaged block", damage.expected, damage.found, key)


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


def _fault(spec: VolumeSpec, segments: SegmentFiles, difference: Difference) -> Fault:
    key, told, kept = difference
    content_key = fault_key(spec.name, key)
    keydir = str(spec.directory / layout.KEYDIR)
    if kept is None:
        assert told is not None
        return Fault(spec.name, keydir, 0, "keydir differs", f"a block at {told[3:6]}", "nothing", content_key)
    if told is None:
        path = segments.path(kept.segment, kept.generation)
        return Fault(spec.name, str(path), kept.offset, "lost block", "a sound block", "none", content_key)
    if told.references != kept.references:
        expected, found = f"{told.references} references", f"{kept.references}"
        return Fault(spec.name, keydir, 0, "counter differs", expected, found, content_key)
    return Fault(spec.name, keydir, 0, "keydir differs", f"{told}", f"{kept}", content_key)


def _check_totals(spec: VolumeSpec, told: Position, kept: Position) -> Iterator[Fault]:
    for name in _TOTALS:
        expected, found = getattr(told, name), getattr(kept, name)
        if expected != found:
            path = str(spec.directory / layout.KEYDIR)
            yield Fault(spec.name, path, 0, f"total of {name.replace('_', ' ')} differs", f"{expected}", f"{found}")


__all__ = ["Difference", "Entry", "check_log", "differences", "scratch_keydir"]
