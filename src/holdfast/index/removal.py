"""Removal of records from the index (N2).

    1. archive.remove    appends the records to `removed`, and revisits that have the text of one: from here on both
                         are hidden from readers
    2. the next writer   deletes them from words and tables and indexes those revisits again, in one commit
    3.                   clears them from `removed`
    4.                   tantivy only marks documents as deleted, and drops their words when it merges the segment. So
                         segments with deleted documents are emptied and their other documents indexed again: at once
                         if they are few, else when tantivy merges them, or with `holdfast index build`

After a kill at any moment, the next writer repeats this, with the same result.

`removed` has one hidden record per line:

    202611-0000004711            left the archive
    202611-0000004902 again      a revisit of a removed record: index it again, without that record's text

A removal appends before it is acknowledged; a writer clears what it has purged. `removed.lock` serializes the two.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.catalog import Catalog
from holdfast.env import Environment, brief_lock
from holdfast.env.files import read_file, replace_file
from holdfast.errors import DamagedIndex, MalformedKey
from holdfast.index import paths
from holdfast.index.schema import split_record_number
from holdfast.index.state import REPAIR, IndexState, read_state
from holdfast.index.tables import read_rows
from holdfast.index.words import WordsReader
from holdfast.model import RecordId

if TYPE_CHECKING:
    from holdfast.index.build import IndexWriter
    from holdfast.index.index import Index


_AGAIN = "again"
_LINE = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,63}}-\d{{10}}( {_AGAIN})?", re.ASCII)


class PendingRemovals(NamedTuple):
    """Records to be deleted from the index."""

    gone: frozenset[RecordId] = frozenset()  # left the archive
    again: frozenset[RecordId] = frozenset()  # to be indexed again

    @property
    def all(self) -> frozenset[RecordId]:
        return self.gone | self.again


class RemovedRecords:
    """The file `removed` of one index. Process-safe."""

    def __init__(self, directory: Path, env: Environment) -> None:
        self._directory = directory
        self._path = directory / paths.REMOVED
        self._env = env

    def add(self, gone: Iterable[RecordId], again: Iterable[RecordId] = ()) -> None:
        """Appends removed records, and those to be indexed again. Durable on return."""
        text = _text(PendingRemovals(frozenset(gone), frozenset(again)))
        files = self._env.files
        with self._locked():
            fresh = not files.exists(self._path)
            file = files.open(self._path, writable=True, create=fresh)
            try:
                whole = file.read(0, file.size()).rfind(b"\n") + 1
                file.truncate(whole)  # a torn line was not acknowledged, and is written again
                file.append([text])
                file.sync()
            finally:
                file.close()
            if fresh:
                files.sync_directory(self._directory)

    def read(self) -> PendingRemovals:
        """All pending removals. Raises DamagedIndex."""
        try:
            lines = read_file(self._env.files, self._path).decode("ascii", "replace").split("\n")
        except FileNotFoundError:
            return PendingRemovals()
        try:  # a torn last line belongs to a removal that is not acknowledged yet
            words = [line.split(" ") for line in lines[:-1] if line]
            gone = frozenset(RecordId.parse(name) for name, *rest in words if not rest)
            return PendingRemovals(gone, frozenset(RecordId.parse(name) for name, *rest in words if rest) - gone)
        except MalformedKey as error:
            raise DamagedIndex(f"cannot read '{self._path}': {error}; {REPAIR}") from None

    def clear(self, done: PendingRemovals) -> None:
        """Clears finished removals. Durable on return."""
        with self._locked():
            waiting = self.read()
            left = PendingRemovals(waiting.gone - done.gone, waiting.again - done.again - done.gone)
            if left.all:
                replace_file(self._env.files, self._path, _text(left))
            else:
                self._env.files.remove(self._path)
                self._env.files.sync_directory(self._directory)

    @property
    def is_sound(self) -> bool:
        try:
            self.read()
        except DamagedIndex:
            return False
        return True

    def mend(self) -> None:
        """Drops malformed lines. Only after a build, which cannot contain the records that they named."""
        with self._locked():
            if not self.is_sound:
                lines = read_file(self._env.files, self._path).decode("ascii", "replace").split("\n")[:-1]
                kept = [line for line in lines if _LINE.fullmatch(line)]
                replace_file(self._env.files, self._path, "".join(f"{line}\n" for line in kept).encode())

    def mark(self) -> tuple[int, int, int] | None:
        """Changes whenever the file does; cheap. None if there is no file."""
        return file_mark(self._path)

    def _locked(self) -> AbstractContextManager[None]:
        return brief_lock(self._directory / paths.REMOVED_LOCK)


def file_mark(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever the file is replaced or written; None if it does not exist."""
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _text(waiting: PendingRemovals) -> bytes:
    lines = [f"{record}\n" for record in sorted(waiting.gone)]
    lines += [f"{record} {_AGAIN}\n" for record in sorted(waiting.again - waiting.gone)]
    return "".join(lines).encode()


PURGE_RECORDS_MAX = 5_000  # in segments that are emptied at once: seconds of work
_TRIES = 5


def withdraw(root: Path, env: Environment, records: Collection[RecordId]) -> None:
    """Hides records from searches; does nothing without an index. Durable on return."""
    directory = paths.index_directory(root)
    if env.files.exists(directory):
        RemovedRecords(directory, env).add(records, _repeating_now(directory, env, records))


def _repeating_now(directory: Path, env: Environment, records: Collection[RecordId]) -> list[RecordId]:
    """The revisits of these records; none if the index is damaged: then nobody can read it."""
    for _ in range(_TRIES):
        try:
            state = read_state(directory, env)
            tables = directory / paths.tables_name(state.generation)
            return repeating([tables / each.name for each in state.tables["captures"]], records)
        except FileNotFoundError:
            continue  # merged meanwhile
        except DamagedIndex:
            break
    return []


def repeating(files: Sequence[Path], records: Collection[RecordId]) -> list[RecordId]:
    """The revisits that have the text of one of these records."""
    import pyarrow
    from pyarrow import compute

    originals = pyarrow.array([str(record) for record in records], pyarrow.string())
    found: list[RecordId] = []
    for path in files:
        if compute.any(compute.is_in(read_rows(path, ["original"])["original"], value_set=originals)).as_py():
            rows = read_rows(path, ["record", "original"])
            there = rows.filter(compute.is_in(rows["original"], value_set=originals))
            found += [RecordId.parse(text) for text in there["record"].to_pylist()]
    return found


def take_out(index: Index, writer: IndexWriter) -> int:
    """Deletes what `removed` lists; returns the number of records that left the archive.

    No task may be in progress: a worker may have read a record before its removal.
    """
    assert writer.is_in_use, "readers of another generation still need `removed`"
    waiting = index.removed.read()
    if not waiting.all:
        return 0
    again = waiting.again.union(repeating(writer.table_paths("captures"), waiting.gone)) - waiting.gone
    gone = sum(writer.state.number_of(record) is not None for record in waiting.gone)
    writer.replace(waiting.gone, again)
    _purge(writer, waiting.gone)
    index.removed.clear(PendingRemovals(waiting.gone, again))
    forget_build(index)
    return gone


def forget_build(index: Index) -> None:
    """Discards an interrupted build, which may contain removed records."""
    path = index.directory / paths.BUILD
    if index.env.files.exists(path):
        index.env.files.remove(path)
        index.env.files.sync_directory(index.directory)


def found_originals(state: IndexState, catalog: Catalog) -> list[RecordId]:
    """The revisits whose originals arrived after they were indexed."""
    records = [state.record_of(number) for number in state.unresolved]
    captures = [catalog.capture_of(record) for record in records]
    return [each.record for each in captures if each is not None and catalog.resolve(each) is not None]


# -- off the disk ------------------------------------------------------------------------------------------------------


def deleted_documents(words: Path) -> int:
    """The number of documents marked as deleted in existing segments."""
    return sum(deleted for _, deleted in _segments(words))


def _segments(words: Path) -> list[tuple[int, int]]:
    """Documents, and deleted ones, of each segment; in the searcher's order."""
    try:
        facts = json.loads((words / paths.META).read_bytes())
        return [(each["max_doc"], (each.get("deletes") or {}).get("num_deleted_docs", 0)) for each in facts["segments"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _purge(writer: IndexWriter, gone: frozenset[RecordId]) -> None:
    """Empties segments with deleted documents, so that tantivy drops their files; unless they are too large."""
    writer.close()  # waits for merges
    touched = [(place, size) for place, (size, deleted) in enumerate(_segments(writer.words_path)) if deleted]
    if touched and sum(size for _, size in touched) <= PURGE_RECORDS_MAX:
        found = _records_in(writer, touched)
        writer.replace(found & gone, found - gone)
        writer.close()


def _records_in(writer: IndexWriter, segments: Sequence[tuple[int, int]]) -> set[RecordId]:
    """The records of all documents in these segments, deleted ones included."""
    from tantivy import DocAddress

    searcher = WordsReader(writer.words_path).searcher()
    found: set[RecordId] = set()
    for place, size in segments:
        addresses = [DocAddress(place, document) for document in range(size)]
        for number in searcher.fast_field_values("record", addresses):
            assert isinstance(number, int), "every document has the number of its record"
            if split_record_number(number)[0] < len(writer.state.batches):  # else left by a killed writer
                found.add(writer.state.record_of(number))
    return found
