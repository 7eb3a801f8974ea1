"""Nodes of a cluster in this process: real archives, copies and TLS; members and leases are plain values."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import holdfast
from holdfast import Archive, Plan
from holdfast.archive.ingest.exchange import Exchange
from holdfast.cluster.copies.service import Copies, CopyLinks, CopyOptions
from holdfast.cluster.membership.authority import Authority
from holdfast.cluster.membership.identity import MemberIdentity
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.membership.nkeys import KeyPair
from holdfast.cluster.membership.placement import Member, placement_id
from holdfast.cluster.settings import ClusterSettings
from holdfast.config import RecordSettings, StoreSettings

_CLUSTER = "bench"
DEFAULTS = CopyOptions()
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
_WORDS = [f"word{number}" for number in range(4000)]
LOOK_S = 0.1
_PATIENCE_S = 3600.0


class MemoryLog:
    """A log of removals that the nodes share."""

    def __init__(self) -> None:
        self._entries: list[bytes] = []

    def append(self, entry: bytes) -> int:
        self._entries.append(entry)
        return len(self._entries)

    def read_after(self, number: int) -> Sequence[tuple[int, bytes]]:
        return list(enumerate(self._entries[number:], number + 1))


class RigNode:
    """A node that listens; it pulls and answers once the rig has started it."""

    def __init__(self, rig: Rig, name: str, path: Path) -> None:
        self.name = name
        self.key = KeyPair.generate()
        certificate = rig.authority.certificate(rig.trust, self.key.public, name, "127.0.0.1")
        self.identity = MemberIdentity(name, self.key, certificate, "", rig.trust)
        if not path.exists():
            holdfast.init(path, Plan(records=RecordSettings(node=name), store=StoreSettings(train_after=0)))
        self.archive: Archive = holdfast.open(path)
        client = self.identity.client_context()
        client.check_hostname = False
        links = CopyLinks(
            name,
            self.identity.server_context(),
            client,
            lambda: rig.members,
            lambda: frozenset(rig.alive),
            lambda _: rig.wake(),
            rig.log,
        )
        self.client_tls = client
        self.copies = Copies(self.archive, rig.settings, links, rig.options)

    def member(self, address: str = "") -> Member:
        nonce = self.name.encode()
        where = address or f"127.0.0.1:{self.copies.port}"
        return Member(
            self.name, placement_id(self.key.public, nonce), public_key=self.key.public, nonce=nonce, address=where
        )

    def received(self) -> int:
        """Bytes of entries and blocks."""
        counts = self.copies.counts()["copies"]
        return int(counts["block_bytes"] + counts["entry_bytes"])


class Rig:
    """Nodes by name."""

    def __init__(self, root: Path, copies: int, options: CopyOptions = DEFAULTS) -> None:
        self.authority = Authority.generate()
        self.trust = self.authority.found(_CLUSTER)
        self.settings = ClusterSettings(_CLUSTER, copies=copies, ack_copies=min(2, copies))
        self.options = replace(options, look_s=LOOK_S)
        self.members = MemberList()
        self.alive: set[str] = set()
        self.nodes: dict[str, RigNode] = {}
        self.log = MemoryLog()
        self._root = root

    def join(self, *names: str) -> None:
        """All in one epoch; each begins when all are members."""
        made = self.members
        for name in names:
            node = self.nodes[name] = RigNode(self, name, self._root / name)
            made = made.with_member(node.member())
        self.members = replace(made, epoch=self.members.epoch + 1)
        for name in names:
            self.nodes[name].copies.start()
            self.alive.add(name)
        self.wake()

    def lose(self, name: str) -> None:
        """The node is gone and forgotten."""
        self.alive.discard(name)
        node = self.nodes.pop(name)
        node.copies.stop()
        node.archive.close()
        self.members = self.members.without(name)
        self.wake()

    def wake(self) -> None:
        for node in list(self.nodes.values()):
            node.copies.wake()

    def settle(self) -> None:
        """Waits until all nodes have what they hold."""
        wait_until(self.is_settled)

    def is_settled(self) -> bool:
        nodes = list(self.nodes.values())
        if not all(node.copies.in_sync() == node.copies.held() for node in nodes):
            return False
        digests = {node.name: node.copies.origins.held() for node in nodes}
        for partition in range(self.settings.partitions):
            found = {digests[name].get(partition) for name in nodes[0].copies.holders.of(partition)}
            if len(found) > 1:
                return False
        return True

    def close(self) -> None:
        for node in self.nodes.values():
            node.copies.stop()
        for node in self.nodes.values():
            node.archive.close()


@contextmanager
def rig_of(root: Path, copies: int, *names: str, options: CopyOptions = DEFAULTS) -> Iterator[Rig]:
    rig = Rig(root, copies, options)
    try:
        rig.join(*names)
        yield rig
    finally:
        rig.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + _PATIENCE_S
    never = threading.Event()
    while not is_so():
        if time.monotonic() > end_s:
            raise TimeoutError("the nodes of the benchmark do not come to an end")
        never.wait(LOOK_S)


def pages(count: int, seed: int, words: int = 400) -> list[Exchange]:
    """Pages of words, each of another site of 500, with a request."""
    random = Random(seed)
    return [
        Exchange(
            f"http://www.site{random.randrange(500)}.example/{seed}/{number}",
            _HEAD,
            " ".join(random.choices(_WORDS, k=words)).encode(),
            "20260101000000",
            b"GET / HTTP/1.1\r\nHost: www.example\r\n\r\n",
        )
        for number in range(count)
    ]


def bare_pages(count: int, seed: int) -> list[Exchange]:
    """Small pages without requests, quickly made; no two of them are the same."""
    return [
        Exchange(
            f"http://www.site{(seed + number) % 5000}.example/{seed}/{number}",
            _HEAD,
            b"page %d of %d" % (number, seed),
            "20260101000000",
            b"",
        )
        for number in range(count)
    ]
