"""The probability that all copies are lost: a birth-death chain, solved numerically.

    k ──kλ──► k-1 ──(k-1)λ──► ... ──2λ──► 1 ──λ──► 0: lost
      ◄──μ──      ◄──2μ──         ◄──(k-1)μ──

The state is the number of copies. Each copy is lost at the rate λ = 1 / mean life, each missing one is restored at the
rate μ = 1 / mean time of repair, at once with others. Both times are exponential: they have no memory. No step
subtracts, so that a probability of 1e-30 has as many correct digits as one of 0.1.
"""

from __future__ import annotations

import math

import numpy as np

from holdfast.errors import UsageError

COPIES_MAX = 64
_TERMS = 40  # of the series for a short time: the rest is under 1e-40


def _check(copies: int, life_s: float, repair_s: float) -> None:
    if not 1 <= copies <= COPIES_MAX:
        raise UsageError(f"cannot compute losses of {copies} copies: it must be 1 to {COPIES_MAX}")
    if not (0 < life_s < math.inf and 0 < repair_s < math.inf):
        raise UsageError("cannot compute losses: life and time of repair must be more than 0, and finite")


def loss_probability(copies: int, life_s: float, repair_s: float, span_s: float) -> float:
    """The probability that no copy is left after this time, all copies being there at its beginning.

    Raises UsageError.
    """
    _check(copies, life_s, repair_s)
    if not 0 <= span_s < math.inf:
        raise UsageError("cannot compute losses: the span of time must be finite, and not negative")
    losing, restoring = 1 / life_s, 1 / repair_s
    fastest = copies * max(losing, restoring)  # at least the rate at which any state is left
    doublings = max(0, math.ceil(math.log2(max(fastest * span_s, 1.0))))
    short = fastest * span_s / 2.0**doublings  # jumps in the short time, at most 1
    jump = np.zeros((copies + 1, copies + 1))
    jump[0, 0] = 1.0
    for state in range(1, copies + 1):
        down, up = state * losing / fastest, (copies - state) * restoring / fastest
        jump[state, state - 1] = down
        if state < copies:
            jump[state, state + 1] = up
        jump[state, state] = max(0.0, 1.0 - down - up)
    moves = np.zeros_like(jump)
    power = np.eye(copies + 1)
    weight = math.exp(-short)
    for term in range(_TERMS):  # a sum over the number of jumps: uniformization
        moves += weight * power
        power = power @ jump
        weight *= short / (term + 1)
    for _ in range(doublings):
        moves = moves @ moves
        moves /= moves.sum(axis=1, keepdims=True)
    return min(1.0, float(moves[copies, 0]))


def mean_time_to_loss(copies: int, life_s: float, repair_s: float) -> float:
    """Seconds until no copy is left, on average; infinite if beyond floating point. Raises UsageError."""
    _check(copies, life_s, repair_s)
    step = life_s / copies  # from all copies to one less
    total = step
    for state in range(copies - 1, 0, -1):
        step = life_s / state * (1 + (copies - state) / repair_s * step)
        total += step
    return total


def any_loss_probability(each: float, partitions: int) -> float:
    """The probability that at least one of so many partitions is lost, if they are lost independently."""
    return 1.0 if each >= 1 else -math.expm1(partitions * math.log1p(-each))
