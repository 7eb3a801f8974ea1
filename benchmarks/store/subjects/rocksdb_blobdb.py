"""RocksDB with blob files: SHA-256 keys, zstd blobs, write batches of 16 that are synced."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.harness.process import Unavailable
from benchmarks.store.subject import Facts, Session
from benchmarks.store.workload import Workload

_GROUP = 16


class RocksdbBlobdb:
    """Each caller has its own write batch; RocksDB joins batches of callers that wait for the same sync."""

    facts: ClassVar[Facts] = Facts(
        name="rocksdb",
        title="RocksDB BlobDB zstd",
        durable="groups of 16 documents",
        workloads=frozenset(Workload),
        packages=("rocksdict",),
    )

    def open(self, directory: Path) -> None:
        try:
            import rocksdict
        except ImportError as failure:
            raise Unavailable(str(failure)) from failure
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_enable_blob_files(True)
        options.set_min_blob_size(256)
        options.set_blob_compression_type(rocksdict.DBCompressionType.zstd())
        self._db: Any = rocksdict.Rdict(str(directory / "db"), options)

    def session(self) -> Session:
        return _Batches(self._db)

    def scan(self) -> Iterator[bytes]:
        yield from self._db.values()

    def close(self) -> None:
        self._db.flush()
        self._db.close()


class _Batches:
    def __init__(self, db: Any) -> None:
        import rocksdict

        self._db = db
        self._batch: Any = rocksdict.WriteBatch
        self._durably: Any = rocksdict.WriteOptions()
        self._durably.sync = True

    def store(self, documents: Sequence[bytes]) -> list[bytes]:
        keys = []
        batch = self._batch(raw_mode=True)
        for document in documents:
            key = hashlib.sha256(document).digest()
            keys.append(key)
            if key not in self._db:
                batch.put(key, document)
            batch = self._write(batch, _GROUP)
        self._write(batch, 1)
        return keys

    def store_again(self, documents: Sequence[bytes], handles: Sequence[bytes]) -> None:
        self.store(documents)

    def fetch(self, handles: Sequence[bytes]) -> Iterator[bytes]:
        get = self._db.get
        for key in handles:
            yield get(key)

    def delete(self, handles: Sequence[bytes]) -> None:
        batch = self._batch(raw_mode=True)
        for key in handles:
            batch.delete(key)
            batch = self._write(batch, _GROUP)
        self._write(batch, 1)

    def close(self) -> None:
        pass

    def _write(self, batch: Any, at_least: int) -> Any:
        """Writes the batch if it holds enough, and returns the one to go on with."""
        if len(batch) < at_least:
            return batch
        self._db.write(batch, self._durably)
        return self._batch(raw_mode=True)
