"""Several nodes in one process, over real mutual TLS on loopback, with a durable file for the log of removals."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from copy_world import digests_of, entries_of, make_node
from node_keys import NodeAuthority
from waiting import wait_until

import holdfast
from holdfast import Archive
from holdfast.cluster.copies.service import Copies, CopyLinks, CopyOptions
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.settings import ClusterSettings
from holdfast.errors import ClusterDown
from holdfast.model import RecordId

PARTITIONS = 64


class FileRemovalLog:
    """A log that the nodes of a test share: one line for each entry."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.is_down = False
        path.touch()

    def append(self, entry: bytes) -> int:
        self._require_up()
        with self._lock, self._path.open("ab") as file:
            file.write(base64.b64encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())
            return self._path.read_bytes().count(b"\n")

    def read_after(self, number: int) -> Sequence[tuple[int, bytes]]:
        self._require_up()
        lines = self._path.read_bytes().split(b"\n")[:-1]
        return [(at, base64.b64decode(line)) for at, line in enumerate(lines, 1) if at > number]

    def _require_up(self) -> None:
        if self.is_down:
            raise ClusterDown("the log of removals does not respond")


class Node:
    """A node that can be stopped and started again."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.path = make_node(cluster.root, name, cluster.keep, train_after=cluster.train_after)
        self.log = FileRemovalLog(cluster.root / "removals")
        self.archive: Archive
        self.copies: Copies

    def start(self) -> None:
        cluster, name = self.cluster, self.name
        self.archive = holdfast.open(self.path)
        links = CopyLinks(
            name,
            cluster.authority.server_tls(name),
            cluster.authority.client_tls(name),
            lambda: cluster.members,
            lambda: frozenset(cluster.alive),
            lambda _: cluster.wake(name),
            self.log,
        )
        self.copies = Copies(self.archive, cluster.settings, links, cluster.options)

    def add(self, pages: Sequence[holdfast.Exchange]) -> list[RecordId]:
        return [each.record for each in self.archive.add(pages) if each.record is not None]


class Cluster:
    """Nodes by name. Members and leases are plain values here."""

    def __init__(
        self,
        root: Path,
        copies: int = 3,
        ack_copies: int = 2,
        train_after: int = 20,
        keep: str = "all",
        **options: Any,
    ) -> None:
        self.root = root
        self.keep = keep
        self.train_after = train_after
        self.authority = NodeAuthority(root / "keys")
        self.settings = ClusterSettings("c1", PARTITIONS, copies, ack_copies)
        self.options = CopyOptions(**{"look_s": 0.05, "repair_bytes_s": 0, **options})
        self.nodes: dict[str, Node] = {}
        self.members = MemberList()
        self.alive: set[str] = set()

    def join(self, *names: str, weight: float = 1.0, start: bool = True) -> None:
        """New nodes, in one epoch; without `start` they are members, and not there yet."""
        made = self.members
        for name in names:
            self.nodes[name] = node = Node(self, name)
            member = self.authority.issue(name, nonce=name.encode(), weight=weight)
            node.start()
            made = made.with_member(replace(member, address=f"127.0.0.1:{node.copies.port}"))
        self.members = MemberList(self.members.epoch + 1, made.members)
        if start:
            self.begin(*names)

    def prepare(self, name: str, address: str) -> None:
        """A new member that another process runs first."""
        self.nodes[name] = Node(self, name)
        member = self.authority.issue(name, nonce=name.encode(), address=address)
        self.members = self.members.with_member(member)

    def begin(self, *names: str) -> None:
        for name in names:
            self.nodes[name].copies.start()
            self.alive.add(name)
        self.wake()

    def stop(self, name: str) -> None:
        """As a process that ends: its lease, too."""
        self.alive.discard(name)
        self.nodes[name].copies.stop()
        self.nodes[name].archive.close()

    def start(self, name: str) -> None:
        node = self.nodes[name]
        node.start()
        member = replace(self.members.get(name), address=f"127.0.0.1:{node.copies.port}")
        others = tuple(member if each.name == name else each for each in self.members)
        self.members = MemberList(self.members.epoch, others)
        node.copies.start()
        self.alive.add(name)
        self.wake()

    def destroy(self, name: str) -> None:
        """The machine is gone, with its disk."""
        if name in self.alive:
            self.stop(name)
        rmtree(self.nodes.pop(name).path)

    def forget(self, name: str) -> None:
        """The next epoch, without a node."""
        self.members = self.members.without(name)
        self.wake()

    def wake(self, but: str = "") -> None:
        for name in list(self.alive):
            if name != but and name in self.nodes:
                self.nodes[name].copies.wake()

    # -- what must be so ----------------------------------------------------------------------------------------

    def live(self) -> list[Node]:
        return [self.nodes[name] for name in sorted(self.alive)]

    def settle(self) -> None:
        """Waits until all nodes have what they hold."""
        self.wake()
        wait_until(self._is_settled, "all holders have the same records")

    def _is_settled(self) -> bool:
        if not all(node.copies.in_sync() == node.copies.held() for node in self.live()):
            return False
        return not self.differences()

    def differences(self) -> list[str]:
        """What one node has of a partition, and one of its live holders has not."""
        found = []
        tables: dict[str, dict[int, set[tuple[RecordId, bytes]]]] = {}
        for node in self.live():
            node.copies.origins.catch_up()
            rows: dict[int, set[tuple[RecordId, bytes]]] = {}
            for batch in node.copies.origins.batches():
                for row in node.copies.origins.rows(batch):
                    rows.setdefault(row.partition, set()).add((row.origin, row.fingerprint))
            tables[node.name] = rows
        for partition in range(PARTITIONS):
            everything = set().union(*(rows.get(partition, set()) for rows in tables.values()))
            for name in self.nodes[next(iter(self.alive))].copies.holders.of(partition):
                lacking = everything - tables.get(name, {}).get(partition, set()) if name in tables else set()
                if lacking:
                    found.append(f"{name} lacks {len(lacking)} of {partition}")
        return found

    def check_digests(self) -> None:
        """Digests are those of the rows, and holders agree."""
        found = {node.name: digests_of(node.copies.origins) for node in self.live()}
        for partition in range(PARTITIONS):
            names = [each for each in self.live()[0].copies.holders.of(partition) if each in found]
            held = [{place: each for place, each in found[name].items() if place[0] == partition} for name in names]
            assert all(each == held[0] for each in held), partition

    def close(self) -> None:
        for name in list(self.alive):
            self.stop(name)


@contextmanager
def cluster_of(root: Path, *names: str, **options: Any) -> Iterator[Cluster]:
    cluster = Cluster(root, **options)
    try:
        cluster.join(*names)
        yield cluster
    finally:
        cluster.close()


def bytes_of(archive: Archive, record: RecordId) -> bytes:
    return b"".join(archive.records.read(record).raw())


def all_bytes(archive: Archive) -> dict[RecordId, bytes]:
    """Every record that a node recorded itself."""
    return {
        record: bytes_of(archive, record)
        for batch in archive.journal.names()
        for record, entry in entries_of(archive, batch)
        if entry.origin == "-"
    }
