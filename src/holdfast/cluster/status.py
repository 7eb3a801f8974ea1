"""The table of nodes: what each node reports about itself, joined with what all of them know (B5).

The node's process writes it once a second into `cluster/nodes.json`, from where pages and commands read it.

    down        its lease has ended
    joining     it holds partitions, but has the records of none of them yet
    leaving     it hands over its partitions
    storing     its volumes have grown within the last seconds
    streaming   it reads
    idle        none of these
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import holdfast
from holdfast.archive import Archive
from holdfast.cluster.membership.duty import Duty, Lease
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.membership.service import NatsService
from holdfast.cluster.settings import ClusterSettings
from holdfast.env.paths import NODES
from holdfast.errors import ClusterDown, HoldfastError, NotFound

STALE_S = 10.0  # after which the table counts as old: no process writes it
_VOLUMES_S = 5.0  # between two looks at the volumes
_VOLUME_ANSWER_S = 1.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What a node says about itself."""

    activity: str = "idle"
    capacity_bytes: int = 0
    free_bytes: int = 0
    dead_bytes: int = 0
    outstanding: dict[str, int] = field(default_factory=dict)  # requests by kind
    pages_per_s: float = 0.0  # captures that it records by itself, without copies
    lag_s: float = 0.0  # for how long it has not had all that live members have for it
    is_indexing: bool = False  # its index lacks many of its records: others answer what is asked of an index
    version: str = holdfast.__version__
    pages: str = ""  # URL of its pages
    time_s: float = 0.0  # by its clock

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Values of other releases that are unknown here are left out."""
        values = json.loads(data)
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


class OwnStatus:
    """Looks at this node's volumes now and then. For one thread."""

    def __init__(self, archive: Path) -> None:
        self._path = archive
        self._archive: Archive | None = None
        self._due_s = 0.0
        self._figures: dict[str, Any] = {}
        self._written: int | None = None  # bytes on disk at the last look: the node is the writer all the time

    def look(self, pages: str, more: dict[str, Any]) -> NodeStatus:
        """`more` are figures of this node's services, and override those of the volumes."""
        if time.monotonic() >= self._due_s:
            self._figures = self._volumes()
            self._due_s = time.monotonic() + _VOLUMES_S
        figures = {**self._figures, **more}
        figures["outstanding"] = {**self._figures.get("outstanding", {}), **more.get("outstanding", {})}
        return NodeStatus(**figures, pages=pages, time_s=time.time())

    def _volumes(self) -> dict[str, Any]:
        try:
            if self._archive is None:
                self._archive = Archive(self._path, read_only=True)
            reports = [each for each in self._archive.volumes(_VOLUME_ANSWER_S) if each.stat is not None]
        except (HoldfastError, OSError):
            self.close()
            return {}
        disk = os.statvfs(self._path)
        written = sum(each.stat.disk_bytes for each in reports if each.stat is not None)
        is_storing, self._written = self._written not in (None, written), written
        is_streaming = any(each.activity.state == "streaming" for each in reports)
        return {
            "activity": "storing" if is_storing else "streaming" if is_streaming else "idle",
            "capacity_bytes": disk.f_blocks * disk.f_frsize,
            "free_bytes": disk.f_bavail * disk.f_frsize,
            "dead_bytes": sum(each.stat.dead_bytes for each in reports if each.stat is not None),
            "outstanding": {"volumes": sum(each.activity.outstanding for each in reports)},
        }

    def close(self) -> None:
        archive, self._archive = self._archive, None
        if archive is not None:
            archive.close()


def node_table(
    name: str,
    settings: ClusterSettings,
    service: NatsService,
    members: MemberList,
    duty: Duty | None,
    status_of: Callable[[str], NodeStatus | None],
) -> dict[str, Any]:
    """The whole table, for JSON. `duty` is None while there is no connection to the service."""
    owners = [duty.owner_of(each) if duty is not None else None for each in range(settings.partitions)]
    holders = [members.holders(each, settings.copies) for each in range(settings.partitions)]
    rows = []
    for member in members:
        lease = duty.lease_of(member.name) if duty is not None else None
        status = status_of(member.name)
        held = [number for number, names in enumerate(holders) if member.name in names]
        behind = [number for number in held if lease is None or number not in lease.in_sync]
        figures = asdict(status) if status is not None else {}
        activity, time_s = figures.pop("activity", "idle"), figures.pop("time_s", 0.0)
        rows.append(
            {
                "name": member.name,
                "state": _state(lease, member.state, activity, len(held), len(behind)),
                "address": member.address,
                "weight": member.weight,
                "administrator": member.is_administrator,
                "keeper": service.keeper(member.name) is not None,
                "protocols": list(member.protocols),
                "owned": owners.count(member.name),
                "held": len(held),
                "behind": len(behind),
                "clock_off_s": round(time_s - time.time(), 1) if time_s else None,
                **{each.name: figures.get(each.name) for each in fields(NodeStatus) if each.name in figures},
            }
        )
    return {
        "time": time.time(),
        "node": name,
        "cluster": settings.cluster,
        "connected": duty is not None,
        "incarnation": service.number,
        "epoch": members.epoch,
        "partitions": settings.partitions,
        "owned": sum(each is not None for each in owners),
        "copies": settings.copies,
        "nodes": rows,
    }


def _state(lease: Lease | None, state: str, activity: str, held: int, behind: int) -> str:
    if lease is None or lease.revoked:
        return "down"
    if lease.is_leaving or state == "leaving":
        return "leaving"
    if held and held == behind:
        return "joining"
    return activity


def write_table(directory: Path, table: dict[str, Any]) -> None:
    """Not durable: it is derived."""
    draft = directory / f"{NODES}.open"
    draft.write_text(json.dumps(table))
    os.replace(draft, directory / NODES)


def read_table(directory: Path) -> dict[str, Any]:
    """Raises NotFound if this is not a node, and ClusterDown if its process does not run."""
    try:
        table: dict[str, Any] = json.loads((directory / NODES).read_bytes())
    except FileNotFoundError:
        if not directory.exists():
            raise NotFound(f"'{directory.parent}' is not a node of a cluster") from None
        raise ClusterDown(f"the node in '{directory.parent}' does not run: 'holdfast node run' starts it") from None
    if time.time() - table["time"] > STALE_S:
        raise ClusterDown(f"the node in '{directory.parent}' does not run: 'holdfast node run' starts it")
    return table
