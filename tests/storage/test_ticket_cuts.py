"""The power goes off at every write and sync of a script with tickets: handed in again, every commit has happened once.

As `test_power_cut`, whose world it shares; at every second point, and at all of them with more scripts in `make soak`.
After the cut, the volume is opened, used, compacted, its keydir lost and rebuilt; then all tickets that are not settled
are sent once more, also the one that was under way.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from crash_script import Writer
from crash_world import KeydirFate, World

pytest_plugins = ["crash_fixtures"]

FATES = list(KeydirFate)


def cut_everywhere(root: Path, organization: str, seed: int, every: int) -> None:
    world = World(root, organization)
    steps = Writer(seed, tickets=True).script(commits=16, compact_every=7)
    for fuse in range(1 + seed % every, world.points(steps) + 1, every):
        cut = world.live(steps, fuse)
        random = Random(1000 * fuse + seed)
        fate = FATES[(fuse // every) % len(FATES)]
        disk = cut.files.after_power_cut(random)
        world.restore_keydir(fate, random)
        try:
            found = world.verify(disk, cut.player.possible)
            world.verify_tickets(disk, cut.player, found)
        except BaseException as error:
            error.add_note(f"cut at point {fuse} of seed {seed}, {cut.point}; keydir {fate.value}")
            raise


@pytest.mark.parametrize("organization", ["log", "tree", "hash", pytest.param("hashed-log", marks=pytest.mark.soak)])
def test_a_commit_with_a_ticket_happens_once_wherever_the_cut(quick: Path, organization: str) -> None:
    cut_everywhere(quick, organization, seed=0, every=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.parametrize("organization", ["log", "tree", "hash", pytest.param("hashed-log", marks=pytest.mark.soak)])
def test_many_scripts_with_tickets(quick: Path, organization: str, seed: int) -> None:
    cut_everywhere(quick, organization, seed, every=1)


@pytest.mark.parametrize("organization", ["log", "tree", "hash", pytest.param("hashed-log", marks=pytest.mark.soak)])
def test_a_cut_soon_after_a_kill_and_a_retry(quick: Path, organization: str) -> None:
    """What a killed process left unsynced is built upon by nobody, tickets included."""
    world = World(quick, organization)
    writer = Writer(seed=5, tickets=True)
    before, later = writer.script(commits=6, compact_every=5), writer.script(commits=2, compact_every=9)
    for kill in range(2, world.points(before) + 1, 5):
        killed = world.live(before, kill)
        world.note_kill()
        for fuse in range(1 + kill % 4, 16, 4):
            cut = world.live_again(killed, later, fuse)
            random = Random(1000 * kill + fuse)
            disk = cut.files.after_power_cut(random)
            world.restore_keydir((KeydirFate.SYNCED, KeydirFate.LOST)[fuse % 2], random)
            try:
                found = world.verify(disk, cut.player.possible)
                world.verify_tickets(disk, cut.player, found)
            except BaseException as error:
                error.add_note(f"killed at {kill}, {killed.point}; cut at {fuse}, {cut.point}")
                raise
