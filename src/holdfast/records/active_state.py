"""The active state: what streams and queries see under the batch scheme (B8).

    {"format": 1, "generation": 3, "time": "2026-11-17T06:00:00+00:00",
     "batches": {"202610": 120401, "202611": 4712}, "check": "5d3c9a1e"}

For each batch the first serial number that is not in the state; a batch that is not named is not in it at all. The file
`active` is replaced in one step, so that everybody sees the old state or the new one. `check` is a CRC-32 of the rest.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.catalog import Catalog
from holdfast.config import Settings
from holdfast.env import Environment, paths
from holdfast.env.files import read_file, replace_file
from holdfast.env.lock import is_locked
from holdfast.errors import Damaged, FormatTooNew
from holdfast.model import SERIAL_MAX, Capture, RecordId
from holdfast.storage import placement

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ActiveState:
    """A state of the archive: for each batch the first serial number that is not in it."""

    generation: int  # how often there was a switch, the founding included
    time: str  # of the switch
    batches: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __contains__(self, record: RecordId) -> bool:
        return record.serial < self.batches.get(record.batch, 0)


def active_state(root: Path, settings: Settings, env: Environment) -> ActiveState | None:
    """What readers of the archive are to see; None: everything, as under the incremental scheme. Raises Damaged."""
    return read_active(root, env) if settings.store.update == placement.BATCH else None


def read_active(root: Path, env: Environment) -> ActiveState | None:
    """The state in the file; None if there is no file. Raises Damaged or FormatTooNew."""
    path = root / paths.ACTIVE
    try:
        facts = json.loads(read_file(env.files, path))
        if not isinstance(facts, dict):
            raise ValueError("not an active state")
        if isinstance(facts.get("format"), int) and facts["format"] > FORMAT:
            raise FormatTooNew(f"'{path}' has format {facts['format']}; this release reads {FORMAT}: use a later one")
        if facts.pop("check") != _check(facts):
            raise ValueError("wrong checksum")
        return ActiveState(facts["generation"], facts["time"], MappingProxyType(facts["batches"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise Damaged(
            f"cannot read '{path}': {error}; it says what streams and queries see: delete it, and the next process "
            "that writes creates it again, of everything there is"
        ) from None


def write_active(root: Path, state: ActiveState, env: Environment) -> None:
    """The switch: from here on this is what readers see. Durable on return."""
    facts: dict[str, Any] = {
        "format": FORMAT,
        "generation": state.generation,
        "time": state.time,
        "batches": dict(state.batches),
    }
    replace_file(env.files, root / paths.ACTIVE, json.dumps(facts | {"check": _check(facts)}).encode() + b"\n")


def _check(facts: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(facts).encode()):08x}"


_POLL_S = 0.05


@contextmanager
def leased(root: Path, settings: Settings, env: Environment) -> Iterator[ActiveState | None]:
    """The active state, with a lease on it; None under the incremental scheme, where nothing is waited for."""
    while True:
        state = active_state(root, settings, env)
        lease = _take(_path(root, state.generation)) if state is not None else None
        if state is None or state == active_state(root, settings, env):
            break
        _give_back(lease)  # there was a switch in between
    try:
        yield state
    finally:
        _give_back(lease)


def allow_leases(root: Path, generation: int) -> None:
    """Makes the file that readers lock: they may not be permitted to."""
    path = _path(root, generation)
    path.parent.mkdir(exist_ok=True)
    path.touch()


def end_leases(root: Path, generation: int, wait_s: float, env: Environment) -> bool:
    """Waits until nobody holds a lease on an older state than this, at most so long. False: somebody still does."""
    deadline = env.monotonic() + wait_s
    are_over = True
    directory = root / paths.LEASES
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path == _path(root, generation):
            continue
        while (is_held := is_locked(path)) and env.monotonic() < deadline:
            env.sleep(_POLL_S)
        are_over = are_over and not is_held
        path.unlink(missing_ok=True)
    return are_over


def _path(root: Path, generation: int) -> Path:
    return root / paths.LEASES / f"{generation:06d}"


def _take(path: Path) -> int | None:
    """A descriptor that has the shared lock; None if an update no longer waits for readers of this state."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _give_back(lease: int | None) -> None:
    if lease is not None:
        os.close(lease)


_AT_ONCE = 1024  # captures that are looked up together
ABOUT = ("metadata", "conversion")  # types that tell of a page and are not it


class PageClass(StrEnum):
    """What a capture is to the active state."""

    A = "A"
    B = "B"
    C = "C"


class ClassCounts(NamedTuple):
    """How many captures are of each class."""

    a: int
    b: int
    c: int


class ClassifiedPage(NamedTuple):
    """What the versions of a page have in common. The key distinguishes requests by other methods."""

    collection: str
    urlkey: str
    url: str


def page_of(capture: Capture) -> ClassifiedPage:
    return ClassifiedPage(capture.collection, capture.urlkey, capture.url)


def class_of(catalog: Catalog, active: ActiveState | None, capture: Capture) -> PageClass:
    """The class of a capture. Without an active state everything is shown, and nothing is later."""
    if active is None:
        return PageClass.B
    if capture.record not in active:
        return PageClass.C
    later = (each for each in _versions(catalog, page_of(capture)) if each.record not in active)
    return PageClass.A if any(_order(each) > _order(capture) for each in later) else PageClass.B


def count_classes(catalog: Catalog, active: ActiveState | None) -> ClassCounts:
    """Counts all captures. Time and memory grow with the captures added since the state, not with those it shows."""
    total = sum(each.captures for each in catalog.totals()[0].values())
    if active is None:
        return ClassCounts(0, total, 0)
    new = 0
    newest: dict[ClassifiedPage, tuple[str, str]] = {}
    for capture in captures_beyond(catalog, active):
        new += 1
        if capture.type not in ABOUT:
            page = page_of(capture)
            newest[page] = max(newest.get(page, ("", "")), _order(capture))
    old = sum(
        each.record in active and _order(each) < last
        for page, last in newest.items()
        for each in _captures(catalog, page)
    )
    return ClassCounts(old, total - old - new, new)


def captures_beyond(catalog: Catalog, state: ActiveState) -> Iterator[Capture]:
    """The captures that are not in the state, in the order in which they came, batch by batch."""
    for batch in catalog.batches():
        serial = max(1, state.batches.get(batch, 0))
        while found := catalog.rows.of_batch(batch, serial, SERIAL_MAX, _AT_ONCE):
            records = [RecordId(batch, each) for each, _ in found]
            yield from (capture for capture in catalog.rows.of_records(records) if capture is not None)
            serial = records[-1].serial + 1


def _versions(catalog: Catalog, page: ClassifiedPage) -> Iterator[Capture]:
    return (each for each in _captures(catalog, page) if each.type not in ABOUT)


def _captures(catalog: Catalog, page: ClassifiedPage) -> Iterator[Capture]:
    return (each for each in catalog.of_key(page.urlkey, page.collection) if each.url == page.url)


def _order(capture: Capture) -> tuple[str, str]:
    return capture.timestamp, str(capture.record)
