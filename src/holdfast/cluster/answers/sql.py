"""SQL over all nodes: DuckDB on the node that was asked, over the tables of the index of every node (B12, H8).

    each node    rows of its partitions, under the ids of their origins, in pieces of a row group
    asked node   these rows as Parquet files in a temporary directory ──▶ the statement, as on one machine

Only tables that a statement names are fetched. The table `contents` is about the volumes of one machine, and page ranks
are of one node: the first is refused, and `pages` has no ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.cluster.answers.scatter import NodeGroup, Round, Scatter
from holdfast.cluster.answers.search import require_searchable
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse
from holdfast.config import QuerySettings
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import Busy, MalformedInput, TooLarge, UsageError
from holdfast.index.index import IndexView
from holdfast.index.schema import record_number
from holdfast.index.tables import read_rows, table_schema
from holdfast.index.words import beyond
from holdfast.model import RecordId
from holdfast.query.sql.database import TABLES, SqlSources
from holdfast.query.sql.result import SqlResult
from holdfast.query.sql.statement import checked_alone

if TYPE_CHECKING:
    import pyarrow

_TRIES = 5
_OF = {"captures": ("captures", "pages"), "links": ("links",)}  # tables of the index, and those of SQL that need them


# -- at each node -----------------------------------------------------------------------------------------------------


def answer_table(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The rows of one row group of a table, and the number of the next one; Busy if the index has changed meanwhile."""
    from pyarrow import compute, parquet

    table, place = str(head["table"]), int(head["place"])
    if table not in _OF:
        raise MalformedInput(f"no table {table!r} of the index")
    view = shard.archive.index.view()
    mark = f"{view.state.generation}.{view.state.opstamp}.{len(view.removed)}"
    if head["mark"] not in ("", mark):
        raise Busy("the index has changed meanwhile")
    batches = {str(name): number for number, name in enumerate(head["batches"])}
    names = _served(shard, view, partitions, batches)
    groups = 0
    for path in view.table_files(table):
        with parquet.ParquetFile(path) as file:
            if place < groups + file.num_row_groups:
                rows = file.read_row_group(place - groups)
                kept = rows.filter(compute.is_in(rows["number"], value_set=_numbers(names)))
                return {"mark": mark, "next": place + 1}, [_arrow(_renamed(shard, kept, names, batches))]
            groups += file.num_row_groups
    return {"mark": mark, "next": None}, []


def _served(
    shard: NodeShard, view: IndexView, partitions: frozenset[int], batches: dict[str, int]
) -> dict[int, RecordId]:
    """The records that this node answers for: their numbers here, and their origins."""
    shown = served_numbers(shard, view, partitions)
    origins = shard.origins.first_origins([view.record_of(number) for number in shown])
    return {number: origin for number, origin in zip(shown, origins, strict=True) if origin.batch in batches}


def served_numbers(shard: NodeShard, view: IndexView, partitions: frozenset[int]) -> list[int]:
    """The numbers here of the indexed records that this node answers for."""
    import pyarrow
    from pyarrow import compute

    require_searchable(shard.rule)
    split = pyarrow.array(list(shard.rule.splits), "string")
    hidden = {number for each in view.removed if (number := view.state.number_of(each)) is not None}
    later = beyond(view.reached) if view.reached != view.state else []
    numbers: list[int] = []
    for path in view.table_files("captures"):
        rows = read_rows(path, ["number", "partition", "domain", "host"])
        every = rows["number"].to_numpy()
        inside = np.isin(rows["partition"].to_numpy() % shard.rule.partitions, list(partitions))
        apart = rows["host"].is_null().to_numpy() | compute.is_in(rows["domain"].cast("string"), split).to_numpy()
        for at in np.flatnonzero(apart):
            inside[at] = shard.origins.partition_of(view.record_of(int(every[at]))) in partitions
        numbers += every[inside].tolist()
    return [
        number
        for number in numbers
        if number not in hidden and not any(first <= number <= last for first, last in later)
    ]


def _numbers(names: dict[int, RecordId]) -> pyarrow.Array:
    import pyarrow

    return pyarrow.array(list(names), pyarrow.uint64())


def _renamed(
    shard: NodeShard, rows: pyarrow.Table, names: dict[int, RecordId], batches: dict[str, int]
) -> pyarrow.Table:
    """The rows under the ids of their origins, numbered alike on all nodes."""
    import pyarrow

    origins = [names[number] for number in rows["number"].to_pylist()]
    columns: dict[str, list[Any]] = {
        "number": [record_number(batches[each.batch], each.serial) for each in origins],
        "batch": [each.batch for each in origins],
        "serial": [each.serial for each in origins],
    }
    if "record" in rows.column_names:
        columns["record"] = [str(each) for each in origins]
        known = [RecordId.parse(each) if each is not None else None for each in rows["original"].to_pylist()]
        named = iter(shard.origins.first_origins([each for each in known if each is not None]))
        columns["original"] = [str(next(named)) if each is not None else None for each in known]
    for name, values in columns.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, rows.field(name), pyarrow.array(values, rows.field(name).type))
    return rows


def _arrow(rows: pyarrow.Table) -> pyarrow.Buffer:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return memoryview(sink.getvalue())


# -- at the node that was asked ---------------------------------------------------------------------------------------


def run_sql_on_all(scatter: Scatter, text: str, parameters: Sequence[Any], settings: QuerySettings) -> SqlResult:
    """Runs one SELECT over the captures and links of all nodes. Raises as on one machine, and UsageError."""
    statement = checked_alone(text, TABLES)
    if "contents" in statement.tables:
        raise UsageError("the table 'contents' is about the volumes of one machine: a cluster has none")
    round_ = scatter.begin(by_index=True)
    found = round_.gather(lambda group: round_.ask(group, "batches", {})[0]["ends"])
    batches = sorted({name for ends in found for name in ends})
    scratch = ScratchDirectory("sql of a cluster")
    try:
        fetched: dict[str, list[Path]] = {}
        for table, needing in _OF.items():
            files: list[Path] = []
            if statement.tables.intersection(needing):
                fetch = _Fetch(round_, scratch.path, table, batches, settings.sql_spill_bytes_max)
                files = round_.gather(fetch.rows_of)
            fetched[table] = files
        sources = SqlSources(fetched["captures"], fetched["links"], (), (), None)
        result = SqlResult(statement, parameters, sources, iter(()), settings, scratch.remove)
    except BaseException:
        scratch.remove()
        raise
    result.coverage = round_.coverage
    return result


class _Fetch:
    """Fetches one table of all nodes, each into a file."""

    def __init__(self, round_: Round, directory: Path, table: str, batches: list[str], bytes_max: int) -> None:
        self._round = round_
        self._directory = directory
        self._table = table
        self._batches = batches
        self._bytes_max = bytes_max

    def rows_of(self, group: NodeGroup) -> Path:
        """The rows of a group, as a file. Raises Busy if the index of its node changes all the time."""
        path = self._directory / f"{self._table}-{group.node}-{min(group.partitions)}.parquet"
        for left in reversed(range(_TRIES)):
            try:
                self._write(group, path)
            except Busy:
                if not left:
                    raise
            else:
                break
        return path

    def _write(self, group: NodeGroup, path: Path) -> None:
        from pyarrow import ipc, parquet

        schema = table_schema(self._table)
        mark, place = "", 0
        with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            while place is not None:
                head = {"table": self._table, "place": place, "mark": mark, "batches": self._batches}
                response, raw = self._round.ask(group, "table", head)
                mark, place = response["mark"], response["next"]
                if raw:
                    writer.write_table(ipc.open_stream(raw).read_all().cast(schema))
                if path.stat().st_size > self._bytes_max:
                    raise TooLarge(
                        f"the table '{self._table}' of node '{group.node}' has more than {self._bytes_max} bytes: "
                        "raise query.sql_spill_bytes_max"
                    )
