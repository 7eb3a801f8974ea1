"""The writer's lock: one process writes to an archive or to a volume, any number read.

The lock is the kernel's (`flock`), so a killed writer never leaves it behind. The file's text names the holder.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from holdfast.env.files import translated_errors
from holdfast.errors import Busy


class WriterLock:
    """Held from construction to `release`. Raises Busy at once if another process or handle holds it."""

    def __init__(self, path: Path, purpose: str, *, subject: str = "archive") -> None:
        self._path = path
        with translated_errors(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise Busy(
                f"{subject} '{path.parent}' is being written by another process ({holder or 'unknown'}); "
                "wait for it to end, or open the archive for reading"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"pid {os.getpid()}, {purpose}\n".encode("utf-8", "replace"), 0)

    @staticmethod
    def holder(path: Path) -> int | None:
        """The process that holds the lock, read from the file: trying to take it would interfere.

        A killed process leaves its id behind, which counts while any process has that id.
        """
        try:
            match = re.match(rb"pid (\d{1,10}),", path.read_bytes()[:200])
        except OSError:
            return None
        number = int(match[1]) if match else 0
        return number if number and Path(f"/proc/{number}").exists() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """True if a process holds a lock on this file. Raises FileNotFoundError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def brief_lock(path: Path) -> Iterator[None]:
    """A lock for a few lines of code. Waits for it; creates the file if necessary."""
    with translated_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
