"""One of the two compared captures, or the reason why it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from holdfast.errors import CaptureNotFound, Damaged, HoldfastError, TooLarge
from holdfast.formats.html.charset import charset_of, decoded
from holdfast.formats.html.text import text_of
from holdfast.formats.http import HTML_TYPES, decoded_content, media_type
from holdfast.formats.media import dimensions
from holdfast.formats.record import Headers
from holdfast.model import Capture
from holdfast.web.replay.response import Archived, StoredRecords, read

LINES_MAX = 100_000  # of a text; what follows is not compared
LINE_CHARS_MAX = 1000  # longer lines are folded after punctuation
_BINARY_SHARE_MAX = 0.05
_SNIFFED_CHARS = 8192
_FOLDS = re.compile(r"(?<=[;{}>,.!?])(?=\S)|(?<=[;{}>,.!?] )")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffd]")
PICTURE_BYTES = 1 << 20  # the frame of a JPEG may follow its thumbnails
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


def is_text(kind: str) -> bool:
    """Whether contents of this media type can be compared by lines."""
    known = not kind or kind in HTML_TYPES or kind in _TEXT_KINDS
    return known or kind.startswith("text/") or kind.endswith(("+xml", "+json"))


def side_of(records: StoredRecords, capture: Capture) -> Side:
    """Reads a capture. Never raises for a capture that cannot be read: its `problem` says why."""
    try:
        archived = read(records, capture)
    except (CaptureNotFound, Damaged) as error:
        return Side(capture, problem=str(error))
    side = Side(capture, archived.status, archived.headers, size=archived.size)
    try:
        if is_text(archived.mime):
            content, is_whole = _beginning(archived, CONTENT_BYTES_MAX)
            if archived.encoding:
                content = decoded_content(content, archived.headers, CONTENT_BYTES_MAX)
            return replace(side, content=content, is_whole=is_whole)
        if archived.mime.startswith("image/"):
            width, height = dimensions(_beginning(archived, PICTURE_BYTES)[0])
            return replace(side, width=width, height=height)
    except TooLarge as error:
        return replace(side, is_whole=False, problem=f"the content is too long to be compared: {error}")
    except HoldfastError as error:
        return replace(side, problem=str(error))
    return side


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


def lines_of(side: Side) -> tuple[list[str], bool] | None:
    """The lines of a side's text, and whether there are more; None if it is not text."""
    if side.kind in HTML_TYPES or not side.kind:
        text = text_of(side.content, side.content_type)
        raw = decoded(side.content[:_SNIFFED_CHARS], charset_of(side.content_type)).text
    else:
        text = raw = decoded(side.content, charset_of(side.content_type)).text
    if _is_binary(raw):
        return None
    lines = [part for line in text.splitlines() for part in _folded(line.rstrip())]
    return lines[:LINES_MAX], len(lines) > LINES_MAX or not side.is_whole


def _is_binary(text: str) -> bool:
    """Whether it has more control characters than a text would."""
    begin = text[:_SNIFFED_CHARS]
    return len(_CONTROL.findall(begin)) > _BINARY_SHARE_MAX * len(begin)


def _folded(line: str) -> Iterator[str]:
    if len(line) <= LINE_CHARS_MAX:
        yield line
        return
    for part in _FOLDS.split(line):
        for start in range(0, len(part), LINE_CHARS_MAX):
            yield part[start : start + LINE_CHARS_MAX]
