"""An open archive, in one class.

    with holdfast.open("my-archive") as archive:
        key = archive.contents.put(b"...")

One process writes to an archive at a time, and any number of processes read it meanwhile (`read_only=True`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import WeakSet

from holdfast import config
from holdfast.archive.directory import lock_archive, open_catalog
from holdfast.archive.usage import ArchiveUsage, archive_usage
from holdfast.archive.volumes import OpenVolumes, add_volume
from holdfast.arguments import public
from holdfast.batches.journal import Journal
from holdfast.catalog import CaptureQuery, Catalog, SearchResult
from holdfast.catalog.query.search import Permits
from holdfast.config import RecordSettings, SettingsWatch, VolumeSettings
from holdfast.env import REAL, Environment, paths
from holdfast.env.extras import require
from holdfast.errors import CaptureNotFound, ClusterDown, Denied, MalformedInput, UnknownCollection, UsageError
from holdfast.model import Pick, RecordId, VolumeState, batch_name
from holdfast.storage.volumes.local import Progress

if TYPE_CHECKING:
    from holdfast.archive.backup import BatchCopyReport
    from holdfast.archive.export import ExportOptions, ExportReport
    from holdfast.archive.ingest.exchange import Exchange
    from holdfast.archive.ingest.file_reader import ImportInput
    from holdfast.archive.ingest.importer import ImportOptions, ImportReport, ImportSummary
    from holdfast.archive.ingest.writer import Added, ArchiveWriter
    from holdfast.archive.removal import Removal, RemovalOptions, RemovesEverywhere
    from holdfast.archive.update import Updates
    from holdfast.batches.entry import JournalEntry
    from holdfast.batches.verify import BatchReport
    from holdfast.catalog.outline import Outline
    from holdfast.index.index import Index
    from holdfast.query.access_filter import AccessFilter
    from holdfast.query.engine import QueryEngine
    from holdfast.query.results import QueryOptions, QueryResult
    from holdfast.query.sql.result import SqlResult
    from holdfast.records.draft import RecordDraft
    from holdfast.records.records import Records
    from holdfast.records.selection import Selection
    from holdfast.records.stored_record import StoredRecord
    from holdfast.streams.multicast import Multicast, MulticastOptions
    from holdfast.streams.options import StreamOptions
    from holdfast.streams.stream import Stream
    from holdfast.streams.work_queue import SharedStream

_HOMES = {  # of argument types that are loaded when first used: a reader needs few of them
    "Exchange": "holdfast.archive.ingest.exchange",
    "AccessFilter": "holdfast.query.access_filter",
    "ExportOptions": "holdfast.archive.export",
    "ImportInput": "holdfast.archive.ingest.file_reader",
    "ImportOptions": "holdfast.archive.ingest.importer",
    "MulticastOptions": "holdfast.streams.multicast",
    "QueryOptions": "holdfast.query.results",
    "RecordDraft": "holdfast.records.draft",
    "RemovalOptions": "holdfast.archive.removal",
    "Selection": "holdfast.records.selection",
    "StreamOptions": "holdfast.streams.options",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


class Archive(OpenVolumes):
    """An open archive. Adding, reading, searching and `contents` are thread-safe.

    Methods that change volumes are for one thread at a time.
    """

    @public
    def __init__(self, path: str | Path, *, read_only: bool = False, env: Environment = REAL) -> None:
        self.path = Path(path)
        self.env = env
        self.read_only = read_only
        self.everywhere: RemovesEverywhere | None = None  # set while a node of a cluster runs
        watch = config.watch_settings(self.path / paths.SETTINGS, env.clock)
        self._lock = None if read_only else lock_archive(self.path)
        self._opening = threading.Lock()
        self._removing = threading.Lock()  # one removal at a time, with its compaction: there is one plan of it
        self._closed = False
        self._streams: WeakSet[Stream | Multicast] = WeakSet()
        self._closing = ExitStack()
        self._closing.callback(self._release)
        try:
            self._open(watch)
        except BaseException:
            self._closing.close()
            raise

    def _open(self, watch: SettingsWatch) -> None:
        self._open_volumes(self.path, watch, self.env, writable=not self.read_only)
        self.journal = Journal(self.path, self.env, writable=not self.read_only)
        self._closing.callback(self.journal.close)
        self._catalog: Catalog | None = None
        self._index: Index | None = None
        self._queries: QueryEngine | None = None
        self._closing.callback(self._close_catalog)
        if self.settings.connector:
            self._watcher.start()
        if not self.read_only:
            self._prepare_writing(self.settings.records)

    def _prepare_writing(self, settings: RecordSettings) -> None:
        """Finishes or rolls back what a crash interrupted."""
        from holdfast.archive.ingest.writer import ArchiveWriter
        from holdfast.archive.removal import Remover
        from holdfast.archive.update import prepare_active_state

        for left in self.path.glob("import-*.open"):  # large payloads of an import that was killed
            left.unlink(missing_ok=True)
        self._writer = ArchiveWriter(self.path, self.contents, self.journal, self.catalog, settings, self.env)
        self._closing.callback(self._writer.close)
        self._writer.recover()
        self._remover = Remover(self._writer)
        self._compact_all(self._remover.resume(), None)
        prepare_active_state(self)

    @property
    def catalog(self) -> Catalog:
        """Captures by URL and time. Opened on first use: a reader of contents does not need it."""
        catalog = self._catalog
        if catalog is not None and not self._closed:
            return catalog
        with self._opening:
            self._require_open()
            if self._catalog is None:
                settings = self.settings.records
                self._catalog = open_catalog(self.path, settings, self.env, read_only=self.read_only)
            return self._catalog

    @property
    def records(self) -> Records:
        """Records by id, and by URL and time."""
        from holdfast.records.records import Records

        warc_paths = [self.path / each for each in self.settings.records.warc_paths]
        return Records(self.journal, self.catalog, self.contents, warc_paths)

    @property
    def updates(self) -> Updates:
        """Batch updates of what streams and queries see, and removal of superseded captures."""
        from holdfast.archive.update import Updates

        return Updates(self)

    @property
    def index(self) -> Index:
        """Words, metadata and links of captures."""
        from holdfast.index.index import Index
        from holdfast.records.active_state import active_state

        with self._opening:
            if self._index is None:
                self._index = Index(
                    self.path,
                    self.settings.index,
                    self.env,
                    lambda: self.catalog,
                    lambda: active_state(self.path, self.settings, self.env),
                )
            return self._index

    @property
    def queries(self) -> QueryEngine:
        """Answers queries in the query language."""
        from holdfast.query.engine import QueryEngine

        index = self.index
        with self._opening:
            if self._queries is None:
                self._queries = QueryEngine(index, lambda: self.records)
            return self._queries

    @property
    def writer(self) -> ArchiveWriter:
        """Adds records. Internal: other code calls `add`. Raises Denied."""
        self._require_writable()
        return self._writer

    # -- volumes ------------------------------------------------------------------------------------------------

    @public
    def add_volume(self, volume: VolumeSettings | str, *, force: bool = False) -> None:
        """Adds an empty volume, or an existing one on a server. It accepts contents at once. Durable on return.

        A name alone means a local volume of organization `log`. Raises VolumeDown if the server does not respond,
        unless `force` is set.
        """
        self._require_writable()
        wanted = VolumeSettings(volume) if isinstance(volume, str) else volume
        add_volume(self.path, self.instance, self._watcher, wanted, force=force)

    @public
    def set_state(self, name: str, state: VolumeState | str) -> None:
        """Makes a volume writable or read-only: changes the file that lists it. Durable on return."""
        self._require_writable()
        state = VolumeState.parse(state)
        own = self.path / paths.SETTINGS
        is_own = config.load(own).volume_settings(name) is not None
        self._watcher.set_state(own if is_own else self.path / self.settings.connector, name, state)

    def _lock_of(self, volume: VolumeSettings) -> Path:
        return self.path / paths.LOCK

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError(f"the archive '{self.path}' is closed")

    def _require_writable(self) -> None:
        self._require_open()
        if self.read_only:
            raise Denied("the archive is open for reading only")

    # -- records ------------------------------------------------------------------------------------------------

    @public
    def add(
        self, exchanges: Sequence[Exchange] | Exchange, *, batch: str | None = None, collection: str = ""
    ) -> list[Added]:
        """Adds captures, each a response with its request if given. Durable on return.

        Returns one element per record.
        """
        from holdfast.archive.ingest.exchange import Exchange, drafts_of
        from holdfast.records.draft import Drafting

        self._require_writable()
        given = [exchanges] if isinstance(exchanges, Exchange) else exchanges
        settings = self.settings.records
        drafting = Drafting(batch_name(collection or settings.collection))
        return self._writer.add(drafts_of(given, drafting, self.env), batch)

    @public
    def add_drafts(self, drafts: Sequence[RecordDraft], *, batch: str | None = None) -> list[Added]:
        """Adds records, in order. Skips records already in the archive. Durable on return."""
        self._require_writable()
        return self._writer.add(drafts, batch)

    @public
    def add_large(self, draft: RecordDraft, *, batch: str | None = None) -> Added:
        """Adds a record whose payload is in the file `draft.spooled`, and deletes the file. Durable on return."""
        self._require_writable()
        return self._writer.add_large(draft, batch)

    @public
    def import_files(
        self,
        inputs: Sequence[ImportInput | Path | str] | ImportInput | Path | str,
        options: ImportOptions | None = None,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Imports files of any known format. All records added are durable on return.

        The report of an unreadable file has an `error`. In strict mode the first fault raises MalformedInput. Records
        added before an error or an interrupt stay.
        """
        from holdfast.archive.ingest.importer import ImportSummary

        return ImportSummary(tuple(self.iter_import(inputs, options, progress)))

    @public
    def iter_import(
        self,
        inputs: Sequence[ImportInput | Path | str] | ImportInput | Path | str,
        options: ImportOptions | None = None,
        progress: Progress | None = None,
    ) -> Iterator[ImportReport]:
        """As `import_files`, but yields the report of each file as it is done.

        Nothing is read before the first report is requested. A caller that stops early skips the other files.
        """
        from holdfast.archive.ingest.file_reader import ImportInput, inputs_of
        from holdfast.archive.ingest.importer import Importer, ImportOptions, ImportReport

        self._require_writable()
        options = options or ImportOptions()
        for name in (options.batch, options.collection):
            if name is not None:
                batch_name(name)
        given = [inputs] if isinstance(inputs, str | Path | ImportInput) else inputs
        files: list[ImportInput] = []
        broken: list[ImportReport] = []
        for each in given:
            if isinstance(each, ImportInput):
                files.append(each)
                continue
            try:
                files += inputs_of(Path(each))
            except MalformedInput as error:
                if options.strict:
                    raise
                broken.append(ImportReport(Path(each).name, error=error))
        return chain(broken, Importer(self._writer, self.path, self.settings, options).run(files, progress))

    @public
    def get(
        self, url: str, at: str = "", collection: str | None = None, pick: Pick | str | None = None
    ) -> StoredRecord:
        """The capture of a URL for a time, which may be partial ('2026', '202611'); without a time, the newest.

        `pick` is 'nearest' or 'not-newer'; the default is the setting `records.pick`. Raises CaptureNotFound.
        """
        return self.records.get(url, at, collection, Pick.parse(pick or self.settings.records.pick))

    @public
    def get_page(
        self, page_id: int | str, at: str = "", collection: str | None = None, pick: Pick | str | None = None
    ) -> StoredRecord:
        """The capture of a page for a time, by WebBase's page id (B3); without a time, the newest.

        The id is a number or a string of 16 hexadecimal digits. Raises MalformedKey, CaptureNotFound.
        """
        return self.records.get_page(page_id, at, collection, Pick.parse(pick or self.settings.records.pick))

    @public
    def search(self, query: CaptureQuery | str, permits: Permits | None = None) -> SearchResult:
        """Rows of the captures that match the query and that `permits` allows: `row.capture`. Lazy.

        A string is a URL or a shorthand: 'example.com/a*', '*.example.com', '*'. For words, see `query`.
        """
        return self.catalog.search(CaptureQuery(url=query) if isinstance(query, str) else query, permits)

    @public
    def outline(self, permits: Permits | None = None) -> Outline:
        """The hosts of the permitted captures, and the paths below them, level by level."""
        return self.catalog.outline(permits)

    @public
    def num_pages(self, query: CaptureQuery, permits: Permits | None = None) -> int:
        """The number of pages of a query's result."""
        return self.catalog.num_pages(query, permits)

    @public
    def url_of(self, record: RecordId | str | None, page_id: int = 0) -> str | None:
        """The URL of a record, or of a page by WebBase's id; None if there is none."""
        if record is None:
            return next((each.url for each in self.catalog.of_page_id(page_id)), None)
        try:
            return self.records.read(record).entry.url
        except CaptureNotFound:
            return None

    def collections(self) -> tuple[str, ...]:
        """The names of all collections with captures, and of the default one, sorted."""
        return tuple(sorted({self.settings.records.collection, *self.catalog.collections()}))

    @public
    def require_collection(self, name: str) -> None:
        """Raises UnknownCollection unless the collection is known (`collections`)."""
        known = self.collections()
        if name not in known:
            raise UnknownCollection(f"no collection {name!r}: known are {', '.join(known)}")

    @public
    def usage(self) -> ArchiveUsage:
        """The archive's disk space, as `du` counts it, and how much duplicates and compression save."""
        return archive_usage(self)

    @public
    def query(self, text: str, options: QueryOptions | None = None, screen: AccessFilter | None = None) -> QueryResult:
        """Searches the index with the query language: 'stanford title:library -type:pdf'.

        Raises MalformedQuery, or IndexNotFound.
        """
        return self.queries.ask(text, options, screen)

    @public
    def sql(self, statement: str, parameters: Sequence[Any] = ()) -> SqlResult:
        """Runs one SELECT over captures, links, pages and contents. Rows come as Arrow.

        Raises MalformedQuery, Denied for a statement that does more than read, TooLarge, or IndexNotFound.
        """
        require("search")
        from holdfast.query.sql.run import run_sql

        return run_sql(statement, parameters, self.index, self.instance, self.settings.query)

    @public
    def stream(self, options: StreamOptions | str | None = None) -> Stream:
        """Streams a snapshot of the archive: each capture exactly once, even while others write (B9, N5).

        A string is a query in the query language, such as 'title:library', and needs the index. Iterate over the
        stream for pages, or over its `batches()`. Its `token` resumes after the last page delivered.
        """
        from holdfast.streams.stream import Stream

        stream = Stream(self, _stream_options(options))
        self._streams.add(stream)
        return stream

    @public
    def multicast(
        self, options: StreamOptions | str | None = None, limits: MulticastOptions | None = None
    ) -> Multicast:
        """Streams one snapshot to several consumers that share a scan; each calls `join` (B10, N5)."""
        from holdfast.streams.multicast import Multicast, MulticastOptions

        multicast = Multicast(self, _stream_options(options), limits or MulticastOptions())
        self._streams.add(multicast)
        return multicast

    @public
    def share(self, options: StreamOptions | str, path: str | Path) -> SharedStream:
        """A stream shared by processes on this machine: an idle process takes the next piece (N5).

        The processes coordinate through the file `path`. The first one to name it starts the stream.
        """
        from holdfast.streams.work_queue import SharedStream

        return SharedStream(self, _stream_options(options), Path(path))

    @public
    def export(
        self,
        selection: Selection | CaptureQuery | str,
        target: str | Path | BinaryIO,
        options: ExportOptions | str | None = None,
        progress: Progress | None = None,
    ) -> ExportReport:
        """Writes captures or records to files in any format, or imported files exactly as they were.

        `options` may be the name of a format; the default is the format that the target's suffix names. `selection`
        may be a URL or a shorthand, as for `search`.
        """
        from holdfast.archive.export import Exporter, ExportOptions, format_by_name

        if options is None:
            options = ExportOptions(format_by_name(target))
        elif isinstance(options, str):
            options = ExportOptions(options)
        path = Path(target) if isinstance(target, str) else target
        return Exporter(self, progress).run(_selection(selection), path, options)

    @public
    def remove(
        self,
        selection: Selection | CaptureQuery | str,
        options: RemovalOptions | str,
        progress: Progress | None = None,
    ) -> Removal:
        """Removes captures for good, with their records and the contents only they refer to (N2). Durable on return.

        `selection` may be a URL or a shorthand, as for `search`; a string as `options` is the reason.
        """
        from holdfast.archive.removal import RemovalOptions

        self._require_writable()
        if self.index.exists:
            require("search")  # removal from the index needs it
        selection = _selection(selection)
        options = RemovalOptions(options) if isinstance(options, str) else options
        if self.everywhere is not None and not options.dry_run:
            return self.everywhere.remove(selection, options)
        if not (self.can_remove or options.dry_run):
            raise ClusterDown(f"'{self.path}' is a node of a cluster: it removes records only while it runs")
        return self.remove_here(selection, options, progress)

    @property
    def can_remove(self) -> bool:
        """False for a node of a cluster that does not run: other nodes would give the records back."""
        return self.everywhere is not None or not (self.path / paths.CLUSTER / paths.MEMBER).exists()

    def remove_here(
        self,
        selection: Selection,
        options: RemovalOptions,
        progress: Progress | None = None,
        announce: Callable[[dict[RecordId, JournalEntry]], None] | None = None,
    ) -> Removal:
        """As `remove`; on a node of a cluster, from this node only.

        `announce` is called with the records before anything is removed, while additions wait. An exception from it
        cancels the removal.
        """
        self._require_writable()
        with self._removing:
            with self._writer.lock:
                removal = self._remover.remove(selection, options, announce)
            if options.compact and not options.dry_run and removal.records:
                self._compact_all(removal.volumes, progress)
        if removal.records and not options.dry_run and self.index.exists:
            self.index.purge_removed()
        return removal

    def _compact_all(self, names: Sequence[str], progress: Progress | None) -> None:
        """Frees the disk space of removed contents."""
        for name in names:
            self.compact(name, progress=progress)
        if names:
            with self._writer.lock:  # an addition may be about to write to the log of intents
                self._remover.finish()

    # -- batches ------------------------------------------------------------------------------------------------

    @public
    def seal(self, batch: str) -> None:
        """Closes a batch for good: it accepts no more records. Durable on return."""
        self._require_writable()
        self.journal.require(batch)
        with self._writer.lock:
            self.journal.batch(batch).seal()

    @public
    def verify(self, batch: str, progress: Progress | None = None) -> BatchReport:
        """Reads every byte of a batch. Another process may be writing."""
        from holdfast.batches.batch import BatchState
        from holdfast.batches.verify import verify_batch

        self.journal.require(batch)
        known = BatchState.unpack(self.catalog.batch_state(batch))
        return verify_batch(batch, self.journal.directory(batch), self.env, progress, known)

    @public
    def back_up(self, batch: str, target: str | Path, progress: Progress | None = None) -> BatchCopyReport:
        """Writes a batch with its payloads to a new directory, for `restore`. Durable on return.

        Another process may be writing. After an interruption, the same call resumes.
        """
        from holdfast.archive.backup import back_up

        return back_up(self, batch, Path(target), progress)

    @public
    def restore(self, backup: str | Path, progress: Progress | None = None) -> BatchCopyReport:
        """Restores the batch of a backup under the same ids, verifying everything. Durable on return. Idempotent.

        Raises UsageError, and changes nothing, if the archive has another batch of that name.
        """
        from holdfast.archive.backup import restore

        return restore(self, Path(backup), progress)

    @public
    def reindex(self, progress: Progress | None = None) -> int:
        """Rebuilds the catalog from the batches, without stopping readers; returns the number of captures."""
        self._require_writable()
        with self._writer.lock:
            self._catalog = self._writer.reindex(progress)
        return sum(total.captures for total in self.catalog.totals()[0].values())

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the streams. Idempotent. Acknowledged data is safe without it; it makes the next opening fast."""
        self._closed = True
        for stream in self._streams:
            stream.close()
        super().close()

    def _close_catalog(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _stream_options(given: StreamOptions | str | None) -> StreamOptions:
    from holdfast.streams.options import StreamOptions

    if given is None or isinstance(given, str):
        return StreamOptions(query=given or "")
    return given


def _selection(given: Selection | CaptureQuery | str) -> Selection:
    from holdfast.records.selection import Selection

    if isinstance(given, str):
        given = CaptureQuery(url=given)
    return Selection(given) if isinstance(given, CaptureQuery) else given


@public
def open(path: str | Path, *, read_only: bool = False) -> Archive:
    """Opens an archive, for writing unless `read_only`. Raises ArchiveNotFound, or Busy if another process writes."""
    return Archive(path, read_only=read_only)
