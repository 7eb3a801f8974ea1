"""The tree organization: sig2location as in the paper, and files that a person can follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.env import Environment, LocalFiles
from holdfast.errors import DamagedBlock
from holdfast.storage.signature import SHA256
from holdfast.storage.volume import Adopt, BlockKey, Recount, Refer, Release, Store
from holdfast.storage.volumes.tree.volume import TreeVolume, sig2location
from holdfast.testing.volumes import fetched, perform, plain, probed, scanned, sign, totals

GOLDEN = Path(__file__).parents[1] / "golden"
HELLO = BlockKey(SHA256.digest(b"hello world"))
HELLO_HEX = HELLO.signature.hex().upper()


@pytest.fixture
def volume(volume_at: Callable[..., TreeVolume], tmp_path: Path) -> TreeVolume:
    env = Environment(LocalFiles(), random_bytes=lambda length: (bytes.fromhex("9f3a61c2") * 2)[:length])
    return volume_at(tmp_path, "tree", depth=2, env=env)


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


# -- places ------------------------------------------------------------------------------------------------------------


def test_the_papers_example() -> None:
    """Webstore, figure 4: depth 3, ADEE2232AF3A4355 is found at AD, EE, 2232AF3A4355."""
    assert sig2location(bytes.fromhex("ADEE2232AF3A4355"), 3) == ("AD", "EE", "2232AF3A4355")


@given(st.binary(min_size=1, max_size=32), st.integers(1, 8))
def test_nodes_and_leaf_are_the_signature(signature: bytes, depth: int) -> None:
    *nodes, leaf = sig2location(signature, depth)
    assert "".join([*nodes, leaf]) == signature.hex().upper()
    assert len(nodes) == min(depth - 1, len(signature) - 1)
    assert all(len(node) == 2 for node in nodes)
    assert leaf


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_block_files_stand_where_sig2location_says(
    volume_at: Callable[..., TreeVolume], tmp_path: Path, depth: int
) -> None:
    volume = volume_at(tmp_path, "tree", depth=depth)
    location = "/".join(sig2location(sign(1), depth))
    store = Store(sign(1), plain(b"abc"), force_new=True)
    volume.commit([store, store, Adopt(BlockKey(sign(1), 4, b"v-7"), plain(b"abc"), 1, True)])
    assert files(tmp_path / "tree") == sorted([location, f"{location}~1", f"{location}~4@v-7"])
    assert {volume.signature_of(path) for path in volume.all_paths()} == {sign(1)}


def test_a_signature_that_begins_another_is_not_taken_for_it(volume: TreeVolume) -> None:
    long, short = b"\xad\xee\x22", b"\xad\xee"
    perform(volume, Store(long, plain(b"long")))
    assert (probed(volume, short), fetched(volume, BlockKey(short))) == (set(), None)


# -- bytes -------------------------------------------------------------------------------------------------------------


def test_a_block_file_is_golden(volume: TreeVolume, tmp_path: Path) -> None:
    perform(volume, Store(HELLO.signature, plain(b"hello world")))
    path = tmp_path / "tree" / HELLO_HEX[:2] / HELLO_HEX[2:]
    assert path.read_bytes() == (GOLDEN / "block.txt").read_bytes()
    perform(volume, Refer(HELLO))
    assert path.read_bytes() == (GOLDEN / "block.txt").read_bytes() + (GOLDEN / "count.txt").read_bytes()
    assert (tmp_path / "VOLUME").read_bytes() == (GOLDEN / "volume-tree.txt").read_bytes()


def test_counts_are_folded_into_the_header(volume: TreeVolume) -> None:
    perform(volume, Store(HELLO.signature, plain(b"hello world")))
    assert volume.compact(None).files == 0
    for _ in range(3):
        perform(volume, Refer(HELLO))
    done = volume.compact(None)
    assert (done.files, done.bytes_before, done.bytes_after) == (1, 4 * 320 + 11, 320 + 11)
    assert volume.path(HELLO).stat().st_size == 320 + 11
    assert fetched(volume, HELLO) == (b"hello world", 4)
    assert perform(volume, Release(HELLO)).references == 3


def test_a_replica_stays_one_when_folded(volume: TreeVolume) -> None:
    copy = HELLO._replace(home=b"v7")
    perform(volume, Adopt(copy, plain(b"hello world"), 1, True))
    perform(volume, Recount(copy, 2))
    volume.compact(None)
    assert totals(volume) == (0, 1, 0, 0, 0, 0)
    assert fetched(volume, copy) == (b"hello world", 2)


@pytest.mark.parametrize("length", [1, 100, 319])
def test_a_torn_count_was_never_acknowledged(volume: TreeVolume, length: int) -> None:
    perform(volume, Store(HELLO.signature, plain(b"hello world")))
    path = volume.path(HELLO)
    with path.open("ab") as file:
        file.write((GOLDEN / "count.txt").read_bytes()[:length])
    assert fetched(volume, HELLO) == (b"hello world", 1)
    assert perform(volume, Refer(HELLO)).references == 2
    assert fetched(volume, HELLO) == (b"hello world", 2)
    assert path.stat().st_size == 320 + 11 + 320


def test_removing_leaves_no_file(volume: TreeVolume, tmp_path: Path) -> None:
    perform(volume, Store(HELLO.signature, plain(b"hello world")))
    perform(volume, Release(HELLO))
    assert files(tmp_path / "tree") == []


def test_the_draft_of_a_crash_is_removed(volume_at: Callable[..., TreeVolume], tmp_path: Path) -> None:
    volume_at(tmp_path, "tree").close()
    (tmp_path / "block.open").write_bytes(b"half a block")
    volume = volume_at(tmp_path, "tree")
    assert (files(tmp_path), scanned(volume)) == (["VOLUME", "redo"], [])


def test_every_damaged_byte_of_a_block_is_noticed(volume: TreeVolume) -> None:
    perform(volume, Store(HELLO.signature, plain(b"hello world")))
    path = volume.path(HELLO)
    raw = bytearray(path.read_bytes())
    for offset in range(len(raw)):
        raw[offset] ^= 0x04
        path.write_bytes(raw)
        with pytest.raises(DamagedBlock, match="run 'holdfast check --repair'"):
            volume.fetch([HELLO])
        raw[offset] ^= 0x04
