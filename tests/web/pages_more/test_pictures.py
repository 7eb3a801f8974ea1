"""What pages show in pictures: growth, savings, new pages, the progress of a crawl, screenshots (P13, P14, W17)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from more_crawling import BEARER, linked_pages, stopped_at_the_end, writable
from page_reading import Element, Page, faults
from page_visits import ask
from pictured_archive import CRAWLED, HARBOUR, build, png
from serving import Served, serving
from serving import ask as send
from waiting import wait_until

import holdfast
from holdfast.config import AccessRule
from holdfast.crawl.crawl import Crawl
from holdfast.crawl.job.job import CrawlJob, FetchSettings
from holdfast.crawl.report.crawls import crawl_status, progress_path
from holdfast.crawl.report.progress import ProgressFile, ProgressSample, read_progress
from holdfast.env.units import rounded_size
from holdfast.web.auth.access import Access
from holdfast.web.ui.pages.crawls import HEIGHT, WIDTH, charts

JSON = {"Accept": "application/json"}


@pytest.fixture(scope="module")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(build(tmp_path_factory.mktemp("pictured"))) as archive:
        yield archive


def figures(page: Page) -> dict[str, str]:
    return dict(zip([each.text for each in page.all("dt")], [each.text for each in page.all("dd")], strict=True))


def below(page: Page, name: str, above: Element) -> list[Element]:
    def is_below(element: Element | None) -> bool:
        return element is not None and (element is above or is_below(element.parent))

    return [each for each in page.all(name) if is_below(each.parent)]


# -- home ------------------------------------------------------------------------------------------------------------


def test_home_has_the_disk_use_that_du_status_and_the_volumes_page_have(pictured: Served) -> None:
    """One number everywhere (P14)."""
    path = pictured.site.archive.path
    du = subprocess.run(["du", "-s", "--block-size=1", path], capture_output=True, check=True).stdout
    size = rounded_size(int(du.split()[0]))
    home = ask(pictured.controls, "/").page
    assert faults(home) == []
    assert figures(home)["on disk"] == size
    assert figures(ask(pictured.controls, "/volumes").page)["archive on disk"] == size
    told = json.loads(ask(pictured.controls, "/status", JSON).body)
    assert rounded_size(told["disk_bytes"]) == size
    assert sum(told["disk"].values()) == told["disk_bytes"]
    assert f"holdfast_disk_bytes {told['disk_bytes']}" in ask(pictured.controls, "/metrics").text
    assert rounded_size(told["saved_by_duplicates_bytes"]) == figures(home)["saved by duplicates"]


def test_bars_are_sorted_and_to_scale(pictured: Served) -> None:
    page = ask(pictured.controls, "/").page
    section = page.one("section", **{"aria-labelledby": "saved"})
    widths = [float(each.attributes["width"]) for each in below(page, "rect", section)]
    names = [each.text for each in below(page, "span", section) if each.attributes.get("class") == "what"]
    assert names[:3] == ["captured", "unique", "stored"]
    assert widths[0] == 100.0 and widths[:3] == sorted(widths[:3], reverse=True)
    assert set(names[3:]) == {"contents", "records", "catalog", "index", "crawls", "other"}
    assert widths[3] == 100.0 and widths[3:] == sorted(widths[3:], reverse=True)


def test_growth_by_month_leads_to_the_captures(pictured: Served) -> None:
    page = ask(pictured.controls, "/").page
    periods = below(page, "a", page.one("section", **{"aria-labelledby": "growth"}))
    labels = [each.attributes["aria-label"] for each in periods]
    assert labels == ["2023: 1 capture", "2024: 5 captures", "2025: 3 captures"]
    year = ask(pictured.controls, periods[2].attributes["href"]).page
    assert "3 captures" in year.one("p", role="status").text
    assert "growth" in ask(pictured.controls, "/imports/").text


def test_new_pages_have_titles_and_stand_with_their_crawl(pictured: Served) -> None:
    page = ask(pictured.controls, "/").page
    crawled, imported = below(page, "ol", page.one("section", **{"aria-labelledby": "new"}))
    titles = [each.text for each in below(page, "a", crawled)]
    assert sorted(titles) == ["Der Hafen", "Le port", "The harbour"]
    assert page.links()["The harbour"] == f"/main/{CRAWLED}/{HARBOUR}"
    assert {each.text for each in below(page, "a", imported)} == {"The town", "The mirror", "plain.example/"}
    headings = [each.text for each in page.all("h3")]
    assert headings[:2] == ["By the crawl harbour", "Otherwise"]


def test_with_access_rules_nothing_is_counted_or_drawn(pictured: Served) -> None:
    before = pictured.site.access
    try:
        pictured.site.access = Access([AccessRule("exclude", url=f"{HARBOUR}de")])
        page = ask(pictured.controls, "/").page
        assert faults(page) == []
        assert figures(page) == {}
        assert "growth" not in page.one("main").text and "Der Hafen" not in page.one("main").text
        told = json.loads(ask(pictured.controls, "/status", JSON).body)
        assert told["captured_bytes"] is told["saved_by_duplicates_bytes"] is None
    finally:
        pictured.site.access = before


def test_a_blocked_page_is_listed_without_its_title(pictured: Served) -> None:
    """P10: words of a page that is withheld are not shown beside its address."""
    before = pictured.site.access
    assert "Der Hafen" in ask(pictured.controls, "/").page.one("main").text
    try:
        pictured.site.access = Access([AccessRule("block", url=f"{HARBOUR}de")])
        text = ask(pictured.controls, "/").page.one("main").text
        assert "Der Hafen" not in text and "harbour.example/de" in text
    finally:
        pictured.site.access = before


# -- screenshots -----------------------------------------------------------------------------------------------------


def pictures(page: Page) -> list[str]:
    return [each.attributes["src"] for each in page.all("img")]


def test_a_screenshot_is_shown_beside_its_page(pictured: Served) -> None:
    (source,) = pictures(ask(pictured.controls, "/").page)
    picture = ask(pictured.controls, source)
    assert (picture.status, picture.headers["content-type"], picture.body) == (200, "image/png", png())
    assert picture.headers["content-security-policy"] == "sandbox"
    assert pictures(ask(pictured.controls, "/search?q=lamp").page) == [source]
    assert pictures(ask(pictured.controls, "/search?q=town").page) == []
    older = ask(pictured.controls, "/search?q=site:harbour.example+to:2023&as=words").page
    assert pictures(older) == [], "it is of another year"


def test_only_pictures_of_pages_are_served(pictured: Served) -> None:
    archive = pictured.site.archive
    fake = archive.catalog.newest(f"urn:view:{HARBOUR}fake")
    page = archive.catalog.newest(HARBOUR)
    assert fake is not None and page is not None
    for record in (fake.record, page.record, "202611-9999999999", "x"):
        assert ask(pictured.controls, f"/explore/screenshot/{record}").status == 404


def test_rules_for_a_page_hold_for_its_picture(pictured: Served) -> None:
    (source,) = pictures(ask(pictured.controls, "/").page)
    before = pictured.site.access
    try:
        for rule in ("exclude", "block"):
            pictured.site.access = Access([AccessRule(rule, url=HARBOUR)])
            assert ask(pictured.controls, source).status == 404
            assert pictures(ask(pictured.controls, "/").page) == []
    finally:
        pictured.site.access = before


# -- crawls ----------------------------------------------------------------------------------------------------------


def test_a_crawl_shows_progress_rate_and_queue_over_time(pictured: Served) -> None:
    page = ask(pictured.controls, "/crawls/harbour").page
    assert faults(page) == []
    bar = page.one("progress")
    assert (bar.attributes["value"], bar.attributes["max"]) == ("179", "220")
    charts = [" ".join(each.text.split()) for each in page.all("figure")]
    assert charts == [
        "Addresses fetched at most 177 177 after 59 seconds",
        "Addresses a second at most 3.0 3.0 after 59 seconds",
        "Addresses waiting at most 100 41 after 59 seconds",
    ]
    assert len(page.all("polyline")) == 3


def test_lines_stay_in_their_field() -> None:
    samples = [ProgressSample(2, 0.0, 5, 0, 0), ProgressSample(2, 0.5, 5, 9, 0), ProgressSample(2, 1e6, 5, 0, 0)]
    for chart in charts(samples, 2):
        for point in chart.points.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDTH and 0 <= y <= HEIGHT
    assert charts(samples, 1) == charts(samples[:2], 2) == charts([], 2) == []


def test_samples_grow_rarer_and_begin_again_with_a_visit(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    file = ProgressFile(path)
    for second in range(3000):
        file.note(ProgressSample(1, second * 0.5, second, 7, second))
    kept = read_progress(path)
    gaps = [later.seconds - sooner.seconds for sooner, later in pairwise(kept)]
    assert kept[0].seconds == 0 and min(gaps) >= 1.0 and 200 < len(kept) < 800
    file.note(kept[-1]._replace(seconds=kept[-1].seconds + 0.1, queued=0), is_last=True)
    assert read_progress(path)[-1].queued == 0
    with path.open("ab") as torn:
        torn.write(b'[1,5000\n"x"\n[1]\n[1,2,3,4,"5"]\n[2,0.')
    again = ProgressFile(path)
    assert len(read_progress(path)) == len(kept) + 1
    again.note(ProgressSample(2, 0.1, 1, 1, 1))
    assert read_progress(path) == [ProgressSample(2, 0.1, 1, 1, 1)]


def test_an_empty_archive_offers_a_crawl_to_who_may_write(tmp_path: Path) -> None:
    """With the same rights as any other write, and only under --write."""
    with linked_pages() as url, writable(tmp_path / "archive") as served:
        visit = ask(served.controls, "/")
        assert faults(visit.page) == []
        (form,) = (each for each in visit.page.all("form") if each.attributes.get("method") == "post")
        assert form.attributes["action"] == "/crawls"
        assert visit.headers["referrer-policy"] == "same-origin"
        assert visit.page.one("input", id="seeds").attributes["name"] == "seeds"
        body = f"seeds={url}".encode()
        kind = {"Content_Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        assert send(f"{served.controls}/crawls", "POST", body, **kind).status == 401
        answer = send(f"{served.controls}/crawls", "POST", body, Authorization=BEARER, **kind)
        assert answer.status == 303, answer.text
        name = answer.headers["location"].rpartition("/")[2]
        path = served.site.archive.path
        with stopped_at_the_end(path, name):
            wait_until(lambda: crawl_status(path, name).tally.get("fetched", 0) > 0, "the first page")
        assert read_progress(progress_path(path, name))[-1].fetched > 0


def test_an_empty_archive_that_nobody_may_write_has_no_form(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    with serving(tmp_path / "archive") as served:
        page = ask(served.controls, "/").page
        assert [each for each in page.all("form") if each.attributes.get("method") == "post"] == []
        assert "holdfast crawl" in page.one("main").text
        assert "no page yet" not in page.one("main").text


def test_an_empty_archive_shows_the_crawls_that_have_brought_nothing(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    with holdfast.open(tmp_path / "archive") as archive:
        fetch = FetchSettings(retries=0, private=True)
        Crawl(archive, CrawlJob(seeds=("http://127.0.0.1:9/",), name="closed", fetch=fetch)).run()
    with serving(tmp_path / "archive") as served:
        page = ask(served.controls, "/").page
        assert faults(page) == []
        assert "no page yet" in page.one("main").text
        assert "/crawls/closed" in {each.attributes["href"] for each in page.all("a")}


# -- explore ---------------------------------------------------------------------------------------------------------


def test_hosts_and_paths_have_bars_the_longest_first(pictured: Served) -> None:
    for target in ("/explore", "/explore?host=harbour.example"):
        page = ask(pictured.controls, target).page
        assert faults(page) == []
        rows = below(page, "rect", page.all("ul")[-1 if target == "/explore" else 1])
        widths = [float(each.attributes["width"]) for each in rows]
        assert len(widths) > 2 and widths[0] == 100.0
        assert widths == sorted(widths, reverse=True), target
