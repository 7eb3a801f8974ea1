"""Registered domains, without network and without a cache on disk (I2)."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
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


def test_the_list_is_loaded_only_when_needed() -> None:
    code = "import sys, holdfast.urls as urls; urls.url_key('http://a/'); sys.exit('tldextract' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
