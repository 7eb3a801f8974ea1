"""The index of an archive: written by one process, read by any number, each through a consistent view."""

from __future__ import annotations

import json
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING

from holdfast.catalog import Catalog
from holdfast.config import IndexSettings
from holdfast.env import Environment
from holdfast.env.extras import require
from holdfast.env.paths import ACTIVE
from holdfast.errors import DamagedIndex, IndexNotFound, NotFound
from holdfast.index import paths
from holdfast.index.removal import RemovedRecords, deleted_documents, file_mark
from holdfast.index.state import REPAIR, IndexState, TableFile, is_outdated, read_state, targets
from holdfast.index.tables import read_rows
from holdfast.index.words import WordsReader, beyond, committed_opstamp, range_query, records_query
from holdfast.model import RecordId
from holdfast.records.active_state import ActiveState

if TYPE_CHECKING:
    import tantivy

    from holdfast.index.build import Progress
    from holdfast.index.ranks.ranks import RankingReport, Ranks
    from holdfast.index.workers.pool import PreparedDocuments


_TRIES = 5
_Mark = tuple[int, int, int] | None


class IndexView:
    """Words, tables and state of one commit. Thread-safe.

    Words stay readable whatever happens to the index. Table files may be merged or rewritten: on FileNotFoundError, get
    a new view.
    """

    def __init__(
        self,
        directory: Path,
        state: IndexState,
        searcher: tantivy.Searcher,
        removed: Collection[RecordId],
        *,
        opstamp: int,
        shown: ActiveState | None = None,
    ) -> None:
        """`shown` limits what may be found; None: everything."""
        self.state = state
        self.searcher = searcher
        self.removed = frozenset(removed)
        self._directory = directory
        self.reached = state if shown is None else _up_to(state, shown)  # what may be found
        self._is_ahead = opstamp != state.opstamp or self.reached != state

    def table_files(self, table: str) -> list[Path]:
        """The Parquet files of a table (`TABLES`). They may still have rows of `removed` records."""
        tables = self._directory / paths.tables_name(self.state.generation)
        return [tables / each.name for each in self.state.tables[table]]

    def restricted(self, query: tantivy.Query) -> tantivy.Query:
        """The query without removed records and those beyond the shown state. Every search uses it."""
        from tantivy import Occur, Query

        unwanted = self._unwanted
        if not unwanted:
            return query
        return Query.boolean_query([(Occur.Must, query), *((Occur.MustNot, each) for each in unwanted)])

    @cached_property
    def _unwanted(self) -> list[tantivy.Query]:
        numbers = [number for each in self.removed if (number := self.state.number_of(each)) is not None]
        found = [records_query(numbers)] if numbers else []
        if self._is_ahead:
            found += [range_query(first, last) for first, last in beyond(self.reached)]
        return found

    def record_of(self, number: int) -> RecordId:
        """The record of a number from words or tables."""
        return self.state.record_of(number)

    def number_of(self, record: RecordId) -> int | None:
        """The number of a record; None if it is not indexed, or removed."""
        return None if record in self.removed else self.state.number_of(record)


def _up_to(state: IndexState, shown: ActiveState) -> IndexState:
    """The state, cut off at the shown end of each batch."""
    return replace(state, batches=tuple((name, min(end, shown.batches.get(name, 1))) for name, end in state.batches))


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The output of `holdfast index status`."""

    generation: int
    captures: int
    documents: int
    links: int
    pending: int  # records that are not indexed yet
    removed_pending: int  # removed records that are still in the files
    unpurged: int  # documents marked as deleted, whose words tantivy has not dropped yet
    failed: dict[str, int]  # documents without their text, by reason
    batches: dict[str, int]  # the last indexed serial of each
    bytes: int


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of an update or a build."""

    records: int = 0  # read, of any type
    captures: int = 0
    documents: int = 0
    links: int = 0
    bytes: int = 0  # of payloads read
    removed: int = 0  # records purged because they left the archive


class Index:
    """The index of one archive. Thread-safe; methods that write raise Busy while another process writes."""

    def __init__(
        self,
        root: Path,
        settings: IndexSettings,
        env: Environment,
        catalog: Callable[[], Catalog] | None = None,
        active: Callable[[], ActiveState | None] | None = None,
    ) -> None:
        """`catalog` returns the archive's catalog; without it, the index can only be read.

        `active` returns the state that readers see; without it, they see everything indexed.
        """
        self.root = root
        self.directory = paths.index_directory(root)
        self.settings = settings
        self.env = env
        self.removed = RemovedRecords(self.directory, env)
        self._catalog = catalog
        self._active = active
        self._lock = threading.Lock()
        self._mark: tuple[_Mark, ...] = ()  # of STATE, `removed` and the active state
        self._meta: tuple[Path, _Mark] = (self.directory, None)  # of tantivy's own state
        self._view: IndexView | None = None
        self._words: tuple[int, WordsReader] | None = None  # and their generation

    @property
    def catalog(self) -> Catalog:
        assert self._catalog is not None, "writing and counting need a catalog"
        return self._catalog()

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """True if there is an index."""
        return self.env.files.exists(self.directory / paths.STATE)

    @property
    def is_outdated(self) -> bool:
        """True if an earlier release wrote it: it cannot be read, and the next update rebuilds it."""
        return is_outdated(self.directory, self.env)

    def state(self) -> IndexState:
        """The state of the index; generation 0 if there is none. Raises DamagedIndex."""
        return read_state(self.directory, self.env)

    def view(self) -> IndexView:
        """The index as of now. Cheap while nothing changes. Raises IndexNotFound, DamagedIndex or MissingExtra."""
        require("search")
        with self._lock:
            for _ in range(_TRIES):
                mark = file_mark(self.directory / paths.STATE), self.removed.mark(), file_mark(self.root / ACTIVE)
                if self._view is not None and mark == self._mark and file_mark(self._meta[0]) == self._meta[1]:
                    return self._view
                try:
                    self._view = self._new_view()
                except FileNotFoundError:
                    continue  # the generation was deleted meanwhile
                self._mark = mark
                return self._view
        raise DamagedIndex(f"the files of '{self.directory}' are not those that its state names; {REPAIR}")

    def _new_view(self) -> IndexView:
        """Reads `removed` before the words: a writer deletes from the words first."""
        shown = self._active() if self._active is not None else None
        removed = self.removed.read().all
        state = self.state()
        if state.generation == 0:
            raise IndexNotFound(f"the archive '{self.root}' has no index; create it with 'holdfast index update'")
        path = self.directory / paths.words_name(state.generation)
        if not self.env.files.exists(path) and self.state().generation != state.generation:
            raise FileNotFoundError(path)
        self._meta = path / paths.META, file_mark(path / paths.META)
        if self._words is None or self._words[0] != state.generation:
            self._words = (state.generation, WordsReader(path))
        searcher = self._words[1].searcher()
        opstamp = committed_opstamp(path)  # read last: the searcher sees nothing later
        return IndexView(self.directory, state, searcher, removed, opstamp=opstamp, shown=shown)

    @property
    def links(self) -> int:
        """Rows of the table `links`. Raises DamagedIndex."""
        return sum(each.rows for each in self.state().tables["links"])

    def ranks(self) -> Ranks | None:
        """The newest page ranks and in-links; None if they were never computed. Raises DamagedIndex."""
        from holdfast.index.ranks.ranks import newest_ranks

        return newest_ranks(self.env.files, self.directory)

    def ranks_of(self, generation: int) -> Ranks:
        """Ranks of an earlier generation; the last few are kept. Raises NotFound."""
        from holdfast.index.ranks.ranks import ranks_of

        return ranks_of(self.directory, generation)

    # -- writing ------------------------------------------------------------------------------------------------

    def update(self, progress: Progress | None = None, prepared: PreparedDocuments | None = None) -> BuildReport:
        """Indexes new records. Durable on return; commits in between.

        `prepared` documents were extracted before and are not read from the archive.
        """
        from holdfast.index.build import update

        require("search")
        return update(self, progress, prepared)

    def build(self, progress: Progress | None = None) -> BuildReport:
        """Rebuilds the index while readers use the old one; resumes an interrupted build."""
        from holdfast.index.build import build

        require("search")
        return build(self, progress)

    def purge_removed(self) -> bool:
        """Deletes removed records from the files; False if another process is writing."""
        from holdfast.index.build import purge_removed

        return purge_removed(self)

    def rank(self, *, force: bool = False) -> RankingReport:
        """Computes ranks if captures or links changed, or if `force` is set. Durable on return."""
        from holdfast.index.ranks.ranks import rank

        require("search")
        return rank(self, force=force)

    def pending(self, *, rebuild: bool = False) -> int:
        """The number of records that are not indexed yet; with `rebuild`, that a build has to index."""
        state = IndexState() if rebuild or self.is_outdated else self.state()
        return sum(max(0, end - first) for _, first, end in targets(state, self.catalog))

    def verify(self, progress: Progress | None = None) -> list[str]:
        """The faults of the index's files. Reads every byte."""
        try:
            return list(_faults(self, progress))
        except DamagedIndex as error:
            return [str(error)]

    def status(self) -> IndexStatus:
        """How much is indexed, and how much is not; zeros without an index. Raises DamagedIndex."""
        try:
            view = self.view()
        except IndexNotFound:
            return IndexStatus(0, 0, 0, 0, self.pending(), 0, 0, {}, {}, 0)
        from tantivy import Query

        failed: Counter[str] = Counter()
        for path in view.table_files("captures"):
            failed.update(read_rows(path, ["failure"])["failure"].drop_null().to_pylist())
        rows = {table: sum(each.rows for each in files) for table, files in view.state.tables.items()}
        return IndexStatus(
            view.state.generation,
            rows["captures"],
            view.searcher.search(view.restricted(Query.all_query()), limit=1).count,  # type: ignore[attr-defined]
            rows["links"],
            self.pending(),
            len(view.removed),
            deleted_documents(self.directory / paths.words_name(view.state.generation)),
            dict(failed),
            {name: end - 1 for name, end in view.state.batches},
            _bytes_below(self.directory),
        )


def _bytes_below(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # merged meanwhile
            continue
    return total


# A segment file ends with {"version": ..., "crc": ...}, the length of that, and a magic number, 4 bytes each.
_MAGIC = 1337
_NUMBER = 4
_PIECE = 1 << 20


def _faults(index: Index, progress: Progress | None) -> Iterator[str]:
    """The faults of the index, if there is one. Safe while another process writes."""
    state = index.state()
    if state.generation == 0:
        return
    index.removed.read()
    words = index.directory / paths.words_name(state.generation)
    committed_opstamp(words)
    for path in sorted(words.glob(f"{'[0-9a-f]' * 32}.*")):
        yield from _segment_faults(path, progress)
    WordsReader(words).searcher()
    tables = index.directory / paths.tables_name(state.generation)
    for files in state.tables.values():
        for file in files:
            yield from _table_faults(index, tables / file.name, file, progress)
    from holdfast.index.ranks.ranks import generations

    for generation in generations(index.env.files, index.directory):
        yield from _rank_faults(index, generation)


def _segment_faults(path: Path, progress: Progress | None) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - 2 * _NUMBER))
            tail = file.read()
            length, magic = (int.from_bytes(tail[at : at + _NUMBER], "little") for at in (0, _NUMBER))
            body = size - 2 * _NUMBER - length
            if magic != _MAGIC or body < 0:
                yield f"'{path}' has no footer"
                return
            file.seek(body)
            wanted = json.loads(file.read(length))["crc"]
            file.seek(0)
            found = _crc(file, body, progress)
    except FileNotFoundError:
        return  # merged meanwhile
    except (ValueError, KeyError, TypeError):
        yield f"'{path}' has a malformed footer"
        return
    if found != wanted:
        yield f"'{path}' has checksum {found:08x}, expected {wanted:08x}"


def _rank_faults(index: Index, generation: int) -> Iterator[str]:
    try:
        index.ranks_of(generation).verify()
    except NotFound:
        return  # replaced meanwhile
    except DamagedIndex as error:
        yield str(error)


def _table_faults(index: Index, path: Path, file: TableFile, progress: Progress | None) -> Iterator[str]:
    try:
        with path.open("rb") as source:
            found = _crc(source, sys.maxsize, progress)
    except FileNotFoundError:
        if any(each.name == path.name for files in index.state().tables.values() for each in files):
            yield f"'{path}' is missing"
        return
    if found != file.crc:
        yield f"'{path}' has checksum {found:08x}, expected {file.crc:08x}"


def _crc(source: IO[bytes], left: int, progress: Progress | None) -> int:
    """The CRC-32 of the next `left` bytes."""
    found = 0
    while left > 0 and (piece := source.read(min(_PIECE, left))):
        found = zlib.crc32(piece, found)
        left -= len(piece)
        if progress is not None:
            progress(len(piece))
    return found
