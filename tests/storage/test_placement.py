"""Placement: the paper's modulus exactly, and weights in proportion."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import VolumeSettings
from holdfast.errors import UnknownName
from holdfast.storage.placement import PLACEMENTS, Placement, find_placement

DRAWS = 20_000
SIGNATURES = [hashlib.sha256(b"%d" % number).digest() for number in range(DRAWS)]
place_mod, place_weighted = PLACEMENTS["mod"], PLACEMENTS["weighted"]


def volumes(*weights: float) -> list[VolumeSettings]:
    return [VolumeSettings(f"v{number}", weight=weight) for number, weight in enumerate(weights)]


def firsts(place: Placement, chosen: list[VolumeSettings]) -> list[str]:
    return [place(signature, chosen)[0] for signature in SIGNATURES]


@given(st.binary(min_size=1, max_size=32), st.integers(1, 40))
def test_mod_is_the_signature_as_a_number_modulo_n(signature: bytes, count: int) -> None:
    number = 0
    for byte in signature:
        number = number * 256 + byte
    expected = [f"v{(number + step) % count}" for step in range(count)]
    assert place_mod(signature, volumes(*[1.0] * count)) == expected


@given(st.sampled_from(sorted(PLACEMENTS)), st.binary(min_size=1, max_size=32), st.lists(st.floats(0, 9), min_size=1))
def test_every_volume_has_its_turn_once(name: str, signature: bytes, weights: list[float]) -> None:
    chosen = volumes(*weights)
    places = find_placement(name)(signature, chosen)
    assert sorted(places) == sorted(volume.name for volume in chosen)
    assert find_placement(name)(signature, chosen) == places


@pytest.mark.parametrize("weights", [(1, 1), (1, 2, 3), (0.1, 0.1, 0.8), (5, 1, 1, 1, 1, 1)])
def test_weights_are_shares(weights: tuple[float, ...]) -> None:
    """Chi-square over a fixed sample: with up to 5 degrees of freedom, 20.5 is beyond once in a thousand samples."""
    found = Counter(firsts(place_weighted, volumes(*weights)))
    expected = {f"v{number}": DRAWS * weight / sum(weights) for number, weight in enumerate(weights)}
    assert sum((found[name] - share) ** 2 / share for name, share in expected.items()) < 20.5


def test_the_second_place_is_shared_by_weight_too() -> None:
    """With weights 1, 1, 2 the heavy one is second half as often as not first: P = 2 * 1/4 * 2/3 = 1/3."""
    seconds = Counter(place_weighted(signature, volumes(1, 1, 2))[1] for signature in SIGNATURES)
    assert abs(seconds["v2"] - DRAWS / 3) < 4 * (DRAWS * 2 / 9) ** 0.5


def test_a_new_volume_takes_its_share_and_nothing_else_moves() -> None:
    before = firsts(place_weighted, volumes(1, 2, 3))
    after = firsts(place_weighted, volumes(1, 2, 3, 2))
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {"v3"}
    assert abs(len(moved) - DRAWS / 4) < 4 * (DRAWS * 3 / 16) ** 0.5


def test_less_weight_only_moves_contents_away() -> None:
    before = firsts(place_weighted, volumes(1, 2, 3))
    after = firsts(place_weighted, volumes(1, 2, 1))
    assert {old for old, new in zip(before, after, strict=True) if old != new} == {"v2"}


def test_the_order_of_the_connector_does_not_matter_to_weights() -> None:
    chosen = volumes(1, 2, 3)
    assert firsts(place_weighted, chosen) == firsts(place_weighted, chosen[::-1])


def test_weight_zero_comes_last() -> None:
    assert {place_weighted(signature, volumes(0, 1, 1))[-1] for signature in SIGNATURES[:500]} == {"v0"}


def test_an_unknown_placement_names_those_known() -> None:
    with pytest.raises(UnknownName, match="unknown placement 'random': known are mod, weighted"):
        find_placement("random")
