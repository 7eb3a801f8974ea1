"""Rows of a result and their fields by name, for queries, filters and outputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from holdfast.arguments import nearest
from holdfast.errors import MalformedQuery
from holdfast.formats.cdx.cdxj import EXTRA
from holdfast.model import Capture

UNKNOWN = "-"


class Row(NamedTuple):
    """A capture in a result. A resolved revisit has the type of its original, and its status unless it has its own."""

    capture: Capture
    original: Capture | None = None  # of a revisit, if the query resolves them
    dupe_count: int = 0  # captures of the same URL with the same digest that come before it in time
    skip_count: int = 0  # captures after it that were collapsed into it
    end_timestamp: str = UNKNOWN  # of the last of these


Getter = Callable[[Row], str]

ALIASES = {
    "original": "url",
    "mimetype": "mime",
    "statuscode": "status",
    "contentkey": "contents",
    "id": "record",
    "key": "urlkey",
}
ORIGINAL = ("orig.length", "orig.offset", "orig.filename")
_NOT_SHOWN = ("refers_to", "extra")


def _attribute(name: str) -> Getter:
    index = Capture._fields.index(name)
    return lambda row: str(row[0][index])


def _from_extra(name: str) -> Getter:
    def get(row: Row) -> str:
        extra = row.capture.extra
        return UNKNOWN if extra == UNKNOWN else str(json.loads(extra).get(name, UNKNOWN))

    return get


def _of_original(name: str) -> Getter:
    return lambda row: UNKNOWN if row.original is None else str(getattr(row.original, name))


GETTERS: dict[str, Getter] = {
    **{name: _attribute(name) for name in Capture._fields if name not in _NOT_SHOWN},
    **{name: _from_extra(name) for name in EXTRA},
    **{name: _of_original(name.removeprefix("orig.")) for name in ORIGINAL},
    "dupecount": lambda row: str(row.dupe_count),
    "skipcount": lambda row: str(row.skip_count),
    "endtimestamp": lambda row: row.end_timestamp,
}


def canonical_field(name: str) -> str:
    """The field under any of its names. Raises MalformedQuery with the nearest one."""
    field = ALIASES.get(name, name)
    if field not in GETTERS:
        raise MalformedQuery(f"unknown field {name!r}{nearest(name, sorted([*GETTERS, *ALIASES]))}")
    return field


def getter(name: str) -> Getter:
    return GETTERS[canonical_field(name)]
