"""H7, B4: pages are revisited as often as they change, within bounds, for reasons that can be told."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl.job.job import RevisitSettings
from holdfast.crawl.schedule.revisit import History
from holdfast.env.units import interval_words

SETTINGS = RevisitSettings()
HOUR, DAY = 3600.0, 86400.0


def _visits(*changed: bool, apart: float = DAY) -> History:
    """A first visit, and one for each of `changed`."""
    history = History().after(False, 1e9)
    for number, change in enumerate(changed, 1):
        history = history.after(change, 1e9 + number * apart)
    return history


def _simulated(every_s: float, visits: int, seed: int, settings: RevisitSettings = SETTINGS) -> History:
    """Of a page that changes at random times, visited whenever it is due."""
    chance = random.Random(seed)
    history = History().after(True, 0.0)
    for _ in range(visits):
        apart = history.interval_s(settings)
        history = history.after(chance.random() < -math.expm1(-apart / every_s), history.last + apart)
    return history


def test_before_anything_is_known() -> None:
    assert History().interval_s(SETTINGS) == SETTINGS.interval_first_s
    assert History().due(SETTINGS) == 0
    once = _visits()
    assert once.interval_s(SETTINGS) == SETTINGS.interval_first_s
    assert once.due(SETTINGS) == 1e9 + SETTINGS.interval_first_s
    assert History().after(True, 5.0) == History(1, 0, 5.0, 5.0), "nothing to compare with"


def test_the_estimator() -> None:
    history = _visits(True, False, False, True, False, False, False, False, False, True)
    assert (history.visits, history.changes, history.compared, history.differed) == (11, 3, 10, 3)
    assert history.changes_every_s() == pytest.approx(-DAY / math.log(7.5 / 10.5))
    assert history.interval_s(SETTINGS) == history.changes_every_s()


def test_bounds() -> None:
    always = _visits(*[True] * 50, apart=HOUR)
    assert always.interval_s(SETTINGS) == SETTINGS.interval_min_s
    never = _visits(*[False] * 50, apart=30 * DAY)
    assert never.interval_s(SETTINGS) == SETTINGS.interval_max_s
    assert _visits(False, False, False).interval_s(SETTINGS) == 3 * DAY, "no longer than it was watched"


@pytest.mark.parametrize("seed", range(5))
def test_intervals_follow_the_rate_of_change(seed: int) -> None:
    hourly, daily, monthly, static = (
        _simulated(every, 60, seed).interval_s(SETTINGS) for every in (HOUR, DAY, 30 * DAY, math.inf)
    )
    assert hourly < daily < monthly < static
    assert hourly <= 3 * HOUR
    assert DAY / 3 < daily < 3 * DAY
    assert 10 * DAY < monthly <= SETTINGS.interval_max_s
    assert static == SETTINGS.interval_max_s


def test_a_page_that_changes_its_habits_is_followed() -> None:
    history = _visits(*[False] * 200)
    for _ in range(20):
        history = history.after(True, history.last + history.interval_s(SETTINGS))
    assert history.interval_s(SETTINGS) < 10 * DAY


def test_clocks_set_back_and_visits_at_once() -> None:
    history = _visits(True).after(True, 5.0)
    assert history.last == 1e9 + DAY
    at_once = _visits(True, True, True, apart=0.0)
    assert at_once.interval_s(SETTINGS) == SETTINGS.interval_min_s
    assert _visits(False, False, apart=0.0).interval_s(SETTINGS) == SETTINGS.interval_first_s


def test_explanations() -> None:
    assert History().explain(SETTINGS) == "not visited yet"
    assert _visits().explain(SETTINGS) == (
        "visited once, so nothing is known about its changes: due 1 day after the last visit"
    )
    assert _visits(True, False, True, False).explain(SETTINGS) == (
        "changed at 2 of 4 visits after the first, in 4 days: it seems to change every 1.7 days, "
        "due 1.7 days after the last visit"
    )
    assert _visits(False, False).explain(SETTINGS) == (
        "changed at 0 of 2 visits after the first, in 2 days: no change is expected, "
        "due 2 days after the last visit, as it has not been watched for longer"
    )
    assert _visits(*[True] * 9, apart=60).explain(SETTINGS).endswith("the shortest that the settings allow")
    assert _visits(*[False] * 9, apart=30 * DAY).explain(SETTINGS).endswith("the longest that the settings allow")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "no time"), (1, "1 second"), (90, "1.5 minutes"), (HOUR, "1 hour"), (5 * DAY, "5 days")]
)
def test_durations_are_spoken(seconds: float, text: str) -> None:
    assert interval_words(seconds) == text


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1e9)), max_size=60))
def test_histories_are_kept(visits: list[tuple[bool, float]]) -> None:
    history = History()
    for changed, later in visits:
        history = history.after(changed, history.last + later)
    again = History.decode(history.encode())
    assert all(math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-3) for one, other in zip(history, again, strict=True))
    assert SETTINGS.interval_min_s <= again.interval_s(SETTINGS) <= SETTINGS.interval_max_s
    assert again.explain(SETTINGS)


@given(st.one_of(st.text(max_size=40), st.lists(st.floats(), max_size=9).map(lambda row: ",".join(map(repr, row)))))
def test_what_is_no_history_is_none(text: str) -> None:
    history = History.decode(text)
    interval = history.after(True, history.last + 1).interval_s(SETTINGS)
    assert SETTINGS.interval_min_s <= interval <= SETTINGS.interval_max_s
    assert history.explain(SETTINGS)
