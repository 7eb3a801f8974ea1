"""Intervals of confidence of means, against the textbook and against what they promise."""

from __future__ import annotations

import random

import pytest

from holdfast.study.statistics.mean import mean_interval


def test_few_numbers_have_the_quantiles_of_student() -> None:
    assert mean_interval([1.0]) == mean_interval([]) == (None, None)
    low, high = mean_interval([11.0, 12.0, 13.0])
    assert (low, high) == (pytest.approx(12 - 4.303 / 3**0.5), pytest.approx(12 + 4.303 / 3**0.5))
    assert mean_interval([0.0, 1.0])[0] == 0.0, "nothing counted here is negative"


@pytest.mark.parametrize("numbers", [2, 3, 5, 12, 40])
def test_intervals_hold_the_truth_as_often_as_they_say(numbers: int) -> None:
    chance = random.Random(numbers)
    tries, held = 4000, 0
    for _ in range(tries):
        low, high = mean_interval([chance.gauss(100, 10) for _ in range(numbers)])
        assert low is not None and high is not None
        held += low <= 100 <= high
    assert 0.935 <= held / tries <= 0.97
