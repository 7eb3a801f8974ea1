"""Filters `[!][=|~]field:expr`, as pywb reads them.

    status:20         the field contains the text           !status:20        it does not
    =status:200       the field is the text                 !=status:200      it is not
    ~mime:text/.*     the regular expression matches from the field's start

Without a field (`html`, `~.*foo`) the whole line of CDXJ is meant. `=digest:` matches with and without the name of the
algorithm.

Expressions are those of RE2, whose time is linear in the text: no client can stall a server. Look-around and back
references, which need backtracking, are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import re2

from holdfast.catalog.query.fields import Getter, Row, getter
from holdfast.errors import MalformedQuery
from holdfast.formats.cdx.cdxj import cdxj_line

_COUNTED = ("dupecount", "skipcount", "endtimestamp")
FILTERS_MAX = 32  # of one query
_EXPRESSION_CHARACTERS_MAX = 1000
_EXPRESSION_BYTES_MAX = 1 << 20  # of memory, compiled; the binding keeps the 128 last used
_VALUES_KEPT = 256  # types, states and hosts repeat: results are cached
Filter = Callable[[Row], bool]
_FORM = re.compile(r"(?P<inverted>!?)(?P<sign>[=~]?)(?:(?P<field>[\w.-]+):)?(?P<expr>.*)", re.DOTALL)


def parse_filter(text: str) -> Filter:
    """Raises MalformedQuery if the field is unknown or the expression is malformed."""
    match = _FORM.fullmatch(text)
    assert match is not None  # every text matches
    if not match["expr"] and not match["field"]:
        raise MalformedQuery(f"empty filter {text!r}: expected '[!][=|~]field:expr', such as '!=status:404'")
    if match["field"] in _COUNTED:
        raise MalformedQuery(f"{match['field']!r} is counted after filtering: filter {text!r} cannot use it")
    get = getter(match["field"]) if match["field"] else _line
    matches = _comparison(match["sign"], match["expr"], match["field"] == "digest", text)
    return _inverted(get, matches) if match["inverted"] else _plain(get, matches)


def names_field(text: str) -> bool:
    """Whether a filter is about one field, and not about the whole line."""
    match = _FORM.fullmatch(text)
    return match is not None and bool(match["field"])


def _line(row: Row) -> str:
    return cdxj_line(row.capture)


def _comparison(sign: str, expr: str, is_digest: bool, text: str) -> Callable[[str], bool]:
    if sign == "~":
        return _expression(expr, text)
    if sign == "=":
        if is_digest and ":" not in expr:
            return lambda value: value.rpartition(":")[2] == expr
        return lambda value: value == expr
    return lambda value: expr in value


def _expression(expr: str, text: str) -> Callable[[str], bool]:
    """Whether a value matches from its start."""
    if len(expr) > _EXPRESSION_CHARACTERS_MAX:
        raise MalformedQuery(
            f"regular expression of {len(expr)} characters in filter '{text[:40]}…': "
            f"at most {_EXPRESSION_CHARACTERS_MAX} are taken"
        )
    options = re2.Options()
    options.max_mem = _EXPRESSION_BYTES_MAX
    options.log_errors = False
    options.never_capture = True
    try:
        match = re2.compile(_bytes(expr), options).match
    except re2.error as error:
        raise MalformedQuery(f"bad regular expression in filter {text!r}: {_reason(error)}") from error

    @lru_cache(_VALUES_KEPT)
    def matches(value: str) -> bool:
        return match(_bytes(value)) is not None

    return matches


def _bytes(text: str) -> bytes:
    """Invalid UTF-8, which old URLs hold, counts as a question mark."""
    return text.encode("utf-8", "replace")


def _reason(error: re2.error) -> str:
    """RE2's message, explained where users of other engines would be surprised."""
    message = error.args[0] if error.args else b""
    reason = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    if reason.startswith(("invalid perl operator: (?=", "invalid perl operator: (?!", "invalid perl operator: (?<")):
        return f"{reason}; look-around is not known here: use a second filter"
    if re.match(r"invalid escape sequence: \\[1-9]", reason):
        return f"{reason}; back references are not known here"
    if reason.endswith("\\Z"):
        return f"{reason}; the end is '$' or '\\z' here"
    return reason


def _plain(get: Getter, matches: Callable[[str], bool]) -> Filter:
    return lambda row: matches(get(row))


def _inverted(get: Getter, matches: Callable[[str], bool]) -> Filter:
    return lambda row: not matches(get(row))
