"""Addresses in attributes read as they were written, and selectors find them (P3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from replay_browser import Stage, Tab, missing, needs_browser, staged, strangers

from holdfast.archive.ingest.exchange import page

pytestmark = needs_browser

TIME = "20240102030405"
NEWS, CDN = "https://news.example", "https://cdn.example"
ASKED = """<script>
const read = (id) => document.getElementById(id).getAttribute("href");
const count = (selector) => document.querySelectorAll(selector).length;
window.seen = [read("own"), read("other"), read("near"), own.href, other.href];
const made = document.createElement("div"); document.body.append(made);
made.innerHTML = '<a id=m1 href="/made">m</a><a id=m2 href="https://news.example/made/2">m</a>';
const set = document.createElement("a"); set.setAttribute("href", "/set?x#y"); made.append(set);
window.written = [read("m1"), read("m2"), set.getAttribute("href"), set.href];
window.found = [count('a[href="/about"]'), count("a[href='https://news.example/about']"),
  count('a[href="https://cdn.example/x"]'), count('a[href="/x"]'), count("a[href=near]"), own.matches('[href^="/ab"]'),
  other.matches('a[href^="https://cdn."]'), own.closest('p > [href="/about"]') === own, count('link[href$="s.css"]')];
window.far = count('p > a[href^="http"]');
</script>"""
LINKS = f'<p><a id=own href="%s/about">o</a><a id=other href="{CDN}/x">x</a><a id=near href="near">n</a></p>'
HEAD = "<!doctype html><html><head><title>x</title><link rel=stylesheet href=/s.css></head><body>"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    pages = {"rooted": LINKS % "", "whole": LINKS % NEWS}
    captures = [page(f"{NEWS}/{name}", (HEAD + text + ASKED).encode(), timestamp=TIME) for name, text in pages.items()]
    with staged(Path(tmp_path_factory.mktemp("read")), captures) as stage:
        yield stage
        assert strangers(stage.trap.hosts, stage.served) == set()


def test_p3_attributes_of_a_page_without_hosts_in_its_links(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/rooted", TIME)
    assert frame.evaluate("seen") == ["/about", f"{CDN}/x", "near", f"{NEWS}/about", f"{CDN}/x"]
    assert frame.evaluate("written") == ["/made", f"{NEWS}/made/2", "/set?x#y", f"{NEWS}/set?x#y"]
    assert frame.evaluate("found") == [1, 1, 1, 0, 1, True, True, True, 1]
    assert frame.evaluate("far") == 1, "of the page's own, none has its host"


def test_p3_attributes_of_a_page_with_hosts_in_its_links(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/whole", TIME)
    assert frame.evaluate("seen") == [f"{NEWS}/about", f"{CDN}/x", "near", f"{NEWS}/about", f"{CDN}/x"]
    assert frame.evaluate("written") == ["/made", f"{NEWS}/made/2", "/set?x#y", f"{NEWS}/set?x#y"]
    assert frame.evaluate("far") == 2


def test_p3_markup_that_is_read_and_selectors_of_styles_show_rewritten_addresses(tab: Tab) -> None:
    """The documented limits."""
    frame = tab.open(f"{NEWS}/rooted", TIME)
    rewritten = f"/main/{TIME}mp_/{NEWS}/about"
    assert rewritten in frame.evaluate("document.querySelector('p').innerHTML")
    assert frame.evaluate("own.attributes.href.value") == rewritten
    frame.evaluate(
        "void document.head.append(Object.assign(document.createElement('style'), "
        "{ textContent: 'a[href=\"/about\"] { color: rgb(1, 2, 3) }' }))"
    )
    assert frame.evaluate("getComputedStyle(own).color") != "rgb(1, 2, 3)"
