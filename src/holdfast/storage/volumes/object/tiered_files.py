"""The file system of an object-store volume: its directory first, then the store.

| file | where |
|---|---|
| segments | local until uploaded, then in the store; downloaded again when opened for writing |
| VOLUME, dictionaries | in both: in the store first |
| everything else, and other directories | local |

Threads: as `Files`. Only the uploader changes what is uploaded, by `settle_upload` and `deleted`, except for segments
that are removed.

Large reads come from scans: they are served from windows of a fixed grid, with a few windows of read-ahead. Small reads
are single blocks, requested as they are. Both go through a bounded cache. Memory use is the cache and one window for
each request in flight.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from holdfast.env import paths
from holdfast.env.files import Buffer, File, Files, RewritableFile, read_file, replace_file
from holdfast.env.lru import LruCache
from holdfast.errors import DamagedBlock, Denied, HoldfastError
from holdfast.storage.volumes.object import upload_list as catalogue
from holdfast.storage.volumes.object.bucket import Bucket
from holdfast.storage.volumes.object.ownership import Attachment, Ownership
from holdfast.storage.volumes.object.upload_list import HEAD_BYTES, Uploaded

WINDOW_BYTES = 4 << 20
WALK_BYTES = 1 << 20  # reads of at least this size are scans
AHEAD = 2  # windows
CACHE_BYTES = 32 << 20  # recently read ranges, per volume


class ObjectGone(DamagedBlock, FileNotFoundError):
    """An object is no longer in the store: compacted since it was opened, or lost."""


class RangeCache:
    """Recently read ranges of all objects of a volume. Any thread may call."""

    def __init__(self, bucket: Bucket, bytes_max: int) -> None:
        self.bucket = bucket
        self._kept: LruCache[tuple[str, int], bytes] = LruCache(bytes_max, len)
        self._coming: dict[tuple[str, int], Future[bytes]] = {}
        self._lock = threading.Lock()

    def read(self, key: str, offset: int, length: int) -> bytes:
        """A small range."""
        start = offset - offset % WINDOW_BYTES
        with self._lock:
            for begin in (offset, start):
                kept = self._kept.get((key, begin))
                if kept is not None and offset - begin + length <= len(kept):
                    return kept[offset - begin : offset - begin + length]
        data = self.bucket.read(key, offset, length)
        with self._lock:
            self._kept.put((key, offset), data)
        return data

    def window(self, key: str, number: int) -> Future[bytes]:
        """A window of the grid, which may be in flight."""
        name = (key, number * WINDOW_BYTES)
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None and len(kept) > WALK_BYTES:  # a small range may begin there, too
                ready: Future[bytes] = Future()
                ready.set_result(kept)
                return ready
            coming = self._coming.get(name)
            if coming is not None:
                return coming
            coming = self._coming[name] = self.bucket.pool.submit(self.bucket.read, key, name[1], WINDOW_BYTES)
        coming.add_done_callback(lambda done: self._arrived(name, done))
        return coming

    def _arrived(self, name: tuple[str, int], done: Future[bytes]) -> None:
        with self._lock:
            self._coming.pop(name, None)
            if not done.cancelled() and done.exception() is None:
                self._kept.put(name, done.result())

    def forget(self, key: str) -> None:
        """The object has been replaced or removed."""
        with self._lock:
            for name in [name for name in self._kept if name[0] == key]:
                self._kept.pop(name)


class ObjectFile:
    """An object as a file that cannot be changed."""

    __slots__ = ("_cache", "_facts", "path")

    def __init__(self, path: Path, facts: Uploaded, cache: RangeCache) -> None:
        self.path = path
        self._facts = facts
        self._cache = cache

    def read(self, offset: int, length: int) -> bytes:
        """Raises ObjectGone if the object was compacted or lost."""
        head, size = self._facts.head, self._facts.size
        length = min(length, size - offset)
        if length <= 0:
            return b""
        if offset + length <= len(head):
            return head[offset : offset + length]
        try:
            if length < WALK_BYTES:
                return self._cache.read(self._facts.key, offset, length)
            return self._walk(offset, length)
        except FileNotFoundError:
            place = f"{self._cache.bucket.url}/{self._facts.key}"
            raise ObjectGone(f"'{place}' is missing; run 'holdfast check --repair'") from None

    def _walk(self, offset: int, length: int) -> bytes:
        key, last = self._facts.key, (self._facts.size - 1) // WINDOW_BYTES
        first, end = offset // WINDOW_BYTES, (offset + length - 1) // WINDOW_BYTES
        parts = []
        coming = [self._cache.window(key, number) for number in range(first, min(first + AHEAD, last) + 1)]
        for number in range(first, end + 1):
            if number + AHEAD <= last and number > first:
                coming.append(self._cache.window(key, number + AHEAD))
            window = coming.pop(0).result()
            start = number * WINDOW_BYTES
            parts.append(window[max(0, offset - start) : offset + length - start])
            if len(window) < min(WINDOW_BYTES, self._facts.size - start):
                break  # the object is too short
        return b"".join(parts)

    def size(self) -> int:
        return self._facts.size

    def append(self, buffers: Sequence[Buffer]) -> None:
        raise self._refusal()

    def truncate(self, size: int) -> None:
        raise self._refusal()

    def _refusal(self) -> Denied:
        return Denied(f"not permitted to change '{self.path}': it is in the store, which only holds whole segments")

    def sync(self) -> None:
        """Nothing to do: the store has synced it."""

    def close(self) -> None:
        """Nothing to do: no file is open."""


if TYPE_CHECKING:
    from holdfast.storage.volumes.object.uploader import Uploader

log = logging.getLogger("holdfast.storage.volumes.object")
_COPY_BYTES = 4 << 20


class TieredFile:
    """An open segment, local or in the store. It may be uploaded while it is open."""

    __slots__ = ("__weakref__", "_before_append", "file", "path")

    def __init__(self, path: Path, file: File, before_append: Callable[[], None]) -> None:
        self.path = path
        self.file = file  # replaced after the upload; readers in flight keep the old one
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
    """The `Files` of one volume. With `follow`, another process may be writing to the volume."""

    def __init__(
        self,
        local: Files,
        directory: Path,
        bucket: Bucket,
        attachment: Attachment,
        *,
        follow: bool,
    ) -> None:
        self.local = local
        self.directory = directory
        self.bucket = bucket
        self.ownership = Ownership(bucket, attachment, directory)
        self.cache = RangeCache(bucket, CACHE_BYTES)
        self.uploads: Uploader | None = None
        self._follow = follow
        self._lock = threading.RLock()
        self._raw = b""  # the file `uploaded` as last read or written
        self._uploaded: dict[str, Uploaded] = {}
        self._absent: set[str] = set()  # uploaded, but no longer in the store
        self._doomed: list[str] = []
        self._dooming: list[str] = []  # removed, not yet noted in the file
        self._handles: dict[str, WeakSet[TieredFile]] = {}

    # -- what is in the store -----------------------------------------------------------------------------------

    @property
    def _catalogue_path(self) -> Path:
        return self.directory / paths.UPLOADED

    def load(self) -> bool:
        """Reads the file `uploaded`; False if it is missing or unreadable."""
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

    def look(self) -> dict[str, int]:
        """Lists the store: uploaded segments that are not there count as missing."""
        present = self.bucket.sizes(catalogue.SEGMENTS)
        with self._lock:
            self._absent = {each.name for each in self._uploaded.values() if each.key not in present}
        return present

    def reconcile(self) -> None:
        """As `look`, for the owner: unknown objects left by a crash will be deleted.

        Raises Busy if the store has later segments of ours: then this directory is an old copy.
        """
        present, prefix = self.look(), catalogue.segment_key(self.ownership.term, "")
        own = {key.removeprefix(prefix): size for key, size in present.items() if key.startswith(prefix)}
        with self._lock:
            here = self.staged()
            known = [*here, *self._uploaded]
            newest = max(map(_number, known), default=0)
            for name, size in own.items():
                if _number(name) > newest or (name in here and size > self.size_here(name)):
                    raise self.ownership.outdated(prefix + name)
                if name not in known and prefix + name not in self._doomed:
                    self._doomed.append(prefix + name)

    def size_here(self, name: str) -> int:
        """Size of a segment in the directory; 0 if it is not there."""
        try:
            file = self.local.open(self.directory / name)
        except FileNotFoundError:
            return 0
        try:
            return file.size()
        finally:
            file.close()

    def adopt(self) -> None:
        """Rebuilds the file `uploaded` from the store. Durable on return."""
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
        """The local segments, in order."""
        names = [name for name in self.local.names(self.directory) if paths.parse_segment_name(name)]
        return sorted(names, key=lambda name: paths.parse_segment_name(name) or (0, 0))

    def settle_upload(self, facts: Uploaded, *, keep: bool) -> None:
        """Notes durably that the store holds the segment; then, unless `keep`, removes the local file."""
        path = self.directory / facts.name
        with self._lock:
            self.cache.forget(facts.key)
            if not self.local.exists(path):  # compacted during the upload
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
        """True if the segment of this object is still open."""
        with self._lock:
            return len(self._handles.get(key.rpartition("/")[2], ())) > 0

    def deleted(self, keys: Sequence[str]) -> None:
        """Notes that the objects were deleted from the store."""
        with self._lock:
            self._doomed = [key for key in self._doomed if key not in keys]
            self._write_catalogue()
        for key in keys:
            self.cache.forget(key)

    def _switch_handles(self) -> None:
        """Redirects open segments to where they are now, which frees the local disk."""
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
                pass  # just uploaded
        if self._follow:
            self.load()
        facts = self.uploaded(name)
        if facts is None or name in self._absent:
            raise FileNotFoundError(2, "no such segment, local or in the store", str(path))
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
        """Downloads the segment, durably. The object stays until the segment is uploaded again."""
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
        # Local first: a file uploaded meanwhile is noted before it is removed locally.
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
        """Notes removals before they reach the store, so that no reader looks for them there."""
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
        """The key of a file that is in both places."""
        if path == self.directory / paths.VOLUME:
            return paths.VOLUME
        if path.parent == self.directory / paths.DICTIONARIES and not path.name.endswith(paths.UNFINISHED):
            return f"{paths.DICTIONARIES}/{path.name}"
        return None

    def restore(self) -> None:
        """Copies VOLUME and dictionaries to where they are missing."""
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
        """Replaces the local VOLUME with that of the store."""
        try:
            replace_file(self.local, self.directory / paths.VOLUME, self.bucket.get(paths.VOLUME))
        except (FileNotFoundError, HoldfastError) as error:
            log.warning("'%s' could not be restored from the store: %s", self.directory / paths.VOLUME, error)


def _number(name: str) -> int:
    """The number of a segment; 0 for other names."""
    return (paths.parse_segment_name(name) or (0, 0))[0]
