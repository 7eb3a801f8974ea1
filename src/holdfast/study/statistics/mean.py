"""The mean of a few independent numbers, with the confidence interval of Student's distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

# Two-sided 97.5 % quantiles of Student's distribution for 1, 2, ... degrees of freedom; then that of the normal one.
_QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045),
)


def mean_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """95 % bounds of the mean of numbers that are not negative; of fewer than two nothing is known."""
    if len(values) < 2:
        return None, None
    degrees = len(values) - 1
    quantile = _QUANTILES[degrees - 1] if degrees <= len(_QUANTILES) else 1.96
    half = quantile * stdev(values) / math.sqrt(len(values))
    mean = fmean(values)
    return max(0.0, mean - half), mean + half
