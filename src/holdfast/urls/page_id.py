"""The page identifier of WebBase: 64 bits that name a page on every node, computed from its URL alone.

The four rules of "WebBase: a repository of web pages" (Hirai, Raghavan, Garcia-Molina, Paepcke; 2000), section 2.2:

    HTTP://WWW.Stanford.EDU:80/Dept/CS//
    1  └─┬─┘                                      the protocol prefix http:// is removed
    2                      └┬┘                    so is :80; other ports are retained
    3         www.stanford.edu                    the server's name in lower case
    4                                └┬┘          all slashes at the end are removed

         www.stanford.edu/Dept/CS ──► rabin64 ──► page id

Nothing else is normalized: an id must not change with the parser.
"""

from __future__ import annotations

import re

from holdfast.env.rabin import rabin64
from holdfast.errors import MalformedKey

PAGE_ID_MAX = 2**64 - 1
_TEXT = re.compile(r"[0-9a-fA-F]{16}")
# The prefix of another protocol stays, and so does its port.
_SERVER = re.compile(r"(?:http://|(?P<kept>[a-z][a-z0-9+.\-]*://))?(?P<user>[^/?#]*@)?(?P<server>[^/?#]*)", re.I)


def page_id(url: str) -> int:
    """The identifier of the page at `url`, 0 to 2^64 - 1. Any text has one."""
    return rabin64(normalized(url).encode("utf-8", "surrogatepass"))


def page_id_text(number: int) -> str:
    """A page id as text: 16 hexadecimal digits."""
    return f"{number:016x}"


def parse_page_id(text: str) -> int:
    """The inverse of `page_id_text`. Raises MalformedKey."""
    if _TEXT.fullmatch(text) is None:
        raise MalformedKey(f"malformed page id {text[:80]!r}: give 16 hexadecimal digits, such as '05d8a9b2c4e1f730'")
    return int(text, 16)


def normalized(url: str) -> str:
    """`url` normalized by the four rules: the text to hash."""
    match = _SERVER.match(url)
    assert match is not None, "every part may be empty, so it always matches"
    kept, user, server = match["kept"] or "", match["user"] or "", match["server"].lower()
    if not kept:
        server = server.removesuffix(":80")
    return f"{kept}{user}{server}{url[match.end() :]}".rstrip("/")
