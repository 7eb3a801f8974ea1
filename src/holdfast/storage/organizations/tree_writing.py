"""The writing half of the `tree` organization."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from holdfast.env import Environment
from holdfast.env.files import replace_file
from holdfast.errors import DamagedBlock, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, HEADER_BYTES, REPLICA, Header
from holdfast.storage.identity import Identity
from holdfast.storage.organizations.compaction import Compaction, Progress
from holdfast.storage.organizations.tree import BlockFile, TreeReading
from holdfast.storage.volume import (
    Adopt,
    BlockKey,
    Effect,
    Encoded,
    Operation,
    Outcome,
    Recount,
    Refer,
    Release,
    Store,
    next_key,
)

_STRIPES = 256
_DRAFTS = "drafts"
OPEN = "OPEN"  # there while a writer has the volume open
_NOTHING = Encoded("none", 0, 0, b"")


class TreeVolume(TreeReading):
    """A tree volume open for writing. Access to one signature is exclusive; each operation is durable by itself."""

    def __init__(self, name: str, directory: Path, identity: Identity, env: Environment) -> None:
        super().__init__(name, directory, identity, env)
        self._drafts = directory / _DRAFTS
        self._marker = directory / OPEN
        self._locks = [threading.Lock() for _ in range(_STRIPES)]
        self._counter_lock = threading.Lock()
        self._directory_lock = threading.Lock()
        self._changes = int.from_bytes(env.random_bytes(7), "big")  # never the same in two openings
        for leftover in env.files.names(self._drafts):
            env.files.remove(self._drafts / leftover)
        for made in (self._tree, self._drafts):
            env.files.make_directory(made)
        if env.files.exists(self._marker):
            self._settle(self._tree)
            self._dictionaries.settle()
            env.files.sync_directory(directory)
        else:
            replace_file(env.files, self._marker, b"open for writing; if no process has it open, it was not closed\n")

    def position(self) -> int:
        return self._changes

    def commit(self, operations: Sequence[Operation]) -> list[Outcome]:
        return [self._perform(operation) for operation in operations]

    def _perform(self, operation: Operation) -> Outcome:
        signature = operation.signature if isinstance(operation, Store) else operation.key.signature
        with self._locks[signature[-1] % _STRIPES]:
            match operation:
                case Store():
                    return self._store(operation)
                case Adopt(key, encoded, references, replica):
                    self._write(REPLICA if replica else BLOCK, key, encoded, references)
                    return Outcome(Effect.NEW, key, references, len(encoded.data))
                case Refer(key):
                    return self._count(key, +1)
                case Release(key):
                    return self._count(key, -1)
                case Recount(key, references, expected):
                    return self._recount(key, references, expected)

    def _store(self, store: Store) -> Outcome:
        files = self.files_of(store.signature)
        for file in files if not store.force_new else ():
            if file.header.home or file.header.size != store.encoded.size:
                continue
            if store.compared is None:
                self._require_whole(file)
                self._append_count(file, file.references + 1)
                return Outcome(Effect.DUPLICATE, file.key, file.references + 1, file.header.stored)
            if file.key not in store.compared:
                return Outcome(Effect.UNSURE, file.key)
        taken = [file.header.overflow + 1 for file in files if not file.header.home]
        key = next_key(store.signature, max([store.overflow_min, *taken]))
        self._write(BLOCK, key, store.encoded, store.references)
        return Outcome(Effect.NEW, key, store.references, len(store.encoded.data))

    def _count(self, key: BlockKey, step: int) -> Outcome:
        file = self._file(key)
        return Outcome(Effect.MISSING, key) if file is None else self._set(file, file.references + step)

    def _recount(self, key: BlockKey, references: int, expected: int | None) -> Outcome:
        file = self._file(key)
        if file is None:
            return Outcome(Effect.MISSING, key)
        if expected is not None and file.references != expected:
            return Outcome(Effect.CONFLICT, key, file.references, file.header.stored)
        return self._set(file, references)

    def _set(self, file: BlockFile, references: int) -> Outcome:
        if references:
            self._append_count(file, references)
            return Outcome(Effect.COUNTED, file.key, references, file.header.stored)
        self._env.files.remove(file.path)
        self._env.files.sync_directory(file.path.parent)
        self._note_change()
        return Outcome(Effect.REMOVED, file.key, 0, file.header.stored)

    def _file(self, key: BlockKey) -> BlockFile | None:
        try:
            file = self.read(self.path(key))
        except FileNotFoundError:
            return None
        self._require_whole(file)
        return file

    def _require_whole(self, file: BlockFile) -> None:
        """Opening cut off what was never acknowledged: an unreadable counter is damage, and its value is unknown."""
        if file.excess >= HEADER_BYTES:
            raise self._damaged(file.path, "a counter", f"{file.excess} unreadable bytes at {file.end}")

    # -- bytes ----------------------------------------------------------------------------------------------------

    def _write(self, kind: bytes, key: BlockKey, encoded: Encoded, references: int) -> None:
        self._publish(self.path(key), self._packed(kind, key, encoded, references, 1), encoded)
        self._note_change()

    def _publish(self, path: Path, packed: bytes, encoded: Encoded) -> None:
        files = self._env.files
        with self._directory_lock:  # a directory that another thread has made may not be durable yet
            files.make_directory(path.parent)
        draft = self._drafts / f"{threading.get_ident():x}"
        files.remove(draft)
        file = files.open(draft, writable=True, create=True)
        try:
            file.append([packed, encoded.data])
            file.sync()
        except VolumeFull:
            files.remove(draft)  # what fitted is in the way of smaller blocks
            raise
        finally:
            file.close()
        files.rename(draft, path)
        files.sync_directory(path.parent)

    def _append_count(self, file: BlockFile, references: int) -> None:
        """Appends to the block file. What fails is cut off: after a failed sync, no later one would write it."""
        handle = self._env.files.open(file.path, writable=True)
        try:
            if file.excess:
                handle.truncate(file.end)
            handle.append([self._packed(COUNT, file.key, _NOTHING, references, file.serial + 1)])
            handle.sync()
        except BaseException:
            handle.truncate(file.end)
            raise
        finally:
            handle.close()

    def _packed(self, kind: bytes, key: BlockKey, encoded: Encoded, references: int, serial: int) -> bytes:
        stored = len(encoded.data)
        checksum = block.checksum(encoded.data) if stored else 0
        return block.pack(
            Header(
                kind,
                self.identity.uid,
                serial,
                serial - 1,
                self.identity.signature.encode(),
                *key,
                encoded.codec.encode(),
                encoded.dictionary,
                encoded.size,
                stored,
                references,
                checksum,
            )
        )

    def _note_change(self) -> None:
        with self._counter_lock:
            self._changes += 1

    # -- dictionaries and space -----------------------------------------------------------------------------------

    def add_dictionary(self, number: int, data: bytes) -> None:
        self._dictionaries.add(number, data)

    def compact(self, progress: Progress | None) -> Compaction:
        """Folds counters that were appended to block files into their headers. Removed blocks take no space anyway."""
        files = before = after = 0
        for path in self.all_paths():
            signature = self.signature_of(path)
            if signature is None:
                continue
            with self._locks[signature[-1] % _STRIPES]:
                try:
                    file = self.read(path)
                except FileNotFoundError:
                    continue
                self._require_whole(file)
                if file.serial > file.header.serial:
                    self._fold(file)
                    files, before, after = files + 1, before + file.end, after + file.header.length
            if progress is not None:
                progress(file.end)
        return Compaction(files, before, after)

    def _fold(self, file: BlockFile) -> None:
        header = file.header
        encoded = Encoded(header.codec.decode(), header.dictionary, header.size, file.data)
        self._publish(file.path, self._packed(header.kind, file.key, encoded, file.references, 1), encoded)

    # -- opening and closing --------------------------------------------------------------------------------------

    def _settle(self, directory: Path) -> None:
        """After a crash: what is there stays, for a killed process may have left it unsynced."""
        files = self._env.files
        for name in files.names(directory):
            path = directory / name
            if files.is_directory(path):
                self._settle(path)
            else:
                self._settle_counter(path)
        files.sync_directory(directory)

    def _settle_counter(self, path: Path) -> None:
        """A counter that was being appended when the crash came was never acknowledged, and goes."""
        try:
            file = self.read(path)
        except DamagedBlock:
            return  # for `check` to report
        handle = self._env.files.open(path, writable=True)
        if handle.size() > file.end:
            handle.truncate(file.end)
        if handle.size() > file.header.length:
            handle.sync()
        handle.close()

    def close(self) -> None:
        """A clean close spares the next opening a walk through the tree."""
        self._env.files.remove(self._marker)
        self._env.files.sync_directory(self.directory)
