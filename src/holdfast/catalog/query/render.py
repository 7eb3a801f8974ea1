"""Rows as text, in the output forms of CDX servers. Every piece is a line without its end.

    cdxj    urlkey timestamp {json}
    json    the Internet Archive's form: an array of rows, the first of them the names of the fields
    text    fields parted by spaces
    cdx     a CDX file of 11 fields with its header
    link    a Memento TimeMap (RFC 7089)

A resume key follows after an empty row, as in the Internet Archive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.arguments import nearest
from holdfast.catalog.query.fields import ORIGINAL, UNKNOWN, Getter, Row, canonical_field, getter
from holdfast.catalog.timestamps import http_date
from holdfast.errors import MalformedQuery
from holdfast.formats.cdx.cdx import CDX11, bare_digest, cdx_line
from holdfast.formats.cdx.cdxj import EXTRA, object_line

OUTPUTS = ("cdxj", "json", "text", "cdx", "link")
ARCHIVE_FIELDS = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
CDXJ_FIELDS = ("url", "mime", "status", "digest", "length", "offset", "filename")
Resume = Callable[[], str | None]


def render(
    rows: Iterable[Row], fields: Sequence[str], output: str, *, resume: Resume | None = None, prefix: str = "/"
) -> Iterator[str]:
    """Lines of the result; without `fields`, the usual ones of the output. `prefix` comes before times in links."""
    if output == "cdxj":
        return _with_resume(_cdxj(rows, fields), resume)
    if output == "json":
        return _json(rows, fields or ARCHIVE_FIELDS, resume)
    if output == "text":
        return _with_resume(_text(rows, fields or ARCHIVE_FIELDS), resume)
    if output == "cdx":
        return _cdx(rows)
    if output == "link":
        return _link(rows, prefix)
    raise MalformedQuery(f"unknown output {output!r}{nearest(output, OUTPUTS)}")


def counters(*, dupe_count: bool, skip_count: bool, resolve_revisits: bool) -> tuple[str, ...]:
    """The fields that a query adds to the usual ones."""
    added: tuple[str, ...] = ()
    if resolve_revisits:
        added += ORIGINAL
    if dupe_count:
        added += ("dupecount",)
    if skip_count:
        added += ("skipcount", "endtimestamp")
    return added


def _cdxj(rows: Iterable[Row], fields: Sequence[str]) -> Iterator[str]:
    """Unknown values are left out unless they were requested."""
    asked = [(name, getter(name)) for name in fields if canonical_field(name) not in ("urlkey", "timestamp")]
    usual = [(name, getter(name)) for name in (*CDXJ_FIELDS, *EXTRA)]
    originals = [(name, getter(name)) for name in ORIGINAL]
    for row in rows:
        if fields:
            pairs = [(name, get(row)) for name, get in asked]
        else:
            getters = usual if row.original is None else usual + originals
            pairs = [(name, value) for name, get in getters if (value := get(row)) != UNKNOWN]
        yield object_line(row.capture.urlkey, row.capture.timestamp, pairs)


def _json(rows: Iterable[Row], fields: Sequence[str], resume: Resume | None) -> Iterator[str]:
    getters = _bare_getters(fields)
    held = f"[{json.dumps(list(fields))}"
    for row in rows:
        yield f"{held},"
        held = json.dumps([get(row) for get in getters])
    if resume is not None and (key := resume()):
        yield f"{held},"
        yield "[],"
        held = json.dumps([key])
    yield f"{held}]"


def _text(rows: Iterable[Row], fields: Sequence[str]) -> Iterator[str]:
    getters = _bare_getters(fields)
    for row in rows:
        yield " ".join([get(row).replace(" ", "%20") for get in getters])


def _cdx(rows: Iterable[Row]) -> Iterator[str]:
    yield CDX11
    for row in rows:
        yield cdx_line(row.capture)


def _link(rows: Iterable[Row], prefix: str) -> Iterator[str]:
    held: Row | None = None
    number = 0
    for row in rows:
        if held is None:
            yield f'<{_uri(row.capture.url)}>; rel="original",'
        else:
            yield _memento(held, prefix, "first " if number == 1 else "") + ","
        held = row
        number += 1
    if held is not None:
        yield _memento(held, prefix, "first last " if number == 1 else "last ")


def _memento(row: Row, prefix: str, relation: str) -> str:
    place = f"{prefix}{row.capture.timestamp}/{_uri(row.capture.url)}"
    return f'<{place}>; rel="{relation}memento"; datetime="{http_date(row.capture.timestamp)}"'


def _uri(url: str) -> str:
    """Escapes what would end the angle brackets."""
    return url.replace("<", "%3C").replace(">", "%3E").replace(" ", "%20")


def _bare_getters(fields: Sequence[str]) -> list[Getter]:
    return [_bare if canonical_field(name) == "digest" else getter(name) for name in fields]


def _bare(row: Row) -> str:
    return bare_digest(row.capture.digest)


def _with_resume(lines: Iterator[str], resume: Resume | None) -> Iterator[str]:
    yield from lines
    if resume is not None and (key := resume()):
        yield ""
        yield key
