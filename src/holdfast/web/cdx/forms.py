"""Answers of the CDX server as lines, in the form that was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from holdfast.catalog import CaptureQuery, Row, SearchResult, render
from holdfast.catalog.query.fields import UNKNOWN, getter
from holdfast.catalog.query.render import ARCHIVE_FIELDS, CDXJ_FIELDS, counters
from holdfast.errors import CaptureNotFound
from holdfast.formats.cdx.cdxj import EXTRA, cdxj_line
from holdfast.model import Capture
from holdfast.web.cdx.dialects import CdxRequest, Dialect

CONTENT_TYPES = {
    "cdxj": "text/x-cdxj",
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "cdx": "text/plain; charset=utf-8",
    "link": "application/link-format",
}
LINES_TYPE = "application/x-ndjson"  # of pywb's JSON, one object a line
_KEYS = ("urlkey", "timestamp")


def content_type(output: str, dialect: Dialect) -> str:
    return LINES_TYPE if output == "json" and dialect is Dialect.PYWB else CONTENT_TYPES[output]


def lines_of(request: CdxRequest, answer: SearchResult, prefix: str, cut_at: int) -> Iterator[str]:
    """The whole answer. `prefix` comes before the time in links; an answer of `cut_at` rows says where it goes on."""
    query = request.query
    shown = request.shows_resume_key or query.limit == cut_at  # a cut answer must not look like a whole one
    resume = (lambda: answer.resume_key) if shown else None
    return form(answer, query, request, prefix, resume)


def form(
    rows: Iterable[Row],
    query: CaptureQuery,
    request: CdxRequest,
    prefix: str,
    resume: Callable[[], str | None] | None,
) -> Iterator[str]:
    output = request.output
    if output == "json" and request.dialect is Dialect.PYWB:
        found = rows if query.page is not None else _required(rows)
        return chain(_objects(found, _fields(query, (*_KEYS, *CDXJ_FIELDS)), query.fields), _resume_object(resume))
    if output == "json":
        return _array(rows, query, resume)
    if output == "cdx" and request.dialect is Dialect.OUTBACK:
        return islice(render(rows, (), "cdx"), 1, None)
    usual = _fields(query, CDXJ_FIELDS if output == "cdxj" else ARCHIVE_FIELDS) if _added(query) else query.fields
    return render(rows, usual, output, resume=resume, prefix=prefix)


def _added(query: CaptureQuery) -> tuple[str, ...]:
    return counters(dupe_count=query.dupe_count, skip_count=query.skip_count, resolve_revisits=query.resolve_revisits)


def _fields(query: CaptureQuery, usual: Sequence[str]) -> tuple[str, ...]:
    return query.fields or (*usual, *_added(query))


def _array(rows: Iterable[Row], query: CaptureQuery, resume: Callable[[], str | None] | None) -> Iterator[str]:
    """The Internet Archive's form; nothing found is an empty array without the names of fields."""
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        return iter(("[]",))
    return render(chain((first,), iterator), _fields(query, ARCHIVE_FIELDS), "json", resume=resume)


def _required(rows: Iterable[Row]) -> Iterator[Row]:
    """pywb's clients take an answer of no lines for a broken one: they expect to be told."""
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        raise CaptureNotFound("no captures found")
    yield first
    yield from iterator


def _objects(rows: Iterable[Row], names: Sequence[str], asked: Sequence[str]) -> Iterator[str]:
    """The unknown is left out unless it was asked for."""
    getters = [(name, getter(name)) for name in names]
    extra = [] if asked else [(name, getter(name)) for name in EXTRA]
    for row in rows:
        told = {name: value for name, get in getters if (value := get(row)) != UNKNOWN or asked}
        if row.capture.extra != UNKNOWN:
            told |= {name: value for name, get in extra if (value := get(row)) != UNKNOWN}
        yield json.dumps(told)


def _resume_object(resume: Callable[[], str | None] | None) -> Iterator[str]:
    if resume is not None and (key := resume()):
        yield json.dumps({"resumeKey": key})


def quick_lines(captures: list[Capture], request: CdxRequest, prefix: str) -> Iterator[str]:
    """The same for a few captures of one URL without any fields or counters asked for."""
    if request.output == "cdxj":
        return map(cdxj_line, captures)
    return form(map(Row, captures), request.query, request, prefix, None)
