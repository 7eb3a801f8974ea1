"""Expressions: the syntax tree of a query, as frozen values, and its canonical form.

    stanford title:"digital library" -site:example.com (type:pdf OR size>=1M)

    And ─┬─ Words("", "stanford")
         ├─ Phrase("title", "digital library")
         ├─ Not ── Match("site", "example.com")
         └─ Or ─┬─ Match("type", "pdf")
                └─ Compare("size", ">=", 1048576)

`conjunction`, `disjunction` and `negation` build flat trees, so that one meaning has one shape:
an And holds no And, an Or no Or, and nothing is negated twice.

The canonical form is shown to users everywhere, and parses to the same query again.

Parts that must all match stand side by side, `-` negates, `OR` is in capitals, and parentheses show how the query
was understood. Words in quotes keep them: they are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.query.language.fields import number_text, value_text
from holdfast.query.language.lexer import is_bare_value, is_bare_word


@dataclass(frozen=True, slots=True)
class Everything:
    """Matches every capture: the empty query, or `*`."""


@dataclass(frozen=True, slots=True)
class Words:
    """A word without quotes, or a word with the same stem: in the title, or without a field anywhere in the text."""

    field: str  # title, or empty
    text: str  # exact, if the index splits it into several words


@dataclass(frozen=True, slots=True)
class Phrase:
    """Exact words side by side; they stand in quotes."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a word, without its star."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Match:
    """A field with a value in its normal form."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a field with a number."""

    field: str
    sign: str  # one of < <= = >= >
    number: float  # an integer for all fields but rank


@dataclass(frozen=True, slots=True)
class Not:
    part: Expression


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Expression, ...]


Expression = Everything | Words | Phrase | Prefix | Match | Compare | Not | And | Or
TextTerm = Words | Phrase | Prefix
Term = TextTerm | Match | Compare


def conjunction(parts: Iterable[Expression]) -> Expression:
    """All of them."""
    flat: list[Expression] = []
    for part in parts:
        if isinstance(part, And):
            flat += part.parts
        elif not isinstance(part, Everything):
            flat.append(part)
    if not flat:
        return Everything()
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: Iterable[Expression]) -> Expression:
    """At least one of them; `parts` must not be empty."""
    flat: list[Expression] = []
    for part in parts:
        flat += part.parts if isinstance(part, Or) else (part,)
    assert flat
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def negation(part: Expression) -> Expression:
    return part.part if isinstance(part, Not) else Not(part)


def terms(expression: Expression, *, is_wanted: bool = True) -> Iterator[tuple[Term, bool]]:
    """Every term, and whether a capture must have it or lack it."""
    if isinstance(expression, Not):
        yield from terms(expression.part, is_wanted=not is_wanted)
    elif isinstance(expression, And | Or):
        for part in expression.parts:
            yield from terms(part, is_wanted=is_wanted)
    elif not isinstance(expression, Everything):
        yield expression, is_wanted


EVERYTHING = "*"


def canonical(expression: Expression) -> str:
    if isinstance(expression, And):
        return " ".join(_inner(part) for part in expression.parts)
    if isinstance(expression, Or):
        return " OR ".join(_inner(part) for part in expression.parts)
    return _inner(expression)


def _inner(expression: Expression) -> str:
    """As part of another expression."""
    if isinstance(expression, And | Or):
        return f"({canonical(expression)})"
    if isinstance(expression, Not):
        return f"-{_inner(expression.part)}"
    if isinstance(expression, Everything):
        return EVERYTHING
    if isinstance(expression, Compare):
        sign = ":" if expression.sign == "=" else expression.sign
        return f"{expression.field}{sign}{number_text(expression.field, expression.number)}"
    if isinstance(expression, TextTerm):
        field = f"{expression.field}:" if expression.field else ""
        return field + _text(expression)
    value = value_text(expression.field, expression.value)
    return f"{expression.field}:{value if is_bare_value(value) else quoted(value)}"


def _text(term: TextTerm) -> str:
    if isinstance(term, Phrase):
        return quoted(term.text)
    text = f"{term.text}*" if isinstance(term, Prefix) else term.text
    assert is_bare_value(text) if term.field else is_bare_word(text), "words and prefixes come without quotes"
    return text


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
