"""The dialects of CDX servers: one grammar, three ways to read a query and to write its results.

                    pywb                    archive                 outback
    address         /<coll>/cdx             /cdx/search/cdx         /<coll>?url=
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

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain, islice
from typing import NamedTuple
from urllib.parse import parse_qsl

from holdfast.arguments import nearest
from holdfast.catalog import OUTPUTS, CaptureQuery, Row, parse_query, render
from holdfast.catalog.query.fields import UNKNOWN, getter
from holdfast.catalog.query.query import flag
from holdfast.catalog.query.render import ARCHIVE_FIELDS, CDXJ_FIELDS, counters
from holdfast.errors import CaptureNotFound, MalformedQuery, TooLarge
from holdfast.formats.cdx.cdxj import EXTRA, cdxj_line

PARAMETERS_MAX = 200
HELD_MAX = 10_000  # rows in memory, where results are not in plain order


PLAIN = CaptureQuery(url="*")  # of captures that were looked up: no fields, no counters


class Dialect(StrEnum):
    PYWB = "pywb"
    ARCHIVE = "archive"
    OUTBACK = "outback"


_CONTENT_TYPES = {
    "cdxj": "text/x-cdxj",
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "cdx": "text/plain; charset=utf-8",
    "link": "application/link-format",
}
_USUAL = {Dialect.PYWB: "cdxj", Dialect.ARCHIVE: "text", Dialect.OUTBACK: "cdx"}
Params = Sequence[tuple[str, str]]


class CdxRequest(NamedTuple):
    """A query, and how its results are written."""

    query: CaptureQuery
    output: str
    dialect: Dialect
    shows_resume_key: bool = False
    shows_num_pages: bool = False
    allows_fuzzy: bool = False  # where the URL has no captures, those of URLs that count as the same

    @property
    def content_type(self) -> str:
        """pywb's JSON is one object a line."""
        is_lines = self.output == "json" and self.dialect is Dialect.PYWB
        return "application/x-ndjson" if is_lines else _CONTENT_TYPES[self.output]

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
        raise MalformedQuery(f"malformed query: {error}; at most {PARAMETERS_MAX} parameters are allowed") from error


def output_of(text: str, dialect: Dialect) -> str:
    """The form of the results; without a name the dialect's own. Raises MalformedQuery."""
    if text and text not in OUTPUTS:
        raise MalformedQuery(f"unknown output {text!r}{nearest(text, OUTPUTS)}")
    return text or _USUAL[dialect]


def parse_request(params: Params, collection: str | None, dialect: Dialect, *, limit_max: int) -> CdxRequest:
    """Raises MalformedQuery, and TooLarge for what would take too much memory."""
    given = dict(params)
    output = output_of(given.get("output", ""), dialect)
    query = parse_query([_adapted(pair, given, dialect) for pair in params], collection)
    if query.limit is None or query.limit > limit_max:
        query = replace(query, limit=limit_max)
    _require_held(query)
    return CdxRequest(
        query,
        output,
        dialect,
        flag("showResumeKey", given.get("showResumeKey", "")),
        flag("showNumPages", given.get("showNumPages", "")),
        flag("allowFuzzy", given.get("allowFuzzy", "")),
    )


def _adapted(pair: tuple[str, str], given: dict[str, str], dialect: Dialect) -> tuple[str, str]:
    name, text = pair
    if name == "filter" and dialect is Dialect.ARCHIVE:
        return name, _as_expression(text)
    if name == "sort" and text == "closest" and not given.get("closest"):
        return name, "default"  # pywb sends this also where it has no time
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
        raise TooLarge(f"the query needs {held} captures in memory, more than {HELD_MAX}: lower its 'limit'")


# -- results -----------------------------------------------------------------------------------------------------------

Resume = Callable[[], str | None] | None


def lines_of(request: CdxRequest, rows: Iterable[Row], prefix: str, resume: Resume = None) -> Iterator[str]:
    """The results as lines. `prefix` comes before the time in links; `resume` returns the key of the next part."""
    query, output = request.query, request.output
    added = counters(dupe_count=query.dupe_count, skip_count=query.skip_count, resolve_revisits=query.resolve_revisits)

    def fields(usual: Sequence[str]) -> tuple[str, ...]:
        return query.fields or (*usual, *added)

    if output == "json" and request.dialect is Dialect.PYWB:
        found = rows if query.page is not None else _required(rows)
        return _objects(found, fields(("urlkey", "timestamp", *CDXJ_FIELDS)), query.fields, resume)
    if output == "json":
        iterator = iter(rows)
        first = next(iterator, None)
        if first is None:  # as the Internet Archive has it: an array without the names of fields
            return iter(("[]",))
        return render(chain((first,), iterator), fields(ARCHIVE_FIELDS), "json", resume=resume)
    if output == "cdx" and request.dialect is Dialect.OUTBACK:
        return islice(render(rows, (), "cdx"), 1, None)
    if output == "cdxj" and query is PLAIN:
        return (cdxj_line(row.capture) for row in rows)
    usual = fields(CDXJ_FIELDS if output == "cdxj" else ARCHIVE_FIELDS) if added else query.fields
    return render(rows, usual, output, resume=resume, prefix=prefix)


def _required(rows: Iterable[Row]) -> Iterator[Row]:
    """pywb's clients expect an error instead of an empty response."""
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        raise CaptureNotFound("no captures found")
    yield first
    yield from iterator


def _objects(rows: Iterable[Row], names: Sequence[str], requested: Sequence[str], resume: Resume) -> Iterator[str]:
    """Unknown values are left out unless they were requested."""
    getters = [(name, getter(name)) for name in names]
    extra = [] if requested else [(name, getter(name)) for name in EXTRA]
    for row in rows:
        values = {name: value for name, get in getters if (value := get(row)) != UNKNOWN or requested}
        if row.capture.extra != UNKNOWN:
            values |= {name: value for name, get in extra if (value := get(row)) != UNKNOWN}
        yield json.dumps(values)
    if resume is not None and (key := resume()):
        yield json.dumps({"resumeKey": key})
