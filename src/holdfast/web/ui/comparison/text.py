"""The text of two captures compared by lines, and by words within changed lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from holdfast.formats.html.charset import charset_of, decoded
from holdfast.formats.http import HTML_TYPES
from holdfast.formats.wet import text_of
from holdfast.web.ui.comparison.sequences import DiffBudget, Stretch, stretches
from holdfast.web.ui.comparison.side import Side

LINES_MAX = 100_000  # of a text; what follows is not compared
LINE_CHARS_MAX = 1000  # longer lines are folded after punctuation
CONTEXT_LINES = 3
SHOWN_LINES_MAX = 4000
PAIRED_MAX = 24  # changed lines in a row that are paired by likeness; of more, by order
LIKENESS_MIN = 0.35  # lines with less in common are not the same line changed
_BINARY_SHARE_MAX = 0.05
_SNIFFED_CHARS = 8192
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_FOLDS = re.compile(r"(?<=[;{}>,.!?])(?=\S)|(?<=[;{}>,.!?] )")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffd]")


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
        return {
            "kind": self.kind,
            "a": self.a,
            "b": self.b,
            "text": "".join(span.text for span in self.spans),
            "spans": [[span.text, span.is_changed] for span in self.spans],
            "count": self.count,
        }


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
        values = {name: value for name, value in asdict(self).items() if name != "lines"}
        return values | {"lines": [line.as_dict() for line in self.lines]}


def lines_of(side: Side) -> tuple[list[str], bool] | None:
    """The lines of a side's text, and whether there are more; None if it is not text."""
    if side.kind in HTML_TYPES or not side.kind:
        text = text_of(side.content, side.content_type)
        raw = decoded(side.content[:_SNIFFED_CHARS], charset_of(side.content_type)).text
    else:
        text = raw = decoded(side.content, charset_of(side.content_type)).text
    if _is_binary(raw):
        return None
    lines = [part for line in text.splitlines() for part in _folded(line.rstrip())]
    return lines[:LINES_MAX], len(lines) > LINES_MAX or not side.is_whole


def _is_binary(text: str) -> bool:
    """Whether it has more control characters than a text would."""
    begin = text[:_SNIFFED_CHARS]
    return len(_CONTROL.findall(begin)) > _BINARY_SHARE_MAX * len(begin)


def _folded(line: str) -> Iterator[str]:
    if len(line) <= LINE_CHARS_MAX:
        yield line
        return
    for part in _FOLDS.split(line):
        for start in range(0, len(part), LINE_CHARS_MAX):
            yield part[start : start + LINE_CHARS_MAX]


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
    for place in range(before):
        yield _same(lines, stretch, place)
    if length > before + after:
        yield TextLine("skipped", count=length - before - after)
    for place in range(length - after, length):
        yield _same(lines, stretch, place)


def _same(lines: list[str], stretch: Stretch, place: int) -> TextLine:
    text = lines[stretch.a_start + place]
    return TextLine("same", stretch.a_start + place + 1, stretch.b_start + place + 1, (Span(text, False),))


# -- lines that were changed -------------------------------------------------------------------------------------------


def _changed(a: list[str], b: list[str], stretch: Stretch, budget: DiffBudget) -> list[TextLine]:
    """Removed and added lines; those that are one line changed stand together, with their words marked."""
    old, new = a[stretch.a_start : stretch.a_end], b[stretch.b_start : stretch.b_end]
    found: list[TextLine] = []
    at_old = at_new = 0
    for one, other in [*_pairs(old, new), (len(old), len(new))]:
        found += [_whole("removed", stretch.a_start + place, old[place]) for place in range(at_old, one)]
        found += [_whole("added", stretch.b_start + place, new[place]) for place in range(at_new, other)]
        if one < len(old):
            spans = _words(old[one], new[other], budget)
            found.append(TextLine("removed", a=stretch.a_start + one + 1, spans=spans[0]))
            found.append(TextLine("added", b=stretch.b_start + other + 1, spans=spans[1]))
        at_old, at_new = one + 1, other + 1
    return found


def _whole(kind: str, place: int, text: str) -> TextLine:
    spans = (Span(text, True),)
    return TextLine(kind, a=place + 1, spans=spans) if kind == "removed" else TextLine(kind, b=place + 1, spans=spans)


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
