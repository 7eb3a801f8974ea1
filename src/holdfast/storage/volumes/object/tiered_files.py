"""The file system under an object-store volume: its directory first, the store for segments that are not there.

| file | where |
|---|---|
| segments | here until they are uploaded, then in the store; one that is opened for writing comes back |
| VOLUME, dictionaries | in both: in the store before they have their name here |
| everything else, and other directories | here |

Threads: as `Files`. The uploader calls `settle_upload` and `deleted`; nobody else changes what is uploaded, except by
removing segments.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from holdfast.env import paths
from holdfast.env.files import Buffer, File, Files, RewritableFile, read_file, replace_file
from holdfast.errors import DamagedBlock, HoldfastError
from holdfast.storage.volumes.object import upload_list as catalogue
from holdfast.storage.volumes.object.ownership import Ownership
from holdfast.storage.volumes.object.range_cache import ObjectFile, RangeCache
from holdfast.storage.volumes.object.upload_list import HEAD_BYTES, Uploaded

log = logging.getLogger("holdfast.storage.volumes.object")
_COPY_BYTES = 4 << 20


class Uploads(Protocol):
    """Who takes staged segments away."""

    def add(self, name: str) -> None:
        """The segment is complete and to be uploaded."""

    def doom(self, keys: Sequence[str]) -> None:
        """Objects to be deleted, once all that was added before is uploaded."""

    def make_room(self) -> None:
        """Waits until staging is not full. Raises VolumeFull if that cannot be, Replaced if we may not write."""


class TieredFile:
    """A segment that is open, here or in the store; while it is open it may go from here to there."""

    __slots__ = ("__weakref__", "_before_append", "file", "path")

    def __init__(self, path: Path, file: File, before_append: Callable[[], None]) -> None:
        self.path = path
        self.file = file  # exchanged when the segment has been uploaded; whoever reads holds the old one
        self._before_append = before_append

    def append(self, buffers: Sequence[Buffer]) -> None:
        self._before_append()
        self.file.append(buffers)

    def read(self, offset: int, length: int) -> bytes:
        return self.file.read(offset, length)

    def size(self) -> int:
        return self.file.size()

    def sync(self) -> None:
        self.file.sync()

    def truncate(self, size: int) -> None:
        self.file.truncate(size)

    def close(self) -> None:
        self.file.close()


class TieredFiles:
    """A `Files` for one volume. With `follow`, another process may be writing to the volume."""

    def __init__(
        self, local: Files, directory: Path, ownership: Ownership, cache_bytes: int, *, follow: bool = True
    ) -> None:
        self.local = local
        self.directory = directory
        self.ownership = ownership
        self.bucket = ownership.bucket
        self.cache = RangeCache(self.bucket, cache_bytes)
        self.uploads: Uploads | None = None
        self._follow = follow
        self._lock = threading.RLock()
        self._raw = b""  # of the file `uploaded` as last read or written
        self._uploaded: dict[str, Uploaded] = {}
        self._absent: set[str] = set()  # uploaded, but not in the store any more
        self._doomed: list[str] = []
        self._dooming: list[str] = []  # removed, and not yet noted in the file
        self._handles: dict[str, WeakSet[TieredFile]] = {}

    # -- what is in the store -----------------------------------------------------------------------------------

    @property
    def _catalogue_path(self) -> Path:
        return self.directory / paths.UPLOADED

    def load(self) -> bool:
        """Reads the file `uploaded`; False if there is none that can be read, and nothing is known."""
        with self._lock:
            try:
                raw = read_file(self.local, self._catalogue_path)
                if raw != self._raw:
                    self._uploaded, self._doomed = catalogue.parse(raw, self._catalogue_path)
                    self._raw = raw
                    self._switch_handles()
            except FileNotFoundError:
                return False
            except DamagedBlock as error:
                log.warning("%s", error)
                return False
        return True

    def look(self) -> None:
        """Asks the store which of the segments it should have are there: the others count as missing."""
        present = self.bucket.sizes(catalogue.SEGMENTS)
        with self._lock:
            self._absent = {each.name for each in self._uploaded.values() if each.key not in present}

    def reconcile(self) -> None:
        """As `look`, by the owner: what a crash left there unknown is to be deleted.

        Raises Busy if the store has more of our own than we remember: then this directory is an old copy.
        """
        present = self.bucket.sizes(catalogue.SEGMENTS)
        with self._lock:
            self._absent = {each.name for each in self._uploaded.values() if each.key not in present}
            here, prefix = self.staged(), catalogue.segment_key(self.ownership.term, "")
            known = [*here, *self._uploaded]
            newest = max(((paths.parse_segment_name(name) or (0, 0))[0] for name in known), default=0)
            own = {key.removeprefix(prefix): size for key, size in present.items() if key.startswith(prefix)}
            for name, size in own.items():
                number = (paths.parse_segment_name(name) or (0, 0))[0]
                if number > newest or (name in here and size > self._size(name)):
                    raise self.ownership.outdated(prefix + name)
                if name not in known and prefix + name not in self._doomed:
                    self._doomed.append(prefix + name)

    def _size(self, name: str) -> int:
        file = self.local.open(self.directory / name)
        try:
            return file.size()
        finally:
            file.close()

    def adopt(self) -> None:
        """Makes the file `uploaded` anew from what the store holds. Durable on return."""
        found, late = catalogue.adopt(self.bucket.sizes(catalogue.SEGMENTS))
        heads = self.bucket.pool.map(lambda each: self.bucket.read(each.key, 0, HEAD_BYTES), found.values())
        with self._lock:
            self._uploaded = {
                each.name: Uploaded(each.name, each.term, each.size, head)
                for each, head in zip(found.values(), heads, strict=True)
            }
            self._absent, self._doomed = set(), late
            self._write_catalogue()

    def uploaded(self, name: str) -> Uploaded | None:
        with self._lock:
            return self._uploaded.get(name)

    @property
    def any_uploaded(self) -> bool:
        return bool(self._uploaded)

    @property
    def doomed(self) -> list[str]:
        with self._lock:
            return list(self._doomed)

    def _write_catalogue(self) -> None:
        raw = catalogue.pack(self._uploaded, self._doomed)
        replace_file(self.local, self._catalogue_path, raw)
        self._raw = raw

    # -- for the uploader ---------------------------------------------------------------------------------------

    def staged(self) -> list[str]:
        """The segments that are here, in order."""
        names = [name for name in self.local.names(self.directory) if paths.parse_segment_name(name)]
        return sorted(names, key=lambda name: paths.parse_segment_name(name) or (0, 0))

    def settle_upload(self, facts: Uploaded, *, keep: bool) -> None:
        """The store holds the segment, byte for byte. Noted durably; then, unless `keep`, the file here goes."""
        path = self.directory / facts.name
        with self._lock:
            self.cache.forget(facts.key)
            if not self.local.exists(path):  # compacted while it was on its way
                self._doomed.append(facts.key)
                self._write_catalogue()
                return
            before = self._uploaded.get(facts.name)
            self._uploaded[facts.name] = facts
            self._absent.discard(facts.name)
            if before is not None and before.key != facts.key:
                self._doomed.append(before.key)
            self._write_catalogue()
            if not keep:
                self.local.remove(path)
                self.local.sync_directory(self.directory)
                self._switch_handles()

    def is_read(self, key: str) -> bool:
        """Whether somebody still has the segment open that this object is."""
        with self._lock:
            return len(self._handles.get(key.rpartition("/")[2], ())) > 0

    def deleted(self, keys: Sequence[str]) -> None:
        """The objects are gone from the store."""
        with self._lock:
            self._doomed = [key for key in self._doomed if key not in keys]
            self._write_catalogue()
        for key in keys:
            self.cache.forget(key)

    def _switch_handles(self) -> None:
        """Who has a segment open that has moved reads on where it is now; so the disk gets its space back."""
        self._handles = {name: handles for name, handles in self._handles.items() if handles}
        for name, handles in self._handles.items():
            facts, path = self._uploaded.get(name), self.directory / name
            if self.local.exists(path):
                for handle in handles:
                    if isinstance(handle.file, ObjectFile):
                        handle.file = self.local.open(path)
            elif facts is not None:
                for handle in handles:
                    handle.file = ObjectFile(path, facts, self.cache)

    # -- Files --------------------------------------------------------------------------------------------------

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        name = self._segment(path)
        if name is None:
            return self.local.open(path, writable=writable, create=create)
        if create or self.local.exists(path):
            try:
                return self._opened(path, name, self.local.open(path, writable=writable, create=create))
            except FileNotFoundError:
                pass  # uploaded just now
        if self._follow:
            self.load()
        facts = self.uploaded(name)
        if facts is None or name in self._absent:
            raise FileNotFoundError(2, "no such segment here or in the store", str(path))
        if writable:
            self._bring_back(path, facts)
            return self._opened(path, name, self.local.open(path, writable=True))
        return self._opened(path, name, ObjectFile(path, facts, self.cache))

    def _opened(self, path: Path, name: str, file: File) -> File:
        opened = TieredFile(path, file, self._before_append)
        with self._lock:
            self._handles.setdefault(name, WeakSet()).add(opened)
        return opened

    def _before_append(self) -> None:
        if self.uploads is not None:
            self.uploads.make_room()

    def _bring_back(self, path: Path, facts: Uploaded) -> None:
        """A copy of the segment is here, durably. The object stays until the segment is uploaded anew."""
        source = ObjectFile(path, facts, self.cache)
        draft = path.with_name(path.name + paths.UNFINISHED)
        self.local.remove(draft)
        file = self.local.open(draft, writable=True, create=True)
        for offset in range(0, facts.size, _COPY_BYTES):
            file.append([source.read(offset, _COPY_BYTES)])
        file.sync()
        file.close()
        self.local.rename(draft, path)
        self.local.sync_directory(self.directory)
        with self._lock:
            self._switch_handles()

    def open_rewritable(self, path: Path, *, create: bool = False) -> RewritableFile:
        return self.local.open_rewritable(path, create=create)  # only what stays here is overwritten

    def names(self, directory: Path) -> list[str]:
        if directory != self.directory:
            return self.local.names(directory)
        # Here first: what is uploaded meanwhile is noted before it goes from here.
        here = self.local.names(directory)
        if self._follow:
            self.load()
        with self._lock:
            return sorted({*here, *self._uploaded.keys() - self._absent})

    def exists(self, path: Path) -> bool:
        if self.local.exists(path):
            return True
        name = self._segment(path)
        if name is None:
            return False
        if self._follow:
            self.load()
        with self._lock:
            return name in self._uploaded and name not in self._absent

    def is_directory(self, path: Path) -> bool:
        return self.local.is_directory(path)

    def make_directory(self, path: Path) -> None:
        self.local.make_directory(path)

    def rename(self, old: Path, new: Path) -> None:
        key, old_key = self._mirrored(new), self._mirrored(old)
        if key is not None:
            self.ownership.check()
            self.bucket.put(key, read_file(self.local, old))
        self.local.rename(old, new)
        if old_key is not None:
            self.bucket.delete(old_key)
        parsed = paths.parse_segment_name(new.name) if self._segment(new) else None
        if parsed is not None and parsed[1] > 0 and self.uploads is not None:
            self.uploads.add(new.name)  # made by a compaction, and complete

    def remove(self, path: Path) -> None:
        key, name = self._mirrored(path), self._segment(path)
        with self._lock:
            self.local.remove(path)
            if name is not None and (facts := self._uploaded.pop(name, None)) is not None:
                self._dooming.append(facts.key)
        if key is not None:
            self.ownership.check()
            self.bucket.delete(key)

    def sync_directory(self, path: Path) -> None:
        """What was removed is noted before it is deleted in the store, so that no reader looks for it there."""
        self.local.sync_directory(path)
        if path != self.directory:
            return
        with self._lock:
            dooming, self._dooming = self._dooming, []
            if dooming:
                self._doomed += dooming
                self._write_catalogue()
        if dooming and self.uploads is not None:
            self.uploads.doom(dooming)

    def free_bytes(self, path: Path) -> int:
        return self.local.free_bytes(path)

    # -- kinds of files -----------------------------------------------------------------------------------------

    def _segment(self, path: Path) -> str | None:
        """The name of a segment of this volume, finished or not."""
        name = path.name
        if path.parent == self.directory and name.removesuffix(paths.UNFINISHED).endswith(".seg"):
            return name
        return None

    def _mirrored(self, path: Path) -> str | None:
        """The key of a file that is also in the store."""
        if path == self.directory / paths.VOLUME:
            return paths.VOLUME
        if path.parent == self.directory / paths.DICTIONARIES and not path.name.endswith(paths.UNFINISHED):
            return f"{paths.DICTIONARIES}/{path.name}"
        return None

    def restore(self) -> None:
        """VOLUME and dictionaries are in both places. What is in both is left alone."""
        remote = {paths.VOLUME: 0} if self.bucket.size(paths.VOLUME) is not None else {}
        remote |= self.bucket.sizes(f"{paths.DICTIONARIES}/")
        shelf = self.directory / paths.DICTIONARIES
        here = [shelf / name for name in self.local.names(shelf)] + [self.directory / paths.VOLUME]
        for path in here:
            key = self._mirrored(path)
            if key is not None and key not in remote and self.local.exists(path):
                self.ownership.check()
                self.bucket.put(key, read_file(self.local, path))
        for key in remote:
            path = self.directory / key
            if not self.local.exists(path):
                self.local.make_directory(path.parent)
                replace_file(self.local, path, self.bucket.get(key))

    def restore_identity(self) -> None:
        """VOLUME comes back from the store, in the place of what is here."""
        try:
            replace_file(self.local, self.directory / paths.VOLUME, self.bucket.get(paths.VOLUME))
        except (FileNotFoundError, HoldfastError) as error:
            log.warning("'%s' could not be restored from the store: %s", self.directory / paths.VOLUME, error)
