"""What the pages tell: home, search, calendar, addresses, banner, and what is missing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from urllib.parse import quote

from page_archive import BUSY, HOME
from page_visits import ask
from serving import Served

JSON = {"Accept": "application/json"}


def test_home_tells_of_collections_savings_and_new_pages(served: Served) -> None:
    page = ask(served.controls, "/").page
    links = page.links()
    assert links["main"] == "/main/"
    assert links["news"] == "/news/"
    assert links["news.example/ticker"].startswith("/news/2025")
    figures = dict(zip([each.text for each in page.all("dt")], [each.text for each in page.all("dd")], strict=True))
    assert figures["captures"] == "678"
    assert set(figures) == {"captures", "on disk", "saved by duplicates", "saved by compression"}
    assert page.one("input", id="q").attributes["name"] == "q"


def test_a_collection_has_a_page_of_its_own(served: Served) -> None:
    page = ask(served.controls, "/main/").page
    assert page.one("h1").text == "main"
    assert page.one("input", type="hidden").attributes["value"] == "main"
    assert "news.example/ticker" not in page.links()
    figures = dict(zip([each.text for each in page.all("dt")], [each.text for each in page.all("dd")], strict=True))
    assert figures.keys() == {"captures", "captured in all"}
    assert figures["captures"] == "177"


def test_an_address_leads_to_its_calendar(served: Served) -> None:
    for query, leads_to in (
        ("museum.example", "/all/*/http://museum.example"),
        ("http%3A%2F%2Fmuseum.example%2Fa%3Fb%3Dc%26d", "/all/*/http://museum.example/a?b=c&d"),
        ("museum.example&collection=main&time=2020", "/main/2020/http://museum.example"),
        ("museum.example&time=x%0d%0a", "/all/*/http://museum.example"),
        ("museum.example%23rooms", "/all/*/http://museum.example"),
        ("http%3A%2F%2Fmuseum.example%2Fa%3Fb%23c&time=2020", "/all/2020/http://museum.example/a?b"),
    ):
        visit = ask(served.controls, f"/search?q={query}")
        assert (visit.status, visit.headers["location"]) == (302, leads_to)


def test_without_an_index_words_are_looked_for_in_addresses_and_the_page_says_so(served: Served) -> None:
    page = ask(served.controls, "/search?q=Rooms+museum").page
    assert {name for name in page.links() if "rooms" in name} == {
        *("museum.example/rooms/east", "museum.example/rooms/west", "museum.example/rooms/north?floor=2")
    }
    assert "no full-text index yet, so only addresses are searched" in page.one("main").text
    assert "No address has this word" in ask(served.controls, "/search?q=zeppelin").page.one("main").text


def test_pages_stand_before_their_pictures_among_what_is_found(served: Served) -> None:
    links = list(ask(served.controls, "/search?q=gallery").page.links())
    found = [name for name in links if name.startswith("gallery.example/")]
    assert found == ["gallery.example/z-page", *(f"gallery.example/{name}.png" for name in "abc")]


def test_addresses_of_captures_are_unwrapped(served: Served) -> None:
    for query, leads_to in (
        ("https://web.archive.org/web/2020/http://museum.example/a?b=c", "/all/2020/http://museum.example/a?b=c"),
        ("web.archive.org/web/20200102030405if_/museum.example/", "/all/20200102030405/http://museum.example/"),
        ("https://web.archive.org/web/*/museum.example/*", "/all/*/http://museum.example/*"),
        (f"{served.controls}/main/2020/http://museum.example/#x", "/main/2020/http://museum.example/"),
        (
            f"{served.replay}/main/2020mp_/{served.controls}/news/2019/museum.example",
            "/news/2019/http://museum.example",
        ),
        (f"{served.controls}/nowhere/2020/http://museum.example/", "/all/2020/http://museum.example/"),
        ("https://web.archive.org/about", "/all/*/https://web.archive.org/about"),
        (f"{served.controls}/crawls", f"/all/*/{served.controls}/crawls"),
    ):
        visit = ask(served.controls, f"/search?q={quote(query, safe='')}")
        assert (visit.status, visit.headers["location"]) == (302, leads_to), query


def test_a_search_that_cannot_be_is_refused_in_words(served: Served) -> None:
    assert ask(served.controls, "/search?q=" + "x" * 17_000).status == 400
    assert ask(served.controls, "/search?q=x&collection=nowhere").status == 404


def test_the_calendar_tells_changed_captures_from_unchanged_ones(served: Served) -> None:
    page = ask(served.controls, f"/main/2018*/{HOME}").page
    marks = [each.text for each in page.all("span") if each.attributes.get("class", "").startswith("mark ")]
    assert marks[:5] == ["first capture", "unchanged", "unchanged", "unchanged", "changed"]
    assert page.one("h2", id="captures-title").text == f"{len(marks)} captures in 2018"
    assert page.one("a", href=f"/main/2018*/{HOME}").attributes["aria-current"] == "true"


def test_redirects_and_errors_are_marked_by_shape_and_word(served: Served) -> None:
    texts = "".join(ask(served.controls, f"/main/{year}*/{HOME}").text for year in range(2018, 2027))
    assert 'class="day redirect"' in texts
    assert 'class="day error"' in texts
    assert "1 redirect" in texts
    assert "1 error" in texts


def test_captures_can_be_compared_with_those_before_and_the_first_with_the_last(served: Served) -> None:
    links = ask(served.controls, f"/main/2018*/{HOME}").page.links()
    assert links["Compare the first and the last"].startswith("/compare?collection=main&url=http")
    assert sum(name.startswith("Compare ") and name.endswith(" with the capture before") for name in links) > 5


def test_a_year_without_its_own_address_is_the_newest(served: Served) -> None:
    assert ask(served.controls, f"/main/*/{HOME}").page.one("h2", id="year").text == "2026"


def test_every_one_of_very_many_captures_can_be_reached(served: Served) -> None:
    year = ask(served.controls, f"/news/2025*/{BUSY}").page
    assert "500 captures in 2025" in year.one("h2", id="captures-title").text
    assert "The first 120 are listed here" in year.one("main").text
    day = ask(served.controls, f"/news/20250303*/{BUSY}").page
    hours = [href for name, href in day.links().items() if "o’clock" in name]
    assert hours[0] == f"/news/2025030300*/{BUSY}"
    reached = {
        href
        for hour in hours
        for href in ask(served.controls, hour).page.links().values()
        if href.startswith("/news/2025030") and "*" not in href
    }
    assert len(reached) == 400


def test_addresses_below_another_are_listed_page_by_page(served: Served) -> None:
    links = ask(served.controls, "/main/*/museum.example/rooms/*").page.links()
    assert links["museum.example/rooms/east"] == f"/main/*/{HOME}rooms/east"
    assert "museum.example/about" not in links
    assert ask(served.controls, "/all/*/*.example").status == 200


def test_the_banner_knows_what_is_before_and_after(served: Served) -> None:
    found = json.loads(ask(served.controls, f"/api/near?url={HOME}&timestamp=20200101&collection=main", JSON).body)
    assert found["captures"] == 160
    assert found["previous"]["timestamp"] < found["timestamp"] < found["next"]["timestamp"]
    page = ask(served.controls, found["path"]).page
    assert page.one("a", id="previous").attributes["href"] == found["previous"]["path"]
    assert page.one("a", id="next").attributes["href"] == found["next"]["path"]
    assert page.one("a", id="calendar").attributes["href"] == found["calendar"]
    assert page.one("input", id="address").attributes["value"] == HOME
    times = f"a={found['previous']['timestamp']}&b={found['timestamp']}"
    assert page.one("a", id="compare").attributes["href"] == found["compare"]["path"]
    assert found["compare"]["path"] == f"/compare?collection=main&url={quote(HOME, safe='')}&{times}"
    assert found["words"] in page.one("a", id="calendar").text
    following = json.loads(ask(served.controls, f"/api/near?url={HOME}&timestamp={found['next']['timestamp']}").body)
    assert following["previous"]["timestamp"] == found["timestamp"]
    assert following["position"] == found["position"] + 1


def test_the_first_and_the_last_capture_have_nothing_beyond_them(served: Served) -> None:
    first = json.loads(ask(served.controls, f"/api/near?url={HOME}&timestamp=1").body)
    last = json.loads(ask(served.controls, f"/api/near?url={HOME}").body)
    assert (first["previous"], first["position"], first["mark"]) == (None, 1, "first")
    assert (last["next"], last["position"]) == (None, 160)
    assert "href" not in ask(served.controls, first["path"]).page.one("a", id="previous").attributes


def test_near_answers_programs_with_clear_errors(served: Served) -> None:
    assert ask(served.controls, "/api/near", JSON).status == 400
    missing = ask(served.controls, "/api/near?url=http://nobody.example/", JSON)
    assert (missing.status, missing.headers["content-type"]) == (404, "application/json")
    assert "not archived" in json.loads(missing.body)["error"]


def test_what_is_not_archived_leads_on_to_its_neighbours(served: Served) -> None:
    visit = ask(served.controls, f"/main/2020/{HOME}rooms/south")
    links = visit.page.links()
    assert visit.status == 404
    assert links["museum.example/rooms/east"] == f"/main/*/{HOME}rooms/east"
    assert links["All below museum.example/rooms/*"] == f"/main/*/{HOME}rooms/*"


def test_neighbours_may_be_in_other_collections(served: Served) -> None:
    page = ask(served.controls, f"/news/2020/{HOME}rooms/the_south-wing.html").page
    assert page.one("h2", id="neighbours").text == "Archived nearby, in other collections"
    links = page.links()
    assert links["museum.example/rooms/east"] == f"/all/*/{HOME}rooms/east"
    assert links["All below museum.example/rooms/*"] == f"/all/*/{HOME}rooms/*"
    assert links["Search for similar addresses"] == "/search?q=museum.example%20the%20south%20wing&as=addresses"


def test_captures_of_one_second_are_told_apart(served: Served) -> None:
    page = ask(served.controls, "/main/*/http://twins.example/").page
    rows = [each.text for each in page.all("li") if "record" in each.text]
    assert ["https://twins.example" in row for row in rows] == [False, True]
    downloads = [href for name, href in page.links().items() if name.startswith("record ")]
    assert len(set(downloads)) == 2
    for download in downloads:
        assert ask(served.controls, download).status == 200
    assert "record" not in ask(served.controls, f"/main/2018*/{HOME}").page.one("main").text


def test_hosts_and_paths_are_shown_in_their_own_letters_everywhere(served: Served) -> None:
    escaped = "http://b%C3%BCcher.example/%C3%BC"
    assert "bücher.example/ü" in ask(served.controls, f"/main/*/{escaped}").page.one("h1").text
    banner = ask(served.controls, f"/main/20240102000000/{escaped}").page
    assert banner.one("input", id="address").attributes["value"] == "http://bücher.example/ü"
    near = json.loads(ask(served.controls, f"/api/near?url={quote(escaped, safe='')}").body)
    assert near["address"] == "http://bücher.example/ü"
    assert "bücher.example" in ask(served.controls, "/explore?collection=main").page.links()
    assert "http://bücher.example/ö" in ask(served.controls, f"/main/2020/{escaped[:-6]}%C3%B6").page.one("main").text
    assert "bücher.example/ü" in ask(served.controls, "/search?q=bücher".replace("ü", "%C3%BC")).page.links()


def test_errors_begin_as_sentences_and_lead_on(served: Served) -> None:
    page = ask(served.controls, "/nowhere/").page
    assert "No collection 'nowhere'" in page.one("main").text
    assert (page.links()["Home"], page.links()["Collection news"]) == ("/", "/news/")


def test_what_is_not_archived_here_may_be_in_another_collection_or_spelled_otherwise(served: Served) -> None:
    elsewhere = ask(served.controls, "/main/2020/http://only.example/").page
    assert elsewhere.links()["news"] == "/news/20200202000000/http://only.example/"
    spelled = ask(served.controls, f"/main/*/{HOME}visit").page
    assert spelled.links()["museum.example/visit.html"] == f"/main/*/{HOME}visit.html"


def test_programs_get_a_line_or_json_instead_of_a_page(served: Served) -> None:
    line = ask(served.controls, f"/main/*/{HOME}nothing", {})
    assert (line.status, line.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert line.body == f"'{HOME}nothing' is not archived\n".encode()
    answer = ask(served.controls, f"/main/*/{HOME}nothing", JSON)
    assert json.loads(answer.body) == {"error": f"'{HOME}nothing' is not archived", "status": 404}


def test_the_other_origin_tells_of_errors_without_our_scripts_and_inside_the_frame(served: Served) -> None:
    visit = ask(served.replay, f"/main/2020mp_/{HOME}nothing")
    policy = visit.headers["content-security-policy"]
    assert visit.status == 404
    assert visit.page.one("h1").text == "Not archived"
    assert not visit.page.all("link", "img")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert policy.endswith(f"frame-ancestors 'self' {served.controls}")
    [script] = re.findall(r"<script>(.*)</script>", visit.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    about = visit.page.one("main").attributes
    assert (about["data-url"], about["data-timestamp"], about["data-status"]) == (f"{HOME}nothing", "2020", "404")
    assert not ask(served.replay, "/favicon.ico").page.all("script")
