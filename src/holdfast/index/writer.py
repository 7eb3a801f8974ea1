"""The writer of one generation: adds, commits, takes out, and leaves nothing behind that does not count."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import DamagedIndex
from holdfast.index import paths
from holdfast.index.extract import ExtractionLimits
from holdfast.index.state import TABLES, TableFile, read_state, write_state
from holdfast.index.tables import TableDraft, TableWriter
from holdfast.index.words import WordsWriter, committed_opstamp
from holdfast.index.workers.backlog import TASK_RECORDS, tasks_for
from holdfast.index.workers.pool import WorkerPool
from holdfast.index.workers.rows import rows_of
from holdfast.index.workers.task import IndexTask, TaskResult, WorkerOptions
from holdfast.model import RecordId

if TYPE_CHECKING:
    import pyarrow

    from holdfast.index.index import Index
    from holdfast.index.state import IndexState

Numbers = NDArray[np.uint64]
_TEXT_CHARACTERS_MAX = 4 << 20  # of a document's text; what lies beyond is not found
_HEAP_BYTES_MIN = 15 << 20  # tantivy wants that much for each of its threads


class IndexWriter:
    """For one thread, which holds the lock. The words are opened when something is to be written to them."""

    def __init__(self, index: Index, state: IndexState, name: str) -> None:
        """`name` is that of the file in which the state is kept: STATE, or BUILD for a generation to come."""
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
        """Whether there is a state of this generation."""
        return self._env.files.exists(self._directory / self._name)

    # -- adding -------------------------------------------------------------------------------------------------

    def number_batches(self, names: Sequence[str]) -> None:
        """Gives new batches their numbers; the first ones are those that have theirs."""
        known = len(self.state.batches)
        new = tuple((name, 1) for name in names[known:])
        self.state = replace(self.state, batches=(*self.state.batches, *new))

    def crew(self, records: int) -> WorkerPool:
        """Workers for so many records: one for each core, but a process takes longer to start than a handful does."""
        settings = self._index.settings
        limits = ExtractionLimits(settings.document_bytes_max, _TEXT_CHARACTERS_MAX)
        root = str(self._index.root.absolute())
        options = WorkerOptions(root, limits, settings.document_seconds_max, settings.worker_bytes_max)
        most = settings.workers or os.cpu_count() or 1
        return WorkerPool(max(1, min(most, -(-records // TASK_RECORDS))), options)

    def add(self, task: IndexTask, harvest: TaskResult) -> tuple[int, int]:
        """What came of a task; returns the number of rows in both tables. Commits when enough has gathered."""
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
        if self._records >= self._index.settings.commit_records:
            self.commit()
        return captures.num_rows, links.num_rows

    def _add_rows(self, table: str, rows: pyarrow.Table) -> None:
        """Encodes them meanwhile: the words have threads of their own, and take longer."""
        if rows.num_rows:
            if table not in self._drafts:
                self._drafts[table] = self._tables[table].begin()
            self._drafts[table].add(rows)

    def commit(self) -> None:
        """Makes everything that was added count. Durable on return."""
        with ThreadPoolExecutor(1, "holdfast-index-tables") as pool:  # beside the words, which leave cores idle
            written = pool.submit(self._write_tables)
            opstamp = self.words.commit()
            state = written.result()
        self.state = replace(state, opstamp=opstamp)
        write_state(self._directory, self._env, self.state, self._name)
        self._drop_files()
        self._drafts, self._backlinks = {}, Backlinks()
        self._records = 0

    def _write_tables(self) -> IndexState:
        """The state with files of the rows that were added."""
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
        """Whether readers see this generation."""
        return self._name == paths.STATE

    @property
    def words_path(self) -> Path:
        return self._words_path

    @property
    def words(self) -> WordsWriter:
        if self._words is None:
            settings = self._index.settings
            threads = max(1, min(settings.writer_threads, settings.writer_bytes // _HEAP_BYTES_MIN))
            if not self.is_begun:  # whatever a killed writer has begun there
                shutil.rmtree(self._words_path, ignore_errors=True)
            self._words = WordsWriter(self._words_path, self._env, settings.writer_bytes, threads)
            if self.state.opstamp != committed_opstamp(self._words_path):
                self._words.delete_beyond(self.state)
        return self._words

    # -- taking out ---------------------------------------------------------------------------------------------

    def replace(self, gone: Collection[RecordId], again: Collection[RecordId]) -> None:
        """Takes records out, and some of them in again, all in one commit. Durable on return."""
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
        """The state with tables from which these records are gone."""
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

    # -- life ---------------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Makes the generation that was built the one that counts, and deletes all others. Durable on return."""
        write_state(self._directory, self._env, self.state, paths.STATE)
        self._env.files.remove(self._directory / paths.BUILD)
        self._env.files.sync_directory(self._directory)
        self._name = paths.STATE
        self._tidy()

    def _tidy(self) -> None:
        """Deletes what no state names: files of this generation, and other generations."""
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
        """What was not committed is gone. Segments of the words that are being merged are waited for."""
        words, self._words = self._words, None
        if words is not None:
            words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Backlinks:
    """The rows of the table `backlinks` until the next commit, 16 bytes each. For one thread at a time."""

    def __init__(self) -> None:
        self._targets: list[Numbers] = []
        self._records: list[Numbers] = []

    def add(self, links: pyarrow.Table) -> None:
        """Copies what it needs of these rows."""
        self._targets += _copies(links["target_page"])
        self._records += _copies(links["number"])

    def rows(self) -> pyarrow.Table:
        """All of them, in the order of targets."""
        import pyarrow

        targets, records = (np.concatenate([np.empty(0, np.uint64), *each]) for each in (self._targets, self._records))
        order = np.argsort(targets)
        return pyarrow.table([_array(targets[order]), _array(records[order])], ["target_page", "number"])


# Arrow's own ways to numpy and back load pandas where it is installed, which takes longer than all else here.


def _copies(column: pyarrow.ChunkedArray) -> list[Numbers]:
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    return [np.frombuffer(each.buffers()[1], np.uint64, len(each), each.offset * 8).copy() for each in chunks]


def _array(numbers: Numbers) -> pyarrow.Array:
    import pyarrow

    return pyarrow.Array.from_buffers(pyarrow.uint64(), len(numbers), [None, pyarrow.py_buffer(numbers.data)])
