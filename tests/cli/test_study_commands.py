"""`holdfast study`: tables, JSON, CSV and charts; crawls as groups (W16)."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from crawl_site import Site, serving
from program import Shell
from waiting import wait_until

import holdfast
from holdfast.archive.ingest.exchange import page

QUICK = ("--delay", "0", "--no-sitemap", "--no-index")


@pytest.fixture
def studied(archive: Shell) -> Shell:
    """Two batches: one content twice in the first, and once more in the second."""
    same = b"<p>The harbour opens at nine." * 50
    with holdfast.open(archive.directory) as opened:
        urls = ("http://a.example/", "http://b.example/")
        opened.add([page(url, same, timestamp="20200102030405") for url in urls], batch="one")
        opened.add([page(urls[0], same, timestamp="20210102030405")], batch="two")
        opened.add([page(urls[1], b"new" * 500, timestamp="20210102030405")], batch="two")
    return archive


def test_a_table_for_people(studied: Shell) -> None:
    text = studied.quick("study", "duplicates").text
    assert text.splitlines()[:4] == [
        "groups:",
        "group  date        captures  URLs  documents  contents  within %  previous %  earlier %  URLs previous %"
        "  URLs earlier %    bytes  unique bytes  new bytes",
        "one    2020-01-02         2     2          2         1      50.0                                        "
        "                  2.8 KiB       1.4 KiB    1.4 KiB",
        "two    2021-01-02         2     2          2         2       0.0        50.0       50.0            100.0"
        "           100.0  2.9 KiB       2.9 KiB    1.5 KiB",
    ]
    assert "\nhosts:\n" in text and "\nsaved:\n" in text


def test_json_and_csv_have_every_row(studied: Shell) -> None:
    objects = studied.quick("study", "duplicates", "--json").objects
    assert {each["table"] for each in objects} == {"groups", "pairs", "types", "hosts", "sizes", "saved", "paper"}
    pairs = studied.quick("study", "duplicates", "--table", "pairs", "--csv").text
    assert studied.quick("study", "duplicates", "--table", "pairs", "--format", "csv").text == pairs
    assert list(csv.DictReader(io.StringIO(pairs))) == [
        {"group": "two", "before": "one", "documents": "1", "share": "0.5", "urls": "2", "urls_share": "1.0"}
    ]


def test_change_with_bounds_in_one_cell_and_as_columns_of_their_own(studied: Shell) -> None:
    text = studied.quick("study", "change", "--rows", "1").text
    assert text.splitlines()[2].split()[:6] == ["all", "all", "2", "4", "2", "1"]
    (row,) = list(csv.DictReader(io.StringIO(studied.quick("study", "change", "--csv").text)))[:1]
    assert float(row["change_interval_low"]) < float(row["change_interval_days"]) < float(row["change_interval_high"])
    assert f"({float(row['change_interval_low']):.3g}d to " in text
    pytest.importorskip("matplotlib")
    studied.quick("study", "change", "--plot", studied.directory / "c.svg")
    assert (studied.directory / "c.svg").stat().st_size


def test_composition_and_media(studied: Shell) -> None:
    figures = studied.quick("study", "composition", "--csv").text
    assert "captures,4.0,\n" in figures and "pages among captures,100.0,%\n" in figures
    told = studied.quick("study", "media")
    assert (told.text, told.errors) == ("", "note: there are no captures besides pages\n")
    assert "-1 must be at least 0" in studied.quick("study", "media", "--images", "-1", code=2).errors


def test_rows_of_a_printed_table_are_limited(studied: Shell) -> None:
    lines = studied.quick("study", "duplicates", "--table", "hosts", "--rows", "1").lines
    assert len(lines) == 3 and lines[2] == "... and 1 more: --rows, --csv or --json"


def test_charts_as_png_and_svg(studied: Shell) -> None:
    pytest.importorskip("matplotlib")
    files = ("--plot", studied.directory / "d.png", "--plot", studied.directory / "d.svg")
    told = studied.quick("study", "duplicates", *files, "--csv")
    assert "d.png'" in told.errors
    assert (studied.directory / "d.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    root = ElementTree.parse(studied.directory / "d.svg").getroot()
    assert root.tag.endswith("svg")


def test_mistakes_are_named(studied: Shell) -> None:
    assert "must end with .png or .svg" in studied.quick("study", "duplicates", "--plot", "d.gif", code=2).errors
    nowhere = studied.quick("study", "duplicates", "--plot", "no/where/d.png", code=2)
    assert "there is no directory 'no/where'" in nowhere.errors and not nowhere.text  # before anything is read
    assert "'many' is not a whole number" in studied.quick("study", "change", "--rows", "many", code=2).errors
    assert "'moon' is not one of" in studied.quick("study", "duplicates", "--by", "moon", code=2).errors
    assert "--json and --csv exclude" in studied.quick("study", "duplicates", "--json", "--csv", code=2).errors
    assert "no collection 'nowhere'" in studied.quick("study", "duplicates", "-c", "nowhere", code=3).errors
    assert "holdfast index update" in studied.quick("study", "near-duplicates", code=3).errors
    assert (
        "7 must be at least 0 and at most 6"
        in studied.quick("study", "near-duplicates", "--distance", "7", code=2).errors
    )


def test_without_matplotlib_the_rest_works(studied: Shell) -> None:
    """A module of that name that cannot be imported stands for one that is not installed."""
    (studied.directory / "sitecustomize.py").write_text("import sys\nsys.modules['matplotlib'] = None\n")
    path = f"{studied.directory}:{studied.environment().get('PYTHONPATH', '')}"
    told = studied("study", "duplicates", "--plot", "d.png", code=2, PYTHONPATH=path)
    assert told.errors.startswith("holdfast: charts need matplotlib: run pip install 'holdfast[study]'")
    assert studied("study", "duplicates", "--csv", PYTHONPATH=path).lines


def test_an_empty_archive(archive: Shell) -> None:
    told = archive("study", "duplicates", "--plot", "d.png")
    assert told.text == ""
    assert told.errors.splitlines() == [
        "there is nothing to draw: 'd.png' was not written",
        "note: there are no captures to study",
    ]


def test_clusters_can_be_listed(studied: Shell) -> None:
    words = " ".join(f"word{number}" for number in range(300))
    with holdfast.open(studied.directory) as opened:
        texts = [words, words.replace("word7 ", "other ")]
        urls = [f"http://c.example/{number}" for number in range(2)]
        pages = [page(url, f"<p>{text}".encode()) for url, text in zip(urls, texts, strict=True)]
        opened.add(pages, batch="two")
    studied("index", "update")
    (cluster,) = [
        each for each in studied.quick("study", "near-duplicates", "--json").objects if each["table"] == "clusters"
    ]
    assert cluster["contents"] == 2
    lines = studied.quick("study", "near-duplicates", "--cluster", cluster["cluster"], "--table", "members").text
    assert all(url in lines for url in urls)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving({"/": b'<a href="/a">a</a>' + b"front" * 300, "/a": b"article" * 300}) as site:
        yield site


def test_visits_of_a_crawl_are_groups(studied: Shell, site: Site) -> None:
    studied("crawl", site.url, *QUICK, "--name", "mine", "-q")
    site.pages["/a"] = b"changed" * 300
    ended = int(time.time())
    wait_until(lambda: int(time.time()) > ended, "the next second: captures have no finer times")
    studied("crawl", site.url, *QUICK, "--name", "mine", "-q")
    told = studied.quick("study", "duplicates", "--by", "crawl", "--successful", "--json", "--table", "groups")
    first, second = told.objects
    assert (first["group"], second["group"]) == ("mine#1", "mine#2")
    assert (first["documents"], second["documents"]) == (2, 2)
    assert second["previous"] == 0.5
    assert second["urls_previous"] == 1.0
    assert "note: captures that come from no crawl of this archive, left out: 4" in told.errors


@pytest.fixture
def topical(archive: Shell) -> Shell:
    """Eight days; on the fifth and sixth, most pages mention a storm."""
    with holdfast.open(archive.directory) as opened:
        for day in range(1, 9):
            pages = []
            for number in range(12):
                word = "storm" if day in (5, 6) and number < 9 else "calm"
                text = f"<p>The harbour reports {word} weather, page {number} of day {day}."
                url = f"http://site{number % 4}.example/{number}"
                pages.append(page(url, text.encode(), timestamp=f"2020010{day}120000"))
            opened.add(pages)
        opened.index.update()
    return archive


def test_topics_over_time(topical: Shell) -> None:
    """Take-off, burst, sites and pages behind the peak (I6)."""
    text = topical.quick("study", "topic", "storm", "calm").text
    assert text.splitlines()[1].split()[0] == "topic"
    row = text.splitlines()[2].split()
    assert row[:3] == ["storm", "2020-01-05", "2020-01-05"]
    for table in ("topics", "bursts", "kinds", "sites", "pages"):
        assert f"{table}:\n" in text
    (burst,) = topical.quick("study", "topic", "storm", "--table", "bursts", "--json").objects
    assert (burst["begin"], burst["end"], burst["captures"]) == ("2020-01-05", "2020-01-06", 18)
    strength = topical.quick("study", "topic", "storm", "--table", "strength", "--csv").text
    shares = [row["share"] for row in csv.DictReader(io.StringIO(strength)) if row["kind"] == "all"]
    assert shares == ["0.0"] * 4 + ["0.75"] * 2 + ["0.0"] * 2
    within = topical.quick("study", "topic", "storm", "--within", "site:site1.example", "--json", "--table", "topics")
    assert [each["sites_share"] for each in within.objects] == [1.0]


def test_charts_of_topics(topical: Shell) -> None:
    pytest.importorskip("matplotlib")
    topical.quick("study", "topic", "storm", "calm", "--plot", topical.directory / "topic.png")
    topical.quick("study", "topic", "storm", "--plot", topical.directory / "topic.svg")
    assert (topical.directory / "topic.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(topical.directory / "topic.svg").getroot().tag.endswith("svg")


def test_a_topic_nobody_mentions(topical: Shell) -> None:
    ran = topical.quick("study", "topic", "unicorn", "--plot", topical.directory / "nothing.png")
    assert "no capture mentions 'unicorn'" in ran.errors
    assert not (topical.directory / "nothing.png").exists()
    assert "quotation that does not end" in topical.quick("study", "topic", '"open', code=2).errors
