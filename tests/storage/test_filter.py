"""The filter of signatures: it never denies what a volume holds, and a saved one is believed only if it is right."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.env import REAL
from holdfast.storage.store.bloom import BloomFilter, build_filter

NAMES = ["v0", "v1", "v2"]
signatures = st.binary(min_size=1, max_size=32)


def load(path: Path, positions: dict[str, int]) -> BloomFilter | None:
    """The saved filter, if it is sound and of these positions."""
    found = BloomFilter.read(REAL, path)
    return found[0] if found is not None and found[1] == positions and found[0].names == list(positions) else None


def digests(name: str, count: int) -> list[bytes]:
    return [hashlib.sha256(b"%b %d" % (name.encode(), number)).digest() for number in range(count)]


@given(st.lists(st.tuples(signatures, st.sampled_from(NAMES)), max_size=200))
def test_no_false_negatives(pairs: list[tuple[bytes, str]]) -> None:
    filter_ = BloomFilter(NAMES)
    for signature, name in pairs:
        filter_.add([signature], name)
    for signature, name in pairs:
        assert name in filter_.may_hold(signature)
        assert set(filter_.may_hold(signature)) <= set(NAMES)
    asked = [*(signature for signature, _ in pairs), b"stranger"]
    for name in (*NAMES, "another"):
        assert filter_.lacks(asked, name) == [name not in filter_.may_hold(signature) for signature in asked]


@pytest.mark.parametrize("volumes", [1, 8, 9, 32, 33, 64, 65, 200])
def test_any_number_of_volumes(volumes: int) -> None:
    names = [f"v{number}" for number in range(volumes)]
    filter_ = BloomFilter(names)
    for name in names:
        filter_.add([name.encode()], name)
    assert all(name in filter_.may_hold(name.encode()) for name in names)
    if volumes <= 64:
        assert [filter_.may_hold(name.encode()) for name in names] == [[name] for name in names]


def test_few_false_positives() -> None:
    filter_ = build_filter({name: lambda name=name: digests(name, 5_000) for name in NAMES})
    strangers = digests("stranger", 5_000)
    wrong = sum(len(filter_.may_hold(signature)) for signature in strangers)
    assert wrong < len(NAMES) * len(strangers) / 350


def test_an_empty_filter_denies_everything() -> None:
    assert BloomFilter(NAMES).may_hold(b"anything") == []


def test_a_crowded_filter_says_so_and_a_built_one_is_not() -> None:
    filter_ = BloomFilter(NAMES)
    assert not filter_.crowded
    filter_.add(digests("v1", 4_096), "v1")
    assert not filter_.crowded
    filter_.add(digests("v1", 4_200), "v1")
    assert filter_.crowded
    built = build_filter({name: lambda name=name: digests(name, 5_000) for name in NAMES})
    assert not built.crowded
    assert built.keys == 5_000


# -- saving ------------------------------------------------------------------------------------------------------------

POSITIONS = {"v0": 17, "v1": 2**56, "v2": 0}


def saved(path: Path) -> BloomFilter:
    filter_ = build_filter({name: lambda name=name: digests(name, 400) for name in NAMES})
    filter_.save(REAL, path, POSITIONS)
    return filter_


def test_a_saved_filter_comes_back(tmp_path: Path) -> None:
    original = saved(tmp_path / "filters")
    loaded = load(tmp_path / "filters", POSITIONS)
    assert loaded is not None
    assert (loaded.keys, loaded.crowded) == (400, False)
    for name in [*NAMES, "stranger"]:
        for signature in digests(name, 500):
            assert loaded.may_hold(signature) == original.may_hold(signature)
    loaded.add([b"new"], "v1")
    assert loaded.may_hold(b"new") == ["v1"]


def test_no_saved_filter(tmp_path: Path) -> None:
    assert load(tmp_path / "filters", POSITIONS) is None


@pytest.mark.parametrize(
    "positions",
    [
        POSITIONS | {"v1": 3},
        {"v0": 17, "v1": 2**56},
        POSITIONS | {"v3": 0},
        {"v1": 2**56, "v0": 17, "v2": 0},  # another order, other bits
        {},
    ],
)
def test_a_stale_filter_is_not_believed(tmp_path: Path, positions: dict[str, int]) -> None:
    saved(tmp_path / "filters")
    assert load(tmp_path / "filters", positions) is None


def test_a_damaged_filter_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "filters"
    saved(path)
    raw = path.read_bytes()
    for offset in [*range(300), *range(300, len(raw), 997), len(raw) - 1]:
        path.write_bytes(raw[:offset] + bytes([raw[offset] ^ 0x10]) + raw[offset + 1 :])
        assert load(path, POSITIONS) is None, offset
    for length in (0, 5, 20, 200, len(raw) - 1):
        path.write_bytes(raw[:length])
        assert load(path, POSITIONS) is None, length


def test_an_archive_with_a_stale_filter_still_finds_duplicates(make_archive, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    import holdfast
    from holdfast import StoreOptions

    archive = make_archive(3)
    home = archive.contents.put(b"first").volume
    other = next(name for name in NAMES if name != home)
    archive.close()
    old = (archive.path / "filters").read_bytes() if (archive.path / "filters").exists() else b""
    with holdfast.open(archive.path) as archive:
        archive.contents.put(b"second", StoreOptions(volume=other))
    for text in (old, b"", b"HOLDFAST-FILTER/1 00000000\n{}\n"):
        (archive.path / "filters").write_bytes(text)
        with holdfast.open(archive.path) as archive:
            stored = archive.contents.store(b"second")
            assert (stored.duplicate, stored.key.volume) == (True, other)
