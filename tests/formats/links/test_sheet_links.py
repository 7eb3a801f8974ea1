"""Links of style sheets (W17, issue 4.4)."""

from __future__ import annotations

import pytest
from links_reading import DIR, SITE, found

from holdfast.formats.html.links.references import Hop


@pytest.mark.parametrize(
    ("sheet", "names"),
    [
        ("p { background: url(x) }", "x"),
        ("p { background: URL( 'x' ), url(\"y\") }", "xy"),
        ("p { background: url( x\n) }", "x"),
        ("@import 'x'; @import \"y\" screen; @import url(z) print; @import/**/'w';", "xyzw"),
        ("@font-face { src: url(x) format('woff'), url(y) }", "xy"),
        ("/* url(no) */ p { background: url(x) } /* @import 'no'", "x"),
        ("p::before { content: 'url(no)'; background: url(x) }", "x"),
        ("p::before { content: '\\'url(no)'; background: url(x) }", "x"),
        ("@namespace svg url(http://www.w3.org/2000/svg); p { background: url(x) }", "x"),
        ("p { background: url(data:image/png,no), url(#no), url(), url(x) }", "x"),
        ("p { content: 'broken\n} p { background: url(x) }", "x"),
        (r"p { background: url(\78), url('\79 '), url(\00007a) }", "xyz"),
        ("@charset 'x'; p { background: image-set(url(x) 1x, url(y) 2x) }", "xy"),
        ("p { background: image-set(url(x) 1x, 'y' 2x), url(z) } q::before { content: 'no' }", "xyz"),
        (
            "p { background: image-set('x' type('image/no') 1x, url( \"y\" ) type(\"no\") 2x, 'z' 3x); content: 'no' }",
            "xyz",
        ),
        ("@font-face { src: src('x'), local(no) }", "x"),
        ("@import no; p { background: my-src(no) }", ""),
        ("p { background: url('x", "x"),
        ("p { background: url(x", "x"),
    ],
)
def test_a_sheet_loads(sheet: str, names: str) -> None:
    assert found(sheet, "text/css") == {f"{DIR}/{name}": Hop.EMBED for name in names}


def test_escapes_are_undone() -> None:
    assert found(
        r"p { background: url(a\(1\)\ b\
c.png) }",
        "text/css",
    ) == {f"{DIR}/a(1)%20bc.png": Hop.EMBED}
    assert found(r"p { background: url('\d800 x\110000') }", "text/css") == {f"{DIR}/%EF%BF%BDx%EF%BF%BD": Hop.EMBED}


@pytest.mark.parametrize(
    ("content_type", "content", "escaped"),
    [
        ("text/css", "url(é)".encode(), "%C3%A9"),
        ("text/css; charset=latin1", b"url(\xe9)", "%C3%A9"),
        ("text/css", b'@charset "latin1"; url(\xe9)', "%C3%A9"),
        ("text/css", b'@charset "utf-16"; url(x)', "x"),
        ("text/css", "url(é)".encode("utf-16"), "%C3%A9"),
        ("text/css", b"url(\xe9)", "%EF%BF%BD"),
    ],
)
def test_character_sets_of_sheets(content_type: str, content: bytes, escaped: str) -> None:
    assert found(content, content_type) == {f"{DIR}/{escaped}": Hop.EMBED}


def test_urls_are_joined_to_the_sheet_not_the_page() -> None:
    assert found("url(../x)", "text/css", url=f"{SITE}/css/a/b.css") == {f"{SITE}/css/x": Hop.EMBED}
