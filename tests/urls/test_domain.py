"""Registered domains, without network and without a cache on disk (I2)."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
import tldextract
from hypothesis import given
from hypothesis import strategies as st

from holdfast.urls import public_suffix, registered_domain


@pytest.mark.parametrize(
    ("host", "domain", "suffix"),
    [
        ("www.example.co.uk", "example.co.uk", "co.uk"),
        ("A.B.Example.com.", "example.com", "com"),
        ("foo.github.io", "github.io", "io"),  # private suffixes do not count
        ("www.bücher.de", "bücher.de", "de"),
        ("www.xn--bcher-kva.de", "xn--bcher-kva.de", "de"),
        ("a.city.kawasaki.jp", "city.kawasaki.jp", "kawasaki.jp"),
        ("127.0.0.1", "127.0.0.1", ""),
        ("[::1]", "[::1]", ""),
        ("localhost", "localhost", ""),
        ("co.uk", "co.uk", "co.uk"),
        ("a.b.ck", "a.b.ck", "b.ck"),  # a wildcard,
        ("a.www.ck", "www.ck", "ck"),  # and its exception
        ("a.b.xn--p1ai", "b.xn--p1ai", "xn--p1ai"),
        ("a.b.unknown", "b.unknown", ""),
        ("", "", ""),
    ],
)
def test_domains(host: str, domain: str, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    monkeypatch.setattr(socket, "create_connection", None)
    assert (registered_domain(host), public_suffix(host)) == (domain, suffix)


@given(st.text())
def test_any_text_has_an_answer(host: str) -> None:
    assert isinstance(registered_domain(host), str)
    assert isinstance(public_suffix(host), str)


_EXTRACT = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=(), fallback_to_snapshot=True)
_LABELS = st.sampled_from(
    ("a", "www", "com", "co", "uk", "ck", "jp", "kawasaki", "city", "kobe", "bd", "mm", "io", "xn--p1ai", "рф", "de")
)


@given(st.lists(_LABELS, min_size=1, max_size=5))
def test_the_same_as_tldextract(labels: list[str]) -> None:
    host = ".".join(labels)
    found = _EXTRACT(host)
    assert public_suffix(host) == found.suffix
    if found.suffix and found.domain:
        assert registered_domain(host) == found.top_domain_under_public_suffix


def test_the_list_is_read_without_the_package() -> None:
    code = "import sys, holdfast.urls as urls; urls.registered_domain('a.b.com'); sys.exit('requests' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
