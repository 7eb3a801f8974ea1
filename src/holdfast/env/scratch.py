"""A temporary directory that is removed with its process, even if that is killed.

While it is in use, a file in it is locked. A killed process leaves the directory, but no lock; the next process of the
same user that creates one in the same place removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import weakref
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Self

_PREFIX = "holdfast-"
_LOCK = "lock"  # in the directory; without one it is not ours
_swept: set[str] = set()  # places that this process has searched


class ScratchDirectory:
    """Created empty except for its lock. One thread at a time."""

    def __init__(self, noun: str) -> None:
        place = gettempdir()
        if place not in _swept:
            _swept.add(place)
            _sweep(Path(place))
        descriptor = -1
        while descriptor < 0:  # again, if another process removed it before it was locked
            self.path = Path(mkdtemp(prefix=f"{_PREFIX}{noun}-", dir=place))
            os.close(os.open(self.path / _LOCK, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            descriptor = _lock(self.path)
        self._discard = weakref.finalize(self, _discard, self.path, descriptor, os.getpid())  # also at exit

    def remove(self) -> None:
        """Idempotent."""
        self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _discard(path: Path, descriptor: int, owner: int) -> None:
    """Does not remove the directory in a forked process."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)


def _lock(directory: Path) -> int:
    """The descriptor of its lock, held; -1 if another process holds it, or the directory is gone."""
    path = directory / _LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return -1
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():
            return descriptor
    os.close(descriptor)
    return -1


def _sweep(place: Path) -> None:
    """Removes directories whose processes have ended."""
    with suppress(OSError):
        for left in place.glob(f"{_PREFIX}*"):
            if left.is_symlink() or left.lstat().st_uid != os.getuid():
                continue
            if (descriptor := _lock(left)) >= 0:
                shutil.rmtree(left, ignore_errors=True)
                os.close(descriptor)
