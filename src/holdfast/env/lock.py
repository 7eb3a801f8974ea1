"""The writer's lock: one process writes to an archive, any number read.

The lock is the kernel's (`flock`), so a killed writer never leaves it behind. The file's text tells who holds it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from holdfast.env.files import translated_errors
from holdfast.errors import Busy


class WriterLock:
    """Held from construction to `release`. Raises Busy at once if another process, or another handle, holds it."""

    def __init__(self, path: Path, purpose: str) -> None:
        self._path = path
        with translated_errors(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise Busy(
                f"archive '{path.parent}' is being written by another process ({holder or 'unknown'}); "
                "wait for it to end, or open the archive for reading"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"pid {os.getpid()}, {purpose}\n".encode("utf-8", "replace"), 0)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)
