"""Killed at any moment, the next update ends what was begun, to the same result."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from index_samples import add, everything, finds, new_archive, pages, reading, update

from holdfast.index import paths
from holdfast.index.index import Index
from holdfast.index.state import read_state

CHILD = """
import sys
import holdfast
from holdfast.index import build
build.COMMIT_RECORDS = 20
with holdfast.open(sys.argv[1], read_only=True) as archive:
    print("begun", flush=True)
    archive.index.build() if sys.argv[2] == "build" else archive.index.update()
"""
# At each of these calls of the writer the process kills itself; they are where something becomes durable.
MOMENTS = ("before words", "after words", "after tables", "after state")
KILLING = """
import os, signal, sys
import holdfast
from holdfast.index import build, state, tables, words
moment, count = sys.argv[2], int(sys.argv[3])
build.COMMIT_RECORDS = 1
def dying(function, when):
    def wrapped(*arguments, **named):
        global count
        if when.startswith("after"):
            found = function(*arguments, **named)
        if when == moment:
            count -= 1
            if count == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return found if when.startswith("after") else function(*arguments, **named)
    return wrapped
words.WordsWriter.commit = dying(dying(words.WordsWriter.commit, "before words"), "after words")
tables.TableWriter.keep = dying(tables.TableWriter.keep, "after tables")
build.write_state = dying(build.write_state, "after state")
with holdfast.open(sys.argv[1], read_only=True) as archive:
    archive.index.update()
"""


@pytest.fixture(scope="module")
def unindexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = new_archive(tmp_path_factory.mktemp("unindexed") / "archive", "workers = 1")
    for batch in range(4):  # frames of their own, so that there are several tasks
        add(path, pages(20, 20 * batch))
    return path


@pytest.fixture(scope="module")
def expected(unindexed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    path = tmp_path_factory.mktemp("expected") / "archive"
    shutil.copytree(unindexed, path)
    update(path)
    with reading(path) as archive:
        return everything(archive.index)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_where_something_becomes_durable(
    moment: str, unindexed: Path, expected: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    shutil.copytree(unindexed, path)
    killed = subprocess.run([sys.executable, "-c", KILLING, str(path), moment, "1"], check=False)
    assert killed.returncode == -signal.SIGKILL
    with reading(path) as archive:
        index = archive.index
        if index.exists:
            reached = {name: end - 1 for name, end in index.state().batches}
            assert len(finds(index, "common")) == sum(reached.values()), "readers see whole commits only"
        index.update()
        assert everything(index) == expected
        assert_nothing_left(index)


def test_killed_while_the_first_files_were_made(unindexed: Path, expected: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "archive"
    shutil.copytree(unindexed, path)
    words = path / "index" / paths.words_name(1)
    words.mkdir(parents=True)
    (words / ".tantivy-writer.lock").touch()
    update(path)
    with reading(path) as archive:
        assert everything(archive.index) == expected


@pytest.mark.parametrize("verb", ["update", "build"])
def test_killed_at_random_moments(verb: str, unindexed: Path, expected: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "archive"
    shutil.copytree(unindexed, path)
    chance = random.Random(verb)
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), verb], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        try:
            child.wait(chance.uniform(0.05, 1.5))
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    with reading(path) as archive:
        archive.index.build() if verb == "build" else archive.index.update()
        assert everything(archive.index) == expected
        assert_nothing_left(archive.index)


def assert_nothing_left(index: Index) -> None:
    """No files but those that count."""
    state = read_state(index.directory, index.env)
    names = {name for name in os.listdir(index.directory) if paths.generation_of(name)}
    assert names == {paths.words_name(state.generation), paths.tables_name(state.generation)}
    listed = {each.name for files in state.tables.values() for each in files}
    assert set(os.listdir(index.directory / paths.tables_name(state.generation))) == listed
