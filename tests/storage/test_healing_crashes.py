"""Healing that is interrupted (N13): by a power cut at every write and sync, and by a kill. Nothing is lost by it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from crash_world import KeydirFate, World

import holdfast
from holdfast import Plan, StoreSettings
from holdfast.errors import DamagedBlock
from holdfast.storage.volume import BlockKey, DamageNoting, Effect, Heal, Refer, Store, Volume
from holdfast.testing.forgetful_files import ForgetfulFiles, PowerCut
from holdfast.testing.volumes import fetched, perform, plain, sign

pytest_plugins = ["crash_fixtures"]

KEY, COPY = BlockKey(sign(1)), BlockKey(sign(2))
FATES = (KeydirFate.KEPT, KeydirFate.SYNCED, KeydirFate.CUT, KeydirFate.LOST)
HARMED, MENDED = b"harmed bytes" * 20, b"sound bytes!" * 20


@pytest.fixture(params=["log", "tree", "hash", "hashed-log"])
def organization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def live(world: World, files: ForgetfulFiles) -> int:
    """Stores, finds damage, heals; returns how many of these steps were acknowledged before the power went."""
    done = 0
    volume: Volume | None = None
    with world.noting_syncs(), suppress(PowerCut):
        volume = world.open(files)
        assert isinstance(volume, DamageNoting)
        volume.commit([Store(KEY.signature, plain(HARMED)), Refer(KEY), Store(COPY.signature, plain(b"other"))])
        done = 1
        volume.note_damaged([KEY, COPY])
        done = 2
        assert perform(volume, Store(KEY.signature, plain(MENDED))).effect is Effect.HEALED
        done = 3
        assert perform(volume, Heal(COPY, plain(b"OTHER"), 0)).effect is Effect.HEALED
        done = 4
        volume.close()
    world.end(volume)
    return done


def test_a_power_cut_at_every_point(quick: Path, organization: str) -> None:
    world = World(quick, organization)
    whole = world.start()
    before = whole.points
    assert live(world, whole) == 4
    for fuse in range(1, whole.points - before + 1):
        files = world.start().copy(fuse)
        done = live(world, files)
        fate, random = FATES[fuse % len(FATES)], Random(fuse)
        disk = files.after_power_cut(random)
        world.restore_keydir(fate, random)
        try:
            verify(world, disk, done)
        except BaseException as error:
            error.add_note(f"cut at point {fuse} after {done} steps, {files.history[-1]}; keydir {fate.value}")
            raise


def verify(world: World, disk: ForgetfulFiles, done: int) -> None:
    with world.opened(disk) as volume:
        found, other = fetched(volume, KEY), fetched(volume, COPY)
        damaged = {
            facts.key for each in volume.probe([KEY.signature, COPY.signature]) for facts in each if facts.damaged
        }
        possible = {0: [None, (HARMED, 1), (HARMED, 2)], 1: [(HARMED, 2)], 2: [(HARMED, 2), (MENDED, 3)]}
        assert found in possible.get(done, [(MENDED, 3)])
        if done == 2 and found == (HARMED, 2):
            assert KEY in damaged, "what is not healed yet is not forgotten"
        if 2 <= done < 4 and other == (b"other", 1):
            assert COPY in damaged
        if done == 4:
            assert other == (b"OTHER", 1)
        if done >= 2:
            assert found is not None
            again = perform(volume, Store(KEY.signature, plain(MENDED)))
            assert again.effect in (Effect.HEALED, Effect.DUPLICATE)
            assert fetched(volume, KEY) == (MENDED, found[1] + 1)
    assert world.faults(disk) == []


CHILD = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as archive:
    for number in range(40):
        stored = archive.contents.store(b"page %d " % number * 50)
        print(number, stored.references, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 7, 23])
def test_a_kill(tmp_path: Path, organization: str, lines: int) -> None:
    path = tmp_path / "a"
    contents = [b"page %d " % number * 50 for number in range(40)]
    holdfast.init(path, Plan(1, organization, store=StoreSettings(codec="none")))
    with holdfast.open(path) as archive:
        keys = [stored.key for stored in archive.contents.store_batch(contents)]
    for file in [each for each in (path / "volumes").rglob("*") if each.is_file() and "keydir" not in each.parts]:
        raw = file.read_bytes()
        for content in contents:
            raw = raw.replace(content, b"X" + content[1:])
        file.write_bytes(raw)
    with holdfast.open(path, read_only=True) as reader:
        for key in keys:
            with pytest.raises(DamagedBlock):
                reader.contents.get(key)
    with subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        told += child.stdout.readlines()
    acknowledged = {int(line.split()[0]) for line in told if line.endswith("\n")}
    assert len(acknowledged) >= lines
    with holdfast.open(path) as archive:
        for number, key in enumerate(keys):
            try:
                assert archive.contents.get(key) == contents[number]
                assert archive.contents.stat(key).references == 2
            except DamagedBlock:
                assert number not in acknowledged
            references = archive.contents.store(contents[number]).references
            assert references == 3 if number in acknowledged else references in (2, 3)
            assert archive.contents.get(key) == contents[number]
    assert holdfast.check(path).faults == []
