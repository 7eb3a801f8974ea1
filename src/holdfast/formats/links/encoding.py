"""The query of a link in a page that is not in UTF-8: browsers write it in the encoding of the page.

    <a href="?q=é">   in windows-1252   ──►   ?q=%E9
                      in UTF-8          ──►   ?q=%C3%A9

A character that the encoding lacks becomes its number: `%26%23949%3B`, which is `&#949;`. Paths are always UTF-8.
"""

from __future__ import annotations

import codecs
import re
from urllib.parse import quote_plus

# The encoders of Python for the encodings of the standard; the others (UTF-8, UTF-16, replacement) are sent as UTF-8.
_CODECS = {
    "big5": "cp950",
    "euc-jp": "euc_jp",
    "euc-kr": "cp949",
    "gb18030": "gb18030",
    "gbk": "gbk",
    "ibm866": "cp866",
    "iso-2022-jp": "iso2022_jp",
    "iso-8859-8-i": "iso8859_8",
    "koi8-r": "koi8_r",
    "koi8-u": "koi8_u",
    "macintosh": "mac_roman",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
}
_CODECS |= {f"windows-{page}": f"cp{page}" for page in range(1250, 1259)}
_CODECS |= {f"iso-8859-{part}": f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)}
_QUERY_UNSAFE = re.compile(rb"[^!$-&(-;=?-~]")  # what is escaped in a query: all but ASCII, and " # < > '
_AROUND = "".join(map(chr, range(33)))
_WITHIN = dict.fromkeys(map(ord, "\t\n\r"))
_BY_NUMBER = "holdfast.number"


def query_codec(encoding: str) -> str:
    """Python's name of the codec in which queries are written; '' if that is UTF-8."""
    return _CODECS.get(encoding.lower(), "")


def with_encoded_query(reference: str, codec: str) -> str:
    """`reference` with the query written in the codec; joined, all else of it stays what it was."""
    # What the standard takes off a reference before it reads it would be escaped here, and so stay.
    before, mark, query = reference.strip(_AROUND).translate(_WITHIN).partition("?")
    if query.isascii() or "#" in before:
        return reference
    query, hash_sign, fragment = query.partition("#")
    octets = query.encode(codec, _BY_NUMBER)
    return before + mark + _QUERY_UNSAFE.sub(_escaped, octets).decode("ascii") + hash_sign + fragment


def form_query(fields: list[tuple[str, str]], encoding: str) -> str:
    """Names and values as application/x-www-form-urlencoded, in the encoding of the page."""
    codec = query_codec(encoding) or "utf-8"
    return "&".join(f"{_form_text(name, codec)}={_form_text(value, codec)}" for name, value in fields)


def _form_text(text: str, codec: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    return quote_plus(lines.encode(codec, "xmlcharrefreplace"), safe="*")


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


def _by_number(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError), "only encoders are given this"
    lacking = error.object[error.start : error.end]
    return "".join(f"%26%23{ord(sign)}%3B" for sign in lacking), error.end


codecs.register_error(_BY_NUMBER, _by_number)
