"""References become addresses of the archive, or stay (W17)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriting_scene import SCENE, at

from holdfast.urls import parse
from holdfast.web.rewrite.addresses import resolved, rewrite

REWRITTEN = {
    "http://other.org/a": "http://other.org/a",
    "http://other.org": "http://other.org/",
    "https://other.org:8443?q": "https://other.org:8443/?q",
    "HTTP://Other.org/A": "http://other.org/A",
    "//other.org/a?b#c": "https://other.org/a?b#c",
    "\\\\other.org\\a": "https://other.org/a",
    "/a/b": "https://example.com/a/b",
    "/": "https://example.com/",
    "/a/../../b": "https://example.com/b",
    "/a b?c=é": "https://example.com/a b?c=é",
    " \t/a\n": "https://example.com/a",
    "\x01http://other.org/\n": "http://other.org/",
    "ht\ntp://other.org/a": "http://other.org/a",
    "/\t/other.org/a": "https://other.org/a",
    "https:rel": "https://example.com/dir/rel",
    "http:rel": "http://rel/",
    "../../a": "https://example.com/a",
    "../..": "https://example.com/",
    "x/../../../a": "https://example.com/a",
    "%2E%2e/.%2e/a": "https://example.com/a",
    "http://user:pw@other.org/": "http://user:pw@other.org/",
}
KEPT = [
    "",
    " ",
    "a.png",
    "./a",
    "../a",
    "..",
    "x/../../a",
    "?q=1",
    "?q=../../../a",
    "#top",
    "data:image/png;base64,/9j/",
    "javascript:void(0)",
    "mailto:someone@example.com",
    "about:blank",
    "blob:https://example.com/1",
    "tel:1",
    "ftp://example.com/",
    "a..b/c...d",
    "http://",
    "//",
    "https://[::1",
    "/main/20200102030405mp_/http://example.com/",
    "/main/im_/http://example.com/",
]


@pytest.mark.parametrize(("reference", "url"), REWRITTEN.items())
def test_what_leaves_the_page_leads_into_the_archive(reference: str, url: str) -> None:
    assert rewrite(reference, SCENE, "im_") == at("im_") + url


@pytest.mark.parametrize("reference", KEPT)
def test_what_browsers_join_right_or_do_not_load_is_left_alone(reference: str) -> None:
    assert rewrite(reference, SCENE, "mp_") == reference


def test_a_path_that_only_looks_like_the_archives_is_rewritten() -> None:
    assert rewrite("/main/2020/story", SCENE, "mp_") == at("mp_") + "https://example.com/main/2020/story"


def test_references_are_relative_to_the_base() -> None:
    based = SCENE.rebased("http://cdn.example.net/v1/assets/")
    assert rewrite("/a", based, "cs_") == at("cs_") + "http://cdn.example.net/a"
    assert rewrite("../../a", based, "cs_") == "../../a"
    assert rewrite("../../../a", based, "cs_") == at("cs_") + "http://cdn.example.net/a"
    assert SCENE.rebased("data:text/plain,x") == SCENE


def test_the_query_of_an_odd_reference_is_written_in_the_encoding_of_its_page() -> None:
    latin = replace(SCENE, encoding="windows-1252")
    assert rewrite("/../a?q=é", latin, "mp_") == at("mp_") + "https://example.com/a?q=%E9"


def test_a_page_that_is_not_of_the_web_keeps_what_it_has_no_host_for() -> None:
    scene = replace(SCENE, url="urn:x")
    assert rewrite("/a", scene, "mp_") == "/a"
    assert rewrite("//a/", scene, "mp_") == "//a/"
    assert rewrite("http://a/", scene, "mp_") == at("mp_") + "http://a/"


def test_a_redirect_is_always_resolved() -> None:
    assert resolved("next", SCENE, "id_") == at("id_") + "https://example.com/dir/next"
    assert resolved(at("mp_") + "http://a/", SCENE, "id_") == at("mp_") + "http://a/"
    assert resolved("mailto:a@b", SCENE, "id_") is None


@given(st.text(st.sampled_from("ab./\\:?#%2eE&;\t\n h tp"), max_size=20))
def test_an_address_leads_where_the_reference_led(reference: str) -> None:
    """Both as a browser joins them, by the URL Standard."""
    written = rewrite(reference, SCENE, "mp_")
    meant = parse(reference, SCENE.url)
    origin = "http://archive.test"
    shown = parse(written, origin + at("mp_") + SCENE.url)
    if meant is None or meant.scheme not in ("http", "https") or reference.startswith(at("mp_")):
        return
    assert shown is not None
    inside = shown.href.removeprefix(origin + at("mp_"))
    assert inside != shown.href
    assert parse(inside) == meant


@given(st.text())
def test_no_text_is_too_odd(reference: str) -> None:
    once = rewrite(reference, SCENE, "mp_")
    assert rewrite(once, SCENE, "mp_") == once
