"""The birth-death chain against closed forms (H9)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

from holdfast.errors import UsageError
from holdfast.plan.loss import any_loss_probability, loss_probability, mean_time_to_loss


@pytest.mark.parametrize("span", [0.0, 0.5, 3.0, 40.0])
def test_one_copy_is_lost_with_its_node(span: float) -> None:
    assert loss_probability(1, 2.0, 5.0, span) == pytest.approx(-math.expm1(-span / 2.0), rel=1e-12)
    assert mean_time_to_loss(1, 2.0, 5.0) == 2.0


def two_copies(life: float, repair: float, span: float) -> float:
    """The closed form, by the two eigenvalues of the states 2 and 1."""
    losing, restoring = 1 / life, 1 / repair
    total = 3 * losing + restoring
    root = math.sqrt(total**2 - 8 * losing**2)
    slow, fast = (-total + root) / 2, (-total - root) / 2
    return 1 - (fast * math.exp(slow * span) - slow * math.exp(fast * span)) / (fast - slow)


@pytest.mark.parametrize(("life", "repair", "span"), [(10.0, 1.0, 5.0), (10.0, 10.0, 30.0), (3.0, 0.2, 100.0)])
def test_two_copies(life: float, repair: float, span: float) -> None:
    assert loss_probability(2, life, repair, span) == pytest.approx(two_copies(life, repair, span), rel=1e-9)
    losing, restoring = 1 / life, 1 / repair
    assert mean_time_to_loss(2, life, repair) == pytest.approx((3 * losing + restoring) / (2 * losing**2))


def test_three_copies_take_this_long_on_average() -> None:
    losing, restoring = 1 / 7, 1 / 2
    first = 1 / (3 * losing)
    second = (1 + restoring * first) / (2 * losing)
    third = (1 + 2 * restoring * second) / losing
    assert mean_time_to_loss(3, 7, 2) == pytest.approx(first + second + third)


@pytest.mark.parametrize("copies", [3, 4, 6])
def test_against_the_exponential_of_the_matrix_of_rates(copies: int) -> None:
    life, repair, span = 10.0, 3.0, 25.0
    rates = np.zeros((copies + 1, copies + 1))
    for state in range(1, copies + 1):
        rates[state, state - 1] = state / life
        if state < copies:
            rates[state, state + 1] = (copies - state) / repair
        rates[state, state] = -rates[state].sum()
    assert loss_probability(copies, life, repair, span) == pytest.approx(expm(rates * span)[copies, 0], rel=1e-9)


def test_tiny_probabilities_are_exact() -> None:
    """When losses are rare, they come at a constant rate: that of the mean time."""
    for copies in (4, 6, 8):
        life, repair, span = 1e8, 1e4, 3e8
        rare = span / mean_time_to_loss(copies, life, repair)
        assert 0 < rare < 1e-10
        assert loss_probability(copies, life, repair, span) == pytest.approx(rare, rel=2e-3)


TIMES = st.floats(1.0, 1e9)


@given(st.integers(1, 8), TIMES, TIMES, TIMES)
def test_copies_and_life_help_and_time_does_not(copies: int, life: float, repair: float, span: float) -> None:
    lost = loss_probability(copies, life, repair, span)
    slack = 1e-6 * lost
    assert 0 <= lost <= 1
    assert loss_probability(copies + 1, life, repair, span) <= lost + slack
    assert loss_probability(copies, 2 * life, repair, span) <= lost + slack
    assert loss_probability(copies, life, 2 * repair, span) >= lost - slack
    assert loss_probability(copies, life, repair, 2 * span) >= lost - slack


def test_any_of_many() -> None:
    assert any_loss_probability(0.5, 3) == pytest.approx(7 / 8)
    assert any_loss_probability(1e-20, 1000) == pytest.approx(1e-17)
    assert any_loss_probability(1.0, 3) == 1


@pytest.mark.parametrize("values", [(0, 1, 1, 1), (65, 1, 1, 1), (2, 0, 1, 1), (2, 1, -1, 1), (2, 1, 1, math.inf)])
def test_what_cannot_be(values: tuple[int, float, float, float]) -> None:
    with pytest.raises(UsageError):
        loss_probability(*values)
