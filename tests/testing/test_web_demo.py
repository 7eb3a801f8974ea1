"""The site of `make demo`, and the page that a script builds (W17, H7)."""

from __future__ import annotations

import http.client
import re
from contextlib import closing
from urllib.parse import urlsplit

from hostile_web import Web
from hostile_web.live import live_answer

from holdfast.demo.site import CHANGED, NEW, DemoSite, articles, contents
from holdfast.urls import parse

ORIGIN = "http://127.0.0.1:8080"


def test_the_demo_site_has_duplicates_and_pictures_and_changes_as_told_h7() -> None:
    first, second = contents(ORIGIN, changed=False), contents(ORIGIN, changed=True)
    changed = {path for path in first if first[path] != second[path] and "index" not in path and "?" not in path}
    assert changed == {f"/{each.language}/{each.name}.html" for each in CHANGED}
    new = {path for path in second if path not in first and "?" not in path}
    assert new == {f"/{each.language}/{each.name}.html" for each in NEW}
    assert first["/en/lamp.html"] == first["/en/lamp.html?print=1"]
    assert len({content for _, content in first.values()}) < len(first) - 20
    assert first["/pictures/sky-3.png"][1].startswith(b"\x89PNG")
    assert {kind for kind, _ in first.values()} >= {"image/png", "image/svg+xml", "text/css", "text/javascript"}


def test_the_demo_site_has_each_article_in_its_languages() -> None:
    """Prose of some length, so that search, snippets, languages and comparison look as in life."""
    names = {each.name for each in articles() if not each.is_new}
    assert len(names) == 8
    for language in ("en", "de", "fr"):
        own = [each for each in articles() if each.language == language and not each.is_new]
        assert {each.name for each in own} == names
        assert all(len(" ".join(each.paragraphs).split()) > 70 for each in own)


def test_every_link_of_the_demo_site_leads_somewhere() -> None:
    site = contents(ORIGIN, changed=True)
    for path, (kind, content) in site.items():
        if not kind.startswith("text/html"):
            continue
        links = [parse(link, ORIGIN + path) for link in re.findall(r'(?:href|src)="([^"]+)"', content.decode())]
        targets = {link.href.removeprefix(ORIGIN) for link in links if link is not None}
        lost = {target for target in targets if target not in site}
        assert lost <= {"/en/lost.html", "/lighthouse.html", "/gezeiten.html"}, path


def test_the_demo_site_is_served_and_knows_what_was_seen_b4() -> None:
    paths = [f"/{each.language}/{each.name}.html" for each in articles() if not each.is_new]
    with DemoSite() as site:
        with closing(http.client.HTTPConnection(urlsplit(site.url).netloc)) as connection:

            def get(target: str, tag: str = "") -> http.client.HTTPResponse:
                connection.request("GET", target, headers={"If-None-Match": tag} if tag else {})
                response = connection.getresponse()
                response.read()
                return response

            tags = [get(path).headers["ETag"] for path in paths]
            site.change()
            statuses = [get(path, tag).status for path, tag in zip(paths, tags, strict=True)]
            assert get("/lighthouse.html").headers["Location"] == "/en/lamp.html"
            assert get("/robots.txt").status == 200
            assert get("/nowhere").status == 404
        assert statuses.count(200) == len(CHANGED)
        assert statuses.count(304) == len(paths) - len(CHANGED)


def test_the_live_page_names_nothing_of_what_comes_late() -> None:
    live = Web(port=8080).live
    source = live_answer("/").body + live_answer("/live.js").body
    for url in live.late | live.links:
        path = url.removeprefix("http://live.test:8080")
        assert live_answer(path).status == 200
        assert path.encode() not in source
    assert all(url.removeprefix("http://live.test:8080").encode() in source for url in live.lazy)
    assert live_answer("/").status == 200 and live.entry == "http://live.test:8080/"
