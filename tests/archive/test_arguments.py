"""Arguments of wrong types raise errors of the tree, for everything in `holdfast.__all__` (H5)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import pytest

import holdfast
from holdfast import Archive, ContentKey, RecordId
from holdfast.archive.connection import Connection
from holdfast.errors import HoldfastError, UsageError
from holdfast.query import QueryOptions
from holdfast.records.records import Records
from holdfast.storage.store.contents import Contents
from holdfast.streams.multicast import MulticastOptions
from holdfast.streams.options import StreamOptions

# Made by Holdfast, in great numbers: they are looked into where they are given back.
VALUES = {"Capture", "ContentKey", "ContentStat", "Fault", "RecordId", "Stored"}
ERRORS = {"HoldfastError"}
REACHED = {"Contents": Contents, "Records": Records, "Connection": Connection}  # by attributes and functions
OPTIONS = {"QueryOptions": QueryOptions, "StreamOptions": StreamOptions, "MulticastOptions": MulticastOptions}
# Not for callers: given by the package itself.
INTERNAL = {"env", "store", "journal", "catalog", "contents", "files", "self", "cls", "kind", "error", "trace"}
UNTYPED = {("Settings", "said")}
GIVEN = {"query": {"text": "words"}}  # what must be there for others to be looked at
REQUIRED: dict[str, dict[str, Any]] = {
    "Exchange": {"url": "http://a.example/", "head": b"", "body": b""},
    "ExportOptions": {"format": "warc"},
    "RemovalOptions": {"reason": "asked"},
    "VolumeSettings": {"name": "v0"},
}
# Called by the package for every record it reads, or with parts of an archive.
BETWEEN_PACKAGES = {"Records.entry", "Records.stored", "Selection.captures", "Selection.record_ids"}


class Wrong:
    """What no argument is."""


def public() -> dict[str, Any]:
    return {name: getattr(holdfast, name) for name in holdfast.__all__}


def functions() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Every function and method with each of its arguments."""
    for name, thing in {**public(), **REACHED}.items():
        if inspect.isfunction(thing):
            yield from ((name, thing, each) for each in _arguments(thing))
        elif inspect.isclass(thing) and name not in ERRORS:
            for method, function in inspect.getmembers(thing, callable):
                is_made = method == "__init__" and name not in VALUES and not is_dataclass(thing)
                is_own = method not in dir(tuple) and method not in dir(str)
                if ((is_own and not method.startswith("_")) or is_made) and f"{name}.{method}" not in BETWEEN_PACKAGES:
                    yield from ((f"{name}.{method}", function, each) for each in _arguments(function))


def _arguments(function: Callable[..., Any]) -> list[str]:
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.name not in INTERNAL and each.kind is each.POSITIONAL_OR_KEYWORD]


CALLS = {f"{name}({argument})": (name, function, argument) for name, function, argument in functions()}


def test_the_walk_meets_the_surface() -> None:
    assert {name for name, _, _ in CALLS.values()} >= {
        *("open", "init", "check", "connect", "page", "Archive.get", "Archive.import_files", "Archive.stream"),
        *("Contents.get", "Contents.put", "Records.read", "Connection.set_state", "ArchiveIterator.__init__"),
        *("Archive.remove", "Archive.export", "Archive.query", "Archive.sql", "Archive.compact", "RecordId.parse"),
    }


@pytest.mark.parametrize(("name", "function", "argument"), CALLS.values(), ids=CALLS)
def test_an_argument_of_a_wrong_type(archive: Archive, name: str, function: Any, argument: str) -> None:
    owner, _, method = name.rpartition(".")
    given = GIVEN.get(method, {}) if argument not in GIVEN.get(method, {}) else {}
    instances = {"Archive": archive, "Contents": archive.contents, "Records": archive.records}
    is_bound = inspect.ismethod(function) or not owner
    positional = [] if is_bound else [instances.get(owner)]
    with pytest.raises(UsageError, match=rf"bad argument '{argument}' of .*Wrong.* is Wrong, expected "):
        function(*positional, **{**given, argument: Wrong()})


FIELDS = [
    (kind, each.name)
    for name, kind in {**public(), **OPTIONS}.items()
    if is_dataclass(kind) and name not in VALUES
    for each in fields(kind)
    if (name, each.name) not in UNTYPED
]


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=[f"{kind.__name__}.{field}" for kind, field in FIELDS])
def test_a_field_of_a_wrong_type(kind: Any, field: str) -> None:
    required = REQUIRED.get(kind.__name__, {})
    needed = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}
    assert needed <= set(required)
    with pytest.raises(UsageError, match=rf"bad field '{field}' of {kind.__name__}: .* is Wrong, expected "):
        kind(**{**required, field: Wrong()})


def test_values_are_looked_into(archive: Archive) -> None:
    with pytest.raises(UsageError, match="has values of wrong types"):
        archive.contents.get(ContentKey("v0", "ab"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has values of wrong types"):
        archive.records.read(RecordId("b", "1"))  # type: ignore[arg-type]


def test_elements_are_looked_at(archive: Archive) -> None:
    key = archive.contents.put(b"x")
    with pytest.raises(UsageError, match="bad argument 'keys'"):
        archive.contents.get_batch([key, str(key)])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="bad argument 'exchanges'"):
        archive.add([b"page"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="bad field 'filters'"):
        holdfast.CaptureQuery(url="*", filters="=status:200")  # type: ignore[arg-type]
    assert holdfast.CaptureQuery(url="*", filters=["=status:200"]).filters  # type: ignore[arg-type]


def test_the_message_names_the_repair(archive: Archive) -> None:
    key = archive.contents.put(b"x")
    with pytest.raises(HoldfastError, match=r"of Contents.get: .* is str, expected ContentKey; ContentKey.parse reads"):
        archive.contents.get(str(key))  # type: ignore[arg-type]
    assert archive.contents.get(ContentKey.parse(str(key))) == b"x"
