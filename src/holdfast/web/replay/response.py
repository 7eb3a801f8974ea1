"""A capture as an HTTP response: status, headers and payload, from any type of record.

A revisit has its own headers and the payload of its original; a redirect needs none. A resource becomes a response.
Chunks are already joined; content encodings stay until the plain bytes are requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.catalog.revisits import can_stand_alone, is_empty
from holdfast.env.files import Buffer
from holdfast.errors import CaptureNotFound
from holdfast.formats.http import decoded_content, media_type
from holdfast.formats.record import Headers
from holdfast.model import Capture, RecordId
from holdfast.records.stored_record import StoredRecord

PART_BYTES = 256 << 10  # sent at a time
_NO_STATUS = 200
_NOT_MODIFIED = 304
_NO_ANSWER = 502  # for statuses that cannot be sent: below 200 the response would still be to come


@dataclass(slots=True)
class Archived:
    """A response out of the archive."""

    capture: Capture
    status: int
    headers: Headers
    record: StoredRecord | None  # holds the payload; None: no payload, or that of a redirect is not archived
    original_status: int = 0  # if it could not be sent and `status` replaces it

    @property
    def content_type(self) -> str:
        """As the server named it; '' if it did not."""
        return self.headers.get("content-type") or ""

    @property
    def mime(self) -> str:
        """The media type that the server named, without parameters; '' if it named none."""
        return media_type(self.content_type)

    @property
    def encoding(self) -> str:
        """The encodings of the content, in lower case; '' if it is plain."""
        return ",".join(self.headers.get_all("content-encoding")).lower().strip()

    @property
    def size(self) -> int:
        """Bytes of the payload as it is kept."""
        return self.record.entry.size if self.record is not None else 0

    def payload(self) -> bytes:
        return self.record.payload() if self.record is not None else b""

    def stream(self) -> Iterator[bytes]:
        """The payload in parts of bounded size."""
        return self.record.stream() if self.record is not None else iter(())

    def plain(self, bytes_max: int) -> bytes:
        """The payload without its encodings. Raises TooLarge."""
        payload = self.payload()
        return decoded_content(payload, self.headers, bytes_max) if self.encoding else payload


class StoredRecords(Protocol):
    """`Records`, or the records of all nodes of a cluster."""

    def read(self, record: RecordId) -> StoredRecord:
        """Raises CaptureNotFound."""


def read(records: StoredRecords, capture: Capture) -> Archived:
    """Raises CaptureNotFound if the payload of a revisit is not in the archive, and is needed."""
    record = records.read(capture.record)
    if record.entry.type != "revisit" or record.entry.contents != "-":
        return _response(capture, record, record)
    own = record.capture
    original = record.resolve(record) if not is_empty(own) else None
    if original is None and not can_stand_alone(own):
        raise CaptureNotFound(
            f"the capture of '{capture.url}' at {capture.timestamp} repeats one that is not in this archive"
        )
    return _response(capture, record, original)


def _response(capture: Capture, record: StoredRecord, payload: StoredRecord | None) -> Archived:
    head = record.http_head if record.entry.type in ("response", "revisit") else None
    if head is not None and head.status == _NOT_MODIFIED and payload is not None and payload is not record:
        head = payload.http_head  # the response itself said only that nothing had changed
    if head is None:
        mime = capture.mime if capture.mime != "-" else "application/octet-stream"
        return Archived(capture, _NO_STATUS, Headers([("Content-Type", mime)]), payload)
    status = head.status or _NO_STATUS
    if not 200 <= status <= 599:
        return Archived(capture, _NO_ANSWER, head.headers, payload, original_status=status)
    return Archived(capture, status, head.headers, payload)


def gathered(parts: Iterable[Buffer]) -> Iterator[bytes]:
    """The same bytes in larger parts, each worth a switch to another thread."""
    some: list[bytes] = []
    size = 0
    for part in parts:
        some.append(bytes(part))
        size += len(part)
        if size >= PART_BYTES:
            yield b"".join(some)
            some, size = [], 0
    if size:
        yield b"".join(some)
