"""Captures by URL and time, of all nodes: CDX queries over domains, prefixes and everything (H8, I10).

    asked node   one key range ──▶ nodes that hold it ──▶ merged by place ──▶ duplicates, collapses, order, limit
    each node    the range, its partitions only ──▶ access rules, times, revisits, filters ──▶ rows, in pieces

A place names a capture by its origin, so a resume key is valid at any node.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from holdfast.catalog import CaptureQuery, Row
from holdfast.catalog.keys import place_of
from holdfast.catalog.query.search import Permits, Search, SearchResult
from holdfast.cluster.answers.scatter import Fetch, ListPiece, NodeGroup, Round, Scatter
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.model import Capture, Coverage, RecordId
from holdfast.urls import completed, url_key

ROWS_MAX = 2000  # in one response
_ROWS_FEW = 200  # in one response, where a query needs fewer
_SCAN_S = 2.0  # then a node returns what it has found so far
_CHECK_EVERY = 64  # captures between two looks at the clock
_ASKED = ("url", "match", "to_url", "from_", "to", "filters", "resolve_revisits", "collection")  # what nodes do
_RECORD = Capture._fields.index("record")


# -- at each node -----------------------------------------------------------------------------------------------------


class _Enough(Exception):
    """The time for one response is over."""


class _ScanLimit:
    """Permits what `permits` does, until the time for one response is over. Knows the last capture it saw."""

    def __init__(self, permits: Permits | None) -> None:
        self._permits = permits
        self._ends_s = time.monotonic() + _SCAN_S
        self._count = 0
        self.last: Capture | None = None

    def __call__(self, capture: Capture) -> bool:
        self.last = capture
        self._count += 1
        if self._count % _CHECK_EVERY == 0 and time.monotonic() > self._ends_s:
            raise _Enough
        return self._permits is None or self._permits(capture)


def answer_captures(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """Rows of a query from one place to another, and the place to go on from."""
    query, reverse = _query(head["query"]), bool(head["reverse"])
    start, end = bytes.fromhex(head["start"]), bytes.fromhex(head["end"])
    limit = _ScanLimit(shard.access.permits if head["is_public"] else None)
    rows = shard.rows(partitions, head.get("batch"))
    search = Search(rows, query, shard.archive.catalog.resolve, limit)
    found: list[Row] = []
    most = min(int(head["most"]), ROWS_MAX)
    try:
        found += islice(search.matching(start, end, reverse=reverse), most)
        position = place_of(found[-1].capture) + (b"" if reverse else b"\0") if len(found) == most else None
    except _Enough:
        assert limit.last is not None
        position = place_of(limit.last) + (b"\0" if reverse else b"")  # it was not looked at
    return {"rows": [_packed(row) for row in found], "position": position.hex() if position is not None else None}, []


def answer_splits(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The places at which pages of a query may begin."""
    query = _query(head["query"])
    search = Search(shard.rows(partitions), query, shard.archive.catalog.resolve)
    return {"splits": [place.hex() for place in search.splits()]}, []


def answer_url(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The URL of a record or page, if it is here."""
    record = RecordId.parse(head["record"]) if head["record"] else None
    return {"url": shard.archive.url_of(record, int(head["page_id"]))}, []


def answer_collections(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The collections of this node."""
    return {"collections": list(shard.archive.collections())}, []


def _query(values: dict[str, Any]) -> CaptureQuery:
    return CaptureQuery(**{**values, "filters": tuple(values["filters"])})


def _packed(row: Row) -> list[Any]:
    capture, original = row.capture, row.original
    return [packed_capture(capture), packed_capture(original) if original is not None else None]


def packed_capture(capture: Capture) -> list[Any]:
    """As JSON has it."""
    values: list[Any] = list(capture)
    values[_RECORD] = str(capture.record)
    return values


def _unpacked(packed: list[Any]) -> Row:
    capture, original = packed
    return Row(unpacked_capture(capture), unpacked_capture(original) if original is not None else None)


def unpacked_capture(values: list[Any]) -> Capture:
    """Inverse of `packed_capture`."""
    values = list(values)
    values[_RECORD] = RecordId.parse(str(values[_RECORD]))
    return Capture(*values)


# -- at the node that was asked ---------------------------------------------------------------------------------------


class ClusterSearch(Search):
    """One run of a query over all nodes. The rows of every node come filtered; the rest is done here."""

    def __init__(
        self,
        scatter: Scatter,
        query: CaptureQuery,
        permits: Permits | None = None,
        *,
        is_public: bool,
        batch: str | None = None,
    ) -> None:
        """With a `batch`, only captures that have an origin in it."""
        super().__init__(None, query, _unresolved, permits)  # type: ignore[arg-type]
        self._batch = batch
        self._scatter = scatter
        self._is_public = is_public
        self._wanted = partitions_of(query, scatter.router.table().rule)
        self._asked = {name: getattr(query, name) for name in _ASKED}
        self.coverage = Coverage(scatter.router.table().rule.partitions)

    def answer(self) -> SearchResult:
        result = super().answer()
        result.coverage = self.coverage
        return result

    def matching(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[Row]:
        round_ = self._begin()
        bounds = start or b"", end or _LAST
        fetch = self._fetch(round_, bounds, reverse=reverse)
        rows = round_.merge(fetch, bounds[reverse], _place, reverse=reverse)
        self._note(round_)
        permits = self._permits
        return rows if permits is None else (row for row in rows if permits(row.capture))

    def is_empty(self) -> bool:
        bare = ClusterSearch(
            self._scatter, replace(self._query, filters=(), limit=1), self._permits, is_public=self._is_public
        )
        return next(bare.matching(None, None), None) is None

    def splits(self) -> Iterator[bytes]:
        round_ = self._begin()
        head = {"query": self._asked}
        found = round_.gather(lambda group: round_.ask(group, "splits", head)[0]["splits"])
        self._note(round_)
        return iter(sorted({bytes.fromhex(each) for places in found for each in places}))

    def _begin(self) -> Round:
        return self._scatter.begin(self._wanted)

    def _note(self, round_: Round) -> None:
        self.coverage.missing = max(self.coverage.missing, round_.coverage.missing)

    def _fetch(self, round_: Round, bounds: tuple[bytes, bytes], *, reverse: bool) -> Fetch[Row]:
        """Pieces from a position on, which takes the place of one of the two bounds."""
        query = self._query
        is_short = query.limit is not None and abs(query.limit) + query.offset < _ROWS_FEW and not query.collapse

        def fetch(group: NodeGroup, position: bytes) -> ListPiece[Row]:
            start, end = (bounds[0], position) if reverse else (position, bounds[1])
            head = {
                "query": self._asked,
                "start": start.hex(),
                "end": end.hex(),
                "reverse": reverse,
                "most": _ROWS_FEW if is_short else ROWS_MAX,
                "is_public": self._is_public,
                "batch": self._batch,
            }
            response, _ = round_.ask(group, "captures", head)
            behind = response["position"]
            return ListPiece([_unpacked(each) for each in response["rows"]], behind and bytes.fromhex(behind))

        return fetch


def partitions_of(query: CaptureQuery, rule: PartitionRule) -> frozenset[int] | None:
    """The partitions that can have captures of a query; None: all."""
    plain = query.plain()
    if plain.match in ("all", "range"):
        return None
    url = completed(plain.url)
    if ")" not in url_key(url):
        return None
    partition = rule.of_host(url)
    return frozenset((partition,)) if partition is not None else None


def _place(row: Row) -> bytes:
    return place_of(row.capture)


def _unresolved(capture: Capture) -> None:
    """Revisits come resolved."""


_LAST = b"\xff" * 16  # above every place
