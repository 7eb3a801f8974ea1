"""The only door to the world outside the process: files, syncs, locks, clock and randomness.

Everything that must survive a crash goes through `Files`, so that a test can put a forgetful file system
(`holdfast.testing.forgetful`) in its place and cut the power at any write or sync. The derived RocksDB directories
do not: they may vanish at any time without loss.
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
    """What a component may ask of the outside world."""

    files: Files
    clock: Callable[[], float] = time.time  # seconds since the epoch
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random_bytes: Callable[[int], bytes] = secrets.token_bytes


REAL = Environment(files=LocalFiles())

__all__ = ["REAL", "Environment", "File", "Files", "LocalFiles", "RewritableFile", "WriterLock", "brief_lock"]
