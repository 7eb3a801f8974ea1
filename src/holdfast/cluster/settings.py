"""What all nodes of a cluster have in common, fixed when it is created: fingerprints and placement depend on it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Self

from holdfast.arguments import check_fields
from holdfast.cluster.membership.duty import LEASE_S
from holdfast.cluster.membership.placement import PARTITIONS
from holdfast.errors import FormatTooNew, UsageError
from holdfast.records.draft import INLINE_BYTES_MAX, PIECE_BYTES_MAX

PROTOCOLS = (1, 1)  # the lowest and the highest version of the node protocol that this release speaks
COPIES = 3
_PARTITIONS_MAX = 65536
_COPIES_MAX = 16
_LEASE_MIN_S = 0.3


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The same on every node: one key in the shared store, and a file in each node's directory."""

    cluster: str  # random id
    partitions: int = PARTITIONS
    copies: int = COPIES  # of every record, on distinct nodes
    ack_copies: int = 2  # a capture is safe once so many nodes have it
    signature: str = "sha256"  # of contents
    lease_s: float = LEASE_S  # a node that does not renew for so long loses its right to fetch
    lost_after_s: float = 3600.0  # a node that is away for so long is taken for lost: its records are copied again
    inline_bytes_max: int = INLINE_BYTES_MAX  # smaller payloads stay in their record
    piece_bytes_max: int = PIECE_BYTES_MAX  # larger payloads are cut into pieces
    protocol: int = PROTOCOLS[0]  # of this value; members state which they speak

    def __post_init__(self) -> None:
        check_fields(self)
        for name, least, most in (
            ("partitions", 1, _PARTITIONS_MAX),
            ("copies", 1, _COPIES_MAX),
            ("ack_copies", 1, self.copies),
            ("lease_s", _LEASE_MIN_S, 3600.0),
            ("lost_after_s", self.lease_s, float("inf")),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise UsageError(f"bad {name} {value} of a cluster: {least} to {most}")

    def to_json(self) -> bytes:
        """The same bytes for equal settings."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Raises FormatTooNew for settings of a later protocol, and UsageError for what is no such value."""
        try:
            values = json.loads(data)
            protocol = values["protocol"]
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"not the settings of a cluster: {data[:80]!r}") from error
        if isinstance(protocol, int) and protocol > PROTOCOLS[1]:
            raise FormatTooNew(
                f"the cluster speaks protocol {protocol}, this release up to {PROTOCOLS[1]}: install a later release"
            )
        known = {each.name for each in fields(cls)}
        if set(values) != known:
            raise UsageError(f"not the settings of a cluster: {sorted(set(values) ^ known)} missing or unknown")
        return cls(**values)
