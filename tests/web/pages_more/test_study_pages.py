"""Pages of studies: tables, charts, CSV, progress; what access rules hide (W16, N11)."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from more_asking import ask
from page_reading import Page, faults
from serving import Served, serving

import holdfast
from holdfast import plan
from holdfast.archive.ingest.exchange import page
from holdfast.study.result import StudyResult
from holdfast.web.ui.pages.studies import ABOUT, STUDIES
from holdfast.web.ui.study_runs import StudyRun, StudyRuns

WORDS = " ".join(f"word{number}" for number in range(300))
RULE = '\n[[access]]\nprefix = "http://secret.example/"\nrule = "exclude"\n'


def build(path: Path) -> Path:
    holdfast.init(path)
    with holdfast.open(path) as archive:
        for number, batch in enumerate(("spring", "summer")):
            texts = [WORDS, WORDS.replace("word7 ", f"other{number} "), f"only {number} " * 40]
            hosts = ("http://a.example/<b>", "http://b.example/", "http://secret.example/")
            pages = [
                page(url + str(number * (at % 2)), f"<p>{text}".encode(), timestamp=f"202{number}0102030405")
                for at, (url, text) in enumerate(zip(hosts, texts, strict=True))
            ]
            archive.add(pages, batch=batch)
        archive.index.update()
    return path


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(build(tmp_path_factory.mktemp("studied") / "archive")) as served:
        yield served


PAGES = (
    "/studies",
    "/studies/duplicates",
    "/studies/duplicates?by=collection",
    "/studies/near-duplicates",
    "/studies/change",
    "/studies/composition",
    "/studies/media",
    "/studies/topic",
    "/studies/topic?topics=word1%0D%0Aonly&by=year&within=type%3Ahtml",
    "/studies/topic?topics=nobody",
    "/studies/plan",
    "/studies/plan?preset=archive&copies=2",
    "/studies/simulation",
    "/studies/simulation?preset=archive&copies=2&nodes=4&years=1&runs=1",
    "/studies/plan?preset=thesis&pages=5e9&disk=1T&life=200d",
)


@pytest.mark.parametrize("target", PAGES)
def test_pages_are_complete_and_safe(studied: Served, target: str) -> None:
    told = ask(studied.controls, target)
    assert told.status == 200
    assert faults(Page(told.text)) == []
    assert "<b>" not in told.text
    assert "script-src 'self'" in told.headers["content-security-policy"]


def test_notes_keep_their_capital_letters(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    with holdfast.open(tmp_path / "archive") as archive:
        archive.add(page("http://a.example/", b"once", timestamp="20200102030405"))
    with serving(tmp_path / "archive") as served:
        assert "No URL was captured twice" in ask(served.controls, "/studies/change").text


def test_columns_are_explained(studied: Served) -> None:
    for name, tables in ABOUT.items():
        assert set(tables) <= set(STUDIES[name].shown)
    shown = Page(ask(studied.controls, "/studies/duplicates").text).one("main").text
    assert ABOUT["duplicates"]["groups"] in shown


def test_figures_are_those_of_the_study(studied: Served) -> None:
    text = ask(studied.controls, "/studies/duplicates").text
    assert text.count("<td>spring</td>") == 3  # its row, what summer is compared with, and beside the paper
    assert "33.3 %" in text
    assert 'srcset="/studies/duplicates/chart.svg?theme=dark"' in text


def test_columns_that_say_nothing_are_left_out(studied: Served) -> None:
    text = ask(studied.controls, "/studies/change").text
    assert "change interval" in text
    assert "modified interval" not in text  # no page has a Last-Modified
    assert "modified_interval_days" in ask(studied.controls, "/studies/change/strata.csv").text


def test_a_cluster_is_one_click_away_and_so_are_its_pages(studied: Served) -> None:
    text = ask(studied.controls, "/studies/near-duplicates").text
    link = text.partition('href="/studies/near-duplicates?cluster=')[2].partition('"')[0]
    assert len(link) == 16
    members = ask(studied.controls, "/studies/near-duplicates", {"cluster": link}).text
    assert "/main/20200102030405/http://a.example/%3Cb%3E0" in members
    assert "http://b.example/1" in members


def test_charts_for_small_screens(studied: Served) -> None:
    text = ask(studied.controls, "/studies/duplicates").text
    assert 'srcset="/studies/duplicates/chart.svg?theme=dark&amp;narrow=1"' in text
    wide, narrow = (
        ask(studied.controls, "/studies/duplicates/chart.svg", parameters).text for parameters in ({}, {"narrow": "1"})
    )
    width = re.compile(r'<svg [^>]*width="([0-9.]+)pt"')
    assert [float(found[1]) for each in (wide, narrow) if (found := width.search(each))] == [504, pytest.approx(302.4)]


def test_charts_for_light_and_dark_pages(studied: Served) -> None:
    pytest.importorskip("matplotlib")
    light = ask(studied.controls, "/studies/duplicates/chart.svg")
    dark = ask(studied.controls, "/studies/duplicates/chart.svg", {"theme": "dark"})
    assert light.headers["content-type"] == "image/svg+xml"
    assert "#ffffff" in light.text and "#1a2125" in dark.text


def test_tables_as_csv(studied: Served) -> None:
    told = ask(studied.controls, "/studies/duplicates/pairs.csv")
    assert told.text.splitlines()[0] == "group,before,documents,share,urls,urls_share"
    assert told.text.splitlines()[1].startswith("summer,spring,1,")
    assert told.headers["content-disposition"] == 'attachment; filename="duplicates-pairs.csv"'


@pytest.mark.parametrize(
    ("target", "status", "message"),
    [
        ("/studies/moon", 404, "no study"),
        ("/studies/duplicates?by=moon", 400, "is none of batch, collection, crawl"),
        ("/studies/duplicates?collection=nowhere", 404, "no collection"),
        ("/studies/near-duplicates?cluster=xyz", 400, "is not a cluster"),
        ("/studies/duplicates/moon.csv", 404, "no file"),
        ("/studies/plan?preset=moon", 400, "is none of national, thesis, archive"),
        ("/studies/plan?pages=many", 400, "bad pages"),
        ("/studies/plan?disk=0", 400, "bad disk_bytes"),
        ("/studies/plan?copies=3&nodes=2", 400, "copies are on different nodes"),
        ("/studies/duplicates/../groups", 404, ""),
    ],
)
def test_mistakes_are_named(studied: Served, target: str, status: int, message: str) -> None:
    told = ask(studied.controls, target)
    assert told.status == status
    assert message in told.text.lower()


def test_what_rules_exclude_is_neither_counted_nor_named(tmp_path: Path) -> None:
    path = build(tmp_path / "archive")
    settings = path / "holdfast.toml"
    settings.write_text(settings.read_text() + RULE)
    with serving(path) as served:
        text = ask(served.controls, "/studies/duplicates").text
        assert "a.example" in text and "secret.example" not in text
        text = ask(served.controls, "/studies/topic", {"topics": "only"}).text
        assert "secret.example" not in text
        assert (
            ask(served.controls, "/studies/duplicates/groups.csv")
            .text.splitlines()[1]
            .startswith("spring,20200102030405,2,")
        )


def test_an_empty_archive_says_so(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    with serving(tmp_path / "archive") as served:
        told = ask(served.controls, "/studies/duplicates")
        assert "There are no captures to study." in told.text
        assert "<picture>" not in told.text
        told = ask(served.controls, "/studies/near-duplicates")
        assert told.status == 404 and "holdfast index update" in told.text
        assert str(tmp_path) not in told.text
        planned = ask(served.controls, "/studies/plan", {"preset": "archive"})
        assert planned.status == 400 and "it has no captures" in planned.text
        assert str(tmp_path) not in planned.text


def test_a_long_study_shows_its_progress(studied: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, advanced = threading.Event(), threading.Event()
    original = StudyRuns._work

    def slow(self: StudyRuns, run: StudyRun, captures: Callable[[], int], work: Callable[..., StudyResult]) -> None:
        def waits(run: StudyRun) -> StudyResult:
            run.advance(2)
            advanced.set()
            go_on.wait(60)
            return work(run)

        threading.Thread(target=original, args=[self, run, captures, waits]).start()
        assert advanced.wait(60)

    monkeypatch.setattr("holdfast.web.ui.study_runs._WAIT_S", 0.05)
    monkeypatch.setattr(StudyRuns, "_work", slow)
    try:
        ask(studied.controls, "/studies/duplicates", {"by": "crawl"})
        assert advanced.wait(60)
        told = ask(studied.controls, "/studies/duplicates", {"by": "crawl"})
        assert "2 of 6 captures read" in told.text and told.headers["refresh"] == "2"
        assert faults(Page(told.text)) == []
    finally:
        go_on.set()
    monkeypatch.undo()
    assert "come from no crawl" in ask(studied.controls, "/studies/duplicates", {"by": "crawl"}).text


def test_results_are_used_again_while_nothing_changes() -> None:
    runs, begun = StudyRuns(), []

    def work(run: StudyRun) -> StudyResult:
        begun.append(run)
        return StudyResult("duplicates", {})

    first = runs.get("key", 1, lambda: 10, work)
    assert runs.get("key", 1, lambda: 10, work) is first
    first.ended_s -= 60
    assert runs.get("key", 2, lambda: 10, work) is not first
    assert len(begun) == 2


def test_topics_lead_to_the_captures_that_were_counted(studied: Served) -> None:
    """One click from a topic, a period or a site to a search, and from an event to its pages (I6)."""
    text = ask(studied.controls, "/studies/topic", {"topics": "word1\r\nonly", "by": "year"}).text
    assert "Give topics to study" not in text
    link = 'href="/search?q=%28word1%29+from%3A20200101+to%3A20201231&amp;as=words"'
    assert link in text
    found = ask(studied.controls, "/search", {"q": "(word1) from:20200101 to:20201231", "as": "words"}).text
    assert "http://b.example/" in found
    chart = ask(studied.controls, "/studies/topic/chart.svg", {"topics": "word1", "by": "year"})
    assert chart.headers["content-type"] == "image/svg+xml"


def test_topics_that_are_missing_or_wrong_are_named(studied: Served) -> None:
    assert "Give topics to study" in ask(studied.controls, "/studies/topic").text
    assert ask(studied.controls, "/studies/topic/topics.csv").status == 400
    wrong = ask(studied.controls, "/studies/topic", {"topics": '"open'})
    assert wrong.status == 400
    assert 'role="alert"' in wrong.text and "&#34;open</textarea>" in wrong.text  # to be corrected there
    assert faults(Page(wrong.text)) == []
    assert ask(studied.controls, "/studies/topic", {"topics": "x" * 5000}).status == 400
    many = ask(studied.controls, "/studies/topic", {"topics": "\n".join("abcdefg")})
    assert (many.status, "topics: give 1 to 6" in many.text) == (400, True)


def test_a_plan_is_that_of_the_command_with_this_archives_growth(studied: Served) -> None:
    """H9: presets, values that are changed, and when the disk of this archive is full."""
    rows = ask(studied.controls, "/studies/plan/figures.csv", {"preset": "thesis", "copies": "4"}).text
    expected = plan.estimate(plan.preset("thesis").changed(copies=4)).rows()
    found = [(row["figure"], float(row["value"])) for row in csv.DictReader(io.StringIO(rows))]
    assert found == [(row["figure"], row["value"]) for row in expected]
    text = ask(studied.controls, "/studies/plan", {"preset": "thesis", "copies": "4"}).text
    usual = plan.preset("thesis").copies
    assert (
        f'name="copies" maxlength="40" placeholder="{usual}" value="4"' in text
    )  # the preset's own, and what is given
    assert '<option value="thesis" selected>' in text
    assert 'name="collection"' not in text
    assert "<h2>Growth</h2>" in text and "<td>2020-01</td>" in text
    inputs = ask(studied.controls, "/studies/plan/inputs.csv", {"preset": "archive", "copies": "2"}).text
    assert "Copies,2" in inputs and "Nodes,2" in inputs


def test_a_simulation_is_that_of_the_library(studied: Served) -> None:
    """H9: with the preset, the values that are changed, and the seed."""
    values = {"preset": "national", "nodes": "30", "life": "200d", "years": "2", "runs": "2", "seed": "7"}
    rows = ask(studied.controls, "/studies/simulation/figures.csv", values | {"replacement": "same"}).text
    cluster = plan.cluster_of(plan.preset("national").changed(nodes=30, life_days=200.0), replacement="same", years=2.0)
    expected = plan.simulate(cluster, years=2.0, runs=2, seed=7).rows()
    found = {row["figure"]: float(row["value"]) for row in csv.DictReader(io.StringIO(rows))}
    assert found == {row["figure"]: row["value"] for row in expected}
    assert found["nodes that died"] > 50
    text = ask(studied.controls, "/studies/simulation", values | {"replacement": "same"}).text
    assert "<h2>Figures</h2>" in text and "<h2>Years</h2>" in text and "chart.svg" in text
    assert ">incomplete<" in text and "0 %</td>" in text
    shaped = ask(studied.controls, "/studies/simulation/figures.csv", values | {"shape": "0.5"}).text
    assert shaped != ask(studied.controls, "/studies/simulation/figures.csv", values).text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nodes": "1000000"}, "1,000,000 nodes here, at most 20,000"),
        ({"life": "1h", "years": "10"}, "losses of nodes here"),
        ({"runs": "9999999"}, "give more than 0"),
        ({"years": "0"}, "give more than 0"),
        ({"years": "many"}, "is not a number"),
        ({"runs": "0"}, "give more than 0"),
        ({"shape": "99"}, "bad shape of lives"),
        ({"copies": "9", "nodes": "5"}, "cannot keep 9 copies on 5 nodes"),
        ({"preset": "moon"}, "is none of"),
        ({"replacement": "hope"}, "is none of"),
    ],
)
def test_simulations_that_cannot_be_here_say_why(studied: Served, values: dict[str, str], message: str) -> None:
    told = ask(studied.controls, "/studies/simulation", values)
    assert told.status == 400
    assert message.lower() in told.text.lower()
    assert faults(Page(told.text)) == []


def test_a_plan_shows_nothing_that_access_rules_hide(tmp_path: Path) -> None:
    path = build(tmp_path / "archive")
    with (path / "holdfast.toml").open("a") as file:
        file.write(RULE)
    with serving(path) as served:
        text = ask(served.controls, "/studies/plan").text
        assert "Access rules hide captures" in text and "2020-01" not in text
        assert ask(served.controls, "/studies/plan", {"preset": "archive"}).status == 400
