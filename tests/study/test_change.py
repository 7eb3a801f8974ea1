"""Half-lives and intervals of change: estimators against known rates, the study against brute force (I7)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from generated import Fact, add, made, when

from holdfast import study
from holdfast.archive import Archive
from holdfast.errors import UnknownCollection
from holdfast.study.change_study import ChangeStudy, Duration, PageVisit, durations
from holdfast.study.engine.run import finished_result, partial_result
from holdfast.study.engine.scan import StudySource
from holdfast.study.statistics.survival import (
    Bins,
    Count,
    Estimate,
    bin_of,
    change_rate,
    exponential_rate,
    kaplan_meier,
    median_of,
    rate_of,
)

START = datetime(2020, 1, 1, tzinfo=UTC)
DAY = 86_400


def binned(lengths: Sequence[float]) -> Bins:
    found: dict[int, Count] = {}
    for length in lengths:
        number, total = found.get(bin_of(length), Count(0, 0.0))
        found[bin_of(length)] = Count(number + 1, total + length)
    return found


# -- estimators --------------------------------------------------------------------------------------------------------


def product_limit(ends: Sequence[float], censored: Sequence[float]) -> list[tuple[float, float]]:
    """Kaplan-Meier from single durations, as textbooks have it."""
    share, curve = 1.0, []
    for time in sorted(set(ends)):
        at_risk = sum(each >= time for each in (*ends, *censored))
        share *= 1 - ends.count(time) / at_risk
        curve.append((time, share))
    return curve


def test_kaplan_meier_is_that_of_the_textbook() -> None:
    """Remission times of leukemia patients (Freireich 1963): in days, each in its own bin."""
    ends = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    days = [each * DAY for each in ends], [each * DAY for each in censored]
    curve = kaplan_meier(binned(days[0]), binned(days[1]))
    assert [(round(each.seconds / DAY), round(each.share, 3)) for each in curve] == [
        *((6, 0.857), (7, 0.807), (10, 0.753), (13, 0.690), (16, 0.627), (22, 0.538), (23, 0.448))
    ]
    assert median_of(curve).value == pytest.approx(23 * DAY)
    band = curve[0].low, curve[0].high
    assert band == (pytest.approx(0.620, abs=0.001), pytest.approx(0.952, abs=0.001))


def test_kaplan_meier_of_many_is_close_to_that_of_single_durations() -> None:
    chance = random.Random(1)
    lives = [chance.expovariate(1 / 60) * DAY for _ in range(600)]
    ends_at = [chance.uniform(0, 200) * DAY for _ in lives]
    ends = [life for life, end in zip(lives, ends_at, strict=True) if life <= end]
    censored = [end for life, end in zip(lives, ends_at, strict=True) if life > end]
    curve = {round(each.seconds): each.share for each in kaplan_meier(binned(ends), binned(censored))}
    exact = product_limit(ends, censored)
    for time, share in curve.items():
        nearest = max((each for each in exact if each[0] <= time * 1.05), key=lambda each: each[0])
        assert share == pytest.approx(nearest[1], abs=0.03)


def test_rates_of_nothing_and_of_everything() -> None:
    assert rate_of(0, 0.0) == Estimate(None, None, None)
    assert rate_of(0, 100.0)[:2] == (0.0, 0.0)
    assert rate_of(0, 100.0).inverse() == Estimate(None, pytest.approx(33.38, abs=0.01), None)
    assert change_rate({}, {}) == Estimate(None, None, None)
    assert change_rate(binned([DAY]), {}) == Estimate(None, None, None)
    assert kaplan_meier({}, binned([5.0])) == []
    assert median_of([]) == Estimate(None, None, None)


def covers(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None and estimate.high is not None
    return estimate.low <= truth <= estimate.high


def test_intervals_of_confidence_cover_the_truth_as_often_as_they_say() -> None:
    """A hundred samples with a mean of 30 days between changes; of 95 % intervals, 89 of 100 and more must cover it."""
    chance = random.Random(2)
    rate = 1 / (30 * DAY)
    hits = {"visits": 0, "lives": 0, "median": 0}
    for _ in range(100):
        gaps = [chance.choice((1, 7, 30, 90)) * DAY for _ in range(200)]
        is_changed = [chance.random() < -math.expm1(-rate * gap) for gap in gaps]
        changed = [gap for gap, did in zip(gaps, is_changed, strict=True) if did]
        same = [gap for gap, did in zip(gaps, is_changed, strict=True) if not did]
        hits["visits"] += covers(change_rate(binned(changed), binned(same)), rate)
        lives = [chance.expovariate(rate) for _ in range(200)]
        ends, censored = [each for each in lives if each < 60 * DAY], [60.0 * DAY for each in lives if each >= 60 * DAY]
        hits["lives"] += covers(exponential_rate(binned(ends), binned(censored)), rate)
        hits["median"] += covers(median_of(kaplan_meier(binned(ends), binned(censored))), math.log(2) / rate)
    assert all(each >= 89 for each in hits.values()), hits


def test_visits_at_any_distance_estimate_the_same_rate() -> None:
    """Counting changes and dividing by time would find less the rarer the visits are."""
    chance = random.Random(3)
    for gap in (1, 10, 60):
        count = 20_000
        did = sum(chance.random() < -math.expm1(-gap / 30) for _ in range(count))
        found = change_rate({1: Count(did, did * gap * DAY)}, {1: Count(count - did, (count - did) * gap * DAY)})
        assert found.value == pytest.approx(1 / (30 * DAY), rel=0.05)


# -- one URL -----------------------------------------------------------------------------------------------------------


def of(visits: Sequence[tuple[float, str]], what: str) -> list[tuple[bool, float]]:
    found = durations([PageVisit(int(day * DAY), digest, -1) for day, digest in visits])
    return [(each.is_end, each.seconds / DAY) for each in found if each.what == what]


def test_what_is_learnt_of_a_url() -> None:
    visits = [(0.0, "a"), (10.0, "a"), (20.0, "b"), (30.0, "a"), (40.0, ""), (60.0, "")]
    assert of(visits, "interval") == [(False, 10), (True, 10), (True, 10)]
    assert of(visits, "content") == [(True, 15), (True, 5), (True, 5)]
    assert of(visits, "page") == [(True, 15)]
    assert of(visits, "url") == [(True, 35)]


def test_what_is_there_at_the_last_visit_is_censored() -> None:
    assert of([(0.0, "a"), (10.0, "a")], "page") == [(False, 10)]
    assert of([(0.0, "a"), (10.0, "a")], "url") == [(False, 10)]
    assert of([(0.0, "a")], "page") == of([(0.0, "a")], "content") == of([(0.0, "a")], "url") == []


def test_a_url_that_comes_back_is_not_gone() -> None:
    visits = [(0.0, "a"), (10.0, ""), (20.0, "a")]
    assert of(visits, "url") == [(False, 20)]
    assert of(visits, "interval") == []
    assert of(visits, "content") == [(True, 5)]
    assert of([(0.0, ""), (5.0, "a"), (15.0, "b")], "page") == [(True, 5)]


def test_last_modified() -> None:
    visits = [PageVisit(10 * DAY, "a", 4 * DAY), PageVisit(20 * DAY, "a", 4 * DAY), PageVisit(30 * DAY, "b", 28 * DAY)]
    found = [each for each in durations(visits) if each.what == "modified"]
    assert found == [
        Duration("modified", True, 6 * DAY),
        Duration("modified", False, 10 * DAY),
        Duration("modified", True, 2 * DAY),
    ]


# -- archives with known rates -----------------------------------------------------------------------------------------

RATES = {"shop.com": 20.0, "ministry.gov": 120.0}  # days between changes
LIFE_DAYS = 400.0


def changing(seed: int, pages: int = 250, visits: int = 9, gap_days: float = 15.0) -> list[Fact]:
    """Pages that change and disappear at random, visited again and again."""
    chance = random.Random(seed)
    facts = []
    for site, mean_days in RATES.items():
        for number in range(pages):
            dies = chance.expovariate(1 / LIFE_DAYS)
            version, changed = 0, -chance.expovariate(1 / mean_days)
            following = chance.expovariate(1 / mean_days)
            for visit in range(visits):
                day = visit * gap_days
                while following < day:
                    version, changed = version + 1, following
                    following += chance.expovariate(1 / mean_days)
                gone = day > dies
                body = b"gone" if gone else f"{site} {number} version {version}".encode() * 60
                modified = "" if gone else format_datetime(START + timedelta(days=changed), usegmt=True)
                url = f"http://{site}/{number}"
                facts.append(
                    Fact(f"v{visit}", url, when(START, day), body, status=404 if gone else 200, modified=modified)
                )
    return facts


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    archive = made(tmp_path_factory.mktemp("change") / "archive")
    add(archive, changing(11))
    return archive


def stratum(result: study.StudyResult, kind: str, value: str) -> dict[str, Any]:
    (row,) = [row for row in result.rows() if (row["kind"], row["value"]) == (kind, value)]
    return row


def test_known_rates_are_found_again(archive: Archive) -> None:
    result = study.change(archive)
    for site, days in RATES.items():
        row = stratum(result, "site", site)
        assert row["urls"] == 250
        assert row["change_interval_low"] <= days <= row["change_interval_high"]
        assert row["change_interval_high"] < 1.4 * row["change_interval_low"]
        assert row["modified_interval_low"] <= days <= row["modified_interval_high"]
        half_life = math.log(2) / (1 / days + 1 / LIFE_DAYS)  # until it changes or is gone
        tolerance = 7.5  # half of the time between two visits
        assert row["half_life_low"] - tolerance <= half_life <= row["half_life_high"] + tolerance
    assert stratum(result, "category", "government")["urls"] == 250
    assert stratum(result, "tld", "com")["changes"] == stratum(result, "site", "shop.com")["changes"]
    assert len(result.panels) == 4


def test_counts_are_those_of_brute_force(archive: Archive) -> None:
    row = stratum(study.change(archive), "all", "all")
    by_url: dict[str, list[Fact]] = {}
    for fact in changing(11):
        by_url.setdefault(fact.url, []).append(fact)
    pairs = [
        (one, other) for facts in by_url.values() for one, other in pairwise(facts) if one.status == other.status == 200
    ]
    assert row["captures"] == sum(fact.status == 200 for fact in changing(11))
    assert row["intervals"] == len(pairs)
    assert row["changes"] == sum(one.body != other.body for one, other in pairs)
    assert row["gone"] == sum(facts[-1].status == 404 for facts in by_url.values())


def test_the_survival_curve_falls_and_has_its_fit_beside_it(archive: Archive) -> None:
    rows = [row for row in study.change(archive).rows("survival") if (row["kind"], row["what"]) == ("all", "page")]
    shares = [row["survival"] for row in rows]
    assert shares == sorted(shares, reverse=True)
    assert all(row["low"] <= row["survival"] <= row["high"] for row in rows)
    assert all(0 < row["exponential"] < 1 for row in rows)


def test_partial_results_of_two_archives_merge_to_that_of_one(archive: Archive, tmp_path: Path) -> None:
    directories = []
    for number, site in enumerate(RATES):
        with made(tmp_path / f"node{number}") as node:
            add(node, [fact for fact in changing(11) if fact.host == site])
            directories.append(tmp_path / f"partial{number}")
            directories[-1].mkdir()
            partial_result(ChangeStudy(), StudySource(node), directories[-1])
    merged, whole = finished_result(ChangeStudy(), directories), study.change(archive)
    for one, other in zip(merged.rows(), whole.rows(), strict=True):
        assert one == {name: pytest.approx(v) if isinstance(v, float) else v for name, v in other.items()}


# -- little or nothing -------------------------------------------------------------------------------------------------


def test_an_empty_archive_and_one_capture(tmp_path: Path) -> None:
    with made(tmp_path / "archive") as archive:
        assert study.change(archive).notes == ["there are no captures with a content to study"]
        add(archive, [Fact("one", "http://a.example/", "20200101000000", b"alone" * 100)])
        result = study.change(archive)
        row = stratum(result, "all", "all")
        assert (row["urls"], row["intervals"], row["half_life_days"]) == (1, 0, None)
        assert result.notes[0].startswith("no URL was captured twice")
        assert list(result.panels) == []
        add(archive, [Fact("one", "http://a.example/", "20200201000000", b"alone" * 100)])
        result = study.change(archive)
        row = stratum(result, "all", "all")
        assert (row["intervals"], row["changes"], row["change_interval_days"]) == (1, 0, None)
        assert row["change_interval_low"] == pytest.approx(31 / 2.9957, rel=0.01)
        assert "half-life is not reached" in result.notes[0]
        with pytest.raises(UnknownCollection):
            study.change(archive, collection="nowhere")
