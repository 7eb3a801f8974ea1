"""`holdfast search` and `sql`: captures by words, metadata and links, in the query language or in SQL."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import (
    PATH,
    archive_option,
    collection_option,
    format_of,
    json_option,
    read_names,
    table_format,
    table_format_options,
    with_default,
)
from holdfast.cli.terminal import (
    STANDARD_STREAM,
    asking,
    counted,
    csv_lines,
    note,
    replaced,
    require_whole,
    show_lines,
    show_stream,
    table_lines,
    visible,
    write_pieces,
)

if TYPE_CHECKING:
    from holdfast.query.results import Hit, QueryResult
    from holdfast.query.sql.result import SqlResult

SORTS = ("relevance", "newest", "oldest", "rank")
GROUPS = ("page", "text", "capture")
FACETS = ("site", "type", "lang", "status", "year", "collection")
SQL_FORMATS = ("table", "csv", "jsonl", "parquet", "arrow")
_SQL_FILES = ("parquet", "arrow")
_SQL_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}
_ROWS_SHOWN = 1000
_CELL_MAX = 100


def _facets(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return FACETS if value == "all" else read_names(context, parameter, value)


@click.command()
@archive_option
@click.argument("query", nargs=-1)
@collection_option
@click.option("--sort", type=click.Choice(SORTS), help="By default relevance if the query has words, else newest.")
@with_default("--limit", type=int, default=10, metavar="N", help="At most N hits; 0 counts only.")
@click.option("--offset", type=int, default=0, metavar="N", help="Skip the first N.")
@with_default(
    "--group",
    type=click.Choice(GROUPS),
    default="page",
    help="What is one hit: a page, a text (pages with nearly the same text count once), or every capture.",
)
@click.option("--latest", is_flag=True, help="Of each URL only the newest capture that matches.")
@click.option(
    "--facets", metavar="NAME,...", callback=_facets, default="", help="Count all captures by site, type, ..., or all."
)
@click.option("--timeline", is_flag=True, help="Count all captures by month.")
@click.option("--no-snippets", is_flag=True, help="Do not show the text around the words.")
@json_option
def search(*, archive: Path, query: tuple[str, ...], as_json: bool, no_snippets: bool, **options: Any) -> None:
    """Find pages by words, metadata and links. Each is shown once, with the number of its captures that match.

    \b
    holdfast search stanford library              both words
    holdfast search 'title:stanford -type:pdf'    a word in the title, no PDF files
    holdfast search '"digital library"'           side by side
    holdfast search 'links-to:http://example.com/ from:2020'

    The whole language: docs/reference/query.md. It needs the index ('holdfast index update').
    """
    from holdfast.query.results import QueryOptions

    asked = QueryOptions(**options | {"sort": options["sort"] or "", "snippets": not no_snippets})
    with asking(archive) as opened:
        if asked.collection is not None:
            opened.require_collection(asked.collection)
        answer = opened.query(" ".join(query), asked)
    if as_json:
        show_stream(_objects(answer))
    else:
        note(_summary(answer))
        show_lines(line for hit in answer.hits for line in _lines(hit))
        _show_counts(answer)
    require_whole(answer.coverage)


def _summary(answer: QueryResult) -> str:
    shown = ""
    if answer.hits:
        shown = f", {answer.offset + 1}-{answer.offset + len(answer.hits)} by {answer.sort}"
    pending = f"; {counted(answer.pending, 'record')} not indexed yet" if answer.pending else ""
    return f"{_total(answer)} for {answer.query}{shown}{pending}"


def _total(answer: QueryResult) -> str:
    captures = counted(answer.captures, "capture")
    if answer.group == "capture":
        return captures
    about = "" if answer.is_exact else "about "
    return f"{about}{counted(answer.total, answer.group)} ({captures})"


def _lines(hit: Hit) -> Iterator[str]:
    parts = [counted(hit.pages, "page")] if hit.pages > 1 else []
    parts += [counted(hit.captures, "capture")] if hit.captures > 1 else []
    yield visible(f"{hit.timestamp} {hit.url}" + (f" ({', '.join(parts)})" if parts else ""))
    if hit.title:
        yield visible(f"    {hit.title}")
    if hit.snippet is not None and hit.snippet.text:
        yield f"    {_marked(hit)}"


def _marked(hit: Hit) -> str:
    """The snippet, on a terminal with the query words in bold."""
    assert hit.snippet is not None
    text, marks = hit.snippet.text, hit.snippet.marks
    if not sys.stdout.isatty():
        return visible(text)
    parts, at = [], 0
    for first, last in marks:
        parts += [visible(text[at:first]), click.style(visible(text[first:last]), bold=True)]
        at = last
    return "".join([*parts, visible(text[at:])])


def _show_counts(answer: QueryResult) -> None:
    """Prints a table for each facet and for the months, separated by empty lines."""
    tables = [(facet.name, [(each.value, each.count) for each in facet.values]) for facet in answer.facets]
    if answer.timeline:
        tables.append(("month", [(f"{each.month[:4]}-{each.month[4:]}", each.count) for each in answer.timeline]))
    for number, (name, counts) in enumerate(tables):
        lines = table_lines((name, "captures"), [(value, f"{count:,}") for value, count in counts], left=1)
        show_lines(["", *lines] if number or answer.hits else lines)


def _objects(answer: QueryResult) -> Iterator[str]:
    """The hits, then a summary of all matches."""
    for hit in answer.hits:
        values = asdict(hit) | {"record": str(hit.record)}
        if hit.snippet is not None:
            values["snippet"] = hit.snippet.text
            values["marks"] = [list(mark) for mark in hit.snippet.marks]
        yield json.dumps(values)
    names = ("query", "sort", "group", "total", "captures", "is_exact", "offset", "pending")
    summary: dict[str, Any] = {name: getattr(answer, name) for name in names}
    if answer.facets:
        summary["facets"] = {each.name: {one.value: one.count for one in each.values} for each in answer.facets}
    if answer.coverage is not None and answer.coverage.missing:
        summary["partial"] = str(answer.coverage)
    if answer.timeline:
        summary["timeline"] = {each.month: each.count for each in answer.timeline}
    yield json.dumps(summary)


@click.command()
@archive_option
@click.argument("statement")
@table_format_options(SQL_FORMATS)
@click.option("-o", "--output", metavar="FILE", type=PATH, help="Write to FILE, whole or not at all.")
@with_default("--rows", type=int, default=_ROWS_SHOWN, metavar="N", help="At most N rows in a printed table.")
def sql(*, archive: Path, statement: str, rows: int, **forms: Any) -> None:
    """Run one SELECT, in DuckDB's SQL, over the tables captures, links, pages and contents.

    \b
    holdfast sql 'select host, count(*) n from captures group by host order by n desc'
    holdfast sql 'describe captures'

    SQL can neither write nor read files. '-' reads the statement from standard input. It needs the index ('holdfast
    index update').
    """
    output: Path | None = forms["output"]
    form = table_format(forms, format_of(output.name, _SQL_SUFFIXES) or "table" if output is not None else "table")
    if output is None and form in _SQL_FILES:
        raise click.UsageError(f"{form} cannot be printed: give -o FILE")
    if output is not None and form == "table":
        raise click.UsageError(f"no format is known by the name '{output}': give --format")
    text = sys.stdin.read() if statement == STANDARD_STREAM else statement
    with asking(archive) as opened, opened.sql(text) as answer:
        if form == "table":
            _show(answer, rows)
        elif form in _SQL_FILES:
            assert output is not None
            _write(answer, output, form)
        else:
            lines = _csv(answer) if form == "csv" else _json_lines(answer)
            if output is None:
                show_stream(lines)
            else:
                write_pieces(output, (f"{line}\n".encode() for line in lines))
        require_whole(answer.coverage)


def _json_lines(answer: SqlResult) -> Iterator[str]:
    return (json.dumps(_plain(row, finite=True), ensure_ascii=False) for row in answer)


def _show(answer: SqlResult, most: int) -> None:
    from pyarrow import types

    heading = answer.schema.names
    rows = list(islice(answer, most + 1))
    cells = [[_cell(row[name]) for name in heading] for row in rows[:most]]
    kinds = (types.is_integer, types.is_floating, types.is_decimal)
    numbers = [any(is_kind(each) for is_kind in kinds) for each in answer.schema.types]
    left = [*numbers, True].index(True)  # the first run of number columns is right-aligned
    count = [*numbers[left:], False].index(False)
    show_stream(table_lines(heading, cells, left=left, tail=len(heading) - left - count))
    note(f"the first {most:,} rows: --csv and --json print all" if len(rows) > most else counted(len(rows), "row"))


def _cell(value: Any) -> str:
    text = "" if value is None else str(_plain(value))
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 1] + "…"


def _plain(value: Any, *, finite: bool = False) -> Any:
    """The value for JSON or CSV: times in ISO format, bytes in hexadecimal; `finite`: null for NaN and infinity."""
    if isinstance(value, dict):
        return {name: _plain(each, finite=finite) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, finite=finite) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if finite and isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such numbers
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _csv(answer: SqlResult) -> Iterator[str]:
    names = answer.schema.names
    return csv_lines(chain([names], ([_plain(row[name]) for name in names] for row in answer)))


def _write(answer: SqlResult, target: Path, form: str) -> None:
    from pyarrow import ipc, parquet

    rows = 0
    with replaced(target) as file:
        schema = answer.schema
        writer = (
            parquet.ParquetWriter(file, schema, compression="zstd") if form == "parquet" else ipc.new_file(file, schema)
        )
        with writer:
            for batch in answer.batches():
                writer.write_batch(batch)
                rows += batch.num_rows
    note(f"wrote {counted(rows, 'row')} to '{target}'")
