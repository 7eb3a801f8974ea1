"""One owner at a time, whatever fails (H1, H2): the protocol of `Duty` under thousands of random schedules.

Each weakened variant leaves out one rule of the protocol; the simulation must catch it, or it proves nothing.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from simulation import World

from holdfast.cluster.membership.duty import Duty, Lease, PartitionOwner, Swap, Value

SCHEDULES = int(os.environ.get("HOLDFAST_SCHEDULES", "10000"))
PARTS = 10
SEED = int(os.environ.get("HOLDFAST_SEED", "0"))
WEAK_SCHEDULES_MAX = 3_000


@pytest.mark.parametrize("part", range(PARTS))
def test_no_host_is_fetched_from_by_two_nodes(part: int) -> None:
    for seed in range(SEED + part, SEED + SCHEDULES, PARTS):
        world = World(seed)
        world.run()
        assert world.violations() == [], f"HOLDFAST_SEED={seed}"
        assert world.idle_hosts() == [], f"HOLDFAST_SEED={seed}"


@pytest.mark.soak
def test_a_million_schedules() -> None:
    for seed in range(1_000_000, 2_000_000):
        world = World(seed)
        world.run()
        assert world.violations() == [], f"HOLDFAST_SEED={seed}"


class NoGeneration(Duty):
    """A revoked node comes back as if nothing had happened."""

    def _next_generation(self, lease: Lease) -> int:
        return lease.generation


class BeliefWithoutRevocation(Duty):
    """A partition is claimed when its owner's lease looks old, without a swap onto the lease."""

    def tick(self, now_s: float) -> list[Any]:
        self.now_s = now_s
        return super().tick(now_s)

    def _is_free(self, value: Value) -> bool:
        if super()._is_free(value):
            return True
        known = self._known.get(f"lease.{value.node}") if isinstance(value, PartitionOwner) else None
        return known is not None and self.now_s - known.since_s >= self.lease_s


class DeadlineFromTheAnswer(Duty):
    """The right to fetch counts from when the renewal was answered, not from when it was sent."""

    def _right_end_s(self, sent_s: float, answered_s: float) -> float:
        return super()._right_end_s(answered_s, answered_s)


class NoMargin(Duty):
    """The right to fetch ends with the lease, whatever the rates of the clocks are."""

    def _right_end_s(self, sent_s: float, answered_s: float) -> float:
        return sent_s + self.lease_s


class NoWaitAfterAClaim(Duty):
    """A new owner fetches at once."""

    def _first_fetch_s(self, held: Any, delay_s: float) -> float:
        return float("-inf")


class LateAnswersAccepted(Duty):
    """An answer to a request that was given up counts, and so does one to an older revision."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sent: dict[int, Swap] = {}

    def tick(self, now_s: float) -> list[Any]:
        actions = super().tick(now_s)
        self.sent |= {each.request: each for each in actions if isinstance(each, Swap)}
        return actions

    def succeeded(self, request: int, revision: int, now_s: float) -> None:
        self._take(request)
        swap = self.sent[request]
        if isinstance(swap.value, Lease) and swap.value.process == self.process and not swap.value.revoked:
            self._generation = swap.value.generation
            self._right_until_s = max(self._right_until_s, now_s + 0.9 * self.lease_s)
        self.saw(swap.key, swap.value, revision, now_s)
        if isinstance(swap.value, PartitionOwner):
            self._read_ownership(int(swap.key[4:]), swap.value, now_s)


VARIANTS = (
    NoGeneration,
    BeliefWithoutRevocation,
    DeadlineFromTheAnswer,
    NoMargin,
    NoWaitAfterAClaim,
    LateAnswersAccepted,
)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_weakened_protocol_is_caught(variant: type[Duty]) -> None:
    assert _is_caught(lambda seed: World(seed, variant, tick_s=0.02))


def test_claims_right_after_a_rebuild_are_caught() -> None:
    assert _is_caught(lambda seed: World(seed, waits=False, tick_s=0.02))


def _is_caught(make: Any) -> bool:
    for seed in range(SEED, SEED + WEAK_SCHEDULES_MAX):
        world = make(seed)
        world.run()
        if world.violations():
            print(f"caught with seed {seed}: {world.violations()[0]}")
            return True
    return False
