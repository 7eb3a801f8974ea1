"""Only what must move moves (N8): the holders of all partitions when nodes join, leave and change their weight."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from holdfast.cluster.membership.placement import PARTITIONS, Member, holders, partition_of, placement_id

COPIES = 3
Placed = dict[int, tuple[str, ...]]


def cluster(count: int, seed: int = 1) -> list[Member]:
    random = Random(seed)
    return [Member(f"n{number}", random.randbytes(16), random.choice((1.0, 2.0))) for number in range(count)]


def placed(members: list[Member]) -> Placed:
    return {partition: holders(partition, members, COPIES) for partition in range(PARTITIONS)}


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_joins_is_the_only_one_that_receives(seed: int) -> None:
    members = cluster(6, seed)
    before, after = placed(members[:-1]), placed(members)
    for partition in range(PARTITIONS):
        assert set(after[partition]) - set(before[partition]) <= {"n5"}
    assert any("n5" in after[partition] for partition in range(PARTITIONS))


@pytest.mark.parametrize("seed", range(5))
def test_what_a_lost_node_held_goes_to_one_new_holder_each(seed: int) -> None:
    members = cluster(6, seed)
    before, after = placed(members), placed(members[1:])
    for partition in range(PARTITIONS):
        new = set(after[partition]) - set(before[partition])
        assert len(new) == ("n0" in before[partition])
        assert [each for each in before[partition] if each != "n0"] == list(after[partition])[: COPIES - len(new)]


def test_shares_follow_weights() -> None:
    random = Random(2)
    members = [Member(f"n{number}", random.randbytes(16), 2.0 if number == 0 else 1.0) for number in range(15)]
    first = Counter(holders(partition, members, 1)[0] for partition in range(16 * PARTITIONS))
    fair = 16 * PARTITIONS / 16
    assert 1.8 * fair < first["n0"] < 2.2 * fair
    assert all(0.85 * fair < first[f"n{number}"] < 1.15 * fair for number in range(1, 15))


def test_with_fewer_members_than_copies_all_hold() -> None:
    assert sorted(holders(7, cluster(2), COPIES)) == ["n0", "n1"]
    assert holders(7, [], COPIES) == ()


def test_partitions_and_positions_are_the_same_for_ever() -> None:
    """Golden values: nodes of different releases must agree."""
    assert [partition_of(each) for each in ("example.com", "example.org", "例え.jp")] == [614, 437, 417]
    assert placement_id(b"key", b"nonce").hex() == "bb29d3b92f9095ed4cdba4632952262b"
