"""The files of a hash volume: pages one after the other, after a header of 4096 bytes.

buckets-1     buckets 0, 1, 2, ... in the order of signatures; buckets-2 has twice as many
overflow      overflow buckets and runs of large blocks

byte  text
----  ------------------------------------------------------------
   0  HOLDFAST-BUCKETS/1 9f3a61c2\\n                magic and version, uid of the volume
  28  generation 000001 pages 00000064 bytes 00065536\\n
      of the file (0: overflow); pages it was created with; bytes of each
  76  crc32 1a2b3c4d\\n\\n                           of the 76 bytes before
  92  zeros
4096  pages
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.env import Environment, File, RewritableFile, paths
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock
from holdfast.storage import block
from holdfast.storage.identity import Identity
from holdfast.storage.volumes.hash.page import PageId
from holdfast.storage.volumes.log.segment import check_version

FILE_HEADER_BYTES: Final = 4096
OVERFLOW_FILE: Final = 0
_MAGIC = b"HOLDFAST-BUCKETS/"
_FORMAT = b"HOLDFAST-BUCKETS/1 %b\ngeneration %06d pages %08d bytes %08d\n"
_CHECKED_BYTES = 76
_NAME = re.compile(paths.BUCKETS + r"-(\d{1,6})")


class FileHeader(NamedTuple):
    """The first bytes of a file of pages."""

    uid: bytes
    generation: int
    pages: int
    page_bytes: int

    def pack(self) -> bytes:
        text = _FORMAT % self
        assert len(text) == _CHECKED_BYTES
        return (text + b"crc32 %08x\n\n" % block.checksum(text)).ljust(FILE_HEADER_BYTES, b"\0")


class HashFiles:
    """Any thread may read; one at a time writes, creates and removes."""

    def __init__(
        self,
        env: Environment,
        directory: Path,
        identity: Identity,
        recorded_pages: Callable[[int], int | None] | None = None,
    ) -> None:
        """`recorded_pages`: pages a file was created with, in case its header is damaged; by default from its size."""
        self.directory = directory
        self.uid = identity.uid
        self.page_bytes = identity.shape
        self._recorded_pages = recorded_pages or self._pages_by_size
        self._env = env
        self._lock = threading.Lock()
        self._readers: dict[int, tuple[File, int]] = {}  # with the number of their pages
        self._writers: dict[int, RewritableFile] = {}

    def path(self, file: int) -> Path:
        return self.directory / (f"{paths.BUCKETS}-{file}" if file else paths.OVERFLOW)

    def generations(self) -> list[int]:
        """Of the existing bucket files, ascending."""
        matches = map(_NAME.fullmatch, self._env.files.names(self.directory))
        return sorted(int(match[1]) for match in matches if match)

    def offset(self, page: PageId) -> int:
        """Of the page in its file."""
        return FILE_HEADER_BYTES + page.number * self.page_bytes

    def check_header(self, file: int) -> FileHeader:
        """Raises FileNotFoundError, FormatTooNew or DamagedBlock."""
        return self._header(self._env.files.open(self.path(file)), file)

    def _header(self, opened: File, file: int) -> FileHeader:
        raw = opened.read(0, FILE_HEADER_BYTES)
        check_version(raw, _MAGIC, opened.path)
        found = b"crc32 %08x\n\n" % block.checksum(raw[:_CHECKED_BYTES])
        if raw[_CHECKED_BYTES : _CHECKED_BYTES + 16] != found:
            raise DamagedBlock(
                f"cannot read the header of '{opened.path}' at 0: checksum {found[6:14].decode()} does not match; "
                "run 'holdfast check --repair'"
            )
        header = FileHeader(raw[19:27], int(raw[39:45]), int(raw[52:60]), int(raw[67:75]))
        if (header.uid, header.generation, header.page_bytes) != (self.uid, file, self.page_bytes):
            raise DamagedBlock(
                f"'{opened.path}' is of another volume or generation: expected {file} with pages of "
                f"{self.page_bytes} bytes, found {header}; run 'holdfast check --repair'"
            )
        return header

    def pages(self, file: int) -> int:
        """Pages a file was created with: by its header or, if that is damaged, as recorded elsewhere.

        Raises FileNotFoundError, FormatTooNew or DamagedBlock.
        """
        return self._reader(file)[1]

    def _reader(self, file: int) -> tuple[File, int]:
        with self._lock:
            known = self._readers.get(file)
            if known is None:
                opened = self._env.files.open(self.path(file))
                try:
                    pages = self._header(opened, file).pages
                except DamagedBlock:
                    recorded = self._recorded_pages(file)
                    if recorded is None:
                        raise
                    pages = recorded
                known = self._readers[file] = (opened, pages)
            return known

    def _pages_by_size(self, file: int) -> int:
        return max(0, self._env.files.open(self.path(file)).size() - FILE_HEADER_BYTES) // self.page_bytes

    def read(self, page: PageId, pages: int = 1) -> bytes:
        """The bytes of consecutive pages; fewer at the end of the file. Raises as `pages`."""
        return self._reader(page.file)[0].read(self.offset(page), pages * self.page_bytes)

    def read_at(self, file: int, offset: int, length: int) -> bytes:
        return self._reader(file)[0].read(offset, length)

    def size(self, file: int) -> int:
        return self._reader(file)[0].size()

    def forget(self) -> None:
        """Opens every file again at its next use. Handles in use stay valid."""
        with self._lock:
            self._readers.clear()

    # -- writing ------------------------------------------------------------------------------------------------

    def create(self, file: int, pages: int, images: dict[int, Buffer] | None = None) -> None:
        """Creates or replaces a file with these pages, the others zeros. Durable on return."""
        path, files = self.path(file), self._env.files
        draft = path.with_name(path.name + paths.UNFINISHED)
        files.remove(draft)
        opened = files.open_rewritable(draft, create=True)
        opened.allocate(FILE_HEADER_BYTES + pages * self.page_bytes)
        opened.write(0, self._packed_header(file, pages))
        for number, image in (images or {}).items():
            opened.write(self.offset(PageId(file, number)), image)
        opened.sync()
        opened.close()
        files.rename(draft, path)
        files.sync_directory(self.directory)
        with self._lock:
            self._readers.pop(file, None)
            self._writers.pop(file, None)

    def mend(self, file: int, pages: int) -> None:
        """Rewrites the header of a file and extends it to `pages`. Durable on return."""
        writer = self._writer(file)
        writer.allocate(FILE_HEADER_BYTES + pages * self.page_bytes)
        writer.write(0, self._packed_header(file, pages if file else 0))
        writer.sync()
        self.forget()

    def _packed_header(self, file: int, pages: int) -> bytes:
        return FileHeader(self.uid, file, pages, self.page_bytes).pack()

    def allocate(self, file: int, pages: int) -> None:
        """Reserves disk space for this many pages. Raises VolumeFull."""
        self._writer(file).allocate(FILE_HEADER_BYTES + pages * self.page_bytes)

    def write(self, page: PageId, image: Buffer) -> None:
        """Overwrites the page with the image, padded with zeros. Not synced."""
        whole = bytes(image) + bytes(self.page_bytes - len(image))
        self._writer(page.file).write(self.offset(page), whole)

    def cut(self, file: int, pages: int) -> None:
        """Truncates the file to this many pages."""
        self._writer(file).truncate(FILE_HEADER_BYTES + pages * self.page_bytes)

    def sync(self) -> None:
        """Makes everything written durable."""
        for writer in list(self._writers.values()):
            writer.sync()

    def remove(self, file: int) -> None:
        """Not durable by itself: opening the volume repeats it."""
        with self._lock:
            self._readers.pop(file, None)
            self._writers.pop(file, None)
        self._env.files.remove(self.path(file))

    def _writer(self, file: int) -> RewritableFile:
        writer = self._writers.get(file)
        if writer is None:
            writer = self._writers[file] = self._env.files.open_rewritable(self.path(file))
        return writer

    def close(self) -> None:
        with self._lock:
            self._readers.clear()
            self._writers.clear()
