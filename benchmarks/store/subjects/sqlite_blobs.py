"""SQLite: zstd blobs keyed by SHA-256 with a reference count, WAL, synchronous=FULL, a commit every 16 documents."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.harness.process import Unavailable
from benchmarks.store.subject import Facts, Session
from benchmarks.store.workload import Workload

_GROUP = 16
_SCHEMA = "CREATE TABLE IF NOT EXISTS blobs (key BLOB PRIMARY KEY, count INTEGER NOT NULL, data BLOB NOT NULL)"


class SqliteBlobs:
    """One writing connection that all callers share under a lock, and a reading one for each."""

    facts: ClassVar[Facts] = Facts(
        name="sqlite",
        title="SQLite zstd blobs",
        durable="groups of 16 documents",
        workloads=frozenset(Workload),
        packages=("zstandard",),
    )

    def open(self, directory: Path) -> None:
        try:
            import zstandard  # noqa: F401
        except ImportError as failure:
            raise Unavailable(str(failure)) from failure
        self._path = directory / "blobs.sqlite"
        self._writer = _Writer(self._path)

    def session(self) -> Session:
        return _Blobs(self._path, self._writer)

    def scan(self) -> Iterator[bytes]:
        import zstandard

        decompress = zstandard.ZstdDecompressor().decompress
        connection = sqlite3.connect(self._path)
        for (data,) in connection.execute("SELECT data FROM blobs ORDER BY rowid"):
            yield decompress(data)
        connection.close()

    def close(self) -> None:
        self._writer.close()


class _Writer:
    """Collects changes and commits every 16; any thread may call."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(_SCHEMA)
        self._lock = threading.Lock()
        self._pending = 0

    def add(self, key: bytes, data: bytes) -> None:
        statement = "INSERT INTO blobs VALUES (?, 1, ?) ON CONFLICT (key) DO UPDATE SET count = count + 1"
        with self._lock:
            self._change(statement, (key, data))

    def count_up(self, key: bytes) -> bool:
        """False if there is no such key."""
        with self._lock:
            return self._change("UPDATE blobs SET count = count + 1 WHERE key = ?", (key,)) > 0

    def count_down(self, key: bytes) -> None:
        with self._lock:
            if self._change("DELETE FROM blobs WHERE key = ? AND count = 1", (key,)) == 0:
                self._change("UPDATE blobs SET count = count - 1 WHERE key = ?", (key,))

    def commit(self) -> None:
        with self._lock:
            if self._pending:
                self._connection.execute("COMMIT")
            self._pending = 0

    def close(self) -> None:
        self.commit()
        self._connection.close()

    def _change(self, statement: str, values: tuple[bytes, ...]) -> int:
        if self._pending == 0:
            self._connection.execute("BEGIN IMMEDIATE")
        changed = self._connection.execute(statement, values).rowcount
        self._pending += 1
        if self._pending >= _GROUP:
            self._connection.execute("COMMIT")
            self._pending = 0
        return changed


class _Blobs:
    def __init__(self, path: Path, writer: _Writer) -> None:
        import zstandard

        self._writer = writer
        self._reader = sqlite3.connect(path, check_same_thread=False)
        self._compress = zstandard.ZstdCompressor(level=3).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def store(self, documents: Sequence[bytes]) -> list[bytes]:
        keys = []
        for document in documents:
            key = hashlib.sha256(document).digest()
            if not self._writer.count_up(key):
                self._writer.add(key, self._compress(document))
            keys.append(key)
        self._writer.commit()
        return keys

    def store_again(self, documents: Sequence[bytes], handles: Sequence[bytes]) -> None:
        self.store(documents)

    def fetch(self, handles: Sequence[bytes]) -> Iterator[bytes]:
        for key in handles:
            (data,) = self._reader.execute("SELECT data FROM blobs WHERE key = ?", (key,)).fetchone()
            yield self._decompress(data)

    def delete(self, handles: Sequence[bytes]) -> None:
        for key in handles:
            self._writer.count_down(key)
        self._writer.commit()

    def close(self) -> None:
        self._reader.close()
