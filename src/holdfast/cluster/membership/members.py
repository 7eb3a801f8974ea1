"""The members of the cluster: one value in the shared store, changed by compare-and-swap, the same for all who know it.

    {"epoch": 7, "members": [{"name": "n1", "key": <hex>, "nonce": <hex>, "weight": 1.0, "address": "host:port",
                              "protocols": [1, 1], "administrator": true, "state": ""}, ...],
     "splits": {"example.com": 16}, "split_epoch": 6}

A member's position is not stored: it follows from its key and nonce, so nobody can choose it (H3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from holdfast.cluster.membership.placement import Member, holders, placement_id
from holdfast.errors import UnknownName, UsageError

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")  # of a node: a part of subjects, batch names and hosts


@dataclass(frozen=True, slots=True)
class MemberList:
    """The members of one epoch. Each change makes the next epoch."""

    epoch: int = 0
    members: tuple[Member, ...] = ()
    splits: Mapping[str, int] = field(default_factory=dict)  # huge domains, and how many parts each has; 1: once split
    split_epoch: int = 0  # in which they changed last: what was in sync before may not be

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def find(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    def get(self, name: str) -> Member:
        """Raises UnknownName."""
        member = self.find(name)
        if member is None:
            known = ", ".join(each.name for each in self.members) or "none"
            raise UnknownName(f"no node '{name}' in the cluster; known: {known}")
        return member

    def with_member(self, member: Member) -> Self:
        """The next epoch, in which the member is added, or replaces the one of its name."""
        others = [each for each in self.members if each.name != member.name]
        ordered = sorted([*others, member], key=lambda each: each.name)
        return replace(self, epoch=self.epoch + 1, members=tuple(ordered))

    def without(self, name: str) -> Self:
        """The next epoch, without this member."""
        return replace(self, epoch=self.epoch + 1, members=tuple(each for each in self.members if each.name != name))

    def with_split(self, domain: str, parts: int) -> Self:
        """The next epoch, in which a domain has so many parts; 1: it is whole."""
        if self.splits.get(domain, 1) == parts:
            return self
        return replace(self, epoch=self.epoch + 1, splits={**self.splits, domain: parts}, split_epoch=self.epoch + 1)

    def holders(self, partition: int, copies: int) -> tuple[str, ...]:
        """The members that hold a partition, the first choice first. Those that are lost or leave hold none."""
        return holders(partition, [each for each in self.members if not each.state], copies)

    def held_by(self, name: str, partitions: int, copies: int) -> frozenset[int]:
        """The partitions that a member holds."""
        return frozenset(each for each in range(partitions) if name in self.holders(each, copies))

    @property
    def protocol(self) -> int:
        """The highest version that all members speak; 0 without members. Raises UsageError if there is none."""
        if not self.members:
            return 0
        lowest, highest = max(each.protocols[0] for each in self), min(each.protocols[1] for each in self)
        if lowest > highest:
            raise UsageError(f"no common protocol: a member needs {lowest}, another speaks up to {highest}")
        return highest

    def to_json(self) -> bytes:
        values = [
            {
                "name": each.name,
                "key": each.public_key.hex(),
                "nonce": each.nonce.hex(),
                "weight": each.weight,
                "address": each.address,
                "protocols": list(each.protocols),
                "administrator": each.is_administrator,
                "state": each.state,
            }
            for each in self.members
        ]
        found: dict[str, Any] = {"epoch": self.epoch, "members": values}
        if self.split_epoch:
            found |= {"splits": dict(self.splits), "split_epoch": self.split_epoch}
        return json.dumps(found, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Raises UsageError."""
        try:
            value = json.loads(data)
            splits = {str(domain): int(parts) for domain, parts in value.get("splits", {}).items()}
            members = tuple(_member(each) for each in value["members"])
            return cls(int(value["epoch"]), members, splits, int(value.get("split_epoch", 0)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"not a list of members: {data[:80]!r}") from error


def _member(value: dict[str, Any]) -> Member:
    key, nonce = bytes.fromhex(value["key"]), bytes.fromhex(value["nonce"])
    lowest, highest = value["protocols"]
    return Member(
        name=str(value["name"]),
        placement_id=placement_id(key, nonce),
        weight=float(value["weight"]),
        public_key=key,
        nonce=nonce,
        address=str(value["address"]),
        protocols=(int(lowest), int(highest)),
        is_administrator=bool(value["administrator"]),
        state=str(value["state"]),
    )
