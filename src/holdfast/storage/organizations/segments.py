"""The segment files of a log volume: which ones count, and open handles to them.

A compacted segment supersedes the run of segments it stands for; if a crash left both, the compacted one counts and
the others are leftovers for the writer to clear away.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from holdfast.env import Environment, File
from holdfast.errors import DamagedBlock
from holdfast.storage import layout
from holdfast.storage.segment import SegmentHeader, pack_segment_header, read_segment_header


class Listed(NamedTuple):
    """A segment file in the directory."""

    segment: int
    generation: int
    through: int
    path: Path


class SegmentFiles:
    """Any thread may read through it; one thread at a time creates and discards."""

    def __init__(self, env: Environment, directory: Path, uid: bytes, open_max: int) -> None:
        self.directory = directory
        self.uid = uid
        self._env = env
        self._open_max = open_max
        self._open: OrderedDict[tuple[int, int], File] = OrderedDict()
        self._lock = threading.Lock()

    def listing(self) -> tuple[list[Listed], list[Path]]:
        """The segments that count, ascending, and the leftovers that do not."""
        newest: dict[int, Listed] = {}
        leftovers = []
        for name in self._env.files.names(self.directory):
            parsed = layout.parse_segment_name(name)
            path = self.directory / name
            if parsed is None:
                if name.endswith(".seg" + layout.UNFINISHED):
                    leftovers.append(path)
                continue
            try:
                listed = Listed(*parsed, self._through(*parsed), path)
            except FileNotFoundError:
                continue  # discarded by a compaction since the names were read
            rival = newest.get(listed.segment)
            if rival is not None:
                leftovers.append(min(rival, listed, key=lambda each: each.generation).path)
                listed = max(rival, listed, key=lambda each: each.generation)
            newest[listed.segment] = listed
        current: list[Listed] = []
        for listed in sorted(newest.values()):
            if current and listed.segment <= current[-1].through:
                leftovers.append(listed.path)
            else:
                current.append(listed)
        return current, leftovers

    def _through(self, segment: int, generation: int) -> int:
        """Which run the segment stands for. A header that is damaged, or of another file, must not condemn others."""
        try:
            header = read_segment_header(self.file(segment, generation))
        except DamagedBlock:
            return segment
        return header.through if header[:3] == (self.uid, segment, generation) else segment

    def path(self, segment: int, generation: int) -> Path:
        return self.directory / layout.segment_name(segment, generation)

    def file(self, segment: int, generation: int) -> File:
        """An open handle for reading. Whoever holds it may read on even if the file is discarded meanwhile."""
        name = (segment, generation)
        with self._lock:
            file = self._open.get(name)
            if file is not None:
                self._open.move_to_end(name)
                return file
        opened = self._env.files.open(self.path(segment, generation))
        with self._lock:
            file = self._open.setdefault(name, opened)
            while len(self._open) > self._open_max:
                self._open.popitem(last=False)
        return file

    def exists(self, segment: int, generation: int) -> bool:
        return self._env.files.exists(self.path(segment, generation))

    def open_tail(self, segment: int, generation: int) -> File:
        """A handle for appending, apart from those that `file` hands out."""
        return self._env.files.open(self.path(segment, generation), writable=True)

    def create(self, segment: int, generation: int, through: int) -> File:
        """A new segment file under its unfinished name, header written, not synced."""
        path = self.path(segment, generation)
        draft = path.with_name(path.name + layout.UNFINISHED)
        self._env.files.remove(draft)
        file = self._env.files.open(draft, writable=True, create=True)
        file.append([pack_segment_header(SegmentHeader(self.uid, segment, generation, through))])
        return file

    def publish(self, file: File, segment: int, generation: int) -> None:
        """The segment is complete so far: synced, and durably under its own name."""
        file.sync()
        self._env.files.rename(file.path, self.path(segment, generation))
        self._env.files.sync_directory(self.directory)

    def discard(self, paths: list[Path]) -> None:
        """Removes files; this and all earlier changes of names are durable. Handles that others hold stay usable."""
        for path in paths:
            parsed = layout.parse_segment_name(path.name)
            if parsed is not None:
                with self._lock:
                    self._open.pop(parsed, None)
            self._env.files.remove(path)
        self._env.files.sync_directory(self.directory)

    def close(self) -> None:
        with self._lock:
            self._open.clear()
