"""What the tests of compaction stand on: contents by number, a look at the disk, and an interrupted compaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from crash_gate import GatedCommit
from crash_script import Held, State
from crash_world import World

from holdfast.env import LocalFiles
from holdfast.storage.volume import BlockKey, Operation, Refer, Release, Store
from holdfast.storage.volumes.log.compaction import compact_run, plan
from holdfast.storage.volumes.log.volume import LogVolume
from holdfast.testing.volumes import plain, sign


def segment_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.seg*"))


def content(number: int, size: int = 300) -> bytes:
    return Random(number).randbytes(size)


def store(number: int, size: int = 300) -> Store:
    return Store(sign(number), plain(content(number, size)))


def key(number: int) -> BlockKey:
    return BlockKey(sign(number))


class MeasuredFiles(LocalFiles):
    """Remembers the most bytes that the segments of a directory took at any change of names."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.most = 0

    def rename(self, old: Path, new: Path) -> None:
        self._measure()
        super().rename(old, new)
        self._measure()

    def remove(self, path: Path) -> None:
        self._measure()
        super().remove(path)

    def _measure(self) -> None:
        self.most = max(self.most, segment_bytes(self.directory))


class Interrupted:
    """A compaction while a commit is written but not synced. A sealed segment holds a block and its counter, 3."""

    def __init__(self, directory: Path, operation: Operation) -> None:
        self.world = World(directory, "log")
        self.files = self.world.start()
        volume = self.world.open(self.files)
        assert isinstance(volume, LogVolume)
        self.volume, self._operation = volume, operation
        volume.commit([store(1), store(2), Refer(key(1)), Refer(key(1))])
        volume.seal()
        volume.commit([store(3), Release(key(2))])
        self.held = State({key(1): Held(content(1), 3, False), key(3): Held(content(3), 1, False)}, {})

    def compact(self, publishing: Callable[[GatedCommit, Callable[[], None]], None]) -> None:
        """The commit comes with the first entry that is copied; `publishing` is called with it before the switch."""
        gates: list[GatedCommit] = []
        publish = self.volume.segments.publish

        def progress(_: int) -> None:
            if not gates:
                gates.append(GatedCommit(self.volume, [self._operation]))

        def published(*arguments: Any) -> None:
            publishing(gates[0], lambda: publish(*arguments))

        self.volume.segments.publish = published  # type: ignore[method-assign]
        (run,) = plan(self.volume, 0.0)
        compact_run(self.volume, run, progress)
