"""Pull: a holder takes from every member's own batches what it should hold, in the order of serial numbers (H6).

    RECORDS  "what you have of batch b behind serial s in these partitions"     entries and signatures
    BLOCKS   only those of which no record here has a sound block               as they are stored
    add      as ordinary records of this node's current batch, with `origin`    durable
    advance  the cursor of b is the last serial that was looked at              the next request acknowledges it

The cursor holds for a set of partitions. A batch that is new here begins at its end, and a partition that this node
holds only since the last change of members is not in the set. `repair` compares and fills them, at a limited rate; then
what is still lacking before the cursor is fetched, and the partition joins.

Killed at any moment, a node asks again from its last cursor: records that are here are not added again, and blocks that
no record refers to are released by the archive when it opens.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from holdfast.archive.archive import Archive
from holdfast.archive.ingest.writer import Copy
from holdfast.batches.entry import JournalEntry
from holdfast.cluster.copies.blocks import BlockDecoder, LocalBlocks
from holdfast.cluster.copies.digests import BUCKET_SERIALS, RangeDigest, unpack_digests
from holdfast.cluster.copies.origins import Cursor, OriginRow, OriginTable
from holdfast.cluster.copies.partitions import PartitionRule, pack_partitions
from holdfast.cluster.copies.protocol.handlers import BLOCKS_MAX, PARTITIONS_DETAILED_MAX
from holdfast.cluster.copies.protocol.messages import (
    BUCKETS_MAX,
    PAGE_ENTRIES,
    NodeMessage,
    number,
    unpack_blocks,
    unpack_entries,
    unpack_rows,
)
from holdfast.cluster.copies.protocol.peers import Peer
from holdfast.cluster.copies.removal.removals import Removals
from holdfast.env import paths
from holdfast.env.files import Buffer
from holdfast.errors import MalformedInput
from holdfast.model import SERIAL_MAX, ContentKey, RecordId, batch_name
from holdfast.records.draft import fingerprint, signatures_of

log = logging.getLogger("holdfast.cluster")

PIECES = "pieces"  # blocks of a large record, on their way
GROUP_BYTES_MAX = 16 << 20  # of payload that is added together
_RETRY_S = 60.0  # before a record whose content nobody has is asked for again


class Outdated(Exception):
    """Another node has applied a removal that this one has not, or this one has just applied one: ask again."""


class FindElsewhere(Protocol):
    """Looks for contents."""

    def __call__(self, puller: Puller, signatures: Sequence[bytes], but: str) -> dict[bytes, bytes]:
        """Those that other live members have, `but` for one that was asked already."""


@dataclass(slots=True)
class CopyCounts:
    """What this node has received since it was started."""

    records: int = 0  # added as copies
    aliases: int = 0  # that were here under another origin
    refused: int = 0
    blocks: int = 0
    block_bytes: int = 0  # as they were sent
    entry_bytes: int = 0  # as they were sent
    lacking: int = 0  # records left out, because nobody had their content


class Puller:
    """For one thread; there are several, each for another member, and one for repair.

    Nobody waits for a slow member: whatever comes over the network is fetched before a lock is taken. If a removal was
    applied meanwhile, it is thrown away and requested again.
    """

    def __init__(
        self,
        archive: Archive,
        origins: OriginTable,
        blocks: LocalBlocks,
        removals: Removals,
        elsewhere: FindElsewhere,
        name: str,
    ) -> None:
        """`elsewhere` looks for contents at other nodes than one; `name` is of its directory for large payloads."""
        self.counts = CopyCounts()
        self._archive = archive
        self._origins = origins
        self._blocks = blocks
        self._removals = removals
        self._elsewhere = elsewhere
        self._decoders: dict[str, tuple[Peer, BlockDecoder]] = {}  # by node
        self.adding = removals.lock  # who holds it keeps copies from being added
        self._deferred: dict[tuple[str, int], float] = {}  # batch and partition, and until when
        self._pieces = archive.path / paths.CLUSTER / PIECES / name
        shutil.rmtree(self._pieces, ignore_errors=True)

    # -- a member's own batches ---------------------------------------------------------------------------------

    def pull(self, peer: Peer, held: frozenset[int], agreed: frozenset[int]) -> bool:
        """One page of each of the member's batches; True if there may be more. Raises Outdated and HoldfastError.

        `held` are the partitions that this node holds, `agreed` those that were compared with the member.
        """
        more = False
        for batch, last in sorted(self.batches(peer).items()):
            if batch.endswith(f".{peer.member.name}"):
                more |= self._pull_batch(peer, batch, last, held, agreed)
        return more

    def batches(self, peer: Peer) -> dict[str, int]:
        """The origin batches of which a member has records, with the last serial number of each."""
        head, _ = self.call(peer, NodeMessage.STATUS, {})
        found = head.get("batches")
        if not isinstance(found, dict):
            raise MalformedInput(f"node '{peer.member.name}' does not list its batches")
        return {batch_name(name): number(found, name) for name in found}

    def _pull_batch(self, peer: Peer, batch: str, last: int, held: frozenset[int], agreed: frozenset[int]) -> bool:
        rule = self._origins.rule
        cursor = self._origins.cursor(batch) or Cursor(last, frozenset())
        followed = cursor.partitions & held
        now_s = time.monotonic()
        new = [each for each in held & agreed - followed if self._deferred.get((batch, each), 0.0) <= now_s]
        some = sorted(new)[:PARTITIONS_DETAILED_MAX]
        if some:
            followed |= self._adopt(peer, batch, some, cursor.serial)
        if followed != cursor.partitions:
            cursor = Cursor(cursor.serial, followed)
            self._advance(batch, cursor, rule)
        position = self._removals.position
        request = {"batch": batch, "after": cursor.serial, "partitions": self._packed(followed)}
        head, raw = self.call(peer, NodeMessage.RECORDS, request)
        entries, until = unpack_entries(raw), number(head, "until")
        self.counts.entry_bytes += len(raw)
        lacking = self.add(peer, batch, entries, position)
        if until > cursor.serial or lacking:
            self._defer(batch, lacking)
            self._advance(batch, Cursor(max(until, cursor.serial), followed - lacking), rule)
        return until > cursor.serial or len(new) > len(some)

    def _advance(self, batch: str, cursor: Cursor, rule: PartitionRule) -> None:
        """Raises Outdated if partitions have become others meanwhile."""
        if not self._origins.advance(batch, cursor, rule):
            raise Outdated

    def _adopt(self, peer: Peer, batch: str, partitions: Sequence[int], last: int) -> frozenset[int]:
        """Partitions that this node holds since lately: those of which nothing lacks before the cursor."""
        lacking: frozenset[int] = frozenset()
        buckets = [each for each in self.differing(peer, batch, partitions) if each * BUCKET_SERIALS <= last]
        for left_out in self.fill(peer, batch, buckets, frozenset(partitions), last):
            lacking |= left_out
        self._defer(batch, lacking)
        return frozenset(partitions) - lacking

    def _defer(self, batch: str, partitions: frozenset[int]) -> None:
        for each in partitions:
            self._deferred[batch, each] = time.monotonic() + _RETRY_S

    # -- differences --------------------------------------------------------------------------------------------

    def differing(self, peer: Peer, batch: str, partitions: Sequence[int]) -> list[int]:
        """The buckets of a batch whose digests differ in one of the partitions, and of which the other has records."""
        theirs = self.digests(peer, "buckets", partitions, batch)
        found: set[int] = set()
        for partition, digests in zip(partitions, theirs, strict=True):
            mine = {
                str(name): each.pack().hex() for name, each in self._origins.bucket_digests(partition, batch).items()
            }
            found |= {_bucket(name) for name, digest in digests.items() if mine.get(name) != digest}
        return sorted(found)

    def digests(self, peer: Peer, level: str, partitions: Sequence[int], batch: str = "") -> list[dict[str, str]]:
        """The other node's digests of batches or buckets, in hexadecimal, by name, for each partition, ascending."""
        request = {"level": level, "partitions": self._packed(partitions), "batch": batch}
        head, _ = self.call(peer, NodeMessage.DIGESTS, request)
        found = head.get("digests")
        if not isinstance(found, list) or len(found) != len(partitions):
            raise MalformedInput(f"node '{peer.member.name}' does not send a digest for each partition")
        return found

    def partition_digests(self, peer: Peer, partitions: Sequence[int]) -> list[RangeDigest]:
        """The other node's digests of partitions, which are given in ascending order."""
        request = {"level": "partitions", "partitions": self._packed(partitions)}
        _, raw = self.call(peer, NodeMessage.DIGESTS, request)
        return unpack_digests(raw, len(partitions))

    def fill(
        self, peer: Peer, batch: str, buckets: Sequence[int], partitions: frozenset[int], last: int = SERIAL_MAX
    ) -> Iterator[frozenset[int]]:
        """Fetches the records of some buckets, up to a serial, that are lacking here.

        Yields after each page the partitions of records that could not be had.
        """
        for at in range(0, len(buckets), BUCKETS_MAX):
            serials = self._lacking(peer, batch, buckets[at : at + BUCKETS_MAX], partitions, last)
            while serials:
                position, some = self._removals.position, serials[:PAGE_ENTRIES]
                head, raw = self.call(peer, NodeMessage.ENTRIES, {"batch": batch, "serials": some})
                self.counts.entry_bytes += len(raw)
                lacking = self.add(peer, batch, unpack_entries(raw), position)
                serials = serials[max(1, number(head, "done")) :]
                yield lacking

    def _lacking(
        self, peer: Peer, batch: str, buckets: Sequence[int], partitions: frozenset[int], last: int
    ) -> list[int]:
        """The serial numbers of records that the other node has, and this one has not."""
        request = {"batch": batch, "buckets": list(buckets), "partitions": self._packed(partitions)}
        _, raw = self.call(peer, NodeMessage.LIST, request)
        rows = [row for row in unpack_rows(raw) if row.serial <= last]
        known = self._origins.find_all([RecordId(batch, row.serial) for row in rows])
        return [row.serial for row, here in zip(rows, known, strict=True) if here is None]

    # -- adding -------------------------------------------------------------------------------------------------

    def add(self, peer: Peer, batch: str, entries: Sequence[JournalEntry], position: int) -> frozenset[int]:
        """Adds records of an origin batch, with their contents, as they were after the removal at that position.

        Returns the partitions of records that were left out, because nobody has their content. Raises Outdated if a
        removal was applied since.
        """
        lacking: set[int] = set()
        for group in _groups(entries):
            lacking |= self._add_group(peer, batch, group, position)
        return frozenset(lacking)

    def _add_group(self, peer: Peer, batch: str, entries: Sequence[JournalEntry], position: int) -> set[int]:
        copies = [
            Copy(entry._replace(origin=str(RecordId(batch, entry.serial))), signatures_of(entry)) for entry in entries
        ]
        marks = [fingerprint(*each) for each in copies]
        known = self._archive.catalog.known(marks)
        fetched = self._fetch(peer, self._blocks.missing(_contents(copies, known)))
        try:
            with self._removals.lock:
                now = self._archive.catalog.known(marks)
                is_dropped = any(here is None and before is not None for here, before in zip(now, known, strict=True))
                if self._removals.position != position or is_dropped:
                    raise Outdated
                return self._add_fetched(copies, marks, now, fetched)
        finally:
            shutil.rmtree(self._pieces, ignore_errors=True)

    def _add_fetched(
        self,
        copies: Sequence[Copy],
        marks: Sequence[bytes],
        known: Sequence[RecordId | None],
        fetched: Mapping[bytes, bytes | Path],
    ) -> set[int]:
        gone = set(self._blocks.missing([each for each in _contents(copies, known) if each not in fetched]))
        lacking: set[int] = set()
        kept: list[tuple[Copy, bytes]] = []
        for each, mark, here in zip(copies, marks, known, strict=True):
            if here is None and not each.entry.is_inline and gone.intersection(each.signatures):
                lacking.add(self._origins.rule.of_record(each.entry, mark))
                self.counts.lacking += 1
                log.warning("nobody has the content of record %s of '%s'", each.entry.origin, each.entry.url)
            else:
                kept.append((each, mark))

        def content(key: ContentKey) -> bytes | None:
            found = fetched.get(key.signature)
            if isinstance(found, Path):
                return found.read_bytes()
            return found if found is not None else self._blocks.content(key.signature)

        if kept:
            writer = self._archive.writer
            ids = writer.add_copies(
                writer.current_batch(), [each for each, _ in kept], content, [mark for _, mark in kept]
            )
            self._note(kept, ids)
        return lacking

    def _note(self, kept: Sequence[tuple[Copy, bytes]], ids: Sequence[RecordId | None]) -> None:
        """Brings the table up to date, with the aliases among the records."""
        self._origins.catch_up()
        origins = [RecordId.parse(each.entry.origin) for each, _ in kept]
        rows = self._origins.find_all(origins)
        aliases: list[OriginRow] = []
        for (each, mark), origin, record, row in zip(kept, origins, ids, rows, strict=True):
            if record is None:
                self.counts.refused += 1
            elif row is None:
                aliases.append(OriginRow(origin, self._origins.rule.of_record(each.entry, mark), mark, record))
            else:
                self.counts.records += 1
        if aliases:
            self.counts.aliases += len(aliases)
            self._origins.add_aliases(aliases)

    # -- contents -----------------------------------------------------------------------------------------------

    def _fetch(self, peer: Peer, signatures: Sequence[bytes]) -> dict[bytes, bytes | Path]:
        """The contents, from this node or another; many bytes go to files."""
        found: dict[bytes, bytes | Path] = {}
        size = 0
        for signature, content in self.contents(peer, signatures):
            size += len(content)
            found[signature] = content if size <= 2 * GROUP_BYTES_MAX else self._spooled(signature, content)
        absent = [each for each in signatures if each not in found]
        if absent:
            found.update(self._elsewhere(self, absent, peer.member.name))
        return found

    def _spooled(self, signature: bytes, content: bytes) -> Path:
        self._pieces.mkdir(parents=True, exist_ok=True)
        path = self._pieces / signature.hex()
        path.write_bytes(content)
        return path

    def contents(self, peer: Peer, signatures: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Contents that the other node has, verified, with their signatures."""
        decoder = self._decoder(peer)
        left = list(signatures)
        while left:
            head, raw = self.call(peer, NodeMessage.BLOCKS, {}, b"".join(left[:BLOCKS_MAX]))
            some = left[: number(head, "count", BLOCKS_MAX)]
            if not some:
                raise MalformedInput(f"node '{peer.member.name}' sends no blocks")
            for signature, encoded in zip(some, unpack_blocks(raw, len(some)), strict=True):
                if encoded is None:
                    continue
                self.counts.blocks += 1
                self.counts.block_bytes += len(encoded.data)
                content = decoder.decode(signature, encoded)
                if content is not None:
                    yield signature, content
                else:
                    log.warning("node '%s' sent a block that is not %s", peer.member.name, signature.hex())
            left = left[len(some) :]

    def _decoder(self, peer: Peer) -> BlockDecoder:
        known = self._decoders.get(peer.member.name)
        if known is not None and known[0] is peer:
            return known[1]
        decoder = BlockDecoder(
            self._archive.contents.sign,
            lambda wanted: self.call(peer, NodeMessage.DICTIONARY, {"number": wanted})[1],
        )
        self._decoders[peer.member.name] = peer, decoder
        return decoder

    # -- requests -----------------------------------------------------------------------------------------------

    def call(self, peer: Peer, kind: NodeMessage, head: dict[str, Any], *raw: Buffer) -> tuple[dict[str, Any], bytes]:
        """A response of a node that has applied the same removals. Raises Outdated if it has applied more."""
        position = self._removals.position
        response, found = peer.call(kind, {**head, "removals": position}, *raw)
        if number(response, "removals", (1 << 63) - 1) > position:
            raise Outdated
        return response, found

    def _packed(self, partitions: Sequence[int] | frozenset[int]) -> str:
        return pack_partitions(partitions, self._origins.rule.partitions).hex()


def _contents(copies: Sequence[Copy], known: Sequence[RecordId | None]) -> list[bytes]:
    """The signatures of contents that records need which are not known here."""
    return [
        signature
        for each, here in zip(copies, known, strict=True)
        if here is None and not each.entry.is_inline
        for signature in each.signatures
    ]


def _bucket(name: str) -> int:
    if not (name.isascii() and name.isdigit()):
        raise MalformedInput(f"bad bucket {name[:20]!r}")
    return int(name)


def _groups(entries: Sequence[JournalEntry]) -> Iterator[list[JournalEntry]]:
    """Groups of bounded size; a large record by itself."""
    group: list[JournalEntry] = []
    size = 0
    for entry in entries:
        if group and size + entry.size > GROUP_BYTES_MAX:
            yield group
            group, size = [], 0
        group.append(entry)
        size += entry.size
    if group:
        yield group
