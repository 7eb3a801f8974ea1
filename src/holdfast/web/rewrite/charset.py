"""The encoding of a page that streams through: what browsers would take it for, known before the first byte is sent.

    a byte-order mark  >  the charset of the HTTP header  >  <meta charset>  >  UTF-8 if it is that  >  windows-1252

It has to be declared with the response: what is put into the head may push a <meta> out of the bytes in which browsers
look for it. Pages in an encoding that does not contain ASCII are decoded and sent as UTF-8; others keep their bytes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache

from holdfast.formats.html import charset
from holdfast.formats.html.charset import FALLBACK, UTF_8, encoding_by_mark, encoding_named
from holdfast.web.rewrite.markup import ATTRIBUTE, TAG

_DECODED = {"UTF-16LE": "utf-16-le", "UTF-16BE": "utf-16-be", "ISO-2022-JP": "iso2022_jp"}
_META = re.compile(rb"<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?+)|<meta(?=[\t\n\f\r />])")
_IN_CONTENT = re.compile(rb"charset[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\t\n\f\r ;\"']++))")
_XML = re.compile(rb"<\?xml\s[^>]*?\bencoding\s*+=\s*+[\"']([\w.:\-]++)[\"']")
_CUT_CHARACTER_BYTES = 3  # of a character of UTF-8 that may stand cut at the end of the first piece
_CODECS_CACHED = 64
_PRESCAN_BYTES = 64 << 10  # browsers look at the first 1,024 bytes, and again when they meet a <meta> later


def encoding_of(begin: bytes, label: str, *, is_whole: bool) -> str:
    """The standard's name of the encoding of a page that begins so; `is_whole` if there is no more of it."""
    return (
        encoding_by_mark(begin)
        or encoding_named(label)
        or _declared(begin[:_PRESCAN_BYTES].lower())
        or _guessed(begin, is_whole=is_whole)
    )


def in_utf_8(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """The pieces as they are, or as UTF-8 if markup could not be read in their own encoding."""
    if encoding not in _DECODED:
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(_DECODED[encoding])("replace")
    for piece in pieces:
        yield decoder.decode(piece).removeprefix("\ufeff").encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def is_decoded(encoding: str) -> bool:
    return encoding in _DECODED


@lru_cache(_CODECS_CACHED)
def value_codec(encoding: str) -> str:
    """Python's name of the codec by which values of attributes are read and written."""
    if encoding == UTF_8 or encoding in _DECODED:
        return "utf-8"
    name = charset.codec_of(encoding)
    try:
        "&".encode(name)
    except (LookupError, UnicodeError):
        return "latin-1"
    return name


def _declared(low: bytes) -> str:
    """The encoding that a <meta> or the XML declaration names; '' if none does. `low` is in lower case."""
    at = 0
    while found := _META.search(low, at):
        at = found.end()
        if not found[0].startswith(b"<meta"):
            continue
        tag = TAG.match(low, found.start())
        if tag is None:  # it has no end, so nothing after it is a tag
            break
        at = tag.end()
        if encoding := encoding_named(_label(tag)):
            if encoding.startswith("UTF-16"):  # it could not have been read
                return UTF_8
            return FALLBACK if encoding == "x-user-defined" else encoding
    xml = _XML.match(low)
    return encoding_named(xml[1].decode("ascii", "replace")) if xml else ""


def _label(tag: re.Match[bytes]) -> str:
    """What a <meta> says of the encoding; '' if nothing."""
    values: dict[bytes, bytes] = {}
    for attribute in ATTRIBUTE.finditer(tag.string, tag.start(2), tag.end(2)):
        values.setdefault(attribute[1], attribute[attribute.lastindex or 1] if attribute.lastindex != 1 else b"")
    label = values.get(b"charset", b"")
    if not label and values.get(b"http-equiv", b"").strip() == b"content-type":
        content = _IN_CONTENT.search(values.get(b"content", b""))
        label = next(filter(None, content.groups()), b"") if content else b""
    return label.decode("ascii", "replace").strip()


def _guessed(begin: bytes, *, is_whole: bool) -> str:
    if begin.isascii():
        return FALLBACK
    try:
        begin.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = not is_whole and error.start >= len(begin) - _CUT_CHARACTER_BYTES
        return UTF_8 if is_cut and not begin[: error.start].isascii() else FALLBACK
    return UTF_8
