"""The holders of all partitions in the present epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from holdfast.cluster.membership.members import MemberList


class _Placed(NamedTuple):
    members: MemberList
    holders: list[tuple[str, ...]]  # by partition
    held: dict[str, frozenset[int]]  # by member


class HolderMap:
    """Computed once an epoch. Any thread may call any method."""

    def __init__(self, members: Callable[[], MemberList], partitions: int, copies: int) -> None:
        self._members = members
        self._partitions = partitions
        self._copies = copies
        self._lock = threading.Lock()
        self._placed = _Placed(MemberList(-1), [()] * partitions, {})

    def of(self, partition: int) -> tuple[str, ...]:
        """The members that hold a partition, the first choice first."""
        return self._now().holders[partition]

    def held_by(self, name: str) -> frozenset[int]:
        """The partitions that a member holds."""
        return self._now().held.get(name, frozenset())

    @property
    def epoch(self) -> int:
        return self._members().epoch

    def _now(self) -> _Placed:
        members = self._members()
        placed = self._placed
        if placed.members != members:
            found = [members.holders(number, self._copies) for number in range(self._partitions)]
            held: dict[str, set[int]] = {}
            for number, names in enumerate(found):
                for name in names:
                    held.setdefault(name, set()).add(number)
            placed = _Placed(members, found, {name: frozenset(numbers) for name, numbers in held.items()})
            with self._lock:
                self._placed = placed
        return placed
