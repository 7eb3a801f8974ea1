"""Ranks: rank and in-links of every page, a file `ranks-<generation>` whose columns are mapped into memory.

    offset  size
         0   512   head: 'HOLDFAST-RANKS/1 ' + crc32 of the rest of the head, 8 hex digits + '\\n',
                   one line of JSON, spaces, '\\n'
       512  8 n    page      u64   page numbers, ascending
           8 n    rank      f64   of the page at the same place; the mean is 1.0
           4 n    inlinks   u32   pages that link to it
           4 n    order     u32   places of the pages by descending rank; of equal ranks, the smaller page number first

Numbers are little endian; n is `pages` in the JSON line. A file is written once, under a name with the suffix `.open`,
and never changed: a reader that has mapped it can read on after it was removed. It is derived: it can be recomputed.

Each computation from the tables (`page_rank`) makes a new generation and keeps the last few: a stream in rank order
continues with the generation it began with. Pages that no longer have captures or links to them are not in the next
generation. Memory: DuckDB's limit, and about 80 bytes per page; links take only disk space, if
there are more than `IN_MEMORY_ROWS_MAX`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from isal.isal_zlib import crc32
from numpy.typing import NDArray

from holdfast.env.files import File, Files, translated_errors
from holdfast.errors import DamagedIndex, FormatTooNew, NotFound, VolumeFull
from holdfast.index import paths as layout

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from holdfast.index.index import Index
    from holdfast.index.ranks.page_rank import LinkGraph


Pages = NDArray[np.uint64]
Vector = NDArray[np.float64]
Counts = NDArray[np.uint32]

HEAD_BYTES = 512
_MAGIC = b"HOLDFAST-RANKS/"
_VERSION = 1
_CHECKED_AT = len(b"HOLDFAST-RANKS/1 00000000\n")
_COLUMNS = (("pages", "<u8"), ("rank", "<f8"), ("inlinks", "<u4"), ("order", "<u4"))
_PAGE_BYTES = 24
_BYTES_PER_WRITE = 1 << 24


@dataclass(frozen=True, slots=True)
class RanksHead:
    """The head of a file of ranks."""

    generation: int
    pages: int
    links: int  # edges of the graph
    basis: str  # identifies the state of the tables that the ranks were computed from
    crc32: str = ""  # of the columns


class Ranked(NamedTuple):
    """Rank and in-links of some pages, in the order requested; 0 for unknown pages."""

    rank: Vector
    inlinks: Counts


class Ranks:
    """One generation of ranks, open for reading. Thread-safe; reads only what is requested."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError if there is no such file; Damaged if its head or its length is wrong."""
        self.path = path
        with path.open("rb") as file:
            self.head = _parse(file.read(HEAD_BYTES), path)
            length = file.seek(0, 2)
            expected = HEAD_BYTES + self.head.pages * _PAGE_BYTES
            if length != expected:
                raise _damaged(path, f"{length} bytes, expected {expected}")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        columns = self._columns()
        self.pages: Pages = columns["pages"]
        self.rank: Vector = columns["rank"]
        self.inlinks: Counts = columns["inlinks"]
        self.order: Counts = columns["order"]

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns, offset = {}, HEAD_BYTES
        for name, kind in _COLUMNS:
            columns[name] = np.frombuffer(self._map, kind, self.head.pages, offset)
            offset += columns[name].nbytes
        return columns

    def __len__(self) -> int:
        return self.head.pages

    def of(self, pages: Pages) -> Ranked:
        """Rank and in-links of the pages; 0 for a page that was added after the computation, or is not linked."""
        asked = np.asarray(pages, np.uint64)
        if not len(self):
            return Ranked(np.zeros(asked.shape), np.zeros(asked.shape, np.uint32))
        places = np.minimum(np.searchsorted(self.pages, asked), len(self) - 1)
        known = self.pages[places] == asked
        zero = np.uint32(0)
        return Ranked(np.where(known, self.rank[places], 0.0), np.where(known, self.inlinks[places], zero))

    def above(self, threshold: float, *, inclusive: bool = False) -> Pages:
        """Pages with a greater rank, or with `inclusive` an equal one, the highest first."""
        return self.by_rank(0, self._place(threshold, inclusive))

    def by_rank(self, start: int = 0, count: int | None = None) -> Pages:
        """Pages by descending rank, from the `start`-th on."""
        end = len(self) if count is None else min(start + count, len(self))
        return self.pages[self.order[start:end]]

    def _place(self, threshold: float, inclusive: bool) -> int:
        """The number of pages before the threshold in the order, by bisection, which reads little of the file."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            rank = self.rank[self.order[middle]]
            if rank > threshold or (inclusive and rank == threshold):
                low = middle + 1
            else:
                high = middle
        return low

    def verify(self) -> None:
        """Reads the whole file. Raises Damaged if its checksum is wrong."""
        found = f"{crc32(memoryview(self._map)[HEAD_BYTES:]):08x}"
        if found != self.head.crc32:
            raise _damaged(self.path, f"checksum {found}, expected {self.head.crc32}")


class RankColumns(NamedTuple):
    """The columns of a file of ranks; pages ascending."""

    pages: Pages
    rank: Vector
    inlinks: Counts


def write_ranks(files: Files, path: Path, head: RanksHead, columns: RankColumns) -> None:
    """Writes the file. Durable on return; after a crash it is whole or absent."""
    order = np.argsort(-columns.rank, kind="stable").astype("<u4")
    arrays = [np.ascontiguousarray(column, kind) for column, (_, kind) in zip((*columns, order), _COLUMNS, strict=True)]
    checksum = 0
    for array in arrays:
        checksum = crc32(array.data.cast("B") if len(array) else b"", checksum)
    facts = asdict(head) | {"pages": len(columns.pages), "crc32": f"{checksum:08x}"}
    draft = path.with_name(path.name + ".open")
    files.remove(draft)
    file = files.open(draft, writable=True, create=True)
    try:
        file.append([_head(facts)])
        for array in arrays:
            _append(file, array)
        file.sync()
    finally:
        file.close()
    files.rename(draft, path)
    files.sync_directory(path.parent)


def _append(file: File, array: NDArray[Any]) -> None:
    if len(array):
        data = array.data.cast("B")
        for start in range(0, len(data), _BYTES_PER_WRITE):
            file.append([data[start : start + _BYTES_PER_WRITE]])


def _head(facts: dict[str, Any]) -> bytes:
    rest = json.dumps(facts).encode().ljust(HEAD_BYTES - _CHECKED_AT - 1) + b"\n"
    assert len(rest) == HEAD_BYTES - _CHECKED_AT, "the basis outgrew the head"
    return b"%b%d %08x\n%b" % (_MAGIC, _VERSION, crc32(rest), rest)


def _parse(raw: bytes, path: Path) -> RanksHead:
    if not raw.startswith(_MAGIC):
        raise _damaged(path, "it does not begin with 'HOLDFAST-RANKS/'")
    version, _, _ = raw[len(_MAGIC) :].partition(b" ")
    if version.isdigit() and int(version) > _VERSION:
        raise FormatTooNew(f"cannot read ranks in '{path}': version {int(version)}; use a later release of Holdfast")
    rest = raw[_CHECKED_AT:]
    if raw[:_CHECKED_AT] != b"%b%d %08x\n" % (_MAGIC, _VERSION, crc32(rest)) or len(raw) != HEAD_BYTES:
        raise _damaged(path, "its head fails its checksum")
    return RanksHead(**json.loads(rest))


def _damaged(path: Path, found: str) -> DamagedIndex:
    return DamagedIndex(f"cannot read ranks in '{path}': {found}; run 'holdfast index rank' to compute them again")


# -- generations ---------------------------------------------------------------------------------------------------

GENERATIONS_KEPT = 4
SORTING_MEMORY = "768MB"  # DuckDB's memory limit; beyond it, it spills to disk
IN_MEMORY_ROWS_MAX = 1_000_000  # of both tables; more are sorted by DuckDB
_TABLE_COLUMNS = {
    "captures": "page UBIGINT, number UBIGINT, timestamp VARCHAR, type VARCHAR",
    "links": "page UBIGINT, number UBIGINT, target_page UBIGINT, kind VARCHAR",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """The Parquet files that ranks are computed from."""

    captures: Sequence[Path]
    links: Sequence[Path]

    def basis(self) -> str:
        """Identifies the state of the tables: names of files are never reused."""
        digest = hashlib.sha256()
        for path in (*self.captures, *self.links):
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class RankingReport:
    """The result of a computation. `computed` is False if the tables had not changed."""

    generation: int
    pages: int
    links: int
    computed: bool


def ranks_path(directory: Path, generation: int) -> Path:
    return directory / layout.ranks_name(generation)


def generations(files: Files, directory: Path) -> list[int]:
    """The existing generations, ascending."""
    numbers = map(layout.ranks_generation_of, files.names(directory))
    return sorted(number for number in numbers if number is not None)


def newest_ranks(files: Files, directory: Path) -> Ranks | None:
    """The newest ranks; None if there are none yet."""
    while found := generations(files, directory):
        try:
            return Ranks(ranks_path(directory, found[-1]))
        except FileNotFoundError:  # deleted meanwhile: newer generations exist
            continue
    return None


def ranks_of(directory: Path, generation: int) -> Ranks:
    """The ranks of one generation. Raises NotFound if it is gone."""
    try:
        return Ranks(ranks_path(directory, generation))
    except FileNotFoundError:
        raise NotFound(
            f"no ranks of generation {generation} in '{directory}': only the last {GENERATIONS_KEPT} are kept; "
            "begin a new stream"
        ) from None


def rank(index: Index, *, force: bool) -> RankingReport:
    """Updates the ranks of an index, without removed records. Raises IndexNotFound, Busy or DamagedIndex.

    With `force` they are always computed, and damaged earlier generations are deleted.
    """
    from holdfast.index.build import IndexWriter, locked
    from holdfast.index.removal import take_out

    index.view()  # before taking the lock: without an index there are no ranks
    with locked(index):
        view = index.view()
        if view.removed:
            with IndexWriter(index, view.state, layout.STATE) as writer:
                take_out(index, writer)
            view = index.view()
        tables = Tables(view.table_files("captures"), view.table_files("links"))
        if force:
            _drop_damaged(index.env.files, index.directory)
        return update_ranks(index.env.files, index.directory, tables, force=force)


def update_ranks(files: Files, directory: Path, tables: Tables, *, force: bool = False) -> RankingReport:
    """Computes ranks if the tables have changed. Durable on return. For the index's writer."""
    from holdfast.index.ranks.page_rank import page_rank

    last = _last(files, directory)
    basis = tables.basis()
    if last is not None and last.head.basis == basis and not force:
        return RankingReport(last.head.generation, last.head.pages, last.head.links, computed=False)
    _remove_leftovers(files, directory)
    with tempfile.TemporaryDirectory(prefix=layout.RANKING, dir=directory) as name:
        graph = _graph_of(tables, Path(name))
        rank = page_rank(graph)
        generation = max(generations(files, directory), default=0) + 1
        head = RanksHead(generation, len(graph.pages), graph.edges, basis)
        columns = RankColumns(graph.pages, rank, graph.inlinks)
        write_ranks(files, ranks_path(directory, head.generation), head, columns)
    for old in generations(files, directory)[:-GENERATIONS_KEPT]:
        files.remove(ranks_path(directory, old))
    return RankingReport(head.generation, head.pages, head.links, computed=True)


def _graph_of(tables: Tables, scratch: Path) -> LinkGraph:
    from holdfast.index.ranks.page_rank import build_graph, graph_in_memory
    from holdfast.index.tables import read_columns, rows_in

    if rows_in((*tables.captures, *tables.links)) > IN_MEMORY_ROWS_MAX:
        with translated_errors(scratch), _opened(tables, scratch) as connection:
            return build_graph(connection, scratch)
    captures = read_columns("captures", tables.captures, ["page", "number", "timestamp", "type"])
    return graph_in_memory(captures, read_columns("links", tables.links, ["page", "number", "target_page", "kind"]))


def _last(files: Files, directory: Path) -> Ranks | None:
    """The newest ranks, if they are sound: damaged ones must not prevent a computation."""
    try:
        last = newest_ranks(files, directory)
        if last is not None:
            last.verify()
        return last
    except DamagedIndex:
        return None


def _drop_damaged(files: Files, directory: Path) -> None:
    for generation in generations(files, directory):
        try:
            ranks_of(directory, generation).verify()
        except DamagedIndex:
            files.remove(ranks_path(directory, generation))


def _remove_leftovers(files: Files, directory: Path) -> None:
    """Deletes the leftovers of a killed computation."""
    for name in files.names(directory):
        if name.startswith(layout.RANKING):
            shutil.rmtree(directory / name, ignore_errors=True)


@contextmanager
def _opened(tables: Tables, scratch: Path) -> Iterator[DuckDBPyConnection]:
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": SORTING_MEMORY,
        "temp_directory": str(scratch / "sorting"),
        "preserve_insertion_order": "false",
    }
    try:
        with duckdb.connect(config=config) as connection:
            hide_progress_bar(connection)
            for name, paths in (("captures", tables.captures), ("links", tables.links)):
                if paths:
                    connection.read_parquet([str(path) for path in paths]).create_view(name)
                else:
                    connection.execute(f"CREATE TABLE {name} ({_TABLE_COLUMNS[name]})")
            yield connection
    except duckdb.OutOfMemoryException as error:  # also for a full disk
        raise VolumeFull(f"no room to sort links in '{scratch}': {error}; free some space") from error
    except duckdb.Error as error:
        if "No space left" in str(error):
            raise VolumeFull(f"no room to sort links in '{scratch}': {error}; free some space") from error
        raise DamagedIndex(
            f"cannot read the tables of the index: {error}; run 'holdfast index build' to rebuild them"
        ) from error


def hide_progress_bar(connection: DuckDBPyConnection) -> None:
    """Keeps DuckDB from drawing on standard output. Where it cannot draw, as in notebooks, it takes no such setting."""
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]:
        connection.execute("SET enable_progress_bar = false")
