"""Scripts keep their meaning and change their place (W17)."""

from __future__ import annotations

import json

import pytest
from script_snippets import CHANGED, KEPT, SCENE

from holdfast.web.rewrite.elements import rewrite_import_map
from holdfast.web.rewrite.javascript import is_module, rewrite_script

PREFIX = "/main/20240102030405js_/"


@pytest.mark.parametrize(("source", "expected"), CHANGED)
def test_w17_script_is_moved_into_the_archive(source: str, expected: str) -> None:
    assert rewrite_script(source.encode(), SCENE).decode() == expected


@pytest.mark.parametrize("source", KEPT)
def test_w17_what_is_not_meant_stays(source: str) -> None:
    assert rewrite_script(source.encode(), SCENE).decode() == source


@pytest.mark.parametrize("source", [source for source, _ in CHANGED])
def test_w17_rewriting_twice_is_rewriting_once(source: str) -> None:
    once = rewrite_script(source.encode(), SCENE)
    assert rewrite_script(once, SCENE) == once


def test_w17_json_passes_unharmed() -> None:
    data = json.dumps({"location": "https://a.example/", "top": [1, 2], "import": {"location": "'\"` /* ${"}}).encode()
    assert rewrite_script(data, SCENE) == data


@pytest.mark.parametrize(
    "cut",
    [b"location = 'x", b"`${location", b"/* location", b"location.href = `a${`b${top", b"}}}) location", b"a = /top"],
)
def test_w17_a_script_cut_short_is_no_error(cut: bytes) -> None:
    assert rewrite_script(cut, SCENE)


@pytest.mark.parametrize(
    "piece",
    [
        b"import ",
        b"import{a,",
        b"location(",
        b"/",
        b"{",
        b"`${",
        b"top,",
        b"class A ",
        b"case ",
        b"/* ",
        b"'\\",
        b"/a[",
        b"x=/a ",
        b"\n",
        b"(",
        b"import(",
        b"export ",
        b"a.top.",
        b"[a.top].top",
        b"f(x.top).top",
        b"?.[k].top",
        b"window[k",
        b"{location:a}=b.",
        b"eval(",
        b"import(a,{with:{",
    ],
)
def test_w17_hostile_repetition_is_read_in_one_pass(piece: bytes) -> None:
    assert rewrite_script(b"top;" + piece * (200_000 // len(piece)), SCENE).startswith(b"__hf_top;")


def test_w17_modules_are_told_from_classic_scripts() -> None:
    assert is_module(b"import 'a.js'")
    assert is_module(b"var a;\nexport default a")
    assert is_module(b'/* licence */import{a}from"./a.js"')
    assert not is_module(b"importScripts('a.js'); import('b.js')")
    assert not is_module(b"exports.a = 1; module.export = 2")


def test_w17_import_maps_lead_into_the_archive() -> None:
    source = {
        "imports": {"react": "https://cdn.example/react.js", "a/": "./a/", "/x/": "/y/"},
        "scopes": {"/old/": {"react": "//cdn.example/0.js"}},
        "integrity": {"https://cdn.example/react.js": "sha384-x"},
    }
    assert json.loads(rewrite_import_map(json.dumps(source).encode(), SCENE)) == {
        "imports": {
            "react": f"{PREFIX}https://cdn.example/react.js",
            "a/": f"{PREFIX}https://news.example/a/a/",
            f"{PREFIX}https://news.example/x/": f"{PREFIX}https://news.example/y/",
        },
        "scopes": {
            f"{place}https://news.example/old/": {"react": f"{PREFIX}https://cdn.example/0.js"}
            for place in (PREFIX, PREFIX.replace("js_", "mp_"))
        },
    }


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"not json"])
def test_w17_what_is_no_import_map_stays(text: bytes) -> None:
    assert rewrite_import_map(text, SCENE) == text
