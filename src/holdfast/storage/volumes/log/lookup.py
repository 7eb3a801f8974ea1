"""Where the blocks of a log volume are: as its writer knows it, and as another process can follow it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.env import Environment, paths
from holdfast.errors import Damaged, DamagedBlock
from holdfast.storage.volumes.idempotency import Kept
from holdfast.storage.volumes.log.keydir import Keydir, Position, SegmentFacts, Slot, pack_slots
from holdfast.storage.volumes.log.ledger import SegmentLedger
from holdfast.storage.volumes.log.recovery import replay_tail, require_complete
from holdfast.storage.volumes.log.segment_files import SegmentFiles

REFRESH_EVERY_S = 0.2
CATCH_UP_TRIES = 3


class WriterIndex:
    """The writer's own view: ledger first, then keydir."""

    def __init__(self, ledger: SegmentLedger, keydir: Keydir, flush: Callable[[], None]) -> None:
        self._ledger = ledger
        self._keydir = keydir
        self._flush = flush
        self.slots = ledger.slots

    def slots_of(self, signatures: list[bytes]) -> list[tuple[Slot, ...]]:
        """As of what is acknowledged: that is in the keydir."""
        return self._keydir.slots_of(signatures)

    def packed_slots_of(self, signatures: list[bytes]) -> list[bytes | None]:
        return self._keydir.packed_slots_of(signatures)

    def signatures(self) -> Iterator[bytes]:
        return (signature for signature, _ in self.all_slots())

    def all_slots(self, start: bytes = b"") -> Iterator[tuple[bytes, tuple[Slot, ...]]]:
        """Every signature from `start` on with its slots, by ascending signature, as of what is acknowledged."""
        self._flush()
        return self._keydir.all_slots(start)

    def facts(self) -> tuple[Position, dict[int, SegmentFacts]]:
        self._flush()
        return self._keydir.position(), self._keydir.segments()

    def refresh(self) -> None:
        """Waits for what is being written: a block may have been looked up before it is in its file."""
        self._flush()


class FollowerIndex:
    """A reader's view of a volume that another process may be writing.

    The keydir is followed as a RocksDB secondary. If its writer died before bringing it up to date, the entries behind
    its position are replayed into memory. What a look-up tells is at most 0.2 s old.
    """

    def __init__(self, directory: Path, segments: SegmentFiles, cache_bytes: int, env: Environment) -> None:
        self._segments = segments
        self._env = env
        self._lock = threading.Lock()
        self._keydir = Keydir(directory / paths.KEYDIR, cache_bytes=cache_bytes, follow=True)
        self._ledger = SegmentLedger(self._keydir, segments.lanes, remember_tickets=False)
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

    def signatures(self) -> Iterator[bytes]:
        return (signature for signature, _ in self.all_slots())

    def all_slots(self, start: bytes = b"") -> Iterator[tuple[bytes, tuple[Slot, ...]]]:
        """Every signature from `start` on with its slots as of the last refresh, by ascending signature."""
        changed = self._ledger.slots_changed
        fresh = sorted(signature for signature, slots in changed.items() if slots and signature >= start)
        index = 0
        for signature, slots in self._keydir.all_slots(start):
            while index < len(fresh) and fresh[index] < signature:
                yield fresh[index], changed[fresh[index]]
                index += 1
            if signature in changed:
                if index < len(fresh) and fresh[index] == signature:
                    yield signature, changed[signature]
                    index += 1
                continue
            yield signature, slots
        for signature in fresh[index:]:
            yield signature, changed[signature]

    def tickets(self) -> Iterator[tuple[bytes, Kept]]:
        """What the keydir remembers of commits; those behind its position are only in the segments."""
        return self._keydir.tickets()

    def facts(self) -> tuple[Position, dict[int, SegmentFacts]]:
        return self._ledger.position, self._ledger.segments

    def refresh(self) -> None:
        with self._lock:
            self._ledger = self._caught_up()
            self._refreshed_s = self._env.monotonic()

    def _caught_up(self) -> SegmentLedger:
        """RocksDB may show an older state and not say so, if files come and go while it catches up: then once more."""
        for _ in range(CATCH_UP_TRIES):
            with suppress(Damaged):
                self._keydir.catch_up()
                ledger = SegmentLedger(self._keydir, self._segments.lanes, remember_tickets=False)
                replay_tail(ledger, self._segments, strict=False)
                if self._is_current(ledger):
                    return ledger
            self._keydir.follow_anew()
        ledger = SegmentLedger(
            self._keydir, self._segments.lanes, remember_tickets=False
        )  # something is lost; the rest can be read
        with suppress(DamagedBlock):
            replay_tail(ledger, self._segments, strict=False)
        return ledger

    def _is_current(self, ledger: SegmentLedger) -> bool:
        """Whether the ledger knows all segments that there are, and no others, and nothing less than before."""
        names = set(self._env.files.names(self._segments.directory))
        lanes, segments = self._segments.lanes, ledger.segments
        known = [paths.segment_name(number, facts.generation) for number, facts in segments.items()]
        covered = {
            each for number, facts in segments.items() for each in range(number, facts.through + 1, lanes.stride)
        }
        there = {parsed[0] for name in names if (parsed := paths.parse_segment_name(name))}
        if lanes.logs:  # a distribution may be under way, or just done
            there = {n for n in there if lanes.front(n) == n or lanes.front(n) not in covered}
            there = {n for n in there if not lanes.is_distributed(n, segments)}
        return there <= covered and names.issuperset(known) and ledger.position.serial >= self._ledger.position.serial

    def _refresh_if_due(self) -> bool:
        due = self._env.monotonic() - self._refreshed_s >= REFRESH_EVERY_S
        if due:
            self.refresh()
        return due

    def close(self) -> None:
        self._keydir.close()
