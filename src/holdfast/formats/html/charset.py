"""Character encodings as in a browser: the labels, aliases and tables of the WHATWG Encoding Standard.

    a byte-order mark  >  the charset of the HTTP header  >  what the content says of itself  >  a guess

Of plain text the guess is UTF-8 if it is that, else windows-1252. The tables are turbohtml's, loaded at first use.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

UTF_8 = "UTF-8"
_LABELS_CACHED = 256
_CHARSET = re.compile(r";\s*charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;]*))", re.IGNORECASE)
FALLBACK = "windows-1252"  # of bytes that name no encoding and are not UTF-8
_MARKS = ((b"\xef\xbb\xbf", UTF_8), (b"\xfe\xff", "UTF-16BE"), (b"\xff\xfe", "UTF-16LE"))


class Decoded(NamedTuple):
    """Characters, and the encoding that they were in, by the standard's name."""

    text: str
    encoding: str


def charset_of(content_type: str) -> str:
    """The charset that an HTTP header names; '' if none."""
    match = _CHARSET.search(content_type)
    return next((group for group in match.groups() if group), "").strip().lower() if match else ""


def decoded(content: bytes, *charsets: str) -> Decoded:
    """The characters of any bytes. A byte-order mark decides, else the first of the charsets that a browser knows."""
    if encoding := encoding_by_mark(content):
        return _decoded(content[3 if encoding == UTF_8 else 2 :], encoding)
    for label in charsets:
        if encoding := encoding_named(label):
            return _decoded(content, encoding)
    try:
        return Decoded(content.decode("utf-8"), UTF_8)
    except UnicodeDecodeError:
        return _decoded(content, FALLBACK)


def encoding_by_mark(begin: bytes) -> str:
    """The encoding of a byte-order mark; '' if there is none."""
    for mark, encoding in _MARKS:
        if begin.startswith(mark):
            return encoding
    return ""


@lru_cache(_LABELS_CACHED)
def encoding_named(label: str) -> str:
    """The standard's name of the encoding that has this label ('latin1': 'windows-1252'); '' if none has."""
    if not label or not label.isascii():
        return ""
    from turbohtml import parse

    try:
        return parse(b"", encoding=label).encoding or ""
    except (LookupError, ValueError):
        return ""


def codec_of(encoding: str) -> str:
    """Python's name of the codec for an encoding by the standard's name; some of its labels are not known as codecs."""
    import_module("turbohtml.detect")  # registers them
    return f"whatwg-{encoding}"


def _decoded(content: bytes, encoding: str) -> Decoded:
    return Decoded(content.decode(codec_of(encoding), "replace"), encoding)
