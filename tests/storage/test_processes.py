"""Several processes at one archive: any number read while one writes; a second writer is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from crash_archive import SETTINGS, page
from crash_processes import Peer

import holdfast
from holdfast import Archive, ContentKey, Plan, StoreOptions, StoreSettings, VolumeState
from holdfast.env import REAL
from holdfast.errors import Busy

pytest_plugins = ["crash_fixtures"]


@pytest.fixture(params=["log", "tree", "hash", "hashed-log"])
def path(request: pytest.FixtureRequest, quick: Path) -> Path:
    holdfast.init(quick, Plan(2, request.param, 2, StoreSettings(**SETTINGS)))  # type: ignore[arg-type]
    return quick


@pytest.fixture
def peer(path: Path) -> Iterator[Peer]:
    made = Peer(path)
    yield made
    made.close()


@pytest.fixture
def archive(path: Path) -> Iterator[Archive]:
    with holdfast.open(path) as opened:
        yield opened


def test_what_is_acknowledged_is_seen_at_once_by_others(archive: Archive, peer: Peer) -> None:
    contents = {archive.contents.put(page(number)): page(number) for number in range(60)}
    for number in range(60, 120):  # segments roll on the way
        key = archive.contents.put(page(number))
        contents[key] = page(number)
        peer.expect(key, page(number))
    for key in list(contents)[::2]:
        archive.contents.delete(key)
        assert peer.ask(f"get {key}").startswith("ContentNotFound")
        del contents[key]
    for change in (archive.compact, archive.train, archive.migrate, archive.compact):
        change("v0")
        for key, content in contents.items():
            peer.expect(key, content)
    archive.set_state("v0", VolumeState.WRITABLE)
    key = archive.contents.put(page(199))
    peer.expect(key, page(199))


def test_readers_never_stumble(archive: Archive, peer: Peer) -> None:
    """A process reads all the time; meanwhile threads store and delete, and compactions move everything about."""
    for number in range(40):
        peer.watch(archive.contents.put(page(number)), page(number))

    def work(thread: int) -> None:
        random = Random(thread)
        for number in range(120):
            key = archive.contents.put(page(1000 * (thread + 1) + number))
            if random.random() < 0.8:
                archive.contents.delete(key)

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(work, thread) for thread in range(2)]
        for turn in range(12):
            archive.compact(f"v{turn % 2}")
        for done in working:
            done.result()
    for turn in range(6):
        archive.migrate(f"v{turn % 2}")
        archive.set_state(f"v{turn % 2}", VolumeState.WRITABLE)
        archive.compact(f"v{turn % 2}")
        assert peer.ask("round") == "ok"
    peer.end()


def test_a_reader_finds_what_moved_to_a_volume_it_saw_earlier(quick: Path) -> None:
    """The reader has seen the block leave one volume, but not yet arrive in the other."""
    holdfast.init(quick, Plan(2))
    patient = replace(REAL, monotonic=lambda: 0.0)  # no refresh is ever due
    with holdfast.open(quick) as archive, Archive(quick, read_only=True, env=patient) as reader:
        key = archive.contents.put(b"on the move", StoreOptions(volume="v0"))
        archive.migrate("v0")
        reader.instance.volume("v0").refresh()
        assert reader.contents.get(key) == b"on the move"


def test_checks_by_others_find_nothing_while_one_writes(archive: Archive, peer: Peer) -> None:
    assert peer.ask("checks") == "ok"
    keys: list[ContentKey] = []
    for turn in range(24):
        keys += [archive.contents.put(page(100 * turn + number)) for number in range(20)]
        for key in keys[:: turn % 3 + 2]:
            archive.contents.delete(key)
            keys.remove(key)
        archive.compact(f"v{turn % 2}")
    peer.end()


def test_a_second_writer_is_refused(archive: Archive, path: Path, peer: Peer) -> None:
    for attempt in ("write", "repair"):
        told = peer.ask(attempt)
        assert told.startswith(f"Busy: archive '{path}' is being written by another process (pid {os.getpid()}, ")
        assert told.endswith("wait for it to end, or open the archive for reading")
    key = archive.contents.put(b"still the writer")
    peer.expect(key, b"still the writer")
    with pytest.raises(Busy, match=f"pid {os.getpid()}"):
        holdfast.open(path)


def test_a_killed_writer_leaves_no_lock(path: Path, peer: Peer) -> None:
    assert peer.ask("write") == "ok"
    with pytest.raises(Busy, match=rf"\(pid {peer.process.pid}, "):
        holdfast.open(path)
    peer.kill()
    with holdfast.open(path) as archive:
        archive.contents.put(b"mine now")


def test_a_closed_writer_leaves_no_lock(path: Path, peer: Peer) -> None:
    holdfast.open(path).close()
    assert peer.ask("write") == "ok"
