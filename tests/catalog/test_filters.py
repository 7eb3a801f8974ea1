"""Filters: expressions that nobody can stall the catalog with, and what of them is refused (P)."""

from __future__ import annotations

import pytest
from captures import capture

from holdfast.catalog import CaptureQuery, Row
from holdfast.catalog.query.filters import FILTERS_MAX, parse_filter
from holdfast.errors import MalformedQuery


def matches(text: str, url: str) -> bool:
    return parse_filter(text)(Row(capture(url, "20240102030405")))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("http", True),
        ("ttp", False),  # from the start
        (".*/b$", True),
        ("HTTP", False),
        ("(?i)HTTP", True),
        (r"https?://\w+\.example/.*", True),
        (r"[a-z]{4}:", True),
        ("", True),
    ],
)
def test_an_expression_matches_from_the_start_of_the_field(expression: str, expected: bool) -> None:
    assert matches(f"~url:{expression}", "http://a.example/b") is expected
    assert matches(f"!~url:{expression}", "http://a.example/b") is not expected


def test_an_expression_that_backtracks_elsewhere_takes_no_time_here() -> None:
    assert not matches("~url:http://a.example/(a+)+$", "http://a.example/" + "a" * 5000 + "!")
    assert not matches("~url:.*.*.*.*.*.*x$", "http://a.example/" + "a" * 5000)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(?=a)", "look-around is not known here"),
        ("(?!a)", "look-around is not known here"),
        ("(?<=a)b", "look-around is not known here"),
        (r"(a)\1", "back references are not known here"),
        (r"a\Z", "the end is '\\$'"),
        ("(", "bad regular expression in filter '~url:\\('"),
        ("a**", "bad repetition operator"),
        ("x{1001}", "invalid repetition size"),
        (r"(\pL{100}){10}", "pattern too large"),
        ("a" * 1001, "at most 1000 are taken"),
    ],
)
def test_what_cannot_be_had_in_linear_time_or_bounded_memory_is_refused_with_the_reason(
    expression: str, reason: str
) -> None:
    with pytest.raises(MalformedQuery, match=reason):
        parse_filter(f"~url:{expression}")


def test_bytes_that_are_no_characters_do_not_stop_an_expression() -> None:
    assert matches("~url:.*end$", "http://a.example/\udcff/end")
    assert matches("~url:.*é", "http://a.example/é")
    with pytest.raises(MalformedQuery):
        parse_filter("~url:[\udcff")


def test_a_query_takes_so_many_filters_and_collapses_and_no_more() -> None:
    CaptureQuery(url="a", filters=("=status:200",) * FILTERS_MAX)
    with pytest.raises(MalformedQuery, match="at most 32"):
        CaptureQuery(url="a", filters=("=status:200",) * (FILTERS_MAX + 1))
    with pytest.raises(MalformedQuery, match="at most 8"):
        CaptureQuery(url="a", collapse=("digest",) * 9)


@pytest.mark.parametrize("told", [{"limit": 10**13}, {"limit": -(10**13)}, {"page": 10**7, "page_size": 10**7}])
def test_numbers_beyond_all_reason_are_refused(told: dict[str, int]) -> None:
    with pytest.raises(MalformedQuery):
        CaptureQuery(url="a", **told)  # type: ignore[arg-type]
