"""Questions that would silently find nothing are answered with an error, or understood."""

from __future__ import annotations

import pytest

from holdfast.catalog import CaptureQuery
from holdfast.errors import MalformedQuery


@pytest.mark.parametrize(
    ("starred", "match", "plain"),
    [
        ("*.example.com", "domain", "example.com"),
        ("example.com/*", "host", "example.com"),
        ("example.com/a*", "prefix", "example.com/a"),
        ("*", "all", ""),
    ],
)
def test_a_star_that_agrees_with_the_match_is_left_out(starred: str, match: str, plain: str) -> None:
    assert CaptureQuery(url=starred, match=match).ranges() == CaptureQuery(url=plain, match=match).ranges()


@pytest.mark.parametrize(
    ("starred", "match"), [("*.example.com", "host"), ("*", "prefix"), ("*.example.com", "prefix")]
)
def test_a_star_that_does_not_is_an_error(starred: str, match: str) -> None:
    with pytest.raises(MalformedQuery, match="does not go with match"):
        CaptureQuery(url=starred, match=match)


def test_the_end_of_a_range_says_that_it_is_one() -> None:
    query = CaptureQuery(url="a.com", to_url="b.com")
    assert query.ranges() == CaptureQuery(url="a.com", match="range", to_url="b.com").ranges()


@pytest.mark.parametrize("text", ["", "!", "!=", "=dupecount:0", "!=skipcount:1"])
def test_filters_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(MalformedQuery):
        CaptureQuery(url="a.com", filters=(text,))


@pytest.mark.parametrize("time", ["202613", "20260132", "2026010124", "20260101006060"])
def test_times_that_never_were(time: str) -> None:
    with pytest.raises(MalformedQuery, match="out of range"):
        CaptureQuery(url="a.com", from_=time)


@pytest.mark.parametrize("number", [10**20, -1])
def test_numbers_out_of_bounds(number: int) -> None:
    with pytest.raises(MalformedQuery, match="must be between"):
        CaptureQuery(url="a.com", offset=number)
