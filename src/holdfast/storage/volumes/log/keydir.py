"""The keydir: signature → places of its blocks, in a table. Derived from the segments and rebuildable at any time.

Key `s` + signature holds the slots of all blocks with that signature, one after the other (nearly always one).
Key `g` + number holds the facts of a segment, `p` the position and the totals, `v` the version of this layout, and
`t` + name of a ticket what is remembered of its commit (`holdfast.storage.volumes.idempotency`).
Everything that one group of entries changes is written in one batch, position included, so that the keydir is always
the exact state of the log at some serial; opening a volume replays the entries after it.

The write-ahead log is written but not synced: it saves the replay after a crash of the process, and after a power cut
the segments have what it lost. Reader processes follow as RocksDB secondaries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from holdfast.env.table import Table, TableKind, verify_table
from holdfast.errors import DamagedKeydir, HoldfastError
from holdfast.storage.volumes.idempotency import Kept

SLOTS, SEGMENT, POSITION, TICKET, VERSION = b"s", b"g", b"p", b"t", b"v"
VERSION_NOW = b"1"
KIND = TableKind("keydir", DamagedKeydir, "holdfast check --repair")


class Slot(NamedTuple):
    """One block as the keydir knows it."""

    overflow: int
    home: bytes  # empty: the volume's own block
    replica: bool
    segment: int
    generation: int
    offset: int
    stored: int
    size: int
    references: int
    count_serial: int  # serial of the entry that set `references`
    serial: int  # of the block's own entry


class BlockPlace(NamedTuple):
    """Where an entry is."""

    segment: int
    generation: int
    offset: int
    stored: int


@dataclass(slots=True)
class SegmentFacts:
    """What is known of a segment: how much of it, and which serials."""

    generation: int
    through: int
    first_serial: int
    bytes: int
    dead_bytes: int = 0
    blocks: int = 0
    dead_blocks: int = 0

    def copy(self) -> SegmentFacts:
        return SegmentFacts(
            self.generation,
            self.through,
            self.first_serial,
            self.bytes,
            self.dead_bytes,
            self.blocks,
            self.dead_blocks,
        )


@dataclass(slots=True)
class Position:
    """The keydir holds everything up to `serial`; the next entry is at `offset` of `segment`. And the totals."""

    serial: int = 0
    segment: int = 0
    offset: int = 0
    blocks: int = 0
    replicas: int = 0
    content_bytes: int = 0
    stored_bytes: int = 0
    references: int = 0
    referenced_bytes: int = 0

    def copy(self) -> Position:
        return Position(
            self.serial,
            self.segment,
            self.offset,
            self.blocks,
            self.replicas,
            self.content_bytes,
            self.stored_bytes,
            self.references,
            self.referenced_bytes,
        )


_SLOT = struct.Struct("<IBBIIQQQQQQ")
_FACTS = struct.Struct("<IIQQQQQ")
_POSITION = struct.Struct("<9Q")
_NUMBER = struct.Struct(">I")
_SERIAL = struct.Struct("<Q")
_SLOT_BYTES = _SLOT.size


def pack_slots(slots: Iterable[Slot]) -> bytes:
    parts = []
    for slot in slots:
        overflow, home, replica, *rest = slot
        parts.append(_SLOT.pack(overflow, replica, len(home), *rest))
        parts.append(home)
    return b"".join(parts)


def unpack_slots(packed: bytes) -> tuple[Slot, ...]:
    if len(packed) == _SLOT_BYTES:
        overflow, replica, _, *rest = _SLOT.unpack(packed)
        return (Slot(overflow, b"", bool(replica), *rest),)
    slots = []
    at = 0
    while at < len(packed):
        overflow, replica, home_length, *rest = _SLOT.unpack_from(packed, at)
        at += _SLOT_BYTES
        slots.append(Slot(overflow, packed[at : at + home_length], bool(replica), *rest))
        at += home_length
    return tuple(slots)


class Keydir:
    """An open keydir. Any thread may read; one at a time may write."""

    def __init__(self, path: Path, *, cache_bytes: int, follow: bool = False) -> None:
        """With `follow` the keydir belongs to another process and is read as it stands, `catch_up` by `catch_up`."""
        self.path = path
        self._table = Table(path, KIND, cache_bytes=cache_bytes, follow=follow)
        try:
            version = self._table.get(VERSION) or VERSION_NOW
            if version != VERSION_NOW:
                raise DamagedKeydir(f"keydir '{path}' is of another release; run '{KIND.repair}'")
        except HoldfastError:
            self._table.abandon()
            raise

    @property
    def mirror(self) -> Path | None:
        """The directory of a follower's links."""
        return self._table.mirror

    def slots(self, signature: bytes) -> tuple[Slot, ...]:
        packed = self._table.get(SLOTS + signature)
        return unpack_slots(packed) if packed else ()

    def slots_of(self, signatures: list[bytes]) -> list[tuple[Slot, ...]]:
        found = self._table.get_many([SLOTS + signature for signature in signatures])
        return [unpack_slots(packed) if packed else () for packed in found]

    def packed_slots_of(self, signatures: list[bytes]) -> list[bytes | None]:
        """As `slots_of`, not unpacked."""
        return self._table.get_many([SLOTS + signature for signature in signatures])

    def segments(self) -> dict[int, SegmentFacts]:
        return {_NUMBER.unpack(key)[0]: SegmentFacts(*_FACTS.unpack(value)) for key, value in self._scan(SEGMENT)}

    def position(self) -> Position:
        packed = self._table.get(POSITION)
        return Position(*_POSITION.unpack(packed)) if packed else Position()

    def all_slots(self, start: bytes = b"") -> Iterator[tuple[bytes, tuple[Slot, ...]]]:
        """Every signature from `start` on with its slots, by ascending signature."""
        for key, value in self._scan(SLOTS, start):
            yield key, unpack_slots(value)

    def tickets(self) -> Iterator[tuple[bytes, Kept]]:
        """What is remembered of commits, by name."""
        for name, value in self._scan(TICKET):
            yield name, Kept(_SERIAL.unpack_from(value)[0], value[_SERIAL.size :])

    def has_ticket(self, name: bytes) -> bool:
        return self._table.get(TICKET + name) is not None

    def write(self, change: KeydirChange) -> None:
        """One atomic step. Not synced: the segments are the truth."""
        puts: list[tuple[bytes, bytes]] = []
        deletes: list[bytes] = []
        for signature, slots in change.slots.items():
            if slots:
                puts.append((SLOTS + signature, pack_slots(slots)))
            else:
                deletes.append(SLOTS + signature)
        for segment, facts in change.segments.items():
            if facts:
                puts.append((SEGMENT + _NUMBER.pack(segment), facts))
            else:
                deletes.append(SEGMENT + _NUMBER.pack(segment))
        for name, kept in change.tickets.items():
            if kept:
                puts.append((TICKET + name, _SERIAL.pack(kept.serial) + kept.data))
            else:
                deletes.append(TICKET + name)
        if change.position is not None:
            puts += ((POSITION, change.position), (VERSION, VERSION_NOW))
        self._table.write(puts, deletes)

    def sync(self) -> None:
        """After this the keydir survives a power cut as it is."""
        self._table.sync()

    def catch_up(self) -> None:
        """A follower sees what the writer has written until now."""
        self._table.catch_up()

    def follow_anew(self) -> None:
        """A follower that lost track, because files came and went under it, starts again."""
        self._table.follow_anew()

    def close(self) -> None:
        self._table.close()

    def abandon(self) -> None:
        """Closes whatever state it is in."""
        self._table.abandon()

    def _scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._table.scan(prefix + start, bytes([prefix[0] + 1])):
            yield key[1:], value


def verify_keydir(path: Path, *, cache_bytes: int) -> None:
    """Reads every byte of a keydir, which may belong to another process. Raises DamagedKeydir."""
    verify_table(path, KIND, cache_bytes=cache_bytes)


@dataclass(slots=True)
class KeydirChange:
    """What one step writes: new slots (none = forget the signature), packed facts and position, and tickets."""

    slots: Mapping[bytes, tuple[Slot, ...]]
    segments: Mapping[int, bytes | None]
    position: bytes | None
    tickets: Mapping[bytes, Kept | None] = field(default_factory=dict)


def pack_facts(facts: SegmentFacts) -> bytes:
    return _FACTS.pack(
        facts.generation,
        facts.through,
        facts.first_serial,
        facts.bytes,
        facts.dead_bytes,
        facts.blocks,
        facts.dead_blocks,
    )


def pack_position(position: Position) -> bytes:
    return _POSITION.pack(
        position.serial,
        position.segment,
        position.offset,
        position.blocks,
        position.replicas,
        position.content_bytes,
        position.stored_bytes,
        position.references,
        position.referenced_bytes,
    )
