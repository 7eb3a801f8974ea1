"""Repair: holders compare digests, and each fetches what it lacks; lost contents and records come back (H6, N10, N13).

    compare   digests of partitions; of those that differ, by batch; of those, by bucket; then the records of a bucket
    scrub     every content of every record is read; a damaged or missing one is fetched from another node by signature
    drop      a node that has records of a partition and is not among its holders asks them all whether they have them

Each is a generator: between two steps the node goes on pulling, and the rate is limited. Any of them may be given up
at any moment and begun again. Comparing goes both ways, because each node compares with all others.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from holdfast.archive.archive import Archive
from holdfast.archive.backup import put_back
from holdfast.archive.removal import RemovalOptions
from holdfast.batches.batch import BatchState
from holdfast.batches.frame import FramePlace, Passed
from holdfast.cluster.copies.digests import BUCKET_SERIALS, RangeDigest
from holdfast.cluster.copies.holders import HolderMap
from holdfast.cluster.copies.origins import OriginRow, OriginTable
from holdfast.cluster.copies.protocol.handlers import PARTITIONS_DETAILED_MAX
from holdfast.cluster.copies.protocol.messages import SERIALS_MAX, NodeMessage, numbers, pack_held
from holdfast.cluster.copies.protocol.peers import Peer
from holdfast.cluster.copies.pull import FindElsewhere, Puller
from holdfast.errors import HoldfastError
from holdfast.model import SERIAL_MAX, ContentKey, RecordId, batch_name
from holdfast.records.selection import ChosenRecords
from holdfast.storage.audit import audit

log = logging.getLogger("holdfast.cluster")

DROP_REASON = "dropped: all holders of its partition have it"
_CONTENTS_TOGETHER = 64  # that a scrub reads at a time
_READ_BYTES_MAX = 32 << 20


class RateLimit:
    """Bytes a second. One thread at a time."""

    def __init__(self, bytes_s: float) -> None:
        """0: no limit."""
        self._bytes_s = bytes_s
        self._free_s = 0.0  # when all that was spent would have come at this rate

    def spend(self, count: int) -> None:
        if self._bytes_s:
            self._free_s = max(self._free_s, time.monotonic()) + count / self._bytes_s

    @property
    def wait_s(self) -> float:
        """How long to wait before more is within the rate."""
        return max(0.0, self._free_s - time.monotonic())


@dataclass(slots=True)
class PeerComparison:
    """A comparison with one member: what has agreed so far."""

    peer: str
    departures: int  # of members, before it began
    partitions: frozenset[int]
    lacking: set[int] = field(default_factory=set)  # partitions of records that nobody can send

    @property
    def agreed(self) -> frozenset[int]:
        """At the end: the partitions of which this node has everything that the member had."""
        return self.partitions - self.lacking


@dataclass(slots=True)
class RepairCounts:
    """What repair has done since the node was started."""

    compared: int = 0  # comparisons that came to their end
    differed: int = 0  # partitions whose digests differed
    healed: int = 0  # contents that were damaged
    restored: int = 0  # contents that were missing
    lost: int = 0  # contents that no node has
    reread: int = 0  # batches with damaged frames
    dropped: int = 0  # records that other nodes hold
    drops: int = 0  # looks for such records


class Repairer:
    """For one thread."""

    def __init__(
        self,
        archive: Archive,
        origins: OriginTable,
        puller: Puller,
        holders: HolderMap,
        node: str,
        elsewhere: FindElsewhere,
    ) -> None:
        self.counts = RepairCounts()
        self.has_lost = False  # records were lost here: all is to be compared again
        self.odd: dict[int, str] = {}  # partitions of which one holder differs from two that agree
        self._archive = archive
        self._origins = origins
        self._puller = puller
        self._holders = holders
        self._node = node
        self._elsewhere = elsewhere
        self._seen: dict[str, dict[int, RangeDigest]] = {}  # digests of other nodes, as they were seen last
        self._doubts: dict[tuple[str, int], tuple[str, RangeDigest | None]] = {}  # who differed, and its digest
        self._damage: set[tuple[str, int, int]] = set()  # frames that are known to be damaged

    def forget(self) -> None:
        """A member has gone away: what was seen of others is outdated."""
        self._seen.clear()
        self._doubts.clear()
        self.odd.clear()

    # -- comparing ----------------------------------------------------------------------------------------------

    def compare(self, peer: Peer, comparison: PeerComparison, live: frozenset[str]) -> Generator[None]:
        """Fetches what the member has of some partitions, and this node has not; scarce partitions first."""
        partitions = sorted(comparison.partitions)
        theirs = self._puller.partition_digests(peer, partitions)
        mine = self._origins.partition_digests(partitions)
        self._seen.setdefault(peer.member.name, {}).update(zip(partitions, theirs, strict=True))
        differing = [
            each for each, own, other in zip(partitions, mine, theirs, strict=True) if own != other and other.records
        ]
        self._name_odd(peer.member.name, partitions, mine)
        self.counts.differed += len(differing)
        differing.sort(key=lambda each: len(live.intersection(self._holders.of(each))))
        yield
        for at in range(0, len(differing), PARTITIONS_DETAILED_MAX):
            yield from self._fill(peer, sorted(differing[at : at + PARTITIONS_DETAILED_MAX]), comparison)
        self.counts.compared += 1

    def _fill(self, peer: Peer, partitions: Sequence[int], comparison: PeerComparison) -> Generator[None]:
        wanted: dict[str, list[int]] = {}
        for partition, digests in zip(partitions, self._puller.digests(peer, "batches", partitions), strict=True):
            mine = {name: each.pack().hex() for name, each in self._origins.batch_digests(partition).items()}
            for name, digest in digests.items():
                if mine.get(name) != digest:
                    wanted.setdefault(batch_name(name), []).append(partition)
        for batch, theirs in sorted(wanted.items()):
            buckets = self._puller.differing(peer, batch, theirs)
            yield
            for lacking in self._puller.fill(peer, batch, buckets, frozenset(theirs)):
                comparison.lacking |= lacking
                yield

    def _name_odd(self, peer: str, partitions: Sequence[int], mine: Sequence[RangeDigest]) -> None:
        """With three holders, the one that differs from two that agree, and did so when the peer was compared last."""
        for partition, own in zip(partitions, mine, strict=True):
            names = self._holders.of(partition)
            if self._node not in names:
                continue
            known = {name: self._seen.get(name, {}).get(partition) for name in names if name != self._node}
            digests = {name: digest for name, digest in known.items() if digest is not None} | {self._node: own}
            counted = Counter(digests.values()).most_common()
            is_told = len(digests) >= 3 and len(counted) == 2 and counted[0][1] > counted[1][1] == 1
            odd = next((name for name, digest in digests.items() if digest == counted[1][0]), "") if is_told else ""
            doubt, found = self._doubts.get((peer, partition)), (odd, digests.get(odd))
            self._doubts[peer, partition] = found
            if odd and doubt == found:  # else it may only have been behind
                if self.odd.get(partition) != odd:
                    log.warning("node '%s' differs from the other holders of partition %d", odd, partition)
                self.odd[partition] = odd
            else:
                self.odd.pop(partition, None)

    # -- scrubbing ----------------------------------------------------------------------------------------------

    def scrub(self, *, deep: bool) -> Generator[None]:
        """Looks for damaged and missing contents, and fetches them. `deep` reads every byte; else only finds them."""
        if deep:
            yield from self._scrub_batches()
        missing: set[str] = set()
        for batch in self._archive.journal.names():
            keys: list[str] = []
            size = 0
            for _, packed in self._archive.catalog.frames(batch):
                try:
                    entries = self._archive.journal.read(batch, FramePlace.unpack(packed))
                except (FileNotFoundError, HoldfastError):  # rewritten by a removal, or damaged: the next scrub
                    continue
                for entry in entries:
                    keys += entry.contentkeys
                    size += entry.size if entry.contentkeys else 0
                if len(keys) >= _CONTENTS_TOGETHER or size >= _READ_BYTES_MAX:
                    missing |= self._scrub_contents(keys, deep=deep)
                    keys, size = [], 0
                    yield
            missing |= self._scrub_contents(keys, deep=deep)
            yield
        left: Sequence[str] = sorted(missing)
        while left:
            left = self._put_back(left)
            yield

    def _scrub_contents(self, texts: Sequence[str], *, deep: bool) -> set[str]:
        """Heals what is damaged; returns the keys of what is missing."""
        keys = [ContentKey.parse(text) for text in dict.fromkeys(texts)]
        found = self._archive.instance.find_batch(keys) if keys else []
        missing = {str(held.key) for held in found if not held.blocks and not held.away}
        damaged = [held.key for held in found if any(each.facts.damaged for each in held.blocks)]
        if deep:
            sound = [str(held.key) for held in found if held.blocks and held.key not in damaged]
            for text, content in zip(sound, self._archive.contents.get_buffers(sound), strict=True):
                signature = ContentKey.parse(text).signature
                if isinstance(content, HoldfastError) or self._archive.contents.sign([content])[0] != signature:
                    damaged.append(ContentKey.parse(text))
        if damaged:
            contents = self._elsewhere(self._puller, [key.signature for key in damaged], "")
            self._archive.contents.heal(list(contents.values()), list(contents))
            self.counts.healed += len(contents)
            self.counts.lost += len(damaged) - len(contents)
        return missing

    def _put_back(self, missing: Sequence[str]) -> Sequence[str]:
        """Stores some missing contents again, as often as records refer to them; returns those that are left."""
        log.warning("%d contents are missing; other nodes are asked for them", len(missing))
        contents: dict[str, bytes] = {}
        done = size = 0
        while done < len(missing) and size < _READ_BYTES_MAX:
            some = {text: ContentKey.parse(text).signature for text in missing[done : done + _CONTENTS_TOGETHER]}
            found = self._elsewhere(self._puller, list(dict.fromkeys(some.values())), "")
            contents |= {text: found[signature] for text, signature in some.items() if signature in found}
            size += sum(map(len, found.values()))
            done += len(some)
        restored = put_back(self._archive, contents, contents.get)
        self.counts.restored += len(restored)
        self.counts.lost += done - len(restored)
        events = [{"event": "restored", "fault": "missing content", "contentkey": text} for text in sorted(restored)]
        with self._archive.writer.lock:
            audit(self._archive.path, self._archive.env, events)
        return missing[done:]

    def _scrub_batches(self) -> Generator[None]:
        """Reads every frame. Records in damaged ones are forgotten, so that the next comparison brings them back."""
        damaged: set[str] = set()
        for batch in self._archive.journal.names():
            known = BatchState.unpack(self._archive.catalog.batch_state(batch)).files
            for number in self._archive.journal.files(batch):
                for found in self._archive.journal.walk_file(batch, number):
                    if not isinstance(found, Passed):
                        continue
                    place = batch, number, found.offset
                    is_acknowledged = not found.torn or found.offset < known.get(number, (0, 0))[1]
                    if is_acknowledged and place not in self._damage:
                        self._damage.add(place)
                        damaged.add(batch)
                yield
        if damaged:
            log.warning("frames of batches %s are damaged; their records are fetched again", ", ".join(damaged))
            self._archive.reindex()
            for batch in sorted(damaged):
                self._origins.reload(batch)
                self.counts.reread += 1
            self.has_lost = True

    # -- dropping -----------------------------------------------------------------------------------------------

    def drop(self, peers: Callable[[str], Peer | None], copies: int) -> Generator[None]:
        """Removes records here that all holders of their partition have, where this node is not one of them."""
        self._origins.catch_up()
        epoch, gone = self._holders.epoch, set[RecordId]()
        for partition in sorted(self._origins.held().keys() - self._holders.held_by(self._node)):
            names = self._holders.of(partition)
            holders = [peer for name in names if (peer := peers(name)) is not None]
            if len(holders) < copies or len(holders) < len(names):
                continue
            held: set[RecordId] = set()
            rows: list[OriginRow] = []
            for batch in self._origins.batch_digests(partition):
                for bucket in self._origins.bucket_digests(partition, batch):
                    first = bucket * BUCKET_SERIALS
                    found = self._origins.rows(batch, first, min(first + BUCKET_SERIALS - 1, SERIAL_MAX))
                    some = [row for row in found if row.partition == partition]
                    held |= self._held_by_all(holders, batch, some)
                    rows += some
                    yield
            gone |= {row.record for row in rows if held.issuperset(self._origins.origins_of(row.record))}
        if gone and self._holders.epoch == epoch:
            options = RemovalOptions(DROP_REASON, compact=False)
            with self._puller.adding:  # nobody adds copies meanwhile that refer to their contents
                self._archive.remove_here(ChosenRecords(records=tuple(sorted(gone))), options)
            self._origins.catch_up()
            self.counts.dropped += len(gone)
        self.counts.drops += 1

    def _held_by_all(self, holders: Sequence[Peer], batch: str, rows: Sequence[OriginRow]) -> set[RecordId]:
        """The origins of those rows that every holder has."""
        held = {row.origin for row in rows}
        for peer in holders:
            held &= held_by(self._puller, peer, batch, rows)
        return held


def held_by(puller: Puller, peer: Peer, batch: str, rows: Sequence[OriginRow]) -> set[RecordId]:
    """The origins of those rows of a batch that a member has. Raises Outdated and HoldfastError. Any thread."""
    held = {row.origin for row in rows}
    for at in range(0, len(rows), SERIALS_MAX):
        some = pack_held((row.origin.serial, row.fingerprint) for row in rows[at : at + SERIALS_MAX])
        head, _ = puller.call(peer, NodeMessage.HAVE, {"batch": batch}, some)
        held -= {RecordId(batch, serial) for serial in numbers(head, "lacking", SERIALS_MAX)}
    return held
