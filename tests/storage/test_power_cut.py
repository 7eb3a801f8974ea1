"""The power goes off at every write and sync: what was acknowledged is there afterwards, and nothing is half done.

A seeded script stores, counts, removes, adopts, trains, seals and compacts, with more commits in the middle of each
compaction. It is played again and again, each time cut at the next point (see `holdfast.testing.forgetful`).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from crash_script import Writer
from crash_world import KeydirFate, World

pytest_plugins = ["crash_fixtures"]

LOG_FATES = (KeydirFate.KEPT, KeydirFate.SYNCED, KeydirFate.CUT, KeydirFate.LOST)


@pytest.mark.parametrize("part", range(3))
def test_a_log_survives_a_cut_at_every_point(quick: Path, part: int) -> None:
    world = World(quick, "log")
    steps = Writer(seed=part).script(commits=26, compact_every=9)
    for fuse in range(1, world.points(steps) + 1):
        cut = world.live(steps, fuse)
        for fate in LOG_FATES[fuse % 2 :: 2]:
            random = Random(1000 * fuse + part)
            disk = cut.files.after_power_cut(random)
            world.restore_keydir(fate, random)
            try:
                world.verify(disk, cut.player.possible)
            except BaseException as error:
                error.add_note(f"cut at point {fuse} of seed {part}, {cut.point}; keydir {fate.value}")
                raise


@pytest.mark.parametrize("part", range(2))
def test_a_tree_survives_a_cut_at_every_point(quick: Path, part: int) -> None:
    world = World(quick, "tree")
    steps = Writer(seed=part).script(commits=26, compact_every=9)
    for fuse in range(1, world.points(steps) + 1):
        cut = world.live(steps, fuse)
        for seed in range(2):
            disk = cut.files.after_power_cut(Random(1000 * fuse + seed))
            try:
                world.verify(disk, cut.player.possible)
            except BaseException as error:
                error.add_note(f"cut at point {fuse} of seed {part}, {cut.point}")
                raise


@pytest.mark.parametrize("organization", ["log", "tree"])
def test_a_cut_soon_after_a_kill(quick: Path, organization: str) -> None:
    """After a kill, what the process wrote is there, but not on the disk: opening must not build on it unsynced."""
    world = World(quick, organization)
    writer = Writer(seed=7)
    before, later = writer.script(commits=7, compact_every=6), writer.script(commits=2, compact_every=9)
    for kill in range(2, world.points(before) + 1, 2):
        killed = world.live(before, kill)
        world.note_kill()
        for fuse in range(1, 14, 3):
            cut = world.live_again(killed, later, fuse)
            for fate in (KeydirFate.SYNCED, KeydirFate.LOST)[fuse % 2 :][:1]:
                random = Random(1000 * kill + fuse)
                disk = cut.files.after_power_cut(random)
                world.restore_keydir(fate, random)
                try:
                    world.verify(disk, cut.player.possible)
                except BaseException as error:
                    error.add_note(f"killed at {kill}, {killed.point}; cut at {fuse}, {cut.point}; keydir {fate.value}")
                    raise
