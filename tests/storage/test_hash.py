"""The `hash` organization: what its files look like, how buckets overflow, split and shrink, and what streams see."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crash_script import Held, State
from crash_world import World

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL, Environment
from holdfast.errors import DamagedBlock, UsageError, VolumeDown
from holdfast.storage.volume import (
    Adopt,
    BlockKey,
    IdempotencyKey,
    Operation,
    Recount,
    Refer,
    Release,
    ScanPosition,
    Store,
)
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.hash.page import PageId
from holdfast.storage.volumes.hash.volume import Displacements, HashVolume
from holdfast.storage.volumes.organizations import (
    compact_volume,
    create_volume,
    find_organization,
    open_volume,
    open_volume_reader,
    volume_spec,
)
from holdfast.testing.forgetful_files import PowerCut
from holdfast.testing.volumes import fetched, perform, plain, scanned, sign, totals

pytest_plugins = ["crash_fixtures"]

GOLDEN = Path(__file__).parent / "golden" / "hash"
SETTINGS = StoreSettings()


def made(directory: Path, *, buckets: int = 2, bucket_bytes: int = 4096, env: Environment = REAL) -> HashVolume:
    volume = VolumeSettings("v0", "hash", buckets=buckets, bucket_bytes=bucket_bytes)
    create_volume(directory, volume, SETTINGS, env)
    return opened(directory, env)


def opened(directory: Path, env: Environment = REAL) -> HashVolume:
    volume = open_volume("v0", directory, SETTINGS, env)
    assert isinstance(volume, HashVolume)
    return volume


def faults(directory: Path) -> list[str]:
    spec = volume_spec("v0", directory, SETTINGS, REAL)
    return [fault.kind for fault in find_organization("hash").check(spec, CheckProgress())]


def content(number: int, size: int = 300) -> bytes:
    return Random(number).randbytes(size)


def store(number: int, size: int = 300) -> Store:
    return Store(sign(number), plain(content(number, size)))


def key(number: int) -> BlockKey:
    return BlockKey(sign(number))


# -- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["buckets-1", "overflow", "redo"])
def test_golden_bytes(tmp_path: Path, name: str) -> None:
    """As `docs/formats/hash.md` describes them: two buckets, one of them overflowing, and a large block."""
    volume = made(tmp_path, env=Environment(REAL.files, random_bytes=Random(1).randbytes))
    volume.commit([Store(bytes([number]) * 32, plain(b"%d" % number * 300)) for number in range(7)])
    volume.commit([Store(b"\xee" * 32, plain(bytes(range(256)) * 20)), Refer(BlockKey(b"\1" * 32))])
    volume.close()
    assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()


def test_a_person_finds_a_block(tmp_path: Path) -> None:
    volume = made(tmp_path)
    perform(volume, store(1))
    (block,) = volume.fetch([key(1)])
    volume.close()
    assert block is not None
    raw = block.path.read_bytes()[block.offset :]
    assert raw.startswith(b"HOLDFAST/1 block")
    assert raw[320:620] == content(1)


def test_buckets_lie_side_by_side_in_the_order_of_signatures(tmp_path: Path) -> None:
    volume = made(tmp_path, buckets=16)
    volume.commit([store(number, 10) for number in range(60)])
    blocks = [block for batch in volume.scan() for block in batch]
    assert [block.key for block in blocks] == sorted(block.key for block in blocks)
    offsets = [block.offset for block in blocks if block.path.name.startswith("buckets")]
    assert offsets == sorted(offsets)
    volume.close()


@pytest.mark.parametrize(
    "options", [{"buckets": 0}, {"bucket_bytes": 4095}, {"bucket_bytes": 5000}, {"bucket_bytes": 1 << 30}]
)
def test_a_shape_that_makes_no_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"bad (number|size) of buckets"):
        create_volume(tmp_path, VolumeSettings("v0", "hash", **options), SETTINGS, REAL)
    assert not (tmp_path / "VOLUME").exists()


# -- overflowing, growing, shrinking ----------------------------------------------------------------------------------


def test_a_bucket_overflows_and_shrinks_again(tmp_path: Path) -> None:
    """All signatures begin alike: no splitting helps, and chains get long."""
    volume = made(tmp_path)
    signatures = [b"same" + bytes([number]) * 28 for number in range(60)]
    volume.commit([Store(signature, plain(content(7, 900))) for signature in signatures])
    assert volume.stat().disk_bytes > 60 * 900
    assert [each[0].signature for each in scanned(volume)] == signatures
    volume.commit([Release(BlockKey(signature)) for signature in signatures[3:]])
    before = volume.stat()
    compact_volume(volume, 0.0, None)
    after = volume.stat()
    assert after.disk_bytes < before.disk_bytes
    assert after.dead_bytes == 0
    assert [each[0].signature for each in scanned(volume)] == signatures[:3]
    volume.close()
    assert faults(tmp_path) == []


def test_buckets_double_as_the_volume_fills(tmp_path: Path) -> None:
    volume = made(tmp_path, buckets=1)
    expected = {}
    for number in range(200):
        perform(volume, store(number))
        expected[key(number)] = (content(number), 1)
    assert volume.shape.buckets >= 16
    assert {each: (data, references) for each, data, references in scanned(volume)} == expected
    volume.close()
    assert len(list(tmp_path.glob("buckets-*"))) <= 2, "files that were outgrown are gone"
    volume = opened(tmp_path)
    for each, kept in expected.items():
        assert fetched(volume, each) == kept
    volume.close()
    assert faults(tmp_path) == []


def test_large_blocks_come_go_and_move(tmp_path: Path) -> None:
    volume = made(tmp_path)
    sizes = [4000, 5000, 40_000, 3700, 100_000]
    volume.commit([store(number, size) for number, size in enumerate(sizes)])
    volume.commit([Refer(key(2)), Release(key(1))])
    volume.commit([Adopt(BlockKey(sign(4), 0), plain(content(9, 9000)), 3, False)])
    expected = [(content(2, 40_000), 2), (content(9, 9000), 3)]
    assert [fetched(volume, key(number)) for number in (2, 4)] == expected
    before = volume.stat()
    compact_volume(volume, 0.0, None)
    assert [fetched(volume, key(number)) for number in (2, 4)] == expected
    assert volume.stat().disk_bytes < before.disk_bytes - 90_000
    assert totals(volume)[:3] == (4, 0, 7)
    volume.close()
    assert faults(tmp_path) == []


def test_what_was_removed_leaves_the_disk_with_compaction(tmp_path: Path) -> None:
    volume = made(tmp_path)
    secrets = [b"secret %d " % number * 40 for number in range(20)] + [b"large secret " * 2000]
    keys = [perform(volume, Store(sign(("secret", n)), plain(data))).key for n, data in enumerate(secrets)]
    volume.commit([store(number) for number in range(10)])
    volume.commit([Release(each) for each in keys])
    compact_volume(volume, 0.0, None)
    volume.close()
    for path in tmp_path.iterdir():
        assert not path.is_file() or b"secret" not in path.read_bytes(), path


# -- streams ----------------------------------------------------------------------------------------------------------


def test_the_displacement_table() -> None:
    """WebBase, section 3.4: a block moves forward, backward, there and back, away, and within what is not read yet."""
    root, near, far, new = PageId(1, 0), PageId(0, 1), PageId(0, 2), PageId(0, 3)
    a, b, c, d, e = (key(number) for number in range(5))
    stream = Displacements()
    stream.passes(root)
    stream.unread.update([near, far])
    stream.displaced({a: root, b: near, c: far, d: far, e: near}, {a: near, b: root, c: near, d: new}, ())
    assert stream.skips(a), "it moved forward: it was read in its bucket"
    assert stream.missed() == [b, c, d], "e was removed"
    stream.displaced({b: root, c: near, d: new}, {b: far, c: near, d: root}, [near])
    assert stream.unread == {far}
    assert not stream.skips(b), "on the way after all"
    assert stream.skips(b)
    assert stream.missed() == [c, d]


class Mover:
    """Does something in the middle of a sweep, between the reading of buckets and that of their overflow buckets."""

    def __init__(self, volume: HashVolume, move: Callable[[], None]) -> None:
        self._overflows = volume._overflows
        self._move: Callable[[], None] | None = move
        self.moved = 0
        volume._overflows = self._moving  # type: ignore[method-assign]

    def _moving(self, stream: Displacements) -> Any:
        if stream.unread and self._move is not None:
            move, self._move = self._move, None
            move()
            self.moved += 1
        return self._overflows(stream)


def _moves(volume: HashVolume) -> dict[str, Callable[[], object]]:
    kept = range(0, 40, 2)
    others = [number for number in range(40) if number % 2]
    return {
        "room is made": lambda: volume.commit([Release(key(number)) for number in others]),
        "more is stored": lambda: volume.commit([store(number) for number in range(100, 130)]),
        "blocks grow": lambda: volume.commit(
            [Adopt(key(number), plain(content(number, 1500)), 1, False) for number in kept]
        ),
        "compaction": lambda: compact_volume(volume, 0.0, None),
        "removed and stored again": lambda: (
            volume.commit([Release(key(number)) for number in range(40)]),
            volume.commit([store(number) for number in range(40)]),
        ),
    }


@pytest.mark.parametrize(
    "move", ["room is made", "more is stored", "blocks grow", "compaction", "removed and stored again"]
)
def test_a_sweep_delivers_once_whatever_moves_meanwhile(tmp_path: Path, move: str) -> None:
    volume = made(tmp_path, buckets=4)
    volume.commit([store(number) for number in range(40)])
    mover = Mover(volume, lambda: _moves(volume)[move]() and None)
    seen = [each for each, _, _ in scanned(volume)]
    assert mover.moved == 1
    assert len(seen) == len(set(seen))
    assert {key(number) for number in range(0, 40, 2)} <= set(seen) or move == "removed and stored again"
    assert seen == sorted(seen)
    volume.close()
    assert faults(tmp_path) == []


@pytest.mark.parametrize("process", ["the writer", "a reader"])
def test_a_stream_in_pieces_while_everything_moves(tmp_path: Path, process: str) -> None:
    """A piece, a pause in which blocks come, go and move and buckets double, the next piece: all of the start, once."""
    random = Random(process)
    volume = made(tmp_path, buckets=1)
    volume.commit([store(number, random.choice((10, 300, 900, 6000))) for number in range(60)])
    reader = volume if process == "the writer" else open_volume_reader("v0", tmp_path, SETTINGS, REAL)
    start = {key(number) for number in range(60)}
    gone: set[BlockKey] = set()
    seen: list[BlockKey] = []
    place: ScanPosition | None = None
    fresh = iter(range(1000, 9000))
    while batch := next(reader.scan(after=place), None):
        part = batch[: random.randint(1, 5)]
        seen += (block.key for block in part)
        place = part[-1].mark
        changes: list[Operation] = [store(next(fresh), random.choice((10, 300, 900, 6000))) for _ in range(4)]
        removed = random.choice(sorted(start))
        changes += [Recount(removed, 0), *(Refer(each) for each in random.sample(sorted(start), 5))]
        gone.add(removed)
        volume.commit(changes)
        if random.random() < 0.2:
            compact_volume(volume, 0.0, None)
    assert len(seen) == len(set(seen))
    assert start - gone <= set(seen)
    assert volume.shape.buckets > 1
    if reader is not volume:
        reader.close()
    volume.close()


def test_streams_beside_writers(tmp_path: Path) -> None:
    volume = made(tmp_path, buckets=2)
    kept = {key(number) for number in range(80)}
    volume.commit([store(number) for number in range(80)])
    done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for turn in range(40):
                numbers = range(1000 + 10 * turn, 1010 + 10 * turn)
                volume.commit([store(number, 700) for number in numbers])
                volume.commit([Release(key(number)) for number in numbers[::2]])
                volume.commit([Refer(each) for each in kept])
                if turn % 10 == 0:
                    compact_volume(volume, 0.0, None)
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=write)
    thread.start()
    reader = open_volume_reader("v0", tmp_path, SETTINGS, REAL)
    while not done.is_set():
        for each in (volume, reader):
            seen = [found for found, _, _ in scanned(each)]
            assert len(seen) == len(set(seen))
            assert kept <= set(seen)
            for wanted in list(kept)[:10]:
                assert fetched(each, wanted) is not None
    thread.join()
    assert failures == []
    assert scanned(reader) == scanned(volume)
    assert totals(reader) == totals(volume)
    reader.close()
    volume.close()
    assert faults(tmp_path) == []


# -- harm -------------------------------------------------------------------------------------------------------------


def test_a_power_cut_with_large_blocks_and_growing_buckets(quick: Path) -> None:
    """Every second point of a life in which buckets overflow, split and shrink."""
    world = World(quick, "hash")
    sizes = (10, 700, 5000, 300, 9000, 1500)

    def live(fuse: int | None) -> tuple[Any, list[State], str]:
        files = world.start().copy(fuse)
        possible = [State({}, {})]
        volume = None
        try:
            volume = world.open(files)
            for turn in range(10):
                before = possible[-1].blocks
                stores = [store(10 * turn + at, size) for at, size in enumerate(sizes)]
                gone = [each for at, each in enumerate(before) if at % 3 == turn % 3]
                after = {each: held for each, held in before.items() if each not in gone}
                after |= {BlockKey(each.signature): Held(bytes(each.encoded.data), 1, False) for each in stores}
                possible = [possible[-1], State(after, {})]
                volume.commit([*stores, *(Release(each) for each in gone)])
                possible = possible[-1:]
                if turn % 4 == 3:
                    compact_volume(volume, 0.0, None)
            volume.close()
        except PowerCut:
            pass
        world.end(volume)
        return files, possible, files.history[-1]

    points = live(None)[0].points
    for fuse in range(2, points, 2 if points < 300 else 5):
        files, possible, point = live(fuse)
        try:
            world.verify(files.after_power_cut(Random(fuse)), possible)
        except BaseException as error:
            error.add_note(f"cut at point {fuse}, {point}")
            raise


def test_every_byte_of_a_bucket_in_use_matters(tmp_path: Path) -> None:
    volume = made(tmp_path, buckets=1)
    volume.commit([store(1, 40), store(2, 40)])
    volume.close()
    path = tmp_path / "buckets-1"
    sound = path.read_bytes()
    used = len(sound[4096:].rstrip(b"\0"))
    for offset in [*range(92), *range(4096, 4096 + used, 3)]:
        path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 1]) + sound[offset + 1 :])
        assert faults(tmp_path), f"byte {offset} was flipped"


@pytest.mark.parametrize("wrong", [1, 2])
def test_one_damaged_head_costs_nothing(tmp_path: Path, wrong: int) -> None:
    """Blocks of a page whose head is damaged vouch for themselves: they are read.

    One wrong byte the checksum tells, and the next commit writes the page sound again; nothing is built on two.
    """
    volume = made(tmp_path, buckets=1)
    volume.commit([store(number) for number in range(20)])
    expected = scanned(volume)
    bucket = volume.shape.bucket(sign(1))
    volume.close()
    path = tmp_path / f"buckets-{bucket.file}"
    raw = bytearray(path.read_bytes())
    for at in range(wrong):
        raw[4096 + 4096 * bucket.number + 100 + at] ^= 1
    path.write_bytes(raw)
    volume = opened(tmp_path)
    assert scanned(volume) == expected
    assert fetched(volume, key(1)) == (content(1), 1)
    if wrong == 1:
        assert perform(volume, Refer(key(1))).references == 2
        volume.close()
        assert faults(tmp_path) == []
        return
    with pytest.raises(DamagedBlock, match="check --repair"):
        perform(volume, Refer(key(1)))
    volume.close()
    assert "damaged bucket" in faults(tmp_path)
    repair = find_organization("hash").repair(volume_spec("v0", tmp_path, SETTINGS, REAL))
    assert (repair.lost, faults(tmp_path)) == ([], [])
    volume = opened(tmp_path)
    assert scanned(volume) == expected
    assert perform(volume, Refer(key(1))).references == 2
    volume.close()


def test_damage_that_is_found_while_pages_are_changed_fails_that_commit_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket was in the buffer when the commit was decided, and left it before the page was changed."""
    monkeypatch.setattr("holdfast.storage.volumes.hash.volume.BUFFER_BYTES", 0)
    volume = made(tmp_path, buckets=64)
    volume.commit([store(number) for number in range(40)])
    perform(volume, Refer(key(1)))
    bucket = volume.shape.bucket(sign(1))
    with (tmp_path / f"buckets-{bucket.file}").open("r+b") as file:
        file.seek(4096 + 4096 * bucket.number)
        file.write(bytes(400))
    others = [number for number in range(40) if volume.shape.bucket(sign(number)) != bucket]
    with pytest.raises(DamagedBlock, match="check --repair"):
        volume.commit([Refer(key(number)) for number in (1, *others)])
    assert perform(volume, Refer(key(others[0]))).references == 2
    volume.close()
    assert "damaged bucket" in faults(tmp_path)


def test_a_check_sees_pages_that_are_durable_in_the_journal_only(tmp_path: Path) -> None:
    """As another process finds a volume whose writer is between its journal and its pages."""
    volume = made(tmp_path)
    volume.commit([store(1)])
    before = (tmp_path / "buckets-1").read_bytes()
    volume.commit([store(2)])
    after = (tmp_path / "buckets-1").read_bytes()
    (tmp_path / "buckets-1").write_bytes(before)
    assert faults(tmp_path) == []
    (tmp_path / "buckets-1").write_bytes(after)
    volume.close()


def test_without_its_journal_a_volume_is_counted_anew(tmp_path: Path) -> None:
    volume = made(tmp_path, buckets=1)
    volume.commit([store(number, 2000) for number in range(30)])
    expected, counted = scanned(volume), totals(volume)
    volume.close()
    (tmp_path / "redo").unlink()
    with pytest.raises((DamagedBlock, FileNotFoundError)):
        opened(tmp_path)
    find_organization("hash").repair(volume_spec("v0", tmp_path, SETTINGS, REAL))
    assert faults(tmp_path) == []
    volume = opened(tmp_path)
    assert (scanned(volume), totals(volume)) == (expected, counted)
    volume.close()


def test_a_transaction_that_lacks_one_of_its_tickets_never_happened(tmp_path: Path) -> None:
    """Two clients' commits in one group, cut off between their tickets: asked again, each happens once."""
    volume = made(tmp_path / "written")
    shutil.copytree(tmp_path / "written", tmp_path / "cut")  # the pages as they were
    commits = [([store(number)], IdempotencyKey(bytes([number]) * 8, 1)) for number in (1, 2)]
    volume.commit_all(commits)
    journal = (tmp_path / "written" / "redo").read_bytes()
    volume.close()
    assert journal.count(b"HOLDFAST/1 ticket") == 2
    (tmp_path / "cut" / "redo").write_bytes(journal[: journal.rindex(b"HOLDFAST/1 ticket")])
    again = opened(tmp_path / "cut")
    assert again.probe([sign(1), sign(2)]) == [(), ()]
    again.commit_all(commits)
    assert [facts.references for (facts,) in again.probe([sign(1), sign(2)])] == [1, 1]
    again.close()


def test_nothing_is_appended_to_a_journal_that_may_have_been_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename happened and its sync failed: bytes appended to the old file would be gone at the next opening."""

    def failing(_: object, path: Path) -> None:
        raise VolumeDown(f"cannot sync '{path}'")

    volume = made(tmp_path)
    volume.commit([store(1)])
    with monkeypatch.context() as patched:
        patched.setattr(type(REAL.files), "sync_directory", failing)
        with pytest.raises(VolumeDown, match="cannot sync"):
            volume.tidy()
    with pytest.raises(VolumeDown, match="open the archive again"):
        volume.commit([store(2)])
    volume.close()
    again = opened(tmp_path)
    assert [len(facts) for facts in again.probe([sign(1), sign(2)])] == [1, 0]
    again.commit([store(2)])
    again.close()
    assert faults(tmp_path) == []


def test_a_chain_that_grows_while_its_first_page_is_full(tmp_path: Path) -> None:
    """The line for the new page displaces a block, which may fill that very page."""
    random = Random(1)
    volume = made(tmp_path)
    kept = [random.randbytes(random.randrange(1, 3300)) for _ in range(300)]
    for start in range(0, len(kept), 100):
        volume.commit([Store(sign(each), plain(each)) for each in kept[start : start + 100]])
    blocks = volume.fetch([BlockKey(sign(each)) for each in kept])
    assert [bytes(block.encoded.data) if block else None for block in blocks] == kept
    volume.close()
    assert faults(tmp_path) == []
