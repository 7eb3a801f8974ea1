"""The archive of all nodes, as the node that was asked answers for it (H8, N12).

It answers what an open `Archive` answers about several URLs. What concerns one URL is forwarded to a node that holds it
(`routes`), or read there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from holdfast.catalog import CaptureQuery, SearchResult
from holdfast.catalog.query.search import Permits, Search
from holdfast.cluster.answers.captures import ClusterSearch
from holdfast.cluster.answers.outline import ClusterOutline
from holdfast.cluster.answers.records import find_record
from holdfast.cluster.answers.scatter import Scatter
from holdfast.cluster.answers.shard.operations import OPERATIONS
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse, answer
from holdfast.cluster.directory import NodeDirectory
from holdfast.errors import CaptureNotFound, ClusterDown, UnknownCollection, UsageError
from holdfast.model import RecordId
from holdfast.query.results import QueryOptions, QueryResult
from holdfast.urls import parse_page_id

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from holdfast.archive.export import ExportOptions, ExportReport, ExportSource
    from holdfast.catalog.outline import Outline
    from holdfast.cluster.answers.routes import ClusterRouter
    from holdfast.cluster.answers.streams import ClusterStream
    from holdfast.env import Environment
    from holdfast.query.access_filter import AccessFilter
    from holdfast.query.sql.result import SqlResult
    from holdfast.records.selection import Selection
    from holdfast.records.stored_record import StoredRecord
    from holdfast.streams.options import StreamOptions
    from holdfast.streams.snapshot import Snapshot
    from holdfast.streams.stream import Stream
    from holdfast.streams.work_queue import SharedStream
    from holdfast.study.engine.run import PartialResults, Study
    from holdfast.study.engine.scan import Progress


class NodeAnswers:
    """What this node answers to requests about one URL that others forward: records under the ids of their origins."""

    def __init__(self, shard: NodeShard) -> None:
        self._shard = shard

    def search(self, query: CaptureQuery, permits: Permits | None = None) -> SearchResult:
        return self._search(query, permits).answer()

    def num_pages(self, query: CaptureQuery, permits: Permits | None = None) -> int:
        return self._search(query, permits).num_pages()

    def outline(self, permits: Permits | None = None) -> Outline:
        return self._shard.archive.outline(permits)

    def query(self, text: str, options: QueryOptions | None = None, screen: AccessFilter | None = None) -> QueryResult:
        return self._shard.archive.query(text, options, screen)

    def url_of(self, record: RecordId | None, page_id: int = 0) -> str | None:
        return self._shard.archive.url_of(record, page_id)

    def stream(self, options: StreamOptions | None = None) -> Stream:
        return self._shard.archive.stream(options)

    def collections(self) -> tuple[str, ...]:
        return self._shard.archive.collections()

    def _search(self, query: CaptureQuery, permits: Permits | None) -> Search:
        every = frozenset(range(self._shard.rule.partitions))
        return Search(self._shard.rows(every), query, self._shard.archive.catalog.resolve, permits)


class WholeArchive:
    """Of the archive of this node, open for reading. Any thread may call; not for an event loop."""

    def __init__(self, shard: NodeShard, router: ClusterRouter, *, is_public: bool) -> None:
        """With `is_public`, each node applies its access rules."""
        self._is_public = is_public
        self.archive = shard.archive
        self._shard = shard
        self._scatter = Scatter(router, self._local)

    def _local(self, operation: str, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
        return answer(self._shard, OPERATIONS, operation, head, partitions)

    # -- captures -----------------------------------------------------------------------------------------------

    def search(self, query: CaptureQuery, permits: Permits | None = None) -> SearchResult:
        """As `Archive.search`, of all nodes. Raises ClusterDown if this node is cut off."""
        return ClusterSearch(self._scatter, query, permits, is_public=self._is_public).answer()

    def num_pages(self, query: CaptureQuery, permits: Permits | None = None) -> int:
        return ClusterSearch(self._scatter, query, permits, is_public=self._is_public).num_pages()

    def outline(self, permits: Permits | None = None) -> ClusterOutline:
        """As `Archive.outline`, of all nodes. Each node applies its own access rules, instead of `permits`."""
        return ClusterOutline(self._scatter, is_public=self._is_public)

    def query(self, text: str, options: QueryOptions | None = None, screen: AccessFilter | None = None) -> QueryResult:
        """As `Archive.query`, of all nodes. Each node applies its own access rules, whatever the filter of this one."""
        from holdfast.cluster.answers.search import ask_all

        return ask_all(self._scatter, text, options or QueryOptions(), is_public=self._is_public)

    def sql(self, statement: str, parameters: Sequence[Any] = ()) -> SqlResult:
        """As `Archive.sql`, of all nodes, without the table `contents` and without ranks."""
        from holdfast.cluster.answers.sql import run_sql_on_all

        return run_sql_on_all(self._scatter, statement, parameters, self.archive.settings.query)

    # -- for `holdfast.study` -----------------------------------------------------------------------------------

    def gathered(
        self, study: Study, collection: str | None, progress: Progress
    ) -> AbstractContextManager[PartialResults]:
        """The partial results of all nodes, each with its access rules."""
        from holdfast.cluster.answers.studies import gathered_on_all

        if collection is not None:
            self.require_collection(collection)
        return gathered_on_all(self._scatter, self._shard, study, collection, progress, is_public=self._is_public)

    def snapshot(self) -> Snapshot:
        """What all nodes have, once those that answer have pulled it. Raises ClusterDown."""
        from holdfast.cluster.answers.streams import cluster_snapshot

        return cluster_snapshot(self._scatter, None, is_whole=True)

    def chosen(self, records: Iterable[tuple[RecordId, str]]) -> ExportSource:
        """Records by their ids and URLs, for an export."""
        from holdfast.cluster.answers.export import ChosenSource

        return ChosenSource(self._scatter, records)

    def copies_and_partitions(self) -> tuple[int, int]:
        table = self._scatter.router.table()
        return table.copies, table.rule.partitions

    def captures(self, collection: str | None = None) -> int:
        """How many captures all nodes read for a study, copies included."""
        from holdfast.cluster.answers.studies import captures_on_all

        return captures_on_all(self._scatter, collection)

    def share(self, options: StreamOptions, path: Path) -> SharedStream:
        """Raises UsageError: workers of a cluster are on several machines, and have no file in common."""
        raise UsageError("a stream of a cluster is shared by parts: give each worker its own with --shard I/N")

    def stream(self, options: StreamOptions | None = None) -> ClusterStream:
        """As `Archive.stream`, of all nodes. Raises ClusterDown if a partition has no node that is up to date."""
        from holdfast.cluster.answers.streams import ClusterStream
        from holdfast.streams.options import StreamOptions

        cluster = NodeDirectory.of_member(self.archive.path).settings().cluster
        return ClusterStream(
            self._scatter, self.archive, options or StreamOptions(), cluster, is_public=self._is_public
        )

    def export(
        self,
        selection: Selection,
        target: Path | BinaryIO,
        options: ExportOptions,
        progress: Callable[[int], None] | None = None,
    ) -> ExportReport:
        """As `Archive.export`, of all nodes; `coverage` of the report says what is missing.

        Raises UsageError for imported files as they were, ClusterDown if the last holder of a record fails meanwhile.
        """
        from holdfast.archive.export import Exporter
        from holdfast.cluster.answers.export import ClusterSource

        if options.exact:
            raise UsageError("a node writes only those files exactly that were imported there")
        return Exporter(self.archive, progress, source=ClusterSource(self._scatter)).run(selection, target, options)

    @property
    def env(self) -> Environment:
        return self.archive.env

    def get(self, url: str, at: str = "", collection: str | None = None, pick: str | None = None) -> StoredRecord:
        """As `Archive.get`, at a node that holds the URL."""
        return find_record(self._scatter, url, {"at": at, "collection": collection, "pick": pick})

    def get_page(
        self, page_id: str, at: str = "", collection: str | None = None, pick: str | None = None
    ) -> StoredRecord:
        """As `Archive.get_page`."""
        number = parse_page_id(page_id)
        url = self.url_of(None, number)
        if url is None:
            raise CaptureNotFound(f"no capture of a page with the id {page_id}")
        return find_record(self._scatter, url, {"page_id": number, "at": at, "collection": collection, "pick": pick})

    def read(self, record: RecordId) -> StoredRecord:
        """The record of an id. Raises CaptureNotFound."""
        url = self.url_of(record)
        if url is None:
            raise CaptureNotFound(f"record {record} does not exist")
        return find_record(self._scatter, url, {"record": str(record)})

    def url_of(self, record: RecordId | None, page_id: int = 0) -> str | None:
        """The URL of a record, by any of its ids, or of a page. Raises ClusterDown if a node that may know is down."""
        round_ = self._scatter.begin()
        head = {"record": str(record) if record is not None else "", "page_id": page_id}
        found = [url for url in round_.gather(lambda group: round_.ask(group, "url", head)[0]["url"]) if url]
        if not found and round_.coverage.missing:
            raise ClusterDown(f"not all nodes that may have it respond ({round_.coverage} partitions are missing)")
        return found[0] if found else None

    def collections(self) -> tuple[str, ...]:
        """Those of all nodes that respond."""
        round_ = self._scatter.begin()
        found = round_.gather(lambda group: round_.ask(group, "collections", {})[0]["collections"])
        return tuple(sorted({name for names in found for name in names}))

    def require_collection(self, name: str) -> None:
        """Raises UnknownCollection, unless a node has it."""
        known = self.collections()
        if name not in known:
            raise UnknownCollection(f"no collection {name!r}: known are {', '.join(known)}")

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes connections, and the archive of this node."""
        self._scatter.close()
        self._shard.close()
        self.archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
