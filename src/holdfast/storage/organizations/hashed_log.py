"""The `hashed-log` organization: a number of large logs, each for a range of signatures (B7, WebBase section 4.3.1).

What is committed arrives at the *front*, which is a log like any other: one append and one sync for many callers. The
front is the buffer of the paper, made durable. When a segment of it is full, it is distributed: what it holds for each
log is appended to that log in one stroke, as a segment of its own. Small segments of a log are joined from time to
time, and by compaction.

So additions cost little more than a log's, and a scan reads log after log and delivers sorted. See
`holdfast.storage.lanes` for the numbers of the segments.

Threads: as `LogVolume`. One at a time distributes or compacts; the others go on meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.config import StoreSettings
from holdfast.env import Environment
from holdfast.errors import HoldfastError
from holdfast.storage.identity import Identity
from holdfast.storage.organizations.compaction import Compaction, Progress
from holdfast.storage.organizations.hashed_log_reading import SortedReading
from holdfast.storage.organizations.log import LogVolume
from holdfast.storage.organizations.log_compaction import compact_run
from holdfast.storage.organizations.log_distribution import distribute, sealed_fronts
from holdfast.storage.organizations.spec import VolumeSpec
from holdfast.storage.segment import SEGMENT_HEADER_BYTES
from holdfast.storage.volume import Operation, Outcome, Result, Ticket

PIECES_MAX = 8  # small segments of a log, before they are joined; small: up to a quarter of what they may be


class HashedLogVolume(SortedReading, LogVolume):
    """A hashed log open for writing."""

    def __init__(
        self, name: str, directory: Path, identity: Identity, settings: StoreSettings, env: Environment
    ) -> None:
        self._tidying = threading.Lock()
        size = min(settings.segment_bytes_max, settings.log_bytes_max)
        super().__init__(name, directory, identity, replace(settings, segment_bytes_max=size), env)
        self._tidied = self._tail_number

    def commit(self, operations: Sequence[Operation], ticket: Ticket | None = None) -> list[Outcome]:
        outcomes = super().commit(operations, ticket)
        self._tidy()
        return outcomes

    def commit_all(self, commits: Sequence[tuple[Sequence[Operation], Ticket | None]]) -> list[Result]:
        results = super().commit_all(commits)
        self._tidy()
        return results

    def _tidy(self) -> None:
        """Distributes the segments of the front that have become full. What fails is left for the next time."""
        if self._tail_number == self._tidied or not self._tidying.acquire(blocking=False):
            return
        try:
            self._tidied = self._tail_number
            with suppress(HoldfastError):  # the commit is durable: a full disk, or damage, must not fail it
                self._distribute(None)
                for lane in range(1, self.segments.lanes.logs + 1):
                    if run := self._pieces(lane):
                        compact_run(self, run)
        finally:
            self._tidying.release()

    def _distribute(self, progress: Progress | None) -> Compaction:
        files = before = after = 0
        for front in sealed_fronts(self):
            files += 1
            before += self.keydir.segments()[front].bytes
            after += distribute(self, front, progress)
        return Compaction(files, before, after)

    def _pieces(self, lane: int) -> list[int]:
        """The small segments at the end of a log, if they are many, or together no longer small."""
        known, size_max = self.keydir.segments(), self.settings.segment_bytes_max
        pieces: list[int] = []
        room = size_max
        for number in sorted((each for each in known if self.segments.lanes.of(each) == lane), reverse=True):
            size = known[number].bytes
            if size > size_max // 4 or size > room:
                break
            pieces.insert(0, number)
            room -= size
        return pieces if len(pieces) >= PIECES_MAX or room < size_max // 2 else []

    def compact(self, dead_share_min: float, progress: Progress | None) -> Compaction:
        """Everything goes into its log; in each log, neighbours are joined, and what is dead is left out."""
        with self._tidying:
            self.flush()
            if self.ledger.position.offset > SEGMENT_HEADER_BYTES:
                self.seal()
            done = self._distribute(progress)
            files, before, after = done.files, done.bytes_before, done.bytes_after
            for run in self._runs(dead_share_min):
                files += len(run)
                before += sum(self.keydir.segments()[number].bytes for number in run)
                after += compact_run(self, run, progress)
            return Compaction(files, before, after)

    def _runs(self, dead_share_min: float) -> list[list[int]]:
        """Neighbours in one log that together are no larger than a segment may be; alone, if much of one is dead."""
        known, lane_of = self.keydir.segments(), self.segments.lanes.of
        runs: list[list[int]] = []
        room, lane = 0, 0
        for number in sorted((each for each in known if lane_of(each)), key=lambda n: (lane_of(n), n)):
            live = known[number].bytes - known[number].dead_bytes
            if runs and lane_of(number) == lane and live <= room:
                runs[-1].append(number)
                room -= live
            else:
                runs.append([number])
                room, lane = self.settings.segment_bytes_max - live, lane_of(number)
        dead = {number: known[number].dead_bytes for number in known}
        return [
            run
            for run in runs
            if len(run) > 1 or (dead[run[0]] and dead[run[0]] >= dead_share_min * known[run[0]].bytes)
        ]


def open_hashed_log(spec: VolumeSpec) -> HashedLogVolume:
    """Opens for writing."""
    return HashedLogVolume(spec.name, spec.directory, spec.identity, spec.settings, spec.env)
