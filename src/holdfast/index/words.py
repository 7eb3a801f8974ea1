"""The words: a tantivy index, opened for reading or written by one process.

tantivy makes its files durable with each commit. Its ValueErrors and panics become errors of ours: no space, no
permission, or damage that `holdfast index build` repairs. It locks a file to read: where that may not be written, as on
a read-only file system or in an archive of somebody else, it reads links to the files in a directory of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.env import Environment
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import DamagedIndex, Denied, VolumeFull
from holdfast.index import paths
from holdfast.index.schema import record_number, register_tokenizers, schema
from holdfast.index.state import REPAIR, IndexState

if TYPE_CHECKING:
    import tantivy

_NUMBER_MAX = 2**64 - 1
_SPACE_MIN = 64 << 20  # with less free space, a failure of tantivy counts as a full disk
_PANIC = "PanicException"  # of PyO3: a BaseException without an importable name
_MANAGED = ".managed.json"  # the names of tantivy's files
_READ_LOCK = ".tantivy-meta.lock"
_TRIES = 5  # of reading through links while a writer merges segments


class WordsReader:
    """The words, open for reading. One thread at a time."""

    def __init__(self, path: Path) -> None:
        """Raises DamagedIndex or Denied."""
        self._path = path
        self._links = None if _may_lock(path) else ScratchDirectory("words")
        self._index: tantivy.Index | None = None

    def searcher(self) -> tantivy.Searcher:
        """Searches what was committed last. Raises DamagedIndex or Denied."""
        for tries_left in reversed(range(_TRIES if self._links else 1)):
            try:
                return self._newest()
            except DamagedIndex:  # without the lock, a file may go between two steps
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _newest(self) -> tantivy.Searcher:
        with translated_damage(self._path):
            if self._links is not None:
                _link(self._path, self._links.path)
            if self._index is None:
                self._index = _opened(self._path if self._links is None else self._links.path)
            self._index.reload()
            return self._index.searcher()


def _opened(path: Path) -> tantivy.Index:
    import tantivy

    index = tantivy.Index.open(str(path))
    register_tokenizers(index)
    index.config_reader("manual")
    return index


def _may_lock(path: Path) -> bool:
    lock = path / _READ_LOCK
    return os.access(lock if lock.exists() else path, os.W_OK)


def _link(path: Path, directory: Path) -> None:
    """Links the files that the directory lacks. It leads to a file that replaces one, too."""
    for name in os.listdir(path):
        link = directory / name
        if not name.endswith(".lock") and not link.is_symlink():
            link.symlink_to(path.absolute() / name)


def committed_opstamp(path: Path) -> int:
    """tantivy's stamp of its last commit. Raises DamagedIndex or Denied."""
    try:
        return int(json.loads((path / paths.META).read_bytes())["opstamp"])
    except PermissionError:
        raise _denied(path) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedIndex(f"cannot read '{path / paths.META}': {error}; {REPAIR}") from None


def beyond(state: IndexState) -> list[tuple[int, int]]:
    """Record numbers beyond a state, as inclusive ranges."""
    ranges = [
        (record_number(number, end), record_number(number + 1, 0) - 1) for number, (_, end) in enumerate(state.batches)
    ]
    return [*ranges, (record_number(len(state.batches), 0), _NUMBER_MAX)]


def records_query(numbers: Collection[int]) -> tantivy.Query:
    """The documents of these records."""
    import tantivy

    return tantivy.Query.term_set_query(schema(), "record", list(numbers))


def range_query(first: int, last: int) -> tantivy.Query:
    """The documents of the records from one number to another."""
    import tantivy

    return tantivy.Query.range_query(schema(), "record", tantivy.FieldType.Unsigned, first, last)


class WordsWriter:
    """The words, open for writing. For one thread."""

    def __init__(self, path: Path, env: Environment, heap_bytes: int, threads: int) -> None:
        """Creates the directory if needed. Raises DamagedIndex."""
        import tantivy

        self._path = path
        self._env = env
        fresh = not env.files.exists(path)
        env.files.make_directory(path)
        with translated_damage(path):
            index = tantivy.Index(schema(), path=str(path)) if fresh or not env.files.names(path) else _opened(path)
            register_tokenizers(index)
            self._writer = index.writer(heap_bytes, threads)
        self._from_dict = tantivy.Document.from_dict
        self._schema = schema()

    def add(self, documents: Sequence[dict[str, Any]]) -> None:
        """Adds documents, given as fields by name."""
        with self._translated():
            add, from_dict, fields = self._writer.add_document, self._from_dict, self._schema
            for document in documents:
                add(from_dict(document, fields))

    def delete(self, numbers: Collection[int]) -> None:
        """Deletes the documents of these records."""
        with self._translated():
            self._writer.delete_documents_by_query(records_query(numbers))

    def delete_beyond(self, state: IndexState) -> None:
        """Deletes documents that a killed writer committed beyond a state."""
        with self._translated():
            for first, last in beyond(state):
                self._writer.delete_documents_by_query(range_query(first, last))

    def commit(self) -> int:
        """Commits, durably; returns tantivy's stamp."""
        with self._translated():
            stamp = self._writer.commit()
        self._let_read()
        return stamp

    def close(self) -> None:
        """Discards uncommitted documents and waits for merges."""
        with self._translated():
            self._writer.rollback()
            self._writer.wait_merging_threads()
        self._let_read()

    def _let_read(self) -> None:
        """Opens the two files that tantivy makes for the owner alone to whoever may read the directory."""
        mode = self._path.stat().st_mode & 0o666
        for name in (paths.META, _MANAGED):
            with suppress(FileNotFoundError):
                (self._path / name).chmod(mode)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, OSError) as error:
            if self._env.files.free_bytes(self._path) < _SPACE_MIN or "os error 28" in str(error):
                raise VolumeFull(f"no space left for '{self._path}': free some space") from error
            raise DamagedIndex(f"cannot write '{self._path}': {error}; {REPAIR}") from error


def _denied(path: Path) -> Denied:
    return Denied(f"not permitted to read '{path}': check the owner and mode of its files")


@contextmanager
def translated_damage(path: Path) -> Iterator[None]:
    """Translates tantivy's read errors to DamagedIndex or Denied."""
    try:
        yield
    except (ValueError, OSError) as error:
        if "os error 13" in str(error) or "PermissionDenied" in str(error) or isinstance(error, PermissionError):
            raise _denied(path) from None
        raise DamagedIndex(f"cannot read '{path}': {error}; {REPAIR}") from None
    except BaseException as error:
        if type(error).__name__ == _PANIC:
            raise DamagedIndex(f"cannot read '{path}': {error}; {REPAIR}") from None
        raise
