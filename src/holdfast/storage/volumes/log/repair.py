"""Repairing a log volume by itself: trust what is sound, say what is lost, leave a clean volume behind.

Segments are the truth, but where they are damaged a sound keydir remembers more than they do: which blocks there were,
their counters, and which had been removed. So the order is: replay all sound entries into a new keydir; where the
segments are damaged, compare with the old keydir and list what is lost, what must be recounted, what must stay removed;
put the new keydir in place; write those corrections; set the damaged bytes aside; rewrite the damaged segments.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.env import paths
from holdfast.env.files import replace_file
from holdfast.errors import Damaged, DamagedBlock, HoldfastError
from holdfast.storage.block import BLOCK, REPLICA
from holdfast.storage.volume import BlockKey, Recount
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.faults import Lost, Repair
from holdfast.storage.volumes.log.check import differences
from holdfast.storage.volumes.log.compaction import compact_run
from holdfast.storage.volumes.log.keydir import Keydir, KeydirChange, SegmentFacts
from holdfast.storage.volumes.log.ledger import SegmentLedger, find_slot
from holdfast.storage.volumes.log.lookup import FollowerIndex
from holdfast.storage.volumes.log.recovery import replay_all
from holdfast.storage.volumes.log.segment import Damage, read_segment_header
from holdfast.storage.volumes.log.segment_files import SegmentFiles
from holdfast.storage.volumes.log.volume import LogVolume, open_log
from holdfast.storage.volumes.spec import VolumeSpec

SET_ASIDE_BYTES_MAX = 64 << 20  # of one damaged range


def repair_log(spec: VolumeSpec, open_volume: Callable[[VolumeSpec], LogVolume] = open_log) -> Repair:
    """Leaves the volume sound. What it lost is reported, for other volumes to give back."""
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
        return FollowerIndex(spec.directory, segments, spec.settings.keydir_cache_bytes, spec.env)
    except HoldfastError:
        return None


def _remember_tickets(told: Keydir, kept: FollowerIndex | None) -> None:
    """What the old keydir knows of idempotency keys; the segments, replayed on top, may know of later ones."""
    if kept is not None:
        with suppress(Damaged):
            told.write(KeydirChange({}, {}, None, dict(kept.tickets())))


def _remember(
    name: str, told: Keydir, kept: FollowerIndex | None, damages: list[tuple[Path, Damage]]
) -> tuple[list[Lost], list[Recount]]:
    """What the old keydir knows and the damaged segments do not: lost blocks, and counters to set right."""
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
    except Damaged:  # it cannot be read to its end: the segments alone must do
        return _lost_by_header(name, told, damages), []
    return lost, corrections


def _is_shortened(told: Keydir, kept: FollowerIndex) -> bool:
    """Whether segments that the old keydir knows are missing, as a whole or at the end."""
    position, known = kept.facts()
    present = told.segments()
    shorter = (present[number].bytes < known[number].bytes for number in present.keys() & known.keys())
    return told.position().serial < position.serial or not present.keys() >= known.keys() or any(shorter)


def _lost_by_header(name: str, told: Keydir, damages: list[tuple[Path, Damage]]) -> list[Lost]:
    lost = []
    for _, damage in damages:
        header = damage.header
        if header is not None and header.kind in (BLOCK, REPLICA):
            key = BlockKey(header.signature, header.overflow, header.home)
            if find_slot(told.slots(key.signature), key.overflow, key.home) is None:
                lost.append(Lost(name, key, header.kind == REPLICA, 0))
    return lost


def _set_aside(spec: VolumeSpec, segments: SegmentFiles, path: Path, damage: Damage) -> None:
    """Keeps the damaged bytes, for a person to look at."""
    number, generation = _number(path)
    raw = segments.file(number, generation).read(damage.offset, min(damage.length, SET_ASIDE_BYTES_MAX))
    spec.env.files.make_directory(spec.directory / paths.LOST)
    replace_file(spec.env.files, spec.directory / paths.LOST / f"{path.stem}-{damage.offset}", raw)


def _harmed_segments(
    segments: SegmentFiles, damages: list[tuple[Path, Damage]], known: Mapping[int, SegmentFacts]
) -> set[int]:
    """Segments that must be rewritten: entries or the header are damaged."""
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
