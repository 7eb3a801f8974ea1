"""URLs as they stand in `Link` headers, TimeMaps and redirects, and such headers that were made before."""

from __future__ import annotations

import re
from collections.abc import Hashable

_LINKS_KEPT = 4096
_UNFIT = re.compile(rb'[^!-~]|[<>"]')  # would end the angle brackets, the line, or the header
_FIT = re.compile(r"[!#-;=?-~]*")


def uri(url: str) -> str:
    """The URL in ASCII, with nothing in it that ends a link or a line. What is fit stays as it is, byte for byte."""
    if _FIT.fullmatch(url):
        return url
    return _UNFIT.sub(_escaped, url.encode("utf-8", "surrogateescape")).decode("ascii")


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


class LinkCache:
    """`Link` headers that were made, as long as the catalog stays as it is. For the thread of the event loop."""

    def __init__(self) -> None:
        self._state: Hashable = None
        self._kept: dict[Hashable, bytes] = {}

    def get(self, key: Hashable, state: Hashable) -> bytes | None:
        if state != self._state:
            self._kept.clear()
            self._state = state
        return self._kept.get(key)

    def put(self, key: Hashable, links: bytes) -> None:
        if len(self._kept) >= _LINKS_KEPT:
            self._kept.clear()
        self._kept[key] = links
