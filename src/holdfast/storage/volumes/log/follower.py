"""The index of a log volume in a process that only reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from heapq import merge
from operator import itemgetter

from holdfast.env import paths
from holdfast.errors import Damaged, DamagedBlock
from holdfast.storage.volumes.idempotency import Kept
from holdfast.storage.volumes.local import VolumeSpec
from holdfast.storage.volumes.log.keydir import Keydir, Position, SegmentFacts, Slot, pack_slots
from holdfast.storage.volumes.log.ledger import SegmentLedger
from holdfast.storage.volumes.log.recovery import replay_tail, require_complete
from holdfast.storage.volumes.log.segment_files import SegmentFiles

REFRESH_EVERY_S = 0.2
CATCH_UP_TRIES = 3


class FollowerIndex:
    """A reader's view of a volume that another process may be writing.

    Follows the keydir as a RocksDB secondary. If the writer died before it updated the keydir, the entries after its
    position are replayed into memory. Lookups are at most 0.2 s behind.
    """

    def __init__(self, spec: VolumeSpec, segments: SegmentFiles) -> None:
        self._segments = segments
        self._env = spec.env
        self._lock = threading.Lock()
        cache_bytes = spec.settings.keydir_cache_bytes
        self._keydir = Keydir(spec.directory / paths.KEYDIR, cache_bytes=cache_bytes, follow=True)
        self._ledger = self._new_ledger()
        self._refreshed_s = float("-inf")
        try:
            current, _ = segments.listing()
            self.refresh()
            known = self._ledger.segments
            current = [each for each in current if not segments.lanes.is_distributed(each.segment, known)]
            require_complete(self._ledger, current)
        except BaseException:
            self._keydir.abandon()
            raise

    def slots(self, signature: bytes) -> tuple[Slot, ...]:
        self._refresh_if_due()
        return self._ledger.slots(signature)

    def slots_of(self, signatures: list[bytes]) -> list[tuple[Slot, ...]]:
        return [self._ledger.slots(signature) for signature in signatures]

    def packed_slots_of(self, signatures: list[bytes]) -> list[bytes | None]:
        self._refresh_if_due()
        found = self._keydir.packed_slots_of(signatures)
        if changed := self._ledger.slots_changed:
            for index, signature in enumerate(signatures):
                if (slots := changed.get(signature)) is not None:
                    found[index] = pack_slots(slots) or None
        return found

    def all_slots(self, start: bytes = b"") -> Iterator[tuple[bytes, tuple[Slot, ...]]]:
        """Every signature from `start` on with its slots as of the last refresh, by ascending signature."""
        changed = self._ledger.slots_changed
        fresh = ((signature, changed[signature]) for signature in sorted(changed) if signature >= start)
        known = (each for each in self._keydir.all_slots(start) if each[0] not in changed)
        return (each for each in merge(known, fresh, key=itemgetter(0)) if each[1])

    def tickets(self) -> Iterator[tuple[bytes, Kept]]:
        """The past of commits in the keydir; later ones are only in the segments."""
        return self._keydir.tickets()

    def facts(self) -> tuple[Position, dict[int, SegmentFacts]]:
        return self._ledger.position, self._ledger.segments

    def refresh(self) -> None:
        with self._lock:
            self._ledger = self._caught_up()
            self._refreshed_s = self._env.monotonic()

    def _new_ledger(self) -> SegmentLedger:
        return SegmentLedger(self._keydir, self._segments.lanes, remember_tickets=False)

    def _caught_up(self) -> SegmentLedger:
        """Catches up; again if files came and went meanwhile, for RocksDB may then silently show an older state."""
        for _ in range(CATCH_UP_TRIES):
            with suppress(Damaged):
                self._keydir.catch_up()
                ledger = self._new_ledger()
                replay_tail(ledger, self._segments, strict=False)
                if self._is_current(ledger):
                    return ledger
            self._keydir.reopen()
        ledger = self._new_ledger()  # something is lost; the rest can be read
        with suppress(DamagedBlock):
            replay_tail(ledger, self._segments, strict=False)
        return ledger

    def _is_current(self, ledger: SegmentLedger) -> bool:
        """True if the ledger knows exactly the existing segments, and is not behind the previous one."""
        names = set(self._env.files.names(self._segments.directory))
        lanes, segments = self._segments.lanes, ledger.segments
        known = [paths.segment_name(number, facts.generation) for number, facts in segments.items()]
        covered = {
            each for number, facts in segments.items() for each in range(number, facts.through + 1, lanes.stride)
        }
        there = {parsed[0] for name in names if (parsed := paths.parse_segment_name(name))}
        if lanes.logs:  # a distribution may be in progress or just finished
            there = {n for n in there if lanes.front(n) == n or lanes.front(n) not in covered}
            there = {n for n in there if not lanes.is_distributed(n, segments)}
        return there <= covered and names.issuperset(known) and ledger.position.serial >= self._ledger.position.serial

    def _refresh_if_due(self) -> None:
        if self._env.monotonic() - self._refreshed_s >= REFRESH_EVERY_S:
            self.refresh()

    def close(self) -> None:
        self._keydir.close()
