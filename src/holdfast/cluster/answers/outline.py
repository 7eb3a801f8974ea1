"""What all nodes hold, from hosts down to pages (P, H8): `holdfast.catalog.outline` over the captures of every node.

    asked node   one part of a listing ──▶ nodes that hold it ──▶ merged by place, up to where the first of them stopped
    each node    the same part of its partitions ──▶ entries, and where it stopped

A host is on one node, unless its domain is split: then an entry is the sum of its parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from holdfast.catalog.keys import encoded
from holdfast.catalog.outline import (
    COUNTED_MAX,
    ChildKind,
    Extent,
    HostEntry,
    Listing,
    Outline,
    OutlineChild,
    Types,
    host_prefix,
)
from holdfast.cluster.answers.captures import packed_capture, unpacked_capture
from holdfast.cluster.answers.scatter import Scatter
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse
from holdfast.model import Capture, Coverage

ENTRIES_MAX = 1000  # in one response
Entry = TypeVar("Entry")
Counted = TypeVar("Counted", HostEntry, OutlineChild)


# -- at each node -----------------------------------------------------------------------------------------------------


def answer_hosts(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """Hosts, by their keys."""
    about = {"after": head["after"], "limit": _limit(head), "containing": head["containing"]}
    found = _outline(shard, head, partitions).hosts(head["collection"], **about)
    packed = [[each.key, each.host, *_packed(each)] for each in found.entries]
    return {"entries": packed, "next": found.next}, []


def answer_children(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """What is directly below a path."""
    where = head["collection"], head["host"], head["path"]
    found = _outline(shard, head, partitions).children(*where, after=head["after"], limit=_limit(head))
    packed = [[each.name, each.kind.value, each.path, *_packed(each)] for each in found.entries]
    return {"entries": packed, "next": found.next}, []


def answer_types(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """Types of captures below a path."""
    found = _outline(shard, head, partitions).types(head["collection"], head["host"], head["path"])
    return {"counts": found.counts, "looked": found.looked, "is_whole": found.is_whole}, []


def answer_of_type(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The newest captures of one type below a path."""
    where = head["collection"], head["host"], head["path"], head["mime"]
    found = _outline(shard, head, partitions).of_type(*where, after=head["after"], limit=_limit(head))
    return {"entries": list(map(packed_capture, found.entries)), "next": found.next}, []


def _outline(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> Outline:
    permits = shard.access.permits if head["is_public"] and not shard.access.is_open else None
    return Outline(shard.rows(partitions), permits)


def _limit(head: dict[str, Any]) -> int:
    return min(int(head["limit"]), ENTRIES_MAX)


def _packed(entry: HostEntry | OutlineChild) -> list[Any]:
    extent = entry.extent
    return [[extent.captures, extent.is_whole, extent.first, extent.last], packed_capture(entry.capture)]


# -- at the node that was asked ---------------------------------------------------------------------------------------


class ClusterOutline(Outline):
    """The outline of all nodes. With `is_public`, each applies its access rules."""

    def __init__(self, scatter: Scatter, *, is_public: bool) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self._scatter = scatter
        self._is_public = is_public
        self.coverage: Coverage = Coverage(scatter.router.table().rule.partitions)

    def hosts(
        self, collection: str | None, *, after: str = "", limit: int = 50, containing: str = ""
    ) -> Listing[HostEntry]:
        """As `Outline.hosts`. Raises ClusterDown if this node is cut off."""
        about = {"collection": collection, "after": after, "limit": limit, "containing": containing}
        parts = [_listing(each, _host) for each in self._asked("hosts", about, None)]
        return _joined(parts, limit, lambda entry: entry.place, _summed)

    def children(
        self, collection: str | None, host: str, path: str = "/", *, after: str = "", limit: int = 100
    ) -> Listing[OutlineChild]:
        about = {"collection": collection, "host": host, "path": path, "after": after, "limit": limit}
        prefix = f"{host_prefix(host)})"
        parts = [_listing(each, _child) for each in self._asked("children", about, host)]
        return _joined(parts, limit, lambda entry: encoded(f"{prefix}{_ended(entry)}"), _summed)

    def types(self, collection: str | None, host: str, path: str = "/") -> Types:
        counts: Counter[str] = Counter()
        parts = self._asked("types", {"collection": collection, "host": host, "path": path}, host)
        for each in parts:
            counts.update(dict(each["counts"]))
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return Types(ordered, sum(each["looked"] for each in parts), all(each["is_whole"] for each in parts))

    def of_type(
        self, collection: str | None, host: str, path: str, mime: str, *, after: str = "", limit: int = 100
    ) -> Listing[Capture]:
        about = {"collection": collection, "host": host, "path": path, "mime": mime, "after": after, "limit": limit}
        parts = [_listing(each, unpacked_capture) for each in self._asked("of_type", about, host)]
        return _joined(parts, limit, lambda capture: encoded(capture.urlkey), _newest)

    def _asked(self, operation: str, head: dict[str, Any], host: str | None) -> list[dict[str, Any]]:
        """The responses of the nodes that hold a host; of all nodes, without one."""
        partition = self._scatter.router.table().rule.of_host(f"http://{host}/") if host else None
        round_ = self._scatter.begin(frozenset((partition,)) if partition is not None else None)
        asked = head | {"is_public": self._is_public}
        found = round_.gather(lambda group: round_.ask(group, operation, asked)[0])
        self.coverage.missing = max(self.coverage.missing, round_.coverage.missing)
        return found


def _listing(response: dict[str, Any], unpack: Callable[[Any], Entry]) -> Listing[Entry]:
    return Listing(list(map(unpack, response["entries"])), response["next"])


def _host(packed: list[Any]) -> HostEntry:
    key, host, extent, capture = packed
    return HostEntry(key, host, Extent(*extent), unpacked_capture(capture))


def _child(packed: list[Any]) -> OutlineChild:
    name, kind, path, extent, capture = packed
    return OutlineChild(name, ChildKind(kind), path, Extent(*extent), unpacked_capture(capture))


def _ended(child: OutlineChild) -> str:
    """Its path with the character behind its name."""
    return child.path + " " if child.kind is ChildKind.PAGE else child.path


def _joined(
    parts: Sequence[Listing[Entry]],
    limit: int,
    place: Callable[[Entry], bytes],
    join: Callable[[Sequence[Entry]], Entry],
) -> Listing[Entry]:
    """One listing, up to where the first node stopped."""
    bound = min((encoded(part.next) for part in parts if part.next), default=None)
    by_place: dict[bytes, list[Entry]] = {}
    for part in parts:
        for entry in part.entries:
            if bound is None or place(entry) < bound:
                by_place.setdefault(place(entry), []).append(entry)
    places = sorted(by_place)
    next_place = places[limit] if len(places) > limit else bound
    entries = [join(by_place[each]) for each in places[:limit]]
    return Listing(entries, next_place.decode("utf-8", "surrogateescape") if next_place is not None else "")


def _summed(some: Sequence[Counted]) -> Counted:
    """The parts of one entry: with the sum of their captures."""
    first = min(some, key=lambda entry: (entry.capture.urlkey, entry.capture.timestamp))
    return replace(first, extent=_sum(entry.extent for entry in some))


def _newest(some: Sequence[Capture]) -> Capture:
    return max(some, key=lambda capture: capture.timestamp)


def _sum(parts: Iterable[Extent]) -> Extent:
    every = [part for part in parts if part.captures]
    count = sum(part.captures for part in every)
    is_whole = count <= COUNTED_MAX and all(part.is_whole for part in every)
    first, last = min((part.first for part in every), default=""), max((part.last for part in every), default="")
    return Extent(min(count, COUNTED_MAX), is_whole, first, last)
