"""Whether the archive that was opened is still the one that stands in its place.

A directory may be deleted and put back from a copy, and the catalog is put in place anew by `holdfast reindex`. Whoever
has the old files open goes on reading them, as if nothing had happened. The directories are held open meanwhile, so
that the system cannot give their numbers to others.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from holdfast.env.paths import CATALOG, SETTINGS
from holdfast.errors import VolumeDown


class ArchiveIdentity:
    """The directories of an archive as they were when it was opened. May be asked from any thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[Path, int] = {}
        weakref.finalize(self, _close, self._held)
        for path in (root, root / CATALOG):
            self._held[path] = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def is_same(self) -> bool:
        """Raises OSError if there is nothing in its place."""
        (self._root / SETTINGS).stat()
        return all(os.path.samestat(os.fstat(held), path.stat()) for path, held in self._held.items())

    def require_same(self) -> None:
        """Raises VolumeDown, and OSError if there is nothing in its place."""
        if not self.is_same:
            raise VolumeDown(f"the archive in '{self._root}' is another than the one that was opened: wait a moment")


def _close(held: dict[Path, int]) -> None:
    for descriptor in held.values():
        os.close(descriptor)
