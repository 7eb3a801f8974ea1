"""warcio: response records appended to one gzip WARC by one writer, nothing synced; read back by offset."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from benchmarks.harness.process import Unavailable
from benchmarks.store.subject import Facts, Session
from benchmarks.store.workload import Workload


class WarcioWarc:
    """One file, one writer. A handle is the record's offset, so looking it up in a CDX costs nothing here."""

    facts: ClassVar[Facts] = Facts(
        name="warcio",
        title="warcio gzip WARC",
        durable="nothing: handed to the kernel, never synced",
        workloads=frozenset(Workload) - {Workload.DELETE},
        packages=("warcio",),
        writers_max=1,
    )

    def open(self, directory: Path) -> None:
        try:
            from warcio.warcwriter import WARCWriter
        except ImportError as failure:
            raise Unavailable(str(failure)) from failure
        self._path = directory / "documents.warc.gz"
        self._file: BinaryIO = self._path.open("ab")
        self._writer: Any = WARCWriter(self._file, gzip=True)

    def session(self) -> Session:
        return _Records(self._path, self._file, self._writer)

    def scan(self) -> Iterator[bytes]:
        from warcio.archiveiterator import ArchiveIterator

        with open(self._path, "rb") as file:
            for record in ArchiveIterator(file):
                yield record.content_stream().read()

    def close(self) -> None:
        self._file.close()


class _Records:
    def __init__(self, path: Path, file: BinaryIO, writer: Any) -> None:
        self._file = file
        self._writer = writer
        self._reader = path.open("rb")

    def store(self, documents: Sequence[bytes]) -> list[int]:
        from warcio.statusandheaders import StatusAndHeaders

        offsets = []
        for number, document in enumerate(documents):
            headers = [("Content-Type", "text/html"), ("Content-Length", str(len(document)))]
            record = self._writer.create_warc_record(
                f"http://example.org/{number}",
                "response",
                payload=io.BytesIO(document),
                http_headers=StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1"),
            )
            offsets.append(self._file.tell())
            self._writer.write_record(record)
        self._file.flush()
        return offsets

    def store_again(self, documents: Sequence[bytes], handles: Sequence[int]) -> None:
        self.store(documents)

    def fetch(self, handles: Sequence[int]) -> Iterator[bytes]:
        from warcio.archiveiterator import ArchiveIterator

        for offset in handles:
            self._reader.seek(offset)
            record = next(iter(ArchiveIterator(self._reader)))
            yield record.content_stream().read()

    def close(self) -> None:
        self._reader.close()
