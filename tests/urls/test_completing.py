"""What users type for a URL is completed where it would be taken for something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.urls import completed, url_key


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("x.org:8080", "org,x:8080)/"),
        ("X.org:8080/a?b#c", "org,x:8080)/a?b"),
        ("localhost:80", "localhost)/"),
        ("intranet:8080?q", "intranet:8080)/?q"),
        ("a-b.org:65535/", "org,a-b:65535)/"),
    ],
)
def test_a_host_with_a_port_is_a_host(typed: str, key: str) -> None:
    assert completed(typed) == f"http://{typed}"
    assert url_key(completed(typed)) == key


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "x.org",
        "127.0.0.1:8080",
        "http://x.org:8080/",
        "ftp:8080x",
        "mailto:1@x.org",
        "tel:112",
        "sms:12345",
        "urn:1234",
        "dns:1.2.3.4",
        "data:1,2",
        "x.org:123456",
        "x.org:",
        "//x.org:80",
    ],
)
def test_everything_else_is_as_it_was(typed: str) -> None:
    assert completed(typed) == typed


@given(st.text() | st.from_regex(r"[a-z.]{1,4}:[0-9]{1,6}[/?#]?"))
def test_twice_is_once(text: str) -> None:
    assert completed(completed(text)) == completed(text)
