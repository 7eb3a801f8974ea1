"""Results of studies and plans: the options for their output, tables for people, JSON, CSV and charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import PATH, table_format, table_format_options, together, with_default
from holdfast.cli.terminal import csv_lines, note, show_lines, show_stream, table_lines, write_pieces
from holdfast.env.extras import require

if TYPE_CHECKING:
    import pyarrow

    from holdfast.study import StudyResult

_CELL_MAX = 80
_PLOT_HELP = "Draw a chart as well: FILE.png or FILE.svg; may be repeated."


def form_options(tables: tuple[str, ...]) -> Callable[[Any], Any]:
    """The options for output of a result that has these tables."""
    return together(
        click.option(
            "--table", "table", type=click.Choice(tables), help="Print this table only; CSV has the first one."
        ),
        with_default("--rows", type=click.IntRange(1), default=20, help="Rows of a printed table."),
        table_format_options(("table", "csv", "jsonl")),
        click.option("--plot", "plots", metavar="FILE", type=PATH, multiple=True, help=_PLOT_HELP),
    )


def check_form(form: dict[str, Any]) -> None:
    """Raises UsageError before anything is computed."""
    from holdfast.study.chart import chart_format

    table_format(form)
    require("search")
    for plot in form["plots"]:
        chart_format(plot)


def show_result(result: StudyResult, form: dict[str, Any], shown: tuple[str, ...]) -> None:
    """Draws the chart if one is wanted, prints the tables `shown` unless one is chosen, and the remarks."""
    from holdfast.study.chart import chart, chart_format

    plots: tuple[Path, ...] = form["plots"]
    for plot in plots:
        if result.panels:
            write_pieces(plot, [chart(result.panels, chart_format(plot))])
            note(f"drew '{plot}'")
        else:
            note(f"there is nothing to draw: '{plot}' was not written")
    _show(result, form, shown)
    for each in result.notes:
        note(f"note: {each}")


def _show(result: StudyResult, form: dict[str, Any], shown: tuple[str, ...]) -> None:
    wanted = table_format(form)
    if wanted == "jsonl":
        names = [form["table"]] if form["table"] else list(result.tables)
        show_stream(json.dumps({"table": name, **row}) for name in names for row in result.rows(name))
    elif wanted == "csv":
        table = result.tables[form["table"]] if form["table"] else result.table
        show_stream(csv_lines([table.column_names, *(row.values() for row in table.to_pylist())]))
    else:
        for number, name in enumerate([form["table"]] if form["table"] else shown):
            table = result.tables[name]
            if len(table) and len(result.table):
                show_lines([*([""] if number else []), *([f"{name}:"] if not form["table"] else [])])
                show_lines(_lines(table, form["rows"]))


def _lines(table: pyarrow.Table, most: int) -> list[str]:
    """The table for a terminal: shares in percent, sizes rounded, words to the left of numbers."""
    from pyarrow import types

    from holdfast.study.display import cell, heading, shown_columns

    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    numbers = {name for name, kind in kinds.items() if types.is_integer(kind) or types.is_floating(kind)}
    names = sorted(shown_columns(table.column_names), key=lambda name: name in numbers)
    rows: list[Mapping[str, Any]] = table.slice(0, most).to_pylist()
    cells = [[_short(cell(name, row)) for name in names] for row in rows]
    left = sum(name not in numbers for name in names)
    lines = table_lines([heading(name) for name in names], cells, left=left)
    if len(table) > most:
        lines.append(f"... and {len(table) - most:,} more: --rows, --csv or --json")
    return lines


def _short(text: str) -> str:
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 1] + "…"
