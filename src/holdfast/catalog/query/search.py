"""Results: the captures of a query, one after the other, with one row in memory.

Three exceptions hold a bounded number of rows: a negative limit (as many as it says), the closest captures over several
URLs (as many as limit and offset say), and duplicates counted backwards (the captures of one URL).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import chain, groupby, islice

from holdfast.catalog.keys import encoded, place_of
from holdfast.catalog.pick import distance_from
from holdfast.catalog.query.collapse import collapsed, collapsed_and_counted, collapsed_back, parse_collapse
from holdfast.catalog.query.fields import Row
from holdfast.catalog.query.filters import parse_filter
from holdfast.catalog.query.query import CaptureQuery
from holdfast.catalog.revisits import resolved
from holdfast.catalog.rows import CaptureRows
from holdfast.catalog.timestamps import digits, earliest
from holdfast.model import Capture, Coverage

Resolve = Callable[[Capture], Capture | None]
Permits = Callable[[Capture], bool]  # whether the caller may see a capture
_NEXT = b"\0"  # added to a place: the least one after it


class SearchResult(Iterator[Row]):
    """The rows of a result. `resume_key` is known once they have been read."""

    def __init__(self, query: CaptureQuery, rows: Iterator[Row]) -> None:
        self.coverage: Coverage | None = None  # of a cluster; its figures are final when the first row is read
        self._query = query
        self._rows = rows
        self._left = query.limit if query.limit is not None and query.limit >= 0 else None
        self._last: Row | None = None

    def __next__(self) -> Row:
        if self._left is not None:
            if self._left <= 0:
                raise StopIteration
            self._left -= 1
        self._last = row = next(self._rows)
        return row

    @property
    def resume_key(self) -> str | None:
        """The key that continues after the last row, if there is more. Valid when all rows are read."""
        if self._last is None or self._left != 0 or self._query.sort == "closest":
            return None
        return self._query.resume_key_after(self._last) if next(self._rows, None) is not None else None


class Search:
    """One run of a query."""

    def __init__(
        self, rows: CaptureRows, query: CaptureQuery, resolve: Resolve, permits: Permits | None = None
    ) -> None:
        """Captures that are not permitted are skipped first."""
        self._rows = rows
        self._permits = permits
        self._query = query
        self._resolve = resolve
        self._ranges = query.ranges()
        self._times = query.times()
        self._filters = [parse_filter(text) for text in query.filters]
        self._tokens = [parse_collapse(text) for text in query.collapse]

    def answer(self) -> SearchResult:
        query = self._query
        if query.sort == "closest":
            rows = self._closest()
        elif query.limit is not None and query.limit < 0:
            last = list(islice(self.descending(None), query.offset, query.offset - query.limit))
            return SearchResult(query, reversed(last))
        elif query.sort == "reverse":
            resume = query.resume()
            rows = self.descending(resume.place if resume else None)
        else:
            rows = self._plain()
        return SearchResult(query, islice(rows, 0 if query.resume_key else query.offset, None))

    def _plain(self) -> Iterator[Row]:
        resume = self._query.resume()
        start, end = (None, None) if self._query.page is None else self.page_bounds(self._query.page)
        if start is not None and start == end:
            return iter(())
        if resume is None:
            return self.ascending(start, end)
        return self.ascending(max(resume.place + _NEXT, start or b""), end, resume.tokens)

    def ascending(
        self, start: bytes | None, end: bytes | None = None, tokens: tuple[str, ...] | None = None
    ) -> Iterator[Row]:
        """The plain result in a range of places; `tokens` is what the collapses last let through."""
        counts_beyond = self._query.skip_count and bool(self._tokens)
        rows = self.matching(start, None if counts_beyond else end)
        if self._query.dupe_count:
            rows = _counted(chain(self._same_url_before(start), rows), start)
        if not self._tokens:
            return rows
        last = tokens if tokens is not None else self._tokens_before(start)
        if counts_beyond:
            return collapsed_and_counted(rows, self._tokens, last, end)
        return collapsed(rows, self._tokens, last)

    def descending(self, end: bytes | None) -> Iterator[Row]:
        """The plain result before a place, backwards."""
        rows = self.matching(None, end, reverse=True)
        if self._query.dupe_count:
            rows = _counted_back(rows)
        return collapsed_back(rows, self._tokens)

    def matching(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[Row]:
        """Rows by place, filtered."""
        rows = self._scanned(start, end, reverse=reverse)
        for each in self._filters:
            rows = filter(each, rows)
        return rows

    def _scanned(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> Iterator[Row]:
        for least, beyond in reversed(self._ranges) if reverse else self._ranges:
            low = least if start is None else max(least, start)
            high = beyond if end is None else min(beyond, end)
            if low >= high:
                continue
            captures = self._rows.scan(self._query.collection, (low, high), reverse=reverse)
            if self._permits is not None:  # before the times: a server's also limits the scan
                captures = filter(self._permits, captures)
            if self._times is not None:
                first, last = self._times
                captures = (capture for capture in captures if first <= capture.timestamp <= last)
            yield from map(self._resolved, captures) if self._query.resolve_revisits else map(Row, captures)

    def _resolved(self, capture: Capture) -> Row:
        if capture.type != "revisit":
            return Row(capture)
        original = self._resolve(capture)
        if original is None or (self._permits is not None and not self._permits(original)):
            return Row(capture)
        return Row(resolved(capture, original), original)

    def _tokens_before(self, start: bytes | None) -> list[str | None]:
        """What each collapse last let through before a place."""
        last: list[str | None] = [None] * len(self._tokens)
        if start is None:
            return last
        for index, token in enumerate(self._tokens):
            row = next(collapsed_back(self.matching(None, start, reverse=True), self._tokens[:index]), None)
            if row is None:
                break
            last[index] = token(row)
        return last

    def _same_url_before(self, start: bytes | None) -> Iterator[Row]:
        """The rows of a place's URL before it."""
        if start is None:
            return iter(())
        return self.matching(start.rstrip(_NEXT).rsplit(b" ", 2)[0] + b" ", start)

    def _closest(self) -> Iterator[Row]:
        """The plain result sorted by distance; of equally near ones the earlier comes first."""
        timestamp = earliest(digits(self._query.closest, "closest"))
        from_time = distance_from(timestamp)

        def distance(row: Row) -> int:
            return from_time(row.capture)

        if self._query.plain().match != "exact":
            assert self._query.limit is not None
            return iter(heapq.nsmallest(self._query.offset + self._query.limit, self.ascending(None), key=distance))
        start, _ = self._ranges[0]
        middle = max(start, start.rpartition(b" ")[0] + b" " + encoded(timestamp))
        past = chain.from_iterable(reversed(list(group)) for _, group in groupby(self.descending(middle), key=distance))
        return heapq.merge(past, self.ascending(middle), key=distance)

    def page_bounds(self, page: int) -> tuple[bytes | None, bytes | None]:
        """The range of a page; empty beyond the last."""
        size = self._query.page_size
        splits = self.splits()
        start = next(islice(splits, page * size - 1, None), b"") if page else None
        if start == b"":
            return b"", b""
        return start, next(islice(splits, size - 1, None), None)

    def num_pages(self) -> int:
        """The number of pages of the result; filters may leave a page empty."""
        splits = sum(1 for _ in self.splits())
        if (splits == 0 or self._permits is not None) and self.is_empty():
            return 0
        return splits // self._query.page_size + 1

    def is_empty(self) -> bool:
        """Whether nothing would be found without filters."""
        return next(self._scanned(None, None, reverse=False), None) is None

    def splits(self) -> Iterator[bytes]:
        """The places at which pages may begin, ascending."""
        return chain.from_iterable(self._rows.splits(self._query.collection, bounds) for bounds in self._ranges)


def _counted(rows: Iterator[Row], start: bytes | None) -> Iterator[Row]:
    """Ascending rows with their duplicates counted; those before `start` are only counted."""
    counts: dict[str, int] = {}
    urlkey = ""
    for row in rows:
        if row.capture.urlkey != urlkey:
            urlkey = row.capture.urlkey
            counts.clear()
        digest = row.capture.digest
        count = counts.get(digest, 0)
        counts[digest] = count + 1
        if start is None or place_of(row.capture) >= start:
            yield row._replace(dupe_count=count) if count and digest != "-" else row


def _counted_back(rows: Iterator[Row]) -> Iterator[Row]:
    for _, group in groupby(rows, key=lambda row: row.capture.urlkey):
        yield from reversed(list(_counted(reversed(list(group)), None)))
