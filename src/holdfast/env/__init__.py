"""The world outside the process, and plumbing that knows nothing of archives.

`Environment` is the only way to files, syncs, clock and randomness. Everything that must survive a crash goes through
`Files`, so that a test can put a forgetful file system (`holdfast.testing.forgetful`) in its place and cut the power at
any write or sync. The derived RocksDB directories do not: they may vanish at any time without loss.

    files, lock, paths, scratch    the file system: operations, locks, names, temporary directories
    table                          a sorted table on RocksDB
    child_process, thread_map      work in other processes and threads
    uninterruptible                sections that Ctrl-C must not cut
    lru, units, rabin              a cache, sizes and durations, a fingerprint
"""

from __future__ import annotations

import secrets
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
    random_bytes: Callable[[int], bytes] = secrets.token_bytes


REAL = Environment(files=LocalFiles())

__all__ = ["REAL", "Environment", "File", "Files", "LocalFiles", "RewritableFile", "WriterLock", "brief_lock"]
