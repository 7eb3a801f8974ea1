"""Files as the storage code sees them: append, read at an offset, sync, and a handful of directory operations.

Durability: `append` alone guarantees nothing; after `sync` the file's bytes survive a power cut; a created, renamed or
removed name survives once `sync_directory` of its parent has returned.
Any thread may call any method; one thread at a time may append to a file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from holdfast.errors import Denied, HoldfastError, NotFound, VolumeDown, VolumeFull

Buffer = bytes | bytearray | memoryview
_BUFFERS_PER_WRITE = 512  # below IOV_MAX everywhere


class File(Protocol):
    """An open file that only grows at its end."""

    @property
    def path(self) -> Path: ...
    def append(self, buffers: Sequence[Buffer]) -> None:
        """Appends the buffers. On failure the file may have grown by a part of them."""

    def read(self, offset: int, length: int) -> bytes:
        """The bytes at `offset`; fewer than `length` only at the end of the file."""

    def size(self) -> int: ...
    def sync(self) -> None: ...
    def truncate(self, size: int) -> None: ...
    def close(self) -> None: ...


class RewritableFile(File, Protocol):
    """An open file that can be overwritten: before `sync`, a power cut may leave any mix of old and new bytes."""

    def write(self, offset: int, data: Buffer) -> None:
        """Overwrites bytes inside the file."""

    def allocate(self, size: int) -> None:
        """Extends the file to `size` with zeros, which can be overwritten without running out of space."""


class Files(Protocol):
    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        """Opens an existing file, or with `create` a new one that must not exist yet."""

    def open_rewritable(self, path: Path, *, create: bool = False) -> RewritableFile:
        """As `open`, for writing at any offset."""

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, sorted; none if it does not exist."""

    def exists(self, path: Path) -> bool: ...
    def is_directory(self, path: Path) -> bool: ...
    def make_directory(self, path: Path) -> None:
        """Creates the directory and missing parents, durably."""

    def rename(self, old: Path, new: Path) -> None: ...
    def remove(self, path: Path) -> None:
        """Removes a file; not an error if there is none."""

    def sync_directory(self, path: Path) -> None: ...
    def free_bytes(self, path: Path) -> int: ...


def replace_file(files: Files, path: Path, data: Buffer) -> None:
    """Replaces a file durably and atomically: after a crash it is whole, old or new."""
    _replace(files, path, data, lambda draft: files.open(draft, writable=True, create=True))


def replace_private_file(path: Path, data: Buffer) -> None:
    """As `replace_file`, with mode 600."""
    files = LocalFiles()
    _replace(files, path, data, files.create_private)


def _replace(files: Files, path: Path, data: Buffer, create: Callable[[Path], File]) -> None:
    draft = path.with_name(path.name + ".open")
    files.remove(draft)
    file = create(draft)
    try:
        file.append([data])
        file.sync()
    finally:
        file.close()
    files.rename(draft, path)
    files.sync_directory(path.parent)


def read_file(files: Files, path: Path) -> bytes:
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turns errors of the operating system into Holdfast's; a missing file stays FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise from_os_error(error, path) from error


def require_parent(path: Path) -> Path:
    """The path, if its directory exists. Raises NotFound, before anything is computed."""
    if not path.parent.is_dir():
        raise NotFound(f"cannot write '{path}': there is no directory '{path.parent}'")
    return path


def from_os_error(error: OSError, path: Path) -> HoldfastError:
    reason = error.strerror or str(error)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return VolumeFull(
                f"no space left for '{path}': {reason}; free some space or add a volume ('holdfast volume add')"
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Denied(f"not permitted to use '{path}': {reason}; check the owner and mode of the archive's files")
        case _:
            return VolumeDown(f"cannot use '{path}': {reason}")


class LocalFile:
    """A file of the operating system. The last reference closes the descriptor."""

    __slots__ = ("_descriptor", "_end", "path")

    def __init__(self, path: Path, flags: int, mode: int = 0o666) -> None:
        self.path = path
        self._descriptor = -1
        with translated_errors(path):
            self._descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
            self._end = os.fstat(self._descriptor).st_size

    def append(self, buffers: Sequence[Buffer]) -> None:
        try:
            for start in range(0, len(buffers), _BUFFERS_PER_WRITE):
                self._append_some(buffers[start : start + _BUFFERS_PER_WRITE])
        except OSError as error:
            raise from_os_error(error, self.path) from error

    def _append_some(self, buffers: Sequence[Buffer]) -> None:
        wanted = sum(map(len, buffers))
        written = os.pwritev(self._descriptor, buffers, self._end)
        self._end += written
        if written < wanted:  # a signal or a limit cut the write short
            rest = memoryview(b"".join(buffers))[written:]
            while rest:
                written = os.pwrite(self._descriptor, rest, self._end)
                self._end += written
                rest = rest[written:]

    def read(self, offset: int, length: int) -> bytes:
        try:  # inlined: the hottest call of reading
            data = os.pread(self._descriptor, length, offset)
        except OSError as error:
            raise from_os_error(error, self.path) from error
        if len(data) == length or not data:
            return data
        with translated_errors(self.path):
            parts = [data]  # one pread moves at most 2 GiB
            got = len(data)
            while got < length and (data := os.pread(self._descriptor, length - got, offset + got)):
                parts.append(data)
                got += len(data)
            return b"".join(parts)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise from_os_error(error, self.path) from error

    def truncate(self, size: int) -> None:
        with translated_errors(self.path):
            os.ftruncate(self._descriptor, size)
            self._end = size

    def write(self, offset: int, data: Buffer) -> None:
        rest = memoryview(data)
        with translated_errors(self.path):
            while rest:
                written = os.pwrite(self._descriptor, rest, offset)
                offset += written
                rest = rest[written:]

    def allocate(self, size: int) -> None:
        with translated_errors(self.path):
            have = os.fstat(self._descriptor).st_size
            if have < size:
                os.posix_fallocate(self._descriptor, have, size - have)
            self._end = max(have, size)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class LocalFiles:
    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        flags = os.O_RDWR if writable else os.O_RDONLY
        return LocalFile(path, flags | (os.O_CREAT | os.O_EXCL if create else 0))

    def create_private(self, path: Path) -> File:
        """Creates a file with mode 600."""
        return LocalFile(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)

    def open_rewritable(self, path: Path, *, create: bool = False) -> RewritableFile:
        return LocalFile(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0))

    def names(self, directory: Path) -> list[str]:
        try:
            with translated_errors(directory):
                return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        try:  # inlined: called before each reference is counted
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise from_os_error(error, path) from error
        return True

    def is_directory(self, path: Path) -> bool:
        with translated_errors(path):
            return path.is_dir()

    def make_directory(self, path: Path) -> None:
        if path.is_dir():
            return
        self.make_directory(path.parent)
        with translated_errors(path):
            path.mkdir(exist_ok=True)
        self.sync_directory(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        with translated_errors(old):
            os.rename(old, new)

    def remove(self, path: Path) -> None:
        with translated_errors(path):
            path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        with translated_errors(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def free_bytes(self, path: Path) -> int:
        with translated_errors(path):
            facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize
