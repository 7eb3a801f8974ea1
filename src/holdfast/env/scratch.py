"""A directory for temporary files that is removed with its process, however that ends.

While it is used, a file in it is locked. A killed process leaves the directory, but no lock; the first directory that a
later process of the same user makes in the same place removes what others have left.
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
_LOCK = "lock"  # in the directory; what has none is not ours to remove
_swept: set[str] = set()  # places that this process has looked through


class ScratchDirectory:
    """Made empty, but for its lock. One thread at a time."""

    def __init__(self, noun: str) -> None:
        place = gettempdir()
        if place not in _swept:
            _swept.add(place)
            _sweep(Path(place))
        descriptor = -1
        while descriptor < 0:  # again, if a sweeper was there between its making and its lock
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
    """A process that was forked leaves it to the one that made it."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)


def _lock(directory: Path) -> int:
    """The descriptor of its lock, held; -1 if a living process holds it, or the directory has gone."""
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
