"""The text of two captures compared by lines, and by words within changed lines.

Sequences are compared in bounded time. Equal ends are set aside. What occurs once on each side anchors the rest, as in
patience diff: the longest chain of such pairs that does not cross. Between two anchors the shortest edit is searched
for as Myers does ("An O(ND) Difference Algorithm"), over items that occur on both sides, with at most `EDITS_MAX` edits
and within a budget of steps for the whole. Where that is not enough, the stretch counts as replaced.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

CONTEXT_LINES = 3
SHOWN_LINES_MAX = 4000
PAIRED_MAX = 24  # changed lines in a row that are paired by likeness; of more, by order
LIKENESS_MIN = 0.35  # lines with less in common are not the same line changed
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
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


class Span(NamedTuple):
    """A part of a line; `is_changed`: the other side lacks it."""

    text: str
    is_changed: bool


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of the result: `same`, `removed`, `added`, or `skipped`, which stands for `count` equal lines."""

    kind: str
    a: int | None = None  # its number on each side, from 1
    b: int | None = None
    spans: tuple[Span, ...] = ()
    count: int = 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"text": "".join(span.text for span in self.spans)}


@dataclass(slots=True)
class TextDifference:
    """How a text became another."""

    lines: list[TextLine] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    kept: int = 0
    is_rough: bool = False  # a limit was met: what is marked did change, but a shorter way may exist
    is_cut: bool = False  # the texts were longer than what was compared
    not_shown: int = 0  # changed lines beyond `SHOWN_LINES_MAX`

    @property
    def is_empty(self) -> bool:
        return not self.added and not self.removed

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"lines": [line.as_dict() for line in self.lines]}


def text_difference(a: list[str], b: list[str], *, is_cut: bool = False) -> TextDifference:
    """How the lines of one text became those of another."""
    budget = DiffBudget()
    found = TextDifference(is_cut=is_cut)
    parts = stretches(a, b, budget)
    for place, stretch in enumerate(parts):
        if stretch.is_equal:
            found.kept += stretch.a_end - stretch.a_start
            if len(found.lines) < SHOWN_LINES_MAX:
                found.lines += _equal(a, stretch, is_first=place == 0, is_last=place == len(parts) - 1)
            continue
        found.removed += stretch.a_end - stretch.a_start
        found.added += stretch.b_end - stretch.b_start
        room = max(0, SHOWN_LINES_MAX - len(found.lines))
        shown = _cut(stretch, room)
        found.not_shown += (stretch.a_end - shown.a_end) + (stretch.b_end - shown.b_end)
        found.lines += _changed(a, b, shown, budget)
    found.is_rough = budget.was_short
    return found


def _cut(stretch: Stretch, room: int) -> Stretch:
    """As much of a stretch as may be shown, of both sides alike."""
    if stretch.a_end - stretch.a_start + stretch.b_end - stretch.b_start <= room:
        return stretch
    share = room // 2
    a_end = min(stretch.a_end, stretch.a_start + share)
    return Stretch(False, stretch.a_start, a_end, stretch.b_start, min(stretch.b_end, stretch.b_start + share))


def _equal(lines: list[str], stretch: Stretch, *, is_first: bool, is_last: bool) -> Iterator[TextLine]:
    """Equal lines: those beside a change, and how many lie between."""
    length = stretch.a_end - stretch.a_start
    before, after = (0 if is_first else CONTEXT_LINES), (0 if is_last else CONTEXT_LINES)
    if length <= before + after + 1:
        before, after = length, 0

    def same(place: int) -> TextLine:
        a, b = stretch.a_start + place, stretch.b_start + place
        return TextLine("same", a + 1, b + 1, (Span(lines[a], False),))

    yield from map(same, range(before))
    if length > before + after:
        yield TextLine("skipped", count=length - before - after)
    yield from map(same, range(length - after, length))


# -- lines that were changed -------------------------------------------------------------------------------------------


def _changed(a: list[str], b: list[str], stretch: Stretch, budget: DiffBudget) -> list[TextLine]:
    """Removed and added lines; the two versions of a changed line are adjacent, with differing words marked."""
    old, new = a[stretch.a_start : stretch.a_end], b[stretch.b_start : stretch.b_end]
    found: list[TextLine] = []
    at_old = at_new = 0
    for one, other in [*_pairs(old, new), (len(old), len(new))]:
        for place in range(at_old, one):
            found += [TextLine("removed", a=stretch.a_start + place + 1, spans=(Span(old[place], True),))]
        for place in range(at_new, other):
            found += [TextLine("added", b=stretch.b_start + place + 1, spans=(Span(new[place], True),))]
        if one < len(old):
            spans = _words(old[one], new[other], budget)
            found.append(TextLine("removed", a=stretch.a_start + one + 1, spans=spans[0]))
            found.append(TextLine("added", b=stretch.b_start + other + 1, spans=spans[1]))
        at_old, at_new = one + 1, other + 1
    return found


def _pairs(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Pairs of lines that are versions of one line: the pairs in order with the most words in common in total."""
    words_old, words_new = ([frozenset(_TOKENS.findall(line)) for line in lines] for lines in (old, new))
    if len(old) > PAIRED_MAX or len(new) > PAIRED_MAX:
        pairs = zip(range(len(old)), range(len(new)), strict=False)
        return [(i, j) for i, j in pairs if _likeness(words_old[i], words_new[j]) >= LIKENESS_MIN]
    best: list[list[tuple[float, list[tuple[int, int]]]]] = [[(0.0, [])] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], key=lambda each: each[0])
            likeness = _likeness(words_old[i], words_new[j])
            if likeness >= LIKENESS_MIN and likeness + best[i + 1][j + 1][0] > best[i][j][0]:
                best[i][j] = (likeness + best[i + 1][j + 1][0], [(i, j), *best[i + 1][j + 1][1]])
    return best[0][0][1]


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0


def _words(old: str, new: str, budget: DiffBudget) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    a, b = _TOKENS.findall(old), _TOKENS.findall(new)
    spans: tuple[list[Span], list[Span]] = ([], [])
    for stretch in stretches(a, b, budget):
        ends = ("".join(a[stretch.a_start : stretch.a_end]), "".join(b[stretch.b_start : stretch.b_end]))
        for side, text in zip(spans, ends, strict=True):
            if text:
                side.append(Span(text, not stretch.is_equal))
    return tuple(spans[0]), tuple(spans[1])


# -- the differences of two sequences ----------------------------------------------------------------------------------


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
