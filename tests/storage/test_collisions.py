"""Contents that share a signature: with the weak one, nearly all do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Archive, ContentKey, Plan, StoreMode, StoreOptions, StoreSettings
from holdfast.testing.weak_signature import WEAK

MakeArchive = Callable[..., Archive]
REGULAR, COMPARE, FORCE_NEW = map(StoreOptions, StoreMode)
small = st.binary(max_size=4)
many = st.lists(small | st.sampled_from([b"", b"ab", b"ba", b"abc", b"cba", b"bca"]), min_size=1, max_size=25)
shapes = st.tuples(st.integers(1, 3), st.sampled_from(["log", "tree", "hash", "hashed-log"]))


_scratch: Path
_open: dict[tuple[int, str], tuple[Archive, ExitStack]] = {}


@pytest.fixture(scope="module", autouse=True)
def _closed_in_the_end(memory_path: Path) -> Iterator[None]:
    global _scratch  # noqa: PLW0603
    _scratch = memory_path
    yield
    for shape in list(_open):
        _open.pop(shape)[1].close()


@contextmanager
def weak_archive(*shape: Any) -> Iterator[Archive]:
    """An empty archive: a new one, or the one of the last example, which goes on if the example succeeded."""
    archive, stack = _open.pop(shape, None) or _made(*shape)
    try:
        yield archive
        for key in [key for batch in archive.contents.scan() for key, _ in batch]:
            archive.contents.delete_batch([key] * archive.contents.stat(key).references)
        _open[shape] = (archive, stack)
    finally:
        if shape not in _open:
            stack.close()


def _made(volumes: int, organization: str) -> tuple[Archive, ExitStack]:
    stack = ExitStack()
    path = Path(stack.enter_context(TemporaryDirectory(dir=_scratch))) / "archive"
    holdfast.init(path, Plan(volumes, organization, store=StoreSettings(signature="weak")))
    return stack.enter_context(holdfast.open(path)), stack


@settings(max_examples=60)
@given(shapes, many, st.integers(1, 4))
def test_compare_never_confuses_two_contents(shape: tuple[int, str], contents: list[bytes], batch: int) -> None:
    with weak_archive(*shape) as archive:
        keys: dict[bytes, set[ContentKey]] = {}
        for start in range(0, len(contents), batch):
            part = contents[start : start + batch]
            for content, stored in zip(part, archive.contents.store_batch(part, COMPARE), strict=True):
                keys.setdefault(content, set()).add(stored.key)
        assert all(len(found) == 1 for found in keys.values()), "each content once"
        assert len({key for found in keys.values() for key in found}) == len(keys), "and each by itself"
        for content, count in Counter(contents).items():
            (key,) = keys[content]
            assert archive.contents.get(key) == content
            assert archive.contents.stat(key).references == count


@settings(max_examples=40)
@given(shapes, many)
def test_regular_confuses_only_equal_sizes(shape: tuple[int, str], contents: list[bytes]) -> None:
    with weak_archive(*shape) as archive:
        first: dict[tuple[bytes, int], bytes] = {}
        for content in contents:
            known = first.setdefault((WEAK.digest(content), len(content)), content)
            stored = archive.contents.store(content, REGULAR)
            assert archive.contents.get(stored.key) == known
            assert stored.size == len(content) == len(known)
        blocks = sum(report.stat.blocks for report in archive.volumes() if report.stat)
        assert blocks == len(first)


@settings(max_examples=30)
@given(shapes, many)
def test_force_new_always_makes_a_new_block(shape: tuple[int, str], contents: list[bytes]) -> None:
    with weak_archive(*shape) as archive:
        stored = [archive.contents.store(content, FORCE_NEW) for content in contents[: len(contents) // 2]]
        stored += archive.contents.store_batch(contents[len(contents) // 2 :], FORCE_NEW)
        assert len({each.key for each in stored}) == len(contents)
        assert not any(each.duplicate for each in stored)
        assert archive.contents.get_batch([each.key for each in stored]) == contents


@settings(max_examples=40)
@given(shapes, st.lists(st.tuples(st.sampled_from([COMPARE, FORCE_NEW]), small), min_size=1, max_size=25), st.data())
def test_deleting_one_of_many_leaves_the_others(
    shape: tuple[int, str], steps: list[tuple[StoreOptions, bytes]], data: st.DataObject
) -> None:
    with weak_archive(*shape) as archive:
        held: dict[ContentKey, bytes] = {}
        counts: Counter[ContentKey] = Counter()
        for options, content in steps:
            key = archive.contents.put(content, options)
            assert held.setdefault(key, content) == content
            counts[key] += 1
            if data.draw(st.booleans()):
                gone = data.draw(st.sampled_from(sorted(held)))
                counts[gone] -= 1
                assert archive.contents.delete(gone) == counts[gone]
                if not counts[gone]:
                    del held[gone], counts[gone]
            assert archive.contents.get_batch(list(held)) == list(held.values())


# -- by example --------------------------------------------------------------------------------------------------------


def test_overflows_are_numbered(make_archive: MakeArchive) -> None:
    contents = make_archive(1, signature="weak").contents
    words = [bytes(letters) for letters in permutations(b"abcd")]
    keys = [contents.put(word, COMPARE) for word in words]
    assert [key.overflow for key in keys] == list(range(24))
    assert str(keys[7]) == f"v0:{WEAK.digest(b'abcd').hex()}~7"
    assert [contents.put(word, COMPARE) for word in words] == keys
    assert contents.get_batch(keys) == words


def test_compare_finds_a_duplicate_behind_a_collision_in_another_volume(make_archive: MakeArchive) -> None:
    """Both volumes hold a block with this signature, size and number; only the second one is the content."""
    archive = make_archive(2, signature="weak")
    home = f"v{WEAK.digest(b'ab')[0] % 2}"
    (away,) = {"v0", "v1"} - {home}
    archive.contents.put(b"ab", StoreOptions(StoreMode.COMPARE, volume=home))
    archive.contents.put(b"ba", StoreOptions(StoreMode.COMPARE, volume=away))
    stored = archive.contents.store(b"ba", COMPARE)
    assert (stored.duplicate, stored.key.volume, stored.references) == (True, away, 2)
    stored = archive.contents.store(b"ab", COMPARE)
    assert (stored.duplicate, stored.key.volume, stored.references) == (True, home, 2)


@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_replicas_of_colliding_contents(make_archive: MakeArchive, organization: str) -> None:
    contents = make_archive(3, organization=organization, signature="weak").contents
    words = [bytes(letters) for letters in permutations(b"abc")]
    options = StoreOptions(StoreMode.COMPARE, replicas=3)
    keys = [contents.put(word, options) for word in words]
    assert [contents.put(word, options) for word in words] == keys
    assert contents.get_batch(keys) == words
    assert [len(contents.stat(key).copies) for key in keys] == [2] * 6
    for key in keys[::2]:
        contents.delete_batch([key, key])
    assert contents.get_batch(keys[1::2]) == words[1::2]
    assert [contents.stat(key).references for key in keys[1::2]] == [2] * 3


def test_moved_contents_keep_their_numbers_to_themselves(make_archive: MakeArchive) -> None:
    """A new content of the volume they left must not get a key that still leads to one of them."""
    archive = make_archive(2, signature="weak")
    words = [bytes(letters) for letters in permutations(b"abcd")]
    options = StoreOptions(StoreMode.COMPARE, volume="v0")
    keys = [archive.contents.put(word, options) for word in words[:12]]
    archive.migrate("v0", ["v1"])
    archive.set_state("v0", holdfast.VolumeState.WRITABLE)
    assert archive.contents.get_batch(keys) == words[:12]
    assert not {archive.contents.put(word, options) for word in words[12:]} & set(keys)
    assert archive.contents.get_batch(keys) == words[:12]
