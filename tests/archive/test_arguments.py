"""Arguments of wrong types raise errors of the tree, for everything in `holdfast.__all__` (H5)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from itertools import islice
from typing import Any

import pytest

import holdfast
from holdfast import Archive, ContentKey, RecordId
from holdfast.archive.connection import Connection
from holdfast.errors import HoldfastError, UsageError
from holdfast.query.results import QueryOptions
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
INTERNAL = {"env", "store", "journal", "catalog", "contents", "warc_paths", "self", "cls", "kind", "error", "trace"}
UNTYPED = {("Settings", "said")}
GIVEN = {"query": {"text": "words"}}  # what must be there for others to be looked at
REQUIRED: dict[str, dict[str, Any]] = {
    "Exchange": {"url": "http://a.example/", "head": b"", "body": b""},
    "ExportOptions": {"format": "warc"},
    "RemovalOptions": {"reason": "asked"},
    "VolumeSettings": {"name": "v0"},
}
# Called by the package for every record it reads, or with parts of an archive.
BETWEEN_PACKAGES = {
    "Archive.remove_here",
    "Records.entry",
    "Records.stored",
    "Selection.captures",
    "Selection.record_ids",
}


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
        archive.contents.get_batch([key, str(key).encode()])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="bad argument 'exchanges'"):
        archive.add([b"page"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="bad field 'filters'"):
        holdfast.CaptureQuery(url="*", filters=(b"=status:200",))  # type: ignore[arg-type]
    assert holdfast.CaptureQuery(url="*", filters=["=status:200"]).filters  # type: ignore[arg-type]


def test_the_message_names_the_repair(archive: Archive) -> None:
    capture = archive.catalog.lookup("http://a.example/")
    assert capture == []
    with pytest.raises(HoldfastError, match=r"of Records.entries_from: .* is str, expected RecordId; RecordId.parse"):
        archive.records.entries_from("202611-0000000001")  # type: ignore[arg-type]


# -- odd values of the right types ---------------------------------------------------------------------------------

TEXTS = (
    *("", " ", "\0", "\n", "\udc80", "é", "\U0001f600", "x" * 10_000, "*", "%", "nowhere/x"),
    *("http://[", "v0:zz", "v0:" + "ab" * 32, "202611-0000004711", "202611-99999999999", "-1", "20261399"),
)
NUMBERS = (-1, 0, 2**63, 2**64, -(2**70))
FRACTIONS = (-1.0, 0.0, float("nan"), float("inf"))
PIECES = (b"", b"\0", b"x")
USUAL: dict[str, Any] = {
    **dict.fromkeys(("keys", "exchanges", "inputs", "signatures"), ()),
    "url": "http://a.example/",
    "content": b"x",
    "key": "v0:" + "ab" * 32,
    "text": "x",
    "statement": "select 1",
    "query": "*",
    "selection": "*",
    "target": "out.warc",
    "options": "x",
    "batch": "b1",
    "name": "v0",
    "state": "writable",
    "backup": "nowhere",
    "page_id": 1,
    "record": "202611-0000000001",
    "volume": "v1",
    "contents": (),
    "signature": b"ab" * 16,
    "size": 1,
    "path": "out",
    "connector": "nowhere",
    "stream": "nowhere",
}
OPENING = {"open", "init", "check", "connect", "page"}


def odd_values(annotation: object) -> list[Any]:
    text = str(annotation)
    kinds = {"str": TEXTS, "int": NUMBERS, "float": FRACTIONS, "bytes": PIECES, "Buffer": PIECES}
    found = [value for kind, values in kinds.items() if re.search(rf"\b{kind}\b", text) for value in values]
    if "Sequence[" in text:
        found += [(value,) for value in found]
    return found


def odd_calls(archive: Archive) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    things = {"Archive": archive, "Contents": archive.contents, "Records": archive.records}
    for name in {name for name, _, _ in CALLS.values()}:
        owner, _, method = name.rpartition(".")
        if not (owner in things or name in OPENING or name == "ArchiveIterator.__init__"):
            continue
        function = getattr(things[owner], method) if owner in things else getattr(holdfast, owner or name)
        parameters = inspect.signature(function).parameters.values()
        asked = [each for each in parameters if each.name not in {"env", "progress"}]
        usual = {each.name: USUAL.get(each.name) for each in asked if each.default is each.empty}
        for each in asked:
            for value in odd_values(each.annotation):
                yield f"{name}({each.name}={value!r})", function, {**usual, each.name: value}


def test_odd_values_end_in_an_answer_or_an_error_of_the_tree(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    here = archive.path.parent / "here"  # where relative paths lead
    here.mkdir()
    monkeypatch.chdir(here)
    archive.add(holdfast.page("http://a.example/", "words"))
    archive.index.update()
    wrong, count = [], 0
    for label, function, given in odd_calls(archive):
        count += 1
        try:
            answer = function(**given)
            if isinstance(answer, Iterator):
                list(islice(answer, 3))
            if callable(close := getattr(answer, "close", None)):
                close()
        except HoldfastError:
            continue
        except Exception as error:  # what is looked for
            wrong.append(f"{label[:100]}: {error!r:.100}")
    assert wrong == []
    assert count > 1000


PARTS: dict[str, Callable[[Archive, Any], object]] = {
    "url": lambda archive, wrong: archive.catalog.lookup(wrong),
    "options": lambda archive, wrong: archive.updates.run(wrong),
    "capture": lambda archive, wrong: archive.updates.class_of(wrong),
    "containing": lambda archive, wrong: archive.outline().hosts(None, containing=wrong),
    "host": lambda archive, wrong: archive.outline().children(None, wrong),
    "path": lambda archive, wrong: archive.outline().types(None, "a.example", wrong),
    "mime": lambda archive, wrong: archive.outline().of_type(None, "a.example", "/", wrong),
}


@pytest.mark.parametrize("argument", PARTS)
def test_parts_of_an_archive_refuse_wrong_types(archive: Archive, argument: str) -> None:
    with pytest.raises(UsageError, match=f"bad argument '{argument}' of .*Wrong.* is Wrong, expected "):
        PARTS[argument](archive, Wrong())
