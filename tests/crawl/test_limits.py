"""When a crawl ends by a limit, and what is left for what is under way (H5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.crawl.frontier import Frontier
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.policy.limits import GRACE_S, CrawlLimits
from holdfast.crawl.report.crawls import CrawlState

OVER = (CrawlState.LIMIT, "the time is over")


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    frontier = Frontier(tmp_path / "frontier")
    frontier.begin_visit()
    yield frontier
    frontier.close()


def limits_of(frontier: Frontier, clock: Clock, time_s: float | None) -> CrawlLimits:
    return CrawlLimits(CrawlJob(time_s=time_s), frontier, clock.now, clock)


def test_the_time_is_over_when_it_is(frontier: Frontier) -> None:
    clock = Clock()
    limits = limits_of(frontier, clock, 60.0)
    clock.now += 59.9
    assert limits.reached(unsettled=1000) is None, "of how fast things are settled nothing is known yet"
    clock.now += 0.1
    assert limits.reached() == OVER


def test_settling_what_was_fetched_is_part_of_the_time(frontier: Frontier) -> None:
    """At a hundred a second, four hundred take four seconds."""
    clock = Clock()
    limits = limits_of(frontier, clock, 60.0)
    for _ in range(110):
        clock.now += 0.5
        limits.settled(50)
    assert limits.reached(unsettled=400) is None, "five seconds are left"
    clock.now += 1.0
    limits.settled(100)
    assert limits.reached(unsettled=390) is None
    assert limits.reached(unsettled=410) == OVER


def test_no_more_than_a_tenth_of_the_time_is_kept_back(frontier: Frontier) -> None:
    clock = Clock()
    limits = limits_of(frontier, clock, 60.0)
    for _ in range(53):
        clock.now += 1.0
        limits.settled(1)
    assert limits.reached(unsettled=100_000) is None
    clock.now += 1.0
    assert limits.reached(unsettled=100_000) == OVER


def test_requests_under_way_may_take_a_twentieth_beyond_the_time(frontier: Frontier) -> None:
    clock = Clock()
    assert limits_of(frontier, clock, None).grace_s == GRACE_S
    limits = limits_of(frontier, clock, 60.0)
    assert limits.grace_s == GRACE_S
    clock.now += 60.0
    assert limits.grace_s == pytest.approx(3.0)
    clock.now += 4.0
    assert limits.grace_s == 0.0
