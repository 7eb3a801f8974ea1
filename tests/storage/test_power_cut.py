"""The power goes off at every write and sync: what was acknowledged is there afterwards, and nothing is half done.

A seeded script stores, counts, removes, adopts, trains, seals and compacts, with more commits in the middle of each
compaction. It is played again and again, cut at the next point each time (`holdfast.testing.forgetful_files`). A script
is cut at every point; more of them at some, and at every one where there is time.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from crash_script import Writer
from crash_world import KeydirFate, World

pytest_plugins = ["crash_fixtures"]

LOG_FATES = (KeydirFate.KEPT, KeydirFate.SYNCED, KeydirFate.CUT, KeydirFate.LOST)
SOME, FEW = 5, 9  # every so many-th point; odd, so that all fates come by
PARTS = [
    pytest.param(0, 1, id="0"),
    pytest.param(1, SOME, id="some of 1"),
    pytest.param(2, SOME, id="some of 2"),
    *(pytest.param(part, 1, id=str(part), marks=pytest.mark.soak) for part in (1, 2)),
]


@pytest.mark.parametrize(
    ("organization", "part", "stride"),
    [
        pytest.param("log", 0, 1, id="log-0"),
        pytest.param("hashed-log", 0, FEW, id="hashed-log-few of 0"),
        *(pytest.param("log", part, SOME, id=f"log-some of {part}") for part in (1, 2)),
        *(
            pytest.param(organization, part, 1, id=f"{organization}-{part}", marks=pytest.mark.soak)
            for organization, part in (("log", 1), ("log", 2), ("hashed-log", 0), ("hashed-log", 1), ("hashed-log", 2))
        ),
    ],
)
def test_a_log_survives_a_cut_at_every_point(quick: Path, organization: str, part: int, stride: int) -> None:
    world = World(quick, organization)
    steps = Writer(seed=part).script(commits=26, compact_every=9)
    for fuse in range(stride, world.points(steps) + 1, stride):
        cut = world.live(steps, fuse)
        fate = LOG_FATES[(fuse + part) % len(LOG_FATES)]
        random = Random(1000 * fuse + part)
        disk = cut.files.after_power_cut(random)
        world.restore_keydir(fate, random)
        try:
            world.verify(disk, cut.player.possible)
        except BaseException as error:
            error.add_note(f"cut at point {fuse} of seed {part}, {cut.point}; keydir {fate.value}")
            raise


@pytest.mark.parametrize(("part", "stride"), PARTS)
@pytest.mark.parametrize("organization", ["tree", "hash"])
def test_what_has_no_keydir_survives_a_cut_at_every_point(
    quick: Path, organization: str, part: int, stride: int
) -> None:
    world = World(quick, organization)
    steps = Writer(seed=part).script(commits=26, compact_every=9)
    for fuse in range(stride, world.points(steps) + 1, stride):
        cut = world.live(steps, fuse)
        for seed in range(2):
            disk = cut.files.after_power_cut(Random(1000 * fuse + seed))
            try:
                world.verify(disk, cut.player.possible)
            except BaseException as error:
                error.add_note(f"cut at point {fuse} of seed {part}, {cut.point}")
                raise


@pytest.mark.parametrize("organization", ["log", "tree", "hash", pytest.param("hashed-log", marks=pytest.mark.soak)])
def test_a_cut_soon_after_a_kill(quick: Path, organization: str) -> None:
    """After a kill, what the process wrote is there, but not on the disk: opening must not build on it unsynced."""
    world = World(quick, organization)
    writer = Writer(seed=7)
    before, later = writer.script(commits=7, compact_every=6), writer.script(commits=2, compact_every=9)
    for kill in range(2, world.points(before) + 1, 3):
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
