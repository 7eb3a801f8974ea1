"""Links of scripts and JSON (W17, issue 4.4): what looks like a URL, and what is imported."""

from __future__ import annotations

import pytest
from links_reading import DIR, SITE, found

from holdfast.formats.html.links.references import Hop

E, X = Hop.EMBED, Hop.SPECULATIVE


@pytest.mark.parametrize(
    ("script", "links"),
    [
        ("a = 'https://other.org/x?y=1#z'", {"https://other.org/x?y=1": X}),
        (r'a = {"u": "https:\/\/other.org\/x"}', {"https://other.org/x": X}),
        (r'a = "http:\u002f\u002Fother.org/x?a=1\u0026b=2"', {"http://other.org/x?a=1&b=2": X}),
        ("a = '<img src=\"http://other.org/x\">'", {"http://other.org/x": X}),
        (
            "a = '/x.png'; b = \"./y.html?z=1\"; c = `../w.css`",
            {f"{SITE}/x.png": X, f"{DIR}/y.html?z=1": X, f"{SITE}/w.css": X},
        ),
        ("a = '//other.org/x.js'", {"http://other.org/x.js": X}),
        ("import a from './x.js'; import './y.mjs'", {f"{DIR}/x.js": E, f"{DIR}/y.mjs": E}),
        ("import{a}from'/x.js';export * from \"../y.js\"", {f"{SITE}/x.js": E, f"{SITE}/y.js": E}),
        ("await import('./x.js')", {f"{DIR}/x.js": E}),
        ("import a from 'react'", {}),
        (
            "image.src = \"pixel.png\"; load('2j.css'); a = `img/x-1.gif?y=2`",
            {f"{DIR}/pixel.png": X, f"{DIR}/2j.css": X, f"{DIR}/img/x-1.gif?y=2": X},
        ),
        ("a = '/no/ending'; b = word.js; c = /x.js/; d = 'a/b'; e = '.png'; f = '*.css'", {}),
        ("a = 'text/html'; b = 'cdn.example.org/x.js'; c = 'two words.png'; d = b+'.js'", {}),
        ("a = 'http://www.w3.org/2000/svg'", {}),
        ("a = `https://other.org/${x}/y`", {}),
        ("// see http://other.org/x", {}),
    ],
)
def test_a_script_may_load(script: str, links: dict[str, str]) -> None:
    assert found(script, "text/javascript") == links


@pytest.mark.parametrize(
    "kind", ["application/json", "application/ld+json; charset=utf-8", "application/manifest+json"]
)
def test_json(kind: str) -> None:
    """A mere name is more often no URL there."""
    assert found('{"a": "/x.png", "b": "import(\'/y\')", "c": "report.pdf"}', kind) == {f"{SITE}/x.png": X}


@pytest.mark.parametrize("kind", ["application/javascript", "application/x-javascript", "text/ecmascript"])
def test_names_of_javascript(kind: str) -> None:
    assert found("import './x.js'", kind) == {f"{DIR}/x.js": E}
