"""What a process leaves when it is killed, or when its disk is full: nothing that stays, and no error at closing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.env.scratch import ScratchDirectory

READER = """
import sys, holdfast
archive = holdfast.open(sys.argv[1], read_only=True)
archive.get("http://example.com/")
print("ready", flush=True)
sys.stdin.read()
"""
FULL = """
import resource, signal, sys, holdfast
with holdfast.open(sys.argv[1]) as archive:
    for number in range(300):
        archive.add([holdfast.page(f"http://example.com/{number}", b"%d " % number * 100)])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
print("closed", flush=True)
"""


@pytest.fixture
def path(quick: Path) -> Path:
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        archive.add([holdfast.page("http://example.com/", b"page")])
    return quick / "archive"


def run(program: str, *arguments: str | Path, place: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(place)}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)


def test_what_a_killed_reader_left_is_removed_by_the_next_one(path: Path, quick: Path) -> None:
    place = quick / "tmp"
    place.mkdir()
    (place / "holdfast-keydir-mine").mkdir()  # of somebody else
    others = {place / "holdfast-keydir-mine"}
    with run(READER, path, place=place) as killed, run(READER, path, place=place) as living:
        for reader in (killed, living):
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        made = set(place.iterdir()) - others
        assert len(made) == 4, "each has links to a keydir and to a catalog"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        with run(READER, path, place=place) as third:
            third.communicate()
        left = set(place.iterdir()) - others
        assert len(left) == 2
        assert left < made
        assert living.poll() is None
        living.communicate()
    assert set(place.iterdir()) == others


def test_closing_on_a_full_disk(path: Path, quick: Path) -> None:
    with run(FULL, path, place=quick) as process:
        output, errors = process.communicate()
    assert (output, process.returncode) == ("closed\n", 0), errors
    assert holdfast.check(path).clean
    with holdfast.open(path) as archive:
        assert archive.get("http://example.com/299").payload() == b"299 " * 100
        assert sum(1 for _ in archive.search(holdfast.CaptureQuery(url="*"))) == 301


def test_a_scratch_directory(quick: Path) -> None:
    with ScratchDirectory("test") as scratch:
        assert scratch.path.parent == quick
        (scratch.path / "file").write_bytes(b"x")
    assert not scratch.path.exists()
    scratch.remove()
