"""Every record of a node by its origin: the id on the node that recorded it. A derived table in the node's `cluster/`.

    o + batch ∅ serial             partition u16 | fingerprint, 16 bytes | id here (empty: the same)
    l + id here ∅ batch ∅ serial   nothing; the origins of a record that is a copy
    p + partition                  digest of the partition (`digests`)
    b + partition + batch          digest of an origin batch in it
    d + partition + batch ∅ bucket digest of 4096 serial numbers of the batch
    s + batch                      how much of a batch of this archive the table knows
    c + batch                      how far this node has pulled an origin batch: serial u32 | partitions, a bit each
    v                              version, and the rule of partitions

A record that was not copied is its own origin. A record that two nodes have recorded independently has one fingerprint
and two origins: the second is an alias, known only here, and found again by comparing digests if the table is lost.

The batches are authoritative. `catch_up` brings the table to their state: rows and digests change in one atomic write,
so they are exact after kill -9. A table that is lost, damaged or of another rule is built again.
"""

from __future__ import annotations

import logging
import shutil
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from holdfast.archive.archive import Archive
from holdfast.batches.batch import BatchState
from holdfast.batches.entry import REMOVED, parse_entries
from holdfast.batches.frame import FramePlace
from holdfast.catalog import CatalogChange
from holdfast.catalog.keys import after
from holdfast.cluster.copies.digests import BUCKET_SERIALS, EMPTY, RangeDigest
from holdfast.cluster.copies.partitions import PartitionRule, pack_partitions, unpack_partitions
from holdfast.env import paths
from holdfast.env.table import Table, TableKind
from holdfast.errors import Damaged, MalformedInput
from holdfast.model import SERIAL_MAX, RecordId
from holdfast.records.draft import fingerprint, is_captured, origin_of, signatures_of

log = logging.getLogger("holdfast.cluster")


TABLE = "origins"
KIND = TableKind("table of origins", Damaged, "holdfast node run")
_VERSION = b"1 "
_ORIGIN, _LOCAL, _STATE, _CURSOR, _RULE = b"o", b"l", b"s", b"c", b"v"
_PARTITION, _BATCH, _BUCKET = b"p", b"b", b"d"
_ROW = struct.Struct(">H16s")
_SERIAL = struct.Struct(">I")
_NUMBER = struct.Struct(">H")
_GROUP = 2000  # rows in one write
_TRIES_MAX = 20  # a removal may rewrite files again and again while they are read


class OriginRow(NamedTuple):
    """A record under one of its origins."""

    origin: RecordId
    partition: int
    fingerprint: bytes
    record: RecordId  # its id here


class Cursor(NamedTuple):
    """How far an origin batch has been pulled: all of these partitions, up to this serial number."""

    serial: int
    partitions: frozenset[int]


class OriginTable:
    """Any thread may call any method."""

    def __init__(self, archive: Archive, rule: PartitionRule) -> None:
        self.rule = rule
        self.recorded = 0  # captures of this node's own that were followed in this life
        self._archive = archive
        self._lock = threading.RLock()
        self._path = archive.path / paths.CLUSTER / TABLE
        self._path.parent.mkdir(exist_ok=True)
        self._table = self._opened()

    def _opened(self) -> Table:
        wanted = _VERSION + self.rule.text()
        with suppress(Damaged):
            table = Table(self._path, KIND, cache_bytes=16 << 20)
            found = table.get(_RULE)
            if found == wanted:
                return table
            table.abandon()
            if found is not None:
                log.warning("the table of origins is of another rule of partitions, and is built again")
        shutil.rmtree(self._path, ignore_errors=True)
        table = Table(self._path, KIND, cache_bytes=16 << 20)
        table.write([(_RULE, wanted)])
        return table

    def close(self) -> None:
        with self._lock:
            self._table.close()

    # -- following the batches ----------------------------------------------------------------------------------

    def catch_up(self) -> frozenset[int]:
        """Learns what has been added and removed; returns the partitions of new records of this node's own."""
        with self._lock:
            for _ in range(_TRIES_MAX):
                try:
                    return self._catch_up()
                except FileNotFoundError:  # a removal has rewritten a file meanwhile
                    continue
            return self._catch_up()

    def _catch_up(self) -> frozenset[int]:
        writer, journal = self._archive.writer, self._archive.journal
        with writer.lock:
            states = {name: journal.batch(name).state() for name in journal.names()}
        new: set[int] = set()
        for key, packed in list(self._table.scan(_STATE, after(_STATE))):
            name = key[1:].decode()
            if name not in states or _has_lost(BatchState.unpack(packed), states[name]):
                self._forget(name)
        for name, state in states.items():
            known = BatchState.unpack(self._table.get(_STATE + name.encode()))
            if known != state:
                new |= self._follow(name, known, state)
        return frozenset(new)

    def _follow(self, name: str, known: BatchState, state: BatchState) -> set[int]:
        """Reads the frames behind what is known of a batch, and all of those files that a removal has rewritten."""
        rewritten = {number for number, (generation, _) in known.files.items() if state.files[number][0] != generation}
        since = 0 if rewritten else known.next_serial
        new: set[int] = set()
        added: list[OriginRow] = []
        gone: list[RecordId] = []
        for first, packed in self._archive.catalog.frames(name, since):
            place = FramePlace.unpack(packed)
            if first >= state.next_serial or (first < known.next_serial and place.number not in rewritten):
                continue
            for entry in parse_entries(self._archive.journal.content(name, place)):
                if entry.type == REMOVED:
                    gone.append(RecordId(name, entry.serial))
                elif entry.serial >= known.next_serial:
                    mark = fingerprint(entry, signatures_of(entry))
                    partition = self.rule.of_record(entry, mark)
                    added.append(OriginRow(origin_of(entry, name), partition, mark, RecordId(name, entry.serial)))
                    if entry.origin == "-":
                        new.add(partition)
                        self.recorded += is_captured(entry)
            if len(added) + len(gone) >= _GROUP:
                self._change(added, self._origins_of(gone))
                added, gone = [], []
        self._change(added, self._origins_of(gone), [(_STATE + name.encode(), state.pack())])
        return new

    def reload(self, batch: str) -> None:
        """Reads a batch of this archive again: some of its records were lost."""
        with self._lock:
            self._forget(batch)
            self.catch_up()

    def _forget(self, name: str) -> None:
        """Some records of a batch are gone: what is left of it is read again."""
        log.warning("records of batch %r are gone; the others are read again", name)
        own = self.rows(name)
        mine = (row.origin for row in own if row.record == row.origin)
        copies = (
            origin
            for key, _ in self._table.scan(_LOCAL + name.encode() + b"-", after(_LOCAL + name.encode() + b"-"))
            for local, origin in [_local_key(key)]
            if local.batch == name
        )
        for origins in (mine, copies):
            while some := list(islice(origins, _GROUP)):
                self._change([], some)
        # What is lost was acknowledged once: until it was compared again, no cursor vouches for any partition.
        nothing = pack_partitions((), self.rule.partitions)
        cursors = [(key, packed[:4] + nothing) for key, packed in self._table.scan(_CURSOR, after(_CURSOR))]
        self._table.write(cursors, [_STATE + name.encode()])

    def change_rule(self, rule: PartitionRule) -> frozenset[int]:
        """Moves the records of domains that are split otherwise now; returns the partitions that have changed.

        Takes time in proportion to the records of the partitions that held these domains. Killed in between, the table
        is built again.
        """
        with self._lock:
            self.catch_up()
            domains = self.rule.changed(rule)
            before = frozenset[int]().union(*map(self.rule.of_domain, domains))
            concerned = before.union(*map(rule.of_domain, domains))
            self._table.write([], [_RULE])
            for partition in before:
                self._move(partition, rule)
            cursors = []
            for key, packed in self._table.scan(_CURSOR, after(_CURSOR)):
                left = unpack_partitions(packed[4:], rule.partitions) - concerned
                cursors.append((key, packed[:4] + pack_partitions(left, rule.partitions)))
            self.rule = rule
            self._table.write([*cursors, (_RULE, _VERSION + rule.text())])
            return concerned

    def _move(self, partition: int, rule: PartitionRule) -> None:
        for batch in self.batch_digests(partition):
            for bucket in self.bucket_digests(partition, batch):
                first = bucket * BUCKET_SERIALS
                moved: list[OriginRow] = []
                for row in list(self.rows(batch, first, min(first + BUCKET_SERIALS - 1, SERIAL_MAX))):
                    entry = self._archive.records.entry(row.record) if row.partition == partition else None
                    if entry is not None and entry.type != REMOVED:
                        now = rule.of_record(entry, row.fingerprint)
                        moved += [row._replace(partition=now)] if now != partition else []
                self._change(moved, [row.origin for row in moved])

    def _origins_of(self, records: Iterable[RecordId]) -> list[RecordId]:
        return [origin for record in records for origin in self.origins_of(record)]

    def _change(
        self, added: Sequence[OriginRow], removed: Sequence[RecordId], puts: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """One atomic write of rows and digests. Rows that are known are not added again."""
        changes: dict[bytes, tuple[int, int]] = {}
        written: list[tuple[bytes, bytes]] = list(puts)
        deleted: list[bytes] = []
        before = dict.fromkeys(removed)
        gone = [row for row in self.find_all(list(before)) if row is not None]
        for row in gone:
            deleted.append(_origin_key(row.origin))
            if row.record != row.origin:
                deleted.append(_LOCAL + str(row.record).encode() + b"\0" + _place(row.origin))
            _count(changes, row, -1)
        fresh: dict[RecordId, OriginRow] = {}
        for row, known in zip(added, self.find_all([row.origin for row in added]), strict=True):
            other = fresh.get(row.origin, known)
            if other is not None and row.origin not in before:
                if other.fingerprint != row.fingerprint:
                    log.error("two records have the origin %s: %s and %s", row.origin, other.record, row.record)
                continue
            fresh[row.origin] = row
        for row in fresh.values():
            here = b"" if row.record == row.origin else str(row.record).encode()
            written.append((_origin_key(row.origin), _ROW.pack(row.partition, row.fingerprint) + here))
            if here:
                written.append((_LOCAL + here + b"\0" + _place(row.origin), b""))
            _count(changes, row, 1)
        keys = list(changes)
        for key, packed in zip(keys, self._table.get_many(keys) if keys else (), strict=True):
            digest = (RangeDigest.unpack(packed) if packed else EMPTY).plus(*changes[key])
            if digest.records:
                written.append((key, digest.pack()))
            else:
                deleted.append(key)
        self._table.write(written, deleted)

    # -- aliases and cursors ------------------------------------------------------------------------------------

    def advance(self, batch: str, cursor: Cursor, rule: PartitionRule) -> bool:
        """Notes how far a batch has been pulled under a rule of partitions; False if that is not the present one."""
        packed = _SERIAL.pack(cursor.serial) + pack_partitions(cursor.partitions, rule.partitions)
        with self._lock:
            if rule is not self.rule:
                return False
            self._table.write([(_CURSOR + batch.encode(), packed)])
            return True

    def add_aliases(self, aliases: Sequence[OriginRow]) -> None:
        """Notes other origins of records that are here."""
        with self._lock:
            self._archive.catalog.add(CatalogChange(origins=[(row.origin, row.record) for row in aliases]))
            self._change(aliases, [])

    def cursor(self, batch: str) -> Cursor | None:
        """None if nothing of the batch has been pulled."""
        packed = self._table.get(_CURSOR + batch.encode())
        if not packed:
            return None
        try:
            return Cursor(_SERIAL.unpack(packed[:4])[0], unpack_partitions(packed[4:], self.rule.partitions))
        except MalformedInput as error:
            raise KIND.failure(error, self._path) from None

    # -- reading ------------------------------------------------------------------------------------------------

    def find(self, origin: RecordId) -> OriginRow | None:
        return self.find_all([origin])[0]

    def find_all(self, origins: Sequence[RecordId]) -> list[OriginRow | None]:
        """For each origin the record here; None if there is none."""
        if not origins:
            return []
        found = self._table.get_many([_origin_key(each) for each in origins])
        return [_row(origin, packed) if packed else None for origin, packed in zip(origins, found, strict=True)]

    def origins_of(self, record: RecordId) -> list[RecordId]:
        """All origins of a record here."""
        found, own = self.aliases(record), self.find(record)
        return [record, *found] if own is not None and own.record == record else found

    def aliases(self, record: RecordId) -> list[RecordId]:
        """The origins of a record here on other nodes."""
        prefix = _LOCAL + str(record).encode() + b"\0"
        return [_local_key(key)[1] for key, _ in self._table.range(prefix, after(prefix))]

    def rows(self, batch: str, first: int = 0, last: int = SERIAL_MAX) -> Iterator[OriginRow]:
        """The records of an origin batch from one serial number to another, both included, ascending."""
        prefix = _ORIGIN + batch.encode() + b"\0"
        for key, packed in self._table.scan(prefix + _SERIAL.pack(first), prefix + _SERIAL.pack(last) + b"\0"):
            yield _row(RecordId(batch, _SERIAL.unpack(key[len(prefix) :])[0]), packed)

    def batches(self) -> dict[str, int]:
        """All origin batches, with the last serial number of each that has a record here."""
        found: dict[str, int] = {}
        start = _ORIGIN
        while first := self._table.range(start, after(_ORIGIN), 1):
            name = first[0][0][1:-5]
            last = self._table.last(_ORIGIN + name + b"\0", _ORIGIN + name + b"\1")
            assert last is not None
            found[name.decode()] = _SERIAL.unpack(last[0][-4:])[0]
            start = _ORIGIN + name + b"\1"
        return found

    def recorded_ends(self) -> dict[str, int]:
        """Of each batch that this node recorded, the first serial that is not known here, whatever is left of it."""
        states = self._table.scan(_STATE, after(_STATE))
        return {key[1:].decode(): BatchState.unpack(packed).next_serial for key, packed in states}

    def followed(self) -> list[str]:
        """The batches that are pulled: those with a cursor."""
        return [key[1:].decode() for key, _ in self._table.scan(_CURSOR, after(_CURSOR))]

    # -- digests ------------------------------------------------------------------------------------------------

    def partition_digests(self, partitions: Sequence[int]) -> list[RangeDigest]:
        found = self._table.get_many([_PARTITION + _NUMBER.pack(each) for each in partitions]) if partitions else []
        return [RangeDigest.unpack(packed) if packed else EMPTY for packed in found]

    def batch_digests(self, partition: int) -> dict[str, RangeDigest]:
        """Of each origin batch in a partition."""
        prefix = _BATCH + _NUMBER.pack(partition)
        found = self._table.range(prefix, after(prefix))
        return {key[3:].decode(): RangeDigest.unpack(packed) for key, packed in found}

    def bucket_digests(self, partition: int, batch: str) -> dict[int, RangeDigest]:
        """Of each bucket of an origin batch in a partition."""
        prefix = _BUCKET + _NUMBER.pack(partition) + batch.encode() + b"\0"
        found = self._table.range(prefix, after(prefix))
        return {_SERIAL.unpack(key[len(prefix) :])[0]: RangeDigest.unpack(packed) for key, packed in found}

    def last_row(self, partition: int, batch: str) -> OriginRow | None:
        """The last record of an origin batch in a partition."""
        for bucket in sorted(self.bucket_digests(partition, batch), reverse=True):
            first = bucket * BUCKET_SERIALS
            rows = self.rows(batch, first, min(first + BUCKET_SERIALS - 1, SERIAL_MAX))
            return max((row for row in rows if row.partition == partition), key=lambda row: row.origin, default=None)
        return None

    def held(self) -> dict[int, RangeDigest]:
        """The partitions of which there are records here."""
        return {
            _NUMBER.unpack(key[1:])[0]: RangeDigest.unpack(packed)
            for key, packed in self._table.scan(_PARTITION, after(_PARTITION))
        }


def _has_lost(known: BatchState, now: BatchState) -> bool:
    """True if files are missing, or shorter than they were."""
    return any(
        number not in now.files or (now.files[number][0] == generation and now.files[number][1] < end)
        for number, (generation, end) in known.files.items()
    )


def _place(origin: RecordId) -> bytes:
    return origin.batch.encode() + b"\0" + _SERIAL.pack(origin.serial)


def _origin_key(origin: RecordId) -> bytes:
    return _ORIGIN + _place(origin)


def _local_key(key: bytes) -> tuple[RecordId, RecordId]:
    """The id here, and the origin."""
    local, _, place = key[1:].partition(b"\0")
    return RecordId.parse(local.decode()), RecordId(place[:-5].decode(), _SERIAL.unpack(place[-4:])[0])


def _row(origin: RecordId, packed: bytes) -> OriginRow:
    partition, mark = _ROW.unpack_from(packed)
    here = packed[_ROW.size :]
    return OriginRow(origin, partition, mark, RecordId.parse(here.decode()) if here else origin)


def _count(changes: dict[bytes, tuple[int, int]], row: OriginRow, step: int) -> None:
    """Adds a record to the digests that it belongs to, or takes it away."""
    number, batch = _NUMBER.pack(row.partition), row.origin.batch.encode()
    bucket = _SERIAL.pack(row.origin.serial // BUCKET_SERIALS)
    value = step * int.from_bytes(row.fingerprint, "big")
    for key in (_PARTITION + number, _BATCH + number + batch, _BUCKET + number + batch + b"\0" + bucket):
        count, total = changes.get(key, (0, 0))
        changes[key] = count + step, total + value
