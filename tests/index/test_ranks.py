"""The file of ranks: its bytes, look-ups, damage, and one generation after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from link_tables import LinkTables

from holdfast.env.files import LocalFiles
from holdfast.errors import DamagedIndex, FormatTooNew, NotFound
from holdfast.index.ranks.ranks import (
    GENERATIONS_KEPT,
    HEAD_BYTES,
    RankColumns,
    Ranks,
    RanksHead,
    generations,
    newest_ranks,
    ranks_of,
    ranks_path,
    update_ranks,
    write_ranks,
)

FILES = LocalFiles()
PAGES = [3, 7, 2**64 - 1]
RANKS = [0.5, 2.0, 0.5]
INLINKS = [0, 4, 1]
GOLDEN_HEAD = (
    b'HOLDFAST-RANKS/1 %b\n{"generation": 12, "pages": 3, "links": 5, "basis": "1 captures-000001", "crc32": "%b"}'
)


def written(path: Path, pages: list[int], rank: list[float], inlinks: list[int]) -> Ranks:
    columns = RankColumns(np.array(pages, np.uint64), np.array(rank, float), np.array(inlinks, np.uint32))
    write_ranks(FILES, path, RanksHead(12, len(pages), 5, "1 captures-000001"), columns)
    return Ranks(path)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return written(tmp_path / "ranks-000012", PAGES, RANKS, INLINKS)


def test_golden_bytes(ranks: Ranks) -> None:
    raw = ranks.path.read_bytes()
    assert raw[:HEAD_BYTES] == (GOLDEN_HEAD % (b"86943678", b"f5f3dbf5")).ljust(HEAD_BYTES - 1) + b"\n"
    assert raw[HEAD_BYTES:].hex(" ", -8) == (
        "0300000000000000 0700000000000000 ffffffffffffffff "
        "000000000000e03f 0000000000000040 000000000000e03f "
        "0000000004000000 0100000001000000 0000000002000000"
    )


def test_what_is_known_of_pages(ranks: Ranks) -> None:
    rank, inlinks = ranks.of(np.array([7, 8, 2**64 - 1, 0, 7], np.uint64))
    assert rank.tolist() == [2.0, 0.0, 0.5, 0.0, 2.0]
    assert inlinks.tolist() == [4, 0, 1, 0, 4]
    assert ranks.of(np.array([], np.uint64)).rank.tolist() == []


def test_order_and_thresholds(ranks: Ranks) -> None:
    assert ranks.by_rank().tolist() == [7, 3, 2**64 - 1]
    assert ranks.by_rank(1, 1).tolist() == [3]
    assert ranks.by_rank(3).tolist() == []
    assert ranks.above(0.5).tolist() == [7]
    assert ranks.above(0.5, inclusive=True).tolist() == [7, 3, 2**64 - 1]
    assert ranks.above(2.0).tolist() == []


@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.floats(0, 9) | st.sampled_from([0.0, 1.0]), max_size=40), st.data()
)
def test_any_ranks(known: dict[int, float], data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        pages = sorted(known)
        ranks = written(Path(directory) / "ranks-000001", pages, [known[page] for page in pages], [1] * len(pages))
        threshold = data.draw(st.floats(-1, 10) | st.sampled_from([*known.values(), 1.0]))
        by_rank = sorted(pages, key=lambda page: (-known[page], page))
        assert ranks.by_rank().tolist() == by_rank
        assert ranks.above(threshold).tolist() == [page for page in by_rank if known[page] > threshold]
        assert ranks.above(threshold, inclusive=True).tolist() == [p for p in by_rank if known[p] >= threshold]
        asked = data.draw(st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([*pages, 5])))
        assert ranks.of(np.array(asked, np.uint64)).rank.tolist() == [known.get(page, 0.0) for page in asked]
        ranks.verify()


def test_every_flipped_byte_is_noticed(ranks: Ranks) -> None:
    raw = ranks.path.read_bytes()
    for at in range(len(raw)):
        ranks.path.write_bytes(raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :])
        with pytest.raises((DamagedIndex, FormatTooNew)):
            Ranks(ranks.path).verify()


@pytest.mark.parametrize("length", [0, 100, HEAD_BYTES, HEAD_BYTES + 71])
def test_a_file_cut_off_is_noticed_when_it_is_opened(ranks: Ranks, length: int) -> None:
    ranks.path.write_bytes(ranks.path.read_bytes()[:length])
    with pytest.raises(DamagedIndex, match="holdfast index rank"):
        Ranks(ranks.path)


def test_a_later_version_is_left_alone(ranks: Ranks) -> None:
    ranks.path.write_bytes(ranks.path.read_bytes().replace(b"RANKS/1", b"RANKS/2"))
    with pytest.raises(FormatTooNew, match="version 2"):
        Ranks(ranks.path)


# -- generations ----------------------------------------------------------------------------------------------------


def test_ranks_are_computed_when_the_tables_changed(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(1, [2])
    first = tables.tables()
    assert update_ranks(FILES, tmp_path, first).computed
    again = update_ranks(FILES, tmp_path, first)
    assert (again.generation, again.pages, again.links, again.computed) == (1, 2, 1, False)
    assert update_ranks(FILES, tmp_path, first, force=True).generation == 2
    tables.add(2, [3])
    assert update_ranks(FILES, tmp_path, tables.tables()).computed


def test_the_last_generations_are_kept(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(1, [2])
    for _ in range(GENERATIONS_KEPT + 2):
        update_ranks(FILES, tmp_path, tables.tables(), force=True)
    assert generations(FILES, tmp_path) == [3, 4, 5, 6]
    assert ranks_of(tmp_path, 3).by_rank().tolist() == [2, 1]
    with pytest.raises(NotFound, match="generation 2"):
        ranks_of(tmp_path, 2)
    newest = newest_ranks(FILES, tmp_path)
    assert newest is not None and newest.head.generation == 6


def test_damaged_ranks_are_computed_again(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(1, [2])
    same = tables.tables()
    update_ranks(FILES, tmp_path, same)
    damaged = ranks_path(tmp_path, 1)
    for damage in (b"nothing", damaged.read_bytes()[:-1] + b"x"):
        damaged.write_bytes(damage)
        assert update_ranks(FILES, tmp_path, same).computed
        damaged = ranks_path(tmp_path, generations(FILES, tmp_path)[-1])


def test_no_ranks_yet(tmp_path: Path) -> None:
    assert newest_ranks(FILES, tmp_path) is None
    assert newest_ranks(FILES, tmp_path / "nothing") is None


def test_a_page_without_captures_and_links_to_it_vanishes(tmp_path: Path) -> None:
    before, after = LinkTables(tmp_path), LinkTables(tmp_path)
    before.add(1, [2])
    before.add(3, [4])
    after.add(3, [4])
    update_ranks(FILES, tmp_path, before.tables())
    update_ranks(FILES, tmp_path, after.tables(), force=True)
    newest = newest_ranks(FILES, tmp_path)
    assert newest is not None and newest.pages.tolist() == [3, 4]


def test_what_a_killed_computation_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "ranking-abc").mkdir()
    (tmp_path / "ranking-abc" / "sources").write_bytes(b"1234")
    (tmp_path / "ranks-000001.open").write_bytes(b"HOLD")
    tables = LinkTables(tmp_path)
    tables.add(1, [2])
    update_ranks(FILES, tmp_path, tables.tables())
    assert sorted(path.name for path in tmp_path.glob("rank*")) == ["ranks-000001"]


def test_tables_that_cannot_be_read_change_nothing(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(1, [2])
    update_ranks(FILES, tmp_path, tables.tables())
    written = tables.tables()
    written.links[0].write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(DamagedIndex, match="holdfast index build"):
        update_ranks(FILES, tmp_path, written)
    assert sorted(path.name for path in tmp_path.glob("rank*")) == ["ranks-000001"]
