"""CDX: one capture per line, fields separated by single spaces and named by the letters of the header.

     CDX N b a m s k r M S V g          11 fields; the header line begins with a space
    com,example)/ 20200102030405 http://example.com/ text/html 200 3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ - - 1043 333 a.gz

    N url key   b date, 14 digits   a url   m type   s status   k digest   r redirect   M flags of the robots meta tag
    S length of the record in its file   V offset there   g name of the file

The 9 fields of older files leave out `M` and `S`. What is not known is `-`. A digest is written without `sha1:`;
other algorithms keep their name. A space inside a field is written as `%20`.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Self

from holdfast.errors import MalformedInput
from holdfast.model import Capture

CDX11 = " CDX N b a m s k r M S V g"
CDX9 = " CDX N b a m s k r V g"
UNKNOWN = "-"
_FIELD_OF_LETTER = {
    "N": "urlkey",
    "b": "timestamp",
    "a": "url",
    "m": "mime",
    "s": "status",
    "k": "digest",
    "r": "redirect",
    "M": "flags",
    "S": "length",
    "V": "offset",
    "g": "filename",
}


class CdxRow(NamedTuple):
    """One line of a CDX file. Texts as they stand there; numbers are -1 where the line has none."""

    urlkey: str
    timestamp: str
    url: str
    mime: str = UNKNOWN
    status: str = UNKNOWN
    digest: str = UNKNOWN
    redirect: str = UNKNOWN
    flags: str = UNKNOWN  # of the page's robots meta tag
    length: int = -1
    offset: int = -1
    filename: str = UNKNOWN


class CdxLayout:
    """Which field stands where, as a header line says."""

    def __init__(self, header: str) -> None:
        letters = header.split()
        if letters[:1] != ["CDX"] or not {"N", "b", "a"} <= set(letters):
            raise MalformedInput(f"not the header of a CDX file: {header!r}; expected for example {CDX11!r}")
        self._names = [_FIELD_OF_LETTER.get(letter, "") for letter in letters[1:]]

    @classmethod
    def of(cls, line: str) -> Self | None:
        """The layout, if the line is a header."""
        return cls(line) if line.lstrip().startswith("CDX ") else None

    def row(self, line: str) -> CdxRow:
        """Raises MalformedInput if the line has another number of fields than the header, or a number is none."""
        values = line.rstrip("\r\n").split(" ")
        if len(values) != len(self._names):
            raise MalformedInput(f"malformed CDX line {line[:200]!r}: {len(self._names)} fields expected")
        named: dict[str, str] = dict(zip(self._names, values, strict=True))
        named.pop("", None)
        numbers = {name: _number(named.pop(name), line) for name in ("length", "offset") if name in named}
        return CdxRow(**named, **numbers)  # type: ignore[arg-type]


def cdx_line(capture: Capture) -> str:
    """The line of a capture under the header `CDX11`, without its end."""
    redirect = redirect_of(capture)
    fields = (*capture[:5], bare_digest(capture.digest), redirect, UNKNOWN)
    text = "\x00".join(fields)
    if " " in text:  # rare: then field by field would cost the others
        text = text.replace(" ", "%20")
    return f"{text} {capture.length} {capture.offset} {capture.filename.replace(' ', '%20')}".replace("\x00", " ")


def bare_digest(digest: str) -> str:
    """Without `sha1:`, which CDX takes for granted."""
    return digest[5:] if digest.startswith("sha1:") else digest


def redirect_of(capture: Capture) -> str:
    if capture.extra == UNKNOWN:
        return UNKNOWN
    return str(json.loads(capture.extra).get("redirect") or UNKNOWN)


def _number(text: str, line: str) -> int:
    if text == UNKNOWN:
        return -1
    if not (text.isascii() and text.isdigit()):
        raise MalformedInput(f"malformed CDX line {line[:200]!r}: {text!r} is not a number")
    return int(text)
