"""Imports and removals are killed at random moments and run again: the end is that of an undisturbed run.

The moments are drawn as numbers of writes and syncs to wait for, so nothing here depends on the clock.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from shutil import copytree, rmtree
from typing import IO, Any

import killed_child
import pytest
from archive_warcs import exchange, response, write
from truths import PLAN, assert_exact, assert_sound, captures, import_all, records_of, references, rows
from update_worlds import NOW, seen
from update_worlds import crawl as crawl_pages
from update_worlds import make as make_batched

import holdfast
from holdfast.catalog import CaptureQuery

NEVER = sys.maxsize


class Children:
    """Starts children and hears them."""

    def __init__(self, server: subprocess.Popen[str], reports: IO[str]) -> None:
        self._server = server
        self._reports = reports

    def life(self, reports: int, **order: Any) -> bool:
        """A child works, and is killed after so many reports; returns whether it was done before."""
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        pid = 0
        for heard, line in enumerate(self._reports):
            if line.startswith("pid "):
                pid = int(line.split()[1])
            elif line.startswith("end "):
                return line == "end 0\n"
            elif line.startswith("error"):
                pytest.fail(line.replace("\\n", "\n"))
            if heard == reports:
                with suppress(ProcessLookupError):  # it was done already
                    os.kill(pid, signal.SIGKILL)
        pytest.fail("the server is gone")


@contextmanager
def children() -> Iterator[Children]:
    mine, theirs = os.pipe()
    command = [sys.executable, killed_child.__file__, str(theirs)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, pass_fds=[theirs], env=environment) as server:
        os.close(theirs)
        with os.fdopen(mine) as reports:
            yield Children(server, reports)


def text(number: int, size: int = 400) -> bytes:
    return Random(number).randbytes(size).hex().encode()


def files(quick: Path) -> list[Path]:
    """Three files with contents in common, and large records."""
    made = []
    for number in range(3):
        records: list[bytes] = []
        for n in range(30):
            records += exchange(
                f"http://{number}.example/{n}", text(n % 20 + number), f"2026-01-{number + 1:02d}T00:00:00Z"
            )
            if n % 20 == 7:
                records.append(response(f"http://{number}.example/large/{n}", text(n, 2048) * 3 + text(number)))
        made.append(write(quick / f"{number}.warc.gz", records, "gzip"))
    return made


def test_an_import_that_is_killed_again_and_again(quick: Path) -> None:
    paths = files(quick)
    holdfast.init(quick / "whole", PLAN)
    with holdfast.open(quick / "whole") as whole:
        import_all(whole, *paths, jobs=2)
        expected, counted = rows(whole), references(whole)
        written = {path.name: records_of(whole, path.name) for path in paths}
    kills = 0
    with children() as living:
        for turn in count():
            if kills >= 40:
                break
            path, random = quick / f"archive{turn}", Random(turn)
            holdfast.init(path, PLAN)
            for life in count():
                reports = random.choice((3, 15, 40, 70)) + random.randrange(10)
                if living.life(reports, what="import", path=str(path), files=[str(each) for each in paths]):
                    break
                kills += 1
                if life % 4 == 0:
                    assert_sound(path)
                else:
                    with holdfast.open(path, read_only=True) as reader:
                        for capture in captures(reader)[-9:]:
                            reader.records.of(capture).payload()
            assert_sound(path)
            with holdfast.open(path) as archive:
                assert rows(archive) == expected
                assert references(archive) == counted
                assert {each.name: records_of(archive, each.name) for each in paths} == written
                assert list(path.glob("*.open")) == []


def test_a_removal_that_is_killed(quick: Path) -> None:
    """All or nothing, whenever it happens."""
    (first, *_) = files(quick)
    holdfast.init(quick / "archive", PLAN)
    with holdfast.open(quick / "archive") as archive:
        import_all(archive, first)
        archive.seal("b")
    outcomes = set()
    with children() as living:
        for turn in range(16):
            url, refuse = f"http://0.example/{turn}", turn % 2 == 0
            done = living.life(2 + 4 * turn, what="remove", path=str(quick / "archive"), url=url, refuse=refuse)
            with holdfast.open(quick / "archive") as archive:
                assert_exact(archive)
                left = captures(archive, CaptureQuery(url=url))
                assert len(left) in (0, 1)
                outcomes.add((done, bool(left)))
                if not left:
                    (report,) = import_all(archive, first, batch="c")
                    assert (report.refused > 0) or not refuse
                    assert bool(captures(archive, CaptureQuery(url=url))) is not refuse
                    assert_exact(archive)
    assert outcomes >= {(False, True), (False, False)}
    assert_sound(quick / "archive")


@pytest.mark.parametrize(
    ("keep", "kinds"),
    [("all", ("log", "log", "log")), ("latest", ("log", "log", "log")), ("latest", ("hash", "hash", "hashed-log"))],
)
def test_an_update_that_is_killed_in_every_step(quick: Path, keep: str, kinds: tuple[str, str, str]) -> None:
    """Whatever it was doing, the next run ends as an undisturbed one does; readers see the old state or the new one."""
    begun = make_batched(quick / "begun", keep=keep, organizations=kinds)
    with holdfast.open(begun) as archive:
        crawl_pages(archive, 0, range(6))
        archive.updates.run(NOW)
        crawl_pages(archive, 1, range(3, 9))
    with holdfast.open(copytree(begun, quick / "whole")) as whole:
        before = seen(whole)
        whole.updates.run(NOW)
        after, expected, counted = seen(whole), rows(whole), references(whole)
    steps, outcomes = set(), set()
    with children() as living:
        for kill in count(1, 4):  # a step takes five at least
            path = Path(copytree(begun, quick / f"archive{kill}"))
            if living.life(NEVER, what="update", path=str(path), die=kill):
                break
            with holdfast.open(path, read_only=True) as reader:
                steps.add(reader.updates.status().unfinished)
                found = seen(reader)
                assert found in (before, after) or set(after) < set(found)
                outcomes.add(found == before)
            if kill % 3 == 0:  # and again, at another place
                living.life(NEVER, what="update", path=str(path), die=kill % 11 + 1)
            with holdfast.open(path) as archive:
                archive.updates.run(NOW)
                assert (seen(archive), rows(archive), references(archive)) == (after, expected, counted)
                assert archive.updates.status().unfinished == ""
                assert_exact(archive)
            rmtree(path)
    assert steps >= {"transfer", "index", "switch", "remove", "compact"}
    assert outcomes == {True, False}
