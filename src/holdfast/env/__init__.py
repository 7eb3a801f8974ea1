"""The outside world, and generic plumbing.

`Environment` is the only access to files, syncs, clock and randomness. All durable data goes through `Files`, so that a
test can substitute a forgetful file system (`holdfast.testing.forgetful_files`) and cut the power at any write or sync.
Derived RocksDB directories bypass it: they may be lost at any time.

    files, lock, paths, scratch    the file system: operations, locks, names, temporary directories
    table                          a sorted table on RocksDB
    child_process, thread_map      work in other processes and threads
    uninterruptible                sections that Ctrl-C must not cut
    lru, units, rabin, plugins     a cache, sizes and durations, a fingerprint, entry points of installed packages
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.env.files import File, Files, LocalFiles, RewritableFile
from holdfast.env.lock import WriterLock, brief_lock


@dataclass(frozen=True, slots=True)
class Environment:
    """Access to the outside world, all of it replaceable in tests."""

    files: Files
    clock: Callable[[], float] = time.time  # seconds since the epoch
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random_bytes: Callable[[int], bytes] = os.urandom


REAL = Environment(files=LocalFiles())

__all__ = ["REAL", "Environment", "File", "Files", "LocalFiles", "RewritableFile", "WriterLock", "brief_lock"]
