"""A sorted table of bytes on RocksDB, the base of keydirs and catalog.

One process writes. A `write` is atomic; it is logged but not synced until `sync`, because everything in a table is
derived. Other processes follow: they see the state of their last `catch_up`.

A follower must not write beside the writer's files, as the binding would, so it opens a mirror: its own directory of
links to them. What it has read of a log stays in memory, above all files. If the log is removed, because the writer
flushed it, its end may never have been read: then the follower opens the table again, or it would miss changes.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
)

from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import Busy, Damaged, Denied, HoldfastError, UsageError, VolumeFull

log = logging.getLogger("holdfast.storage")

_OWN_FILES = ("LOG", "LOCK", "rocksdict-config.json")  # written by every process that opens a table
_OPTIONS = "OPTIONS-"  # nobody reads these again
_PAUSES_S = (*(0.005 * (attempt % 8 + 1) for attempt in range(320)), 0.0)  # 7 s in all, to follow a writer that opens


@dataclass(frozen=True, slots=True)
class TableKind:
    """The name of a table in messages, its error, and the repair."""

    noun: str
    damaged: type[Damaged]
    repair: str  # a command
    packed: bool = False  # rows are texts worth compressing

    def failure(self, error: Exception, path: Path) -> HoldfastError:
        """Classifies an error of the binding, which is only a text."""
        text = str(error)
        if "No space left" in text or "File too large" in text or "quota exceeded" in text:
            return VolumeFull(f"no space left for {self.noun} '{path}': {text}")
        if "Permission denied" in text or "Read-only file system" in text:
            return Denied(f"not permitted to use {self.noun} '{path}': {text}")
        if "already closed" in text:
            return UsageError(f"{self.noun} '{path}' is closed")
        return self.damaged(f"cannot read {self.noun} '{path}': {text}; run '{self.repair}'")


class Table:
    """An open table. Any thread may read; one at a time may write."""

    def __init__(self, path: Path, kind: TableKind, *, cache_bytes: int, follow: bool = False) -> None:
        """With `follow`, another process writes the table; `catch_up` shows its writes."""
        self.path = path
        self.kind = kind
        self._cache_bytes = cache_bytes
        self._mirror: _Mirror | None = None
        try:
            with self._failures():
                self._db = self._opened(follow=follow)
        except HoldfastError:
            self._forget_mirror()
            raise

    def _opened(self, *, follow: bool) -> Rdict:
        options = _options(self._cache_bytes, packed=self.kind.packed)
        if not follow:
            return Rdict(str(self.path), options)
        for pause_s in _PAUSES_S:
            try:
                return self._followed(options)
            except Exception as error:
                is_passing = self._is_passing(error)
                self._forget_mirror()
                if not pause_s or not is_passing:
                    raise
                time.sleep(pause_s)
        raise AssertionError("the last attempt has no pause after it")

    def _followed(self, options: Options) -> Rdict:
        """Opens a mirror. Fails if the writer removed files meanwhile.

        RocksDB passes over a log or a file that is gone, and would show an older state, or none at all.
        """
        self._mirror = _Mirror(self.path, self.kind.noun)
        access = AccessType.secondary(str(self._mirror.diary))
        db = Rdict(str(self._mirror.path), options, access_type=access)
        if self._mirror.has_lost_files:
            db.close()
            raise Busy(f"the files of {self.kind.noun} '{self.path}' keep changing; try again")
        return db

    @property
    def mirror(self) -> Path | None:
        """The directory of a follower's links."""
        return self._mirror.path if self._mirror else None

    def get(self, key: bytes) -> bytes | None:
        try:  # inlined: the hottest call
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self.kind.failure(error, self.path) from error
        return value

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        with self._failures():
            found: list[bytes | None] = self._db.get([*keys]) or []
        return found

    def scan(self, start: bytes, end: bytes | None = None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys from `start` to before `end` with their values, as of the first step; ascending, or descending.

        A key or value from the binding's cursor costs 0.1 µs, a step of a generator as much: see `range`.
        """
        with self._failures():
            cursor = self._db.iter()
            valid, key_of, value_of = cursor.valid, cursor.key, cursor.value
            if reverse:
                _seek_before(cursor, end)
                step = cursor.prev
                while valid() and (key := key_of()) >= start:
                    yield key, value_of()
                    step()
            else:
                cursor.seek(start)
                step = cursor.next
                while valid() and (end is None or key_of() < end):
                    yield key_of(), value_of()
                    step()
            cursor.status()

    def range(self, start: bytes, end: bytes, most: int = sys.maxsize) -> list[tuple[bytes, bytes]]:
        """As `scan`, as a list: for short ranges, or the first `most` keys of one."""
        found = self._short_range(start, end, most)
        return found if found is not None else self._checked_range(start, end, most)

    def _short_range(self, start: bytes, end: bytes, most: int) -> list[tuple[bytes, bytes]] | None:
        """By the binding's own iterator, three times as fast; None if that ended, which may be damage."""
        found: list[tuple[bytes, bytes]] = []
        try:
            pairs: Iterator[tuple[bytes, bytes]] = self._db.items(from_key=start)  # type: ignore[assignment]
            for pair in pairs:
                if pair[0] >= end or len(found) >= most:
                    return found
                found.append(pair)
        except Exception as error:
            raise self.kind.failure(error, self.path) from error
        return None

    def _checked_range(self, start: bytes, end: bytes, most: int) -> list[tuple[bytes, bytes]]:
        try:
            cursor = self._db.iter()
            cursor.seek(start)
            found: list[tuple[bytes, bytes]] = []
            while cursor.valid() and (key := cursor.key()) < end and len(found) < most:
                found.append((key, cursor.value()))
                cursor.next()
            cursor.status()
        except Exception as error:
            raise self.kind.failure(error, self.path) from error
        return found

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """The last key from `start` to before `end`, with its value."""
        try:
            cursor = self._db.iter()
            _seek_before(cursor, end)
            if cursor.valid() and (key := cursor.key()) >= start:
                return key, cursor.value()
            cursor.status()
        except Exception as error:
            raise self.kind.failure(error, self.path) from error
        return None

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        """Atomic; deletes come first. Not synced."""
        batch = WriteBatch(raw_mode=True)
        delete, put = batch.delete, batch.put
        for key in deletes:
            delete(key)
        for key, value in puts:
            put(key, value)
        self.write_batch(batch)

    def write_batch(self, batch: WriteBatch) -> None:
        """As `write`, for a batch that was made with `raw_mode`."""
        try:
            self._db.write(batch)
        except Exception as error:
            raise self.kind.failure(error, self.path) from error

    def sync(self) -> None:
        """Makes all writes durable."""
        with self._failures():
            self._db.flush_wal(True)

    def compact(self, deleted: Sequence[bytes] | None = None) -> None:
        """Removes deleted rows from the disk. Durable on return.

        Given the keys, rewrites only files that may hold them: by first byte, from the least to the greatest.
        """
        ranges: dict[bytes, tuple[bytes, bytes]] = {}
        for key in deleted or ():
            least, greatest = ranges.get(key[:1], (key, key))
            ranges[key[:1]] = (min(least, key), max(greatest, key))
        with self._failures():
            self._db.flush(True)
            options = CompactOptions()
            options.set_bottommost_level_compaction(BottommostLevelCompaction.force())  # otherwise deleted keys stay
            for start, end in [(None, None)] if deleted is None else ranges.values():
                self._db.compact_range(start, end, options)

    def catch_up(self) -> None:
        """Shows a follower everything written so far, even if the writer rebuilt the table."""
        assert self._mirror is not None
        with self._failures():
            if self._mirror.is_of_another():
                return self.reopen()
            with suppress(Exception):  # a file may appear between its two steps: try again
                return self._come_up()
            try:
                self._come_up()
            except Exception as error:
                if not self._is_passing(error):
                    raise
                self.reopen()

    def _come_up(self) -> None:
        assert self._mirror is not None
        self._mirror.update()
        self._db.try_catch_up_with_primary()
        if self._mirror.has_lost_a_log:
            self.reopen()

    def reopen(self) -> None:
        """Opens the table again, after its files changed under the follower.

        Reads in progress finish with the old state: the binding keeps it open for them.
        """
        before = self._mirror
        assert before is not None
        try:
            with self._failures():
                self._db = self._opened(follow=True)
        except HoldfastError:
            self._mirror = before
            self.abandon()  # its state is outdated
            raise
        before.remove()

    def close(self) -> None:
        """Flushes and closes. On a full disk the rows stay in the log, which the next writer reads."""
        try:
            with self._failures():
                if self._mirror is None:
                    self._db.flush(True)
        except HoldfastError as error:
            log.warning("could not flush %s '%s', its next opening takes longer: %s", self.kind.noun, self.path, error)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes without flushing errors: the binding closes first and then reports what it could not flush."""
        with suppress(Exception):
            self._db.close()
        self._forget_mirror()

    def _is_passing(self, error: Exception) -> bool:
        """True if files changed while they were read, as they do when their writer opens them."""
        return "Try again" in str(error) or (self._mirror is not None and not self._mirror.is_current)

    def _forget_mirror(self) -> None:
        if self._mirror is not None:
            self._mirror.remove()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except HoldfastError:
            raise
        except Exception as error:  # the binding has no specific errors
            raise self.kind.failure(error, self.path) from error


class _Mirror:
    """Links to the files of a table that is only read: the binding writes beside the files it opens."""

    def __init__(self, source: Path, noun: str) -> None:
        self._source = source.absolute()
        self._scratch = ScratchDirectory(noun)
        self.path, self.diary = self._scratch.path / "mirror", self._scratch.path / "diary"
        self.path.mkdir()
        self._linked: set[str] = set()
        self._logs: set[str] = set()  # ever linked
        try:
            self.update()
            self._identity = self._source_identity()
        except BaseException:
            self.remove()
            raise

    def update(self) -> None:
        """Follows the files that the writer added and removed."""
        there = self._names()
        for name in there - self._linked:
            os.symlink(self._source / name, self.path / name)
        for name in self._linked - there:
            os.unlink(self.path / name)
        self._linked = there
        self._logs |= {name for name in there if name.endswith(".log")}

    @property
    def has_lost_a_log(self) -> bool:
        """True if a log is gone, whose end may not have been read."""
        return not self._logs <= self._names()

    @property
    def has_lost_files(self) -> bool:
        """True if a linked file is gone."""
        return any(not name.startswith(_OPTIONS) for name in self._linked - self._names())

    @property
    def is_current(self) -> bool:
        """True if exactly the present files are linked."""
        return self._names() == self._linked

    def _names(self) -> set[str]:
        return {name for name in os.listdir(self._source) if not name.startswith(_OWN_FILES)}

    def is_of_another(self) -> bool:
        """True if a new table has replaced the mirrored one."""
        return self._source_identity() != self._identity

    def _source_identity(self) -> bytes:
        path = self._source / "IDENTITY"
        return path.read_bytes() if path.exists() else b""

    def remove(self) -> None:
        self._scratch.remove()


def verify_table(path: Path, kind: TableKind, *, cache_bytes: int) -> None:
    """Reads every byte of a table, which another process may have open. Raises the kind's `damaged`.

    A follower would silently return to an older state where a file is damaged.
    """
    try:
        mirror = _Mirror(path, kind.noun)
        try:
            options = _options(cache_bytes, packed=kind.packed)
            _read_all(Rdict(str(mirror.path), options, access_type=AccessType.read_only()))
        finally:
            mirror.remove()
    except Exception as error:
        raise kind.failure(error, path) from error


def _read_all(db: Rdict) -> None:
    try:
        cursor = db.iter()
        cursor.seek_to_first()
        while cursor.valid():
            cursor.next()
        cursor.status()
    finally:
        db.close()


def _seek_before(cursor: RdictIter, end: bytes | None) -> None:
    """Moves to the last key before `end`."""
    if end is None:
        return cursor.seek_to_last()
    cursor.seek_for_prev(end)
    if cursor.valid() and cursor.key() == end:
        cursor.prev()


def _options(cache_bytes: int, *, packed: bool) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(16 << 20)
    options.set_max_write_buffer_number(3)
    options.set_max_total_wal_size(64 << 20)
    options.set_keep_log_file_num(1)
    options.set_max_background_jobs(2)
    options.set_max_open_files(-1)
    table = BlockBasedOptions()
    if packed:
        options.set_compression_type(DBCompressionType.zstd())
        # Long keys make an index of megabytes, which would evict itself from the cache: 800 µs per lookup, not 10.
        table.set_index_type(BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
        table.set_pin_top_level_index_and_filter(True)
    table.set_block_cache(Cache(cache_bytes))
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_bloom_filter(10, False)
    table.set_format_version(5)
    options.set_block_based_table_factory(table)
    return options
