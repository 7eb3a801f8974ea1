"""An open archive: what the library can do with one, in one class.

    with holdfast.open("my-archive") as archive:
        key = archive.contents.put(b"...")

One process writes to an archive at a time; any number read it meanwhile (`read_only=True`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import WeakSet

from holdfast import config
from holdfast.archive.backup.backup import BatchCopyReport, back_up, restore
from holdfast.archive.export.export import ExportOptions, export
from holdfast.archive.export.targets import ExportReport
from holdfast.archive.ingest.add import Added, Adder
from holdfast.archive.ingest.exchange import Exchange, drafts_of
from holdfast.archive.ingest.importer import Importer, ImportOptions, ImportReport, ImportSummary
from holdfast.archive.ingest.input import ImportInput, inputs_of
from holdfast.archive.ingest.intent import IntentLog
from holdfast.archive.ingest.recovery import catch_up, roll_back_unfinished
from holdfast.archive.reindex import open_catalog, reindex
from holdfast.archive.remove.refusals import Refusals
from holdfast.archive.remove.removal import Removal, RemovalOptions, Remover
from holdfast.archive.update.update import Updates, prepare_active_state
from holdfast.archive.volumes.list import VolumeList
from holdfast.archive.volumes.open_volumes import OpenVolumes
from holdfast.archive.volumes.reports import ANSWER_S, VolumeReport, VolumeReports
from holdfast.archive.write_state import WriteState
from holdfast.arguments import checked
from holdfast.batches.journal import Journal
from holdfast.batches.verify import BatchReport, verify_batch
from holdfast.catalog import CaptureQuery, Catalog, SearchResult
from holdfast.config import ConnectorWatch, Settings, VolumeSettings
from holdfast.env import REAL, Environment, WriterLock, paths
from holdfast.errors import Denied, MalformedInput, UnknownCollection, UsageError
from holdfast.index import Index
from holdfast.model import Pick, VolumeState, batch_name
from holdfast.records.draft import Drafting, RecordDraft
from holdfast.records.records import Records
from holdfast.records.references import ReferencedFiles
from holdfast.records.selection import Selection
from holdfast.records.stored_record import StoredRecord
from holdfast.storage.store.connector_watch import ConnectorWatcher
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volumes.compaction import Progress
from holdfast.streams.multicast import Multicast, MulticastOptions
from holdfast.streams.options import StreamOptions
from holdfast.streams.stream import Stream
from holdfast.streams.work_queue import SharedStream

if TYPE_CHECKING:
    from holdfast.query import AccessFilter, QueryEngine, QueryOptions, QueryResult
    from holdfast.query.sql import SqlResult


class Archive(OpenVolumes):
    """An open archive. `contents` is thread-safe; the methods that change volumes are for one thread at a time.

    `add`, reading and searching are thread-safe.
    """

    @checked
    def __init__(self, path: str | Path, *, read_only: bool = False, env: Environment = REAL) -> None:
        self.path = Path(path)
        self.env = env
        self.read_only = read_only
        watch = config.watch_settings(self.path / paths.SETTINGS, env.clock)
        self._lock = None if read_only else WriterLock(self.path / paths.LOCK, purpose())
        self._opening = threading.Lock()
        self._closed = False
        self._streams: WeakSet[Stream | Multicast] = WeakSet()
        self._closing = ExitStack()
        self._closing.callback(self._release)
        try:
            self._open(watch)
        except BaseException:
            self._closing.close()
            raise

    def _open(self, watch: ConnectorWatch) -> None:
        settings = watch.settings
        writable = not self.read_only
        self.instance = BlockStore(self.path, settings, self.env, writable=writable)
        self._closing.callback(self.instance.close)
        self.contents = Contents(self.instance)
        self._closing.callback(self.contents.close)
        self.journal = Journal(self.path, self.env, settings.records, writable=writable)
        self._closing.callback(self.journal.close)
        self._catalog: Catalog | None = None
        self._index: Index | None = None
        self._queries: QueryEngine | None = None
        self._closing.callback(self._close_catalog)
        self._reports = VolumeReports(self.instance, lambda volume: self.path / paths.LOCK, self.env)
        self._watcher = ConnectorWatcher(self.instance, watch)
        self._list = VolumeList(self.path, self.instance, self._watcher)
        self._closing.callback(self._watcher.close)
        if settings.connector:
            self._watcher.start()
        if writable:
            self._prepare_writing(settings)

    def _prepare_writing(self, settings: Settings) -> None:
        """Finishes or rolls back what a crash interrupted."""
        for left in self.path.glob("import-*.open"):  # large payloads of an import that was killed
            left.unlink(missing_ok=True)
        intents = IntentLog(self.path, self.env)
        self._closing.callback(intents.close)
        refusals = Refusals(self.path, self.env)
        state = WriteState(self.contents, self.journal, self.catalog, intents, refusals, settings.records, self.env)
        catch_up(state)
        roll_back_unfinished(state, self.records)
        self._remover = Remover(self.path, state)
        self._compact_all(self._remover.resume(), None)
        self._state = state
        self._adder = Adder(state)
        self._closing.callback(self._adder.close)
        prepare_active_state(self)

    @property
    def catalog(self) -> Catalog:
        """Captures by URL and time. A reader opens it when it first needs it: contents can be read without."""
        with self._opening:
            self._require_open()
            if self._catalog is None:
                settings = self.settings.records
                self._catalog = open_catalog(self.path, settings, self.env, read_only=self.read_only)
            return self._catalog

    @property
    def records(self) -> Records:
        """Records by id, and by URL and time."""
        files = ReferencedFiles([self.path / each for each in self.settings.records.warc_paths])
        return Records(self.journal, self.catalog, self.contents, files)

    @property
    def updates(self) -> Updates:
        """Batch updates of what streams and queries see, and removal of superseded captures."""
        return Updates(self)

    @property
    def index(self) -> Index:
        """Words, metadata and links of captures."""
        with self._opening:
            if self._index is None:
                catalog, active = (lambda: self.catalog), (lambda: self.updates.active)
                self._index = Index(self.path, self.settings.index, self.env, catalog, active)
            return self._index

    @property
    def queries(self) -> QueryEngine:
        """Answers queries in the query language."""
        from holdfast.query import QueryEngine  # its imports take a tenth of a second

        index = self.index
        with self._opening:
            if self._queries is None:
                self._queries = QueryEngine(index, lambda: self.records)
            return self._queries

    @property
    def adder(self) -> Adder:
        """Adds records; for parts of the archive that need more than `add`. Raises Denied."""
        self._require_writable()
        return self._adder

    # -- volumes ------------------------------------------------------------------------------------------------

    @checked
    def volumes(self, answer_s: float = ANSWER_S) -> Iterator[VolumeReport]:
        """How the volumes are, in the order of the connector; one that does not answer in that time counts as down."""
        yield from self._reports.take(answer_s)

    @checked
    def add_volume(self, volume: VolumeSettings, *, force: bool = False) -> None:
        """Adds an empty volume, or one that a server has; new contents may go there at once. Durable on return.

        Raises VolumeDown if its server does not answer, unless with `force`.
        """
        self._require_writable()
        self._list.add(volume, force=force)

    @checked
    def set_state(self, name: str, state: VolumeState) -> None:
        """Makes a volume writable or read-only, in the file that lists it. Durable on return."""
        self._require_writable()
        self._list.set_state(name, state)

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError(f"the archive '{self.path}' is closed")

    def _require_writable(self) -> None:
        self._require_open()
        if self.read_only:
            raise Denied("the archive is open for reading only")

    # -- records ------------------------------------------------------------------------------------------------

    @checked
    def add(self, exchanges: Sequence[Exchange], *, batch: str | None = None, collection: str = "") -> list[Added]:
        """Adds captures, each a response and the request where it is given. Durable on return.

        Returns one element for each record.
        """
        self._require_writable()
        settings = self.settings.records
        drafting = Drafting(settings, batch_name(collection or settings.collection))
        return self._adder.add(drafts_of(exchanges, drafting, self.env), batch)

    @checked
    def add_drafts(self, drafts: Sequence[RecordDraft], *, batch: str | None = None) -> list[Added]:
        """Adds records in their order; those that are in already are not added again. Durable on return."""
        self._require_writable()
        return self._adder.add(drafts, batch)

    @checked
    def add_large(self, draft: RecordDraft, *, batch: str | None = None) -> Added:
        """Adds a record whose payload is in the file `draft.spooled`, which is deleted. Durable on return."""
        self._require_writable()
        return self._adder.add_large(draft, batch)

    @checked
    def import_files(
        self,
        inputs: Sequence[ImportInput | Path | str] | ImportInput | Path | str,
        options: ImportOptions = ImportOptions(),  # noqa: B008
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Imports files of any known format; returns when all of them are done. What was added is durable then.

        A file that cannot be read has an `error` in its report. In strict mode the first fault raises MalformedInput.
        What was added before an error or an interrupt stays.
        """
        return ImportSummary(tuple(self.iter_import(inputs, options, progress)))

    @checked
    def iter_import(
        self,
        inputs: Sequence[ImportInput | Path | str] | ImportInput | Path | str,
        options: ImportOptions = ImportOptions(),  # noqa: B008
        progress: Progress | None = None,
    ) -> Iterator[ImportReport]:
        """As `import_files`, but yields the report of each file as it is done.

        Nothing is read before the first report is asked for. A caller that stops early leaves the other files out.
        """
        self._require_writable()
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
        return chain(broken, Importer(self._adder, self.path, self.settings, options).run(files, progress))

    @checked
    def get(
        self, url: str, at: str = "", collection: str | None = None, pick: Pick | str | None = None
    ) -> StoredRecord:
        """The capture of the URL that stands for a time, which may be partial ('2026', '202611').

        Without a time it is the newest. `pick` is 'nearest' or 'not-newer'; without it the setting `records.pick`
        decides. Raises CaptureNotFound.
        """
        return self.records.get(url, at, collection, Pick.parse(pick or self.settings.records.pick))

    @checked
    def get_page(
        self, page_id: int | str, at: str = "", collection: str | None = None, pick: Pick | str | None = None
    ) -> StoredRecord:
        """The capture of the page with WebBase's page id (B3) that stands for a time; without one, the newest.

        The id is a number, or a text of 16 hexadecimal digits. Raises MalformedKey, CaptureNotFound.
        """
        return self.records.get_page(page_id, at, collection, Pick.parse(pick or self.settings.records.pick))

    @checked
    def search(self, query: CaptureQuery) -> SearchResult:
        """The captures that match the query, as a stream."""
        return self.catalog.search(query)

    def collections(self) -> tuple[str, ...]:
        """Those with captures, and the default one, in the order of their names."""
        return tuple(sorted({self.settings.records.collection, *self.catalog.collections()}))

    @checked
    def require_collection(self, name: str) -> None:
        """Raises UnknownCollection, unless `collections` has it."""
        known = self.collections()
        if name not in known:
            raise UnknownCollection(f"no collection {name!r}: known are {', '.join(known)}")

    def query(self, text: str, options: QueryOptions | None = None, screen: AccessFilter | None = None) -> QueryResult:
        """What the index finds for a query in the query language, such as 'stanford title:library -type:pdf'.

        Raises MalformedQuery, or IndexNotFound.
        """
        return self.queries.ask(text, options, screen)

    @checked
    def sql(self, statement: str, parameters: Sequence[Any] = ()) -> SqlResult:
        """Runs one SELECT over captures, links, pages and contents; the rows come as Arrow.

        Raises MalformedQuery, Denied for what does more than read, TooLarge, or IndexNotFound.
        """
        from holdfast.query.sql import run_sql

        return run_sql(statement, parameters, self.index, self.instance, self.settings.query)

    @checked
    def stream(self, options: StreamOptions = StreamOptions()) -> Stream:  # noqa: B008
        """Each capture of this moment once, in the wanted order, also while others write (B9, N5).

        Iterate over it for pages, or over its `batches()`; its `token` goes on behind what was handed out.
        """
        stream = Stream(self, options)
        self._streams.add(stream)
        return stream

    @checked
    def multicast(
        self,
        options: StreamOptions = StreamOptions(),  # noqa: B008
        limits: MulticastOptions = MulticastOptions(),  # noqa: B008
    ) -> Multicast:
        """One snapshot for several consumers, who share the reading of it: each calls `join` (B10, N5)."""
        multicast = Multicast(self, options, limits)
        self._streams.add(multicast)
        return multicast

    @checked
    def share(self, options: StreamOptions, path: str | Path) -> SharedStream:
        """A stream that processes of this machine share: each takes the next piece when it has none (N5).

        `path` is the file through which they cooperate; the first to name it begins the stream.
        """
        return SharedStream(self, options, Path(path))

    @checked
    def export(
        self,
        selection: Selection,
        target: str | Path | BinaryIO,
        options: ExportOptions,
        progress: Progress | None = None,
    ) -> ExportReport:
        """Writes captures or records to files of another format, or imported files exactly as they were."""
        return export(self, selection, Path(target) if isinstance(target, str) else target, options, progress)

    @checked
    def remove(self, selection: Selection, options: RemovalOptions, progress: Progress | None = None) -> Removal:
        """Removes captures, their records, and contents that nobody else holds, for good (N2). Durable on return."""
        self._require_writable()
        with self._adder.lock:
            removal = self._remover.remove(selection, options)
        if options.compact and not options.dry_run and removal.records:
            self._compact_all(removal.volumes, progress)
        if removal.records and not options.dry_run:
            self.index.purge_removed()
        return removal

    def _compact_all(self, names: Sequence[str], progress: Progress | None) -> None:
        """Frees the disk space of what a removal left dead."""
        for name in names:
            self.compact(name, progress=progress)
        if names:
            self._remover.finish()

    # -- batches ------------------------------------------------------------------------------------------------

    @checked
    def seal(self, batch: str) -> None:
        """Closes a batch for good: it takes no more records. Durable on return."""
        self._require_writable()
        self.journal.require(batch)
        with self._adder.lock:
            self.journal.batch(batch).seal()

    @checked
    def verify(self, batch: str, progress: Progress | None = None) -> BatchReport:
        """Reads every byte of a batch, also while another process writes."""
        self.journal.require(batch)
        return verify_batch(batch, self.journal.directory(batch), self.env, progress)

    @checked
    def back_up(self, batch: str, target: str | Path, progress: Progress | None = None) -> BatchCopyReport:
        """Writes a batch with its payloads to a new directory, from which `restore` brings it back. Durable on return.

        Also while another process writes. After an interruption the same call goes on.
        """
        return back_up(self, batch, Path(target), progress)

    @checked
    def restore(self, backup: str | Path, progress: Progress | None = None) -> BatchCopyReport:
        """Brings the batch of a backup in, under the same ids, verified. Durable on return. Idempotent.

        Raises UsageError, and changes nothing, if another batch of that name is here.
        """
        return restore(self, Path(backup), progress)

    @checked
    def reindex(self, progress: Progress | None = None) -> int:
        """Rebuilds the catalog from the batches while readers go on; returns the number of captures."""
        self._require_writable()
        with self._adder.lock:
            self._state.catalog = self._catalog = reindex(self.path, self._state, progress)
        return sum(total.captures for total in self.catalog.totals()[0].values())

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Idempotent. Ends its streams. Acknowledged data is safe without it; closing makes the next opening fast."""
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


@checked
def open(path: str | Path, *, read_only: bool = False) -> Archive:
    """Opens an archive, for writing unless `read_only`. Raises ArchiveNotFound, or Busy if another process writes."""
    return Archive(path, read_only=read_only)


def purpose() -> str:
    """The command line of this process, shown to those who wait for its lock."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:150] if sys.argv and sys.argv[0] else "a Python program"
