"""Columns: the fields of pages as types of Arrow that every library of data knows.

Text is text, numbers have a sign, bytes are bytes; headers, whose names repeat, are a list of name and value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from holdfast.streams import StreamBatch
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


def schema_of(fields: Sequence[str]) -> pyarrow.Schema:
    """Names and types, in the order of the fields."""
    return pyarrow.schema([(name, _KINDS.get(name, pyarrow.string())) for name in fields])


def row_of(page: Page, fields: Sequence[str]) -> dict[str, Any]:
    """The fields of a page; what is not known is None."""
    return {name: _value(page, name) for name in fields}


def table_of(batch: StreamBatch, fields: Sequence[str]) -> pyarrow.RecordBatch:
    """The pages of a batch as rows."""
    schema = schema_of(fields)
    columns = [pyarrow.array([_value(page, each.name) for page in batch.pages], type=each.type) for each in schema]
    return pyarrow.record_batch(columns, schema=schema)


def _value(page: Page, field: str) -> Any:
    value = plain(page, field)
    return [{"name": name, "value": each} for name, each in value] if field == "headers" else value
