"""Turns records into rows of the tables and documents of the words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from holdfast.index.extract.extract import Extracted
from holdfast.index.extract.sketch import sketch_of
from holdfast.index.schema import (
    Card,
    host_of,
    page_number,
    partition_of,
    record_number,
    separated,
    stemmed_field,
    suffixes_of,
    types_of,
)
from holdfast.index.tables import row_schema
from holdfast.model import Capture
from holdfast.urls import page_id, page_id_text, parse, registered_domain, url_key

if TYPE_CHECKING:
    import pyarrow

_STATUS_MAX = 999
_TARGETS_CACHED = 65_536
_SITES_CACHED = 4096
_MOMENTS_CACHED = 4096
_LINKING = ("batch", "serial", "number", "page", "url", "timestamp")  # columns shared by all links of a page
_DOCUMENTS = frozenset(("response", "resource", "revisit", "conversion"))


class Rows:
    """Gathers the rows and documents of one task."""

    def __init__(self, batch_number: int) -> None:
        self.documents: list[dict[str, Any]] = []
        self._batch_number = batch_number
        self.unresolved: list[int] = []
        self._captures: list[tuple[Any, ...]] = []
        self._linking: list[tuple[Any, ...]] = []  # what all links of a page share
        self._link_counts: list[int] = []
        self._targets: list[tuple[str, str, int]] = []  # text, key and page number
        self._anchors: list[str | None] = []
        self._kinds: list[str] = []

    def add(self, capture: Capture, original: Capture | None, found: Extracted) -> None:
        """Adds a capture and what was extracted from it; `original` is the capture that has its payload, if another."""
        shown = original or capture
        number = record_number(self._batch_number, capture.record.serial)
        id_of_page = page_id(capture.url)
        page, host = page_number(capture.urlkey), host_of(capture.urlkey)
        status = int(shown.status) if shown.status.isdigit() and int(shown.status) <= _STATUS_MAX else 0
        mime = clean(shown.mime.lower())
        title, url = clean(found.title), clean(capture.url)
        domain = registered_domain(host) if host else ""
        partition = partition_of(_site_of(capture.url) or capture.urlkey)
        sketch = sketch_of(found.main_text)
        self._add_links(number, capture, page, found)
        self._captures.append(
            (
                str(capture.record),
                number,
                capture.record.batch,
                capture.record.serial,
                page,
                page_id_text(id_of_page),
                clean(capture.urlkey),
                url,
                capture.timestamp,
                _moment(capture.timestamp),
                _moment(capture.modified),
                status or None,
                mime,
                capture.type,
                shown.size,
                clean(capture.digest),
                _known(shown.contents),
                capture.collection,
                host or None,
                domain or None,
                partition,
                title or None,
                _known(found.language),
                _moment(found.date),
                sketch or None,
                _known(clean(capture.filename)),
                capture.offset,
                capture.length,
                str(original.record) if original else None,
                found.failure or None,
            )
        )
        if capture.type in _DOCUMENTS:
            self.documents.append(
                {
                    **_words(title, found),
                    "record": number,
                    "page": page,
                    "page_id": id_of_page,
                    "partition": partition,
                    "host": host,
                    "suffix": suffixes_of(host),
                    "mime": mime,
                    "type": types_of(mime),
                    "status": status,
                    "lang": found.language,
                    "date": int(capture.timestamp),
                    "month": int(capture.timestamp[:6]),
                    "size": shown.size,
                    "sketch": sketch,
                    "collection": capture.collection,
                    "card": Card(url, title, mime, found.language, capture.collection).pack(),
                }
            )

    def _add_links(self, number: int, capture: Capture, page: int, found: Extracted) -> None:
        batch, serial, url = capture.record.batch, capture.record.serial, clean(capture.url)
        urls, kinds, anchors = found.out
        self._linking.append((batch, serial, number, page, url, capture.timestamp))
        self._link_counts.append(len(urls))
        if not "".join(anchors).isascii():
            anchors = tuple(map(clean, anchors))
        self._targets += map(_target, urls)
        self._anchors += [anchor or None for anchor in anchors]
        self._kinds += kinds

    def note_unresolved(self, serial: int) -> None:
        """Notes a revisit without an original."""
        self.unresolved.append(record_number(self._batch_number, serial))

    def captures(self) -> bytes:
        """The rows, as an Arrow stream."""
        schema = row_schema("captures")
        return _stream(schema, _filled(_columns(self._captures, len(schema)), schema))

    def links(self) -> bytes:
        """The rows, as an Arrow stream."""
        import pyarrow

        schema, common = row_schema("links"), len(_LINKING)
        pages = pyarrow.array([page for page, count in enumerate(self._link_counts) for _ in range(count)], "int32")
        repeated: list[pyarrow.Array] = []
        for field, values in zip(schema, _columns(self._linking, common), strict=False):
            if pyarrow.types.is_dictionary(field.type):
                repeated.append(
                    pyarrow.DictionaryArray.from_arrays(pages, pyarrow.array(values, field.type.value_type))
                )
            else:
                repeated.append(pyarrow.array(values, field.type).take(pages))
        own = [*_columns(self._targets, 3), self._anchors, self._kinds]
        return _stream(schema, [*repeated, *_filled(own, list(schema)[common:])])


def _words(title: str, found: Extracted) -> dict[str, Any]:
    """The fields with words; those without text are left out."""
    title, main = separated(title), separated(clean(found.main_text))
    rest = [separated(clean(part)) for part in found.rest]
    fields: dict[str, Any] = {"title": title, "main": main, "rest": rest}
    if stems := stemmed_field("text", found.language):
        fields |= {stemmed_field("title", found.language): title, stems: [main, *rest]}
    return {name: text for name, text in fields.items() if text}


@lru_cache(_TARGETS_CACHED)
def _target(url: str) -> tuple[str, str, int]:
    """Text, key and page number of a link target. Cached: pages of a site share most targets."""
    key = url_key(url)
    return clean(url), key, page_number(key)


def clean(text: str) -> str:
    """The text without lone surrogates, which Arrow and tantivy reject."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def rows_of(stream: bytes) -> pyarrow.Table:
    """The rows of an Arrow stream, not copied."""
    from pyarrow import ipc

    return ipc.open_stream(stream).read_all()


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[Any]:
    return list(zip(*rows, strict=True)) or [()] * count


def _filled(columns: Sequence[Any], fields: Iterable[pyarrow.Field]) -> list[pyarrow.Array]:
    import pyarrow

    return [pyarrow.array(column, field.type) for column, field in zip(columns, fields, strict=True)]


def _stream(schema: pyarrow.Schema, arrays: list[pyarrow.Array]) -> bytes:
    import pyarrow
    from pyarrow import ipc

    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def _known(text: str) -> str | None:
    return None if text in ("", "-") else text


def _site_of(url: str) -> str:
    """The registered domain of a URL's host, by which clusters place records; '' if it has none."""
    parts = url.split("/", 3)
    return _site_of_begin("/".join(parts[:3]) if len(parts) == 4 and parts[2] else url)


@lru_cache(_SITES_CACHED)
def _site_of_begin(url: str) -> str:
    """The same, of the begin of a URL with all of its authority: cached, as all pages of a site have it."""
    parsed = parse(url)
    return registered_domain(parsed.host) if parsed is not None and parsed.host else ""


@lru_cache(_MOMENTS_CACHED)
def _moment(digits: str) -> int | None:
    """Seconds since the epoch, which Arrow takes in a tenth of the time of a datetime."""
    try:
        return int(datetime.fromisoformat(f"{digits[:8]}T{digits[8:]}").replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
