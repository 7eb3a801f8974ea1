"""One of the two captures, read as far as a comparison needs it; if it cannot be read, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.errors import CaptureNotFound, Damaged, HoldfastError, TooLarge
from holdfast.formats.html.tree import is_html
from holdfast.formats.http import HTML_TYPES, decoded_content, media_type
from holdfast.formats.record import Headers
from holdfast.model import Capture
from holdfast.records.records import Records
from holdfast.web.capture.response import Archived, read
from holdfast.web.ui.comparison.picture import PICTURE_BYTES, dimensions

CONTENT_BYTES_MAX = 8 << 20  # of a text that is compared
_TEXT_KINDS = frozenset(
    ("application/json", "application/javascript", "application/x-javascript", "application/xml", "image/svg+xml")
)


@dataclass(frozen=True, slots=True)
class Side:
    """A capture, its response and its content."""

    capture: Capture
    status: int = 0
    headers: Headers = Headers([])  # noqa: RUF009  (never changed)
    content: bytes = b""  # decoded; empty if it is not text
    is_whole: bool = True  # False: the content is longer
    size: int = 0  # of the payload as it was sent
    width: int = 0  # of a picture
    height: int = 0
    problem: str = ""  # why there is no content

    @property
    def content_type(self) -> str:
        named = self.headers.get("content-type")
        return named if named is not None else ("" if self.capture.mime == "-" else self.capture.mime)

    @property
    def kind(self) -> str:
        """The type without its parameters."""
        return media_type(self.content_type)

    @property
    def is_revisit(self) -> bool:
        return self.capture.type == "revisit"

    @property
    def is_page(self) -> bool:
        """Whether a browser would show it as a document of its own."""
        return is_html(self.content, self.content_type)

    def as_dict(self) -> dict[str, Any]:
        capture = self.capture
        return {
            "url": capture.url,
            "timestamp": capture.timestamp,
            "collection": capture.collection,
            "record": str(capture.record),
            "type": capture.type,
            "status": self.status,
            "mime": self.kind,
            "digest": capture.digest,
            "size": self.size,
            "width": self.width or None,
            "height": self.height or None,
            "problem": self.problem,
        }


def is_text(content_type: str) -> bool:
    """Whether such a content can be compared by lines."""
    kind = media_type(content_type)
    return (
        not kind
        or kind in HTML_TYPES
        or kind.startswith("text/")
        or kind in _TEXT_KINDS
        or kind.endswith(("+xml", "+json"))
    )


def side_of(records: Records, capture: Capture) -> Side:
    """Reads a capture. Never raises for a capture that cannot be read: its `problem` says why."""
    try:
        archived = read(records, capture)
    except (CaptureNotFound, Damaged) as error:
        return Side(capture, problem=str(error))
    content_type = archived.headers.get("content-type") or ""
    try:
        if is_text(content_type):
            return _text_side(archived)
        width, height = (
            dimensions(_beginning(archived, PICTURE_BYTES)[0]) if archived.mime.startswith("image/") else (0, 0)
        )
        return Side(capture, archived.status, archived.headers, size=archived.size, width=width, height=height)
    except HoldfastError as error:
        return Side(capture, archived.status, archived.headers, size=archived.size, problem=str(error))


def _text_side(archived: Archived) -> Side:
    content, is_whole = _beginning(archived, CONTENT_BYTES_MAX)
    if archived.encoding:
        try:
            content = decoded_content(content, archived.headers, CONTENT_BYTES_MAX)
        except TooLarge as error:
            return Side(
                archived.capture,
                archived.status,
                archived.headers,
                is_whole=False,
                size=archived.size,
                problem=f"the content is too long to be compared: {error}",
            )
    return Side(archived.capture, archived.status, archived.headers, content, is_whole, archived.size)


def _beginning(archived: Archived, bytes_max: int) -> tuple[bytes, bool]:
    """The first bytes of a payload, and whether these are all."""
    pieces: list[bytes] = []
    length = 0
    for piece in archived.stream():
        pieces.append(piece)
        length += len(piece)
        if length > bytes_max:
            return b"".join(pieces)[:bytes_max], False
    return b"".join(pieces), True
