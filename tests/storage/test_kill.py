"""A process that stores, deletes, compacts, migrates and trains is killed at 300 random moments, in the same archive.

What it had acknowledged is there after each kill, with exact counts; an operation under way has happened or has not.
The moments are drawn as numbers of reports to wait for, so nothing here depends on the clock.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO

import crash_child
import pytest

import holdfast
from holdfast import Archive, ContentKey, Plan, StoreSettings
from holdfast.storage.maintenance.check import CheckOptions

pytest_plugins = ["crash_fixtures"]

SMALL = {"segment_bytes_max": 16_384, "keydir_cache_bytes": 1 << 20, "train_after": 0}
SETTINGS = {  # rounds, volumes, organization, replicas
    "two log volumes": (120, 2, "log", 1),
    "three log volumes, two replicas": (80, 3, "log", 2),
    "two tree volumes": (40, 2, "tree", 1),
    "two hash volumes": (30, 2, "hash", 1),
    "two hashed-log volumes": (30, 2, "hashed-log", 1),
}


@dataclass(slots=True)
class Model:
    """References by content and contentkey, and who holds them: only a holder deletes."""

    references: Counter[tuple[int, str]] = field(default_factory=Counter)
    held: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)  # of contents, by contentkey
    under_way: dict[str, list[str]] = field(default_factory=dict)  # by thread

    def hear(self, line: str) -> None:
        """A report of the child."""
        what, thread, *words = line.split()
        if what == "begin":
            self.under_way[thread] = words
        elif what == "done":
            del self.under_way[thread]
            if words[0] == "put":
                self._put(thread, int(words[1]), words[2])
            elif words[0] == "delete":
                self._delete(thread, words[1])
        else:
            pytest.fail(line.replace("\\n", "\n"))

    def _put(self, thread: str, number: int, key: str) -> None:
        self.numbers[key] = number
        self.references[number, key] += 1
        self.held.setdefault(thread, []).append(key)

    def _delete(self, thread: str, key: str) -> None:
        self.references[self.numbers[key], key] -= 1
        self.held[thread].remove(key)

    def settle(self, found: Counter[tuple[int, str]]) -> None:
        """What was under way has happened, or has not: `found` tells, and must leave nothing else unexplained."""
        for thread, (what, *words) in list(self.under_way.items()):
            if what == "put":
                number = int(words[0])
                grown = [each for each in found if each[0] == number and found[each] > self.references[each]]
                if grown:
                    self._put(thread, *grown[0])
            elif what == "delete":
                each = self.numbers[words[0]], words[0]
                if found[each] < self.references[each]:
                    self._delete(thread, words[0])
        under_way = dict(self.under_way)
        self.under_way.clear()
        wrong = self._wrong(found)
        told = [f"content {each} has {found[each]} references, expected {self.references[each]}" for each in wrong]
        assert not wrong, "\n".join([*told, f"under way: {under_way}"])

    def require_acknowledged(self, found: Counter[tuple[int, str]]) -> None:
        """All that was acknowledged is there. What was under way is left open."""
        open_numbers = {int(words[0]) for what, *words in self.under_way.values() if what == "put"}
        open_numbers |= {self.numbers[words[0]] for what, *words in self.under_way.values() if what == "delete"}
        assert {each for each in self._wrong(found) if each[0] not in open_numbers} == set()

    def require_merged(self, found: Counter[tuple[int, str]], doubled: set[int]) -> None:
        """After a repair. Of contents that were kept twice, all keys but one became aliases, each one reference."""
        assert {each for each in self._wrong(found) if each[0] not in doubled} == set()
        for number in doubled:
            kept = {key: self.references[number, key] for each, key in +self.references if each == number}
            told = {key: found[number, key] for each, key in found if each == number}
            assert set(told) == set(kept)
            assert sum(told.values()) in (sum(kept.values()), sum(kept.values()) + len(kept) - 1)

    def _wrong(self, found: Counter[tuple[int, str]]) -> set[tuple[int, str]]:
        return {each for each in found | self.references if found[each] != self.references[each]}


def found_in(archive: Archive) -> Counter[tuple[int, str]]:
    """References by content and contentkey; every content is read."""
    assert archive.instance.down == {}
    found: Counter[tuple[int, str]] = Counter()
    numbers = {crash_child.content(number): number for number in range(crash_child.CONTENTS)}
    for batch in archive.contents.scan():
        for key, content in batch:
            assert archive.contents.get(key) == content
            assert (numbers[content], str(key)) not in found, f"{key} was scanned twice"
            found[numbers[content], str(key)] = archive.contents.stat(key).references
    return found


class Children:
    """Starts children and hears them."""

    def __init__(self, server: subprocess.Popen[str], reports: IO[str]) -> None:
        self._server = server
        self._reports = reports

    def life(self, path: Path, seed: int, model: Model, reports: int) -> None:
        """A child works, and is killed after so many reports."""
        order = {"path": str(path), "seed": seed, "held": model.held}
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        pid = None
        for heard, line in enumerate(self._reports):
            if line.startswith("pid "):
                pid = int(line.split()[1])
            elif line == "end\n":
                return
            else:
                model.hear(line.rstrip("\n"))
            if heard == reports and pid is not None:
                os.kill(pid, signal.SIGKILL)


@contextmanager
def children() -> Iterator[Children]:
    mine, theirs = os.pipe()
    command = [sys.executable, crash_child.__file__, str(theirs)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, pass_fds=[theirs], env=environment) as server:
        os.close(theirs)
        with os.fdopen(mine) as reports:
            yield Children(server, reports)


@pytest.mark.parametrize("name", SETTINGS)
def test_what_was_acknowledged_survives_every_kill(quick: Path, name: str) -> None:
    rounds, volumes, organization, replicas = SETTINGS[name]
    holdfast.init(quick, Plan(volumes, organization, 2, StoreSettings(replicas=replicas, **SMALL)))  # type: ignore[arg-type]
    model, random = Model(), Random(name)
    with children() as living:
        for turn in range(rounds):
            living.life(quick, turn, model, random.choice((1, 5, 20, 60)) + random.randrange(20))
            read_only = turn % 4 != 0
            if organization in ("hash", "tree") and read_only:  # what a kill left in a journal, only a writer applies
                with holdfast.open(quick, read_only=True) as archive:
                    model.require_acknowledged(found_in(archive))
                read_only = False
            with holdfast.open(quick, read_only=read_only) as archive:
                model.settle(found_in(archive))
            if turn % 8 == 0:
                assert holdfast.check(quick).faults == []
    _verify_at_the_end(quick, model, replicas)


def _verify_at_the_end(path: Path, model: Model, replicas: int) -> None:
    """After a last repair, which finishes what kills left undone, all is exact and every content has its copies."""
    holdfast.check(path, CheckOptions(repair=True))
    report = holdfast.check(path, CheckOptions(deep=True))
    assert (report.faults, report.notes) == ([], [])
    doubled = {number for number, keys in Counter(number for number, _ in +model.references).items() if keys > 1}
    with holdfast.open(path) as archive:
        model.require_merged(found_in(archive), doubled)
        for _, key in +model.references:
            assert len(archive.contents.stat(ContentKey.parse(key)).copies) == replicas - 1
        for (number, key), references in (+model.references).items():
            for left in reversed(range(references)):
                assert archive.contents.delete(ContentKey.parse(key)) == left or number in doubled
        assert found_in(archive) == Counter()
        assert all(each.stat is not None and each.stat.replicas == each.stat.blocks == 0 for each in archive.volumes())
    assert holdfast.check(path).clean
