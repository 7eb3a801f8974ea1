"""What a query is made of: frozen values, equal if they mean the same in the same words.

    stanford title:"digital library" -site:example.com (type:pdf OR size>=1M)

    And ─┬─ Words("", "stanford")
         ├─ Words("title", "digital library")
         ├─ Not ── Match("site", "example.com")
         └─ Or ─┬─ Match("type", "pdf")
                └─ Compare("size", ">=", 1048576)

`conjunction`, `disjunction` and `negation` put parts together and keep them flat, so that one meaning has one shape:
an And holds no And, an Or no Or, and nothing is denied twice.

The canonical form of a query: what is printed back everywhere, and parses to the same query again.

Parts that must all fit stand side by side, `-` denies, `OR` is in capitals, what is in parentheses shows how the query
was understood. Quotes are only where they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.query.fields import number_text, value_text
from holdfast.query.lexer import is_bare_value, is_bare_word


@dataclass(frozen=True, slots=True)
class Everything:
    """Fits every capture: the empty query, or `*`."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words in this order, side by side: in the title, or without a field in the title or in the text."""

    field: str  # title, or empty
    text: str


@dataclass(frozen=True, slots=True)
class Match:
    """A field that has a value, in its normal form."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Compare:
    """A number that is less than another, equal to it or greater."""

    field: str
    sign: str  # one of < <= = >= >
    number: float  # whole for all fields but rank


@dataclass(frozen=True, slots=True)
class Not:
    part: Expression


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Expression, ...]


Expression = Everything | Words | Match | Compare | Not | And | Or
Term = Words | Match | Compare


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
    """At least one of them; there must be one."""
    flat: list[Expression] = []
    for part in parts:
        flat += part.parts if isinstance(part, Or) else (part,)
    assert flat
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def negation(part: Expression) -> Expression:
    return part.part if isinstance(part, Not) else Not(part)


def terms(expression: Expression, *, is_wanted: bool = True) -> Iterator[tuple[Term, bool]]:
    """Every term, and whether a capture is to have it or to lack it."""
    if isinstance(expression, Not):
        yield from terms(expression.part, is_wanted=not is_wanted)
    elif isinstance(expression, And | Or):
        for part in expression.parts:
            yield from terms(part, is_wanted=is_wanted)
    elif not isinstance(expression, Everything):
        yield expression, is_wanted


EVERYTHING = "*"


def canonical(expression: Expression) -> str:
    """The text of a query."""
    if isinstance(expression, And):
        return " ".join(_inner(part) for part in expression.parts)
    if isinstance(expression, Or):
        return " OR ".join(_inner(part) for part in expression.parts)
    return _inner(expression)


def _inner(expression: Expression) -> str:
    """As part of another."""
    if isinstance(expression, And | Or):
        return f"({canonical(expression)})"
    if isinstance(expression, Not):
        return f"-{_inner(expression.part)}"
    if isinstance(expression, Everything):
        return EVERYTHING
    if isinstance(expression, Compare):
        sign = ":" if expression.sign == "=" else expression.sign
        return f"{expression.field}{sign}{number_text(expression.field, expression.number)}"
    if isinstance(expression, Words) and not expression.field:
        return expression.text if is_bare_word(expression.text) else quoted(expression.text)
    if isinstance(expression, Words):
        value = expression.text
    else:
        value = value_text(expression.field, expression.value)
    return f"{expression.field}:{value if is_bare_value(value) else quoted(value)}"


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
