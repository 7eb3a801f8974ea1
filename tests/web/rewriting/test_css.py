"""Style sheets (W17): references rewritten, everything else kept to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriting_scene import SCENE, at

from holdfast.web.rewrite.css import rewrite_css

IM, CS, HOST = at("im_"), at("cs_"), "https://example.com"
SHEETS = {
    "a{background:url(/a.png)}": f"a{{background:url({IM}{HOST}/a.png)}}",
    'a{background:url( "/a b.png" )}': f'a{{background:url( "{IM}{HOST}/a b.png" )}}',
    "a{background:URL('//x.org/a.png')}": f"a{{background:URL('{IM}https://x.org/a.png')}}",
    'a{src:src("/a")}': f'a{{src:src("{IM}{HOST}/a")}}',
    "a{b:url(a.png)}": "a{b:url(a.png)}",
    "a{b:url(data:image/png;base64,//8=)}": "a{b:url(data:image/png;base64,//8=)}",
    "a{b:url(#f)}": "a{b:url(#f)}",
    "a{b:url()}": "a{b:url()}",
    "a{b:url(../../x)}": f"a{{b:url({IM}{HOST}/x)}}",
    r"a{b:url(\2f x\(1\).png)}": rf"a{{b:url({IM}{HOST}\2f x\(1\).png)}}",
    r'a{b:url("\68ttp://x.org/a")}': rf'a{{b:url("{IM}\68ttp://x.org/a")}}',
    "@import '/a.css' screen;": f"@import '{CS}{HOST}/a.css' screen;",
    '@IMPORT/**/"/a.css";': f'@IMPORT/**/"{CS}{HOST}/a.css";',
    "@import url(/a.css);": f"@import url({CS}{HOST}/a.css);",
    "@import url( '/a.css' ) layer(x);": f"@import url( '{CS}{HOST}/a.css' ) layer(x);",
    "/* url(/a) */ a{b:url(/b)}": f"/* url(/a) */ a{{b:url({IM}{HOST}/b)}}",
    "a{content:'url(/a)'}": "a{content:'url(/a)'}",
    "@namespace url(http://www.w3.org/1999/xhtml);": "@namespace url(http://www.w3.org/1999/xhtml);",
    "a{b:image-set('/a.png' 1x, url(/b.png) 2x) url(/c)}": (
        f"a{{b:image-set('{IM}{HOST}/a.png' 1x, url({IM}{HOST}/b.png) 2x) url({IM}{HOST}/c)}}"
    ),
    "a{b:image-set(url(/b.png) 1x, '/a.png' 2x) '/d'}": (
        f"a{{b:image-set(url({IM}{HOST}/b.png) 1x, '{IM}{HOST}/a.png' 2x) '/d'}}"
    ),
    "a{b:image-set('/a' type('image/avif') 1x, '/b' 2x) '/d'}": (
        f"a{{b:image-set('{IM}{HOST}/a' type('image/avif') 1x, '{IM}{HOST}/b' 2x) '/d'}}"
    ),
    "a{b:-webkit-image-set(\"/a\" type('image/avif') 1x) '/d'}": (
        f"a{{b:-webkit-image-set(\"{IM}{HOST}/a\" type('image/avif') 1x) '/d'}}"
    ),
    "a{b:url(/x": f"a{{b:url({IM}{HOST}/x",
    '@charset "utf-8";a{b:url(/é)}': f'@charset "utf-8";a{{b:url({IM}{HOST}/é)}}',
}


@pytest.mark.parametrize(("sheet", "wanted"), SHEETS.items())
def test_references_of_a_sheet(sheet: str, wanted: str) -> None:
    assert rewrite_css(sheet.encode(), SCENE).decode() == wanted
    assert rewrite_css(wanted.encode(), SCENE).decode() == wanted


def test_bytes_that_are_no_utf_8_are_kept() -> None:
    assert rewrite_css(b"a{b:url(/\xe9)} /* \xff */", SCENE) == f"a{{b:url({IM}{HOST}/".encode() + b"\xe9)} /* \xff */"


@given(st.lists(st.sampled_from(["url(", ")", "*", '"', "'", "\\z", "@import ", "image-set(", "a/b", " ", "\n"])))
def test_a_sheet_without_absolute_references_stays_as_it_is(parts: list[str]) -> None:
    sheet = "".join(parts).encode()
    assert rewrite_css(sheet, SCENE) == sheet


@given(st.binary())
def test_any_bytes_pass(content: bytes) -> None:
    rewrite_css(content, SCENE)


@pytest.mark.parametrize("part", ["@import/*", "url(", "image-set(", '"', "\\", "/*", "type(", "@import url(", "src( "])
def test_time_grows_with_the_sheet_only(part: str) -> None:
    """Were any of it read again and again, this would take hours."""
    content = b"url(" + part.encode() * (1_000_000 // len(part))
    assert len(rewrite_css(content, SCENE)) >= len(content)
