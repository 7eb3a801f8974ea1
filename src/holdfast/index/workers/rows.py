"""From records to rows of the tables and documents of the words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from holdfast.index.extract import Extracted
from holdfast.index.schema import (
    Card,
    host_of,
    page_number,
    record_number,
    separated,
    suffixes_of,
    types_of,
)
from holdfast.index.tables import row_schema
from holdfast.model import Capture
from holdfast.urls import page_id, page_id_text, registered_domain, url_key

if TYPE_CHECKING:
    import pyarrow

_STATUS_MAX = 999
_TARGETS_CACHED = 65_536
_DOCUMENTS = frozenset(("response", "resource", "revisit", "conversion"))


class Rows:
    """Gathers the rows and documents of one task."""

    def __init__(self, batch_number: int) -> None:
        self.documents: list[dict[str, Any]] = []
        self._batch_number = batch_number
        self.unresolved: list[int] = []
        self._captures: list[tuple[Any, ...]] = []
        self._links: list[tuple[Any, ...]] = []

    def add(self, capture: Capture, original: Capture | None, found: Extracted) -> None:
        """A capture, what has its payload if that is another one, and what was found in it."""
        shown = original or capture
        number = record_number(self._batch_number, capture.record.serial)
        id_of_page = page_id(capture.url)
        page, host = page_number(capture.urlkey), host_of(capture.urlkey)
        status = int(shown.status) if shown.status.isdigit() and int(shown.status) <= _STATUS_MAX else 0
        mime = clean(shown.mime.lower())
        title, url = clean(found.title), clean(capture.url)
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
                (registered_domain(host) if host else None),
                title or None,
                _known(found.language),
                _moment(found.date),
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
                    "record": number,
                    "page": page,
                    "page_id": id_of_page,
                    "title": separated(title),
                    "text": separated(clean(found.text)),
                    "host": host,
                    "suffix": suffixes_of(host),
                    "mime": mime,
                    "type": types_of(mime),
                    "status": status,
                    "lang": found.language,
                    "date": int(capture.timestamp),
                    "month": int(capture.timestamp[:6]),
                    "size": shown.size,
                    "collection": capture.collection,
                    "card": Card(url, title, mime, found.language, capture.collection).pack(),
                }
            )

    def _add_links(self, number: int, capture: Capture, page: int, found: Extracted) -> None:
        batch, serial, url = capture.record.batch, capture.record.serial, clean(capture.url)
        for link in found.links:
            target, key, target_page = _target(link.url)
            anchor = clean(link.anchor) or None
            self._links.append(
                (
                    batch,
                    serial,
                    number,
                    page,
                    url,
                    capture.timestamp,
                    target,
                    key,
                    target_page,
                    anchor,
                    link.kind,
                )
            )

    def note_unresolved(self, serial: int) -> None:
        """A revisit without its original."""
        self.unresolved.append(record_number(self._batch_number, serial))

    def captures(self) -> bytes:
        return _stream("captures", self._captures)

    def links(self) -> bytes:
        return _stream("links", self._links)


@lru_cache(_TARGETS_CACHED)
def _target(url: str) -> tuple[str, str, int]:
    """Text, key and page number of what is linked to: pages of a site have most of it in common."""
    key = url_key(url)
    return clean(url), key, page_number(key)


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which neither Arrow nor tantivy take."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def rows_of(stream: bytes) -> pyarrow.Table:
    """The rows of an Arrow stream, without copying them."""
    from pyarrow import ipc

    return ipc.open_stream(stream).read_all()


def _stream(table: str, rows: Iterable[tuple[Any, ...]]) -> bytes:
    import pyarrow
    from pyarrow import ipc

    schema = row_schema(table)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def _known(text: str) -> str | None:
    return None if text in ("", "-") else text


def _moment(digits: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{digits[:8]}T{digits[8:]}").replace(tzinfo=UTC)
    except ValueError:
        return None
