"""WebBase's page id: the four rules, and the fingerprint (I2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.signature import RABIN64
from holdfast.urls import page_id
from holdfast.urls.page_id import normalized


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://www.stanford.edu:80/", "www.stanford.edu"),  # the paper's example
        ("http://www.stanford.edu", "www.stanford.edu"),
        ("HTTP://WWW.Stanford.EDU:80/Dept/CS//", "www.stanford.edu/Dept/CS"),
        ("www.Stanford.edu:8080/a:80/", "www.stanford.edu:8080/a:80"),
        ("http://www.stanford.edu:8000", "www.stanford.edu:8000"),
        ("https://Stanford.edu:80/A/", "https://stanford.edu:80/A"),
        ("http://Me@Stanford.edu?Q=/", "Me@stanford.edu?Q="),
        ("http://", ""),
        ("", ""),
    ],
)
def test_the_four_rules(url: str, expected: str) -> None:
    assert normalized(url) == expected


def test_the_id_is_the_fingerprint_of_the_normalized_url() -> None:
    assert page_id("http://www.stanford.edu:80/") == page_id("http://www.stanford.edu")
    assert page_id("http://www.stanford.edu/").to_bytes(8, "big") == RABIN64.digest(b"www.stanford.edu")
    assert page_id("http://www.stanford.edu/a") != page_id("http://www.stanford.edu/A")


@given(st.text(st.characters()))
def test_any_text_has_an_id_of_64_bits(url: str) -> None:
    assert 0 <= page_id(url) < 2**64
    assert page_id(f"http://{url}/") == page_id(f"http://{url}")
