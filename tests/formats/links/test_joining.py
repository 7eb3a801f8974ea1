"""Joining (W17): the quick way for plain references gives what the URL Standard does."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.formats.html.links.join import Joiner
from holdfast.urls import canonical

BASES = [
    "http://example.com/",
    "https://example.com/a/b/c.html?q=/x/y#f",
    "http://user:pw@example.com:8080/a//b/",
    "http://127.0.0.1/a",
    "http://[::1]:81/a/b?",
    "ftp://example.com/a/b",
    "data:text/plain,x",
]
SIGNS = [*"abZ09-._~!$&'()*+,;=:@/?#%[]{}|\\^`\"<> \t\n\0é\ud800"]
PARTS = ["../", "./", "/..", "//", "%2e", "%2E", "%20", "?a=b", "&c="]
HOSTS = ["http:", "https:", "http://", "HTTPS://", "//example.org", "a.de", "xn--", ".1", "0x7f", "localhost"]
PIECES = st.sampled_from([*SIGNS, *PARTS, *HOSTS])


def by_standard(base: str, reference: str) -> str | None:
    scalars = reference.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        url: str = ada_url.URL(scalars, base=base).href
    except ValueError:
        return None
    return url.partition("#")[0] if url.startswith(("http://", "https://")) else None


@given(base=st.sampled_from(BASES), reference=st.lists(PIECES, max_size=8).map("".join))
@example(base=BASES[1], reference="../../../../x")
@example(base=BASES[1], reference="a:b")
@example(base=BASES[1], reference="http:a")
@example(base=BASES[1], reference="//a.b.c?x'y")
@example(base=BASES[1], reference="a/..")
@example(base=BASES[1], reference="?'")
def test_as_the_standard_says(base: str, reference: str) -> None:
    assert Joiner(base).url(reference) == by_standard(base, reference)


@given(base=st.sampled_from(BASES), reference=st.text(max_size=30))
def test_any_text_is_joined_or_not(base: str, reference: str) -> None:
    url = Joiner(base, "Shift_JIS").url(reference)
    assert url is None or (url == canonical(url) and url.startswith(("http://", "https://")))


@pytest.mark.parametrize(
    ("encoding", "query"),
    [
        ("UTF-8", "%C3%A9%E6%97%A5"),
        ("UTF-16LE", "%C3%A9%E6%97%A5"),
        ("windows-1252", "%E9%26%2326085%3B"),
        ("windows-1251", "%26%23233%3B%26%2326085%3B"),
        ("Shift_JIS", "%26%23233%3B%93%FA"),
        ("EUC-JP", "%8F%AB%B1%C6%FC"),
        ("GBK", "%A8%A6%C8%D5"),
        ("Big5", "%26%23233%3B%A4%E9"),
        ("EUC-KR", "%26%23233%3B%EC%ED"),
        ("ISO-2022-JP", "%26%23233%3B%1B$BF|%1B(B"),
    ],
)
def test_a_query_is_written_in_the_encoding_of_its_page(encoding: str, query: str) -> None:
    joining = Joiner("http://example.com/", encoding)
    assert joining.url("é?q=é日#é") == f"http://example.com/%C3%A9?q={query}"


@pytest.mark.parametrize("reference", [" x?é ", "\nx?\té\r\n", "\0x?é\x1f", "x\n?é"])
def test_what_the_standard_takes_off_a_reference_does_not_get_into_its_query(reference: str) -> None:
    assert Joiner("http://example.com/", "windows-1252").url(reference) == "http://example.com/x?%E9"


@given(reference=st.text(max_size=40), encoding=st.sampled_from(["windows-1252", "Shift_JIS", "ISO-2022-JP", "GBK"]))
@example(reference=" ?\x80", encoding="windows-1252")
def test_only_the_query_depends_on_the_encoding(reference: str, encoding: str) -> None:
    ours, plain = (Joiner("http://example.com/a/b", each).url(reference) for each in (encoding, "UTF-8"))
    assert (ours is None) == (plain is None)
    assert ours is None or plain is None or ours.partition("?")[:2] == plain.partition("?")[:2]
