"""The keydir: signature → places of its blocks, on RocksDB. Derived from the segments and rebuildable at any time.

Key `s` + signature holds the slots of all blocks with that signature, one after the other (nearly always one).
Key `g` + number holds the facts of a segment, `p` the position and the totals, `v` the version of this layout.
Everything that one group of entries changes is written in one batch, position included, so that the keydir is always
the exact state of the log at some serial; opening a volume replays the entries after it.

The write-ahead log is written but not synced: it saves the replay after a crash of the process, and after a power cut
the segments have what it lost. Reader processes follow as RocksDB secondaries.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from rocksdict import AccessType, BlockBasedOptions, Cache, Options, Rdict, WriteBatch

from holdfast.errors import DamagedKeydir, Denied, HoldfastError, VolumeFull

SLOTS, SEGMENT, POSITION, VERSION = b"s", b"g", b"p", b"v"
VERSION_NOW = b"1"
_OWN_FILES = ("LOG", "LOCK", "rocksdict-config.json")  # that every process which opens a keydir writes for itself


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


class Place(NamedTuple):
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


_SLOT = struct.Struct("<IBBIIQQQQQQ")
_FACTS = struct.Struct("<IIQQQQQ")
_POSITION = struct.Struct("<9Q")
_NUMBER = struct.Struct(">I")
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
        self._cache_bytes = cache_bytes
        self._mirror: _Mirror | None = None
        try:
            with self._failures():
                self._db = self._opened(cache_bytes, follow=follow)
                version = self._db.get(VERSION) or VERSION_NOW
            if version != VERSION_NOW:
                self._db.close()
                raise DamagedKeydir(f"keydir '{path}' is of another release; run 'holdfast check --repair'")
        except HoldfastError:
            self._forget_mirror()
            raise

    def _opened(self, cache_bytes: int, *, follow: bool) -> Rdict:
        if not follow:
            return Rdict(str(self.path), _options(cache_bytes))
        self._mirror = _Mirror(self.path)
        access = AccessType.secondary(str(self._mirror.diary))
        return Rdict(str(self._mirror.path), _options(cache_bytes), access_type=access)

    def slots(self, signature: bytes) -> tuple[Slot, ...]:
        try:  # spelled out: this is the hottest call of all
            packed = self._db.get(SLOTS + signature)
        except Exception as error:
            raise _translated(error, self.path) from error
        return unpack_slots(packed) if packed else ()

    def slots_of(self, signatures: list[bytes]) -> list[tuple[Slot, ...]]:
        with self._failures():
            found: list[bytes | None] = self._db.get([SLOTS + signature for signature in signatures]) or []
        return [unpack_slots(packed) if packed else () for packed in found]

    def segments(self) -> dict[int, SegmentFacts]:
        return {_NUMBER.unpack(key)[0]: SegmentFacts(*_FACTS.unpack(value)) for key, value in self._scan(SEGMENT)}

    def position(self) -> Position:
        with self._failures():
            packed = self._db.get(POSITION)
        return Position(*_POSITION.unpack(packed)) if packed else Position()

    def all_slots(self) -> Iterator[tuple[bytes, tuple[Slot, ...]]]:
        """Every signature with its slots, by ascending signature."""
        for key, value in self._scan(SLOTS):
            yield key, unpack_slots(value)

    def write(self, change: KeydirChange) -> None:
        """One atomic step. Not synced: the segments are the truth."""
        batch = WriteBatch(raw_mode=True)
        for signature, slots in change.slots.items():
            if slots:
                batch.put(SLOTS + signature, pack_slots(slots))
            else:
                batch.delete(SLOTS + signature)
        for segment, facts in change.segments.items():
            if facts:
                batch.put(SEGMENT + _NUMBER.pack(segment), facts)
            else:
                batch.delete(SEGMENT + _NUMBER.pack(segment))
        if change.position is not None:
            batch.put(POSITION, change.position)
            batch.put(VERSION, VERSION_NOW)
        try:
            self._db.write(batch)
        except Exception as error:
            raise _translated(error, self.path) from error

    def sync(self) -> None:
        """After this the keydir survives a power cut as it is."""
        with self._failures():
            self._db.flush_wal(True)

    def catch_up(self) -> None:
        """A follower sees what the writer has written until now."""
        assert self._mirror is not None
        with self._failures():
            try:
                self._mirror.update()
                self._db.try_catch_up_with_primary()
            except Exception:  # a file may have come between the two
                self._mirror.update()
                self._db.try_catch_up_with_primary()

    def follow_anew(self) -> None:
        """A follower that lost track, because files came and went under it, starts again."""
        assert self._mirror is not None
        self.abandon()
        with self._failures():
            self._db = self._opened(self._cache_bytes, follow=True)

    def close(self) -> None:
        try:
            with self._failures():
                if self._mirror is None:
                    self._db.flush(True)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes whatever state it is in. The binding closes first and then reports what it could not flush."""
        with suppress(Exception):
            self._db.close()
        self._forget_mirror()

    def _scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._failures():
            cursor = self._db.iter()
            cursor.seek(prefix)
            while cursor.valid():
                key = cursor.key()
                if key[:1] != prefix:
                    break
                yield key[1:], cursor.value()
                cursor.next()
            cursor.status()

    def _forget_mirror(self) -> None:
        if self._mirror is not None:
            self._mirror.remove()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except HoldfastError:
            raise
        except Exception as error:  # the binding raises nothing more specific
            raise _translated(error, self.path) from error


class _Mirror:
    """Links to the files of a keydir that is to be read only: the binding writes beside them whenever it opens one."""

    def __init__(self, source: Path) -> None:
        self._source = source.absolute()
        self._root = Path(mkdtemp(prefix="holdfast-keydir-"))
        self.path, self.diary = self._root / "mirror", self._root / "diary"
        self.path.mkdir()
        self._linked: set[str] = set()
        try:
            self.update()
        except BaseException:
            self.remove()
            raise

    def update(self) -> None:
        """Files come and go while another process writes."""
        there = {name for name in os.listdir(self._source) if not name.startswith(_OWN_FILES)}
        for name in there - self._linked:
            os.symlink(self._source / name, self.path / name)
        for name in self._linked - there:
            os.unlink(self.path / name)
        self._linked = there

    def remove(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)


def verify_keydir(path: Path, *, cache_bytes: int) -> None:
    """Reads every byte of a keydir, which may belong to another process. Raises DamagedKeydir.

    A follower would not do: where a table is damaged, it goes back to an older state and does not say so.
    """
    try:
        mirror = _Mirror(path)
        try:
            _read_all(Rdict(str(mirror.path), _options(cache_bytes), access_type=AccessType.read_only()))
        finally:
            mirror.remove()
    except Exception as error:
        raise _translated(error, path) from error


def _read_all(db: Rdict) -> None:
    try:
        cursor = db.iter()
        cursor.seek_to_first()
        while cursor.valid():
            cursor.next()
        cursor.status()
    finally:
        db.close()


@dataclass(slots=True)
class KeydirChange:
    """What one step writes: new slots (none = forget the signature), packed facts and position."""

    slots: Mapping[bytes, tuple[Slot, ...]]
    segments: Mapping[int, bytes | None]
    position: bytes | None


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


def _translated(error: Exception, path: Path) -> HoldfastError:
    text = str(error)
    if "No space left" in text:
        return VolumeFull(f"no space left for keydir '{path}': {text}")
    if "Permission denied" in text or "Read-only file system" in text:
        return Denied(f"not permitted to use keydir '{path}': {text}")
    return DamagedKeydir(f"cannot read keydir '{path}': {text}; run 'holdfast check --repair'")


def _options(cache_bytes: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(16 << 20)
    options.set_max_write_buffer_number(3)
    options.set_max_total_wal_size(64 << 20)
    options.set_keep_log_file_num(1)
    options.set_max_background_jobs(2)
    options.set_max_open_files(-1)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(cache_bytes))
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_bloom_filter(10, False)
    table.set_format_version(5)
    options.set_block_based_table_factory(table)
    return options
