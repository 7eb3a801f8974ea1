"""What a node answers to the requests of another node of its cluster, for partitions that the other node names (H8).

    asking node ── operation, partitions, arguments ──▶ shard ──▶ its archive, restricted to these partitions

The asking node decides which node answers for which partition, so that each is answered for once. Nothing is kept
between two requests: a list goes on at a position that is valid at every holder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.archive import Archive
from holdfast.cluster.answers.shard.served_rows import OriginReader, ServedRows
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.env.files import Buffer
from holdfast.errors import ClusterDown, Damaged, MalformedInput
from holdfast.model import RecordId
from holdfast.web.auth.access import Access

ShardResponse = tuple[dict[str, Any], list[Buffer]]
Operation = Callable[["NodeShard", dict[str, Any], frozenset[int]], ShardResponse]


class NodeShard:
    """The part of the archive that is on this node. Any thread may call."""

    def __init__(self, archive: Archive, access: Access, rule: Callable[[], PartitionRule]) -> None:
        """`rule` gives the present rule of partitions: domains may be split at any time."""
        self.archive = archive
        self.access = access
        self._rule = rule
        self._lock = threading.Lock()
        self._origins: OriginReader | None = None

    @property
    def rule(self) -> PartitionRule:
        return self._rule()

    @property
    def origins(self) -> OriginReader:
        """Opened when it is first needed: the node's process makes it. Raises ClusterDown if it has not yet."""
        with self._lock:
            if self._origins is None:
                try:
                    self._origins = OriginReader(self.archive, self.rule)
                except Damaged as error:
                    raise ClusterDown(f"this node does not know its records yet: {error}") from None
            self._origins.rule = self.rule
            self._origins.refresh()
            return self._origins

    def rows(self, partitions: frozenset[int], batch: str | None = None) -> ServedRows:
        """The captures of these partitions, under the ids of their origins; of one origin batch, if it is named."""
        return ServedRows(self.archive.catalog.rows, self.origins, partitions, batch)

    def local(self, origin: RecordId) -> RecordId | None:
        """The id here of a record; None if it is not here."""
        found = self.origins.find(origin)
        return found.record if found is not None else None

    def close(self) -> None:
        with self._lock:
            if self._origins is not None:
                self._origins.close()
                self._origins = None


def answer(
    shard: NodeShard, operations: Mapping[str, Operation], name: str, head: dict[str, Any], partitions: frozenset[int]
) -> ShardResponse:
    """Runs an operation. Raises MalformedInput for what is none, or is asked in a wrong way."""
    operation = operations.get(name)
    if operation is None:
        raise MalformedInput(f"unknown operation {name!r}: is the other node of a later release?")
    try:
        return operation(shard, head, partitions)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedInput(f"operation {name!r} was asked in a wrong way: {error!r}") from error
