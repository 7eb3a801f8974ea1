"""Measures a disk: seeks, reads and writes of one file, past the caches of the system."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from holdfast.errors import UsageError
from holdfast.plan.disk_model import MB, DiskSpeed

_PIECE = int(MB)
_BUCKET = 64 << 10
_SMALL = 4096
_READS = 200
FILE_BYTES = 256 * _PIECE


def measured_disk(
    directory: Path, file_bytes: int = FILE_BYTES, progress: Callable[[int], None] | None = None
) -> DiskSpeed:
    """The disk under a directory. Writes a file there and removes it. `progress` gets bytes written.

    Raises UsageError if the file cannot be written there.
    """
    if file_bytes < 4 * _PIECE:
        raise UsageError(
            f"cannot measure a disk with a file of {file_bytes:,} bytes: it must be {4 * _PIECE:,} or more"
        )
    try:
        with TemporaryDirectory(prefix=".holdfast-disk-", dir=directory) as scratch:
            return _measured(Path(scratch) / "file", file_bytes // _PIECE, progress or (lambda _: None))
    except OSError as error:
        raise UsageError(f"cannot measure the disk of '{directory}': {error.strerror}") from None


def _measured(path: Path, pieces: int, progress: Callable[[int], None]) -> DiskSpeed:
    random = Random(7)
    written_s = _write(path, pieces, random, progress)
    descriptor, is_direct = _opened(path)
    try:

        def read_ms(size: int, place: int) -> float:
            if not is_direct:
                os.posix_fadvise(descriptor, place, size, os.POSIX_FADV_DONTNEED)
            with mmap.mmap(-1, size) as buffer:
                begun = time.perf_counter()
                os.preadv(descriptor, [buffer], place)
                return (time.perf_counter() - begun) * 1e3

        def write_ms(place: int) -> float:
            with mmap.mmap(-1, _BUCKET) as buffer:
                buffer.write(random.randbytes(_BUCKET))
                begun = time.perf_counter()
                os.pwritev(descriptor, [buffer], place)
                return (time.perf_counter() - begun) * 1e3

        buckets = pieces * _PIECE // _BUCKET
        piece_ms = median(read_ms(_PIECE, at * _PIECE) for at in range(pieces))
        seek_ms = median(read_ms(_SMALL, random.randrange(buckets) * _BUCKET) for _ in range(_READS))
        near = random.randrange(buckets // 2)
        short_ms = median(read_ms(_SMALL, (near + 2 * at % 64) * _BUCKET) for at in range(_READS // 4))
        random_write_ms = median(write_ms(random.randrange(buckets) * _BUCKET) for _ in range(_READS // 2))
    finally:
        os.close(descriptor)
    read_mb_s = 1e3 / piece_ms
    write_mb_s = pieces / written_s
    turn_ms = max(0.0, random_write_ms - seek_ms - _BUCKET / MB / write_mb_s * 1e3)
    return DiskSpeed("measured", seek_ms, min(short_ms, seek_ms), turn_ms, read_mb_s, write_mb_s)


def _write(path: Path, pieces: int, random: Random, progress: Callable[[int], None]) -> float:
    """Seconds until all is on the disk."""
    piece = random.randbytes(_PIECE)
    begun = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(pieces):
            file.write(piece)
            progress(_PIECE)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begun


def _opened(path: Path) -> tuple[int, bool]:
    """A descriptor, and whether it goes past the cache: not every file system allows it."""
    try:
        return os.open(path, os.O_RDWR | os.O_DIRECT), True
    except OSError:
        return os.open(path, os.O_RDWR), False
