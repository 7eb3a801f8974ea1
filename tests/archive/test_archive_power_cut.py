"""The power goes off at every write and sync of additions and removals: counters are exact, and nothing is half done.

A script adds records of every size, some that are in already, removes some, seals a batch; it is played again and
again, each time cut at the next point (`holdfast.testing.forgetful_files`). The catalog is kept, thrown back or lost.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from archive_warcs import exchange, record, response
from power_world import Add, Fate, Life, Remove, Seal, Step, World

FATES = list(Fate)


def text(number: int, size: int = 300) -> bytes:
    return Random(number).randbytes(size).hex().encode()


def page(number: int, body: int | None = None) -> list[bytes]:
    return exchange(f"http://{number}.example/", text(number if body is None else body))


def large(number: int) -> bytes:
    same = text(number, 2048)  # one piece twice, and another
    return response(f"http://{number}.example/large", same + same + text(number + 1, 1000))


ADDITIONS: list[Step] = [
    Add((*page(1), *page(2), *page(3, 1))),  # several frames in one write
    Add((*page(1), *page(4))),
    Add((large(5),)),
    Add(
        (
            record("metadata", "http://6.example/", b"a: b\r\n"),
            record("request", "http://6.example/", b"GET / HTTP/1.1\r\n\r\n"),
        )
    ),
    Add((large(5), *page(7), *page(8, 7), *page(9), *page(10), *page(11)), "c"),
    Add((*page(12), large(6)), "c"),
]
MANY_FRAMES: list[Step] = [
    Add(tuple(each for number in range(1, 9) for each in page(number))),
    Add(tuple(each for number in range(20, 30) for each in page(number, number % 3))),
]
REMOVALS: list[Step] = [
    Add((*page(1), *page(2), *page(3, 1), *page(4))),
    Add((large(5), *page(6)), "c"),
    Seal("c"),
    Remove("http://1.example/"),
    Remove("http://5.example/large", refuse=True),
    Add(tuple(page(7, 1))),
    Remove("http://2.example/", compact=True),
]


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("steps", [ADDITIONS, REMOVALS], ids=["additions", "removals"])
def test_a_cut_at_every_point(quick: Path, steps: list[Step], part: int) -> None:
    world = World(quick)
    points = world.live(steps, None)[0].points
    for fuse in range(1 + part, points + 1, 3):
        files, life = world.live(steps, fuse)
        fate = FATES[(fuse // 3) % len(FATES)]
        try:
            world.restore(fate)
            world.verify(files.after_power_cut(Random(fuse)), life, steps)
        except BaseException as error:
            error.add_note(f"cut at point {fuse} of {points}, {files.history[-1]}; tables {fate.value}")
            raise


@pytest.mark.parametrize("steps", [ADDITIONS, REMOVALS], ids=["additions", "removals"])
def test_a_cut_while_a_kill_is_settled(quick: Path, steps: list[Step]) -> None:
    """What the killed process had written is there, though not on the disk; the next one is cut while it opens."""
    world = World(quick)
    points = world.live(steps, None)[0].points
    random = Random(5)
    for kill in range(2, points + 1, 4):
        killed, life = world.live(steps, kill)
        world.restore(Fate.KEPT)
        fuse = random.randrange(1, 16)
        files, later = world.live_on(killed, steps, Life(life.acknowledged, life.under_way, life.done), fuse)
        fate = random.choice(FATES)
        try:
            world.restore(fate)
            world.verify(files.after_power_cut(Random(kill)), later, steps)
        except BaseException as error:
            error.add_note(f"killed at {kill}, {killed.history[-1]}; cut at {fuse}, {files.history[-1:]}; {fate.value}")
            raise


def test_a_write_of_many_frames_that_is_torn_in_its_middle(quick: Path) -> None:
    """Sectors of a write reach the disk in any order: sound frames may follow spoiled ones that nobody acknowledged."""
    world = World(quick)
    history = world.live(MANY_FRAMES, None)[0].history
    writes = [number for number, point in enumerate(history, 1) if ".tw.zst" in point]
    for seed in range(40):
        files, life = world.live(MANY_FRAMES, writes[seed % len(writes)])
        fate = FATES[seed % len(FATES)]
        try:
            world.restore(fate)
            world.verify(files.after_power_cut(Random(seed)), life, MANY_FRAMES)
        except BaseException as error:
            error.add_note(f"seed {seed}, {files.history[-1]}; tables {fate.value}")
            raise
