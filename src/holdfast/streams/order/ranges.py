"""Ranges: the parts of a stream that are still to be delivered.

    ├──────────┤          ├────────────────┤          ├───►
    a          b          c                d          e        [a, b), [c, d), and from e to the end

A position is where an order continues; () is its beginning, None its end. A consumer that reads a stream by
itself has one shrinking range. One that shares a scan may have several: it joins in the middle, or misses
a part because it is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Position = tuple[str | int, ...]
Bound = Position | None  # None: the end
Range = tuple[Position, Bound]
Ranked = tuple[bool, list[bytes | int]]


def rank(bound: Bound) -> Ranked:
    """The sort key of a position. Strings compare as bytes, as in the catalog; the end comes last."""
    if bound is None:
        return True, []
    return False, [each.encode("utf-8", "surrogateescape") if isinstance(each, str) else each for each in bound]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Disjoint, non-empty, ascending. An immutable value."""

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
        """Whether what begins at a position is still to be delivered."""
        at = rank(position)
        return any(rank(start) <= at < rank(end) for start, end in self.parts)

    @property
    def first(self) -> Position:
        """Where the first range begins; () if there is none."""
        return self.parts[0][0] if self.parts else ()

    def within(self, start: Position, end: Bound) -> Ranges:
        """The parts between two positions."""
        clipped = ((max(a, start, key=rank), min(b, end, key=rank)) for a, b in self.parts)
        return Ranges(tuple((a, b) for a, b in clipped if a is not None and rank(a) < rank(b)))

    def without(self, start: Position, end: Bound) -> Ranges:
        """The ranges without what lies between two positions."""
        left: list[Range] = []
        for a, b in self.parts:
            before, after = min(b, start, key=rank), max(a, end, key=rank)
            if rank(a) < rank(before):
                left.append((a, before))
            if after is not None and rank(after) < rank(b):
                left.append((after, b))
        return Ranges(tuple(left))

    def holds(self, behind: Position) -> bool:
        """Whether the page that ends at `behind` is still to be delivered."""
        at = rank(behind)
        return any(rank(start) < at <= rank(end) for start, end in self.parts)
