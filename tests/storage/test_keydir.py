"""The keydir: what is written is read back, in one step or not at all, also by a follower."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DamagedKeydir
from holdfast.storage.volumes.log.keydir import (
    Keydir,
    KeydirChange,
    Position,
    SegmentFacts,
    Slot,
    pack_facts,
    pack_position,
    pack_slots,
    unpack_slots,
)

word32 = st.integers(0, 2**32 - 1)
word64 = st.integers(0, 2**64 - 1)
slots = st.builds(
    Slot,
    overflow=word32,
    home=st.binary(max_size=16),
    replica=st.booleans(),
    segment=word32,
    generation=word32,
    offset=word64,
    stored=word64,
    size=word64,
    references=word64,
    count_serial=word64,
    serial=word64,
)
SLOT = Slot(1, b"", False, 2, 3, 4, 5, 6, 7, 8, 9)


@pytest.fixture
def keydir(tmp_path: Path) -> Iterator[Keydir]:
    keydir = Keydir(tmp_path / "keydir", cache_bytes=1 << 20)
    yield keydir
    keydir.close()


def change(**parts: object) -> KeydirChange:
    nothing: dict[str, object] = {"slots": {}, "segments": {}, "position": None}
    return KeydirChange(**(nothing | parts))  # type: ignore[arg-type]


@given(st.lists(slots, max_size=5))
def test_slots_round_trip(given_slots: list[Slot]) -> None:
    assert unpack_slots(pack_slots(given_slots)) == tuple(given_slots)


def test_an_empty_keydir(keydir: Keydir) -> None:
    assert keydir.slots(b"a") == ()
    assert keydir.slots_of([b"a", b"b"]) == [(), ()]
    assert (keydir.segments(), list(keydir.all_slots())) == ({}, [])
    assert keydir.position() == Position()


def test_what_is_written_is_read_back(keydir: Keydir) -> None:
    position, facts = Position(1, 2, 3, 4, 5, 6, 7, 8, 9), SegmentFacts(1, 2, 3, 4, 5, 6, 7)
    other = SLOT._replace(home=b"v7", replica=True)
    keydir.apply(
        change(
            slots={b"b": (SLOT, other), b"a": (SLOT,), b"\xff" * 32: (other,)},
            segments={300: pack_facts(facts), 5: pack_facts(facts)},
            position=pack_position(position),
        )
    )
    assert keydir.slots(b"b") == (SLOT, other)
    assert keydir.slots_of([b"?", b"a"]) == [(), (SLOT,)]
    assert [signature for signature, _ in keydir.all_slots()] == [b"a", b"b", b"\xff" * 32]
    assert list(keydir.segments()) == [5, 300]
    assert keydir.segments()[300] == facts
    assert keydir.position() == position


def test_a_signature_without_slots_and_a_segment_without_facts_are_forgotten(keydir: Keydir) -> None:
    keydir.apply(change(slots={b"a": (SLOT,)}, segments={1: pack_facts(SegmentFacts(0, 1, 1, 96))}))
    keydir.apply(change(slots={b"a": ()}, segments={1: None}))
    assert (keydir.slots(b"a"), list(keydir.all_slots()), keydir.segments()) == ((), [], {})


def test_it_lasts(tmp_path: Path) -> None:
    keydir = Keydir(tmp_path / "keydir", cache_bytes=1 << 20)
    keydir.apply(change(slots={b"a": (SLOT,)}))
    keydir.close()
    keydir = Keydir(tmp_path / "keydir", cache_bytes=1 << 20)
    assert keydir.slots(b"a") == (SLOT,)
    keydir.close()


def test_a_follower_catches_up(keydir: Keydir) -> None:
    keydir.apply(change(slots={b"a": (SLOT,)}))
    follower = Keydir(keydir.path, cache_bytes=1 << 20, follow=True)
    own = follower.mirror
    assert own is not None and own.exists()
    assert follower.slots(b"a") == (SLOT,)
    keydir.apply(change(slots={b"a": (), b"b": (SLOT,)}))
    assert follower.slots(b"a") == (SLOT,)
    follower.catch_up()
    assert (follower.slots(b"a"), follower.slots(b"b")) == ((), (SLOT,))
    follower.close()
    assert not own.exists(), "a follower leaves nothing behind"


def test_a_keydir_that_cannot_be_read_says_how_to_mend_it(tmp_path: Path) -> None:
    Keydir(tmp_path / "keydir", cache_bytes=1 << 20).close()
    (tmp_path / "keydir" / "CURRENT").write_text("MANIFEST-999999\n")
    with pytest.raises(DamagedKeydir, match="run 'holdfast check --repair'"):
        Keydir(tmp_path / "keydir", cache_bytes=1 << 20)


def test_a_keydir_has_its_version_from_the_first_moment_and_refuses_another(tmp_path: Path) -> None:
    keydir = Keydir(tmp_path / "keydir", cache_bytes=1 << 20)
    assert keydir.get(b"v") == b"1"
    keydir.write([(b"v", b"2")])
    keydir.close()
    with pytest.raises(DamagedKeydir, match="another release"):
        Keydir(tmp_path / "keydir", cache_bytes=1 << 20)
