"""One readable form for every address, and none that looks like another (P)."""

from __future__ import annotations

import pytest

from holdfast.urls import url_key
from holdfast.web.ui.display import bare, readable, readable_host, visible


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://xn--bcher-kva.example/a", "http://bücher.example/a"),
        ("http://b%C3%BCcher.example:8080/%C3%BC?q=%E6%97%A5", "http://bücher.example:8080/ü?q=日"),
        ("http://XN--bcher-kva.example", "http://bücher.example"),
        ("http://xn--wgv71a119e.jp/", "http://日本語.jp/"),
        ("http://a.example/%2F%25%41%FF%C3", "http://a.example/%2F%25%41%FF%C3"),  # ASCII and broken ones stay
        ("urn:x-%C3%BC", "urn:x-ü"),
    ],
)
def test_hosts_and_letters_are_in_plain_and_the_key_is_the_same(url: str, shown: str) -> None:
    assert readable(url) == shown
    assert url_key(readable(url)) == url_key(url)
    assert bare(url) == shown.removeprefix("http://")


@pytest.mark.parametrize(
    "host", ["xn--pypal-4ve.com", "xn--", "xn--zzzzzz-%%.com", "evil%2Fgood.com", "xn--" + "a" * 99]
)
def test_what_could_deceive_or_is_no_name_stays_as_it_is(host: str) -> None:
    assert readable_host(host) == host


def test_what_is_unseen_stays_an_escape() -> None:
    assert visible(readable("http://a.example/%E2%80%AEgnp.exe")) == "http://a.example/%E2%80%AEgnp.exe"
