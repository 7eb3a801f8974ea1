"""Hostile documents (W17, issue 4.6): no bytes make the reading of links raise, and none make it take long.

Where reading took time or memory by the square, these would not end within the patience of a test run: each has
some hundred thousand of something.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from links_reading import DIR, found

from holdfast.formats.html.links.css import unescaped
from holdfast.formats.html.links.html import ANCHORS_MAX, PAGE_BYTES_MAX
from holdfast.formats.html.links.microsyntax import CANDIDATES_MAX, srcset_urls
from holdfast.formats.html.links.references import LINKS_MAX, REFERENCE_CHARACTERS_MAX, Hop
from holdfast.formats.html.links.script import SCRIPT_BYTES_MAX

N = 200_000
TYPES = [
    "text/html",
    "text/css",
    "text/javascript",
    "application/json",
    "image/svg+xml",
    "",
    "text/html; charset=utf-16",
]
BOMBS = {
    "divs": b"<div>" * N,
    "open-links": b"<a href=x>" * N,
    "formatting": b"".join(b"<font size=%d>" % number for number in range(20_000)) + b"<p>x" * 20_000,
    "tables": b"<table><tr><td>" * N,
    "forms": b"<form action=x><input name=a></form>" * 20_000,
    "frames": b"<iframe srcdoc='<iframe srcdoc=x>'></iframe>" * 20_000,
    "attributes": b"<a " + b" ".join(b"a%d=x" % number for number in range(N)) + b">",
    "long-attribute": b"<a href='" + b"x" * (4 << 20) + b"'>",
    "long-srcset": b"<img srcset='" + b"x, " * N + b"'>",
    "srcset-parentheses": b"<img srcset='" + b"x (" * N + b"'>",
    "srcset-commas": b"<img srcset='" + b"," * N + b"'>",
    "comments": b"<!-- " * N,
    "css-comments": b"<style>" + b"/* " * N,
    "css-strings": b"<style>" + b"\"'" * N,
    "css-urls": b"<style>" + b"url('" * N,
    "css-bare-urls": b"<style>" + b"url( " * N,
    "css-escapes": b"<style>url(" + b"\\" * N,
    "css-imports": b"<style>" + b"@import " * N,
    "css-import-comments": b"<style>@import " + b"/*" * N,
    "css-namespaces": b"<style>" + b"@namespace " * N,
    "script-quotes": b"<script>" + b"'/" * N,
    "script-paths": b"<script>'/" + b"a.js/" * N,
    "script-hosts": b"<script>'http://" + b"a." * N,
    "script-names": b"<script>" + b"'a" * N,
    "script-directories": b"<script>'" + b"a/" * N,
    "script-endings": b"<script>'a" + b".js" * N,
    "script-queries": b"<script>" + b"'a.js?" * N,
    "script-starts": b"<script>" + b"'http://a" * N,
    "script-imports": b"<script>" + b"import " * N,
    "script-spaces": b"<script>import" + b" " * N,
    "script-parentheses": b"<script>" + b"from( " * N,
    "script-slashes": b"<script>" + b"\\/" * N,
    "style-attribute": b"<p style='" + b"url(" * N + b"'>",
    "nul": b"<a href=x>\0" * 20_000,
    "refresh": b"<meta http-equiv=refresh content='" + b" ;" * N + b"'>",
    "dots": b"<a href='" + b"../" * 5000 + b"x'>",
    "dots-and-more": b"".join(b"<a href='" + b"../" * 5000 + b"%d<'>" % number for number in range(300)),
    "stylesheet-instruction": b"<?xml-stylesheet " * N,
    "half-utf-16": b"\xff\xfe" + b"<\0a\0 \0h\0r\0" * N + b"\xd8",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_bombs(bomb: bytes) -> None:
    assert len(found(bomb, "text/html")) <= LINKS_MAX
    inner = bomb.partition(b">")[2]
    found(inner, "text/css")
    found(inner, "text/javascript")


@pytest.mark.parametrize(
    "value",
    [
        "<" * N,
        "<x>" * N,
        "<x>;" * N,
        '<x>;"' * N,
        "<x>" + ";rel=" * N,
        "<x>; rel" + " " * N,
        ", " * N,
        "<x>" + '\\"' * N,
    ],
)
def test_bombs_in_fields(value: str) -> None:
    for name in ("Link", "Location", "Refresh", "Content-Location"):
        found(b"", headers=[(name, value)], status=301)


def test_a_million_links() -> None:
    content = b"".join(b"<a href=%d>" % number for number in range(1_000_000))
    links = found(content[: len(content) // 3] + b"><img src=picture>" + content)
    assert len(links) == LINKS_MAX
    assert [*links.items()][:2] == [(f"{DIR}/picture", Hop.EMBED), (f"{DIR}/0", Hop.LINK)]


def test_the_same_link_often_is_one() -> None:
    assert found(b"<a href=x>" * N + b"<a href=y>") == {f"{DIR}/x": Hop.LINK, f"{DIR}/y": Hop.LINK}
    assert found(b"<a href=x>" * ANCHORS_MAX + b"<a href=y>") == {f"{DIR}/x": Hop.LINK}


def test_a_reference_no_server_takes_is_dropped() -> None:
    longest = "x" * REFERENCE_CHARACTERS_MAX
    assert found(f"<a href={longest}><img src={longest}y><a href={longest}z>") == {f"{DIR}/{longest}": Hop.LINK}


def test_only_the_beginning_of_a_huge_document_is_looked_at() -> None:
    page = b"<a href=x>".ljust(PAGE_BYTES_MAX) + b"<a href=y>"
    assert found(page) == {f"{DIR}/x": Hop.LINK}
    script = b"import '/x.js'".ljust(SCRIPT_BYTES_MAX) + b"import '/y.js'"
    assert found(script, "text/javascript") == {"http://example.com/x.js": Hop.EMBED}


def test_candidates_are_bounded() -> None:
    assert len(srcset_urls("x 1x, " * N)) == CANDIDATES_MAX


TAGS = ["a", "img", "form", "base", "meta", "link", "svg", "iframe", "object", "script", "style", "template", "input"]
NAMES = ["href", "src", "srcset", "style", "data-src", "srcdoc", "content", "action", "rel", "value", "name", "type"]
WORDS = [
    "</script>",
    "</style>",
    "<!--",
    "-->",
    ">",
    "http-equiv=refresh ",
    "url(",
    "@import ",
    "http://",
    "../",
    ".js",
]
SIGNS = [*"'\"/?#&\\\0éx ,;0\ud800", "import ", "from ", "*/", "/*", "&eacute;", "<?xml-stylesheet ", "<option>"]
MARKUP = st.lists(
    st.sampled_from([*(f"<{tag} " for tag in TAGS), *(f" {name}=" for name in NAMES), *WORDS, *SIGNS]), max_size=40
).map("".join)


@given(content=MARKUP | st.binary(max_size=200), content_type=st.sampled_from(TYPES) | st.text(max_size=20))
def test_nothing_raises(content: str | bytes, content_type: str) -> None:
    assert all(url.startswith(("http://", "https://")) for url in found(content, content_type))


@given(
    url=st.text(max_size=20) | st.just("http://example.com"),
    headers=st.lists(
        st.tuples(st.sampled_from(["Link", "Location", "Refresh", "Content-Location"]), st.text(max_size=40))
    ),
    status=st.integers(-1, 1000),
)
def test_nothing_about_a_response_raises(url: str, headers: list[tuple[str, str]], status: int) -> None:
    found("<a href=x><form><input name=a value=b>", url=url, headers=headers, status=status)


@given(text=st.text(alphabet="\\0fF \n\rgé", max_size=30))
def test_escapes_of_any_kind(text: str) -> None:
    unescaped(text)
