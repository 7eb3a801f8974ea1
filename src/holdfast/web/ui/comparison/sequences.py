"""The differences of two sequences, in bounded time.

Equal ends are set aside. What occurs once on each side anchors the rest, as in patience diff: the longest chain of such
pairs that does not cross. Between two anchors the shortest edit is looked for as Myers does ("An O(ND) Difference
Algorithm"), over items that occur on both sides; with at most `EDITS_MAX` edits and within a budget of steps for the
whole. Where that does not suffice, the stretch counts as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

EDITS_MAX = 300
STEPS_MAX = 2_000_000

Items = Sequence[Hashable]
Match = tuple[int, int]  # place in the one, place in the other


class Stretch(NamedTuple):
    """`a[a_start:a_end]` became `b[b_start:b_end]`; with `is_equal` they are the same."""

    is_equal: bool
    a_start: int
    a_end: int
    b_start: int
    b_end: int


@dataclass(slots=True)
class DiffBudget:
    """Steps left for all comparisons that share it. `was_short`: a result is not the shortest because it ran out."""

    steps: int = STEPS_MAX
    was_short: bool = field(default=False)

    def spend(self, steps: int) -> bool:
        """False if fewer are left."""
        self.steps -= steps
        if self.steps < 0:
            self.was_short = True
        return self.steps >= 0


def stretches(a: Items, b: Items, budget: DiffBudget) -> list[Stretch]:
    """Both sequences from start to end, equal and different stretches by turns."""
    found: list[Stretch] = []
    at_a = at_b = 0
    for begin_a, begin_b, length in _runs(_matches(a, b, budget)):
        if begin_a > at_a or begin_b > at_b:
            found.append(Stretch(False, at_a, begin_a, at_b, begin_b))
        at_a, at_b = begin_a + length, begin_b + length
        found.append(Stretch(True, begin_a, at_a, begin_b, at_b))
    if at_a < len(a) or at_b < len(b):
        found.append(Stretch(False, at_a, len(a), at_b, len(b)))
    return found


def _runs(matches: Iterator[Match]) -> Iterator[tuple[int, int, int]]:
    """Matches that follow each other on both sides, joined: two places and a length."""
    start: Match | None = None
    length = 0
    for place in matches:
        if start is not None and place == (start[0] + length, start[1] + length):
            length += 1
            continue
        if start is not None:
            yield *start, length
        start, length = place, 1
    if start is not None:
        yield *start, length


def _matches(a: Items, b: Items, budget: DiffBudget) -> Iterator[Match]:
    """Pairs of equal items, ascending on both sides."""
    least = min(len(a), len(b))
    head = next((place for place in range(least) if a[place] != b[place]), least)
    tail = next((count for count in range(least - head) if a[-1 - count] != b[-1 - count]), least - head)
    yield from ((place, place) for place in range(head))
    at_a, at_b = head, head
    end_a, end_b = len(a) - tail, len(b) - tail
    for anchor_a, anchor_b in [*_anchors(a, b, (head, end_a, head, end_b)), (end_a, end_b)]:
        yield from _between(a, b, (at_a, anchor_a, at_b, anchor_b), budget)
        if anchor_a < end_a:
            yield anchor_a, anchor_b
        at_a, at_b = anchor_a + 1, anchor_b + 1
    yield from ((end_a + place, end_b + place) for place in range(tail))


def _anchors(a: Items, b: Items, bounds: tuple[int, int, int, int]) -> list[Match]:
    """The longest chain of items that occur once on each side and stand in the same order."""
    start_a, end_a, start_b, end_b = bounds
    once_a = {item for item, count in Counter(a[start_a:end_a]).items() if count == 1}
    once_b = {item for item, count in Counter(b[start_b:end_b]).items() if count == 1}
    common = once_a & once_b
    places = {b[place]: place for place in range(start_b, end_b) if b[place] in common}
    pairs = [(place, places[a[place]]) for place in range(start_a, end_a) if a[place] in common]
    ends: list[int] = []  # of the best chain of each length, its last place in b
    last: list[int] = []  # which pair that is
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            last.append(index)
        else:
            ends[length], last[length] = place, index
    chain: list[Match] = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _between(a: Items, b: Items, bounds: tuple[int, int, int, int], budget: DiffBudget) -> list[Match]:
    """Matches of a stretch without anchors; none where the budget does not suffice."""
    start_a, end_a, start_b, end_b = bounds
    if start_a >= end_a or start_b >= end_b:
        return []
    common = set(a[start_a:end_a]) & set(b[start_b:end_b])
    if not common:
        return []
    places_a = [place for place in range(start_a, end_a) if a[place] in common]
    places_b = [place for place in range(start_b, end_b) if b[place] in common]
    matches = _shortest([a[place] for place in places_a], [b[place] for place in places_b], budget)
    return [(places_a[one], places_b[other]) for one, other in matches]


def _shortest(a: Items, b: Items, budget: DiffBudget) -> list[Match]:
    """The matches of a shortest edit: the farthest reach on each diagonal, for one edit after the other."""
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(EDITS_MAX, len(a) + len(b)) + 1):
        trail.append(reach.copy())
        walked = edits + 1
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            start, y = x, x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            walked += x - start
            if x >= len(a) and y >= len(b):
                return _walked_back(trail, len(a), len(b))
        if not budget.spend(walked):
            return []
    budget.was_short = True
    return []


def _walked_back(trail: list[dict[int, int]], x: int, y: int) -> list[Match]:
    matches: list[Match] = []
    for edits in range(len(trail) - 1, -1, -1):
        reach, diagonal = trail[edits], x - y
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        from_x = reach[before]
        from_y = from_x - before
        while x > from_x and y > from_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            matches.append((x, y))
        x, y = from_x, from_y
    return matches[::-1]
