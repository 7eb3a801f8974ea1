"""The stores under test, one file each. A subject is imported only in the process that runs it."""

from __future__ import annotations

from importlib import import_module

from benchmarks.harness.process import Unavailable
from benchmarks.store.subject import Facts, Subject
from holdfast.errors import UnknownName

SUBJECTS: dict[str, str] = {
    "holdfast": "holdfast_store:HoldfastStore",
    "holdfast-batches": "holdfast_store:HoldfastBatches",
    "files": "files_fsync:FilesFsync",
    "warcio": "warcio_warc:WarcioWarc",
    "fastwarc": "fastwarc_warc:FastWarc",
    "sqlite": "sqlite_blobs:SqliteBlobs",
    "rocksdb": "rocksdb_blobdb:RocksdbBlobdb",
    "seaweedfs": "seaweedfs:Seaweedfs",
}


def subject_class(name: str) -> type[Subject]:
    """The class of a subject. Its package is needed only when it opens, so this never fails for a known name."""
    if name not in SUBJECTS:
        raise UnknownName(f"no subject {name!r}: known are {', '.join(SUBJECTS)}")
    module, _, attribute = SUBJECTS[name].partition(":")
    found: type[Subject] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return found


def facts(name: str) -> Facts:
    return subject_class(name).facts


__all__ = ["SUBJECTS", "Unavailable", "facts", "subject_class"]
