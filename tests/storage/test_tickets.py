"""What is remembered of commits with tickets: its bytes, and what is forgotten when."""

from __future__ import annotations

import hashlib
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.storage.block import HEADER_BYTES
from holdfast.storage.volume import BlockKey, Effect, IdempotencyKey, OperationResult, Recount, Store
from holdfast.storage.volumes import idempotency
from holdfast.storage.volumes.idempotency import (
    Kept,
    Past,
    Sessions,
    key_name,
    pack_past,
    past_bytes,
    require_not_void,
    unpack_past,
)
from holdfast.testing.volumes import plain

GOLDEN = Path(__file__).parents[1] / "golden"
SIGNATURE = hashlib.sha256(b"hello world").digest()
GOLDEN_PAST = Past(
    5,
    False,
    [
        OperationResult(Effect.NEW, BlockKey(SIGNATURE), 1, 11),
        OperationResult(Effect.REMOVED, BlockKey(SIGNATURE, 12, b"v7"), 0, 400),
    ],
)
ONE = b"client-1"

word64 = st.integers(0, 2**64 - 1)
keys = st.builds(
    BlockKey, st.binary(min_size=1, max_size=32), st.integers(0, 99_999), st.text("abc-_", max_size=16).map(str.encode)
)
outcomes = st.builds(OperationResult, st.sampled_from(Effect), keys, word64, word64)
pasts = st.builds(Past, word64, st.booleans(), st.lists(outcomes, max_size=6))


def told(sessions: Sessions, sequence: int, settled: int = 0, serial: int | None = None) -> None:
    past = pack_past(Past(sessions.settled(IdempotencyKey(ONE, sequence, settled)), False, []))
    sessions.apply(key_name(IdempotencyKey(ONE, sequence)), Kept(serial or sequence, past))


def test_golden_bytes() -> None:
    raw = (GOLDEN / "ticket.txt").read_bytes()[HEADER_BYTES:]
    assert pack_past(GOLDEN_PAST) == raw
    assert unpack_past(raw) == unpack_past(memoryview(raw)) == GOLDEN_PAST
    assert key_name(IdempotencyKey(ONE, 7)) == b"client-1\x00\x00\x00\x00\x00\x00\x00\x07"


def test_effects_keep_their_numbers() -> None:
    numbers = [pack_past(Past(0, False, [OperationResult(effect, BlockKey(b"s"))]))[9] for effect in Effect]
    names = "new duplicate counted removed missing unsure conflict healed"
    assert " ".join(effect.value for effect in Effect) == names
    assert numbers == list(range(8))


@given(pasts)
def test_a_past_round_trips(past: Past) -> None:
    assert unpack_past(pack_past(past)) == past


@given(st.lists(outcomes, max_size=6))
def test_its_length_is_known_before_the_outcomes_are(given_outcomes: list[OperationResult]) -> None:
    operations = [
        Recount(outcome.key, 1) if outcome.key.home else Store(outcome.key.signature, plain(b""))
        for outcome in given_outcomes
    ]
    assert past_bytes(operations) == len(pack_past(Past(0, False, given_outcomes)))


def test_what_is_settled_is_forgotten_and_refused() -> None:
    sessions = Sessions()
    for sequence in range(1, 6):
        told(sessions, sequence)
    told(sessions, 6, settled=4)
    assert [int.from_bytes(name[8:], "big") for name, _ in sessions.all_kept()] == [5, 6]
    with pytest.raises(UsageError, match="commit 4 of client '636c69656e742d31' was settled"):
        sessions.find(IdempotencyKey(ONE, 4))
    assert sessions.find(IdempotencyKey(ONE, 7)) is None
    changed = sessions.take()
    assert [name[15] for name, kept in changed.items() if kept is None] == [1, 2, 3, 4]
    assert sessions.take() == {}


def test_a_void_commit_is_refused() -> None:
    with pytest.raises(UsageError, match="void"):
        require_not_void(IdempotencyKey(ONE, 1), Past(0, True, []))


def test_applying_again_changes_nothing() -> None:
    """Also the whole log over a later state, as a repair does that begins with what the keydir remembers."""
    random = Random(1)
    entries: list[tuple[bytes, Kept]] = []
    sessions = Sessions()
    for serial in range(1, 200):
        client = b"client-%d" % random.randrange(3)
        sequence = serial
        idempotency_key = IdempotencyKey(client, sequence, max(0, sequence - random.randrange(1, 30)))
        entry = key_name(idempotency_key), Kept(serial, pack_past(Past(sessions.settled(idempotency_key), False, [])))
        sessions.apply(*entry)
        entries.append(entry)
    last = sessions.all_kept()
    for entry in entries:
        sessions.apply(*entry)
    assert sessions.all_kept() == last
    assert Sessions(reversed(last)).all_kept() == last, "what is kept is all that it takes"
    for client in (b"client-0", b"client-1", b"client-2"):
        idempotency_key = IdempotencyKey(client, 500)
        assert Sessions(last).settled(idempotency_key) == sessions.settled(idempotency_key)


def test_a_client_that_settles_nothing_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "UNSETTLED_MAX", 10)
    sessions = Sessions()
    for sequence in range(1, 11):
        assert sessions.find(IdempotencyKey(ONE, sequence)) is None
        told(sessions, sequence)
    with pytest.raises(UsageError, match="10 commits that are not settled"):
        sessions.find(IdempotencyKey(ONE, 11))
    assert sessions.find(IdempotencyKey(ONE, 11, settled=1)) is None
    assert sessions.find(IdempotencyKey(ONE, 3)) is not None
    assert sessions.find(IdempotencyKey(b"client-2", 1)) is None
