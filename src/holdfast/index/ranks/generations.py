"""Generations of ranks: computed from the tables, one file after the other.

A stream in the order of ranks goes on with the generation it began with, for as long as that is among the last few.
Pages that have neither captures nor links to them any more are not in the next generation.

Memory: what DuckDB may take, and about 80 bytes for each page. Links take disk only.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.env.files import Files, translated_errors
from holdfast.errors import DamagedIndex, NotFound, VolumeFull
from holdfast.index import paths as layout
from holdfast.index.build import locked
from holdfast.index.ranks.link_graph import build_graph
from holdfast.index.ranks.page_rank import page_rank
from holdfast.index.ranks.ranks import RankColumns, Ranks, RanksHead, write_ranks
from holdfast.index.removal import take_out
from holdfast.index.writer import IndexWriter

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from holdfast.index.index import Index

GENERATIONS_KEPT = 4
SORTING_MEMORY = "768MB"  # what DuckDB may take before it goes to disk
_COLUMNS = {
    "captures": "page UBIGINT, number UBIGINT, timestamp VARCHAR, type VARCHAR",
    "links": "page UBIGINT, number UBIGINT, target_page UBIGINT, kind VARCHAR",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """The Parquet files that ranks are computed from."""

    captures: Sequence[Path]
    links: Sequence[Path]

    def basis(self) -> str:
        """Names the state of the tables: files are written once, under names that are not used again."""
        digest = hashlib.sha256()
        for path in (*self.captures, *self.links):
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class RankingReport:
    """What a computation came to. `computed` is False if the tables were as before: nothing was done."""

    generation: int
    pages: int
    links: int
    computed: bool


def ranks_path(directory: Path, generation: int) -> Path:
    return directory / layout.ranks_name(generation)


def generations(files: Files, directory: Path) -> list[int]:
    """Those that there are, ascending."""
    numbers = map(layout.ranks_generation_of, files.names(directory))
    return sorted(number for number in numbers if number is not None)


def newest_ranks(files: Files, directory: Path) -> Ranks | None:
    """The ranks that were computed last; None if there are none yet."""
    while found := generations(files, directory):
        try:
            return Ranks(ranks_path(directory, found[-1]))
        except FileNotFoundError:  # so many were computed meanwhile that this one is gone
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
    """Brings the ranks of an index up to date, without what was removed. Raises IndexNotFound, Busy, DamagedIndex.

    With `force` they are computed in any case, and earlier ones that are damaged are deleted.
    """
    index.view()  # before anything is locked: of no index, there are no ranks
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
    """Computes ranks if the tables changed since the last time. Durable when it returns; for the index's writer."""
    last = _last(files, directory)
    basis = tables.basis()
    if last is not None and last.head.basis == basis and not force:
        return RankingReport(last.head.generation, last.head.pages, last.head.links, computed=False)
    _remove_leftovers(files, directory)
    with tempfile.TemporaryDirectory(prefix=layout.RANKING, dir=directory) as name:
        scratch = Path(name)
        with translated_errors(scratch), _opened(tables, scratch) as connection:
            graph = build_graph(connection, scratch)
        rank = page_rank(graph)
        generation = max(generations(files, directory), default=0) + 1
        head = RanksHead(generation, len(graph.pages), graph.edges, basis)
        columns = RankColumns(graph.pages, rank, graph.inlinks)
        write_ranks(files, ranks_path(directory, head.generation), head, columns)
    for old in generations(files, directory)[:-GENERATIONS_KEPT]:
        files.remove(ranks_path(directory, old))
    return RankingReport(head.generation, head.pages, head.links, computed=True)


def _last(files: Files, directory: Path) -> Ranks | None:
    """The ranks that were computed last, if they are sound: others are no reason to compute none."""
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
    """What a computation left that was killed."""
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
            connection.execute("SET enable_progress_bar = false")  # it would go to standard output
            for name, paths in (("captures", tables.captures), ("links", tables.links)):
                if paths:
                    connection.read_parquet([str(path) for path in paths]).create_view(name)
                else:
                    connection.execute(f"CREATE TABLE {name} ({_COLUMNS[name]})")
            yield connection
    except duckdb.OutOfMemoryException as error:  # says so of the disk, too
        raise VolumeFull(f"no room to sort links in '{scratch}': {error}; free some space") from error
    except duckdb.Error as error:
        if "No space left" in str(error):
            raise VolumeFull(f"no room to sort links in '{scratch}': {error}; free some space") from error
        raise DamagedIndex(
            f"cannot read the tables of the index: {error}; run 'holdfast index build' to rebuild them"
        ) from error
