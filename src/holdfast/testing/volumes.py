"""The conformance suite for volumes: what every organization must do.

    class TestMyOrganization(OrganizationConformance):
        def open_volume(self, directory: Path) -> IdempotentVolume:
            return my_open_or_create(directory)

is all that a new organization needs; pytest collects the tests and gives each its own directory. The suite stores
made-up signatures, so that it can make collisions, and never reads a volume's files. `VolumeConformance` is for volumes
without idempotency keys, such as the client of a volume server.

The functions are short forms of calls to a volume, for tests.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.errors import HoldfastError, UsageError
from holdfast.model import OVERFLOW_MAX
from holdfast.storage.volume import (
    Adopt,
    BlockFacts,
    BlockKey,
    Claim,
    DamageNoting,
    Effect,
    Encoded,
    Heal,
    IdempotencyKey,
    IdempotentVolume,
    Operation,
    OperationResult,
    ReadableVolume,
    Recount,
    Refer,
    Release,
    Result,
    ScanPosition,
    Store,
    Volume,
)
from holdfast.storage.volumes.idempotency import CLIENTS_MAX


def sign(name: object) -> bytes:
    """A made-up signature of the length of `sha256`."""
    return hashlib.sha256(repr(name).encode()).digest()


def plain(data: bytes) -> Encoded:
    """A content without encoding."""
    return Encoded("none", 0, len(data), data)


def perform(volume: Volume, operation: Operation) -> OperationResult:
    """The outcome of a commit of one operation."""
    (outcome,) = volume.commit([operation])
    return outcome


def fetched(volume: ReadableVolume, key: BlockKey) -> tuple[bytes, int] | None:
    """Data and counter of a block; None if there is none."""
    (block,) = volume.fetch([key])
    return None if block is None else (bytes(block.encoded.data), block.references)


def scanned(volume: ReadableVolume, after: ScanPosition | None = None) -> list[tuple[BlockKey, bytes, int]]:
    """Key, data and counter of every block after the mark, in the volume's order."""
    blocks = (block for batch in volume.scan(after=after) for block in batch)
    return [(block.key, bytes(block.encoded.data), block.references) for block in blocks]


def marks(volume: ReadableVolume) -> list[ScanPosition]:
    """The mark of every block, in the volume's order."""
    return [block.mark for batch in volume.scan() for block in batch]


def probed(volume: ReadableVolume, signature: bytes) -> set[BlockFacts]:
    (found,) = volume.probe([signature])
    assert len(found) == len(set(found))
    return set(found)


def totals(volume: ReadableVolume) -> tuple[int, ...]:
    """Blocks, replicas, references; content bytes, stored bytes, referenced bytes."""
    stat = volume.stat()
    exact = (stat.blocks, stat.replicas, stat.references)
    return (*exact, stat.content_bytes, stat.stored_bytes, stat.referenced_bytes)


def note_damaged(volume: Volume, keys: list[BlockKey]) -> None:
    assert isinstance(volume, DamageNoting)
    volume.note_damaged(keys)


def fill(volume: Volume) -> list[tuple[BlockKey, bytes, int]]:
    """Stores removed and recounted blocks, overflows, replicas and moved blocks. Returns what is left."""
    stores = [Store(sign(number % 15), plain(b"%d" % number * (number // 15 + 1))) for number in range(45)]
    held = {
        outcome.key: (bytes(store.encoded.data), 1)
        for store, outcome in zip(stores, volume.commit(stores), strict=True)
    }
    for number in range(10):
        key = BlockKey(sign(number), 0, b"v7")
        held[key] = (b"copy", 2)
        perform(volume, Adopt(key, plain(b"copy"), 2, number % 2 == 0))
    for number, (key, (data, references)) in enumerate(list(held.items())):
        counted = references + (1 if number % 4 == 0 else -1)
        held[key] = (data, counted)
        if key.home:  # replicas cannot be counted, only set
            perform(volume, Recount(key, counted))
        else:
            perform(volume, Refer(key) if number % 4 == 0 else Release(key))
    return [(key, data, references) for key, (data, references) in held.items() if references]


THREADS = 8
LARGE_BYTES = 8 << 20


class VolumeConformance(ABC):
    """Tests for every volume. A subclass opens it."""

    @abstractmethod
    def open_volume(self, directory: Path) -> Volume:
        """Opens the volume in the directory for writing; creates an empty one if there is none."""

    @contextmanager
    def opened(self, directory: Path) -> Iterator[Any]:
        volume = self.open_volume(directory)
        try:
            yield volume
        finally:
            volume.close()

    @pytest.fixture
    def volume(self, tmp_path: Path) -> Iterator[Any]:
        with self.opened(tmp_path) as volume:
            yield volume

    # -- storing ------------------------------------------------------------------------------------------------

    def test_a_new_content_is_kept(self, volume: Volume) -> None:
        key = BlockKey(sign(1))
        assert perform(volume, Store(sign(1), plain(b"one"))) == OperationResult(Effect.NEW, key, 1, 3)
        assert fetched(volume, key) == (b"one", 1)
        assert probed(volume, sign(1)) == {BlockFacts(key, False, 3, 3, 1)}

    def test_an_encoded_content_round_trips(self, volume: Volume) -> None:
        given = Encoded("zstd-dict", 0x1A2B3C4D, 5000, b"as small as this")
        outcome = perform(volume, Store(sign(1), given))
        (block,) = volume.fetch([outcome.key])
        assert block is not None
        assert block.encoded._replace(data=bytes(block.encoded.data)) == given
        assert outcome.stored == len(given.data)
        assert probed(volume, sign(1)) == {BlockFacts(outcome.key, False, 5000, 16, 1)}

    def test_a_content_of_equal_signature_and_size_is_a_duplicate(self, volume: Volume) -> None:
        perform(volume, Store(sign(1), plain(b"one")))
        assert perform(volume, Store(sign(1), plain(b"two"))) == OperationResult(
            Effect.DUPLICATE, BlockKey(sign(1)), 2, 3
        )
        assert fetched(volume, BlockKey(sign(1))) == (b"one", 2)

    def test_a_content_of_another_size_gets_the_next_overflow(self, volume: Volume) -> None:
        for overflow in range(12):
            content = plain(bytes(overflow))
            assert perform(volume, Store(sign(1), content)).key == BlockKey(sign(1), overflow)
        for overflow in range(12):
            assert fetched(volume, BlockKey(sign(1), overflow)) == (bytes(overflow), 1)
        assert perform(volume, Store(sign(1), plain(bytes(7)))).key == BlockKey(sign(1), 7)

    def test_force_new_always_makes_a_block(self, volume: Volume) -> None:
        store = Store(sign(1), plain(b"same"), force_new=True)
        outcomes = volume.commit([store, store, store])
        assert [outcome.effect for outcome in outcomes] == [Effect.NEW] * 3
        assert [outcome.key.overflow for outcome in outcomes] == [0, 1, 2]
        assert totals(volume) == (3, 0, 3, 12, 12, 12)
        assert perform(volume, Store(sign(2), plain(b"abc"), references=4)).references == 4
        assert totals(volume) == (4, 0, 7, 15, 15, 24)

    def test_overflow_min_is_respected(self, volume: Volume) -> None:
        high = Store(sign(1), plain(b"a"), force_new=True, overflow_min=10)
        low = Store(sign(1), plain(b"a"), force_new=True, overflow_min=3)
        assert [outcome.key.overflow for outcome in volume.commit([high, low, high])] == [10, 11, 12]

    def test_an_overflow_in_use_is_not_assigned_again(self, volume: Volume) -> None:
        store = Store(sign(1), plain(b"a"), force_new=True)
        volume.commit([store, store, store])
        perform(volume, Release(BlockKey(sign(1), 1)))
        assert perform(volume, store).key.overflow not in (0, 2)
        assert len(probed(volume, sign(1))) == 3

    def test_a_store_that_needs_a_comparison_is_unsure(self, volume: Volume) -> None:
        first, second = BlockKey(sign(1)), BlockKey(sign(1), 1)
        perform(volume, Store(sign(1), plain(b"one")))
        unsure = perform(volume, Store(sign(1), plain(b"two"), compared=frozenset()))
        assert (unsure.effect, unsure.key) == (Effect.UNSURE, first)
        assert fetched(volume, first) == (b"one", 1)
        stored = perform(volume, Store(sign(1), plain(b"two"), compared=frozenset([first])))
        assert (stored.effect, stored.key) == (Effect.NEW, second)
        unsure = perform(volume, Store(sign(1), plain(b"six"), compared=frozenset([first])))
        assert (unsure.effect, unsure.key) == (Effect.UNSURE, second)
        other_size = perform(volume, Store(sign(1), plain(b"three"), compared=frozenset()))
        assert (other_size.effect, other_size.key.overflow) == (Effect.NEW, 2)
        assert totals(volume) == (3, 0, 3, 11, 11, 11)

    def test_empty_and_large_contents(self, tmp_path: Path) -> None:
        large = Random(0).randbytes(LARGE_BYTES)
        with self.opened(tmp_path) as volume:
            volume.commit([Store(sign(0), plain(b"")), Store(sign(1), plain(large)), Store(sign(2), plain(b"x"))])
            assert perform(volume, Store(sign(0), plain(b""))).effect is Effect.DUPLICATE
        with self.opened(tmp_path) as volume:
            assert fetched(volume, BlockKey(sign(0))) == (b"", 2)
            assert fetched(volume, BlockKey(sign(1))) == (large, 1)
            assert sorted(len(data) for _, data, _ in scanned(volume)) == [0, 1, LARGE_BYTES]
            assert totals(volume) == (3, 0, 4, LARGE_BYTES + 1, LARGE_BYTES + 1, LARGE_BYTES + 1)

    def test_a_claim_counts_an_existing_block(self, volume: Volume) -> None:
        assert perform(volume, Claim(sign(1), 3)) == OperationResult(Effect.MISSING, BlockKey(sign(1)))
        volume.commit([Store(sign(1), plain(b"one")), Adopt(BlockKey(sign(2), 0, b"v7"), plain(b"two"), 1, False)])
        assert perform(volume, Claim(sign(1), 3)) == OperationResult(Effect.DUPLICATE, BlockKey(sign(1)), 2, 3)
        assert perform(volume, Claim(sign(1), 4)).effect is Effect.MISSING
        assert perform(volume, Claim(sign(2), 3)).effect is Effect.MISSING, "blocks of other volumes do not count"
        assert totals(volume) == (2, 0, 3, 6, 6, 9)

    def test_claims_of_several_contents_have_separate_results(self, volume: Volume) -> None:
        volume.commit([Store(sign(1), plain(b"one"))])
        here, away = Effect.DUPLICATE, Effect.MISSING
        for wanted, effects in (((2, 3), [away, away]), ((2, 1), [away, here]), ((1, 2), [here, away])):
            outcomes = volume.commit([Claim(sign(number), 3) for number in wanted])
            assert [each.effect for each in outcomes] == effects
        assert fetched(volume, BlockKey(sign(1))) == (b"one", 3)

    # -- counting -----------------------------------------------------------------------------------------------

    def test_references_are_added_and_removed(self, volume: Volume) -> None:
        key = BlockKey(sign(1))
        perform(volume, Store(sign(1), plain(b"abc")))
        assert perform(volume, Refer(key)) == OperationResult(Effect.COUNTED, key, 2, 3)
        assert totals(volume) == (1, 0, 2, 3, 3, 6)
        assert perform(volume, Release(key)) == OperationResult(Effect.COUNTED, key, 1, 3)
        assert perform(volume, Release(key)) == OperationResult(Effect.REMOVED, key, 0, 3)
        assert fetched(volume, key) is None
        assert probed(volume, sign(1)) == set()
        assert totals(volume) == (0,) * 6
        assert perform(volume, Store(sign(1), plain(b"abc"))).effect is Effect.NEW

    def test_a_missing_block_cannot_be_counted(self, volume: Volume) -> None:
        perform(volume, Store(sign(1), plain(b"abc")))
        for key in (BlockKey(sign(2)), BlockKey(sign(1), 1), BlockKey(sign(1), 0, b"v9")):
            for operation in (Refer(key), Release(key), Recount(key, 3), Recount(key, 0, expected=1)):
                outcome = perform(volume, operation)
                assert (outcome.effect, outcome.key) == (Effect.MISSING, key)
        assert totals(volume) == (1, 0, 1, 3, 3, 3)

    def test_recount_sets_the_counter(self, volume: Volume) -> None:
        key = BlockKey(sign(1))
        perform(volume, Store(sign(1), plain(b"abc")))
        assert perform(volume, Recount(key, 7)) == OperationResult(Effect.COUNTED, key, 7, 3)
        conflict = perform(volume, Recount(key, 2, expected=6))
        assert (conflict.effect, conflict.references) == (Effect.CONFLICT, 7)
        assert fetched(volume, key) == (b"abc", 7)
        assert perform(volume, Recount(key, 2, expected=7)).effect is Effect.COUNTED
        assert totals(volume) == (1, 0, 2, 3, 3, 6)
        assert perform(volume, Recount(key, 0, expected=2)).effect is Effect.REMOVED
        assert totals(volume) == (0,) * 6

    def test_operations_of_a_commit_see_earlier_ones(self, volume: Volume) -> None:
        key = BlockKey(sign(1))
        batch: list[Operation] = [
            Refer(key),
            Store(sign(1), plain(b"abc")),
            Store(sign(1), plain(b"xyz")),
            Recount(key, 5, expected=2),
            Release(key),
            Recount(key, 0, expected=4),
            Release(key),
            Store(sign(1), plain(b"new")),
        ]
        effects = [outcome.effect.value for outcome in volume.commit(batch)]
        assert effects == ["missing", "new", "duplicate", "counted", "counted", "removed", "missing", "new"]
        assert (fetched(volume, key), volume.commit([])) == ((b"new", 1), [])

    # -- blocks of other volumes --------------------------------------------------------------------------------

    def test_a_block_is_adopted_under_its_own_key_and_counter(self, volume: Volume) -> None:
        moved = BlockKey(sign(1), 3, b"v7")
        assert perform(volume, Adopt(moved, plain(b"abc"), 5, False)) == OperationResult(Effect.NEW, moved, 5, 3)
        assert probed(volume, sign(1)) == {BlockFacts(moved, False, 3, 3, 5)}
        assert fetched(volume, BlockKey(sign(1), 3)) is None
        assert totals(volume) == (1, 0, 5, 3, 3, 15)
        assert perform(volume, Refer(moved)).references == 6
        own = perform(volume, Store(sign(1), plain(b"abc")))
        assert own == OperationResult(Effect.NEW, BlockKey(sign(1), 0), 1, 3), "other volumes' blocks do not count here"

    def test_a_replica_is_not_a_duplicate(self, volume: Volume) -> None:
        copy = BlockKey(sign(1), 0, b"v7")
        perform(volume, Adopt(copy, plain(b"abc"), 2, True))
        assert totals(volume) == (0, 1, 0, 0, 0, 0)
        assert perform(volume, Store(sign(1), plain(b"abc"), compared=frozenset())).effect is Effect.NEW
        assert perform(volume, Store(sign(1), plain(b"abc"))).key == BlockKey(sign(1))
        assert perform(volume, Recount(copy, 9)).references == 9
        assert totals(volume) == (1, 1, 2, 3, 3, 6)
        assert fetched(volume, copy) == (b"abc", 9)
        assert BlockFacts(copy, True, 3, 3, 9) in probed(volume, sign(1))
        perform(volume, Recount(copy, 0))
        assert totals(volume) == (1, 0, 2, 3, 3, 6)

    def test_adopting_may_name_the_counter_it_replaces(self, volume: Volume) -> None:
        key, data = BlockKey(sign(1), 0, b"v7"), plain(b"abc")
        assert perform(volume, Adopt(key, data, 2, True, expected=1)) == OperationResult(Effect.CONFLICT, key)
        assert perform(volume, Adopt(key, data, 2, True, expected=0)).effect is Effect.NEW
        for expected in (0, 1):
            assert perform(volume, Adopt(key, data, 9, False, expected=expected)).references == 2
        assert perform(volume, Recount(key, 5, replica=False)).effect is Effect.MISSING
        assert perform(volume, Recount(key, 5, expected=2, replica=True)).references == 5
        assert perform(volume, Adopt(key, data, 9, False, expected=5)).effect is Effect.NEW
        assert perform(volume, Adopt(key, data, 1, False, expected=9)).effect is Effect.CONFLICT, "not a replica"
        assert perform(volume, Recount(key, 5, replica=True)).effect is Effect.MISSING
        assert totals(volume) == (1, 0, 9, 3, 3, 27)

    def test_adopting_replaces_a_block(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1), 0, b"v7")
        with self.opened(tmp_path) as volume:
            perform(volume, Adopt(key, plain(b"a copy"), 2, True))
            assert perform(volume, Refer(key)).effect is Effect.MISSING, "replicas are not counted"
            assert perform(volume, Release(key)).effect is Effect.MISSING
            perform(volume, Adopt(key, plain(b"itself"), 8, False))
            assert totals(volume) == (1, 0, 8, 6, 6, 48)
        with self.opened(tmp_path) as volume:
            assert scanned(volume) == [(key, b"itself", 8)]
            assert totals(volume) == (1, 0, 8, 6, 6, 48)

    # -- healing ------------------------------------------------------------------------------------------------

    def test_a_block_known_to_be_damaged_is_healed_by_a_store(self, tmp_path: Path) -> None:
        key, missing = BlockKey(sign(1)), OperationResult(Effect.MISSING, BlockKey(sign(1)))
        with self.opened(tmp_path) as volume:
            volume.commit([Store(sign(1), plain(b"bad")), Refer(key), Store(sign(2), plain(b"other"))])
            note_damaged(volume, [key])
        with self.opened(tmp_path) as volume:
            assert volume.may_be_damaged()
            assert probed(volume, sign(1)) == {BlockFacts(key, False, 3, 3, 2, True)}
            assert perform(volume, Claim(sign(1), 3)) == perform(volume, Refer(key)) == missing
            assert perform(volume, Store(sign(1), plain(b"12"))).effect is Effect.NEW, "another content"
            assert perform(volume, Store(sign(1), plain(b"new"), compared=frozenset())).effect is Effect.UNSURE
            healed, counted = volume.commit([Store(sign(1), plain(b"new")), Store(sign(1), plain(b"new"))])
            assert (healed, counted) == (
                OperationResult(Effect.HEALED, key, 3, 3),
                OperationResult(Effect.DUPLICATE, key, 4, 3),
            )
            assert BlockFacts(key, False, 3, 3, 4) in probed(volume, sign(1))
            assert fetched(volume, key) == (b"new", 4)
        with self.opened(tmp_path) as volume:
            assert perform(volume, Refer(key)) == OperationResult(Effect.COUNTED, key, 5, 3)
            assert (key, b"new", 5) in scanned(volume)
            assert totals(volume) == (3, 0, 7, 10, 10, 22)

    def test_healing_by_key(self, tmp_path: Path) -> None:
        """Blocks under another home, and replicas, whose counter is not theirs."""
        moved, copy, sound = BlockKey(sign(1), 0, b"v7"), BlockKey(sign(2), 3, b"v7"), BlockKey(sign(3))
        with self.opened(tmp_path) as volume:
            volume.commit([Adopt(moved, plain(b"bad"), 5, False), Adopt(copy, plain(b"bad"), 2, True)])
            perform(volume, Store(sign(3), plain(b"abc")))
            note_damaged(volume, [moved, copy])
            assert perform(volume, Heal(copy, plain(b"new"))).effect is Effect.MISSING, "replicas are not counted"
            assert perform(volume, Heal(moved, plain(b"longer"))) == OperationResult(Effect.HEALED, moved, 6, 6)
            assert perform(volume, Heal(copy, plain(b"new"), 0)) == OperationResult(Effect.HEALED, copy, 2, 3)
            assert perform(volume, Heal(sound, plain(b"xyz"))) == OperationResult(Effect.COUNTED, sound, 2, 3)
            assert perform(volume, Heal(sound, plain(b"xyz"), 0)) == OperationResult(Effect.CONFLICT, sound, 2, 3)
            assert perform(volume, Heal(BlockKey(sign(9)), plain(b"x"))).effect is Effect.MISSING
        with self.opened(tmp_path) as volume:
            assert fetched(volume, moved) == (b"longer", 6)
            assert fetched(volume, copy) == (b"new", 2)
            assert fetched(volume, sound) == (b"abc", 2)
            assert totals(volume)[:3] == (2, 1, 8)

    def test_damage_of_a_removed_block_is_forgotten(self, volume: Volume) -> None:
        key = BlockKey(sign(1))
        perform(volume, Store(sign(1), plain(b"bad")))
        note_damaged(volume, [key])
        assert volume.probe([sign(1)])[0][0].damaged
        assert perform(volume, Release(key)).effect is Effect.REMOVED
        perform(volume, Store(sign(1), plain(b"new")))
        assert perform(volume, Claim(sign(1), 3)) == OperationResult(Effect.DUPLICATE, key, 2, 3)

    def test_a_block_written_again_is_sound_for_the_rest_of_its_commit(self, volume: Volume) -> None:
        stored, adopted = BlockKey(sign(1)), BlockKey(sign(2), 0, b"v7")
        volume.commit([Store(sign(1), plain(b"bad")), Adopt(adopted, plain(b"bad"), 1, False)])
        note_damaged(volume, [stored, adopted])
        results = volume.commit(
            [
                *(Release(stored), Store(sign(1), plain(b"new")), Refer(stored)),
                *(Adopt(adopted, plain(b"new"), 1, False), Refer(adopted)),
            ]
        )
        assert [each.effect for each in results] == [
            *(Effect.REMOVED, Effect.NEW, Effect.COUNTED),
            *(Effect.NEW, Effect.COUNTED),
        ]
        assert (fetched(volume, stored), fetched(volume, adopted)) == ((b"new", 2), (b"new", 2))

    # -- reading ------------------------------------------------------------------------------------------------

    def test_results_are_in_the_order_of_the_arguments(self, volume: Volume) -> None:
        assert volume.fetch([BlockKey(sign(1))]) == [None]
        assert volume.probe([sign(1), sign(2)]) == [(), ()]
        assert (volume.fetch([]), volume.probe([])) == ([], [])
        volume.commit([Store(sign(number), plain(b"%d" % number)) for number in range(5)])
        asked = [4, 7, 0, 4, 9, 2]
        blocks = volume.fetch([BlockKey(sign(number)) for number in asked])
        assert [block and bytes(block.encoded.data) for block in blocks] == [b"4", None, b"0", b"4", None, b"2"]
        found = volume.probe([sign(number) for number in asked])
        assert [[facts.size for facts in each] for each in found] == [[1], [], [1], [1], [], [1]]

    def test_a_scan_yields_every_block_once_in_a_stable_order(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            expected = fill(volume)
            first = scanned(volume)
            assert Counter(first) == Counter(expected)
        with self.opened(tmp_path) as volume:
            assert scanned(volume) == first

    def test_a_scan_continues_while_blocks_are_added_and_removed(self, volume: Volume) -> None:
        volume.commit([Store(sign(number), plain(b"%d" % number)) for number in range(700)])
        seen: list[BlockKey] = []
        for number, batch in enumerate(volume.scan()):
            seen += [block.key for block in batch]
            volume.commit([Release(BlockKey(sign(3 * number))), Store(sign(f"new {number}"), plain(b"new"))])
        assert len(seen) == len(set(seen))
        assert {BlockKey(sign(number)) for number in range(700) if number % 3} <= set(seen)

    def test_each_signature_is_listed_once(self, volume: Volume) -> None:
        assert list(volume.signatures()) == []
        expected = {key.signature for key, _, _ in fill(volume)}
        found = list(volume.signatures())
        assert (len(found), set(found)) == (len(expected), expected)

    def test_position_changes_with_the_set_of_blocks(self, volume: Volume) -> None:
        store, copy = Store(sign(1), plain(b"a"), force_new=True), BlockKey(sign(1), 0, b"v7")
        adopt, release = Adopt(copy, plain(b"a"), 1, True), Release(BlockKey(sign(1)))
        operations: list[Operation] = [store, store, adopt, release, Recount(copy, 0)]
        positions = [volume.position()]
        for operation in operations:
            perform(volume, operation)
            positions.append(volume.position())
        assert len(set(positions)) == len(positions)

    # -- lasting ------------------------------------------------------------------------------------------------

    def test_dictionaries_survive_reopening(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            assert volume.dictionary() is None
            assert volume.dictionary(7) is None
            volume.add_dictionary(0xFFFFFFFF, b"first")
            assert volume.dictionary() == (0xFFFFFFFF, b"first")
            volume.add_dictionary(7, b"second")
            assert volume.dictionary() == (7, b"second")
        with self.opened(tmp_path) as volume:
            assert volume.dictionary() == (7, b"second")
            assert volume.dictionary(0xFFFFFFFF) == (0xFFFFFFFF, b"first")
            assert volume.dictionary(8) is None
            assert volume.stat().dictionaries == 2
            assert (totals(volume), scanned(volume), list(volume.signatures())) == ((0,) * 6, [], [])
            volume.add_dictionary(3, b"third")
            assert volume.dictionary() == (3, b"third")

    def test_reopening_keeps_everything(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            expected = fill(volume)
            before = totals(volume)
        for _ in range(3):
            with self.opened(tmp_path) as volume:
                assert totals(volume) == before
                assert [(key, *(fetched(volume, key) or ())) for key, _, _ in expected] == expected
                volume.commit([Refer(expected[0][0]), Release(expected[0][0])])

    def test_threads_share_a_volume_and_counts_stay_exact(self, tmp_path: Path) -> None:
        shared = [Store(sign(number), plain(b"%d" % number)) for number in range(20)]

        def work(thread: int) -> Counter[Effect]:
            own = [Store(sign((thread, number)), plain(b"%d" % number)) for number in range(20)]
            outcomes = [perform(volume, store) for pair in zip(shared, own, strict=True) for store in pair]
            outcomes += volume.commit([Refer(outcome.key) for outcome in outcomes])
            outcomes += volume.commit([Release(BlockKey(store.signature)) for store in own])
            return Counter(outcome.effect for outcome in outcomes)

        with self.opened(tmp_path) as volume, ThreadPoolExecutor(THREADS) as pool:
            effects = sum(pool.map(work, range(THREADS)), Counter[Effect]())
            assert effects[Effect.NEW] == 20 + 20 * THREADS
            assert effects[Effect.DUPLICATE] == 20 * (THREADS - 1)
            size = sum(len(store.encoded.data) for store in shared)
            blocks, bytes_kept = 20 * (1 + THREADS), size * (1 + THREADS)
            expected = (blocks, 0, 60 * THREADS, bytes_kept, bytes_kept, 3 * THREADS * size)
            assert totals(volume) == expected
            for store in shared:
                assert fetched(volume, BlockKey(store.signature)) == (bytes(store.encoded.data), 2 * THREADS)
        with self.opened(tmp_path) as volume:
            assert totals(volume) == expected

    def test_one_thread_removes_the_last_reference(self, volume: Volume) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            perform(volume, Store(sign(1), plain(b"abc"), references=5))
            outcomes = list(pool.map(lambda _: perform(volume, Release(BlockKey(sign(1)))), range(THREADS)))
            effects = Counter(outcome.effect.value for outcome in outcomes)
            assert effects == {"counted": 4, "removed": 1, "missing": THREADS - 5}

    # -- marks ----------------------------------------------------------------------------------------------------

    def test_a_scan_resumes_after_any_position(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            fill(volume)
            whole, places = scanned(volume), marks(volume)
            assert len(whole) == len(places) > 20
            for number, place in enumerate(places, 1):
                assert scanned(volume, place) == whole[number:]
        with self.opened(tmp_path) as volume:
            for number, place in enumerate(marks(volume), 1):
                assert scanned(volume, place) == whole[number:]

    def test_a_scan_resumes_after_a_removed_block(self, volume: Volume) -> None:
        fill(volume)
        whole, places = scanned(volume), marks(volume)
        gone = range(2, len(places), 3)
        volume.commit([Recount(places[number].key, 0) for number in gone])
        left = [(number, each) for number, each in enumerate(whole) if number not in gone]
        for number, place in enumerate(places):
            assert scanned(volume, place) == [each for at, each in left if at > number]

    def test_a_scan_in_parts_yields_every_block_once(self, volume: Volume) -> None:
        volume.commit([Store(sign(number), plain(b"%d" % number)) for number in range(40)])
        seen: list[BlockKey] = []
        place: ScanPosition | None = None
        while batch := next(volume.scan(after=place), None):
            seen += (block.key for block in batch[:7])
            place = batch[:7][-1].mark
        assert Counter(seen) == Counter(BlockKey(sign(number)) for number in range(40))


ONE, OTHER = b"client-1", b"client-2"
TICKET_THREADS = 4


def a_bit_of_everything() -> list[Operation]:
    """Operations with outcomes of every effect but healing; they leave two blocks, with 3 and 2 references."""
    key, copy = BlockKey(sign(1)), BlockKey(sign(2), 7, b"sixteen-chars-ab")
    return [
        Store(sign(1), plain(b"one")),
        Store(sign(1), plain(b"two")),
        Store(sign(1), plain(b"two"), compared=frozenset()),
        Refer(key),
        Adopt(copy, plain(b"copy"), 2, True),
        Recount(copy, 9, expected=3),
        Recount(key, 4, expected=3),
        Release(key),
        Store(sign(3), plain(b"")),
        Release(BlockKey(sign(3))),
        Refer(BlockKey(sign(3))),
    ]


class OrganizationConformance(VolumeConformance):
    """Tests for every organization: also of commits with idempotency keys, which happen once."""

    @abstractmethod
    def open_volume(self, directory: Path) -> IdempotentVolume:
        """As `VolumeConformance`."""

    # -- once -----------------------------------------------------------------------------------------------------

    def test_a_commit_with_an_idempotency_key_happens_once(self, tmp_path: Path) -> None:
        idempotency_key, operations = IdempotencyKey(ONE, 1), a_bit_of_everything()
        with self.opened(tmp_path) as volume:
            first = volume.commit(operations, idempotency_key)
            assert {outcome.effect for outcome in first} == set(Effect) - {Effect.HEALED}
            before = totals(volume)
            assert volume.commit(operations, idempotency_key) == first
            assert volume.commit([], idempotency_key) == first, "what counts is the ticket"
            assert (totals(volume), fetched(volume, BlockKey(sign(1)))) == (before, (b"one", 3))
        for _ in range(2):
            with self.opened(tmp_path) as volume:
                assert volume.commit(operations, idempotency_key) == first
                assert totals(volume) == before

    def test_a_block_is_healed_once(self, tmp_path: Path) -> None:
        key, idempotency_key = BlockKey(sign(1)), IdempotencyKey(ONE, 1)
        heal: list[Operation] = [Heal(key, plain(b"new")), Refer(key)]
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"bad")))
            note_damaged(volume, [key])
            first = volume.commit(heal, idempotency_key)
            assert first == [OperationResult(Effect.HEALED, key, 2, 3), OperationResult(Effect.COUNTED, key, 3, 3)]
            assert volume.commit(heal, idempotency_key) == first
        with self.opened(tmp_path) as volume:
            assert volume.commit(heal, idempotency_key) == first
            assert fetched(volume, key) == (b"new", 3)

    def test_a_repeated_commit_returns_the_first_results(self, volume: IdempotentVolume) -> None:
        key = BlockKey(sign(1))
        assert volume.commit([Store(sign(1), plain(b"one"))], IdempotencyKey(ONE, 1)) == [
            OperationResult(Effect.NEW, key, 1, 3)
        ]
        perform(volume, Refer(key))
        volume.commit([Refer(key)], IdempotencyKey(ONE, 2))
        assert volume.commit([Store(sign(1), plain(b"one"))], IdempotencyKey(ONE, 1)) == [
            OperationResult(Effect.NEW, key, 1, 3)
        ]
        assert volume.commit([Refer(key)], IdempotencyKey(ONE, 2)) == [OperationResult(Effect.COUNTED, key, 3, 3)]
        perform(volume, Recount(key, 0))
        assert volume.commit([Refer(key)], IdempotencyKey(ONE, 2)) == [OperationResult(Effect.COUNTED, key, 3, 3)]
        assert fetched(volume, key) is None

    def test_commits_with_and_without_idempotency_keys_see_each_other(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1))
        with self.opened(tmp_path) as volume:
            for number in range(1, 8):
                volume.commit([Store(sign(1), plain(b"abc"))], IdempotencyKey(ONE, 2 * number - 1))
                perform(volume, Refer(key))
                volume.commit([Release(key), Refer(key)], IdempotencyKey(ONE, 2 * number))
                perform(volume, Store(sign(2), plain(b"other")))
            assert (fetched(volume, key), fetched(volume, BlockKey(sign(2)))) == ((b"abc", 14), (b"other", 7))
        with self.opened(tmp_path) as volume:
            assert (fetched(volume, key), fetched(volume, BlockKey(sign(2)))) == ((b"abc", 14), (b"other", 7))
            assert volume.commit([Recount(key, 0)], IdempotencyKey(ONE, 15, settled=14))[0].effect is Effect.REMOVED
        with self.opened(tmp_path) as volume:
            assert fetched(volume, key) is None

    def test_sequence_numbers_are_per_client(self, volume: IdempotentVolume) -> None:
        store = Store(sign(1), plain(b"abc"))
        for client in (ONE, OTHER, bytes(8), b"\xff" * 8):
            assert len(volume.commit([store], IdempotencyKey(client, 1))) == 1
        assert fetched(volume, BlockKey(sign(1))) == (b"abc", 4)

    def test_many_clients_at_a_time(self, volume: IdempotentVolume) -> None:
        """Every commit is handed in twice, by different threads."""
        store = Store(sign(1), plain(b"abc"))

        def work(thread: int) -> list[OperationResult]:
            client = b"thread%02d" % (thread // 2)
            return [
                volume.commit([store], IdempotencyKey(client, number, max(0, number - 9)))[0] for number in range(1, 9)
            ]

        with ThreadPoolExecutor(2 * TICKET_THREADS) as pool:
            outcomes = list(pool.map(work, range(2 * TICKET_THREADS)))
            assert outcomes[::2] == outcomes[1::2]
            assert fetched(volume, BlockKey(sign(1))) == (b"abc", 8 * TICKET_THREADS)
            counts = Counter(outcome.references for each in outcomes[::2] for outcome in each)
            assert counts == Counter(range(1, 8 * TICKET_THREADS + 1))

    # -- settled --------------------------------------------------------------------------------------------------

    def test_a_settled_commit_is_refused(self, tmp_path: Path) -> None:
        refer = Refer(BlockKey(sign(1)))
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"abc")))
            for number in (1, 2, 3):
                volume.commit([refer], IdempotencyKey(ONE, number))
            volume.commit([refer], IdempotencyKey(ONE, 6, settled=2))
        for _ in range(2):
            with self.opened(tmp_path) as volume:
                for old in (IdempotencyKey(ONE, 1), IdempotencyKey(ONE, 2)):
                    with pytest.raises(UsageError, match="settled"):
                        volume.commit([refer], old)
                    with pytest.raises(UsageError, match="settled"):
                        volume.void(old)
                assert volume.commit([refer], IdempotencyKey(ONE, 3))[0].references == 4
                assert volume.commit([refer], IdempotencyKey(ONE, 6))[0].references == 5
                assert fetched(volume, refer.key) == (b"abc", 5)

    def test_sequence_numbers_may_arrive_in_any_order(self, tmp_path: Path) -> None:
        refer = Refer(BlockKey(sign(1)))
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"abc")))
            for number, settled in ((9, 1), (4, 0), (7, 3)):
                volume.commit([refer], IdempotencyKey(ONE, number, settled))
            with pytest.raises(UsageError, match="settled"):
                volume.commit([refer], IdempotencyKey(ONE, 3))
            volume.commit([refer], IdempotencyKey(ONE, 5))
        with self.opened(tmp_path) as volume:
            answers = [volume.commit([refer], IdempotencyKey(ONE, number))[0].references for number in (9, 4, 7, 5)]
            assert answers == [2, 3, 4, 5]
            with pytest.raises(UsageError, match="settled"):
                volume.commit([refer], IdempotencyKey(ONE, 3))

    def test_a_malformed_idempotency_key_is_refused(self, volume: IdempotentVolume) -> None:
        store = Store(sign(1), plain(b"abc"))
        for bad in (
            IdempotencyKey(b"short", 1),
            IdempotencyKey(ONE, 0),
            IdempotencyKey(ONE, 3, 3),
            IdempotencyKey(ONE, 1, -1),
            IdempotencyKey(ONE, 1 << 64),
        ):
            with pytest.raises(UsageError, match="bad idempotency key"):
                volume.commit([store], bad)
        assert fetched(volume, BlockKey(sign(1))) is None

    def test_the_least_recent_client_is_forgotten(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"abc"))
        clients = [number.to_bytes(8, "big") for number in range(CLIENTS_MAX + 1)]
        with self.opened(tmp_path) as volume:
            results = volume.commit_all([([store], IdempotencyKey(client, 1)) for client in clients[:-1]])
            assert [_told(result) for result in results] == [*range(1, CLIENTS_MAX + 1)]
            volume.commit([store], IdempotencyKey(clients[0], 2))
            volume.commit([store], IdempotencyKey(clients[-1], 1))
        with self.opened(tmp_path) as volume:
            known = [volume.commit([store], IdempotencyKey(clients[number], 1))[0].references for number in (0, 2, -1)]
            assert known == [1, 3, CLIENTS_MAX + 2]
            assert volume.commit([store], IdempotencyKey(clients[1], 1))[0].references == CLIENTS_MAX + 3

    def test_a_commit_without_changes_is_not_remembered(self, volume: IdempotentVolume) -> None:
        claim, store = Claim(sign(1), 3), Store(sign(1), plain(b"abc"))
        before = volume.position()
        assert volume.commit([claim], IdempotencyKey(ONE, 1))[0].effect is Effect.MISSING
        assert volume.position() == before
        perform(volume, store)
        assert volume.commit([claim], IdempotencyKey(ONE, 1))[0].references == 2
        assert volume.commit([claim], IdempotencyKey(ONE, 1))[0].references == 2

    # -- void -----------------------------------------------------------------------------------------------------

    def test_a_voided_commit_never_happens(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"abc"))
        with self.opened(tmp_path) as volume:
            assert volume.void(IdempotencyKey(ONE, 1)) is None
            assert volume.void(IdempotencyKey(ONE, 1)) is None
            volume.commit([store], IdempotencyKey(ONE, 2))
        for _ in range(2):
            with self.opened(tmp_path) as volume:
                with pytest.raises(UsageError, match="void"):
                    volume.commit([store], IdempotencyKey(ONE, 1))
                assert volume.void(IdempotencyKey(ONE, 1)) is None
                assert fetched(volume, BlockKey(sign(1))) == (b"abc", 1)

    def test_void_returns_the_results_of_a_commit(self, tmp_path: Path) -> None:
        operations = a_bit_of_everything()
        with self.opened(tmp_path) as volume:
            first = volume.commit(operations, IdempotencyKey(ONE, 1))
            assert volume.void(IdempotencyKey(ONE, 1)) == first
            assert volume.commit(operations, IdempotencyKey(ONE, 1)) == first
        with self.opened(tmp_path) as volume:
            assert volume.void(IdempotencyKey(ONE, 1)) == first
            assert fetched(volume, BlockKey(sign(1))) == (b"one", 3)

    def test_a_commit_or_its_voiding_comes_first(self, volume: IdempotentVolume) -> None:
        """Both threads get the same result."""
        with ThreadPoolExecutor(2) as pool:
            perform(volume, Store(sign(1), plain(b"abc")))
            happened = 0
            for number in range(1, 25):
                idempotency_key = IdempotencyKey(ONE, number)
                commits = [([Refer(BlockKey(sign(1)))], idempotency_key)]
                committing, voiding = pool.submit(volume.commit_all, commits), pool.submit(volume.void, idempotency_key)
                (result,), voided = committing.result(), voiding.result()
                assert isinstance(result, UsageError) if voided is None else result == voided
                happened += voided is not None
            assert fetched(volume, BlockKey(sign(1))) == (b"abc", 1 + happened)

    # -- many at once ---------------------------------------------------------------------------------------------

    def test_a_failing_commit_does_not_affect_others(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"abc"))
        too_many = Store(sign(2), plain(b"x"), force_new=True, overflow_min=OVERFLOW_MAX + 1)
        with self.opened(tmp_path) as volume:
            volume.void(IdempotencyKey(ONE, 1))
            results = volume.commit_all(
                [
                    ([store], IdempotencyKey(OTHER, 1)),
                    ([store], IdempotencyKey(ONE, 1)),
                    ([store, Store(sign(3), plain(b"gone")), too_many], IdempotencyKey(ONE, 2)),
                    ([store, Store(sign(4), plain(b"four"))], IdempotencyKey(ONE, 3)),
                    ([store], None),
                    ([too_many], None),
                    ([store], IdempotencyKey(OTHER, 1)),
                    ([store], IdempotencyKey(OTHER, 3, settled=2)),
                    ([store], IdempotencyKey(OTHER, 2)),
                ]
            )
            assert [_told(result) for result in results] == [
                1,
                "UsageError",
                "UsageError",
                2,
                3,
                "UsageError",
                1,
                4,
                "UsageError",
            ]
            assert fetched(volume, BlockKey(sign(1))) == (b"abc", 4)
            assert fetched(volume, BlockKey(sign(3))) is None, "a commit with an idempotency key happens as a whole"
            assert len(scanned(volume)) == 2
            assert volume.commit([store], IdempotencyKey(ONE, 2))[0].references == 5, "what failed has not happened"
            assert volume.commit_all([]) == []
        with self.opened(tmp_path) as volume:
            assert fetched(volume, BlockKey(sign(1))) == (b"abc", 5)
            assert volume.commit([store], IdempotencyKey(ONE, 2))[0].references == 5

    def test_commits_of_a_batch_see_earlier_ones(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1))
        steps: list[Operation] = [
            Refer(key),
            Store(sign(1), plain(b"abc")),
            Refer(key),
            Recount(key, 7, expected=2),
            Recount(key, 0),
            Store(sign(1), plain(b"new one")),
            Store(sign(1), plain(b"another")),
        ]
        with self.opened(tmp_path) as volume:
            results = volume.commit_all([([step], IdempotencyKey(ONE, number)) for number, step in enumerate(steps, 1)])
            effects = [result[0].effect.value for result in results if not isinstance(result, HoldfastError)]
            assert effects == ["missing", "new", "counted", "counted", "removed", "new", "duplicate"]
            assert scanned(volume) == [(key, b"new one", 2)]
        with self.opened(tmp_path) as volume:
            assert scanned(volume) == [(key, b"new one", 2)]


def _told(result: Result) -> int | str:
    """The counter of the first outcome, or the name of the error."""
    return type(result).__name__ if isinstance(result, HoldfastError) else result[0].references
