"""Parameters that only defeat caches: `?v=3&_=1699999999` is, for a reader, `?v=3`.

Names come from the setting `serve.busters`; a value that looks like a clock or like chance counts as one, too, where
the whole query is nothing else. Both URLs are compared without such parameters.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator

from holdfast.model import Capture
from holdfast.urls import url_key

_BARE = re.compile(r"\d{8,17}|0?\.\d{6,}|[0-9a-f]{32}")  # a query that is only a clock, chance or a hash


class Busters:
    """What counts as such a parameter. Any thread may call it."""

    LOOK_AT = 1000  # captures that begin alike

    def __init__(self, names: tuple[str, ...]) -> None:
        self._name = re.compile("|".join(fnmatch.translate(name) for name in names) or r"(?!)", re.IGNORECASE)

    def beginnings(self, url: str) -> Iterator[str]:
        """With what the URLs that may count as the same begin; none if there is nothing to leave out here or there."""
        path, mark, _ = url.partition("?")
        yield path + "?"
        if mark:
            yield path

    def bare(self, url: str) -> str:
        """The key of the URL without such parameters."""
        path, _, query = url.partition("#")[0].partition("?")
        if _BARE.fullmatch(query):
            return url_key(path)
        kept = [part for part in query.split("&") if part and not self._name.fullmatch(part.partition("=")[0])]
        return url_key(f"{path}?{'&'.join(kept)}" if kept else path)

    def same(self, url: str, captures: Iterable[Capture]) -> list[Capture]:
        """Those of the captures that count as the same as the URL."""
        wanted = self.bare(url)
        return [each for each in captures if each.type in ("response", "revisit") and self.bare(each.url) == wanted]
