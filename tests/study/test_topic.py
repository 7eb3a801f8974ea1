"""Topics over time (I6): the two experiments of Web InfoMall on generated webs, and brute force."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from generated import Fact, add, made, undated_warc

from holdfast import study
from holdfast.archive import Archive
from holdfast.errors import IndexNotFound, MalformedQuery, UnknownCollection, UnknownName, UsageError
from holdfast.model import Capture
from holdfast.study.engine.periods import PeriodUnit, best_unit, first_day, last_day, periods_of
from holdfast.study.engine.run import finished_result, partial_result
from holdfast.study.engine.scan import StudySource
from holdfast.study.statistics.bursts import find_bursts
from holdfast.study.topic_study import TopicStudy

FILLER = "The harbour master reports calm water and ordinary traffic on all piers today."


def text_page(batch: str, url: str, timestamp: str, *words: str) -> Fact:
    """A page of unique text that has these words."""
    body = f"<html><title>{url}</title><p>{FILLER} {' '.join(words)} Report of {url} at {timestamp}.</html>"
    return Fact(batch, url, timestamp, body.encode())


def indexed(path: Path, facts: Iterable[Fact]) -> Archive:
    archive = made(path)
    add(archive, facts)
    archive.index.update()
    return archive


# -- first experiment: a congress, October 22nd to November 24th, 2002 -------------------------------------------------

FIRST, TAKE_OFF, PEAK, LAST = date(2002, 10, 22), date(2002, 11, 2), date(2002, 11, 20), date(2002, 11, 24)
PAGES_A_DAY = 100


def mentions(day: date) -> int:
    """Pages a day that mention the congress: 7.3 % of all, strong from November 2nd, the most on November 20th."""
    if day < TAKE_OFF:
        return 1
    if day < PEAK:
        return 5 + (day - TAKE_OFF).days // 2
    return {0: 26, 1: 18, 2: 14, 3: 10, 4: 7}[(day - PEAK).days] if day <= LAST else 0


def days(first: date, last: date) -> list[date]:
    return [first + timedelta(number) for number in range((last - first).days + 1)]


def congress_web() -> list[Fact]:
    facts = []
    for day in days(FIRST, LAST):
        for number in range(PAGES_A_DAY):
            topic = ["sixteenth party congress"] if number < mentions(day) else []
            url = f"http://site{number % 20}.com.cn/{number}"
            facts.append(text_page("web", url, f"{day:%Y%m%d}120000", *topic))
    return facts


@pytest.fixture(scope="module")
def congress(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return indexed(tmp_path_factory.mktemp("congress") / "archive", congress_web())


def test_a_congress_takes_off_and_peaks_on_the_days_that_it_did(congress: Archive) -> None:
    result = study.topic(congress, '"party congress"')
    (row,) = result.rows()
    total = sum(map(mentions, days(FIRST, LAST)))
    assert total / (34 * PAGES_A_DAY) == pytest.approx(0.073, abs=0.0005)
    assert (row["captures"], row["share"]) == (total, pytest.approx(total / (34 * PAGES_A_DAY)))
    assert (row["take_off"], row["peak"], row["peak_share"]) == ("2002-11-02", "2002-11-20", 0.26)
    (burst,) = result.rows("bursts")
    assert (burst["begin"], burst["end"], burst["quiet_share"]) == (
        "2002-11-02",
        "2002-11-24",
        pytest.approx(0.01, abs=0.001),
    )
    strength = {each["period"]: each["captures"] for each in result.rows("strength") if each["kind"] == "all"}
    assert strength == {day.isoformat(): mentions(day) for day in days(FIRST, LAST)}
    assert result.notes == []
    assert [panel.x_label for panel in result.panels] == ["day", "day", "kind of site"]


def test_the_pages_behind_a_peak_are_listed_with_their_captures(congress: Archive) -> None:
    pages = study.topic(congress, '"party congress"').rows("pages")
    assert {each["period"] for each in pages} == {"2002-11-20"}
    assert len(pages) == 20
    for each in pages:
        found = congress.catalog.closest(each["url"], each["timestamp"], each["collection"])
        assert found is not None and found.timestamp == each["timestamp"] == "20021120120000"
        assert b"party congress" in congress.records.of(found).payload()


# -- second experiment: sites of the government of a province, April 2003 ----------------------------------------------

SITES, SARS, IRAQ = 39, 22, 15  # 56.4 % and 38.5 %


def province() -> list[Fact]:
    chance = random.Random(2003)
    sars, iraq = set(chance.sample(range(SITES), SARS)), set(chance.sample(range(SITES), IRAQ))
    facts = []
    for site in range(SITES):
        for number in range(5):
            words = [
                *(["SARS"] if site in sars and number == 2 else []),
                *(["Iraq war"] if site in iraq and number > 2 else []),
            ]
            time = (datetime(2003, 4, 1) + timedelta(days=chance.random() * 29)).strftime("%Y%m%d%H%M%S")
            facts.append(text_page("april", f"http://www.town{site}.gov.cn/{number}", time, *words))
    shops = [f"http://shop{site}.com/" for site in range(30)]  # mention both, and are not of the government
    return facts + [text_page("april", url, "20030410000000", "SARS and the Iraq war") for url in shops]


def test_shares_of_the_sites_that_mention_two_topics(tmp_path: Path) -> None:
    with indexed(tmp_path / "archive", province()) as archive:
        result = study.topic(archive, ["sars", '"iraq war"'], within="domain:gov.cn", unit="month")
        whole = study.topic(archive, ["sars", '"iraq war"'], unit="month")
    sars, iraq = result.rows()
    assert (sars["sites"], round(100 * sars["sites_share"], 1)) == (SARS, 56.4)
    assert (iraq["sites"], round(100 * iraq["sites_share"], 1)) == (IRAQ, 38.5)
    assert (sars["pages"], iraq["pages"]) == (SARS, 2 * IRAQ)
    by_kind = {(row["topic"], row["kind"]): row["sites"] for row in whole.rows("kinds")}
    assert by_kind == {
        ("sars", "government"): SARS,
        ("sars", "commercial"): 30,
        ('"iraq war"', "government"): IRAQ,
        ('"iraq war"', "commercial"): 30,
    }
    listed = [row["site"] for row in result.rows("sites") if row["topic"] == "sars"]
    assert len(listed) == SARS and all(site.endswith(".gov.cn") for site in listed)
    assert result.notes == ["bursts need 3 months with captures; the archive has 1"]


# -- brute force -------------------------------------------------------------------------------------------------------

WORDS = ("tide", "lighthouse")


def random_web(seed: int) -> list[tuple[Fact, frozenset[str]]]:
    chance = random.Random(seed)
    found = []
    for number in range(400):
        site = f"host{chance.randrange(2)}.place{chance.randrange(12)}.{chance.choice(('com', 'org', 'gov'))}"
        url = f"http://{site}/{chance.randrange(6)}"
        day = datetime(2019, 11, 20) + timedelta(days=chance.random() * 90, seconds=number)
        words = frozenset(word for word in WORDS if chance.random() < 0.3)
        fact = text_page(f"b{number % 3}", url, day.strftime("%Y%m%d%H%M%S"), *words)
        if chance.random() < 0.1:
            fact = Fact(fact.batch, fact.url, fact.timestamp, fact.body, fact.mime, status=404)
        found.append((fact, words))
    return found


def period(fact: Fact, unit: str) -> str:
    return periods_of(fact.timestamp[:8])[list(PeriodUnit).index(PeriodUnit(unit))]


def site(fact: Fact) -> str:
    return ".".join(fact.host.split(".")[-2:])


KINDS = {"com": "commercial", "org": "organization", "gov": "government"}


def check(result: study.StudyResult, web: list[tuple[Fact, frozenset[str]]], unit: str) -> None:
    counted = [(fact, words) for fact, words in web if fact.status == 200]
    rows = {(row["topic"], row["kind"], row["period"]): row for row in result.rows("strength")}
    wanted = set()
    for fact, _ in counted:
        wanted |= {(word, kind, period(fact, unit)) for word in WORDS for kind in ("all", KINDS[site(fact)[-3:]])}
    assert set(rows) == wanted
    for (word, kind, when), row in rows.items():
        own = [
            (fact, words)
            for fact, words in counted
            if period(fact, unit) == when and kind in ("all", KINDS[site(fact)[-3:]])
        ]
        matched = [fact for fact, words in own if word in words]
        assert (row["captures"], row["all_captures"]) == (len(matched), len(own))
        assert row["pages"] == len({fact.url for fact in matched})
        assert row["all_pages"] == len({fact.url for fact, _ in own})
        assert row["sites"] == len({site(fact) for fact in matched})
        assert row["all_sites"] == len({site(fact) for fact, _ in own})
        assert row["share"] == pytest.approx(len(matched) / len(own))
        assert row["sites_share"] == pytest.approx(row["sites"] / row["all_sites"])
    for word in WORDS:
        matched = [fact for fact, words in counted if word in words]
        found = {row["site"]: row for row in result.rows("sites") if row["topic"] == word}
        assert set(found) == {site(fact) for fact in matched}
        for name, row in found.items():
            times = [fact.timestamp for fact in matched if site(fact) == name]
            assert (row["captures"], row["first"], row["last"]) == (len(times), min(times), max(times))


@pytest.mark.parametrize(("seed", "unit"), [(1, "day"), (2, "week"), (3, "month"), (4, "year")])
def test_counts_are_those_of_brute_force(tmp_path: Path, seed: int, unit: str) -> None:
    web = random_web(seed)
    with indexed(tmp_path / "archive", [fact for fact, _ in web]) as archive:
        check(study.topic(archive, WORDS, unit=unit), web, unit)


def test_partial_results_of_two_archives_merge_to_that_of_one(tmp_path: Path) -> None:
    web = random_web(5)
    directories = []
    for number in range(2):
        part = [fact for fact, _ in web if (site(fact) < "place3") == bool(number)]
        with indexed(tmp_path / f"node{number}", part) as archive:
            directories.append(tmp_path / f"partial{number}")
            directories[-1].mkdir()
            partial_result(TopicStudy(WORDS), StudySource(archive), directories[-1])
    check(finished_result(TopicStudy(WORDS), directories), web, "day")


def test_what_access_rules_hide_is_not_counted(tmp_path: Path) -> None:
    web = random_web(6)

    def permits(capture: Capture) -> bool:
        return "place1." not in capture.url

    with indexed(tmp_path / "archive", [fact for fact, _ in web]) as archive:
        result = study.topic(archive, WORDS, unit="week", permits=permits)
    check(result, [pair for pair in web if "place1." not in pair[0].url], "week")


# -- periods and bursts ------------------------------------------------------------------------------------------------


def test_periods_of_days() -> None:
    assert periods_of("20021102") == ("2002-11-02", "2002-W44", "2002-11", "2002")
    assert periods_of("20200231") == ("2020-02-29", "2020-W09", "2020-02", "2020")
    assert periods_of("20209900")[0] == "2020-12-31"
    assert periods_of("00000000")[3] == "0001"
    assert periods_of("99991231") == ("9999-12-31", "9999-W52", "9999-12", "9999")
    bounds = {
        "2002-11-02": (date(2002, 11, 2), date(2002, 11, 2)),
        "2002-W44": (date(2002, 10, 28), date(2002, 11, 3)),
        "2004-02": (date(2004, 2, 1), date(2004, 2, 29)),
        "2004": (date(2004, 1, 1), date(2004, 12, 31)),
        "9999-W52": (date(9999, 12, 27), date.max),
        "9999-12": (date(9999, 12, 1), date.max),
    }
    assert {name: (first_day(name), last_day(name)) for name in bounds} == bounds


def test_the_unit_fits_what_there_is() -> None:
    def unit(*stamps: str) -> str:
        names = [periods_of(stamp) for stamp in stamps]
        return best_unit({unit: sorted({name[at] for name in names}) for at, unit in enumerate(PeriodUnit)})

    assert unit(*(f"200211{day:02}" for day in range(1, 31))) == "day"
    assert unit(*(f"2002{month:02}{day:02}" for month in range(1, 13) for day in (1, 8, 15, 22))) == "week"
    assert unit(*(f"{year}{month:02}01" for year in range(2000, 2008) for month in range(1, 13))) == "month"
    assert unit("20000101", "20030101", "20060101") == "year"
    assert unit() == "year"


def test_bursts_stand_out_and_noise_does_not() -> None:
    chance = random.Random(9)
    noise = [sum(chance.random() < 0.05 for _ in range(200)) for _ in range(60)]
    assert find_bursts(noise, [200] * 60).bursts == []
    two = [*noise]
    for at in (*range(10, 14), *range(40, 45)):
        two[at] += 25 + at % 3
    two[42] += 10
    found = find_bursts(two, [200] * 60)
    assert [(each.first, each.last) for each in found.bursts] == [(10, 13), (40, 44)]
    assert found.bursts[1].peak == 42
    assert found.quiet_share == pytest.approx(0.05, abs=0.01)


def test_little_is_no_burst() -> None:
    assert find_bursts([], []).bursts == []
    assert find_bursts([1, 0], [10, 10]).bursts == []
    assert find_bursts([0, 0, 0], [10, 10, 10]).bursts == []
    assert find_bursts([0, 0, 1, 0, 0], [9, 9, 9, 9, 9]).bursts == []
    assert find_bursts([50, 50, 50], [50, 50, 50]).bursts == []


# -- little or nothing -------------------------------------------------------------------------------------------------


def test_an_archive_without_captures_or_without_index(tmp_path: Path) -> None:
    with made(tmp_path / "archive") as archive:
        with pytest.raises(IndexNotFound, match="holdfast index update"):
            study.topic(archive, "tide")
        archive.index.update()
        result = study.topic(archive, "tide")
    assert (result.rows(), list(result.panels)) == ([], [])
    assert result.notes == ["there are no indexed captures of documents with text to study"]


def test_one_capture_and_a_topic_nobody_mentions(tmp_path: Path) -> None:
    with indexed(tmp_path / "archive", [text_page("one", "http://a.example/", "20200101000000", "tide")]) as archive:
        result = study.topic(archive, ["tide", "unicorn"])
        nobody = study.topic(archive, "unicorn")
    tide, unicorn = result.rows()
    assert (tide["captures"], tide["share"], tide["sites"], tide["peak"], tide["take_off"]) == (
        1,
        1.0,
        1,
        "2020-01-01",
        None,
    )
    assert (unicorn["captures"], unicorn["share"], unicorn["peak"], unicorn["bursts"]) == (0, 0.0, None, 0)
    assert result.notes == ["no capture mentions 'unicorn'", "bursts need 3 days with captures; the archive has 1"]
    assert list(nobody.panels) == []


def test_captures_without_dates_or_not_indexed_are_left_out_and_noted(tmp_path: Path) -> None:
    (tmp_path / "undated.warc").write_bytes(undated_warc("http://a.example/", b"<p>tide " + FILLER.encode()))
    with made(tmp_path / "archive") as archive:
        archive.import_files(tmp_path / "undated.warc")
        archive.index.update()
        add(archive, [text_page("late", "http://b.example/", "20200101000000", "tide")])
        result = study.topic(archive, "tide")
    assert result.rows() == []
    assert result.notes[1:] == [
        "captures without a date, left out: 1",
        "captures not indexed yet, left out: 1; run 'holdfast index update'",
    ]


def test_wrong_arguments_are_refused(congress: Archive) -> None:
    with pytest.raises(UsageError, match="0 topics: give 1 to 6"):
        study.topic(congress, [])
    with pytest.raises(UsageError, match="a topic is empty"):
        study.topic(congress, " ")
    with pytest.raises(UsageError, match="given twice"):
        study.topic(congress, ["a", "a"])
    with pytest.raises(UnknownName, match="cannot count by 'hour': one of auto, day, week, month, year"):
        study.topic(congress, "a", unit="hour")
    with pytest.raises(MalformedQuery):
        study.topic(congress, '"open')
    with pytest.raises(UnknownCollection):
        study.topic(congress, "a", collection="nowhere")
