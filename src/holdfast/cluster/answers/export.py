"""What an export of a cluster reads: captures and records of all nodes, each once (H8, I5).

    with a query   captures of all nodes ──▶ their ids, sorted ──▶ records, fetched by id with their companions
    without        records of all nodes of a snapshot, merged by id ──▶ the same, without companions

Records are named by their origins, so the order of the batches is that of a stream in the order `log`. Partitions
without a node that responds are left out, and `coverage` says so. If the last holder of a partition fails later, the
export ends with ClusterDown.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from holdfast.batches.entry import REMOVED, JournalEntry
from holdfast.cluster.answers.captures import ClusterSearch
from holdfast.cluster.answers.records import RemoteContents, RemoteRecord
from holdfast.cluster.answers.scatter import ListPiece, NodeFailure, NodeGroup, Round, Scatter
from holdfast.cluster.answers.shard.served_catalog import SnapshotRows
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse
from holdfast.cluster.answers.streams import cluster_snapshot, is_followed, require_pulled
from holdfast.cluster.copies.protocol.messages import pack_entries, unpack_entries
from holdfast.env.files import Buffer
from holdfast.errors import ClusterDown, HoldfastError, UsageError
from holdfast.model import Capture, ContentKey, Coverage, RecordId
from holdfast.records.draft import capture_of
from holdfast.records.selection import OWN_TYPES, Selection, companions, each_once
from holdfast.records.stored_record import StoredRecord
from holdfast.streams.snapshot import Snapshot

NAMES_MAX = 4096  # ids in one response
RECORDS_MAX = 64  # fetched together
BYTES_MAX = 16 << 20  # of records in one response; one more may exceed it
_INLINE_MAX = 1 << 20  # larger payloads are fetched when they are written
_NO_PARTITION = 0xFFFF  # of a capture without a host: any node may have it
_PARTITION_BITS = 16


# -- at each node -----------------------------------------------------------------------------------------------------


def answer_names(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The ids of all records of a snapshot from a position on, each with its partition."""
    snapshot = Snapshot(dict(head["snapshot"]))
    require_pulled(shard, snapshot, head["following"], partitions)
    rows = SnapshotRows(shard.archive.catalog.rows, shard.origins, partitions, snapshot)
    first_batch, first = head["position"]
    names: list[RecordId] = []
    position: tuple[str, int] | None = None
    for batch in sorted(each for each in snapshot.ends if each >= first_batch):
        start, end = first if batch == first_batch else 0, snapshot.ends[batch]
        found, behind = rows.of_batch(batch, start, end, NAMES_MAX - len(names))
        names += found
        if len(names) >= NAMES_MAX:
            position = batch, behind
            break
    places = shard.origins.find_all(names)
    listed = [[*row.origin, row.partition] for row in places if row is not None]
    return {"names": listed, "position": position}, []


def answer_records(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """Records by their ids, with companions if they are wanted; as many as fit. None for what is not here."""
    reader = _EntryReader(shard)
    collection = head["collection"]
    groups: list[list[list[Any]] | None] = []
    raw: list[Buffer] = []
    size = 0
    for name in map(RecordId.parse, head["records"]):
        if size >= BYTES_MAX:
            break
        entry = reader(name)
        if entry is None or entry.type == REMOVED:
            groups.append(None)
            continue
        found = {name: entry} if entry.type not in OWN_TYPES and collection in (None, entry.collection) else {}
        if found and head["companions"]:
            found |= companions(reader, name, entry)
        groups.append([_packed(shard, reader, each, found[each], raw) for each in sorted(found)])
        size = sum(map(len, raw))
    return {"groups": groups}, raw


class _EntryReader:
    """Entries of this node by their ids in the cluster, each read once."""

    def __init__(self, shard: NodeShard) -> None:
        self._origins = shard.origins
        self._records = shard.archive.records
        self._read: dict[RecordId, JournalEntry | None] = {}
        self.local: dict[RecordId, RecordId] = {}

    def __call__(self, name: RecordId) -> JournalEntry | None:
        if name not in self._read:
            row = self._origins.find(name)
            self._read[name] = self._records.entry(row.record) if row is not None else None
            if row is not None:
                self.local[name] = row.record
        return self._read[name]


def _packed(shard: NodeShard, reader: _EntryReader, name: RecordId, entry: JournalEntry, raw: list[Buffer]) -> Any:
    """The head of a record; its entry, and its contents unless they are large, follow all heads."""
    original = ""
    if entry.type == "revisit" and entry.contents == "-":
        found = shard.archive.catalog.resolve(capture_of(entry, reader.local[name].batch))
        original = str(shard.origins.first_origins([found.record])[0]) if found is not None else ""
    packed = pack_entries([entry._replace(origin="-", serial=name.serial)])
    raw.append(packed)
    lengths: list[int] | None = None
    if entry.size <= _INLINE_MAX:
        contents = shard.archive.contents.gather(entry.contentkeys).decode() if entry.contentkeys else ()
        lengths = []
        for content in contents:
            if isinstance(content, HoldfastError):
                raise content
            lengths.append(len(content))
            raw.append(content)
    return [str(name), len(packed), lengths, original]


# -- at the node that was asked ---------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A record, and where to ask for it."""

    record: RecordId
    partition: int


_Groups = dict[RecordId, dict[RecordId, StoredRecord]]


class ClusterSource:
    """All nodes, as an `ExportSource`. For one export, and one thread."""

    def __init__(self, scatter: Scatter) -> None:
        self.coverage: Coverage | None = None
        self.missing = 0
        self._scatter = scatter
        self._rule = scatter.router.table().rule
        self._chosen: dict[str, array[int]] = {}  # of a query, by batch: serial, and partition in the low bits
        self._originals: dict[RecordId, _Place] = {}  # of revisits, by these

    def require_batch(self, batch: str) -> None:
        cluster_snapshot(self._scatter, batch, is_whole=False)

    def captures(self, selection: Selection) -> Iterator[Capture]:
        if type(selection) is not Selection or selection.any_method:
            raise UsageError("a cluster exports what a query, a batch and a collection select")
        search = ClusterSearch(self._scatter, selection.capture_query, is_public=False, batch=selection.batch)
        self.coverage = search.coverage
        for row in search.answer():
            yield row.capture

    def records(self, selection: Selection) -> Iterator[StoredRecord]:
        """The captures of a query take 8 bytes each in memory."""
        if selection.is_whole:
            places = self._listed(selection)
            groups = self._groups(places, {"collection": selection.collection, "companions": False})
        else:
            self._choose(selection)
            groups = self._groups(self._places(), {"collection": None, "companions": True})
        for _, record in each_once(groups):
            yield record

    def original(self, revisit: StoredRecord) -> RecordId | None:
        found = self._originals.get(revisit.id)
        return found.record if found is not None else None

    def unselected(self, selection: Selection, records: Iterable[RecordId]) -> set[RecordId]:
        return set(records).difference(place.record for place in self._places())

    def read(self, records: Iterable[RecordId]) -> Iterator[StoredRecord]:
        """Asked of the holders of the revisits: they have resolved them."""
        known = {place.record: place for place in self._originals.values()}
        groups = self._groups((known[record] for record in records), {"collection": None, "companions": False})
        for _, group in groups:
            yield from group.values()

    def payloads(self, records: Sequence[StoredRecord]) -> Iterator[Buffer]:
        return iter(
            [record.contents.get(ContentKey.parse(key)) for record in records for key in record.entry.contentkeys]
        )

    # -- which records ------------------------------------------------------------------------------------------

    def _choose(self, selection: Selection) -> None:
        for capture in self.captures(selection):
            self._add(capture.record, capture.url)

    def _add(self, record: RecordId, url: str) -> None:
        partition = self._rule.of_url(url)
        low = _NO_PARTITION if partition is None else partition
        self._chosen.setdefault(record.batch, array("Q")).append(record.serial << _PARTITION_BITS | low)

    def _places(self) -> Iterator[_Place]:
        for batch in sorted(self._chosen):
            for packed in sorted(self._chosen[batch]):
                yield _Place(RecordId(batch, packed >> _PARTITION_BITS), packed & _NO_PARTITION)

    def _listed(self, selection: Selection) -> Iterator[_Place]:
        snapshot = cluster_snapshot(self._scatter, selection.batch, is_whole=False)
        round_ = self._scatter.begin()
        head = {
            "snapshot": snapshot.ends,
            "following": [name for name in snapshot.ends if is_followed(name, round_)],
        }

        def fetch(group: NodeGroup, position: tuple[str, int]) -> ListPiece[_Place]:
            response, _ = round_.ask(group, "names", head | {"position": position})
            places = [_Place(RecordId(batch, serial), partition) for batch, serial, partition in response["names"]]
            behind = response["position"]
            return ListPiece(places, tuple(behind) if behind is not None else None)

        places = round_.merge(fetch, ("", 0), lambda place: place.record)
        self.coverage = round_.coverage
        return places

    # -- records by their ids -----------------------------------------------------------------------------------

    def _groups(
        self, places: Iterator[_Place], head: dict[str, Any]
    ) -> Iterator[tuple[RecordId, dict[RecordId, StoredRecord]]]:
        while some := list(islice(places, RECORDS_MAX)):
            found = self._fetched(some, head)
            for place in some:
                group = found.get(place.record)
                if group is None:
                    self.missing += 1
                else:
                    yield place.record, group

    def _fetched(self, places: Sequence[_Place], head: dict[str, Any]) -> _Groups:
        """Raises ClusterDown if no holder of a record responds."""
        partitions = frozenset(place.partition for place in places)
        round_ = self._scatter.begin(None if _NO_PARTITION in partitions else partitions)

        def ask(group: NodeGroup) -> _Groups:
            wanted = group.partitions | {_NO_PARTITION}
            return self._asked(round_, group, [each for each in places if each.partition in wanted], head)

        found: _Groups = {}
        for each in round_.gather(ask):
            found |= each
        for place in places:
            if place.record not in found and place.partition != _NO_PARTITION:
                found |= self._elsewhere(round_, place, head)
        return found

    def _elsewhere(self, round_: Round, place: _Place, head: dict[str, Any]) -> _Groups:
        """A record that the first holder does not have under this id, or not any more."""
        has_response = False
        for node in round_.table.serving(place.partition):
            try:
                found = self._asked(round_, NodeGroup(node, frozenset((place.partition,))), [place], head)
            except NodeFailure:
                continue
            has_response = True
            if found:
                return found
        if not has_response:
            raise ClusterDown(f"no node that holds record {place.record} responds")
        return {}

    def _asked(self, round_: Round, group: NodeGroup, places: Sequence[_Place], head: dict[str, Any]) -> _Groups:
        found: _Groups = {}
        while places:
            names = [str(place.record) for place in places]
            response, raw = round_.ask(group, "records", {"records": names, **head})
            view, at = memoryview(raw), 0
            for place, packed in zip(places, response["groups"], strict=False):
                if packed is None:
                    continue
                found[place.record] = {}
                for values in packed:
                    record, at = self._unpacked(place, values, view, at)
                    found[place.record][record.id] = record
            places = places[len(response["groups"]) :]
        return found

    def _unpacked(self, place: _Place, values: list[Any], raw: memoryview, at: int) -> tuple[StoredRecord, int]:
        text, length, lengths, original = values
        record = RecordId.parse(text)
        (entry,) = unpack_entries(bytes(raw[at : at + length]))
        at += length
        known: dict[str, bytes] = {}
        for key, size in zip(entry.contentkeys, lengths or (), strict=lengths is not None):
            known[key] = bytes(raw[at : at + size])
            at += size
        if original:
            self._originals[record] = _Place(RecordId.parse(original), place.partition)
        contents: Any = _FetchedContents(self._scatter, record, entry.url, known)
        return _FetchedRecord(record, entry, contents, lambda _: None), at


class ChosenSource(ClusterSource):
    """Records of all nodes that were chosen by their ids, with their companions."""

    def __init__(self, scatter: Scatter, records: Iterable[tuple[RecordId, str]]) -> None:
        """Each record with its URL. They take 8 bytes each in memory."""
        super().__init__(scatter)
        for record, url in records:
            self._add(record, url)

    def records(self, selection: Selection) -> Iterator[StoredRecord]:
        for _, record in each_once(self._groups(self._places(), {"collection": None, "companions": True})):
            yield record


@dataclass(frozen=True, slots=True)
class _FetchedContents(RemoteContents):
    """Contents that came with their record; others are read where it is held."""

    known: Mapping[str, bytes]

    def get(self, key: ContentKey) -> bytes:
        found = self.known.get(str(key))
        return RemoteContents.get(self, key) if found is None else found


class _FetchedRecord(RemoteRecord):
    """Read here as far as its contents are; a revisit is resolved where it is held."""

    def stream(self) -> Iterator[bytes]:
        is_resolved_there = self.entry.type == "revisit" and self.entry.contents == "-"
        yield from RemoteRecord.stream(self) if is_resolved_there else StoredRecord.stream(self)
