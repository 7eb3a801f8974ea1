"""Queries over many URLs, answered by the open archive, or in a cluster by all nodes together (H8, N12).

An open `Archive` answers for itself. In a cluster, the workers get a `Router`, which answers for all nodes; if some
partitions have no live node, the answer is partial and says so (`Coverage`).
"""

from __future__ import annotations

from typing import Protocol

from holdfast.catalog import CaptureQuery, SearchResult
from holdfast.catalog.outline import Outline
from holdfast.catalog.query.search import Permits
from holdfast.model import Coverage, RecordId
from holdfast.query.access_filter import AccessFilter
from holdfast.query.results import QueryOptions, QueryResult
from holdfast.streams.options import StreamOptions
from holdfast.streams.stream import Feed

PARTIAL = "Holdfast-Partial"  # a header: missing partitions, a slash, all partitions


class Answers(Protocol):
    """Thread-safe. Not for an event loop."""

    def search(self, query: CaptureQuery, permits: Permits | None = None) -> SearchResult: ...
    def num_pages(self, query: CaptureQuery, permits: Permits | None = None) -> int: ...
    def outline(self, permits: Permits | None = None) -> Outline: ...
    def query(
        self, text: str, options: QueryOptions | None = None, screen: AccessFilter | None = None
    ) -> QueryResult: ...
    def stream(self, options: StreamOptions | None = None) -> Feed: ...
    def url_of(self, record: RecordId | None, page_id: int = 0) -> str | None:
        """The URL of a record, or of a page by its id; None if there is none, or if it has no URL."""

    def collections(self) -> tuple[str, ...]: ...


def partial_headers(coverage: Coverage | None) -> dict[str, str]:
    """The header of a partial answer; none if it is whole."""
    return {PARTIAL: str(coverage)} if coverage is not None and coverage.missing else {}
