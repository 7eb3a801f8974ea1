"""The ways in which CDX servers are asked, and answer: one grammar, three habits.

                    pywb                    archive                 outback
    asked at        /<coll>/cdx             /cdx/search/cdx         /<coll>?url=
                    /<coll>/index?          /<coll>/timemap/<output>?
    without output  cdxj                    text of 7 fields        cdx of 11 fields, no header
    output=json     one object a line       an array of arrays, the first with the names of the fields
    filter=f:expr   contains                regular expression      contains
                                            for the whole field
    showNumPages    an object               a number                a number
    page beyond     400                     nothing                 nothing
    nothing found   nothing; 404 for json   nothing; [] for json    nothing; [] for json

Signs in filters (`=`, `~`) mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import parse_qsl

from holdfast.catalog import OUTPUTS, CaptureQuery, parse_query
from holdfast.catalog.query.fields import nearest
from holdfast.catalog.query.grammar import flag
from holdfast.errors import MalformedQuery, TooLarge

PARAMETERS_MAX = 200
HELD_MAX = 10_000  # rows that an answer has in memory because it is not in plain order


class Dialect(StrEnum):
    PYWB = "pywb"
    ARCHIVE = "archive"
    OUTBACK = "outback"


_USUAL = {Dialect.PYWB: "cdxj", Dialect.ARCHIVE: "text", Dialect.OUTBACK: "cdx"}
Params = Sequence[tuple[str, str]]


class CdxRequest(NamedTuple):
    """What was asked, and how it is to be answered."""

    query: CaptureQuery
    output: str
    dialect: Dialect
    shows_resume_key: bool = False
    shows_num_pages: bool = False
    allows_fuzzy: bool = False  # where the URL has no captures, those of URLs that count as the same

    @property
    def holds_rows(self) -> bool:
        """Whether duplicates are counted against the order, which takes all captures of a URL in memory."""
        query = self.query
        return query.dupe_count and (query.sort != "default" or (query.limit or 0) < 0)


def parse_params(text: str) -> Params:
    """Names and values of a query string or a form, with every byte they have. Raises MalformedQuery."""
    try:
        return parse_qsl(text, keep_blank_values=True, errors="surrogateescape", max_num_fields=PARAMETERS_MAX)
    except ValueError as error:
        raise MalformedQuery(f"malformed query: {error}; at most {PARAMETERS_MAX} parameters are taken") from error


def output_of(text: str, dialect: Dialect) -> str:
    """The form of an answer; without a name the usual one. Raises MalformedQuery."""
    if text and text not in OUTPUTS:
        raise MalformedQuery(f"unknown output {text!r}{nearest(text, OUTPUTS)}")
    return text or _USUAL[dialect]


def parse_request(params: Params, collection: str | None, dialect: Dialect, *, limit_max: int) -> CdxRequest:
    """Raises MalformedQuery, and TooLarge for what would take too much memory."""
    told = dict(params)
    output = output_of(told.get("output", ""), dialect)
    query = parse_query([_adapted(pair, told, dialect) for pair in params], collection)
    if query.limit is None or query.limit > limit_max:
        query = replace(query, limit=limit_max)
    _require_held(query)
    return CdxRequest(
        query,
        output,
        dialect,
        flag("showResumeKey", told.get("showResumeKey", "")),
        flag("showNumPages", told.get("showNumPages", "")),
        flag("allowFuzzy", told.get("allowFuzzy", "")),
    )


def _adapted(pair: tuple[str, str], told: dict[str, str], dialect: Dialect) -> tuple[str, str]:
    name, text = pair
    if name == "filter" and dialect is Dialect.ARCHIVE:
        return name, _as_expression(text)
    if name == "sort" and text == "closest" and not told.get("closest"):
        return name, "default"  # pywb asks so where it is asked for no time itself
    return pair


def _as_expression(text: str) -> str:
    """The Internet Archive takes every filter for an expression that the whole field must match."""
    bare = text.removeprefix("!")
    field, colon, expr = bare.partition(":")
    if not colon or bare.startswith(("=", "~")):
        return text
    return f"{'!' if bare != text else ''}~{field}:(?:{expr})$"


def _require_held(query: CaptureQuery) -> None:
    limit = query.limit or 0
    held = -limit if limit < 0 else 0
    if query.sort == "closest" and query.plain().match != "exact":
        held = query.offset + limit
    if held > HELD_MAX:
        raise TooLarge(f"the query would have to hold {held} captures, more than {HELD_MAX}: lower its 'limit'")
