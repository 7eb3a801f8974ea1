"""Parsing and the canonical form, by the tables of web-platform-tests (I2) and of ada."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from url_samples import cases

from holdfast.urls import canonical, parse


def parts(url: str, base: str | None) -> dict[str, str] | None:
    """As the tables name them."""
    parsed = parse(url, base)
    if parsed is None:
        return None
    return {
        "href": parsed.href,
        "protocol": f"{parsed.scheme}:",
        "username": parsed.username,
        "password": parsed.password,
        "hostname": parsed.host,
        "port": parsed.port,
        "pathname": parsed.path,
        "search": f"?{parsed.search}" if parsed.search else "",
        "hash": f"#{parsed.fragment}" if parsed.fragment else "",
    }


def passes(case: dict[str, Any]) -> bool:
    found = parts(case["input"], case.get("base"))
    if case.get("failure"):
        return found is None
    return found is not None and all(case.get(name) in (None, value) for name, value in found.items())


@pytest.mark.parametrize(
    ("table", "cases_min"),
    [
        ("urltestdata.json", 800),
        ("urltestdata-javascript-only.json", 1),
        ("ada_extra_urltestdata.json", 20),
        ("ada_long_urltestdata.json", 1),
    ],
)
def test_urls_are_parsed_as_the_standard_says(table: str, cases_min: int) -> None:
    every = cases(table)
    assert len(every) >= cases_min
    assert [case for case in every if not passes(case)] == []


@pytest.mark.parametrize("table", ["toascii.json", "IdnaTestV2.json", "IdnaTestV2-removed.json"])
def test_hosts_become_ascii_as_unicode_says(table: str) -> None:
    for case in cases(table):
        if case["input"]:  # an empty one would take the path for the host
            parsed = parse(f"https://{case['input']}/x")
            assert (parsed.host if parsed else None) == case["output"], case


def test_queries_are_escaped_as_utf8() -> None:
    """Of the other encodings in the table no parser knows: they are those of the page that has the link."""
    for case in cases("percent-encoding.json"):
        parsed = parse(f"https://doesnotmatter.invalid/?{case['input']}")
        assert parsed is not None
        assert parsed.search == case["output"]["utf-8"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://www.Example.com:80/a/../B?y=2&x=1#top", "http://www.example.com/B?y=2&x=1"),
        ("https://Bücher.de", "https://xn--bcher-kva.de/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        (" http://a\\b\n", "http://a/b"),
        ("dns:Example.com", "dns:Example.com"),
        ("  no url \n", "no url"),
        ("http://a b/", "http://a b/"),
        ("http://a/\ud800", "http://a/%EF%BF%BD"),
    ],
)
def test_canonical(url: str, expected: str) -> None:
    assert canonical(url) == expected


@given(st.text() | st.text().map("http://example.com/{}".format) | st.text().map("https://{}".format))
def test_canonical_is_canonical(url: str) -> None:
    if (parsed := parse(url)) and parsed.scheme in ("http", "https"):
        assert canonical(canonical(url)) == canonical(url)


@given(st.text(st.characters()), st.none() | st.text(st.characters()))
def test_parsing_never_raises(url: str, base: str | None) -> None:
    parse(url, base)
    canonical(url)
