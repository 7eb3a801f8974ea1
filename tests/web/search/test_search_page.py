"""The search page: what is found, how it is shown, and where everything on it leads (B12)."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from page_reading import Element, Page, faults
from page_visits import ask
from search_archive import HOSTILE, MANY, few
from serving import Served, serving

from holdfast.web.ui.pages.search import HITS, address_in

LAST = MANY // HITS


def found(served: Served, query: str, more: str = "") -> Page:
    visit = ask(served.controls, f"/search?q={quote(query)}&as=words{more}")
    assert visit.status == 200, visit.text
    assert faults(visit.page) == []
    return visit.page


def total(page: Page) -> int:
    """The captures that match."""
    told = page.one("p", role="status").text
    return 0 if "Nothing found" in told else int(re.search(r"([\d,]+) capture", told)[1].replace(",", ""))  # type: ignore[index]


def within(page: Page, name: str, ancestor: str, **attributes: str) -> list[Element]:
    """Elements of that name below the one that has the attributes."""
    above = page.one(ancestor, **attributes)

    def is_below(element: Element | None) -> bool:
        return element is not None and (element is above or is_below(element.parent))

    return [each for each in page.all(name) if is_below(each.parent)]


def addresses(page: Page) -> list[str]:
    """Where the hits lead, in their order."""
    return [each.attributes["href"] for each in page.all("a") if each.parent is not None and each.parent.name == "h2"]


def times(page: Page) -> list[str]:
    return [address.split("/")[2] for address in addresses(page)]


# -- hits ------------------------------------------------------------------------------------------------------------


def test_a_hit_has_title_address_time_snippet_and_leads_to_replay_and_calendar(searched: Served) -> None:
    page = found(searched, '"tides are high"')
    assert total(page) == 1
    assert page.links()["The town"] == "/main/20240305101112/http://town.example/"
    assert page.links()["calendar of town.example/"] == "/main/*/http://town.example/"
    hits = page.one("ol", **{"class": "hits"}).text
    assert "5 March 2024, 10:11:12 UTC" in hits and "text/html" in hits
    assert "behind the island" in page.one("p", **{"class": "snippet"}).text
    assert {each.text for each in page.all("mark")} >= {"tides", "high"}


def test_the_query_is_printed_back_in_its_canonical_form(searched: Served) -> None:
    page = found(searched, "Harbour AND (NOT  host:WWW.Port.example)")
    assert page.one("code", **{"class": "address"}).text == "Harbour -site:port.example"
    assert page.one("input", id="q").attributes["value"] == "Harbour AND (NOT  host:WWW.Port.example)"


def test_one_and_none(searched: Served) -> None:
    assert total(found(searched, "zeppelin")) == 1
    page = found(searched, "qwertyuiop site:town.example")
    assert total(page) == 0
    assert page.links()["Without site:town.example"] == "/search?q=qwertyuiop&as=words"
    assert page.links()["in addresses"].startswith("/search?q=qwertyuiop%20site%3Atown.example&as=addresses")


def test_titles_and_snippets_of_strangers_are_text(searched: Served) -> None:
    visit = ask(searched.controls, "/search?q=zeppelin")
    page = visit.page
    assert faults(page) == []
    title = next(name for name, address in page.links().items() if address == f"/main/20240505101112/{HOSTILE}")
    assert title.startswith("<script>alert(1)</script> gnp.exe")
    assert "<img src=x onerror=alert(2)> </mark> backwards &amp; ende" in page.one("p", **{"class": "snippet"}).text
    assert not {"\u202e", "\u200b", "\x00"} & set(visit.text)
    assert "<script>alert" not in visit.text and "<img" not in visit.text


def test_a_query_of_a_stranger_is_text(searched: Served) -> None:
    for query in ('"><script>alert(1)</script>', '"<b>x</b>" tides', "title:<img> \u202e", "'\"><svg/onload=1>"):
        visit = ask(searched.controls, f"/search?q={quote(query)}&as=words")
        assert visit.status in (200, 400)
        assert faults(visit.page) == []
        assert not re.search(r"<(script>|b>|img>|svg/)", visit.text)


def test_letters_that_must_be_joined_stay_so(searched: Served) -> None:
    page = found(searched, "کتاب")
    assert "می\u200cخواهم" in page.links()
    assert page.one("p", **{"class": "snippet"}).attributes["dir"] == "auto"


def test_a_page_is_one_hit_and_leads_to_its_captures(searched: Served) -> None:
    """Grouped by default; every capture by itself one click away (P9)."""
    page = found(searched, "harbour site:port.example")
    assert page.one("p", role="status").text.strip() == "1 page, 2 captures."
    assert times(page) == ["20250405101112"]
    captures = ask(searched.controls, page.links()["2 captures of port.example/"]).page
    assert faults(captures) == []
    assert captures.one("p", role="status").text.strip() == "2 captures."
    assert times(captures) == ["20250405101112", "20240405101112"]
    assert [each for each in captures.links() if each.startswith("2 captures of")] == []
    assert total(found(searched, "harbour", "&group=text")) == total(found(searched, "harbour", "&group=capture"))
    assert ask(searched.controls, "/search?q=tides&group=site").status == 400


# -- narrowing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["tides", "tides OR hafen OR ubiquitous", "*"])
def test_every_facet_leads_to_as_many_captures_as_it_says(searched: Served, query: str) -> None:
    page = found(searched, query)
    rows = within(page, "li", "aside", id="facets")
    assert len(rows) > 8
    for row in rows:
        link = next(each for each in page.all("a") if each.parent is row)
        count = next(each for each in page.all("span") if each.parent is row)
        narrowed = ask(searched.controls, link.attributes["href"]).page
        assert total(narrowed) == int(count.text.replace(",", "")), link.text


def test_facets_have_names_that_people_know(searched: Served) -> None:
    page = found(searched, "tides OR hafen OR کتاب")
    titles = [each.text for each in within(page, "h3", "aside", id="facets")]
    assert titles == ["Sites", "Types", "Languages", "Status", "Years", "Collections"]
    names = {each.text for each in within(page, "a", "aside", id="facets")}
    assert {"English", "Persian", "German", "town.example", "html", "404", "2024", "news"} <= names


def test_what_narrows_can_be_taken_away(searched: Served) -> None:
    page = found(searched, "tides site:town.example from:2024")
    whole = total(page)
    links = page.links()
    assert total(ask(searched.controls, links["Without site:town.example"]).page) > whole
    assert links["Without from:2024"] == "/search?q=tides+site%3Atown.example&as=words"
    assert "Without tides" not in links


def test_the_timeline_counts_every_capture_and_each_period_leads_to_its_own(searched: Served) -> None:
    for query in ("tides", "tides from:2024 to:2024"):
        page = found(searched, query)
        periods = {
            each.attributes["aria-label"]: each.attributes["href"]
            for each in within(page, "a", "section", **{"aria-labelledby": "timeline"})
        }
        counts = {label: int(label.partition(": ")[2].split()[0]) for label in periods}
        assert sum(counts.values()) == total(page) > 1
        for label, address in periods.items():
            assert total(ask(searched.controls, address).page) == counts[label]


def test_a_collection_beside_the_query_becomes_part_of_it(searched: Served) -> None:
    page = found(searched, "tides", "&collection=news")
    assert page.one("code", **{"class": "address"}).text == "tides collection:news"
    assert total(page) == 1
    assert ask(searched.controls, "/search?q=tides&collection=nowhere").status == 404


# -- order and pages -------------------------------------------------------------------------------------------------


def test_orders(searched: Served) -> None:
    newest, oldest = (times(found(searched, "tides", f"&sort={sort}")) for sort in ("newest", "oldest"))
    assert newest == sorted(newest, reverse=True)
    assert oldest == sorted(oldest)
    ranked = addresses(found(searched, "tides", "&sort=rank"))
    assert "port.example" in ranked[0], "two pages link to each other's town, and one to the port"
    chosen = [each for each in found(searched, "tides", "&sort=rank").all("a") if "aria-current" in each.attributes]
    assert [each.text for each in chosen] == ["Search", "Page rank", "Page"]
    assert ask(searched.controls, "/search?q=tides&sort=size").status == 400


def test_all_pages_together_have_every_capture_once(searched: Served) -> None:
    seen: list[str] = []
    address = "/search?q=ubiquitous"
    while address:
        page = ask(searched.controls, address).page
        seen += addresses(page)
        following = [each.attributes["href"] for each in page.all("a") if each.attributes.get("rel") == "next"]
        address = following[0] if following else ""
    assert len(seen) == len(set(seen)) == MANY
    assert parse_qs(urlsplit(page.links()["Page 1"]).query)["q"] == ["ubiquitous"]
    assert f"page {LAST} of {LAST}" in page.one("p", role="status").text


@pytest.mark.parametrize("number", ["0", "-1", "x", "501", "1e3", "99999999999999999999"])
def test_a_page_that_cannot_be_is_refused(searched: Served, number: str) -> None:
    visit = ask(searched.controls, f"/search?q=ubiquitous&page={number}")
    assert visit.status == 400
    assert faults(visit.page) == []


def test_a_page_behind_the_last_is_empty_and_leads_back(searched: Served) -> None:
    page = found(searched, "ubiquitous", "&page=400")
    assert addresses(page) == []
    assert "Page 1" in page.links()


# -- what is no search ----------------------------------------------------------------------------------------------


def test_without_a_query_the_page_tells_how_to_ask(searched: Served) -> None:
    page = ask(searched.controls, "/search").page
    assert faults(page) == []
    assert len(page.all("dt")) > 5
    for name, address in page.links().items():
        if address.startswith("/search?"):
            assert ask(searched.controls, address).status == 200, name


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("harbour )", ")"),
        ("tides title:", "t"),
        ('tides "open', '"'),
        ("colour:red tides", "c"),
        ("tides size>big", "s"),
    ],
)
def test_a_malformed_query_is_answered_with_its_place(searched: Served, query: str, wrong: str) -> None:
    visit = ask(searched.controls, f"/search?q={quote(query)}&as=words")
    assert visit.status == 400
    page = visit.page
    assert faults(page) == []
    assert "at character" in page.one("div", role="alert").text
    assert page.one("mark").text == wrong
    assert "".join(page.one("p", **{"class": "wrong"}).texts) == query
    assert page.one("input", id="q").attributes["value"] == query


def test_addresses_lead_to_their_captures_and_fields_do_not(searched: Served) -> None:
    assert address_in("town.example") == address_in(" http://town.example#x ") == "http://town.example"
    assert address_in("localhost:8080") == "http://localhost:8080"
    for query in (
        "status:200",
        "-status:200",
        "size:100",
        "from:2020",
        "rank>1",
        "site:town.example",
        "host:a.example",
    ):
        assert address_in(query) == "", query
    assert ask(searched.controls, "/search?q=town.example").headers["location"] == "/all/*/http://town.example"
    assert total(ask(searched.controls, "/search?q=status:404").page) == 1


def test_words_in_addresses_can_still_be_looked_for(searched: Served) -> None:
    page = ask(searched.controls, "/search?q=town+gone&as=addresses").page
    assert faults(page) == []
    assert page.links()["town.example/gone"] == "/main/*/http://town.example/gone"
    assert page.links()["Search the text of pages"] == "/search?q=town%20gone&as=words"


def test_the_navigation_leads_to_the_search(searched: Served) -> None:
    assert ask(searched.controls, "/").page.links()["Search"] == "/search"


def test_an_archive_without_an_index_says_so(tmp_path: Path) -> None:
    with serving(few(tmp_path / "archive")) as there:
        for target in ("/search", "/search?q=tides", "/search?q=town+gone&as=words"):
            page = ask(there.controls, target).page
            assert faults(page) == []
            assert "no full-text index yet" in page.one("main").text
            assert "holdfast index update" in page.one("main").text
