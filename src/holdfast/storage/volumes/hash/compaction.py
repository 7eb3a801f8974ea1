"""Compaction of a hash volume: chains become as short as they can, and overflow pages move to the front of their file.

Online: a few buckets at a time, each time as a commit of its own, so that everybody else waits for milliseconds, and a
crash finds the volume as after one of them. At the end the file of overflow buckets is cut off behind the last page in
use, free pages in front of it are overwritten with zeros, and the journal starts again: what was removed has left the
disk.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.storage import block
from holdfast.storage.block import HEADER_BYTES
from holdfast.storage.volumes.compaction import Compaction, Progress
from holdfast.storage.volumes.hash.chain import BucketId, Chain
from holdfast.storage.volumes.hash.draft import ChangeDraft
from holdfast.storage.volumes.hash.page import HEAD_BYTES, HashEntry
from holdfast.storage.volumes.hash.volume import HashVolume

TOGETHER = 32  # buckets in one commit


def compact_hash(volume: HashVolume, dead_share_min: float = 0.0, progress: Progress | None = None) -> Compaction:
    """Ends a doubling of the buckets that is under way; then, if enough of the overflow file is free, packs it."""
    before = volume.stat()
    files = 0
    while volume.shape.is_growing:
        volume.maintain(_split_some)
        _tell(progress, TOGETHER * volume.identity.shape)
    if before.dead_bytes >= dead_share_min * before.disk_bytes:
        shape = volume.shape
        for first in range(0, shape.buckets, TOGETHER):
            numbers = range(first, min(first + TOGETHER, shape.buckets))
            buckets = [BucketId(shape.generation, number, shape.buckets) for number in numbers]
            _tell(progress, len(buckets) * volume.identity.shape)
            if volume.shape.generation != shape.generation or volume.shape.is_growing:
                break  # there are more buckets meanwhile: for the next compaction
            files += len(volume.maintain(lambda draft, some=buckets: _pack(volume, draft, some)).after)  # type: ignore[misc]
    volume.maintain(ChangeDraft.shrink)
    volume.tidy()
    return Compaction(files, before.disk_bytes, volume.stat().disk_bytes)


def _tell(progress: Progress | None, length: int) -> None:
    if progress is not None:
        progress(length)


def _split_some(draft: ChangeDraft) -> None:
    for _ in range(TOGETHER):
        if draft.state.is_growing:
            draft.split()


def _pack(volume: HashVolume, draft: ChangeDraft, buckets: Iterable[BucketId]) -> None:
    for bucket in buckets:
        if draft.state.generation != bucket.file or draft.state.is_growing:
            return
        chain = volume.chain(bucket)
        moved = [_moved(volume, draft, entry) for entry in chain.entries()]
        if any(new is not old for new, old in zip(moved, chain.entries(), strict=True)) or _can_shrink(draft, chain):
            draft.replace(bucket, moved)


def _can_shrink(draft: ChangeDraft, chain: Chain) -> bool:
    """Whether fewer overflow pages might do, or others farther to the front."""
    if len(chain.pages) == 1:
        return False
    room = draft.page_bytes - HEAD_BYTES
    least = -(-sum(entry.cost for entry in chain.entries()) // room) - 1
    free = draft.space.first_fit(1)
    return len(chain.pages) - 1 > least or (free is not None and free < max(page.id.number for page in chain.pages[1:]))


def _moved(volume: HashVolume, draft: ChangeDraft, entry: HashEntry) -> HashEntry:
    """A large block farther to the front, if there is room."""
    large = entry.large
    if large is None:
        return entry
    free = draft.space.first_fit(large.pages)
    if free is None or free > large.page:
        return entry
    raw = volume.read_large(entry)
    header = block.parse(raw[:HEADER_BYTES])
    assert header is not None
    header = header._replace(references=entry.header.references)
    draft.free(range(large.page, large.page + large.pages))
    return draft.large(header, block.pack(header) + raw[HEADER_BYTES:])
