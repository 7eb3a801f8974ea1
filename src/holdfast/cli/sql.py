"""`holdfast sql`: one SELECT over captures, links, pages and contents, printed or written to a file."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.inputs import STANDARD_INPUT
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import counted, note, replaced, show_stream, table_lines

if TYPE_CHECKING:
    from holdfast.query.sql import SqlResult

_ROWS_SHOWN = 1000
_CELL_MAX = 100


@click.command()
@archive_option
@click.argument("statement")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a heading.")
@click.option("--parquet", metavar="FILE", type=click.Path(path_type=Path), help="Write a Parquet file.")
@click.option("--arrow", metavar="FILE", type=click.Path(path_type=Path), help="Write an Arrow file (Feather).")
@click.option("--rows", type=int, default=_ROWS_SHOWN, show_default=True, metavar="N", help="Of a printed table.")
def sql(*, archive: Path, statement: str, rows: int, **forms: Any) -> None:
    """Run one SELECT, in DuckDB's SQL, over the tables captures, links, pages and contents.

    \b
    holdfast sql 'select host, count(*) n from captures group by host order by n desc'
    holdfast sql 'describe captures'

    Nothing can be written, and no file be read. '-' reads the statement from standard input. It needs the index
    ('holdfast index update').
    """
    import holdfast

    chosen = [name for name in ("as_json", "as_csv", "parquet", "arrow") if forms[name]]
    if len(chosen) > 1:
        first, second = (f"--{name.removeprefix('as_')}" for name in chosen[:2])
        raise click.UsageError(f"{first} and {second} exclude each other")
    text = sys.stdin.read() if statement == STANDARD_INPUT else statement
    with holdfast.open(archive, read_only=True) as opened, opened.sql(text) as answer:
        if forms["as_json"]:
            show_stream(json.dumps(_finite(_plain(row)), ensure_ascii=False) for row in answer)
        elif forms["as_csv"]:
            show_stream(_csv(answer))
        elif forms["parquet"] or forms["arrow"]:
            _write(answer, forms["parquet"], forms["arrow"])
        else:
            _show(answer, rows)


def _show(answer: SqlResult, most: int) -> None:
    from pyarrow import types

    heading = answer.schema.names
    rows = list(islice(answer, most + 1))
    cells = [[_cell(row[name]) for name in heading] for row in rows[:most]]
    kinds = (types.is_integer, types.is_floating, types.is_decimal)
    numbers = [any(is_kind(each) for is_kind in kinds) for each in answer.schema.types]
    left = [*numbers, True].index(True)  # the first columns of numbers that stand side by side are set to the right
    count = [*numbers[left:], False].index(False)
    show_stream(table_lines(heading, cells, left=left, tail=len(heading) - left - count))
    note(f"the first {most:,} rows: --csv and --json print all" if len(rows) > most else counted(len(rows), "row"))


def _cell(value: Any) -> str:
    text = "" if value is None else str(_plain(value))
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 1] + "…"


def _plain(value: Any) -> Any:
    """As text can say it: whole numbers whole, times as ISO writes them, bytes as hexadecimal digits."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _finite(value: Any) -> Any:
    """With null for NaN and infinite numbers, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(answer: SqlResult) -> Iterator[str]:
    names = answer.schema.names
    rows: Iterable[list[Any]] = ([_plain(row[name]) for name in names] for row in answer)
    for row in chain([names], rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        yield line.getvalue()


def _write(answer: SqlResult, parquet_file: Path | None, arrow_file: Path | None) -> None:
    """Whole or not at all."""
    from pyarrow import ipc, parquet

    target = parquet_file or arrow_file
    assert target is not None
    rows = 0
    with replaced(target) as file:
        schema = answer.schema
        writer = parquet.ParquetWriter(file, schema, compression="zstd") if parquet_file else ipc.new_file(file, schema)
        with writer:
            for batch in answer.batches():
                writer.write_batch(batch)
                rows += batch.num_rows
    note(f"wrote {counted(rows, 'row')} to '{target}'")
