"""Ranges against a model: a set of whole numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import MalformedToken
from holdfast.streams.order.ranges import Bound, Position, Ranges, rank
from holdfast.streams.snapshot import Snapshot
from holdfast.streams.token import StreamToken, decode

END = 40
BOUNDS = st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted)


def at(number: int) -> Position:
    """A position for each number, the first of them the beginning."""
    return ("b", number) if number else ()


def end_at(number: int) -> Bound:
    return None if number == END else at(number)


def numbers(ranges: Ranges) -> set[int]:
    return {number for number in range(END) if at(number) in ranges}


@given(taken=st.lists(BOUNDS, max_size=8), window=BOUNDS)
def test_what_is_left_is_what_has_not_come(taken: list[list[int]], window: list[int]) -> None:
    ranges, model = Ranges(), set(range(END))
    for start, end in taken:
        ranges = ranges.without(at(start), end_at(end))
        model -= set(range(start, end))
    assert numbers(ranges) == model
    assert bool(ranges) == bool(model)
    assert numbers(ranges.within(at(window[0]), end_at(window[1]))) == model & set(range(*window))
    assert {number for number in range(END) if ranges.holds(at(number + 1))} == model
    bounds = [rank(bound) for part in ranges for bound in part]
    assert bounds == sorted(bounds)
    if model:
        assert ranges.first == at(min(model))
    assert decode(StreamToken("a", "o", Snapshot({"b": END}), ranges, 7).encode()).left == ranges


def test_texts_go_by_their_bytes_as_in_the_catalog() -> None:
    places = sorted([b"a", b"z", b"\x80", b"\xc3\xa4", b"\xee\x80\x80", b"\xf0\x9f\x90\x99", b"\xff"])
    positions = [(place.decode("utf-8", "surrogateescape"),) for place in places]
    assert sorted(positions, key=rank) == positions


@pytest.mark.parametrize(
    "parts", [((("b", 2), ("b", 1)),), ((("b", 1), None), (("b", 3), None)), ((("b", 1), ("b", 1)),)]
)
def test_a_token_with_ranges_out_of_order_is_refused(parts: tuple[tuple[Position, Bound], ...]) -> None:
    with pytest.raises(MalformedToken):
        decode(StreamToken("a", "o", Snapshot({"b": 9}), Ranges(parts)).encode())
