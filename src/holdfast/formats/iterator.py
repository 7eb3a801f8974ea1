"""The iterator that users of warcio and FastWARC know, over every format that Holdfast reads:

    for record in ArchiveIterator("crawl.warc.gz", record_types=("response",)):
        print(record.url, record.http_status, len(record.payload()))

It reads like `open_records` and salvages like it; records have the names that scripts expect.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

from holdfast.arguments import public
from holdfast.errors import TooLarge
from holdfast.formats.http import HEAD_BYTES_MAX, PAYLOAD_BYTES_MAX, HttpHead, Unframer, decoded_content, parse_head
from holdfast.formats.io.open import open_records
from holdfast.formats.record import Headers, Record, Report

_STEP_BYTES = 64 * 1024


class BlockStream(io.RawIOBase):
    """The rest of a block as a file: everything after the HTTP head if that was parsed."""

    def __init__(self, record: Record, begin: bytes) -> None:
        self._block = record.block
        self._begin = begin

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            begin, self._begin = self._begin, b""
            return begin + self._block.read()
        if self._begin:
            piece, self._begin = self._begin[:size], self._begin[size:]
            return piece
        return self._block.read(size)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


class ArchiveRecord:
    """A record with the interface of warcio and FastWARC. `source` is the underlying record of `open_records`."""

    __slots__ = ("_head", "_head_bytes", "_payload", "_reader", "source")

    def __init__(self, source: Record, *, parse_http: bool = True) -> None:
        self.source = source
        self._head: HttpHead | None = None
        self._head_bytes = b""
        self._payload: bytes | None = None
        begin = b""
        if parse_http and source.has_http:
            begin = _begin(source)
            self._head = parse_head(begin)
            if self._head is not None:
                self._head_bytes, begin = begin[: self._head.size], begin[self._head.size :]
        self._reader = BlockStream(source, begin)

    @property
    def record_type(self) -> str:
        return self.source.type

    @property
    def headers(self) -> Headers:
        return self.source.headers

    @property
    def rec_headers(self) -> Headers:
        return self.source.headers

    @property
    def http_headers(self) -> Headers | None:
        return self._head.headers if self._head is not None else None

    @property
    def http_status(self) -> int | None:
        """The status of a response; None for everything else."""
        return self._head.status if self._head is not None and self._head.status else None

    @property
    def http(self) -> HttpHead | None:
        return self._head

    @property
    def reader(self) -> BlockStream:
        """The block, without the HTTP head if that was parsed; chunks and encodings as they were sent."""
        return self._reader

    raw_stream = reader

    @property
    def content_length(self) -> int:
        return self.source.content_length

    @property
    def record_id(self) -> str:
        """Without angle brackets; '' if the format has none."""
        return (self.source.headers.get("WARC-Record-ID") or "").strip("<>")

    @property
    def record_date(self) -> str:
        """14 digits, UTC."""
        return self.source.timestamp

    @property
    def url(self) -> str:
        return self.source.url

    @property
    def offset(self) -> int:
        return self.source.offset

    @property
    def length(self) -> int:
        """In the file; known after the record was read to its end."""
        return self.source.length

    def payload(self, *, decoded: bool = False, bytes_max: int = PAYLOAD_BYTES_MAX) -> bytes:
        """The body of the message, chunks joined; with `decoded` also without its content encodings.

        Reads the part that `reader` has not returned yet. An unknown or wrong encoding is left as it is. Raises
        TooLarge beyond `bytes_max`.
        """
        if self._payload is None:
            self._payload = self._joined(bytes_max)
        body = self._payload
        if not decoded or self._head is None:
            return body
        return decoded_content(body, self._head.headers, bytes_max)

    def _joined(self, bytes_max: int) -> bytes:
        unframer = Unframer(self._head)
        unframer.feed(self._head_bytes)
        parts, size = [], 0
        while piece := self._reader.read(_STEP_BYTES):
            runs = [run for is_payload, run in unframer.feed(piece) if is_payload]
            parts += runs
            size += sum(map(len, runs))
            if size > bytes_max:
                raise TooLarge(f"the payload of '{self.url}' has more than {bytes_max} bytes: raise 'bytes_max'")
        parts += [run for is_payload, run in unframer.finish() if is_payload]
        return b"".join(parts)


class ArchiveIterator:
    """Iterates over the records of a stream, or of the file at a path, which is closed at its end.

    `strict_mode` raises MalformedInput at the first fault.
    """

    @public
    def __init__(
        self,
        stream: BinaryIO | Path | str,
        record_types: Iterable[str] | None = None,
        parse_http: bool = True,
        strict_mode: bool = False,
        *,
        report: Report | None = None,
    ) -> None:
        self._own: BinaryIO | None = None
        if isinstance(stream, str | Path):
            self._own = stream = Path(stream).open("rb")  # noqa: SIM115  # closed at its end
        self._types = frozenset(kind.lower() for kind in record_types) if record_types is not None else None
        self._parse_http = parse_http
        self._records = open_records(
            stream, strict=strict_mode, report=report, validate=strict_mode, verify_digests=strict_mode
        )

    def __iter__(self) -> Iterator[ArchiveRecord]:
        return self

    def __next__(self) -> ArchiveRecord:
        for record in self._records:
            if self._types is None or record.type in self._types:
                return ArchiveRecord(record, parse_http=self._parse_http)
        self.close()
        raise StopIteration

    def close(self) -> None:
        """Closes a file opened by its path; a stream passed by the caller stays open. Idempotent."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_own", None) is not None:  # not there if the arguments were refused
            self.close()


def _begin(record: Record) -> bytes:
    """Enough of the block to hold its HTTP head."""
    begin = record.block.read(_STEP_BYTES)
    while b"\n\r\n" not in begin and b"\n\n" not in begin and len(begin) < HEAD_BYTES_MAX:
        more = record.block.read(_STEP_BYTES)
        if not more:
            break
        begin += more
    return begin
