"""Joining: a reference and its base give a canonical URL; the hottest code of a crawl.

What the URL Standard says is done by `ada_url`, which takes some microseconds. Most references are plainer than the
standard allows for, `../struct.Vec.html` or `https://example.com/a?b=c`: nothing in them is to be escaped, resolved or
refused, so they are concatenated, for a tenth of that. Tests compare the two ways.

In a page that is not in UTF-8, browsers write the query of a link in the encoding of the page:

    <a href="?q=é">   in windows-1252   ──►   ?q=%E9
                      in UTF-8          ──►   ?q=%C3%A9

A character that the encoding lacks becomes its number: `%26%23949%3B`, which is `&#949;`. Paths are always UTF-8.
"""

from __future__ import annotations

import codecs
import re
from urllib.parse import quote_plus

import ada_url

from holdfast.formats.html.charset import UTF_8
from holdfast.urls.parse import scalar_values

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


def stripped(reference: str) -> str:
    """As the URL Standard reads it: without control characters and spaces around it, tabs and line breaks."""
    text = reference.strip(_AROUND)
    return text if text.isprintable() else text.translate(_WITHIN)


def query_codec(encoding: str) -> str:
    """Python's name of the codec in which queries are written; '' if that is UTF-8."""
    return _CODECS.get(encoding.lower(), "")


def with_encoded_query(reference: str, codec: str) -> str:
    """`reference` with the query written in the codec; joined, all else of it stays what it was."""
    before, mark, query = stripped(reference).partition("?")  # or the rest would be escaped, and so stay
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


_HTTP = ("https://", "http://")
_OTHER_SCHEME = re.compile(r"[\0- ]*(?!https?:)[a-z][a-z0-9+.\-]*:", re.IGNORECASE)
_PARTS = re.compile(r"((https?:)//[^/?#]*)((?:/[^/?#]*)*/)([^/?#]*)[^#]*")  # origin, scheme, directory, name
# What is taken is not given back (`*+`): a reference that is not plain is found out in one go.
_LETTERS = r"\w\-.~!$&'()*+,;=@%"
_PATH = rf"[{_LETTERS}:/]*+"
_QUERY = r"(?:\?[\w\-.~!$&()*+,;=@%:/?|\[\]{}]*+)?+"
_HOST = r"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*"
_PLAIN = re.compile(
    rf"(?:\.\./)*+(?P<relative>[{_LETTERS}]++(?:/{_PATH})?+{_QUERY})"
    rf"|(?P<rooted>/(?!/){_PATH}{_QUERY})"
    rf"|(?P<absolute>(?P<scheme>https?:)?//{_HOST}(?P<path>/{_PATH})?{_QUERY})"
    rf"|(?P<query>\?{_PATH})",
    re.ASCII,
)
_GROUPS = _PLAIN.groupindex
_RELATIVE, _ROOTED, _ABSOLUTE, _SEARCH = (_GROUPS[name] for name in ("relative", "rooted", "absolute", "query"))


class Joiner:
    """Joins references to one base. `encoding` is that of the document they stand in."""

    __slots__ = ("_codec", "_directories", "_origin", "_page", "_scheme", "base")

    def __init__(self, base: str, encoding: str = UTF_8) -> None:
        self.base = base
        self._codec = query_codec(encoding)
        parts = _PARTS.fullmatch(base)
        self._origin = self._scheme = self._page = ""
        self._directories: list[str] = []
        if parts is not None:
            self._origin, self._scheme, directory, name = parts.groups()
            self._page = self._origin + directory + name
            self._directories = _with_parents(self._origin, directory)

    def url(self, reference: str) -> str | None:
        """The canonical URL; None if it is none or not of the web."""
        plain = _PLAIN.fullmatch(reference)
        if plain is None or not self._directories or ("%2" in reference and "%2e" in reference.lower()):
            return self._by_standard(reference)
        kind = plain.lastindex
        if kind == _RELATIVE:
            rest = plain[_RELATIVE]
            if rest[0] == "." or "/." in rest:
                return self._by_standard(reference)
            ups = (len(reference) - len(rest)) // 3
            directories = self._directories
            return (directories[ups] if ups < len(directories) else directories[-1]) + rest
        if kind == _SEARCH:
            return self._by_standard(reference) if "'" in reference else self._page + reference
        if "/." in reference or (kind == _ABSOLUTE and "xn--" in reference):
            return self._by_standard(reference)
        return self._origin + reference if kind == _ROOTED else self._absolute(plain)

    def _absolute(self, plain: re.Match[str]) -> str:
        url = plain[0] if plain["scheme"] else self._scheme + plain[0]
        if plain["path"]:
            return url
        host, mark, query = url.partition("?")
        return f"{host}/{mark}{query}"

    def _by_standard(self, reference: str) -> str | None:
        if _OTHER_SCHEME.match(reference):
            return None
        text = scalar_values(reference)
        if self._codec and not text.isascii():
            text = with_encoded_query(text, self._codec)
        try:
            url: str = ada_url.URL(text, base=self.base).href
        except ValueError:
            return None
        return url.partition("#")[0] if url.startswith(_HTTP) else None


def _with_parents(origin: str, directory: str) -> list[str]:
    """`/a/b/`, `/a/`, `/` of an origin: what no, one and two `../` lead to."""
    found = [origin + directory]
    while len(directory) > 1:
        directory = directory[: directory.rindex("/", 0, -1) + 1]
        found.append(origin + directory)
    return found
