"""How text becomes words; golden, because an index that was built with other words finds nothing."""

from __future__ import annotations

import pytest

from holdfast.index.schema import (
    WORD_BYTES_MAX,
    host_of,
    page_number,
    record_number,
    separated,
    short_type,
    split_record_number,
    suffixes_of,
    types_of,
    words_of,
)
from holdfast.urls import url_key

WORDS = {
    "The Quick brown-FOX": "the quick brown fox",
    "don't l'été O’Neill": "don t l ete o neill",
    "naïve Ærø Straße Łódź": "naive aero strasse lodz",
    "cafe\u0301 café": "cafe cafe",
    "3.14 1,000 x86_64 C++": "3 14 1 000 x86 64 c",
    "漢字かな交じり文": "漢 字 か な 交 じ り 文",
    "東京タワーTokyo": "東 京 タ ワ ー tokyo",
    "학교에서": "학 교 에 서",
    "สวัสดี": "ส ว ั ส ด ี",
    "Привет, мир": "привет мир",
    "हिन्दी": "हिन दी",
    "שלום עולם": "שלום עולם",
    "ＡＢＣ　１２３": "abc 123",
    "user@example.com": "user example com",
    "": "",
    "!?…": "",
}


@pytest.mark.parametrize("text", WORDS)
def test_words(text: str) -> None:
    assert " ".join(words_of(text)) == WORDS[text]


def test_long_words_are_left_out() -> None:
    longest, longer = "a" * WORD_BYTES_MAX, "a" * (WORD_BYTES_MAX + 1)
    assert words_of(f"x {longest} y {longer} z") == ["x", longest, "y", "z"]


def test_separators_are_not_seen() -> None:
    assert separated("plain") == "plain"
    assert separated("漢字 and").replace("\u200b", "") == "漢字 and"


def test_numbers() -> None:
    assert record_number(3, 4711) == 3 * 2**32 + 4711
    assert split_record_number(record_number(3, 4711)) == (3, 4711)
    assert page_number("com,example)/") == 0xEADCB4C02F228999


@pytest.mark.parametrize(
    ("url", "host", "suffixes"),
    [
        ("http://www.Example.co.uk:81/a", "example.co.uk", ["example.co.uk", "co.uk", "uk"]),
        ("https://a.b.example.com/", "a.b.example.com", ["a.b.example.com", "b.example.com", "example.com", "com"]),
        ("http://127.0.0.1:8000/", "127.0.0.1", ["127.0.0.1"]),
        ("http://[2001:db8::1]/", "2001:db8::1", ["2001:db8::1"]),
        ("http://localhost/", "localhost", ["localhost"]),
        ("urn:x:y", "", []),
    ],
)
def test_hosts(url: str, host: str, suffixes: list[str]) -> None:
    assert host_of(url_key(url)) == host
    assert suffixes_of(host) == suffixes


def test_types() -> None:
    assert types_of("text/html") == ["text", "html"]
    assert types_of("image/png") == ["image"]
    assert types_of("-") == ["-"]
    names = {
        "application/pdf": "pdf",
        "application/xhtml+xml": "html",
        "application/vnd.oasis.opendocument.text": "office",
        "text/javascript": "script",
        "application/rss+xml": "feed",
        "application/problem+json": "json",
        "image/svg+xml": "image",
        "video/mp4": "video",
    }
    assert {mime: short_type(mime) for mime in names} == names
