"""The requests of the node protocol, answered: nothing that the other node sends is trusted to be well-formed.

    RECORDS     batch, after, partitions     records of an origin batch behind a serial; acknowledges others
    LIST        batch, buckets, partitions   serial, partition and fingerprint of each record in these buckets
    ENTRIES     batch, serials               the records with these serial numbers
    BLOCKS      signatures                   contents, encoded as they are stored
    DICTIONARY  number                       of a block that was sent
    DIGESTS     level, partitions [, batch]  of partitions, of batches in them, of buckets of a batch
    HAVE        batch, fingerprints          which of these records are not here
    STATUS                                   origin batches and their last serial numbers, counts

Each request says up to which removal the other node has come. A node that has not come as far catches up before it
answers, and each response says how far this one is: so what was removed is never handed out again (N2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.archive.archive import Archive
from holdfast.batches.entry import REMOVED, JournalEntry
from holdfast.cluster.copies.acknowledgements import Acknowledgements
from holdfast.cluster.copies.blocks import LocalBlocks
from holdfast.cluster.copies.digests import BUCKET_SERIALS, pack_digests
from holdfast.cluster.copies.origins import Cursor, OriginRow, OriginTable
from holdfast.cluster.copies.partitions import unpack_partitions
from holdfast.cluster.copies.protocol.messages import (
    BUCKETS_MAX,
    PAGE_BYTES,
    PAGE_ENTRIES,
    SERIALS_MAX,
    ListedRecord,
    NodeMessage,
    hexadecimal,
    number,
    numbers,
    pack_blocks,
    pack_entries,
    pack_rows,
    text,
    unpack_held,
)
from holdfast.env.files import Buffer
from holdfast.errors import MalformedInput, NotFound, TooLarge
from holdfast.model import SERIAL_MAX, RecordId, batch_name
from holdfast.storage.signature import find_signature

Response = tuple[dict[str, Any], list[Buffer]]
ROWS_SCANNED_MAX = 50_000  # for one response
PARTITIONS_DETAILED_MAX = 64  # of which one response has the batches or buckets
BLOCKS_MAX = 512


class NodeRequests:
    """Any thread may call `handle`."""

    def __init__(
        self,
        archive: Archive,
        origins: OriginTable,
        blocks: LocalBlocks,
        acknowledgements: Acknowledgements,
        removals_applied: Callable[[int], int],
        status: Callable[[], dict[str, Any]],
    ) -> None:
        """`removals_applied` applies removals at least up to a number, and returns how far it has come."""
        self._archive = archive
        self._origins = origins
        self._blocks = blocks
        self._acknowledgements = acknowledgements
        self._removals_applied = removals_applied
        self._status = status
        self._signature_bytes = find_signature(archive.settings.store.signature).length
        self._handlers: dict[NodeMessage, Callable[[str, dict[str, Any], bytes], Response]] = {
            NodeMessage.RECORDS: self._records,
            NodeMessage.LIST: self._list,
            NodeMessage.ENTRIES: self._entries,
            NodeMessage.BLOCKS: self._send_blocks,
            NodeMessage.DICTIONARY: self._dictionary,
            NodeMessage.DIGESTS: self._digests,
            NodeMessage.HAVE: self._have,
            NodeMessage.STATUS: self._state,
        }

    def handle(self, peer: str, kind: NodeMessage, head: dict[str, Any], raw: bytes) -> Response:
        handler = self._handlers.get(kind)
        if handler is None:
            raise MalformedInput(f"a message of type {kind} is not a request")
        applied = self._removals_applied(number(head, "removals", (1 << 63) - 1))
        self._origins.catch_up()
        response, parts = handler(peer, head, raw)
        return response | {"removals": applied}, parts

    # -- records ------------------------------------------------------------------------------------------------

    def _records(self, peer: str, head: dict[str, Any], raw: bytes) -> Response:
        batch, after = _batch(head), number(head, "after", SERIAL_MAX)
        partitions = self._partitions(head)
        self._acknowledgements.note(peer, batch, Cursor(after, partitions))
        entries: list[JournalEntry] = []
        end = self._origins.recorded_ends().get(batch, 0)  # before rows are read: what comes meanwhile is not skipped
        until, size = after, 0
        for scanned, row in enumerate(self._origins.rows(batch, after + 1)):
            if size >= PAGE_BYTES or len(entries) >= PAGE_ENTRIES or scanned >= ROWS_SCANNED_MAX:
                break
            until = row.origin.serial
            if row.partition in partitions and (entry := self._entry(row)) is not None:
                entries.append(entry)
                size += len(entry.data) + 500
        else:
            until = max(until, end - 1)  # the last records may have been dropped or removed
        return {"until": until, "count": len(entries)}, [pack_entries(entries)]

    def _entry(self, row: OriginRow) -> JournalEntry | None:
        """The record as it is sent, under the serial number of its origin; None if it was removed just now."""
        entry = self._archive.records.entry(row.record)
        if entry is None or entry.type == REMOVED:
            return None
        return entry._replace(serial=row.origin.serial, origin="-")

    def _list(self, peer: str, head: dict[str, Any], raw: bytes) -> Response:
        batch, partitions = _batch(head), self._partitions(head)
        found: list[ListedRecord] = []
        for bucket in numbers(head, "buckets", BUCKETS_MAX):
            first = bucket * BUCKET_SERIALS
            if first > SERIAL_MAX:
                raise MalformedInput(f"bucket {bucket} is beyond all serial numbers")
            rows = self._origins.rows(batch, first, min(first + BUCKET_SERIALS - 1, SERIAL_MAX))
            chosen = (row for row in rows if row.partition in partitions)
            found += [ListedRecord(row.origin.serial, row.partition, row.fingerprint) for row in chosen]
        return {"count": len(found)}, [pack_rows(found)]

    def _entries(self, peer: str, head: dict[str, Any], raw: bytes) -> Response:
        batch, serials = _batch(head), numbers(head, "serials", SERIALS_MAX)
        entries: list[JournalEntry] = []
        done = size = 0
        for row in self._origins.find_all([RecordId(batch, serial) for serial in serials]):
            if size >= PAGE_BYTES or len(entries) >= PAGE_ENTRIES:
                break
            done += 1
            if row is not None and (entry := self._entry(row)) is not None:
                entries.append(entry)
                size += len(entry.data) + 500
        return {"done": done, "count": len(entries)}, [pack_entries(entries)]

    def _have(self, peer: str, head: dict[str, Any], raw: bytes) -> Response:
        batch, held = _batch(head), unpack_held(raw)
        rows = self._origins.find_all([RecordId(batch, serial) for serial, _ in held])
        lacking = [
            serial
            for (serial, mark), row in zip(held, rows, strict=True)
            if row is None or row.fingerprint != mark or self._entry(row) is None
        ]
        return {"lacking": lacking}, []

    # -- contents -----------------------------------------------------------------------------------------------

    def _send_blocks(self, peer: str, head: dict[str, Any], raw: bytes) -> Response:
        """The first blocks, at least one, as many as a response may have."""
        length = self._signature_bytes
        if not raw or len(raw) % length or len(raw) > BLOCKS_MAX * length:
            raise MalformedInput(
                f"signatures of {length} bytes, at most {BLOCKS_MAX}, are wanted: {len(raw)} bytes came"
            )
        found = []
        size = 0
        for at in range(0, len(raw), length):
            if size >= PAGE_BYTES:
                break
            block = self._blocks.encoded(raw[at : at + length])
            size += len(block.data) if block is not None else 0
            found.append(block)
        return {"count": len(found)}, pack_blocks(found)

    def _dictionary(self, peer: str, head: dict[str, Any], raw: bytes) -> Response:
        wanted = number(head, "number")
        data = self._blocks.dictionary(wanted)
        if data is None:
            raise NotFound(f"no dictionary {wanted:08x}")
        return {}, [data]

    # -- digests ------------------------------------------------------------------------------------------------

    def _digests(self, peer: str, head: dict[str, Any], raw: bytes) -> Response:
        level, partitions = text(head, "level"), sorted(self._partitions(head))
        if level == "partitions":
            return {}, [pack_digests(self._origins.partition_digests(partitions))]
        if len(partitions) > PARTITIONS_DETAILED_MAX:
            raise TooLarge(f"digests of batches and buckets: of {PARTITIONS_DETAILED_MAX} partitions at a time")
        if level == "batches":
            return {"digests": [_in_hex(self._origins.batch_digests(each)) for each in partitions]}, []
        if level == "buckets":
            batch = _batch(head)
            return {"digests": [_in_hex(self._origins.bucket_digests(each, batch)) for each in partitions]}, []
        raise MalformedInput(f"unknown level {level!r} of digests")

    def _state(self, peer: str, head: dict[str, Any], raw: bytes) -> Response:
        return self._status() | {"batches": self._origins.batches()}, []

    def _partitions(self, head: dict[str, Any]) -> frozenset[int]:
        return unpack_partitions(hexadecimal(head, "partitions"), self._origins.rule.partitions)


def _batch(head: dict[str, Any]) -> str:
    return batch_name(text(head, "batch"))


def _in_hex(digests: dict[Any, Any]) -> dict[str, str]:
    return {str(name): digest.pack().hex() for name, digest in digests.items()}
