"""Filters `[!][=|~]field:expr`, as pywb reads them.

    status:20         the field contains the text           !status:20        it does not
    =status:200       the field is the text                 !=status:200      it is not
    ~mime:text/.*     the regular expression matches from the field's start

Without a field (`~.*foo`) the URL is meant. `=digest:` matches with and without the name of the algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from holdfast.catalog.fields import Getter, Row, getter
from holdfast.errors import MalformedQuery

_COUNTED = ("dupecount", "skipcount", "endtimestamp")
Filter = Callable[[Row], bool]
_FORM = re.compile(r"(?P<inverted>!?)(?P<sign>[=~]?)(?:(?P<field>[\w.-]+):)?(?P<expr>.*)", re.DOTALL)


def parse_filter(text: str) -> Filter:
    """Raises MalformedQuery if the field is unknown or the expression is none."""
    match = _FORM.fullmatch(text)
    assert match is not None  # every text has the form
    if not match["expr"] and not match["field"]:
        raise MalformedQuery(f"empty filter {text!r}: expected '[!][=|~]field:expr', such as '!=status:404'")
    if match["field"] in _COUNTED:
        raise MalformedQuery(f"{match['field']!r} is counted after filtering: filter {text!r} cannot use it")
    if not match["field"] and not match["sign"]:
        raise MalformedQuery(f"filter {text!r} names no field: expected '[!][=|~]field:expr', such as '!=status:404'")
    get = getter(match["field"] or "url")
    matches = _comparison(match["sign"], match["expr"], match["field"] == "digest", text)
    return _inverted(get, matches) if match["inverted"] else _plain(get, matches)


def _comparison(sign: str, expr: str, is_digest: bool, text: str) -> Callable[[str], bool]:
    if sign == "~":
        try:
            pattern = re.compile(expr)
        except re.error as error:
            raise MalformedQuery(f"bad regular expression in filter {text!r}: {error}") from error
        return lambda value: pattern.match(value) is not None
    if sign == "=":
        if is_digest and ":" not in expr:
            return lambda value: value.rpartition(":")[2] == expr
        return lambda value: value == expr
    return lambda value: expr in value


def _plain(get: Getter, matches: Callable[[str], bool]) -> Filter:
    return lambda row: matches(get(row))


def _inverted(get: Getter, matches: Callable[[str], bool]) -> Filter:
    return lambda row: not matches(get(row))
