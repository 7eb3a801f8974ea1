"""Settings and members of a cluster: the same on every node, whatever was written is read, and nothing else is (H3)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.cluster.membership.members import NAME, MemberList
from holdfast.cluster.membership.placement import Member, placement_id
from holdfast.cluster.settings import PROTOCOLS, ClusterSettings
from holdfast.errors import FormatTooNew, UnknownName, UsageError

SETTINGS = ClusterSettings("c1", partitions=16, copies=3, lease_s=1.0)


def member(name: str, protocols: tuple[int, int] = (1, 1)) -> Member:
    key, nonce = name.encode().ljust(32, b"k"), b"n" * 16
    return Member(name, placement_id(key, nonce), 2.0, key, nonce, "127.0.0.1:4000", protocols, is_administrator=True)


def test_settings_are_read_as_they_were_written() -> None:
    assert ClusterSettings.from_json(SETTINGS.to_json()) == SETTINGS


@pytest.mark.parametrize("changed", [{"copies": 0}, {"ack_copies": 4}, {"partitions": 0}, {"lease_s": 0.1}, {"x": 1}])
def test_settings_out_of_bounds_are_refused(changed: dict[str, float]) -> None:
    values = json.loads(SETTINGS.to_json()) | changed
    with pytest.raises(UsageError):
        ClusterSettings.from_json(json.dumps(values).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"protocol": 1}'])
def test_what_is_not_settings_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError):
        ClusterSettings.from_json(data)


def test_settings_of_a_later_protocol_name_the_repair() -> None:
    values = json.loads(SETTINGS.to_json()) | {"protocol": PROTOCOLS[1] + 1, "new": True}
    with pytest.raises(FormatTooNew, match="install a later release"):
        ClusterSettings.from_json(json.dumps(values).encode())


def test_members_are_read_as_they_were_written() -> None:
    members = MemberList().with_member(member("n2")).with_member(member("n1"))
    again = MemberList.from_json(members.to_json())
    assert again == members
    assert (again.epoch, [each.name for each in again]) == (2, ["n1", "n2"])


def test_a_position_cannot_be_written_into_the_list() -> None:
    values = json.loads(MemberList().with_member(member("n1")).to_json())
    values["members"][0]["placement_id"] = "00" * 16
    read = MemberList.from_json(json.dumps(values).encode())
    assert read.get("n1").placement_id == member("n1").placement_id


def test_members_join_change_and_leave() -> None:
    members = MemberList().with_member(member("n1")).with_member(member("n2"))
    members = members.with_member(replace(members.get("n1"), weight=5.0)).without("n2")
    assert (members.epoch, len(members), members.get("n1").weight) == (4, 1, 5.0)
    with pytest.raises(UnknownName, match="known: n1"):
        members.get("n2")


def test_the_cluster_speaks_the_highest_common_protocol() -> None:
    members = MemberList(1, (member("n1", (1, 3)), member("n2", (2, 5))))
    assert members.protocol == 3
    with pytest.raises(UsageError, match="no common protocol"):
        _ = members.with_member(member("n3", (4, 5))).protocol


@pytest.mark.parametrize("data", [b"", b"{}", b'{"epoch": 1, "members": [{}]}', b'{"epoch": 1, "members": 3}'])
def test_what_is_not_a_list_of_members_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError):
        MemberList.from_json(data)


def test_names_of_nodes() -> None:
    assert all(NAME.fullmatch(each) for each in ("n1", "a", "ren-2", "0"))
    assert not any(NAME.fullmatch(each) for each in ("", "N1", "a.b", "-a", "a-", "a b", "ä", "a" * 33))
