"""The index of an archive: read by any number of processes, each through a view of one moment, written by one."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.catalog import Catalog
from holdfast.config import IndexSettings
from holdfast.env import Environment
from holdfast.env.paths import ACTIVE
from holdfast.errors import DamagedIndex, IndexNotFound
from holdfast.index import paths
from holdfast.index.removal import RemovedRecords, deleted_documents
from holdfast.index.state import REPAIR, IndexState, read_state
from holdfast.index.tables import read_rows
from holdfast.index.words import beyond, committed_opstamp, open_words, range_query, records_query, translated_damage
from holdfast.model import RecordId
from holdfast.records.active_state import ActiveState

if TYPE_CHECKING:
    import tantivy

    from holdfast.index.build import BuildReport, Progress
    from holdfast.index.ranks.generations import RankingReport
    from holdfast.index.ranks.ranks import Ranks

_TRIES = 5
_Mark = tuple[int, int, int] | None


class IndexView:
    """Words, tables and state that belong together. Any thread may use it, for as long as it likes.

    Words stay readable whatever happens to the index. Files of tables that were merged or rewritten since are gone: who
    gets FileNotFoundError asks for a new view.
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
        """`shown` is what may be found; None: everything."""
        self.state = state
        self.searcher = searcher
        self.removed = frozenset(removed)
        self._directory = directory
        self.reached = state if shown is None else _up_to(state, shown)  # what may be found, and no further
        self._is_ahead = opstamp != state.opstamp or self.reached != state

    def table_files(self, table: str) -> list[Path]:
        """The Parquet files of one of the tables (`TABLES`). Rows of `removed` records may still be in them."""
        tables = self._directory / paths.tables_name(self.state.generation)
        return [tables / each.name for each in self.state.tables[table]]

    def restricted(self, query: tantivy.Query) -> tantivy.Query:
        """A query that finds nothing that was removed or is beyond what is shown. All questions go through it."""
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
        """The record of a number that the words or the tables gave."""
        return self.state.record_of(number)

    def number_of(self, record: RecordId) -> int | None:
        """The number of a record; None if it is not in the index."""
        return None if record in self.removed else self.state.number_of(record)


def _up_to(state: IndexState, shown: ActiveState) -> IndexState:
    """The state as if it reached no further than what is shown."""
    return replace(state, batches=tuple((name, min(end, shown.batches.get(name, 1))) for name, end in state.batches))


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What `holdfast index status` shows."""

    generation: int
    captures: int
    documents: int
    links: int
    pending: int  # records that are not indexed yet
    removed_pending: int  # records that are not found any more, but are still in the files
    unpurged: int  # documents that are marked as deleted, and whose words tantivy has not dropped yet
    failed: dict[str, int]  # documents without their text, by reason
    batches: dict[str, int]  # the last serial of each that is indexed
    bytes: int


class Index:
    """The index of one archive. Any thread may call any method; those that write raise Busy while another writes."""

    def __init__(
        self,
        root: Path,
        settings: IndexSettings,
        env: Environment,
        catalog: Callable[[], Catalog] | None = None,
        active: Callable[[], ActiveState | None] | None = None,
    ) -> None:
        """`catalog` gives that of the archive, for those who write; without one, the index can only be read.

        `active` gives the state of the archive that readers see; without one, they see all that is indexed.
        """
        self.root = root
        self.directory = paths.index_directory(root)
        self.settings = settings
        self.env = env
        self.removed = RemovedRecords(self.directory, env)
        self._catalog = catalog
        self._active = active
        self._lock = threading.Lock()
        self._mark: tuple[_Mark, ...] = ()  # of STATE, `removed` and what is shown: changes whenever these do
        self._meta: tuple[Path, _Mark] = (self.directory, None)  # the same of tantivy's own state
        self._view: IndexView | None = None
        self._words: tuple[int, tantivy.Index] | None = None  # and their generation

    @property
    def catalog(self) -> Catalog:
        assert self._catalog is not None, "an index that is written or counted is given a catalog"
        return self._catalog()

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether there is an index."""
        return self.env.files.exists(self.directory / paths.STATE)

    def state(self) -> IndexState:
        """How far the index reaches; that of generation 0 if there is none. Raises DamagedIndex."""
        return read_state(self.directory, self.env)

    def view(self) -> IndexView:
        """The index as it is now. Cheap while nothing changes. Raises IndexNotFound or DamagedIndex."""
        with self._lock:
            for _ in range(_TRIES):
                mark = _stat(self.directory / paths.STATE), self.removed.mark(), _stat(self.root / ACTIVE)
                if self._view is not None and mark == self._mark and _stat(self._meta[0]) == self._meta[1]:
                    return self._view
                try:
                    self._view = self._new_view()
                except FileNotFoundError:
                    continue  # a generation went while it was being opened
                self._mark = mark
                return self._view
        raise DamagedIndex(f"the files of '{self.directory}' are not those that its state names; {REPAIR}")

    def _new_view(self) -> IndexView:
        """In this order: what a writer clears from `removed` it took out of the words before."""
        shown = self._active() if self._active is not None else None
        removed = self.removed.read().all
        state = self.state()
        if state.generation == 0:
            raise IndexNotFound(f"the archive '{self.root}' has no index; make one with 'holdfast index update'")
        path = self.directory / paths.words_name(state.generation)
        if not self.env.files.exists(path) and self.state().generation != state.generation:
            raise FileNotFoundError(path)
        self._meta = path / paths.META, _stat(path / paths.META)
        if self._words is None or self._words[0] != state.generation:
            self._words = (state.generation, open_words(path))
        with translated_damage(path):
            self._words[1].reload()
            searcher = self._words[1].searcher()
        opstamp = committed_opstamp(path)  # only now: what the searcher sees is not later than this
        return IndexView(self.directory, state, searcher, removed, opstamp=opstamp, shown=shown)

    @property
    def links(self) -> int:
        """Rows of the table `links`. Raises DamagedIndex."""
        return sum(each.rows for each in self.state().tables["links"])

    def ranks(self) -> Ranks | None:
        """Page ranks and in-links as they were computed last; None if they never were. Raises DamagedIndex."""
        from holdfast.index.ranks.generations import newest_ranks

        return newest_ranks(self.env.files, self.directory)

    def ranks_of(self, generation: int) -> Ranks:
        """Those of an earlier computation, of which the last few are kept. Raises NotFound."""
        from holdfast.index.ranks.generations import ranks_of

        return ranks_of(self.directory, generation)

    # -- writing ------------------------------------------------------------------------------------------------

    def update(self, progress: Progress | None = None) -> BuildReport:
        """Indexes what has come since the last time. Durable on return, and in parts before."""
        from holdfast.index.build import update

        return update(self, progress)

    def build(self, progress: Progress | None = None) -> BuildReport:
        """Rebuilds the index while readers go on with the old one; resumes a build that was interrupted."""
        from holdfast.index.build import build

        return build(self, progress)

    def purge_removed(self) -> bool:
        """Takes what left the archive out of the files now, unless another process writes, which then will."""
        from holdfast.index.build import purge_removed

        return purge_removed(self)

    def rank(self, *, force: bool = False) -> RankingReport:
        """Computes ranks if captures or links have changed, or with `force` in any case. Durable on return."""
        from holdfast.index.ranks.generations import rank

        return rank(self, force=force)

    def pending(self, *, rebuild: bool = False) -> int:
        """How many records are not indexed yet; with `rebuild`, how many a build has to index."""
        from holdfast.index.workers.backlog import pending

        return pending(IndexState() if rebuild else self.state(), self.catalog)

    def verify(self, progress: Progress | None = None) -> list[str]:
        """What is wrong with the files of the index; reads every byte of them."""
        from holdfast.index.verify import verify_index

        try:
            return list(verify_index(self, progress))
        except DamagedIndex as error:
            return [str(error)]

    def status(self) -> IndexStatus:
        """What is in the index, and what is not; of no index, that it has nothing. Raises DamagedIndex."""
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


def _stat(path: Path) -> _Mark:
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _bytes_below(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # merged meanwhile
            continue
    return total
