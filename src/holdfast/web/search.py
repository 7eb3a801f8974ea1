"""Questions to the index, by those who ask over HTTP: what the access rules hide is in no hit, count or facet."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.query import QueryOptions, QueryResult
from holdfast.query.access_filter import AccessFilter, RuleFilter
from holdfast.web.auth.access import Access

if TYPE_CHECKING:
    from holdfast.web.context import WebContext


class FullText:
    """One in each worker. Any thread may ask."""

    def __init__(self, site: WebContext) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._made_for: tuple[Access, int] | None = None
        self._screen: AccessFilter | None = None

    @property
    def exists(self) -> bool:
        """Whether there is an index to ask."""
        return self._site.archive.index.exists

    def ask(self, text: str, options: QueryOptions) -> QueryResult:
        """Raises MalformedQuery, or IndexNotFound if there is no index, or no ranks where they are needed."""
        screen = self.screen()
        found = self._site.archive.query(text, options, screen)
        return found if screen is None else replace(found, pending=0)  # it would tell of what is hidden

    def screen(self) -> AccessFilter | None:
        """What the rules of this moment hide; None where there are none. It is kept for as long as they stay."""
        access = self._site.access
        if access.is_open:
            return None
        with self._lock:
            version = access.version
            if self._made_for != (access, version):
                self._screen = RuleFilter(access.rules)
                self._made_for = (access, version)
            return self._screen
