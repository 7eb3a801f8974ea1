"""The canonical form of a query: what is printed back everywhere, and parses to the same query again.

Parts that must all fit stand side by side, `-` denies, `OR` is in capitals, what is in parentheses shows how the query
was understood. Quotes are only where they are needed.
"""

from __future__ import annotations

from holdfast.query.fields import number_text, value_text
from holdfast.query.scanning import is_bare_value, is_bare_word
from holdfast.query.syntax import And, Compare, Everything, Expression, Not, Or, Words

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
