"""The disk under the volumes: how long a read of so many bytes takes, and how to make the system forget."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

_CHUNK = 4 << 20
_ALIGNED = 4096


def forget(directory: Path) -> None:
    """The system drops what it has in memory of the files below; what is not on disk yet is written first."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


class DirectFile:
    """A file of random bytes, read past the system's cache where the file system allows it."""

    def __init__(self, directory: Path, size: int, random: Random) -> None:
        self._path = directory / "disk"
        self._size = size
        with self._path.open("wb") as file:
            for start in range(0, size, _CHUNK):
                file.write(random.randbytes(min(_CHUNK, size - start)))
            os.fsync(file.fileno())
        self.is_direct = True
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            self.is_direct = False
            self._descriptor = os.open(self._path, os.O_RDONLY)

    def read_ms(self, bytes_: int, reads: int, random: Random) -> float:
        """The median time of a read of so many bytes, a multiple of 4 KiB, at random places."""
        with mmap.mmap(-1, bytes_) as buffer:
            times = [self._one(buffer, self._place(bytes_, random)) for _ in range(reads)]
        return sorted(times)[len(times) // 2] * 1e3

    def _place(self, bytes_: int, random: Random) -> int:
        return random.randrange((self._size - bytes_) // _ALIGNED + 1) * _ALIGNED

    def _one(self, buffer: mmap.mmap, offset: int) -> float:
        if not self.is_direct:
            os.posix_fadvise(self._descriptor, offset, len(buffer), os.POSIX_FADV_DONTNEED)
        begun = time.perf_counter()
        os.preadv(self._descriptor, [buffer], offset)
        return time.perf_counter() - begun

    def close(self) -> None:
        os.close(self._descriptor)
        self._path.unlink()


def bucket_times(directory: Path, sizes: Sequence[int], file_bytes: int, reads: int) -> tuple[dict[int, float], bool]:
    """Milliseconds of a read of each size, and whether the caches were really out of the way."""
    random = Random(7)
    file = DirectFile(directory, max(file_bytes, 2 * max(sizes)), random)
    try:
        return {size: file.read_ms(size, reads, random) for size in sizes}, file.is_direct
    finally:
        file.close()
