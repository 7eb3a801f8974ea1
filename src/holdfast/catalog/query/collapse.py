"""Collapsing: of adjacent captures with the same value of a field, or of its first n characters, the first is kept.

With `+`, several fields must agree: `timestamp:8+status` keeps the first of each status and day.

Several collapses apply one after the other. The rows are the same whether a result is read forwards, backwards or from
the middle: backwards, the last row of a run is kept; from the middle, the captures before it show what was last kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.catalog.keys import place_of
from holdfast.catalog.query.fields import Getter, Row, getter
from holdfast.errors import MalformedQuery


def parse_collapse(text: str) -> Getter:
    """`field` or `field:n`, or several of them joined by `+`."""
    getters = [_parse_part(part, text) for part in text.split("+")]
    return getters[0] if len(getters) == 1 else lambda row: "\n".join([get(row) for get in getters])


def _parse_part(part: str, text: str) -> Getter:
    field, colon, count = part.partition(":")
    get = getter(field)
    if not colon:
        return get
    if not (count.isascii() and count.isdigit() and int(count) > 0):
        raise MalformedQuery(f"bad collapse {text!r}: expected 'field' or 'field:n' with n of 1 or more")
    length = int(count)
    return lambda row: get(row)[:length]


def collapsed(rows: Iterator[Row], tokens: Sequence[Getter], last: Sequence[str | None]) -> Iterator[Row]:
    """The ascending rows that are kept; `last` is what each collapse kept before them."""
    seen = list(last)
    for row in rows:
        if _passes(row, tokens, seen):
            yield row


def collapsed_and_counted(
    rows: Iterator[Row], tokens: Sequence[Getter], last: Sequence[str | None], end: bytes | None
) -> Iterator[Row]:
    """The same, each row with the number of rows dropped after it.

    Rows from the place `end` on are counted, not returned.
    """
    seen = list(last)
    held: Row | None = None
    for row in rows:
        if _passes(row, tokens, seen):
            if held is not None:
                yield held
            held = row
            if end is not None and place_of(row.capture) >= end:
                return
        elif held is not None:
            held = held._replace(skip_count=held.skip_count + 1, end_timestamp=row.capture.timestamp)
    if held is not None:
        yield held


def _passes(row: Row, tokens: Sequence[Getter], seen: list[str | None]) -> bool:
    for index, token in enumerate(tokens):
        value = token(row)
        if value == seen[index]:
            return False
        seen[index] = value
    return True


def collapsed_back(rows: Iterator[Row], tokens: Sequence[Getter]) -> Iterator[Row]:
    """The descending rows that are kept, counted."""
    for token in tokens:
        rows = _run_heads(rows, token)
    return rows


def _run_heads(rows: Iterator[Row], token: Getter) -> Iterator[Row]:
    held: Row | None = None
    held_value = ""
    for row in rows:
        value = token(row)
        if held is None:
            held = row
        elif value != held_value:
            yield held
            held = row
        else:
            held = row._replace(
                skip_count=row.skip_count + 1 + held.skip_count,
                end_timestamp=held.end_timestamp if held.skip_count else held.capture.timestamp,
            )
        held_value = value
    if held is not None:
        yield held
