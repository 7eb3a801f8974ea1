"""How text becomes words; golden, because an index that was built with other words finds nothing."""

from __future__ import annotations

import pytest

from holdfast.index.extract.sketch import sketch_of
from holdfast.index.schema import (
    PARTITIONS,
    STEMMERS,
    WORD_BYTES_MAX,
    host_of,
    page_number,
    partition_of,
    record_number,
    separated,
    short_type,
    split_record_number,
    stem_of,
    stemmed_field,
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


def test_stems() -> None:
    """Golden, as words are: an index that was built with other stems finds nothing."""
    assert {stem_of(word, "en") for word in ("library", "Libraries", "library's")} == {"librari", ""}
    assert stem_of("Häuser", "de") == stem_of("haus", "de") == "haus"
    assert stem_of("étudiantes", "fr") == stem_of("e\u0301tudiante", "fr") == "etudi"
    assert stem_of("книги", "ru") == stem_of("книга", "ru")
    assert (stemmed_field("text", "en"), stemmed_field("title", "nb"), stemmed_field("text", "ja")) == (
        "text_en",
        "title_no",
        "",
    )
    assert all(stem_of("test", code) for code in STEMMERS)


def test_partitions() -> None:
    """Golden: nodes of a cluster must agree (CLUSTER.md)."""
    assert PARTITIONS == 1024
    assert [partition_of(each) for each in ("example.com", "example.org", "")] == [614, 437, 692]


def test_sketches() -> None:
    """N11: equal texts have equal sketches, similar ones share most bits, others half of them."""
    text = " ".join(f"word{number * 7919 % 1000}" for number in range(500))
    assert sketch_of("Whales sing. " * 20) == 0x3FFFFFFFF80001F
    assert sketch_of(text) == sketch_of(text.upper().replace(" ", "\n")) != 0
    changed = text.replace("word7 ", "another ")
    assert 0 <= (sketch_of(text) ^ sketch_of(changed)).bit_count() <= 6
    other = " ".join(f"term{number * 104729 % 1000}" for number in range(500))
    assert 16 <= (sketch_of(text) ^ sketch_of(other)).bit_count() <= 48
    assert sketch_of("too short") == 0
    assert sketch_of(f"{text}\ud800") == sketch_of(f"{text}?"), "half of a surrogate pair is no error"
