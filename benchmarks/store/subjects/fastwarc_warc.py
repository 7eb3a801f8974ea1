"""FastWARC: the same gzip WARC written and read by compiled code; nothing synced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from benchmarks.harness.process import Unavailable
from benchmarks.store.subject import Facts, Session
from benchmarks.store.workload import Workload

_LEVEL = 6  # what warcio writes; FastWARC's own default of 9 is slower and hardly smaller


class FastWarc:
    """One file, one writer, one gzip member per record. A handle is the record's offset."""

    facts: ClassVar[Facts] = Facts(
        name="fastwarc",
        title="FastWARC gzip WARC",
        durable="nothing: handed to the kernel, never synced",
        workloads=frozenset(Workload) - {Workload.DELETE},
        packages=("FastWARC",),
        writers_max=1,
    )

    def open(self, directory: Path) -> None:
        try:
            from fastwarc.stream_io import GzipWriter
        except ImportError as failure:
            raise Unavailable(str(failure)) from failure
        self._path = directory / "documents.warc.gz"
        self._file: BinaryIO = self._path.open("ab")
        self._writer: Any = GzipWriter(self._file, _LEVEL)

    def session(self) -> Session:
        return _Records(self._path, self._file, self._writer)

    def scan(self) -> Iterator[bytes]:
        from fastwarc.warc import ArchiveIterator, WarcRecordType

        records: Any = ArchiveIterator(str(self._path), record_types=WarcRecordType.response, fsspec_args=False)
        for record in records:
            yield record.reader.read()

    def close(self) -> None:
        self._file.close()


class _Records:
    def __init__(self, path: Path, file: BinaryIO, writer: Any) -> None:
        self._file = file
        self._writer = writer
        self._reader = path.open("rb")

    def store(self, documents: Sequence[bytes]) -> list[int]:
        from fastwarc.warc import WarcRecord, WarcRecordType

        offsets = []
        for number, document in enumerate(documents):
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(document)}\r\n\r\n"
            record = WarcRecord()
            record.init_headers(record_type=WarcRecordType.response)
            record.headers["WARC-Target-URI"] = f"http://example.org/{number}"
            record.headers["Content-Type"] = "application/http; msgtype=response"
            record.set_bytes_content(head.encode() + document)
            offsets.append(self._file.tell())
            record.write(self._writer, checksum_data=True)  # block and payload digests, as warcio writes them
            self._writer.finish()  # ends the gzip member
        self._file.flush()
        return offsets

    def store_again(self, documents: Sequence[bytes], handles: Sequence[int]) -> None:
        self.store(documents)

    def fetch(self, handles: Sequence[int]) -> Iterator[bytes]:
        from fastwarc.warc import ArchiveIterator

        for offset in handles:
            self._reader.seek(offset)
            record: Any = next(iter(ArchiveIterator(self._reader)))
            yield record.reader.read()

    def close(self) -> None:
        self._reader.close()
