"""The intent log: the plan of an addition, so that an interrupted one can be rolled back.

An addition stores contents, then appends records. In between, contents have references that no record holds. Before the
first content is stored, a line with their keys and counters is synced here. If the records of the last line are not all
in the journal when the archive opens for writing, the surplus references are released. So reference counts are exact
after any crash, and removing the last capture of a content removes its bytes (N1, N2).

A line is a JSON object and its CRC-32 in hexadecimal, separated by a space. A torn last line belongs to an addition
that has stored nothing.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.env import Environment, File, paths
from holdfast.env.files import read_file
from holdfast.model import ContentKey
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.put import Announced

log = logging.getLogger("holdfast.archive")

_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class Purpose:
    """The records that an addition will append: `count` of them from serial `first` on."""

    batch: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The last addition that was announced: its records, and the contents with size and counter before it."""

    purpose: Purpose
    announced: tuple[Announced, ...]


class IntentLog:
    """One thread at a time."""

    def __init__(self, root: Path, env: Environment) -> None:
        self._path = root / paths.INTENT
        self._env = env
        self._file: File | None = None
        self._current: object = None  # the addition whose lines belong together

    def announce(self, purpose: Purpose, announced: Sequence[Announced]) -> None:
        """Durable on return. Without contents it says only which records may be torn."""
        facts = {
            "batch": purpose.batch,
            "first": purpose.first,
            "count": purpose.count,
            "contents": [[str(each.key), each.size, each.references] for each in announced],
        }
        self._append(facts)

    def void(self) -> None:
        """The last addition has been rolled back."""
        self._append({"batch": "", "first": 0, "count": 0, "contents": []})

    def _append(self, facts: dict[str, object]) -> None:
        text = json.dumps(facts, separators=(",", ":")).encode()
        file = self._opened()
        addition = facts["batch"], facts["first"]
        if file.size() > _BYTES_MAX and addition != self._current:
            file.truncate(0)
        self._current = addition
        file.append([text, b" %08x\n" % zlib.crc32(text)])
        file.sync()

    def _opened(self) -> File:
        if self._file is None:
            files = self._env.files
            fresh = not files.exists(self._path)
            self._file = files.open(self._path, writable=True, create=fresh)
            if fresh:
                files.sync_directory(self._path.parent)
        return self._file

    def last(self) -> Unfinished | None:
        """The last addition that was announced, finished or not."""
        try:
            lines = read_file(self._env.files, self._path).split(b"\n")
        except FileNotFoundError:
            return None
        parsed = [facts for line in lines if (facts := _parse(line)) is not None]
        if not parsed or not parsed[-1]["batch"]:
            return None
        final = parsed[-1]
        purpose = Purpose(final["batch"], final["first"], final["count"])
        announced: list[Announced] = []
        for facts in reversed(parsed):  # a long record announces its pieces one by one
            if (facts["batch"], facts["first"]) != (purpose.batch, purpose.first):
                break
            pieces = [Announced(ContentKey.parse(key), size, count) for key, size, count in facts["contents"]]
            announced = pieces + announced
        return Unfinished(purpose, tuple(announced))

    def clear(self) -> None:
        """No addition is unfinished."""
        self.close()
        if self._env.files.exists(self._path):
            self._env.files.remove(self._path)
            self._env.files.sync_directory(self._path.parent)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _parse(line: bytes) -> dict[str, Any] | None:
    text, _, checksum = line.rpartition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    facts: dict[str, Any] = json.loads(text)
    return facts if facts.keys() >= {"batch", "first", "count", "contents"} else None


def roll_back(unfinished: Unfinished, held: Iterable[str], contents: Contents) -> int:
    """Releases the references of an unfinished addition that no record holds; returns how many.

    In a volume with several writers a counter does not say whose references they are: it may keep one too many, never
    one too few. `held` lists the contents of the addition's records in the journal, once for each reference.
    """
    kept = Counter(held)
    before: dict[tuple[ContentKey, int], int] = {}
    added: Counter[tuple[ContentKey, int]] = Counter()
    for each in unfinished.announced:
        before.setdefault((each.key, each.size), each.references)
        added[each.key, each.size] += 1
    surplus: list[ContentKey] = []
    for (key, size), count in added.items():
        found = contents.references(key, size)
        if found is not None:
            actual, references = found
            extra = references - before[key, size] - kept[str(actual)]
            if extra > 0 and contents.is_shared(actual):
                log.warning("content %s may have up to %d references too many", actual, min(extra, count))
                continue
            surplus += [actual] * min(max(extra, 0), count)
    if surplus:
        contents.delete_batch(surplus)
    return len(surplus)
