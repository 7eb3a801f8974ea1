"""Estimators of lifetimes and rates of change, from counts by duration.

Durations are counted in bins, sixteen to an octave, each with its number and the sum of its seconds: counts of several
archives add up, and an estimate from them differs by at most a few percent from one of single durations.

    Kaplan-Meier      the share that lives longer than a time, with censored lifetimes; bands by Greenwood's formula on
                      the scale log(-log S)
    exponential       ends divided by the time at risk
    Poisson rate      changes between visits at any distances: the rate that makes what was seen most likely, where a
                      visit tells only whether there was a change

Confidence intervals are of 95 %; they treat what was seen as independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

BINS_PER_OCTAVE = 16
_Z = 1.959964  # of a normal distribution, for 95 %
_RULE_OF_THREE = 2.995732  # -ln(0.05): no event in so many expected ones
_STEPS = 200


class Estimate(NamedTuple):
    """A value with its confidence interval; None: not reached, or not known."""

    value: float | None
    low: float | None
    high: float | None

    def times(self, factor: float) -> Estimate:
        return Estimate(*(None if each is None else each * factor for each in self))

    def inverse(self) -> Estimate:
        """1 / value; the bounds change places. The inverse of a rate of 0 is not reached."""
        value, low, high = (None if not each else 1 / each for each in self)
        return Estimate(value, high, low)


UNKNOWN = Estimate(None, None, None)


class Count(NamedTuple):
    """How many durations, and their sum in seconds."""

    number: int
    seconds: float

    @property
    def mean_s(self) -> float:
        return self.seconds / self.number


Bins = Mapping[int, Count]


class CurvePoint(NamedTuple):
    """A step of a survival curve: the share that lives longer, with its band."""

    seconds: float
    share: float
    low: float
    high: float


def bin_of(seconds: float) -> int:
    """The bin of a duration; what is shorter than a second is in the first."""
    return int(BINS_PER_OCTAVE * math.log2(seconds)) if seconds > 1 else 0


def kaplan_meier(ends: Bins, censored: Bins) -> list[CurvePoint]:
    """One point for each bin with an end."""
    at_risk = sum(each.number for each in ends.values()) + sum(each.number for each in censored.values())
    share, variance = 1.0, 0.0
    points = []
    for number in sorted({*ends, *censored}):
        if number in ends:
            died = ends[number].number
            share *= 1 - died / at_risk
            if at_risk > died:
                variance += died / (at_risk * (at_risk - died))
            points.append(CurvePoint(ends[number].mean_s, share, *_band(share, variance)))
        at_risk -= sum(bins[number].number for bins in (ends, censored) if number in bins)
    return points


def _band(share: float, variance: float) -> tuple[float, float]:
    if not 0 < share < 1:
        return share, share
    spread = math.exp(_Z * math.sqrt(variance) / abs(math.log(share)))
    return share**spread, share ** (1 / spread)


def median_of(curve: list[CurvePoint]) -> Estimate:
    """The time that half live longer than."""

    def reached(column: int) -> float | None:
        return next((point.seconds for point in curve if point[column] <= 0.5), None)

    return Estimate(reached(1), reached(2), reached(3))


def exponential_rate(ends: Bins, censored: Bins) -> Estimate:
    """Ends a second."""
    number = sum(each.number for each in ends.values())
    seconds = sum(each.seconds for each in (*ends.values(), *censored.values()))
    return rate_of(number, seconds)


def rate_of(events: int, seconds: float) -> Estimate:
    """Events a second, of a number that was seen in some time."""
    if seconds <= 0:
        return UNKNOWN
    if not events:
        return Estimate(0.0, 0.0, _RULE_OF_THREE / seconds)
    rate = events / seconds
    factor = math.exp(_Z / math.sqrt(events))
    return Estimate(rate, rate / factor, rate * factor)


def change_rate(changed: Bins, same: Bins) -> Estimate:
    """Changes a second, from intervals between two visits with a change and without one."""
    if not changed:
        return rate_of(0, sum(each.seconds for each in same.values()))
    quiet_s = sum(each.seconds for each in same.values())
    if not quiet_s:
        return UNKNOWN  # every visit saw a change: the rate may be anything above one a visit

    def score(rate: float) -> float:
        return sum(each.number * each.mean_s / math.expm1(min(rate * each.mean_s, 700)) for each in changed.values())

    low, high = 1e-15, 10.0
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if score(middle) > quiet_s else (low, middle)
    rate = math.sqrt(low * high)
    information = 0.0
    for each in changed.values():
        exponent = min(rate * each.mean_s, 700)
        information += each.number * each.mean_s**2 / (math.exp(exponent) - 2 + math.exp(-exponent))
    factor = math.exp(min(_Z / (rate * math.sqrt(information)), 50)) if information else math.exp(50)
    return Estimate(rate, rate / factor, rate * factor)
