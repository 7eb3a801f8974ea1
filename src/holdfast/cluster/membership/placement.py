"""Which nodes hold a partition: weighted rendezvous hashing (H1, H2, N8).

Every node computes the same holders from the list of members, so a look-up takes no request. When a node joins or
leaves, only the partitions that it holds then, or held before, get another holder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from holdfast.env.rendezvous import score

WEB_PORT = 3  # beyond the port of the node protocol; the NATS server and its routes have those between
PARTITIONS = 1024  # of a new cluster; fixed when it is created


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster. Its weight is its share of the partitions, compared with other members."""

    name: str
    placement_id: bytes
    weight: float = 1.0
    public_key: bytes = b""  # Ed25519, 32 bytes: who it is
    nonce: bytes = b""  # drawn by the cluster when it joined; places it together with the key
    address: str = ""  # "host:port" of its node protocol
    protocols: tuple[int, int] = (1, 1)  # the lowest and the highest version of the node protocol that it speaks
    is_administrator: bool = False  # may issue tokens, remove, forget and rebuild
    state: str = ""  # "lost" or "leaving": holds no partitions, though it is a member

    @property
    def web_address(self) -> str:
        """Where it answers requests that other nodes forward."""
        host, _, port = self.address.rpartition(":")
        return f"{host}:{int(port) + WEB_PORT}"


def partition_of(key: str, partitions: int = PARTITIONS) -> int:
    """The partition of a registered domain, or of a fingerprint where a record has no URL."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % partitions


def placement_id(public_key: bytes, nonce: bytes) -> bytes:
    """What places a node. The nonce is drawn after the key is known: nobody can choose a position (H3)."""
    return blake2b(public_key + nonce, digest_size=16).digest()


def holders(partition: int, members: Iterable[Member], copies: int) -> tuple[str, ...]:
    """The names of the members that hold the partition, the first choice first; fewer if there are fewer members."""
    ranked = sorted(members, key=lambda member: (-score(member.placement_id, partition, member.weight), member.name))
    return tuple(member.name for member in ranked[:copies])
