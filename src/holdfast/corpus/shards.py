"""Shards: parts of one snapshot, each with all that a process needs to read it, and the columns of their rows.

Columns have Arrow types that every data library knows: text is text, numbers are signed, bytes are bytes; headers,
whose names may repeat, are a list of name and value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow

from holdfast.archive import Archive
from holdfast.errors import UsageError
from holdfast.streams import StreamBatch, StreamOptions
from holdfast.streams.batch import plain
from holdfast.streams.page import Page

DEFAULT = ("record", "url", "timestamp", "mime", "title", "text")
_HEADERS = pyarrow.list_(pyarrow.struct([("name", pyarrow.string()), ("value", pyarrow.string())]))
_KINDS = {
    "status": pyarrow.int32(),
    "size": pyarrow.int64(),
    "headers": _HEADERS,
    "payload": pyarrow.binary(),
    "content": pyarrow.binary(),
}


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a snapshot of an archive. A value: it can be pickled.

    Any process with access to the archive's directory can read it any number of times, from the start or from a token.
    """

    path: str
    options: StreamOptions  # with the part and the snapshot

    @property
    def fields(self) -> tuple[str, ...]:
        return self.options.fields

    def batches(self, token: str = "") -> Iterator[StreamBatch]:
        """Keeps the archive open while it is read. Raises as opening an archive and streaming do."""
        options = replace(self.options, token=token or self.options.token)
        with Archive(self.path, read_only=True) as archive, archive.stream(options) as stream:
            yield from stream.batches()

    def tables(self) -> Iterator[pyarrow.RecordBatch]:
        for batch in self.batches():
            yield table_of(batch, self.fields)

    def rows(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            for page in batch:
                yield row_of(page, self.fields)


def split(path: str | Path, options: StreamOptions, count: int) -> list[Shard]:
    """A snapshot of the archive in `count` disjoint parts. Options without fields get those of a corpus.

    Raises UsageError, and as opening an archive and streaming do.
    """
    if count < 1:
        raise UsageError(f"bad number of shards {count}: 1 or more")
    if options.shard is not None:
        raise UsageError("a shard cannot be split again: leave 'shard' out")
    wanted = options if options.fields else replace(options, fields=DEFAULT)
    with Archive(path, read_only=True) as archive, archive.stream(wanted) as stream:
        return [Shard(str(Path(path).resolve()), stream.part(index, count)) for index in range(count)]


def schema_of(fields: Sequence[str]) -> pyarrow.Schema:
    """Names and types, in the order of the fields."""
    return pyarrow.schema([(name, _KINDS.get(name, pyarrow.string())) for name in fields])


def row_of(page: Page, fields: Sequence[str]) -> dict[str, Any]:
    """The fields of a page; None where nothing is known."""
    return {name: _value(page, name) for name in fields}


def table_of(batch: StreamBatch, fields: Sequence[str]) -> pyarrow.RecordBatch:
    """The pages of a batch as rows."""
    schema = schema_of(fields)
    columns = [pyarrow.array([_value(page, each.name) for page in batch.pages], type=each.type) for each in schema]
    return pyarrow.record_batch(columns, schema=schema)


def _value(page: Page, field: str) -> Any:
    value = plain(page, field)
    return [{"name": name, "value": each} for name, each in value] if field == "headers" else value
