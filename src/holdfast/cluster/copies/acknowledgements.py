"""How far other members have this node's records: a request for what lies behind a serial acknowledges what is before.

A member names the partitions for which that holds. A record is safe once so many nodes have it, this one included.
Nothing of this is stored: after a restart, members ask again within a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from holdfast.cluster.copies.origins import Cursor, OriginTable
from holdfast.model import RecordId

Holders = Callable[[int], tuple[str, ...]]  # the names of a partition's holders


class SafeBatch(NamedTuple):
    """How far a batch is safe, as it was found last."""

    serial: int
    epoch: int


class Acknowledgements:
    """Any thread may call any method."""

    def __init__(
        self, node: str, copies: int, origins: OriginTable, holders: Holders, epoch: Callable[[], int]
    ) -> None:
        """`copies` is how many nodes must have a record for it to be safe."""
        self._node = node
        self._copies = copies
        self._origins = origins
        self._holders = holders
        self._epoch = epoch
        self._cursors: dict[str, dict[str, Cursor]] = {}  # by batch and member
        self._safe: dict[str, SafeBatch] = {}
        self._changed = threading.Condition(threading.RLock())
        self._is_closed = False

    def note(self, member: str, batch: str, cursor: Cursor) -> None:
        """A member asks for what lies behind. One that has lost its disk begins at 0 again, and that counts."""
        with self._changed:
            before = self._cursors.setdefault(batch, {}).get(member)
            self._cursors[batch][member] = cursor
            if before is not None and (cursor.serial < before.serial or not cursor.partitions >= before.partitions):
                self._safe.pop(batch, None)
            self._changed.notify_all()

    def forget(self, member: str) -> None:
        """The member has lost its records, or is a member no more."""
        with self._changed:
            for batch, cursors in self._cursors.items():
                if cursors.pop(member, None) is not None:
                    self._safe.pop(batch, None)

    def copies_of(self, origin: RecordId, partition: int) -> int:
        """How many nodes are known to have a record of this node's, this one included."""
        cursors = self._cursors.get(origin.batch, {})
        return 1 + sum(
            cursor.serial >= origin.serial and partition in cursor.partitions
            for name in self._holders(partition)
            if name != self._node and (cursor := cursors.get(name)) is not None
        )

    def safe_up_to(self, batch: str) -> int:
        """The last serial number up to which every record of a batch of this node is safe, or was removed."""
        with self._changed:
            epoch = self._epoch()
            known = self._safe.get(batch)
            start = known.serial if known is not None and known.epoch == epoch else 0
            last = start
            for row in self._origins.rows(batch, start + 1):
                if self.copies_of(row.origin, row.partition) < self._copies:
                    break
                last = row.origin.serial
            self._safe[batch] = SafeBatch(last, epoch)
            return last

    def wait_partition(self, partition: int, batches: Iterable[str], timeout_s: float) -> bool:
        """Whether all records of a partition in some batches of this node are safe, after waiting for that."""
        last = [row for batch in batches if (row := self._origins.last_row(partition, batch)) is not None]
        return self._wait(
            lambda: all(self.copies_of(row.origin, row.partition) >= self._copies for row in last), timeout_s
        )

    def wait(self, record: RecordId, timeout_s: float) -> bool:
        """Whether this record and all before it in its batch are safe, after waiting for that."""
        return self._wait(lambda: self.safe_up_to(record.batch) >= record.serial, timeout_s)

    def _wait(self, is_safe: Callable[[], bool], timeout_s: float) -> bool:
        with self._changed:
            is_done = self._changed.wait_for(lambda: self._is_closed or is_safe(), timeout_s)
            return is_done and not self._is_closed

    def close(self) -> None:
        """Ends all waits: nobody will acknowledge anything any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
