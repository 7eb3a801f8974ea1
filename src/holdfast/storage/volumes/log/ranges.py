"""Lanes: how the segments of a hashed log are numbered, and which entries go where.

A log has one lane: its segments are numbered 1, 2, 3, ... A hashed log has a lane for each of its ranges of signatures,
1 to `logs`, and lane 0, the *front*, where everything arrives. The front's segments are numbered 1000, 2000, 3000, ...;
when one of them is distributed, what it holds for lane 17 becomes segment 1017, 2017, 3017, ... So the number tells the
lane, and within a lane serials ascend from segment to segment. What the front holds is later than all the lanes have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

STRIDE: Final = 1000  # between two segments of the front
LOGS_MAX: Final = STRIDE - 1
_SPACE_BITS: Final = 32

Numbered = TypeVar("Numbered", bound=tuple[int, object, object, object])


class SegmentRun(Protocol):
    """What a segment stands for."""

    @property
    def through(self) -> int: ...


class SegmentRanges(NamedTuple):
    """Of a volume; `logs` is 0 for a plain log."""

    logs: int = 0

    @property
    def stride(self) -> int:
        """From one segment of the front to the next."""
        return STRIDE if self.logs else 1

    def of(self, segment: int) -> int:
        """The lane of a segment."""
        return segment % STRIDE if self.logs else 0

    def front(self, segment: int) -> int:
        """The segment of the front that this one was distributed from."""
        return segment - self.of(segment)

    def for_signature(self, signature: bytes) -> int:
        """The lane that a signature belongs to: lanes in ascending order hold ascending ranges of signatures."""
        if not self.logs:
            return 0
        head = int.from_bytes(signature[:4].ljust(4, b"\0"), "big")
        return 1 + (head * self.logs >> _SPACE_BITS)

    def first_signature(self, lane: int) -> bytes:
        """The least signature of a lane; that of the lane after the last one is beyond all."""
        if lane > self.logs:
            return b"\xff" * 65
        return (-(-((lane - 1) << _SPACE_BITS) // self.logs)).to_bytes(4, "big").rstrip(b"\0")

    def in_order(self, listed: Iterable[Numbered]) -> list[Numbered]:
        """As they must be replayed: lane after lane, and the front last."""
        return sorted(listed, key=lambda each: (self.of(each[0]) == 0, self.of(each[0]), each[0]))

    def is_distributed(self, segment: int, known: Mapping[int, SegmentRun]) -> bool:
        """Whether a segment of the front that is still there has gone into the lanes, by what the keydir knows."""
        if not self.logs or self.of(segment) or segment in known:
            return False
        runs = ((number, run.through) for number, run in known.items() if self.of(number))
        return any(self.front(first) <= segment <= self.front(through) for first, through in runs)

    def next_front(self, known: Iterable[int]) -> int:
        """The number of a new segment of the front: beyond all, since what was distributed keeps its number."""
        return self.front(max(known, default=0)) + self.stride
