"""The archive as a database that can only be read: DuckDB over the tables of the index.

    statement ──► checked: one SELECT, of our tables ──► views over Parquet files, ranks and keydirs ──► Arrow

| table    | rows                                                                          |
|----------|-------------------------------------------------------------------------------|
| captures | captures, with title and language                                             |
| links    | links of captures                                                             |
| pages    | the newest capture of each URL, with its rank and how many pages link to it    |
| contents | contents of the store; made from its keydirs when a statement names it         |

Each statement has a process and in it a database of its own, which are gone with its answer (`child`). Nothing that it
can say writes, reads another file, loads code or changes a limit. Records that were removed are not in any table from
the moment of their removal on.
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
_UNSETTLED = {  # what is fixed when the database is made; `lock_configuration` then keeps all of it
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
_REMOVED = f"number NOT IN (SELECT number FROM {INTERNAL}removed)"
# As in the link graph: of two captures with one timestamp, the one that came in later is the newer.
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
    """What the tables are made of."""

    captures: Sequence[Path]
    links: Sequence[Path]
    removed: Sequence[int]  # numbers of records that are still in the files
    beyond: Sequence[tuple[int, int]]  # ranges of numbers that are in the files and not shown yet
    ranks: Path | None


def connected(settings: QuerySettings, scratch: str) -> DuckDBPyConnection:
    """An empty database with the limits of the settings."""
    import duckdb

    limits: dict[str, Any] = {
        "memory_limit": f"{settings.sql_memory_bytes}B",
        "max_temp_directory_size": f"{settings.sql_spill_bytes_max}B",
        "temp_directory": scratch,  # made when something is put there, and removed when the database is closed
    }
    if settings.sql_threads:
        limits["threads"] = str(settings.sql_threads)
    return duckdb.connect(":memory:", config=_UNSETTLED | limits)


def make_tables(
    connection: DuckDBPyConnection, sources: SqlSources, named: frozenset[str], contents: Iterator[pyarrow.Table]
) -> None:
    """Those that are named; views cost nothing until they are read. `contents` is read to its end."""
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
    """The rows of some files that meet all of the conditions."""
    if files:
        source = f"read_parquet([{', '.join(map(_literal, files))}])"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {source} WHERE {' AND '.join(shown) or 'true'}")
    else:
        connection.register(f"{INTERNAL}{name}", table_schema(name).empty_table())
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {INTERNAL}{name}")


def _ranks(path: Path | None) -> pyarrow.Table:
    """The ranks as they lie in their file, not copied."""
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
