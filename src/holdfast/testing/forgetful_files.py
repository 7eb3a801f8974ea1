"""A file system in memory that forgets unsynced data.

    files = ForgetfulFiles(fuse=17)             # the 17th point is not completed
    with pytest.raises(PowerCut):
        fill_a_store(files)
    disk = files.after_power_cut(Random(seed))  # what a real disk could hold now

Every create, append, write, allocate, truncate, sync, rename, remove, sync_directory and new directory is one *point*.
A power cut leaves

- of a file, its bytes as of the last sync; of the bytes appended since none, all, a prefix, or some with 512-byte
  sectors turned into zeros or garbage; of the truncations since, the first few; of each sector overwritten since, any
  of its versions, or garbage;
- of a directory, its names as of the last sync_directory and the first few changes since, for each directory
  separately. A synced file can lose its name. A rename is atomic, also between directories.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import RLock
from weakref import WeakSet

from holdfast.env.files import Buffer, File, RewritableFile, translated_errors

_SECTOR_BYTES = 512


def refusal(code: int) -> OSError:
    return OSError(code, os.strerror(code))


@dataclass(slots=True)
class Image:
    """Bytes of a file. Those below `floor` are on the disk, except the `lost` ranges, whose sync failed."""

    data: bytearray = field(default_factory=bytearray)
    floor: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    versions: dict[int, list[bytes]] = field(default_factory=dict)  # of sectors overwritten since the last sync

    def write(self, offset: int, data: bytes) -> None:
        assert offset + len(data) <= len(self.data), "only existing bytes can be overwritten"
        first = offset - offset % _SECTOR_BYTES
        for begin in range(first, min(offset + len(data), self.floor), _SECTOR_BYTES):
            self.versions.setdefault(begin, []).append(bytes(self.data[begin : begin + _SECTOR_BYTES]))
        self.data[offset : offset + len(data)] = data

    def after_power_cut(self, random: Random) -> bytearray:
        fate = random.choice(("none", "all", "prefix", "torn", "torn prefix"))
        end = self.floor if fate == "none" else len(self.data)
        if "prefix" in fate:
            end = random.randint(self.floor, end)
        data = self.data[:end]
        if "torn" in fate and self.floor < end:
            sectors = range(self.floor - self.floor % _SECTOR_BYTES, end, _SECTOR_BYTES)
            for begin in random.sample(sectors, random.randint(1, len(sectors))):
                _spoil(data, max(begin, self.floor), begin + _SECTOR_BYTES, random)
        for start, stop in self.lost:
            _spoil(data, start, stop, random)
        self._choose_versions(data, random)
        return data

    def _choose_versions(self, data: bytearray, random: Random) -> None:
        """The disk may have written any of them, in any order, or a part of one."""
        fate = random.choice(("old", "new", "any", "any", "spoilt"))
        for begin, versions in self.versions.items():
            end = min(begin + _SECTOR_BYTES, len(data))
            if fate == "old":
                data[begin:end] = versions[0][: end - begin]
            elif fate != "new" and (older := random.randint(0, len(versions))) < len(versions):
                data[begin:end] = versions[older][: end - begin]
            if fate == "spoilt" and random.random() < 0.1:
                _spoil(data, begin, end, random)


def _spoil(data: bytearray, start: int, stop: int, random: Random) -> None:
    length = max(0, min(stop, len(data)) - start)
    data[start : start + length] = random.choice((bytes(length), random.randbytes(length)))


@dataclass(slots=True, eq=False)
class Inode:
    """A file without its name. `earlier` has the image before each truncation that is not yet durable."""

    image: Image = field(default_factory=Image)
    earlier: list[Image] = field(default_factory=list)

    def truncate(self, size: int) -> None:
        image = self.image
        if size < len(image.data):
            self.earlier.append(image)
            lost = [(start, min(stop, size)) for start, stop in image.lost if start < size]
            versions = {begin: list(each) for begin, each in image.versions.items() if begin < size}
            self.image = Image(image.data[:size], min(image.floor, size), lost, versions)
        else:
            image.data.extend(bytes(size - len(image.data)))

    def sync(self, *, fail: bool) -> None:
        image = self.image
        if fail:  # as on Linux, the pages count as clean: no later sync writes them
            image.lost.append((image.floor, len(image.data)))
            image.lost += [(begin, begin + _SECTOR_BYTES) for begin in image.versions]
            raise refusal(errno.EIO)
        self.earlier.clear()
        image.versions.clear()
        image.floor = len(image.data)

    def forget(self, random: Random) -> None:
        data = random.choice([*self.earlier, self.image]).after_power_cut(random)
        self.image, self.earlier = Image(data, len(data)), []


_UNLIMITED_BYTES = 1 << 40  # of a disk without `capacity`


class PowerCut(BaseException):
    """The machine is off. Not an Exception, so that no product code handles it."""


@dataclass(slots=True, eq=False)
class _Directory:
    """Names: `entries` as programs see them, `kept` on the disk, `journal` the changes in between."""

    entries: dict[str, _Node] = field(default_factory=dict)
    kept: dict[str, _Node] = field(default_factory=dict)
    journal: list[_Change] = field(default_factory=list)

    def sync(self) -> None:
        while self.journal:
            self.journal[0].settle()


_Node = Inode | _Directory


@dataclass(slots=True, eq=False)
class _Change:
    """One atomic change of names; None removes a name."""

    steps: list[tuple[_Directory, str, _Node | None]]

    def happen(self) -> None:
        for directory, name, node in self.steps:
            _put(directory.entries, name, node)
            if self not in directory.journal[-1:]:
                directory.journal.append(self)

    def settle(self) -> None:
        """Makes the change durable, after all earlier changes of its directories."""
        for directory, _, _ in self.steps:
            while directory.journal[0] is not self:
                directory.journal[0].settle()
        for directory, name, node in self.steps:
            _put(directory.kept, name, node)
            if self in directory.journal[:1]:
                directory.journal.pop(0)


def _put(names: dict[str, _Node], name: str, node: _Node | None) -> None:
    names.pop(name, None)
    if node:
        names[name] = node


def _dump(directory: _Directory, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name, node in directory.entries.items():
        if isinstance(node, _Directory):
            _dump(node, target / name)
        else:
            (target / name).write_bytes(node.image.data)


@dataclass(slots=True, eq=False, weakref_slot=True)
class ForgetfulFile:
    """An open file of a ForgetfulFiles. It outlives its name; `close` works without power."""

    path: Path
    _files: ForgetfulFiles
    _inode: Inode
    _writable: bool
    _end: int
    _open: bool = True

    def append(self, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        with self._usable(writable=True):
            stored = self._inode.image.data
            # A LocalFile would overwrite what the other handle wrote, or leave a hole.
            assert self._end == len(stored), f"'{self.path}' was changed through another handle"
            part = data[: self._files._room()]
            try:
                self._files._point("append", self.path)
            except PowerCut:
                stored += part[: Random(self._files.points).randint(0, len(part))]
                raise
            stored += part
            self._end = len(stored)
            if len(part) < len(data):
                raise refusal(errno.ENOSPC)

    def read(self, offset: int, length: int) -> bytes:
        with self._usable():
            if offset < 0 or length < 0:
                raise refusal(errno.EINVAL)
            return bytes(self._inode.image.data[offset : offset + length])

    def size(self) -> int:
        with self._usable():
            return len(self._inode.image.data)

    def sync(self) -> None:
        with self._usable():
            self._files._point("sync", self.path)
            self._files.syncs += 1
            self._inode.sync(fail=self._files.syncs == self._files.fail_sync_at)

    def truncate(self, size: int) -> None:
        with self._usable():
            if not self._writable or size < 0:
                raise refusal(errno.EINVAL)
            self._files._point("truncate", self.path)
            self._inode.truncate(size)
            self._end = size

    def write(self, offset: int, data: Buffer) -> None:
        with self._usable(writable=True):
            try:
                self._files._point("write", self.path)
            except PowerCut:
                self._inode.image.write(offset, bytes(data[: Random(self._files.points).randint(0, len(data))]))
                raise
            self._inode.image.write(offset, bytes(data))

    def allocate(self, size: int) -> None:
        with self._usable(writable=True):
            missing = size - len(self._inode.image.data)
            self._files._point("allocate", self.path)
            if missing > self._files._room():
                raise refusal(errno.ENOSPC)
            self._inode.image.data.extend(bytes(max(0, missing)))
            self._end = len(self._inode.image.data)

    def close(self) -> None:
        self._open = False

    @contextmanager
    def _usable(self, *, writable: bool = False) -> Iterator[None]:
        with self._files._powered(), translated_errors(self.path):
            if not self._open or (writable and not self._writable):
                raise refusal(errno.EBADF)
            yield


class ForgetfulFiles:
    """A `Files` in memory, with an empty root at first. Relative paths start there.

    Any thread may call anything; each call is atomic. After the power cut every call raises PowerCut, except `close`,
    `after_power_cut`, `copy`, `load` and `dump`. The settings may change between calls: `files.fuse = files.points +
    3`.
    """

    def __init__(
        self, fuse: int | None = None, *, capacity: int | None = None, fail_sync_at: int | None = None
    ) -> None:
        self.fuse = fuse  # the point, counted from 1, in which the power fails
        self.capacity = capacity  # bytes of all files; an append beyond it writes what fits and fails
        self.fail_sync_at = fail_sync_at  # the file sync, counted from 1, that fails
        self.history: list[str] = []  # the points so far, such as "append /archive/000001.seg"
        self.syncs = 0  # file syncs so far
        self._off = False
        self._directories = [_Directory()]  # all ever made, the root first
        self._handles: WeakSet[ForgetfulFile] = WeakSet()
        self._lock = RLock()

    @property
    def points(self) -> int:
        """The number of points started, including an interrupted one."""
        return len(self.history)

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        return self._opened(path, writable=writable, create=create)

    def open_rewritable(self, path: Path, *, create: bool = False) -> RewritableFile:
        return self._opened(path, writable=True, create=create)

    def _opened(self, path: Path, *, writable: bool, create: bool) -> ForgetfulFile:
        with self._powered(), translated_errors(path):
            if create:
                self._point("create", path)
                self._create(path, Inode())
            node = self._node(path)
            if isinstance(node, _Directory):
                raise refusal(errno.EISDIR)
            file = ForgetfulFile(path, self, node, writable, len(node.image.data))
            self._handles.add(file)
            return file

    def names(self, directory: Path) -> list[str]:
        with self._powered(), translated_errors(directory), suppress(FileNotFoundError):
            return sorted(self._directory(directory).entries)
        return []

    def exists(self, path: Path) -> bool:
        with self._powered(), suppress(FileNotFoundError, NotADirectoryError):
            return bool(self._node(path))
        return False

    def is_directory(self, path: Path) -> bool:
        with self._powered():
            return self.exists(path) and isinstance(self._node(path), _Directory)

    def make_directory(self, path: Path) -> None:
        """Makes earlier changes in the parent durable, too, as LocalFiles does."""
        with self._powered():
            if self.is_directory(path):
                return
            self.make_directory(path.parent)
            with translated_errors(path):
                self._point("make_directory", path)
                self._create(path, directory := _Directory())
                self._directories.append(directory)
                self._directory(path.parent).sync()

    def rename(self, old: Path, new: Path) -> None:
        with self._powered(), translated_errors(old):
            self._point("rename", old, new)
            source, target = self._directory(old.parent), self._directory(new.parent)
            node, replaced = self._node(old), target.entries.get(new.name)
            if node is replaced:
                return
            if isinstance(replaced, _Directory) and (replaced.entries or isinstance(node, Inode)):
                raise refusal(errno.ENOTEMPTY)
            if isinstance(node, _Directory) and (isinstance(replaced, Inode) or new.is_relative_to(old)):
                raise refusal(errno.EINVAL)
            _Change([(source, old.name, None), (target, new.name, node)]).happen()

    def remove(self, path: Path) -> None:
        with self._powered(), translated_errors(path):
            self._point("remove", path)
            with suppress(FileNotFoundError):
                if isinstance(self._node(path), _Directory):
                    raise refusal(errno.EISDIR)
                _Change([(self._directory(path.parent), path.name, None)]).happen()

    def sync_directory(self, path: Path) -> None:
        with self._powered(), translated_errors(path):
            self._point("sync_directory", path)
            self._directory(path).sync()

    def free_bytes(self, path: Path) -> int:
        with self._powered(), translated_errors(path):
            self._node(path)
            return self._room()

    def after_power_cut(self, random: Random) -> ForgetfulFiles:
        """A disk as the power cut, or one now, could have left it: everything durable, the power on."""
        after = self.copy()
        for directory in after._directories:
            for change in directory.journal[: random.randint(0, len(directory.journal))]:
                if change in directory.journal:  # not yet settled by a rename into another directory
                    change.settle()
        for directory in after._directories:
            directory.entries = dict(directory.kept)
            directory.journal.clear()
        for inode in after._inodes():
            inode.forget(random)
        return after

    def copy(self, fuse: int | None = None) -> ForgetfulFiles:
        """A copy of all data, durable or not; counters at zero, the power on."""
        twin = ForgetfulFiles(fuse, capacity=self.capacity)
        with self._lock:
            twin._directories = deepcopy(self._directories)
        return twin

    def load(self, directory: Path) -> None:
        """Replaces everything with a real directory, durably: its 'a/b' becomes '/a/b'."""
        assert directory.is_dir(), f"'{directory}' is not a directory"
        with self._lock:
            self._directories = []
            self._load(directory)

    def dump(self, directory: Path) -> None:
        """Writes everything, durable or not, to a real directory: '/a/b' becomes its 'a/b'."""
        with self._lock:
            _dump(self._directories[0], directory)

    def _load(self, path: Path) -> _Node:
        if not path.is_dir():
            data = bytearray(path.read_bytes())
            return Inode(Image(data, len(data)))
        directory = _Directory()
        self._directories.append(directory)
        directory.entries = {child.name: self._load(child) for child in sorted(path.iterdir())}
        directory.kept = dict(directory.entries)
        return directory

    @contextmanager
    def _powered(self) -> Iterator[None]:
        with self._lock:
            if self._off:
                raise PowerCut("the power is off")
            yield

    def _point(self, kind: str, *paths: Path) -> None:
        self.history.append(" ".join([kind, *map(str, paths)]))
        if self.fuse is not None and self.points >= self.fuse:
            self._off = True
            raise PowerCut(f"the power went off in point {self.points}: {self.history[-1]}")

    def _node(self, path: Path) -> _Node:
        node: _Node = self._directories[0]
        for name in path.parts[1:] if path.anchor else path.parts:
            if isinstance(node, Inode):
                raise refusal(errno.ENOTDIR)
            if name not in node.entries:
                raise refusal(errno.ENOENT)
            node = node.entries[name]
        return node

    def _directory(self, path: Path) -> _Directory:
        node = self._node(path)
        if isinstance(node, Inode):
            raise refusal(errno.ENOTDIR)
        return node

    def _create(self, path: Path, node: _Node) -> None:
        parent = self._directory(path.parent)
        if path.name in parent.entries:
            raise refusal(errno.EEXIST)
        _Change([(parent, path.name, node)]).happen()

    def _room(self) -> int:
        if self.capacity is None:
            return _UNLIMITED_BYTES
        inodes = {*self._inodes(), *(file._inode for file in self._handles if file._open)}
        return max(0, self.capacity - sum(len(inode.image.data) for inode in inodes))

    def _inodes(self) -> list[Inode]:
        named = (node for directory in self._directories for node in directory.entries.values())
        return [node for node in named if isinstance(node, Inode)]
