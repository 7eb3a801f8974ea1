"""The keydir: signature → places of its blocks, in a table. Derived from the segments; can be rebuilt at any time.

Key `s` + signature holds the slots of all blocks with that signature, one after the other (almost always one).
Key `g` + number holds the facts of a segment, `p` the position and the totals, `v` the version of this layout, and
`t` + name of a ticket the past of its commit (`holdfast.storage.volumes.idempotency`).
All changes of one group of entries are written in one batch with the position, so that the keydir is always the exact
state of the log at some serial. Opening a volume replays the entries after it.

The write-ahead log is written but not synced: it saves the replay after a crash of the process, and after a power cut
the segments have what it lost. Reader processes follow as RocksDB secondaries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from rocksdict import WriteBatch

from holdfast.env.table import Table, TableKind
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


@dataclass(slots=True)
class SegmentFacts:
    """Size and serials of a segment."""

    generation: int
    through: int
    first_serial: int
    bytes: int
    dead_bytes: int = 0
    blocks: int = 0
    dead_blocks: int = 0

    def copy(self) -> SegmentFacts:
        return SegmentFacts(*_facts(self))


@dataclass(slots=True)
class Position:
    """The keydir holds everything up to `serial`; the next entry is at `offset` of `segment`. Also the totals."""

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
        return Position(*_position(self))


_SLOT = struct.Struct("<IBBIIQQQQQQ")
_FACTS = struct.Struct("<IIQQQQQ")
_POSITION = struct.Struct("<9Q")
_NUMBER = struct.Struct(">I")
_SERIAL = struct.Struct("<Q")
_SLOT_BYTES = _SLOT.size
_facts = attrgetter(*SegmentFacts.__slots__)
_position = attrgetter(*Position.__slots__)


def pack_slots(slots: Sequence[Slot]) -> bytes:
    if len(slots) == 1 and not (slot := slots[0]).home:
        return _SLOT.pack(slot[0], slot[2], 0, *slot[3:])
    parts = []
    for slot in slots:
        overflow, home, replica, *rest = slot
        parts.append(_SLOT.pack(overflow, replica, len(home), *rest))
        parts.append(home)
    return b"".join(parts)


def unpack_slots(packed: bytes) -> tuple[Slot, ...]:
    if len(packed) == _SLOT_BYTES:
        overflow, replica, _, segment, generation, offset, stored, size, references, counted, serial = _SLOT.unpack(
            packed
        )
        is_replica = replica != 0
        return (
            Slot(overflow, b"", is_replica, segment, generation, offset, stored, size, references, counted, serial),
        )
    slots = []
    at = 0
    while at < len(packed):
        overflow, replica, home_length, *rest = _SLOT.unpack_from(packed, at)
        at += _SLOT_BYTES
        slots.append(Slot(overflow, packed[at : at + home_length], bool(replica), *rest))
        at += home_length
    return tuple(slots)


class Keydir(Table):
    """An open keydir. Any thread may read; one at a time may write."""

    def __init__(self, path: Path, *, cache_bytes: int, follow: bool = False) -> None:
        """With `follow` the keydir belongs to another process; `catch_up` shows what that has written since."""
        super().__init__(path, KIND, cache_bytes=cache_bytes, follow=follow)
        try:
            version = self.get(VERSION)
            if version is None and not follow:
                self.write([(VERSION, VERSION_NOW)])
            elif version not in (None, VERSION_NOW):
                raise DamagedKeydir(f"keydir '{path}' was made by another release; run '{KIND.repair}'")
        except HoldfastError:
            self.abandon()
            raise

    def slots(self, signature: bytes) -> tuple[Slot, ...]:
        packed = self.get(SLOTS + signature)
        return unpack_slots(packed) if packed else ()

    def slots_of(self, signatures: list[bytes]) -> list[tuple[Slot, ...]]:
        return [unpack_slots(packed) if packed else () for packed in self.packed_slots_of(signatures)]

    def packed_slots_of(self, signatures: list[bytes]) -> list[bytes | None]:
        """As `slots_of`, not unpacked."""
        return self.get_many([SLOTS + signature for signature in signatures])

    def segments(self) -> dict[int, SegmentFacts]:
        return {_NUMBER.unpack(key)[0]: SegmentFacts(*_FACTS.unpack(value)) for key, value in self._scan(SEGMENT)}

    def position(self) -> Position:
        packed = self.get(POSITION)
        return Position(*_POSITION.unpack(packed)) if packed else Position()

    def all_slots(self, start: bytes = b"") -> Iterator[tuple[bytes, tuple[Slot, ...]]]:
        """Every signature from `start` on with its slots, by ascending signature."""
        for key, value in self._scan(SLOTS, start):
            yield key, unpack_slots(value)

    def tickets(self) -> Iterator[tuple[bytes, Kept]]:
        """The past of commits, by name of their ticket."""
        for name, value in self._scan(TICKET):
            yield name, Kept(_SERIAL.unpack_from(value)[0], value[_SERIAL.size :])

    def has_ticket(self, name: bytes) -> bool:
        return self.get(TICKET + name) is not None

    def apply(self, change: KeydirChange) -> None:
        """One atomic step. Not synced: the segments are the truth."""
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for signature, slots in change.slots.items():
            if slots:
                put(SLOTS + signature, pack_slots(slots))
            else:
                delete(SLOTS + signature)
        for number, facts in change.segments.items():
            if facts:
                put(SEGMENT + _NUMBER.pack(number), facts)
            else:
                delete(SEGMENT + _NUMBER.pack(number))
        for name, kept in change.tickets.items():
            if kept:
                put(TICKET + name, _SERIAL.pack(kept.serial) + kept.data)
            else:
                delete(TICKET + name)
        if change.position is not None:
            put(POSITION, change.position)
        self.write_batch(batch)

    def _scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        for key, value in self.scan(prefix + start, bytes([prefix[0] + 1])):
            yield key[1:], value


@dataclass(slots=True)
class KeydirChange:
    """The changes of one step: slots (none: drop the signature), packed facts and position, and tickets."""

    slots: Mapping[bytes, tuple[Slot, ...]] = field(default_factory=dict)
    segments: Mapping[int, bytes | None] = field(default_factory=dict)
    position: bytes | None = None
    tickets: Mapping[bytes, Kept | None] = field(default_factory=dict)


def pack_facts(facts: SegmentFacts) -> bytes:
    return _FACTS.pack(*_facts(facts))


def pack_position(position: Position) -> bytes:
    return _POSITION.pack(*_position(position))
