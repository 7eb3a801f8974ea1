"""Streams of all nodes: each capture of a snapshot once, in every order but by rank, restartable at any node (B9-B11).

    asked node   snapshot of all origin batches ──▶ pages of all nodes, merged by position ──▶ batches, tokens
    each node    its partitions, from a position on: captures in order, with their records and payloads

Positions and tokens are those of a stream on one machine, with ids of origins, so they are valid at any node. A stream
is never partial: it would pass over what is missing, and its token, too. Without a node that holds a partition and is
in sync, it ends with ClusterDown, and goes on later where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from holdfast.archive import Archive
from holdfast.batches.entry import JournalEntry
from holdfast.catalog import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.cluster.answers.captures import packed_capture, unpacked_capture
from holdfast.cluster.answers.records import RemoteContents, find_record, remote_record
from holdfast.cluster.answers.scatter import ListPiece, NodeGroup, Round, Scatter
from holdfast.cluster.answers.search import linked_pages, shard_query
from holdfast.cluster.answers.shard.served_catalog import ServedCatalog, SnapshotRows
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse
from holdfast.cluster.copies.protocol.messages import pack_entries, unpack_entries
from holdfast.env.files import Buffer
from holdfast.errors import ClusterDown, IndexNotFound, NotFound, UsageError
from holdfast.model import Capture, RecordId
from holdfast.query.engine import is_ranked
from holdfast.query.language.parser import parse
from holdfast.query.results import QueryOptions
from holdfast.records.stored_record import StoredRecord
from holdfast.storage.server.wire import pack_failure, unpack_failure
from holdfast.streams.batch import ScanPiece
from holdfast.streams.filter import CaptureFilter, Selects
from holdfast.streams.options import StreamOptions
from holdfast.streams.order.date import DateOrder
from holdfast.streams.order.log import LogOrder
from holdfast.streams.order.order import OrderStep, StreamOrder
from holdfast.streams.order.ranges import Bound, Position, Ranges, rank
from holdfast.streams.order.url import UrlOrder
from holdfast.streams.page import LARGE, Page
from holdfast.streams.page_reader import HEAD_PARTS, READ_PARTS, PageReader, StreamFault
from holdfast.streams.prefetch import Prefetch
from holdfast.streams.snapshot import Snapshot
from holdfast.streams.stream import AHEAD, Feed
from holdfast.streams.token import StreamToken, decode, require_own

PAGES_MAX = 512  # in one response
BYTES_MAX = 16 << 20  # of payloads in one response; one page may have more
_FRAME_ENTRIES = 32  # compressed together: heads have at most a mebibyte each
_STEPS_S = 2.0  # then a node returns what it has found so far
_SETTLE_S = 20.0  # for nodes to pull what others have recorded before a stream begins
_SETTLE_LOOK_S = 0.2


# -- at each node -----------------------------------------------------------------------------------------------------


class _Served:
    """What orders of streams need of an archive, of which they see some partitions."""

    def __init__(self, archive: Archive, catalog: ServedCatalog) -> None:
        self.catalog = catalog
        self.env = archive.env


class _OriginOrder(LogOrder):
    """Order `log` over batches of origins: records lie where their holder has them."""

    def step(self, position: Position, most: int) -> OrderStep | None:
        place = self._from(position)
        if place is None:
            return None
        batch, serial = place
        rows: Any = self._source.catalog.rows
        records, behind = rows.of_batch(batch, serial, self._choice.snapshot.ends[batch], max(most, self._looked))
        pages: list[Page] = []
        for record, capture in zip(records, rows.of_records(records), strict=True):
            if capture is None or not self._choice.in_shard(record) or not self._choice.holds(record):
                continue
            if not self._choice.takes(capture) or (
                self._choice.is_latest and not self._is_newest(record, capture.urlkey)
            ):
                continue
            if len(pages) == most:
                return OrderStep(pages, self.behind(pages[-1]), [])
            pages.append(Page.of_capture(capture, self._reader))
        return OrderStep(pages, (batch, behind), [])


def answer_batches(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """Of each origin batch, the first serial that is not known here, and up to which this node has pulled it."""
    ends = {name: last + 1 for name, last in shard.origins.batches().items()}
    pulled = _pulled(shard, dict.fromkeys(shard.origins.followed(), 0) | ends, partitions)
    return {"ends": ends, "pulled": pulled | shard.origins.recorded_ends()}, []


def _pulled(shard: NodeShard, ends: Mapping[str, int], partitions: frozenset[int]) -> dict[str, int]:
    """Of each origin batch, the first serial that this node may lack in some of the partitions."""
    own = set(shard.archive.catalog.batches())
    found: dict[str, int] = {}
    for name, end in ends.items():
        cursor = shard.origins.cursor(name)
        reached = cursor.serial + 1 if cursor is not None and partitions <= cursor.partitions else 0
        found[name] = end if name in own else reached
    return found


def require_pulled(shard: NodeShard, snapshot: Snapshot, batches: Collection[str], partitions: frozenset[int]) -> None:
    """Raises ClusterDown unless this node has all of the snapshot that is in these batches and partitions."""
    needed = {name: end for name, end in snapshot.ends.items() if name in batches}
    for name, reached in _pulled(shard, needed, partitions).items():
        if reached < needed[name]:
            raise ClusterDown(f"this node has not copied batch '{name}' up to {needed[name] - 1} yet")


def answer_pages(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """Captures of a stream from a position on, with what the stream reads of them."""
    options, snapshot = _options(head["options"]), Snapshot(dict(head["snapshot"]))
    require_pulled(shard, snapshot, head["following"], partitions)
    rows = SnapshotRows(shard.archive.catalog.rows, shard.origins, partitions, snapshot)
    order = _order(shard, rows, options, CaptureFilter(options, snapshot, _selects(shard, rows, head, partitions)))
    pages, position = _pages(order, tuple(head["position"]), min(int(head["most"]), PAGES_MAX))
    reader = PageReader(shard.archive)
    here: list[tuple[Capture, Page]] = []  # under the id in the stream, and as it is read here
    for page in pages:
        if head["is_public"] and shard.access.verdict(page.capture) is not Verdict.ALLOW:
            continue
        if (record := rows.local(page.record)) is not None:
            own = page.capture if record == page.record else page.capture._replace(record=record)
            here.append((page.capture, Page.of_capture(own, reader)))
    found, faults = _read(reader, [page for _, page in here], options)
    ready = {id(page) for page in found}
    served = [(capture, page) for capture, page in here if id(page) in ready]
    has_entries = bool(options.wanted & HEAD_PARTS)
    entries = [page.entry._replace(origin="-") for _, page in served] if has_entries else []
    frames = [pack_entries(entries[at : at + _FRAME_ENTRIES]) for at in range(0, len(entries), _FRAME_ENTRIES)]
    wrong = [[str(fault.record), fault.url, pack_failure(fault.error).decode()] for fault in faults]
    head = {"pages": [_packed(*each) for each in served], "entries": list(map(len, frames))}
    payloads = [page.payload_read for _, page in served if page.payload_read is not None]
    return head | {"faults": wrong, "position": position}, [*frames, *payloads]


def _pages(order: StreamOrder, start: Position, most: int) -> tuple[list[Page], Position | None]:
    """As many captures as one response has, perhaps of several batches, and the next position; None at the end."""
    pages: list[Page] = []
    size = 0
    position: Position = start
    end_s = time.monotonic() + _STEPS_S
    while len(pages) < most and time.monotonic() < end_s:
        step = order.step(position, most - len(pages))
        if step is None:
            return pages, None
        position = step.position
        for page in step.pages:
            if pages and size + page.size > BYTES_MAX:
                return pages, order.behind(pages[-1])
            pages.append(page)
            size += page.size if page.size <= LARGE else 0
    return pages, position


def _read(reader: PageReader, pages: list[Page], options: StreamOptions) -> tuple[list[Page], list[StreamFault]]:
    if not options.wanted & READ_PARTS:
        return pages, []
    pages, faults = reader.prepare(pages, options.wanted)
    found, more = reader.finish(pages, reader.gather(pages, options.wanted))
    return found, faults + more


def _packed(capture: Capture, page: Page) -> list[Any]:
    """A page. Entries and payloads follow the head, in the order of pages."""
    payload = page.payload_read
    size = None if payload is None else len(payload)
    return [packed_capture(capture), size, page.size, page.unresolved]


def _selects(shard: NodeShard, rows: SnapshotRows, head: dict[str, Any], partitions: frozenset[int]) -> Selects | None:
    """Whether the query of a stream finds a record."""
    if not head["text"]:
        return None
    numbers = frozenset(shard_query(shard, head, partitions).matching().tolist())
    view = shard.archive.index.view()
    ends = dict(view.state.batches)

    def selects(name: RecordId) -> bool:
        record = rows.local(name)
        if record is None:
            return False
        if record.serial >= ends.get(record.batch, 0):
            raise IndexNotFound(f"the index does not reach record {record} of the stream yet: try again in a moment")
        return view.number_of(record) in numbers

    return selects


def _order(shard: NodeShard, rows: SnapshotRows, options: StreamOptions, choice: CaptureFilter) -> StreamOrder:
    source: Any = _Served(shard.archive, ServedCatalog(shard.archive, rows))
    return _order_of(source, options, choice, PageReader(source))


def _order_of(source: Any, options: StreamOptions, choice: CaptureFilter, reader: PageReader) -> StreamOrder:
    match options.order:
        case "log":
            return _OriginOrder(source, choice, reader)
        case "url":
            return UrlOrder(source, choice, reader)
        case "date" | "modified" as order:
            return DateOrder(source, choice, reader, is_modified=order == "modified", reverse=options.reverse)
        case _:
            raise UsageError("page ranks are computed by each node for itself: a cluster has no streams in their order")


# -- at the node that was asked ---------------------------------------------------------------------------------------


class _Item(NamedTuple):
    page: Page
    behind: Position


class ClusterStream(Feed):
    """A stream of all nodes. As `Stream`: close it, or use it as a context manager."""

    def __init__(
        self, scatter: Scatter, archive: Archive, options: StreamOptions, cluster: str, *, is_public: bool
    ) -> None:
        """With `is_public`, each node applies its access rules.

        Raises UsageError, MalformedToken, ClusterDown if a partition has no node that is in sync.
        """
        if options.order == "rank" or (options.query and is_ranked(parse(options.query))):
            raise UsageError("page ranks are computed by each node for itself: a cluster has no streams by them")
        self._scatter = scatter
        if options.token:
            state = decode(options.token)
            require_own(state, cluster, options)
        else:
            state = StreamToken(cluster, options.digest(), cluster_snapshot(scatter, options.batch, is_whole=True))
        source: Any = archive
        order = _order_of(source, options, CaptureFilter(options, state.snapshot), PageReader(source))
        super().__init__(source, options, state, order)
        self._reader = RemoteReader(archive, scatter)
        self._found_faults: list[StreamFault] = []
        self._ahead: Prefetch[ScanPiece] | None = None
        text = options.query
        self._head: dict[str, Any] = {
            "options": packed_options(options),
            "snapshot": state.snapshot.ends,
            "text": text,
            "is_public": is_public,
        }
        if text:
            plain = QueryOptions(limit=0)
            asked = {"text": text, "options": asdict(plain), "is_public": is_public}
            linked = linked_pages(scatter, parse(text), asked)
            self._head |= {"linked": linked, "query_options": asdict(plain)}

    def _token_at(self, left: Ranges, delivered: int) -> str:
        """With all batches: the name of a record that several nodes have recorded depends on them."""
        return replace(self.state, left=left, delivered=delivered).encode()

    def part(self, index: int, count: int) -> StreamOptions:
        """As `Stream.part`."""
        options = replace(self.options, shard=(index, count), token="")
        own = replace(self.state, options=options.digest(), left=self.left, delivered=0)
        return replace(options, token=own.encode())

    # -- pieces -------------------------------------------------------------------------------------------------

    def pieces(self) -> Generator[ScanPiece, None, None]:
        self.close()
        ahead = self._ahead = Prefetch(self._gathered(), AHEAD, "holdfast-stream")
        try:
            for piece in ahead:
                yield piece
                if self._ahead is not ahead:  # closed, or another iteration has begun
                    return
        finally:
            ahead.close()

    def _gathered(self) -> Generator[ScanPiece, None, None]:
        for start, end in self._left:
            yield from self._range(start, end)

    def _range(self, start: Position, end: Bound) -> Iterator[ScanPiece]:
        pages: list[Page] = []
        position, behind, size = start, start, 0
        for item in self._items(start):
            if rank(item.behind) > rank(end):
                break
            pages.append(item.page)
            behind, size = item.behind, size + item.page.size
            if len(pages) >= self.options.batch_size or size >= BYTES_MAX:
                yield self._piece(pages, position, behind)
                pages, position, size = [], behind, 0
        yield self._piece(pages, position, end)

    def _piece(self, pages: list[Page], start: Position, end: Bound) -> ScanPiece:
        faults, self._found_faults = self._found_faults, []
        return ScanPiece(pages, start, end, faults, 0)

    def _items(self, start: Position) -> Iterator[_Item]:
        round_ = _whole_round(self._scatter)
        following = [name for name in self.state.snapshot.ends if is_followed(name, round_)]

        def fetch(group: NodeGroup, position: Position) -> ListPiece[_Item]:
            head = self._head | {
                "following": following,
                "position": position,
                "most": min(self.options.batch_size, PAGES_MAX),
            }
            response, raw = round_.ask(group, "pages", head)
            self._found_faults += [
                StreamFault(RecordId.parse(record), url, unpack_failure(error.encode()))
                for record, url, error in response["faults"]
            ]
            items = self._unpacked(response["pages"], response["entries"], raw)
            behind = response["position"]
            return ListPiece(items, tuple(behind) if behind is not None else None)

        return round_.merge(fetch, start, lambda item: rank(item.behind))

    def _unpacked(self, packed: list[list[Any]], frames: list[int], raw: bytes) -> list[_Item]:
        view, at = memoryview(raw), 0
        read: list[JournalEntry | None] = []
        for size in frames:
            read += unpack_entries(bytes(view[at : at + size]))
            at += size
        items = []
        for (capture, payload, size, unresolved), entry in zip(packed, read or [None] * len(packed), strict=True):
            page = Page.of_capture(unpacked_capture(capture), self._reader)
            page.entry_read, page.size, page.unresolved = entry, size, unresolved
            if payload is not None:
                page.payload_read = view[at : at + payload]
                at += payload
            items.append(_Item(page, self.order.behind(page)))
        return items

    def _turn(self) -> Iterator[tuple[ScanPiece, list[Page]]]:
        """Nodes leave out what is removed; this one need not have the records."""
        self._left, self._last = self.left, None
        for piece in self.pieces():
            self.note(piece.faults)
            pages = self._lacking(piece)
            if pages:
                yield piece, pages
            else:
                self._pass(piece)

    def close(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.close()


def cluster_snapshot(scatter: Scatter, batch: str | None, *, is_whole: bool) -> Snapshot:
    """What all nodes know now, once those that answer have pulled it.

    Raises NotFound if no node knows the batch, ClusterDown if it takes too long.
    """
    wanted: dict[str, int] = {}
    end_s = time.monotonic() + _SETTLE_S
    while True:
        round_ = scatter.begin(is_whole=is_whole)
        found = round_.gather(lambda group: round_.ask(group, "batches", {})[0])  # noqa: B023
        if not wanted:
            for each in found:
                for name, end in each["ends"].items():
                    wanted[name] = max(end, wanted.get(name, 0))
        behind = [name for each in found for name, end in wanted.items() if each["pulled"].get(name, 0) < end]
        if not any(is_followed(name, round_) for name in behind):
            break
        if time.monotonic() > end_s:
            raise ClusterDown(f"nodes have not copied batch '{behind[0]}' yet: try again in a moment")
        time.sleep(_SETTLE_LOOK_S)
    if batch is not None and batch not in wanted:
        raise NotFound(f"no batch '{batch}'; known are {', '.join(sorted(wanted))}")
    return Snapshot({name: end for name, end in sorted(wanted.items()) if batch in (None, name)})


def is_followed(batch: str, round_: Round) -> bool:
    """Whether the node of a batch is alive, so that others pull it; what a dead one recorded is compared instead."""
    return batch.rpartition(".")[2] in round_.table.live


def _whole_round(scatter: Scatter) -> Round:
    """A request to nodes that are in sync. Raises ClusterDown if a partition has none."""
    return scatter.begin(is_whole=True)


def packed_options(options: StreamOptions) -> dict[str, Any]:
    """Options without what concerns only the node that was asked."""
    values = asdict(replace(options, token=""))
    return values | {"captures": asdict(options.captures) if options.captures is not None else None}


def _options(values: dict[str, Any]) -> StreamOptions:
    captures = values["captures"]
    if captures is not None:
        lists = {name: tuple(captures[name]) for name in ("filters", "collapse", "fields")}
        captures = CaptureQuery(**captures | lists)
    shard = values["shard"]
    fields = {"fields": tuple(values["fields"]), "shard": tuple(shard) if shard is not None else None}
    return StreamOptions(**values | fields | {"captures": captures})


class RemoteReader(PageReader):
    """What pages of other nodes read on demand."""

    def __init__(self, archive: Archive, scatter: Scatter) -> None:
        source: Any = archive
        super().__init__(source)
        self._scatter = scatter

    def entry(self, record: RecordId) -> JournalEntry:
        raise UsageError("this stream was opened without the record of its pages: name the field 'headers'")

    def stored(self, page: Page) -> StoredRecord:
        if page.stored_read is None and page.entry_read is None:
            page.stored_read = find_record(self._scatter, page.url, {"record": str(page.record)})
            page.entry_read = page.stored_read.entry
        elif page.stored_read is None:
            page.stored_read = remote_record(self._scatter, page.record, page.entry)
        return page.stored_read

    def pieces(self, page: Page) -> Iterator[Buffer]:
        yield from RemoteContents(self._scatter, page.record, page.url).payload()
