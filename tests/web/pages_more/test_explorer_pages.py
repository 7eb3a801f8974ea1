"""The explorer: hosts, then paths level by level, then types (P)."""

from __future__ import annotations

from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from more_archive import build
from more_asking import ask
from serving import Served, serving

from holdfast.config import AccessRule
from holdfast.web.auth.access import Access
from holdfast.web.ui.render import environment


def test_hosts_by_domain_page_by_page(seen: Served) -> None:
    first = ask(seen.controls, "/explore")
    assert first.status == 200
    assert "example.com" in first.text and "host0.net:8080" in first.text and "sub1.example.org" not in first.text
    more = unescape(first.text.partition('rel="next" href="')[2].partition('"')[0])
    second = ask(seen.controls, more)
    assert "sub1.example.org" in second.text and "host0.net:8080" not in second.text
    assert 'rel="next"' not in second.text


def test_hosts_by_what_they_contain_and_by_collection(seen: Served) -> None:
    found = ask(seen.controls, "/explore", {"filter": "SUB"})
    assert "sub0.example.org" in found.text and "host1.net" not in found.text
    assert "No host contains" in ask(seen.controls, "/explore", {"filter": "nothing-like-it"}).text
    other = ask(seen.controls, "/explore", {"collection": "other"})
    assert "other.example" in other.text and "example.com" not in other.text


def test_a_host_level_by_level(seen: Served) -> None:
    root = ask(seen.controls, "/explore", {"host": "example.com"})
    assert ">news/</a>" in root.text.replace("</svg>", "") or "news/" in root.text
    assert "/all/*/http://example.com/i.png" in root.text
    below = ask(seen.controls, "/explore", {"host": "example.com", "path": "/news/01/"})
    assert "/all/20200102030405/http://example.com/news/01/story.html" in below.text
    queries = ask(seen.controls, "/explore", {"host": "example.com", "path": "/list?"})
    assert "page=2" in queries.text


def test_types_and_the_addresses_of_one(seen: Served) -> None:
    root = ask(seen.controls, "/explore", {"host": "example.com"})
    assert "type=image%2Fpng" in root.text
    pictures = ask(seen.controls, "/explore", {"host": "example.com", "type": "image/png"})
    assert "/all/20230102030405/http://example.com/i.png" in pictures.text
    assert "/news/" not in pictures.text


@pytest.mark.parametrize(
    ("type", "mime", "status", "word"),
    [
        ("response", "text/html", "200", "text/html"),
        ("revisit", "warc/revisit", "200", "unchanged"),
        ("response", "-", "301", "redirect"),
        ("response", "-", "404", ""),
    ],
)
def test_what_a_capture_is(type: str, mime: str, status: str, word: str) -> None:
    templates: Any = environment().get_template("captures.html").module
    capture = SimpleNamespace(type=type, mime=mime, status=status)
    assert templates.kind(capture).strip() == f'<span class="aside">{word}</span>'


def test_what_is_not_there_is_said(seen: Served) -> None:
    missing = ask(seen.controls, "/explore", {"host": "nowhere.example"})
    assert missing.status == 404 and "Nothing of nowhere.example/ is archived" in missing.text


def test_a_host_without_its_port_leads_to_hosts_that_contain_it(seen: Served) -> None:
    """Studies name hosts without ports."""
    missing = ask(seen.controls, "/explore", {"host": "host7.net"})
    assert (
        missing.status == 404 and '<a href="/explore?filter=host7.net">Hosts that contain host7.net</a>' in missing.text
    )
    assert "host7.net:8080" in ask(seen.controls, "/explore", {"filter": "host7.net"}).text


@pytest.mark.parametrize(
    "values",
    [
        {"host": "a/b"},
        {"host": "a b"},
        {"host": "example.com", "path": "news/"},
        {"host": "example.com", "path": "/news"},
        {"host": "x" * 20_000},
    ],
)
def test_what_makes_no_sense_is_refused(seen: Served, values: dict[str, str]) -> None:
    assert ask(seen.controls, "/explore", values).status in (400, 414)


def test_unknown_collections_are_refused(seen: Served) -> None:
    assert ask(seen.controls, "/explore", {"collection": "none"}).status == 404


def test_markup_in_paths_and_filters_stays_text(seen: Served) -> None:
    root = ask(seen.controls, "/explore", {"host": "example.com"})
    assert "<script>alert" not in root.text and "&lt;script&gt;" in root.text
    assert "<b>x" not in ask(seen.controls, "/explore", {"filter": "<b>x"}).text


def test_excluded_hosts_are_not_there(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(build(tmp_path_factory.mktemp("excluded"))) as served:
        served.site.access = Access([AccessRule(rule="exclude", domain="example.org")])
        assert "example.org" not in ask(served.controls, "/explore").text
        assert ask(served.controls, "/explore", {"host": "sub1.example.org"}).status == 404
