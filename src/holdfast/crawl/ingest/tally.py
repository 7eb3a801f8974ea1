"""What a crawl has done so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class CrawlTally:
    """Counted since the crawl's visit began, over all its runs, except where it says 'now'."""

    fetched: int = 0  # URLs with a response, robots.txt and sitemaps apart
    pages: int = 0  # of them, HTML with status 200
    new: int = 0  # contents that the archive did not hold
    duplicates: int = 0  # contents that it held already, here or under another URL
    unchanged: int = 0  # of a page that was there at the last visit: not modified, or the same content again
    changed: int = 0  # of a page that was there at the last visit
    redirects: int = 0
    gone: int = 0  # 404 and 410
    errors: int = 0  # no response, or a server's failure, after the last attempt
    refused: int = 0  # by robots.txt
    besides: int = 0  # robots.txt and sitemaps, which no other count but those of bytes includes
    trapped: int = 0  # URLs that look like a site without end, or are beyond a budget
    truncated: int = 0
    retries: int = 0
    transferred_bytes: int = 0  # received on the wire
    content_bytes: int = 0  # of all payloads
    new_bytes: int = 0  # of those that the archive did not hold
    seconds: float = 0.0  # running
    queued: int = 0  # now
    in_flight: int = 0  # now
    hosts: int = 0  # with something queued or in flight, now
    seen: int = 0  # URLs known, now

    @property
    def saved_bytes(self) -> int:
        """What was not stored again."""
        return self.content_bytes - self.new_bytes

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}
