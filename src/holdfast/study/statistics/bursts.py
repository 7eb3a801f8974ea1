"""Bursts: times in which something is mentioned far more often than otherwise.

J. Kleinberg's automaton for events in batches (Bursty and hierarchical structure in streams, 2002) with two states. In
each period, `matched` of `totals` captures mention the topic, with the probability of the state it is in:

    quiet    the share of all quiet periods
    burst    the share of all periods in bursts, at least `RATIO` times that of the quiet ones

Going into a burst costs ln(periods), so that no single odd period is one unless it stands out; the cheapest sequence of
states is found by dynamic programming. The two shares are estimated from the periods that are in each state, and the
states again from the shares, until nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

RATIO = 2.0
PERIODS_MIN = 3
_ROUNDS = 30
_SHARE_MAX = 0.999


class Burst(NamedTuple):
    """Periods `first` to `last`, the strongest of them, and how much likelier these are than quiet ones (ln)."""

    first: int
    last: int
    peak: int
    weight: float


class Bursts(NamedTuple):
    """What was found, in order of time, and the share in quiet periods."""

    bursts: list[Burst]
    quiet_share: float


def find_bursts(matched: Sequence[int], totals: Sequence[int]) -> Bursts:
    """The bursts in a sequence of periods, each with captures. None in fewer than three periods."""
    overall = sum(matched) / max(1, sum(totals))
    if len(matched) < PERIODS_MIN or not sum(matched):
        return Bursts([], overall)
    states = [count / total > overall for count, total in zip(matched, totals, strict=True)]
    costs: list[tuple[float, float]] = []
    for _ in range(_ROUNDS):
        quiet = _share(matched, totals, states, of=False)
        burst = min(_SHARE_MAX, max(_share(matched, totals, states, of=True), RATIO * quiet))
        costs = [
            (_cost(count, total, quiet), _cost(count, total, burst))
            for count, total in zip(matched, totals, strict=True)
        ]
        found = _cheapest(costs)
        if found == states or not any(found):
            states = found
            break
        states = found
    bursts = []
    for is_burst, places in groupby(range(len(states)), key=states.__getitem__):
        if is_burst:
            run = list(places)
            peak = max(run, key=lambda at: (matched[at] / totals[at], -at))
            bursts.append(Burst(run[0], run[-1], peak, sum(costs[at][0] - costs[at][1] for at in run)))
    return Bursts(bursts, _share(matched, totals, states, of=False) if bursts else overall)


def _share(matched: Sequence[int], totals: Sequence[int], states: Sequence[bool], *, of: bool) -> float:
    """The share in all periods of a state; half a mention more than there are, so that it is never 0 or 1."""
    chosen = [at for at, state in enumerate(states) if state is of]
    return (sum(matched[at] for at in chosen) + 0.5) / (sum(totals[at] for at in chosen) + 1)


def _cost(count: int, total: int, share: float) -> float:
    share = min(_SHARE_MAX, share)
    return -(count * math.log(share) + (total - count) * math.log1p(-share))


def _cheapest(costs: Sequence[tuple[float, float]]) -> list[bool]:
    """The cheapest sequence of states; it begins quiet."""
    entry = math.log(len(costs))
    quiet, burst = 0.0, math.inf
    came_from: list[tuple[bool, bool]] = []
    for cost_quiet, cost_burst in costs:
        came_from.append((burst < quiet, burst <= quiet + entry))
        quiet, burst = min(quiet, burst) + cost_quiet, min(burst, quiet + entry) + cost_burst
    state = burst < quiet
    states = []
    for from_burst in reversed(came_from):
        states.append(state)
        state = from_burst[state]
    return states[::-1]
