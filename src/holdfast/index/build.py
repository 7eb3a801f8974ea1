"""Building the index: `update` indexes new records, `build` rebuilds it.

    catalog ──tasks──► workers ──results, in order──► words (tantivy) ─┐
                                                   └─► tables (Arrow) ─┴─ commit ──► STATE

A commit makes table files and words durable, in parallel, then replaces the state, which names them. After a kill at
any moment, the next writer reads the state of the last commit, deletes everything beyond it, and continues. A build
does the same in new directories with its own state (`BUILD`), which replaces the state at the end.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.env import WriterLock
from holdfast.errors import DamagedIndex, HoldfastError
from holdfast.index import paths
from holdfast.index.extract.extract import ExtractionLimits
from holdfast.index.extract.rows import rows_of
from holdfast.index.index import BuildReport, Index
from holdfast.index.removal import forget_build, found_originals, take_out
from holdfast.index.state import TABLES, IndexState, TableFile, read_state, targets, write_state
from holdfast.index.tables import TableDraft, TableWriter, numbers_of
from holdfast.index.words import WordsWriter, committed_opstamp
from holdfast.index.workers.pool import TASK_RECORDS, PreparedDocuments, WorkerPool, tasks, tasks_for
from holdfast.index.workers.worker import IndexTask, TaskResult, WorkerOptions
from holdfast.model import RecordId

if TYPE_CHECKING:
    import pyarrow


log = logging.getLogger("holdfast.index")

Progress = Callable[[int], None]  # called with the number of records done; if it raises, finished work is kept


def update(index: Index, progress: Progress | None, prepared: PreparedDocuments | None = None) -> BuildReport:
    """Indexes new records and purges removed ones.

    `prepared` documents are not read from the archive. An index of an earlier release is rebuilt.
    """
    if index.is_outdated:
        log.warning("the index in '%s' has the format of an earlier release: rebuilding it", index.directory)
        return build(index, progress)
    with locked(index):
        state = index.state()
        if state.generation == 0:
            state = IndexState(1)
        with IndexWriter(index, state, paths.STATE) as writer:
            removed = take_out(index, writer)
            report = _bring_up(index, writer, progress, prepared)
            return replace(report, removed=removed + take_out(index, writer))


def build(index: Index, progress: Progress | None) -> BuildReport:
    """Builds a new generation, which replaces the old one when it is complete."""
    with locked(index):
        if not index.removed.is_sound:
            forget_build(index)  # which records it should lack is unknown
        with IndexWriter(index, _begun(index), paths.BUILD) as writer:
            report = _bring_up(index, writer, progress)
            writer.take_over()
            # Only now: until here, `removed` hid records from readers of the old generation.
            index.removed.mend()
            return replace(report, removed=take_out(index, writer))


def purge_removed(index: Index) -> bool:
    """Deletes removed records from the files; False if another process is writing.

    They are hidden in either case, so a removal need not fail because of this.
    """
    if not index.exists or not index.removed.mark():
        return True
    try:
        with locked(index), IndexWriter(index, index.state(), paths.STATE) as writer:
            take_out(index, writer)
    except HoldfastError as error:
        log.info("removed records are hidden, but still in the files of the index: %s", error)
        return False
    return True


def locked(index: Index) -> WriterLock:
    """The lock of the index's only writer. Raises Busy."""
    index.env.files.make_directory(index.directory)
    return WriterLock(index.directory / paths.LOCK, "the index", subject="index")


def _begun(index: Index) -> IndexState:
    """The state of an interrupted build, or of a new one, which keeps the batch numbers."""
    try:
        begun = read_state(index.directory, index.env, paths.BUILD)
        if begun.generation:
            return begun
    except DamagedIndex:
        pass
    try:
        old = index.state()
    except DamagedIndex:
        old = IndexState()
    names = index.env.files.names(index.directory)
    newest = max((paths.generation_of(name) or 0 for name in names), default=0)
    batches = tuple((name, 1) for name, _ in old.batches)
    return IndexState(max(newest, old.generation) + 1, batches, next_file=old.next_file)  # file names are never reused


def _bring_up(
    index: Index, writer: IndexWriter, progress: Progress | None, prepared: PreparedDocuments | None = None
) -> BuildReport:
    index.catalog.refresh()
    wanted = targets(writer.state, index.catalog)
    if any(first < end for _, first, end in wanted):
        report = _index(index, writer, wanted, progress, prepared)
        writer.replace((), found_originals(writer.state, index.catalog))
        return report
    if not writer.is_begun:
        writer.commit()  # an empty index exists
    return BuildReport()


def _index(
    index: Index,
    writer: IndexWriter,
    wanted: list[tuple[str, int, int]],
    progress: Progress | None,
    prepared: PreparedDocuments | None,
) -> BuildReport:
    report = BuildReport()
    writer.number_batches([name for name, _, _ in wanted])
    with writer.crew(sum(max(0, end - first) for _, first, end in wanted)) as crew:
        for task, harvest in crew.run(tasks(wanted, index.catalog), prepared):
            captures, links = writer.add(task, harvest)
            report = BuildReport(
                report.records + task.end - task.first,
                report.captures + captures,
                report.documents + len(harvest.documents),
                report.links + links,
                report.bytes + harvest.bytes,
            )
            if progress is not None:
                _tell(progress, task.end - task.first, writer)
        writer.commit()
    return report


def _tell(progress: Progress, records: int, writer: IndexWriter) -> None:
    """Commits if `progress` raises: between two tasks nothing is half done."""
    try:
        progress(records)
    except BaseException:
        writer.commit()
        raise


Numbers = NDArray[np.uint64]
COMMIT_RECORDS = 20_000  # a commit makes them durable and searchable
DOCUMENT_SECONDS_MAX = 20.0  # of processor time
WORKER_BYTES_MAX = 2 << 30  # of memory for one process that extracts
WRITER_THREADS = 2  # of tantivy, which needs 15 MiB for each
WRITER_BYTES = 256 << 20  # memory for words not yet on disk


class IndexWriter:
    """Writes one generation. For one thread, which holds the lock. Opens the words on first use."""

    def __init__(self, index: Index, state: IndexState, name: str) -> None:
        """`name` is the state file: STATE, or BUILD for a new generation."""
        self.state = state
        self._index = index
        self._env = index.env
        self._name = name
        self._directory = index.directory
        self._words_path = index.directory / paths.words_name(state.generation)
        tables = index.directory / paths.tables_name(state.generation)
        self._env.files.make_directory(tables)
        self._tables = {table: TableWriter(table, tables, self._env) for table in TABLES}
        self._words: WordsWriter | None = None
        self._drafts: dict[str, TableDraft] = {}
        self._backlinks = Backlinks()
        self._records = 0  # since the last commit
        self._tidy()

    @property
    def is_begun(self) -> bool:
        """True if this generation has a state."""
        return self._env.files.exists(self._directory / self._name)

    # -- adding -------------------------------------------------------------------------------------------------

    def number_batches(self, names: Sequence[str]) -> None:
        """Numbers new batches; `names` begins with the known ones."""
        known = len(self.state.batches)
        new = tuple((name, 1) for name in names[known:])
        self.state = replace(self.state, batches=(*self.state.batches, *new))

    def crew(self, records: int) -> WorkerPool:
        """Workers for `records` records: at most one per core, and none without a full task: they start slowly."""
        settings = self._index.settings
        root = str(self._index.root.absolute())
        options = WorkerOptions(root, ExtractionLimits(), DOCUMENT_SECONDS_MAX, WORKER_BYTES_MAX)
        most = settings.workers or os.cpu_count() or 1
        return WorkerPool(max(1, min(most, -(-records // TASK_RECORDS))), options)

    def add(self, task: IndexTask, harvest: TaskResult) -> tuple[int, int]:
        """Adds the result of a task; returns its rows in `captures` and `links`. Commits every `commit_records`."""
        self.words.add(harvest.documents)
        captures, links = rows_of(harvest.captures), rows_of(harvest.links)
        self._add_rows("captures", captures)
        self._add_rows("links", links)
        self._backlinks.add(links)
        unresolved = (*self.state.unresolved, *harvest.unresolved)
        self.state = replace(self.state, unresolved=unresolved)
        if task.only:
            return captures.num_rows, links.num_rows
        batches = list(self.state.batches)
        batches[task.number] = (task.batch, task.end)
        self.state = replace(self.state, batches=tuple(batches))
        self._records += task.end - task.first
        if self._records >= COMMIT_RECORDS:
            self.commit()
        return captures.num_rows, links.num_rows

    def _add_rows(self, table: str, rows: pyarrow.Table) -> None:
        """Encodes them now, while tantivy's threads index the words."""
        if rows.num_rows:
            if table not in self._drafts:
                self._drafts[table] = self._tables[table].begin()
            self._drafts[table].add(rows)

    def commit(self) -> None:
        """Commits everything added. Durable on return."""
        with ThreadPoolExecutor(1, "holdfast-index-tables") as pool:  # in parallel with the words
            written = pool.submit(self._write_tables)
            opstamp = self.words.commit()
            state = written.result()
        self.state = replace(state, opstamp=opstamp)
        write_state(self._directory, self._env, self.state, self._name)
        self._drop_files()
        self._drafts, self._backlinks = {}, Backlinks()
        self._records = 0

    def _write_tables(self) -> IndexState:
        """Writes the added rows to files; returns the state with these files."""
        self._add_rows("backlinks", self._backlinks.rows())
        tables = {}
        state = self.state
        for table, writer in self._tables.items():
            files = list(state.tables[table])
            if table in self._drafts:
                files.append(writer.keep(self._drafts[table], state.next_file))
                state = replace(state, next_file=state.next_file + 1)
            merged = writer.merged(files, state.next_file)
            if merged is not None:
                files, state = merged, replace(state, next_file=state.next_file + 1)
            tables[table] = tuple(files)
        return replace(state, tables=tables)

    @property
    def is_in_use(self) -> bool:
        """True if readers see this generation."""
        return self._name == paths.STATE

    @property
    def words_path(self) -> Path:
        return self._words_path

    @property
    def words(self) -> WordsWriter:
        if self._words is None:
            if not self.is_begun:  # a killed writer may have left something
                shutil.rmtree(self._words_path, ignore_errors=True)
            self._words = WordsWriter(self._words_path, self._env, WRITER_BYTES, WRITER_THREADS)
            if self.state.opstamp != committed_opstamp(self._words_path):
                self._words.delete_beyond(self.state)
        return self._words

    # -- removing ----------------------------------------------------------------------------------------------

    def replace(self, gone: Collection[RecordId], again: Collection[RecordId]) -> None:
        """Deletes records and indexes some of them again, in one commit. Durable on return."""
        numbers = {number for each in (*gone, *again) if (number := self.state.number_of(each)) is not None}
        if not numbers:
            return
        self.words.delete(numbers)
        self.state = self._without(numbers)
        wanted = [each for each in again if self.state.number_of(each) is not None]
        if wanted:
            with self.crew(len(wanted)) as crew:
                for task, harvest in crew.run(tasks_for(wanted, self.state, self._index.catalog)):
                    self.add(task, harvest)
        self.commit()

    def _without(self, numbers: set[int]) -> IndexState:
        """The state with tables without these records."""
        state, tables = self.state, {}
        for table, files in state.tables.items():
            kept: list[TableFile] = []
            for file in files:
                new = self._tables[table].without(file, numbers, state.next_file)
                state = replace(state, next_file=state.next_file + 1)
                if new is not None:
                    kept.append(new)
            tables[table] = tuple(kept)
        unresolved = tuple(number for number in state.unresolved if number not in numbers)
        return replace(state, tables=tables, unresolved=unresolved)

    def table_paths(self, table: str) -> list[Path]:
        """The files of a table, as of the last commit."""
        tables = self._directory / paths.tables_name(self.state.generation)
        return [tables / each.name for each in self.state.tables[table]]

    # -- life cycle -----------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Makes the new generation the current one and deletes all others. Durable on return."""
        write_state(self._directory, self._env, self.state, paths.STATE)
        self._env.files.remove(self._directory / paths.BUILD)
        self._env.files.sync_directory(self._directory)
        self._name = paths.STATE
        self._tidy()

    def _tidy(self) -> None:
        """Deletes files and generations that no state names."""
        kept = {self.state.generation}
        for name in (paths.STATE, paths.BUILD):
            try:
                kept.add(read_state(self._directory, self._env, name).generation)
            except DamagedIndex:
                continue
        for name in self._env.files.names(self._directory):
            generation = paths.generation_of(name)
            if generation is not None and generation not in kept:
                shutil.rmtree(self._directory / name, ignore_errors=True)
        self._drop_files()

    def _drop_files(self) -> None:
        listed = {each.name for files in self.state.tables.values() for each in files}
        tables = self._directory / paths.tables_name(self.state.generation)
        for name in self._env.files.names(tables):
            if name not in listed:
                self._env.files.remove(tables / name)

    def close(self) -> None:
        """Discards uncommitted documents and waits for merges of segments."""
        words, self._words = self._words, None
        if words is not None:
            words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Backlinks:
    """Rows of the table `backlinks` until the next commit, 16 bytes each. For one thread at a time."""

    def __init__(self) -> None:
        self._targets: list[Numbers] = []
        self._records: list[Numbers] = []

    def add(self, links: pyarrow.Table) -> None:
        """Copies targets and records of these rows."""
        self._targets.append(numbers_of(links["target_page"]))
        self._records.append(numbers_of(links["number"]))

    def rows(self) -> pyarrow.Table:
        """All rows, sorted by target."""
        import pyarrow

        targets, records = (np.concatenate([np.empty(0, np.uint64), *each]) for each in (self._targets, self._records))
        order = np.argsort(targets)
        return pyarrow.table([_array(targets[order]), _array(records[order])], ["target_page", "number"])


def _array(numbers: Numbers) -> pyarrow.Array:
    import pyarrow

    return pyarrow.Array.from_buffers(pyarrow.uint64(), len(numbers), [None, pyarrow.py_buffer(numbers.data)])
