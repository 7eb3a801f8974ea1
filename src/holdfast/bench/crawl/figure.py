"""One figure: a crawl of the whole site by one crawler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.bench.measure import Cost


@dataclass(frozen=True, slots=True)
class CrawlFigure:
    """What was fetched, and what it cost. Processor time and memory are the crawler's, without the server's."""

    crawler: str
    pages: int  # HTML pages of the site; all of them were fetched
    urls: int  # distinct ones of the site, pages and what they need
    requests: int  # as the server counted them
    content_bytes: int
    cost: Cost
    disk_bytes: int  # allocated, of all that was kept
    apparent_bytes: int
    server_cpu_s: float
    start_s: float = 0.0  # what a crawl of one page takes, for comparison; part of the time above
    seconds_all: tuple[float, ...] = ()  # of all repeats, in order

    @property
    def pages_per_s(self) -> float:
        return self.pages / max(self.cost.seconds, 1e-9)

    @property
    def pages_per_cpu_s(self) -> float:
        return self.pages / max(self.cost.cpu_s, 1e-6)

    @property
    def mb_per_s(self) -> float:
        return self.content_bytes / max(self.cost.seconds, 1e-9) / 1e6

    @property
    def beyond(self) -> int:
        """Requests for what the site does not have, or for the second time."""
        return self.requests - self.urls


def middle(repeats: Sequence[CrawlFigure]) -> CrawlFigure:
    """The repeat with the median time (the better one of an even number), with the times of all of them."""
    ordered = sorted(repeats, key=lambda repeat: repeat.cost.seconds)
    return replace(ordered[(len(ordered) - 1) // 2], seconds_all=tuple(repeat.cost.seconds for repeat in repeats))
