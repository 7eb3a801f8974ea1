"""Opening a log volume after a crash: finish a compaction, replay the tail, cut off a torn end.

After the keydir's position there may be:
- entries that were synced but had not reached the keydir: they are applied;
- at the very end, bytes of a group that was never synced, so never acknowledged: they are cut off, together with the
  beginning of an incomplete commit with an idempotency key;
- damage before entries that were written after it had been synced: acknowledged bytes have gone bad. Opening fails, and
  `check --repair` is needed.
Each entry records up to which serial the log was durable when it was written (`after`), which distinguishes the last
two.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from holdfast.config import StoreSettings
from holdfast.env import File, paths
from holdfast.errors import DamagedBlock, DamagedKeydir
from holdfast.storage.volumes.log.compaction import finish_compactions, recount
from holdfast.storage.volumes.log.keydir import Keydir, Position, SegmentFacts
from holdfast.storage.volumes.log.ledger import SegmentLedger
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, Damage, SegmentEntry, torn_from, walk
from holdfast.storage.volumes.log.segment_files import ListedSegment, SegmentFiles

TAKE_EVERY = 10_000  # entries per keydir batch while replaying


def open_keydir(directory: Path, segments: SegmentFiles, settings: StoreSettings) -> Keydir:
    """The volume's keydir, rebuilt if it is missing."""
    path = directory / paths.KEYDIR
    if not path.exists():
        rebuild_keydir(path, segments, settings)
    return Keydir(path, cache_bytes=settings.keydir_cache_bytes)


def rebuild_keydir(path: Path, segments: SegmentFiles, settings: StoreSettings) -> None:
    """Builds a new keydir from the segments alone, without what is damaged."""
    draft = path.with_name(path.name + paths.UNFINISHED)
    shutil.rmtree(draft, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    keydir = Keydir(draft, cache_bytes=settings.keydir_cache_bytes)
    try:
        replay_all(SegmentLedger(keydir, segments.lanes), keydir, segments)
        keydir.sync()
    finally:
        keydir.close()
    shutil.rmtree(path, ignore_errors=True)
    draft.rename(path)


def replay_all(
    ledger: SegmentLedger,
    keydir: Keydir,
    segments: SegmentFiles,
    acknowledged: tuple[Position, dict[int, SegmentFacts]] | None = None,
) -> list[tuple[Path, Damage]]:
    """Applies every sound entry of every segment; returns the damage. Ignores a torn tail."""
    damages = []
    position, known = acknowledged or (None, {})
    current, _ = segments.listing(known)
    for listed in current:
        ledger.begin_segment(listed.segment, listed.generation, listed.through)
        file = segments.file(listed.segment, listed.generation)
        end = file.size()
        if listed is current[-1] and segments.lanes.of(listed.segment) == 0:  # only this one can be torn
            end = acknowledged_end(file, segments.uid, ledger.position, position)
        floor = ledger.floor(listed.segment)
        for count, step in enumerate(segments.walk(listed.segment, file, end, floor), 1):
            if isinstance(step, SegmentEntry):
                ledger.apply_entry(step, listed.segment)
            else:
                ledger.skip(listed.segment, step.offset, step.length)
                damages.append((file.path, step))
            if count % TAKE_EVERY == 0:
                take(ledger, keydir)
    take(ledger, keydir)
    return damages


def recover(ledger: SegmentLedger, keydir: Keydir, segments: SegmentFiles) -> None:
    """Brings keydir, ledger and files of a volume into one state when it is opened for writing."""
    current, leftovers = segments.listing(keydir.segments())
    superseded = {parsed[0] for path in leftovers if (parsed := paths.parse_segment_name(path.name))}
    finished = finish_compactions(keydir, segments, current, superseded) if superseded else []
    ledger.reset()
    torn = replay_tail(ledger, segments, strict=True)
    require_complete(ledger, current)
    if ledger.position.segment:
        _settle_tail(ledger, segments, torn)
    for listed in finished:
        recount(ledger, segments, listed)
    take(ledger, keydir)
    if superseded:
        keydir.sync()
    segments.discard(leftovers)


def require_complete(ledger: SegmentLedger, current: Sequence[ListedSegment]) -> None:
    """Raises DamagedKeydir if the keydir does not know a segment: RocksDB may lose everything silently."""
    lane_of = ledger.lanes.of
    known = [(number, facts.through, lane_of(number)) for number, facts in ledger.segments.items()]
    for listed in current:
        lane = lane_of(listed.segment)
        here = ((first, through) for first, through, other in known if other == lane)
        if not any(first <= listed.through and listed.segment <= through for first, through in here):
            raise DamagedKeydir(f"the keydir does not know '{listed.path}'; run 'holdfast check --repair'")


def _settle_tail(ledger: SegmentLedger, segments: SegmentFiles, torn: int | None) -> None:
    """Cuts off the torn tail and syncs the rest: a killed process may not have, and new entries build on it."""
    number = ledger.position.segment
    file = segments.open_tail(number, ledger.segments[number].generation)
    if torn is not None:
        file.truncate(torn)
    file.sync()
    file.close()


def replay_tail(ledger: SegmentLedger, segments: SegmentFiles, *, strict: bool) -> int | None:
    """Applies the entries after the ledger's position. With `strict`, damage raises.

    Returns where unacknowledged bytes begin at the end of the last segment; None if there are none.
    """
    stride = ledger.lanes.stride
    number = ledger.position.segment or ledger.next_segment()
    while True:
        facts = ledger.segments.get(number)
        generation = facts.generation if facts else 0
        if not facts and not segments.exists(number, generation):
            return None
        file = _tail_file(segments, number, generation)
        if not facts:
            ledger.begin_segment(number, generation, number)
        last = not segments.exists(number + stride, 0)
        torn = _replay_segment(ledger, segments, number, file, last=last, strict=strict)
        if torn is not None:
            return torn
        number += stride


def _tail_file(segments: SegmentFiles, number: int, generation: int) -> File:
    try:
        return segments.file(number, generation)
    except FileNotFoundError:
        path = segments.path(number, generation)
        raise DamagedBlock(f"segment '{path}' is missing; run 'holdfast check --repair'") from None


def _replay_segment(
    ledger: SegmentLedger, segments: SegmentFiles, number: int, file: File, *, last: bool, strict: bool
) -> int | None:
    start, floor, size = ledger.position.offset, ledger.position.serial, file.size()
    if size < start and strict:
        raise DamagedBlock(
            f"segment '{file.path}' is truncated: expected at least {start} bytes, found {size}; "
            "run 'holdfast check --repair'"
        )
    end = torn_from(file, segments.uid, start, size, floor) if last else size
    for step in walk(file, segments.uid, start, end, floor):
        if isinstance(step, SegmentEntry):
            ledger.apply_entry(step, number)
        elif strict:
            raise DamagedBlock(
                f"cannot read '{file.path}' at {step.offset}: expected {step.expected}, found {step.found}; "
                "run 'holdfast check --repair'"
            )
        else:
            ledger.skip(number, step.offset, step.length)
    return end if end < size else None


def acknowledged_end(file: File, uid: bytes, begun: Position, known: Position | None) -> int:
    """Where the torn tail of the last segment begins. Nothing is torn up to the position `known`."""
    size = file.size()
    if known is not None and known.segment == begun.segment and known.offset <= size:
        return torn_from(file, uid, known.offset, size, known.serial)
    return torn_from(file, uid, SEGMENT_HEADER_BYTES, size, begun.serial)


def take(ledger: SegmentLedger, keydir: Keydir) -> None:
    """Writes the ledger's changes to the keydir."""
    keydir.apply(ledger.take())
    ledger.settle()
