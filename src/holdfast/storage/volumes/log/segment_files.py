"""The segment files of a log volume: the valid ones, and open handles to them.

A compacted segment supersedes the run of segments it was made from. If a crash left both, the compacted one counts, and
the writer removes the others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from holdfast.env import Environment, File
from holdfast.env import paths as layout
from holdfast.env.lru import LruCache
from holdfast.errors import DamagedBlock
from holdfast.storage.volumes.log.segment import (
    SEGMENT_HEADER_BYTES,
    Damage,
    SegmentEntry,
    SegmentHeader,
    SegmentRanges,
    pack_segment_header,
    read_segment_header,
    walk,
)

if TYPE_CHECKING:
    from holdfast.storage.volumes.log.keydir import SegmentFacts


class ListedSegment(NamedTuple):
    """A segment file in the directory."""

    segment: int
    generation: int
    through: int
    path: Path


OPEN_SEGMENTS_MAX = 256  # files of one volume


class SegmentFiles:
    """Any thread may read; one thread at a time creates and discards files."""

    def __init__(
        self,
        env: Environment,
        directory: Path,
        uid: bytes,
        lanes: SegmentRanges = SegmentRanges(),  # noqa: B008
    ) -> None:
        self.directory = directory
        self.path = lru_cache(maxsize=1024)(self._path)  # every block that is read names its file
        self.uid = uid
        self.lanes = lanes
        self._env = env
        self._open: LruCache[tuple[int, int], File] = LruCache(OPEN_SEGMENTS_MAX)
        self._last: tuple[int, int, File] | None = None  # that was read from: most reads follow one of the same file
        self._lock = threading.Lock()

    def listing(
        self, known: Mapping[int, SegmentFacts] = MappingProxyType({})
    ) -> tuple[list[ListedSegment], list[Path]]:
        """The segments that count, in replay order, and the leftovers that do not.

        A segment of the front counts, and the segments distributed from it do not, unless the keydir (with its `known`
        segments) says that the distribution was finished.
        """
        newest: dict[int, ListedSegment] = {}
        leftovers = []
        for name in self._env.files.names(self.directory):
            parsed = layout.parse_segment_name(name)
            path = self.directory / name
            if parsed is None:
                if name.endswith(".seg" + layout.UNFINISHED):
                    leftovers.append(path)
                continue
            try:
                listed = ListedSegment(*parsed, self._through(*parsed), path)
            except FileNotFoundError:
                continue  # discarded by a compaction since
            rival = newest.get(listed.segment)
            if rival is not None:
                leftovers.append(min(rival, listed, key=lambda each: each.generation).path)
                listed = max(rival, listed, key=lambda each: each.generation)
            newest[listed.segment] = listed
        current: list[ListedSegment] = []
        lanes = self.lanes
        for listed in sorted(newest.values(), key=lambda each: lanes.replay_order(each.segment)):
            lane, front = lanes.of(listed.segment), lanes.front(listed.segment)
            superseded = (
                current and lane == lanes.of(current[-1].segment) and listed.segment <= current[-1].through
            ) or lanes.is_distributed(listed.segment, known)
            unfinished = lane and front in newest and not lanes.is_distributed(front, known)
            if superseded or unfinished:
                leftovers.append(listed.path)
            else:
                current.append(listed)
        return current, leftovers

    def _through(self, segment: int, generation: int) -> int:
        """The last segment of its run. A damaged or foreign header must not supersede others."""
        try:
            header = read_segment_header(self.file(segment, generation))
        except DamagedBlock:
            return segment
        return header.through if header[:3] == (self.uid, segment, generation) else segment

    def _path(self, segment: int, generation: int) -> Path:
        return self.directory / layout.segment_name(segment, generation)

    def file(self, segment: int, generation: int) -> File:
        """An open handle for reading. It stays readable even if the file is discarded."""
        last = self._last
        if last is not None and last[0] == segment and last[1] == generation:
            return last[2]
        name = (segment, generation)
        with self._lock:
            file = self._open.get(name)
            if file is not None:
                self._last = (segment, generation, file)
                return file
        opened = self._env.files.open(self.path(segment, generation))
        with self._lock:
            self._open.put(name, opened)
        return opened

    def walk(self, segment: int, file: File, end: int, floor: int) -> Iterator[SegmentEntry | Damage]:
        """All entries of a segment up to `end`, in order. An entry of another lane counts as damage."""
        steps = walk(file, self.uid, SEGMENT_HEADER_BYTES, end, floor)
        return steps if self.lanes.of(segment) == 0 else self._in_lane(self.lanes.of(segment), steps)

    def _in_lane(self, lane: int, steps: Iterator[SegmentEntry | Damage]) -> Iterator[SegmentEntry | Damage]:
        for step in steps:
            if isinstance(step, SegmentEntry) and (other := self.lanes.for_signature(step.header.signature)) != lane:
                header = step.header
                wanted, found = f"an entry of log {lane}", f"one of log {other}"
                yield Damage(step.offset, header.length, wanted, found, header, header.serial)
            else:
                yield step

    def exists(self, segment: int, generation: int) -> bool:
        return self._env.files.exists(self.path(segment, generation))

    def open_tail(self, segment: int, generation: int) -> File:
        """A handle for appending, separate from those of `file`."""
        return self._env.files.open(self.path(segment, generation), writable=True)

    def create(self, segment: int, generation: int, through: int) -> File:
        """A new segment file under its unfinished name, with its header, not synced."""
        path = self.path(segment, generation)
        draft = path.with_name(path.name + layout.UNFINISHED)
        self._env.files.remove(draft)
        file = self._env.files.open(draft, writable=True, create=True)
        file.append([pack_segment_header(SegmentHeader(self.uid, segment, generation, through))])
        return file

    def publish(self, file: File, segment: int, generation: int) -> None:
        """Gives the segment its own name, durably, after a sync of its bytes."""
        self.publish_all([(file, segment, generation)])

    def publish_all(self, drafts: Sequence[tuple[File, int, int]]) -> None:
        """As `publish`, for several drafts with their numbers and generations."""
        for file, _, _ in drafts:
            file.sync()
        for file, segment, generation in drafts:
            self._env.files.rename(file.path, self.path(segment, generation))
        self._env.files.sync_directory(self.directory)

    def discard(self, paths: list[Path]) -> None:
        """Removes files; this and all earlier renames are durable on return. Open handles stay usable."""
        for path in paths:
            parsed = layout.parse_segment_name(path.name)
            if parsed is not None:
                with self._lock:
                    self._open.pop(parsed)
                    self._last = None
            self._env.files.remove(path)
        self._env.files.sync_directory(self.directory)

    def close(self) -> None:
        with self._lock:
            self._open.clear()
            self._last = None
