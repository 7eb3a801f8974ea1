"""Records of other nodes: one by URL and time, by page or by id, with its contents read where it is held (H8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.batches.entry import JournalEntry
from holdfast.cluster.answers.scatter import NodeFailure, Scatter
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse
from holdfast.cluster.copies.protocol.messages import pack_entries, unpack_entries
from holdfast.env.files import Buffer
from holdfast.errors import CaptureNotFound, ClusterDown, HoldfastError
from holdfast.model import ContentKey, RecordId
from holdfast.records.stored_record import StoredRecord

PIECE_BYTES = 16 << 20  # of a payload, in one response


# -- at each node -----------------------------------------------------------------------------------------------------


def answer_record(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The record of a URL or page for a time, or of an id. Raises CaptureNotFound."""
    archive = shard.archive
    if head["record"]:
        stored = archive.records.read(RecordId.parse(head["record"]))
    elif head["page_id"]:
        stored = archive.get_page(int(head["page_id"]), head["at"], head["collection"], head["pick"])
    else:
        stored = archive.get(head["url"], head["at"], head["collection"], head["pick"])
    found = [stored]
    if stored.entry.type == "revisit" and stored.entry.contents == "-" and (original := stored.resolve(stored)):
        found.append(original)
    names = shard.origins.first_origins([each.id for each in found])
    named = zip(found, names, strict=True)
    entries = pack_entries([each.entry._replace(origin="-", serial=name.serial) for each, name in named])
    return {"record": str(names[0]), "original": str(names[1]) if len(names) > 1 else ""}, [entries]


def answer_content(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """One content of a record, or a piece of its payload from an offset on."""
    record = shard.local(RecordId.parse(head["record"]))
    if record is None:
        raise CaptureNotFound(f"record {head['record']} is not here")
    stored = shard.archive.records.read(record)
    if head["key"]:
        return {}, [stored.contents.get(ContentKey.parse(head["key"]))]
    skip, size = int(head["offset"]), 0
    parts: list[Buffer] = []
    for piece in stored.stream():
        kept = piece[skip:]
        skip = max(0, skip - len(piece))
        if kept:
            parts.append(kept[: PIECE_BYTES - size])
            size += len(parts[-1])
        if size >= PIECE_BYTES:
            break
    return {"is_last": size < PIECE_BYTES}, parts


# -- at the node that was asked ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RemoteContents:
    """The contents of one record, on whichever node has it."""

    scatter: Scatter
    record: RecordId
    url: str

    def get(self, key: ContentKey) -> bytes:
        """Raises CaptureNotFound, ClusterDown."""
        return self._asked({"key": str(key), "offset": 0})[1]

    def payload(self) -> Iterator[bytes]:
        """In pieces; that of its original, if it is a revisit."""
        offset, is_last = 0, False
        while not is_last:
            head, piece = self._asked({"key": "", "offset": offset})
            is_last = head["is_last"]
            offset += len(piece)
            yield piece

    def _asked(self, head: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        return ask_holder(self.scatter, self.url, "content", {"record": str(self.record), **head})


class RemoteRecord(StoredRecord):
    """A record of another node. A revisit is resolved there."""

    def stream(self) -> Iterator[bytes]:
        contents: Any = self.contents
        yield from contents.payload()


def remote_record(
    scatter: Scatter, record: RecordId, entry: JournalEntry, original: RemoteRecord | None = None
) -> RemoteRecord:
    """The record of an entry that another node has sent, with its original, if it is a revisit."""
    contents: Any = RemoteContents(scatter, record, entry.url)
    return RemoteRecord(record, entry, contents, lambda _: original)


def find_record(scatter: Scatter, url: str, head: dict[str, Any]) -> RemoteRecord:
    """The record that `answer_record` finds at a node that holds the URL. Raises CaptureNotFound, ClusterDown."""
    usual = {"record": "", "page_id": 0, "url": url, "at": "", "collection": None, "pick": None}
    response, raw = ask_holder(scatter, url, "record", usual | head)
    entry, *others = unpack_entries(raw)
    original: RemoteRecord | None = None
    for other in others:  # held by a node that holds the URL of the revisit, if not by those of its own
        name = RecordId.parse(response["original"])
        contents: Any = RemoteContents(scatter, name, url)
        original = RemoteRecord(name, other, contents, lambda _: None)
    return remote_record(scatter, RecordId.parse(response["record"]), entry, original)


def ask_holder(scatter: Scatter, url: str, operation: str, head: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The response of the first node that holds a URL and responds; of all nodes, if the URL has no host.

    Raises ClusterDown if none responds, and what the operation raises.
    """
    partition = scatter.router.table().rule.of_url(url)
    round_ = scatter.begin(frozenset((partition,)) if partition is not None else None)
    groups, failure = round_.groups(), None
    while groups:
        group = groups.pop(0)
        try:
            return round_.ask(group, operation, head)
        except NodeFailure:
            groups += round_.replaced(group)
        except CaptureNotFound as error:
            failure = error
    known: HoldfastError = failure or ClusterDown(f"no node that holds '{url[:200]}' responds")
    raise known
