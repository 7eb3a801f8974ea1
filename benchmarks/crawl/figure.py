"""One figure: a crawl of the whole site by one crawler."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.harness.figure import Figure


@dataclass(frozen=True, slots=True)
class CrawlFigure(Figure):
    """Operations are pages. Processor time and memory are the crawler's, without the server's."""

    urls: int = 0  # distinct ones of the site, pages and what they need
    requests: int = 0  # as the server counted them
    server_cpu_s: float = 0.0
    start_s: float = 0.0  # what a crawl of one page takes, for comparison; part of the time above

    @property
    def beyond(self) -> int:
        """Requests for what the site does not have, or for the second time."""
        return self.requests - self.urls
