"""The counters of a crawl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class CrawlTally:
    """Counted since the crawl's visit began, over all its runs; those marked 'now' are current values."""

    fetched: int = 0  # URLs with a response, except robots.txt and sitemaps
    pages: int = 0  # of these, HTML with status 200
    new: int = 0  # contents new to the archive
    duplicates: int = 0  # contents already in the archive, under this URL or another
    unchanged: int = 0  # pages known from an earlier visit: not modified, or the same content again
    changed: int = 0  # pages known from an earlier visit
    redirects: int = 0
    gone: int = 0  # 404 and 410
    errors: int = 0  # no response, or a server error, after the last attempt
    refused: int = 0  # by robots.txt
    besides: int = 0  # robots.txt and sitemaps; of the other counters, only those of bytes include them
    trapped: int = 0  # URLs that look like an endless site, or exceed a budget
    truncated: int = 0
    retries: int = 0
    transferred_bytes: int = 0  # received on the wire
    content_bytes: int = 0  # of all payloads
    new_bytes: int = 0  # of payloads new to the archive
    seconds: float = 0.0  # running
    queued: int = 0  # now
    in_flight: int = 0  # now
    hosts: int = 0  # with something queued or in flight, now
    seen: int = 0  # URLs known, now

    @property
    def saved_bytes(self) -> int:
        """Bytes that were not stored again."""
        return self.content_bytes - self.new_bytes

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}
