"""The part of the conformance suite that is about tickets: commits that happen once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, UsageError
from holdfast.model import OVERFLOW_MAX
from holdfast.storage.tickets import CLIENTS_MAX
from holdfast.storage.volume import (
    Adopt,
    BlockKey,
    Claim,
    DamageNoting,
    Effect,
    Heal,
    Operation,
    Outcome,
    Recount,
    Refer,
    Release,
    Result,
    Store,
    Ticket,
    TicketedVolume,
)
from holdfast.testing.volume_calls import fetched, perform, plain, scanned, sign, totals

ONE, OTHER = b"client-1", b"client-2"
THREADS = 4


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


class TicketConformance(ABC):
    """Tests for pytest. A subclass says how its volume is opened."""

    @abstractmethod
    def open_volume(self, directory: Path) -> TicketedVolume:
        """Opens the volume in the directory for writing; makes an empty one if there is none."""

    @contextmanager
    def opened(self, directory: Path) -> Iterator[TicketedVolume]:
        volume = self.open_volume(directory)
        try:
            yield volume
        finally:
            volume.close()

    # -- once -----------------------------------------------------------------------------------------------------

    def test_a_commit_with_a_ticket_happens_once(self, tmp_path: Path) -> None:
        ticket, operations = Ticket(ONE, 1), a_bit_of_everything()
        with self.opened(tmp_path) as volume:
            first = volume.commit(operations, ticket)
            assert {outcome.effect for outcome in first} == set(Effect) - {Effect.HEALED}
            before = totals(volume)
            assert volume.commit(operations, ticket) == first
            assert volume.commit([], ticket) == first, "what counts is the ticket"
            assert (totals(volume), fetched(volume, BlockKey(sign(1)))) == (before, (b"one", 3))
        for _ in range(2):
            with self.opened(tmp_path) as volume:
                assert volume.commit(operations, ticket) == first
                assert totals(volume) == before

    def test_a_block_is_healed_once(self, tmp_path: Path) -> None:
        key, ticket = BlockKey(sign(1)), Ticket(ONE, 1)
        heal: list[Operation] = [Heal(key, plain(b"new")), Refer(key)]
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"bad")))
            assert isinstance(volume, DamageNoting)
            volume.note_damaged([key])
            first = volume.commit(heal, ticket)
            assert first == [Outcome(Effect.HEALED, key, 2, 3), Outcome(Effect.COUNTED, key, 3, 3)]
            assert volume.commit(heal, ticket) == first
        with self.opened(tmp_path) as volume:
            assert volume.commit(heal, ticket) == first
            assert fetched(volume, key) == (b"new", 3)

    def test_outcomes_are_those_of_the_first_time(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1))
        with self.opened(tmp_path) as volume:
            assert volume.commit([Store(sign(1), plain(b"one"))], Ticket(ONE, 1)) == [Outcome(Effect.NEW, key, 1, 3)]
            perform(volume, Refer(key))
            volume.commit([Refer(key)], Ticket(ONE, 2))
            assert volume.commit([Store(sign(1), plain(b"one"))], Ticket(ONE, 1)) == [Outcome(Effect.NEW, key, 1, 3)]
            assert volume.commit([Refer(key)], Ticket(ONE, 2)) == [Outcome(Effect.COUNTED, key, 3, 3)]
            perform(volume, Recount(key, 0))
            assert volume.commit([Refer(key)], Ticket(ONE, 2)) == [Outcome(Effect.COUNTED, key, 3, 3)]
            assert fetched(volume, key) is None

    def test_commits_with_and_without_tickets_see_each_other(self, tmp_path: Path) -> None:
        key = BlockKey(sign(1))
        with self.opened(tmp_path) as volume:
            for number in range(1, 8):
                volume.commit([Store(sign(1), plain(b"abc"))], Ticket(ONE, 2 * number - 1))
                perform(volume, Refer(key))
                volume.commit([Release(key), Refer(key)], Ticket(ONE, 2 * number))
                perform(volume, Store(sign(2), plain(b"other")))
            assert (fetched(volume, key), fetched(volume, BlockKey(sign(2)))) == ((b"abc", 14), (b"other", 7))
        with self.opened(tmp_path) as volume:
            assert (fetched(volume, key), fetched(volume, BlockKey(sign(2)))) == ((b"abc", 14), (b"other", 7))
            assert volume.commit([Recount(key, 0)], Ticket(ONE, 15, settled=14))[0].effect is Effect.REMOVED
        with self.opened(tmp_path) as volume:
            assert fetched(volume, key) is None

    def test_clients_do_not_share_their_numbers(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"abc"))
        with self.opened(tmp_path) as volume:
            for client in (ONE, OTHER, bytes(8), b"\xff" * 8):
                assert len(volume.commit([store], Ticket(client, 1))) == 1
            assert fetched(volume, BlockKey(sign(1))) == (b"abc", 4)

    def test_many_clients_at_a_time(self, tmp_path: Path) -> None:
        """Every commit is handed in twice, by different threads."""
        store = Store(sign(1), plain(b"abc"))

        def work(thread: int) -> list[Outcome]:
            client = b"thread%02d" % (thread // 2)
            return [volume.commit([store], Ticket(client, number, max(0, number - 9)))[0] for number in range(1, 9)]

        with self.opened(tmp_path) as volume, ThreadPoolExecutor(2 * THREADS) as pool:
            outcomes = list(pool.map(work, range(2 * THREADS)))
            assert outcomes[::2] == outcomes[1::2]
            assert fetched(volume, BlockKey(sign(1))) == (b"abc", 8 * THREADS)
            counts = Counter(outcome.references for each in outcomes[::2] for outcome in each)
            assert counts == Counter(range(1, 8 * THREADS + 1))

    # -- settled --------------------------------------------------------------------------------------------------

    def test_what_was_settled_is_refused(self, tmp_path: Path) -> None:
        refer = Refer(BlockKey(sign(1)))
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"abc")))
            for number in (1, 2, 3):
                volume.commit([refer], Ticket(ONE, number))
            volume.commit([refer], Ticket(ONE, 6, settled=2))
        for _ in range(2):
            with self.opened(tmp_path) as volume:
                for old in (Ticket(ONE, 1), Ticket(ONE, 2)):
                    with pytest.raises(UsageError, match="settled"):
                        volume.commit([refer], old)
                    with pytest.raises(UsageError, match="settled"):
                        volume.void(old)
                assert volume.commit([refer], Ticket(ONE, 3))[0].references == 4
                assert volume.commit([refer], Ticket(ONE, 6))[0].references == 5
                assert fetched(volume, refer.key) == (b"abc", 5)

    def test_numbers_may_come_in_any_order(self, tmp_path: Path) -> None:
        refer = Refer(BlockKey(sign(1)))
        with self.opened(tmp_path) as volume:
            perform(volume, Store(sign(1), plain(b"abc")))
            for number, settled in ((9, 1), (4, 0), (7, 3)):
                volume.commit([refer], Ticket(ONE, number, settled))
            with pytest.raises(UsageError, match="settled"):
                volume.commit([refer], Ticket(ONE, 3))
            volume.commit([refer], Ticket(ONE, 5))
        with self.opened(tmp_path) as volume:
            answers = [volume.commit([refer], Ticket(ONE, number))[0].references for number in (9, 4, 7, 5)]
            assert answers == [2, 3, 4, 5]
            with pytest.raises(UsageError, match="settled"):
                volume.commit([refer], Ticket(ONE, 3))

    def test_what_is_no_ticket_is_refused(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"abc"))
        with self.opened(tmp_path) as volume:
            for bad in (
                Ticket(b"short", 1),
                Ticket(ONE, 0),
                Ticket(ONE, 3, 3),
                Ticket(ONE, 1, -1),
                Ticket(ONE, 1 << 64),
            ):
                with pytest.raises(UsageError, match="bad ticket"):
                    volume.commit([store], bad)
            assert fetched(volume, BlockKey(sign(1))) is None

    def test_the_client_that_was_silent_longest_is_forgotten(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"abc"))
        clients = [number.to_bytes(8, "big") for number in range(CLIENTS_MAX + 1)]
        with self.opened(tmp_path) as volume:
            results = volume.commit_all([([store], Ticket(client, 1)) for client in clients[:-1]])
            assert [_told(result) for result in results] == [*range(1, CLIENTS_MAX + 1)]
            volume.commit([store], Ticket(clients[0], 2))
            volume.commit([store], Ticket(clients[-1], 1))
        with self.opened(tmp_path) as volume:
            known = [volume.commit([store], Ticket(clients[number], 1))[0].references for number in (0, 2, -1)]
            assert known == [1, 3, CLIENTS_MAX + 2]
            assert volume.commit([store], Ticket(clients[1], 1))[0].references == CLIENTS_MAX + 3

    def test_what_changed_nothing_is_not_remembered(self, tmp_path: Path) -> None:
        claim, store = Claim(sign(1), 3), Store(sign(1), plain(b"abc"))
        with self.opened(tmp_path) as volume:
            before = volume.position()
            assert volume.commit([claim], Ticket(ONE, 1))[0].effect is Effect.MISSING
            assert volume.position() == before
            perform(volume, store)
            assert volume.commit([claim], Ticket(ONE, 1))[0].references == 2
            assert volume.commit([claim], Ticket(ONE, 1))[0].references == 2

    # -- void -----------------------------------------------------------------------------------------------------

    def test_what_was_made_void_never_happens(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"abc"))
        with self.opened(tmp_path) as volume:
            assert volume.void(Ticket(ONE, 1)) is None
            assert volume.void(Ticket(ONE, 1)) is None
            volume.commit([store], Ticket(ONE, 2))
        for _ in range(2):
            with self.opened(tmp_path) as volume:
                with pytest.raises(UsageError, match="void"):
                    volume.commit([store], Ticket(ONE, 1))
                assert volume.void(Ticket(ONE, 1)) is None
                assert fetched(volume, BlockKey(sign(1))) == (b"abc", 1)

    def test_void_tells_what_happened(self, tmp_path: Path) -> None:
        operations = a_bit_of_everything()
        with self.opened(tmp_path) as volume:
            first = volume.commit(operations, Ticket(ONE, 1))
            assert volume.void(Ticket(ONE, 1)) == first
            assert volume.commit(operations, Ticket(ONE, 1)) == first
        with self.opened(tmp_path) as volume:
            assert volume.void(Ticket(ONE, 1)) == first
            assert fetched(volume, BlockKey(sign(1))) == (b"one", 3)

    def test_a_commit_or_its_voiding_comes_first(self, tmp_path: Path) -> None:
        """Whoever it is, both are told the same."""
        with self.opened(tmp_path) as volume, ThreadPoolExecutor(2) as pool:
            perform(volume, Store(sign(1), plain(b"abc")))
            happened = 0
            for number in range(1, 25):
                ticket = Ticket(ONE, number)
                commits = [([Refer(BlockKey(sign(1)))], ticket)]
                committing, voiding = pool.submit(volume.commit_all, commits), pool.submit(volume.void, ticket)
                (result,), told = committing.result(), voiding.result()
                assert isinstance(result, UsageError) if told is None else result == told
                happened += told is not None
            assert fetched(volume, BlockKey(sign(1))) == (b"abc", 1 + happened)

    # -- many at once ---------------------------------------------------------------------------------------------

    def test_one_that_fails_leaves_the_others_alone(self, tmp_path: Path) -> None:
        store = Store(sign(1), plain(b"abc"))
        too_many = Store(sign(2), plain(b"x"), force_new=True, overflow_min=OVERFLOW_MAX + 1)
        with self.opened(tmp_path) as volume:
            volume.void(Ticket(ONE, 1))
            results = volume.commit_all(
                [
                    ([store], Ticket(OTHER, 1)),
                    ([store], Ticket(ONE, 1)),
                    ([store, Store(sign(3), plain(b"gone")), too_many], Ticket(ONE, 2)),
                    ([store, Store(sign(4), plain(b"four"))], Ticket(ONE, 3)),
                    ([store], None),
                    ([too_many], None),
                    ([store], Ticket(OTHER, 1)),
                    ([store], Ticket(OTHER, 3, settled=2)),
                    ([store], Ticket(OTHER, 2)),
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
            assert fetched(volume, BlockKey(sign(3))) is None, "a commit with a ticket happens as a whole"
            assert len(scanned(volume)) == 2
            assert volume.commit([store], Ticket(ONE, 2))[0].references == 5, "what failed has not happened"
            assert volume.commit_all([]) == []
        with self.opened(tmp_path) as volume:
            assert fetched(volume, BlockKey(sign(1))) == (b"abc", 5)
            assert volume.commit([store], Ticket(ONE, 2))[0].references == 5

    def test_commits_of_a_batch_see_those_before_them(self, tmp_path: Path) -> None:
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
            results = volume.commit_all([([step], Ticket(ONE, number)) for number, step in enumerate(steps, 1)])
            effects = [result[0].effect.value for result in results if not isinstance(result, HoldfastError)]
            assert effects == ["missing", "new", "counted", "counted", "removed", "new", "duplicate"]
            assert scanned(volume) == [(key, b"new one", 2)]
        with self.opened(tmp_path) as volume:
            assert scanned(volume) == [(key, b"new one", 2)]


def _told(result: Result) -> int | str:
    """The counter that the first outcome tells, or the error."""
    return type(result).__name__ if isinstance(result, HoldfastError) else result[0].references
