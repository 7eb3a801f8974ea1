"""The archive as a read-only database: DuckDB over the tables of the index.

    statement ──► checked: one SELECT, of our tables ──► views over Parquet files, ranks and keydirs ──► Arrow

| table    | rows                                                                          |
|----------|-------------------------------------------------------------------------------|
| captures | captures, with title and language                                             |
| links    | links of captures                                                             |
| pages    | the newest capture of each URL, with rank and number of in-links               |
| contents | contents of the store, from its keydirs, if a statement names it               |

Each statement has its own process and database, which end with its result (`child`). No statement
can write, read another file, load code or change a limit. Removed records are in no table from
the moment of their removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.config import QuerySettings
from holdfast.errors import DamagedIndex
from holdfast.index.ranks.ranks import Ranks
from holdfast.index.state import REPAIR
from holdfast.index.tables import table_schema
from holdfast.query.sql.statement import INTERNAL

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection

TABLES = ("captures", "contents", "links", "pages")
_UNSETTLED = {  # set when the database is created; `lock_configuration` then freezes them
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
_REMOVED = f"number NOT IN (SELECT number FROM {INTERNAL}removed)"
# As in the link graph: of two captures with one timestamp, the one added later is newer.
_PAGES = f"""
    CREATE VIEW pages AS
    SELECT captures.*, coalesce(ranks.rank, 0) AS rank, coalesce(ranks.inlinks, 0) AS inlinks
    FROM captures
    JOIN (SELECT arg_max(number, (timestamp, batch, serial)) AS number FROM captures GROUP BY page) USING (number)
    LEFT JOIN {INTERNAL}ranks AS ranks USING (page)
"""
_CONTENTS = """
    CREATE TABLE contents
    (contentkey VARCHAR, volume VARCHAR, signature VARCHAR, size BIGINT, stored_size BIGINT, "references" BIGINT)
"""


@dataclass(frozen=True, slots=True)
class SqlSources:
    """The files behind the tables."""

    captures: Sequence[Path]
    links: Sequence[Path]
    removed: Sequence[int]  # record numbers still in the files
    beyond: Sequence[tuple[int, int]]  # ranges of record numbers in the files that are not visible yet
    ranks: Path | None


def connected(settings: QuerySettings, scratch: str) -> DuckDBPyConnection:
    """An empty database with the configured limits."""
    import duckdb

    limits: dict[str, Any] = {
        "memory_limit": f"{settings.sql_memory_bytes}B",
        "max_temp_directory_size": f"{settings.sql_spill_bytes_max}B",
        "temp_directory": scratch,  # created on demand, removed on close
    }
    if settings.sql_threads:
        limits["threads"] = str(settings.sql_threads)
    return duckdb.connect(":memory:", config=_UNSETTLED | limits)


def make_tables(
    connection: DuckDBPyConnection, sources: SqlSources, named: frozenset[str], contents: Iterator[pyarrow.Table]
) -> None:
    """Creates the tables; views cost nothing until they are read. `contents` is consumed."""
    import pyarrow

    removed = pyarrow.table({"number": pyarrow.array(sources.removed, pyarrow.uint64())})
    connection.register(f"{INTERNAL}removed", removed)
    files = [*sources.captures, *sources.links]
    connection.execute(f"SET allowed_paths = [{', '.join(map(_literal, files))}]")
    shown = [_REMOVED] if len(removed) else []
    shown += [f"NOT number BETWEEN {first} AND {last}" for first, last in sources.beyond]
    _make_view(connection, "captures", sources.captures, shown)
    _make_view(connection, "links", sources.links, shown)
    connection.register(f"{INTERNAL}ranks", _ranks(sources.ranks if "pages" in named else None))
    connection.execute(_PAGES)
    connection.execute(_CONTENTS)
    for rows in contents:
        connection.register(f"{INTERNAL}more", rows)
        connection.execute(f"INSERT INTO contents SELECT * FROM {INTERNAL}more")
        connection.unregister(f"{INTERNAL}more")


def _make_view(connection: DuckDBPyConnection, name: str, files: Sequence[Path], shown: Sequence[str]) -> None:
    """The rows of some files that meet all conditions."""
    if files:
        source = f"read_parquet([{', '.join(map(_literal, files))}])"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {source} WHERE {' AND '.join(shown) or 'true'}")
    else:
        connection.register(f"{INTERNAL}{name}", table_schema(name).empty_table())
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {INTERNAL}{name}")


def _ranks(path: Path | None) -> pyarrow.Table:
    """The ranks, mapped from their file without a copy."""
    import pyarrow

    try:
        ranks = Ranks(path) if path is not None else None
    except FileNotFoundError:
        raise DamagedIndex(f"'{path}' is missing; {REPAIR}") from None
    columns = ([], [], []) if ranks is None else (ranks.pages, ranks.rank, ranks.inlinks)
    kinds = (pyarrow.uint64(), pyarrow.float64(), pyarrow.uint32())
    arrays = [pyarrow.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pyarrow.table(arrays, ["page", "rank", "inlinks"])


def _literal(path: Path) -> str:
    text = str(path.resolve()).replace("'", "''")
    return f"'{text}'"
