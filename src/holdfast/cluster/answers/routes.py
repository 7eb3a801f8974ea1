"""Which node serves a URL: a table that the node process writes for its web workers, and the router that they use.

    partition of the URL ──▶ its holders, by the members ──▶ those that are alive and in sync, first choice first

The file `cluster/routes` is derived and replaced as a whole. It states when the node last heard from the cluster: a
node that has been cut off for a minute may lack removals, and serves nothing (N2).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Self, cast

from holdfast.archive import Archive
from holdfast.cluster.answers.scatter import APP
from holdfast.cluster.answers.shard.app import ShardApp
from holdfast.cluster.answers.shard.shard import NodeShard
from holdfast.cluster.answers.whole_archive import NodeAnswers, WholeArchive
from holdfast.cluster.copies.partitions import PartitionRule, pack_partitions, unpack_partitions
from holdfast.cluster.copies.write_socket import NodeWriter, is_safe, looks
from holdfast.cluster.directory import NodeDirectory
from holdfast.cluster.membership.agent import boot_time_s
from holdfast.cluster.membership.identity import key_of
from holdfast.cluster.membership.members import MemberList
from holdfast.env.paths import CLUSTER
from holdfast.errors import ClusterDown, HoldfastError, NotAMember
from holdfast.model import RecordId
from holdfast.web.answers import Answers
from holdfast.web.auth.access import Access
from holdfast.web.context import WebContext
from holdfast.web.forward import HERE
from holdfast.web.server.host_names import AnyApp

log = logging.getLogger("holdfast.cluster")

FILE = "routes"
CUT_OFF_S = 60.0  # without news from the cluster, until this node serves nothing
_LOOK_S = 0.2  # between two looks at the file
_ROUTES_KEPT = 4096


@dataclass(frozen=True, slots=True)
class RouteTable:
    """What the routes of one moment follow from."""

    node: str
    members: MemberList
    rule: PartitionRule
    copies: int
    live: Mapping[str, frozenset[int]]  # nodes that are alive, and the partitions in which each is in sync
    heard_s: float  # when this node last heard from the cluster, by `boot_time_s`
    indexing: frozenset[str] = frozenset()  # nodes whose index lacks many of their records

    def serving(self, partition: int, *, by_index: bool = False) -> list[str]:
        """The nodes that can answer for a partition, the first choice first; those in sync before others.

        With `by_index`, of those in sync the ones whose index has almost all come first.
        """
        alive = [name for name in self.members.holders(partition, self.copies) if name in self.live]
        return sorted(alive, key=lambda name: (partition not in self.live[name], by_index and name in self.indexing))

    def write(self, directory: Path) -> None:
        value = {
            "node": self.node,
            "members": json.loads(self.members.to_json()),
            "partitions": self.rule.partitions,
            "splits": dict(self.rule.splits),
            "copies": self.copies,
            "live": {name: pack_partitions(in_sync, self.rule.partitions).hex() for name, in_sync in self.live.items()},
            "heard_s": self.heard_s,
            "indexing": sorted(self.indexing),
        }
        draft = directory / f"{FILE}.new"
        draft.write_bytes(json.dumps(value).encode())
        draft.replace(directory / FILE)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Raises OSError if there is none, and ValueError or KeyError for anything else."""
        value = json.loads((directory / FILE).read_bytes())
        partitions = int(value["partitions"])
        return cls(
            node=value["node"],
            members=MemberList.from_json(json.dumps(value["members"]).encode()),
            rule=PartitionRule(partitions, value["splits"]),
            copies=int(value["copies"]),
            live={name: unpack_partitions(bytes.fromhex(bits), partitions) for name, bits in value["live"].items()},
            heard_s=float(value["heard_s"]),
            indexing=frozenset(value.get("indexing", ())),
        )


@dataclass(slots=True)
class ClusterRouter:
    """The router of a node's web workers (`holdfast.web.forward.Router`)."""

    archive: Path
    _table: RouteTable | None = field(default=None, repr=False)
    _routes: dict[int, list[str]] = field(default_factory=dict, repr=False)
    _seen: tuple[int, int] = (0, 0)  # inode and time of the file
    _look_after_s: float = 0.0
    _shard: NodeShard | None = field(default=None, repr=False)
    _contexts: list[ssl.SSLContext] = field(default_factory=list, repr=False)
    _renewed: ssl.SSLContext | None = field(default=None, repr=False)  # of servers, with the present certificate
    _certificate_seen: tuple[int, int] = (0, 0)  # inode and time of the file

    def __reduce__(self) -> tuple[type[ClusterRouter], tuple[Path]]:
        return ClusterRouter, (self.archive,)

    def route(self, url: str) -> Sequence[str]:
        table = self._current()
        partition = table.rule.of_url(url)
        if partition is None:
            return (HERE,)
        if table.rule.is_split(url) and all(partition not in in_sync for in_sync in table.live.values()):
            raise ClusterDown(f"the captures of '{url[:200]}' are being moved: its domain was split otherwise")
        route = self._routes.get(partition)
        if route is None:
            members = {member.name: member for member in table.members}
            names = table.serving(partition)
            route = [HERE if name == table.node else members[name].web_address for name in names]
            self._routes[partition] = route
        if not route:
            held = ", ".join(table.members.holders(partition, table.copies))
            raise ClusterDown(f"no node that holds '{url[:200]}' is alive: {held}")
        return route

    def table(self) -> RouteTable:
        """What the node knows now. Raises ClusterDown if it has not heard from its cluster yet."""
        return self._current()

    def require_current(self) -> None:
        silence_s = boot_time_s() - self._current().heard_s
        if silence_s > CUT_OFF_S:
            raise ClusterDown(f"this node has been cut off from the cluster for {silence_s:.0f} s")

    def require_member(self, certificate: bytes | None) -> None:
        key = _key_of(certificate) if certificate else b""
        if not key or all(member.public_key != key for member in self._current().members):
            raise NotAMember("the certificate is not that of a member of this cluster")

    def answers(self, site: WebContext) -> tuple[Answers, Answers]:
        self._shard = NodeShard(site.archive, site.access, self.rule)
        return WholeArchive(self._shard, self, is_public=True), NodeAnswers(self._shard)

    def open_whole(self) -> WholeArchive:
        """The archive of all nodes, for a process of this machine that is no web worker. Access rules do not apply."""
        archive = Archive(self.archive, read_only=True)
        try:
            return WholeArchive(NodeShard(archive, Access(), self.rule), self, is_public=False)
        except BaseException:
            archive.close()
            raise

    def peer_apps(self) -> Mapping[str, Callable[[WebContext], AnyApp]]:
        shard = self._shard
        assert shard is not None, "`answers` comes first"
        return {APP: lambda _site: ShardApp(shard)}

    def rule(self) -> PartitionRule:
        """The present rule of partitions. Before the routes are there, no domain is known to be split."""
        try:
            return self._current().rule
        except ClusterDown:
            return PartitionRule(NodeDirectory.of_member(self.archive).settings().partitions)

    def open_for_writing(self, path: Path) -> Archive:
        return cast("Archive", NodeWriter(path))  # a web worker only adds drafts

    async def is_safe(self, record: RecordId, timeout_s: float) -> bool:
        for pause_s, look_s in looks(timeout_s):
            await asyncio.sleep(pause_s)
            if await asyncio.to_thread(is_safe, self.archive, [record], look_s):
                return True
        return False

    @property
    def peer_name(self) -> str:
        return NodeDirectory.of_member(self.archive).identity().peer_name

    def server_context(self) -> ssl.SSLContext:
        context = self._following(NodeDirectory.of_member(self.archive).identity().server_context())
        context.sni_callback = self._on_hello
        return context

    def client_context(self) -> ssl.SSLContext:
        return self._following(NodeDirectory.of_member(self.archive).identity().client_context())

    def _following(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """The context, which from now on shows the certificate that the node has: the node process renews it."""
        self._contexts.append(context)
        return context

    def _on_hello(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """A node connects: perhaps the first one since the certificate was renewed."""
        self._show_certificate()
        if self._renewed is not None:
            connection.context = self._renewed  # what the context shows was decided before this call

    def _show_certificate(self) -> None:
        directory = NodeDirectory(self.archive)
        try:
            found = os.stat(directory.certificate_path)
            seen = found.st_ino, found.st_mtime_ns
            if seen != self._certificate_seen:
                identity = directory.identity()
                for context in self._contexts:
                    identity.show_in(context)
                self._renewed, self._certificate_seen = identity.server_context(), seen
        except (OSError, HoldfastError) as error:  # being replaced, or damaged: the old one is shown
            log.warning("the certificate in '%s' cannot be read: %s", directory.path, error)

    def _current(self) -> RouteTable:
        """The table as the node process wrote it last. Raises ClusterDown if there is none."""
        now_s = boot_time_s()
        if self._table is None or now_s >= self._look_after_s:
            self._look_after_s = now_s + _LOOK_S
            self._reload()
            if self._contexts:
                self._show_certificate()
        if self._table is None:
            raise ClusterDown("this node has not heard from its cluster yet")
        return self._table

    def _reload(self) -> None:
        directory = self.archive / CLUSTER
        try:
            found = os.stat(directory / FILE)
            seen = found.st_ino, found.st_mtime_ns
            if seen != self._seen:
                self._table, self._routes, self._seen = RouteTable.read(directory), {}, seen
        except (OSError, ValueError, KeyError):  # being replaced; the old one says when it was written
            return


_key_of = lru_cache(_ROUTES_KEPT)(key_of)
