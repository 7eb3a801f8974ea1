"""The conformance suite for volumes: what every organization must do, whatever its files look like.

    class TestMyOrganization(OrganizationConformance):
        def open_volume(self, directory: Path) -> Volume:
            return my_open_or_create(directory)

is all that a new organization needs; pytest collects the tests and gives each a directory of its own. The
suite stores made-up signatures, so that collisions need no luck, and it never looks at a volume's files. What is no
organization, such as a client of a volume server, has no tickets: `VolumeConformance` is for it.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from holdfast.storage.volume import (
    Adopt,
    BlockFacts,
    BlockKey,
    Claim,
    DamageNoting,
    Effect,
    Encoded,
    Heal,
    Operation,
    Outcome,
    Recount,
    Refer,
    Release,
    Store,
)
from holdfast.testing.volume_calls import fetched, fill, perform, plain, probed, scanned, sign, totals
from holdfast.testing.volume_marks import MarkConformance
from holdfast.testing.volume_tickets import TicketConformance

__all__ = ["OrganizationConformance", "VolumeConformance", "fetched", "perform", "plain", "scanned", "sign", "totals"]

THREADS = 8
LARGE_BYTES = 8 << 20


class VolumeConformance(MarkConformance):
    """Tests for pytest. A subclass says how its volume is opened: `open_volume`."""

    # -- storing ------------------------------------------------------------------------------------------------

    def test_a_new_content_is_kept(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            key = BlockKey(sign(1))
            assert perform(volume, Store(sign(1), plain(b"one"))) == Outcome(Effect.NEW, key, 1, 3)
            assert fetched(volume, key) == (b"one", 1)
            assert probed(volume, sign(1)) == {BlockFacts(key, False, 3, 3, 1)}

    def test_an_encoded_content_comes_back_as_it_was_given(self, tmp_path: Path) -> None:
        given = Encoded("zstd-dict", 0x1A2B3C4D, 5000, b"as small as this")
        with self.opened(tmp_path) as volume:
            outcome = perform(volume, Store(sign(1), given))
            (block,) = volume.fetch([outcome.key])
            assert block is not None
            assert block.encoded._replace(data=bytes(block.encoded.data)) == given
            assert outcome.stored == len(given.data)
            assert probed(volume, sign(1)) == {BlockFacts(outcome.key, False, 5000, 16, 1)}

    def test_a_content_of_equal_signature_and_size_is_a_duplicate(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"one")))
            assert perform(volume, Store(sign(1), plain(b"two"))) == Outcome(Effect.DUPLICATE, BlockKey(sign(1)), 2, 3)
            assert fetched(volume, BlockKey(sign(1))) == (b"one", 2)

    def test_a_content_of_another_size_gets_the_next_overflow(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            for overflow in range(12):
                content = plain(bytes(overflow))
                assert perform(volume, Store(sign(1), content)).key == BlockKey(sign(1), overflow)
            for overflow in range(12):
                assert fetched(volume, BlockKey(sign(1), overflow)) == (bytes(overflow), 1)
            assert perform(volume, Store(sign(1), plain(bytes(7)))).key == BlockKey(sign(1), 7)

    def test_force_new_always_makes_a_block(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"same"), force_new=True)
        with self.opened(tmp_path) as volume:
            outcomes = volume.commit([store, store, store])
            assert [outcome.effect for outcome in outcomes] == [Effect.NEW] * 3
            assert [outcome.key.overflow for outcome in outcomes] == [0, 1, 2]
            assert totals(volume) == (3, 0, 3, 12, 12, 12)
            assert perform(volume, Store(sign(2), plain(b"abc"), references=4)).references == 4
            assert totals(volume) == (4, 0, 7, 15, 15, 24)

    def test_overflow_min_is_kept_to(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            high = Store(sign(1), plain(b"a"), force_new=True, overflow_min=10)
            low = Store(sign(1), plain(b"a"), force_new=True, overflow_min=3)
            assert [outcome.key.overflow for outcome in volume.commit([high, low, high])] == [10, 11, 12]

    def test_a_number_is_not_taken_twice_while_in_use(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"a"), force_new=True)
        with self.opened(tmp_path) as volume:
            volume.commit([store, store, store])
            perform(volume, Release(BlockKey(sign(1), 1)))
            assert perform(volume, store).key.overflow not in (0, 2)
            assert len(probed(volume, sign(1))) == 3

    def test_what_must_be_compared_first_is_unsure(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
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

    def test_a_claim_counts_what_is_there(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            assert perform(volume, Claim(sign(1), 3)) == Outcome(Effect.MISSING, BlockKey(sign(1)))
            volume.commit([Store(sign(1), plain(b"one")), Adopt(BlockKey(sign(2), 0, b"v7"), plain(b"two"), 1, False)])
            assert perform(volume, Claim(sign(1), 3)) == Outcome(Effect.DUPLICATE, BlockKey(sign(1)), 2, 3)
            assert perform(volume, Claim(sign(1), 4)).effect is Effect.MISSING
            assert perform(volume, Claim(sign(2), 3)).effect is Effect.MISSING, "blocks of other volumes do not count"
            assert totals(volume) == (2, 0, 3, 6, 6, 9)

    def test_claims_of_several_contents_each_have_their_outcome(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            volume.commit([Store(sign(1), plain(b"one"))])
            here, away = Effect.DUPLICATE, Effect.MISSING
            for wanted, effects in (((2, 3), [away, away]), ((2, 1), [away, here]), ((1, 2), [here, away])):
                outcomes = volume.commit([Claim(sign(number), 3) for number in wanted])
                assert [each.effect for each in outcomes] == effects
            assert fetched(volume, BlockKey(sign(1))) == (b"one", 3)

    # -- counting -----------------------------------------------------------------------------------------------

    def test_references_come_and_go(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1))
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"abc")))
            assert perform(volume, Refer(key)) == Outcome(Effect.COUNTED, key, 2, 3)
            assert totals(volume) == (1, 0, 2, 3, 3, 6)
            assert perform(volume, Release(key)) == Outcome(Effect.COUNTED, key, 1, 3)
            assert perform(volume, Release(key)) == Outcome(Effect.REMOVED, key, 0, 3)
            assert fetched(volume, key) is None
            assert probed(volume, sign(1)) == set()
            assert totals(volume) == (0,) * 6
            assert perform(volume, Store(sign(1), plain(b"abc"))).effect is Effect.NEW

    def test_what_is_not_there_cannot_be_counted(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"abc")))
            for key in (BlockKey(sign(2)), BlockKey(sign(1), 1), BlockKey(sign(1), 0, b"v9")):
                for operation in (Refer(key), Release(key), Recount(key, 3), Recount(key, 0, expected=1)):
                    outcome = perform(volume, operation)
                    assert (outcome.effect, outcome.key) == (Effect.MISSING, key)
            assert totals(volume) == (1, 0, 1, 3, 3, 3)

    def test_recount_sets_the_counter(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1))
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"abc")))
            assert perform(volume, Recount(key, 7)) == Outcome(Effect.COUNTED, key, 7, 3)
            conflict = perform(volume, Recount(key, 2, expected=6))
            assert (conflict.effect, conflict.references) == (Effect.CONFLICT, 7)
            assert fetched(volume, key) == (b"abc", 7)
            assert perform(volume, Recount(key, 2, expected=7)).effect is Effect.COUNTED
            assert totals(volume) == (1, 0, 2, 3, 3, 6)
            assert perform(volume, Recount(key, 0, expected=2)).effect is Effect.REMOVED
            assert totals(volume) == (0,) * 6

    def test_operations_of_a_batch_see_those_before_them(self, tmp_path: Path) -> None:
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
        with self.opened(tmp_path) as volume:
            effects = [outcome.effect.value for outcome in volume.commit(batch)]
            assert effects == ["missing", "new", "duplicate", "counted", "counted", "removed", "missing", "new"]
            assert (fetched(volume, key), volume.commit([])) == ((b"new", 1), [])

    # -- blocks of other volumes --------------------------------------------------------------------------------

    def test_a_block_is_adopted_under_its_own_key_and_counter(self, tmp_path: Path) -> None:
        moved = BlockKey(sign(1), 3, b"v7")
        with self.opened(tmp_path) as volume:
            assert perform(volume, Adopt(moved, plain(b"abc"), 5, False)) == Outcome(Effect.NEW, moved, 5, 3)
            assert probed(volume, sign(1)) == {BlockFacts(moved, False, 3, 3, 5)}
            assert fetched(volume, BlockKey(sign(1), 3)) is None
            assert totals(volume) == (1, 0, 5, 3, 3, 15)
            assert perform(volume, Refer(moved)).references == 6
            own = perform(volume, Store(sign(1), plain(b"abc")))
            assert own == Outcome(Effect.NEW, BlockKey(sign(1), 0), 1, 3), "other volumes' blocks do not count here"

    def test_a_replica_is_no_duplicate(self, tmp_path: Path) -> None:
        copy = BlockKey(sign(1), 0, b"v7")
        with self.opened(tmp_path) as volume:
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

    def test_who_adopts_may_say_in_place_of_what(self, tmp_path: Path) -> None:
        key, data = BlockKey(sign(1), 0, b"v7"), plain(b"abc")
        with self.opened(tmp_path) as volume:
            assert perform(volume, Adopt(key, data, 2, True, expected=1)) == Outcome(Effect.CONFLICT, key)
            assert perform(volume, Adopt(key, data, 2, True, expected=0)).effect is Effect.NEW
            for expected in (0, 1):
                assert perform(volume, Adopt(key, data, 9, False, expected=expected)).references == 2
            assert perform(volume, Recount(key, 5, replica=False)).effect is Effect.MISSING
            assert perform(volume, Recount(key, 5, expected=2, replica=True)).references == 5
            assert perform(volume, Adopt(key, data, 9, False, expected=5)).effect is Effect.NEW
            assert perform(volume, Adopt(key, data, 1, False, expected=9)).effect is Effect.CONFLICT, "it is no replica"
            assert perform(volume, Recount(key, 5, replica=True)).effect is Effect.MISSING
            assert totals(volume) == (1, 0, 9, 3, 3, 27)

    def test_adopting_replaces(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1), 0, b"v7")
        with self.opened(tmp_path) as volume:
            perform(volume, Adopt(key, plain(b"a copy"), 2, True))
            assert perform(volume, Refer(key)).effect is Effect.MISSING, "a replica is not counted on"
            assert perform(volume, Release(key)).effect is Effect.MISSING
            perform(volume, Adopt(key, plain(b"itself"), 8, False))
            assert totals(volume) == (1, 0, 8, 6, 6, 48)
        with self.opened(tmp_path) as volume:
            assert scanned(volume) == [(key, b"itself", 8)]
            assert totals(volume) == (1, 0, 8, 6, 6, 48)

    # -- healing ------------------------------------------------------------------------------------------------

    def test_a_block_known_to_be_damaged_is_healed_by_a_store(self, tmp_path: Path) -> None:
        key, missing = BlockKey(sign(1)), Outcome(Effect.MISSING, BlockKey(sign(1)))
        with self.opened(tmp_path) as volume:
            volume.commit([Store(sign(1), plain(b"bad")), Refer(key), Store(sign(2), plain(b"other"))])
            assert isinstance(volume, DamageNoting)
            volume.note_damaged([key])
        with self.opened(tmp_path) as volume:
            assert isinstance(volume, DamageNoting)
            assert volume.may_be_damaged()
            assert probed(volume, sign(1)) == {BlockFacts(key, False, 3, 3, 2, True)}
            assert perform(volume, Claim(sign(1), 3)) == perform(volume, Refer(key)) == missing
            assert perform(volume, Store(sign(1), plain(b"12"))).effect is Effect.NEW, "another content"
            assert perform(volume, Store(sign(1), plain(b"new"), compared=frozenset())).effect is Effect.UNSURE
            healed, counted = volume.commit([Store(sign(1), plain(b"new")), Store(sign(1), plain(b"new"))])
            assert (healed, counted) == (Outcome(Effect.HEALED, key, 3, 3), Outcome(Effect.DUPLICATE, key, 4, 3))
            assert BlockFacts(key, False, 3, 3, 4) in probed(volume, sign(1))
            assert fetched(volume, key) == (b"new", 4)
        with self.opened(tmp_path) as volume:
            assert perform(volume, Refer(key)) == Outcome(Effect.COUNTED, key, 5, 3)
            assert (key, b"new", 5) in scanned(volume)
            assert totals(volume) == (3, 0, 7, 10, 10, 22)

    def test_healing_by_key(self, tmp_path: Path) -> None:
        """Blocks under another home, and replicas, whose counter is not theirs."""
        moved, copy, sound = BlockKey(sign(1), 0, b"v7"), BlockKey(sign(2), 3, b"v7"), BlockKey(sign(3))
        with self.opened(tmp_path) as volume:
            volume.commit([Adopt(moved, plain(b"bad"), 5, False), Adopt(copy, plain(b"bad"), 2, True)])
            perform(volume, Store(sign(3), plain(b"abc")))
            assert isinstance(volume, DamageNoting)
            volume.note_damaged([moved, copy])
            assert perform(volume, Heal(copy, plain(b"new"))).effect is Effect.MISSING, "a replica is not counted on"
            assert perform(volume, Heal(moved, plain(b"longer"))) == Outcome(Effect.HEALED, moved, 6, 6)
            assert perform(volume, Heal(copy, plain(b"new"), 0)) == Outcome(Effect.HEALED, copy, 2, 3)
            assert perform(volume, Heal(sound, plain(b"xyz"))) == Outcome(Effect.COUNTED, sound, 2, 3)
            assert perform(volume, Heal(sound, plain(b"xyz"), 0)) == Outcome(Effect.CONFLICT, sound, 2, 3)
            assert perform(volume, Heal(BlockKey(sign(9)), plain(b"x"))).effect is Effect.MISSING
        with self.opened(tmp_path) as volume:
            assert fetched(volume, moved) == (b"longer", 6)
            assert fetched(volume, copy) == (b"new", 2)
            assert fetched(volume, sound) == (b"abc", 2)
            assert totals(volume)[:3] == (2, 1, 8)

    def test_a_damaged_block_that_goes_is_forgotten(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1))
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"bad")))
            assert isinstance(volume, DamageNoting)
            volume.note_damaged([key])
            assert volume.probe([sign(1)])[0][0].damaged
            assert perform(volume, Release(key)).effect is Effect.REMOVED
            perform(volume, Store(sign(1), plain(b"new")))
            assert perform(volume, Claim(sign(1), 3)) == Outcome(Effect.DUPLICATE, key, 2, 3)

    # -- reading ------------------------------------------------------------------------------------------------

    def test_answers_come_in_the_order_of_the_questions(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            assert volume.fetch([BlockKey(sign(1))]) == [None]
            assert volume.probe([sign(1), sign(2)]) == [(), ()]
            assert (volume.fetch([]), volume.probe([])) == ([], [])
            volume.commit([Store(sign(number), plain(b"%d" % number)) for number in range(5)])
            asked = [4, 7, 0, 4, 9, 2]
            blocks = volume.fetch([BlockKey(sign(number)) for number in asked])
            assert [block and bytes(block.encoded.data) for block in blocks] == [b"4", None, b"0", b"4", None, b"2"]
            found = volume.probe([sign(number) for number in asked])
            assert [[facts.size for facts in each] for each in found] == [[1], [], [1], [1], [], [1]]

    def test_scan_yields_every_block_once_in_a_lasting_order(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            expected = fill(volume)
            first = scanned(volume)
            assert Counter(first) == Counter(expected)
        with self.opened(tmp_path) as volume:
            assert scanned(volume) == first

    def test_a_scan_goes_on_while_blocks_come_and_go(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            volume.commit([Store(sign(number), plain(b"%d" % number)) for number in range(700)])
            seen: list[BlockKey] = []
            for number, batch in enumerate(volume.scan()):
                seen += [block.key for block in batch]
                volume.commit([Release(BlockKey(sign(3 * number))), Store(sign(f"new {number}"), plain(b"new"))])
            assert len(seen) == len(set(seen))
            assert {BlockKey(sign(number)) for number in range(700) if number % 3} <= set(seen)

    def test_signatures_come_once_each(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            assert list(volume.signatures()) == []
            expected = {key.signature for key, _, _ in fill(volume)}
            found = list(volume.signatures())
            assert (len(found), set(found)) == (len(expected), expected)

    def test_position_changes_with_the_set_of_blocks(self, tmp_path: Path) -> None:
        store, copy = Store(sign(1), plain(b"a"), force_new=True), BlockKey(sign(1), 0, b"v7")
        adopt, release = Adopt(copy, plain(b"a"), 1, True), Release(BlockKey(sign(1)))
        operations: list[Operation] = [store, store, adopt, release, Recount(copy, 0)]
        with self.opened(tmp_path) as volume:
            positions = [volume.position()]
            for operation in operations:
                perform(volume, operation)
                positions.append(volume.position())
            assert len(set(positions)) == len(positions)

    # -- lasting ------------------------------------------------------------------------------------------------

    def test_dictionaries_last(self, tmp_path: Path) -> None:
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

    def test_the_last_reference_is_taken_by_one_thread(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume, ThreadPoolExecutor(THREADS) as pool:
            perform(volume, Store(sign(1), plain(b"abc"), references=5))
            outcomes = list(pool.map(lambda _: perform(volume, Release(BlockKey(sign(1)))), range(THREADS)))
            effects = Counter(outcome.effect.value for outcome in outcomes)
            assert effects == {"counted": 4, "removed": 1, "missing": THREADS - 5}


class OrganizationConformance(TicketConformance, VolumeConformance):
    """All that an organization must do."""
