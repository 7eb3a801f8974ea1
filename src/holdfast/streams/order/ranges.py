"""Ranges: which parts of a stream are still to come.

    ├──────────┤          ├────────────────┤          ├───►
    a          b          c                d          e        [a, b), [c, d), and from e to the end

A position is where an order goes on; () is its beginning, and None stands for its end. Those who read a stream by
themselves have one range, which gets shorter. Those who share a scan may have several: they join in the middle, or miss
a part because they are slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Position = tuple[str | int, ...]
Bound = Position | None  # None: the end
Range = tuple[Position, Bound]
Ranked = tuple[bool, list[bytes | int]]


def rank(bound: Bound) -> Ranked:
    """What positions are compared by. Texts go by their bytes, as the catalog has them; the end lies behind all."""
    if bound is None:
        return True, []
    return False, [each.encode("utf-8", "surrogateescape") if isinstance(each, str) else each for each in bound]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Disjoint, none empty, ascending. A value: what changes it gives a new one."""

    parts: tuple[Range, ...] = (((), None),)

    @classmethod
    def behind(cls, position: Position) -> Ranges:
        """From a position to the end."""
        return cls(((position, None),))

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Range]:
        return iter(self.parts)

    def __contains__(self, position: Position) -> bool:
        """Whether what comes next at a position is to come."""
        at = rank(position)
        return any(rank(start) <= at < rank(end) for start, end in self.parts)

    @property
    def first(self) -> Position:
        """Where the next begins; () if nothing is to come."""
        return self.parts[0][0] if self.parts else ()

    def within(self, start: Position, end: Bound) -> Ranges:
        """What of them lies between two positions."""
        clipped = ((max(a, start, key=rank), min(b, end, key=rank)) for a, b in self.parts)
        return Ranges(tuple((a, b) for a, b in clipped if a is not None and rank(a) < rank(b)))

    def without(self, start: Position, end: Bound) -> Ranges:
        """What is left of them when that has come."""
        left: list[Range] = []
        for a, b in self.parts:
            before, after = min(b, start, key=rank), max(a, end, key=rank)
            if rank(a) < rank(before):
                left.append((a, before))
            if after is not None and rank(after) < rank(b):
                left.append((after, b))
        return Ranges(tuple(left))

    def holds(self, behind: Position) -> bool:
        """Whether a page is to come that one goes on at `behind` behind."""
        at = rank(behind)
        return any(rank(start) < at <= rank(end) for start, end in self.parts)
