"""Readers in other processes, while one imports and removes: they see whole records only, and new ones soon."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest
from archive_warcs import exchange, sha1, write
from truths import PLAN, captures, import_all

import holdfast
from holdfast import Archive
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.errors import CaptureNotFound, ContentNotFound
from holdfast.records.selection import Selection

DO_NOT_COMPACT = RemovalOptions("asked", compact=False)
PROGRAM = """
import signal, sys, time
from truths import captures
from archive_warcs import sha1
import holdfast
from holdfast.errors import CaptureNotFound, ContentNotFound

stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
seen = rounds = 0
with holdfast.open(sys.argv[1], read_only=True) as archive:
    print("ready", flush=True)
    while not stopped:
        for capture in captures(archive):
            try:
                stored = archive.records.of(capture)
                payload = stored.payload()
            except (CaptureNotFound, ContentNotFound):
                assert "removed" in capture.url, capture
                continue
            assert sha1(payload) == capture.digest == stored.capture.digest, capture
            assert len(payload) == capture.size
            raw = b"".join(stored.raw())
            assert raw.endswith(b"\\r\\n\\r\\n") and payload in raw
            seen += 1
        newest = [c for c in captures(archive) if c.url.endswith("/newest")]
        if newest and rounds >= 0:
            print("newest", flush=True)
            rounds = -10**9
        rounds += 1
print("seen", seen, flush=True)
"""


@contextmanager
def reader(path: Path) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, "-c", PROGRAM, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def body(number: int) -> bytes:
    return Random(number).randbytes(500).hex().encode()


def some(quick: Path, number: int, word: str) -> Path:
    records = [r for n in range(60) for r in exchange(f"http://{word}.example/{number}/{n}", body(number * 9 + n % 25))]
    return write(quick / f"{word}{number}.warc.gz", records, "gzip")


def test_readers_while_others_write(quick: Path, archive: Archive) -> None:
    """Imports, removals with compaction, a reindex; at last a capture for which the readers wait."""
    import_all(archive, some(quick, 0, "kept"), some(quick, 0, "removed"))
    with reader(archive.path) as one, reader(archive.path) as other:
        for number in range(1, 4):
            import_all(archive, some(quick, number, "kept"), some(quick, number, "removed"))
            archive.remove(
                Selection(CaptureQuery(url=f"http://removed.example/{number - 1}/*")), RemovalOptions("asked")
            )
        archive.reindex()
        import_all(archive, write(quick / "newest.warc", exchange("http://kept.example/newest", b"at last")))
        assert heard(one) == heard(other) == "newest"
        for process in (one, other):
            process.send_signal(signal.SIGTERM)
            word, seen = heard(process).split()
            assert word == "seen"
            assert int(seen) > 100
            process.wait()
    assert (one.returncode, other.returncode) == (0, 0)


def test_a_reader_in_the_same_process_sees_whole_records(quick: Path) -> None:
    """Threads ask the writer's own archive while it imports and removes."""
    holdfast.init(quick / "archive", PLAN)
    stop, failures = Event(), list[BaseException]()

    def read(archive: Archive) -> None:
        try:
            while not stop.is_set():
                for capture in captures(archive):
                    with suppress(CaptureNotFound, ContentNotFound):  # removed meanwhile
                        assert sha1(archive.records.of(capture).payload()) == capture.digest
        except BaseException as error:
            failures.append(error)

    with holdfast.open(quick / "archive") as archive:
        threads = [Thread(target=read, args=(archive,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        import_all(archive, *[some(quick, number, "kept") for number in range(3)], jobs=2)
        for number in range(12):
            archive.remove(Selection(CaptureQuery(url=f"http://kept.example/0/{number}")), DO_NOT_COMPACT)
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


@pytest.mark.parametrize("fresh", [True, False])
def test_a_follower_is_not_far_behind(quick: Path, archive: Archive, fresh: bool) -> None:
    """What is added is seen at the next refresh, whether the reader asked before or not."""
    with holdfast.open(archive.path, read_only=True) as follower:
        if not fresh:
            assert captures(follower) == []
        import_all(archive, some(quick, 0, "kept"))
        follower.catalog.refresh()
        assert captures(follower) == captures(archive)
        digests = {
            hashlib.sha1(follower.records.of(c).payload(), usedforsecurity=False).digest() for c in captures(follower)
        }
        assert len(digests) == 25
