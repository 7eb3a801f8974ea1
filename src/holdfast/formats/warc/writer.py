"""Writing WARC files: one gzip member or one zstd frame per record, so that each can be read by itself.

    .warc       record │ record │ ...
    .warc.gz    member │ member │ ...                           WARC 1.1, annex D
    .warc.zst   frame │ frame │ ...                             each with content checksum

`RecordCompressor` turns records into such pieces and may be called from many threads at once: the work is done outside
the interpreter's lock. `WarcWriter` appends the pieces in one thread and knows offsets and lengths, exactly.
`WarcFiles` puts them into files of about 10^9 bytes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from socket import gethostname
from typing import Literal, NamedTuple, Protocol, Self

import zstandard
from isal import igzip_lib, isal_zlib

from holdfast.env import REAL, Environment, File
from holdfast.env.files import Buffer
from holdfast.errors import UsageError, VolumeDown
from holdfast.formats.dates import timestamp_at
from holdfast.formats.warc.compose import ID_BYTES, Version, WarcHead, record_id, warcinfo_parts

Compression = Literal["none", "gzip", "zstd"]
SUFFIXES: dict[Compression, str] = {"none": ".warc", "gzip": ".warc.gz", "zstd": ".warc.zst"}
# Level 2 of isal costs as much as level 1; level 3 is 3 % smaller at half the speed (pages of 19 KiB).
GZIP_LEVEL = 2
ZSTD_LEVEL = 3
OPEN_SUFFIX = ".open"  # of a file that is being written
_PENDING_BYTES_MAX = 1 << 20
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_GZIP_WINDOW = 31  # 15 bits, with gzip's header and trailer


class Sink(Protocol):
    """Where bytes go: any binary file will do."""

    def write(self, data: Buffer, /) -> int: ...


class _Stream(Protocol):
    """What compresses a record piece by piece."""

    def compress(self, data: Buffer, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _Plain:
    def compress(self, data: Buffer, /) -> bytes:
        return bytes(data)

    def flush(self) -> bytes:
        return b""


class RecordCompressor:
    """Compresses records for the file. Any thread may call any method."""

    def __init__(self, compression: Compression = "gzip") -> None:
        if compression not in SUFFIXES:
            raise UsageError(f"unknown compression {compression!r} of WARC files: expected 'none', 'gzip' or 'zstd'")
        self.compression = compression
        self._perthread = threading.local()  # zstd's compressors are costly to make and serve one thread at a time

    def compress_record(self, parts: Sequence[Buffer]) -> bytes:
        """The whole record, given in pieces, as one member or frame."""
        record = b"".join(parts)
        match self.compression:
            case "gzip":
                return igzip_lib.compress(record, GZIP_LEVEL, flag=igzip_lib.COMP_GZIP)
            case "zstd":
                return self._zstd().compress(record)
            case _:
                return record

    def stream(self, size: int | None = None) -> _Stream:
        """Compresses one record piece by piece; with its `size`, a zstd frame says how long its content is."""
        match self.compression:
            case "gzip":
                return isal_zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_WINDOW)
            case "zstd":  # a new one: a compressor serves one record at a time
                return _new_zstd().compressobj(size=-1 if size is None else size)
            case _:
                return _Plain()

    def _zstd(self) -> zstandard.ZstdCompressor:
        compressor: zstandard.ZstdCompressor | None = getattr(self._perthread, "compressor", None)
        if compressor is None:
            compressor = self._perthread.compressor = _new_zstd()
        return compressor


def _new_zstd() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True)


class WarcWriter:
    """Appends records to a sink, which stays the caller's: it is neither flushed nor closed. One thread at a time.

    Offsets count from where the sink stood when the writer was made. After a failed write the sink may hold a part of
    a record, so the writer refuses all further ones.
    """

    def __init__(
        self, sink: Sink, *, compression: Compression = "gzip", compressor: RecordCompressor | None = None
    ) -> None:
        self.compressor = compressor or RecordCompressor(compression)
        self.offset = 0  # of the next record
        self._sink = sink
        self._failed = False
        self._stream: _Stream | None = None
        self._begun_at = 0

    def write(self, parts: Sequence[Buffer]) -> tuple[int, int]:
        """Writes a record given in pieces (head, block, end); returns its offset and length in the file."""
        return self.append(self.compressor.compress_record(parts))

    def append(self, piece: bytes) -> tuple[int, int]:
        """Writes what `compressor.compress_record` made, here or in another thread; returns offset and length."""
        assert self._stream is None, "a record was begun and not ended"
        offset = self.offset
        self._append(piece)
        return offset, len(piece)

    def append_all(self, pieces: Sequence[bytes]) -> list[tuple[int, int]]:
        """As `append` for each, with one write."""
        assert self._stream is None, "a record was begun and not ended"
        lengths = list(map(len, pieces))
        offsets = accumulate(lengths, initial=self.offset)
        places = list(zip(offsets, lengths, strict=False))
        self._append(b"".join(pieces))
        return places

    def begin(self, size: int | None = None) -> None:
        """Starts a record that is too large for memory; `size` is that of the whole record, if known."""
        assert self._stream is None, "a record was begun and not ended"
        self._stream = self.compressor.stream(size)
        self._begun_at = self.offset

    def feed(self, data: Buffer) -> None:
        """The next bytes of the record that was begun."""
        assert self._stream is not None, "no record was begun"
        self._append(self._stream.compress(data))

    def end(self) -> tuple[int, int]:
        """Ends the record that was begun; returns its offset and length in the file."""
        assert self._stream is not None, "no record was begun"
        self._append(self._stream.flush())
        self._stream = None
        return self._begun_at, self.offset - self._begun_at

    @property
    def whole(self) -> bool:
        """True if only whole records were written."""
        return not self._failed and self._stream is None

    def _append(self, piece: bytes) -> None:
        if self._failed:
            raise VolumeDown(
                "the WARC writer refuses to write after a failure: its file ends within a record; start a new file"
            )
        self._failed = True  # until the sink has taken all of it
        written = self._sink.write(piece) if piece else 0
        while written < len(piece):  # a raw file may take less than it is given
            written += self._sink.write(memoryview(piece)[written:])
        self._failed = False
        self.offset += len(piece)


class WrittenRecord(NamedTuple):
    """Where a record lies: name of the file in its directory, offset and length."""

    filename: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class WarcFilesOptions:
    """How the files of a `WarcFiles` are named and filled."""

    bytes_max: int = 1_000_000_000  # a file that would grow beyond it is followed by the next
    compression: Compression = "gzip"
    version: Version = "1.1"
    info: tuple[tuple[str, str], ...] = ()  # fields of the warcinfo record: software, operator, description ...


class WarcFiles:
    """A row of files `{prefix}-{timestamp}-{serial}-{hostname}.warc.gz`, each beginning with a warcinfo record.

    A file has the suffix `.open` while it is written; without it, it is whole and durable. One thread at a time; other
    threads may compress records with `compressor` for `append`. Leaving a `with` by an exception keeps the last
    file's `.open`.
    """

    def __init__(
        self, directory: Path, prefix: str, options: WarcFilesOptions | None = None, *, env: Environment = REAL
    ) -> None:
        self.options = options or WarcFilesOptions()
        self.compressor = RecordCompressor(self.options.compression)
        self.finished: list[Path] = []
        self.warcinfo_id = ""  # of the current file, for the field WARC-Warcinfo-ID of its records
        self._directory = directory
        self._prefix = _name_part(prefix)
        self._hostname = _UNFIT.sub("-", gethostname()) or "localhost"
        self._env = env
        self._serial = 0
        self._sink: _FileSink | None = None
        self._writer: WarcWriter | None = None
        self._first = 0  # offset of the first record after the warcinfo
        env.files.make_directory(directory)

    def write(self, parts: Sequence[Buffer]) -> WrittenRecord:
        """Writes a record given in pieces (head, block, end)."""
        return self.append(self.compressor.compress_record(parts))

    def append(self, piece: bytes) -> WrittenRecord:
        """Writes what `compressor.compress_record` made, here or in another thread."""
        writer = self._writer_for(len(piece))
        return WrittenRecord(self.filename, *writer.append(piece))

    def append_all(self, pieces: Sequence[bytes]) -> list[WrittenRecord]:
        """As `append` for each."""
        return list(map(self.append, pieces))

    def begin(self, size: int | None = None) -> None:
        """Starts a record that is too large for memory; `feed` takes its bytes and `end` ends it."""
        self._writer_for(0).begin(size)

    def feed(self, data: Buffer) -> None:
        assert self._writer is not None, "no record was begun"
        self._writer.feed(data)

    def end(self) -> WrittenRecord:
        assert self._writer is not None, "no record was begun"
        return WrittenRecord(self.filename, *self._writer.end())

    @property
    def filename(self) -> str:
        """Name of the current file as it will be when it is whole."""
        assert self._sink is not None, "no file is open"
        return self._sink.path.name.removesuffix(OPEN_SUFFIX)

    def close(self) -> None:
        """Completes the current file, makes it durable and gives it its name. Idempotent."""
        sink, writer = self._sink, self._writer
        self._sink = self._writer = None
        if sink is None or writer is None:
            return
        if not writer.whole:
            sink.abandon()
            raise VolumeDown(f"cannot finish '{sink.path}': it ends within a record; it is left with its '.open'")
        sink.finish()
        whole = sink.path.with_name(sink.path.name.removesuffix(OPEN_SUFFIX))
        self._env.files.rename(sink.path, whole)
        self._env.files.sync_directory(self._directory)
        self.finished.append(whole)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._sink is not None:
            self._sink.abandon()

    def _writer_for(self, size: int) -> WarcWriter:
        """The writer of a file that has room for `size` bytes; every file takes at least one record, however large."""
        writer = self._writer
        if writer is not None and writer.offset > self._first and writer.offset + size >= self.options.bytes_max:
            self.close()
            writer = None
        return writer or self._open_next()

    def _open_next(self) -> WarcWriter:
        now = timestamp_at(self._env.clock())
        self._sink = self._create(now)
        self._writer = WarcWriter(self._sink, compressor=self.compressor)
        self.warcinfo_id = record_id(self._env.random_bytes(ID_BYTES))
        head = WarcHead("warcinfo", now, self.warcinfo_id, filename=self.filename)
        self._writer.write(warcinfo_parts(head, self.options.info, self.options.version))
        self._first = self._writer.offset
        return self._writer

    def _create(self, now: str) -> _FileSink:
        files, suffix = self._env.files, SUFFIXES[self.options.compression]
        while True:
            name = f"{self._prefix}-{now}-{self._serial:05d}-{self._hostname}{suffix}"
            self._serial += 1
            if not files.exists(self._directory / name) and not files.exists(self._directory / (name + OPEN_SUFFIX)):
                draft = self._directory / (name + OPEN_SUFFIX)
                return _FileSink(files.open(draft, writable=True, create=True))


class _FileSink:
    """Gathers small writes for a file that grows at its end."""

    def __init__(self, file: File) -> None:
        self.path = file.path
        self._file = file
        self._pending: list[Buffer] = []
        self._pending_bytes = 0

    def write(self, data: Buffer, /) -> int:
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= _PENDING_BYTES_MAX:
            self._flush()
        return len(data)

    def finish(self) -> None:
        self._flush()
        self._file.sync()
        self._file.close()

    def abandon(self) -> None:
        self._pending = []
        self._file.close()

    def _flush(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        self._file.append(pending)


def _name_part(prefix: str) -> str:
    if not prefix or _UNFIT.search(prefix) or prefix.startswith("."):
        raise UsageError(f"bad prefix {prefix!r} of WARC files: use letters, digits, '.', '_' and '-'")
    return prefix
