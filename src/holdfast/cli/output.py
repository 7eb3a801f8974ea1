"""What commands show: lines and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

_DRAFT = ".open"
# Control characters, line separators, what turns the direction of text, and what is no character at all.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
Advance = Callable[[int], None]  # takes the bytes, or things, done since its last call


def visible(text: str) -> str:
    """The text with what a terminal would obey written as escapes: servers choose URLs, names and remarks."""
    return _HIDDEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def show(values: dict[str, Any], text: str, *, as_json: bool) -> None:
    """One result, as one line either way."""
    click.echo(json.dumps(values) if as_json else text)


def show_lines(lines: Iterable[str]) -> None:
    """Many lines at the price of one; they have left the process when this returns."""
    text = "\n".join(lines)
    if text:
        click.echo(text)


def show_fields(values: dict[str, str]) -> None:
    """One thing, a line for each of its fields."""
    width = max(map(len, values))
    show_lines(f"{name:<{width}}  {visible(value)}".rstrip() for name, value in values.items())


def show_table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> None:
    """Columns under a heading; the first `left` of them hold words, the others numbers."""
    show_lines(table_lines(heading, rows, left=left))


def table_lines(heading: Sequence[str], rows: Sequence[Sequence[str]], *, left: int, tail: int = 0) -> list[str]:
    """The lines of a table; its first `left` columns and its last `tail` ones hold words, the others numbers."""
    table = [list(map(visible, row)) for row in (heading, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    numbers = range(left, len(widths) - tail)
    lines = []
    for row in table:
        cells = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def note(message: str) -> None:
    """A remark for people, beside the data."""
    click.echo(visible(message), err=True)


def counted(count: int, noun: str) -> str:
    """'1 block', '2,000 blocks'."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


@contextmanager
def progress_bar(
    title: str, total: int | None = None, *, lines: bool = False, counts: bool = False
) -> Iterator[Advance]:
    """A bar while standard error is a terminal. If `lines` are printed meanwhile, those show the progress there.

    It is about bytes, unless it `counts` things.
    """
    if not sys.stderr.isatty() or (lines and sys.stdout.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    done = (MofNCompleteColumn(),) if counts else (DownloadColumn(binary_units=True), TransferSpeedColumn())
    columns: tuple[ProgressColumn, ...] = (TextColumn("{task.description}"), BarColumn(), *done)
    if total is not None:
        columns = (*columns, TimeRemainingColumn(compact=True))
    # Standard output stays as it is: rich would send it to the bar's terminal.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


def show_stream(lines: Iterable[str]) -> None:
    """Any number of lines, as they come. What a URL holds that is no UTF-8 goes out as it came in."""
    sys.stdout.buffer.writelines(f"{line}\n".encode("utf-8", "surrogateescape") for line in lines)


def write_file(path: Path, content: bytes) -> None:
    """Puts the content at `path`, whole or not at all. A device or a pipe is written to as it is."""
    write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes]) -> int:
    """As `write_file`, for what comes in pieces; returns the number of bytes."""
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                return _write(file, pieces)
        return _replace(path.resolve(), pieces)
    except OSError as error:
        if error.filename not in (None, str(path)) and not _is_draft(error.filename):
            raise  # of the archive, where the pieces come from
        raise type(error)(error.errno, error.strerror, str(path)) from error


def _write(file: BinaryIO, pieces: Iterable[bytes]) -> int:
    return sum(map(file.write, pieces))


def _replace(target: Path, pieces: Iterable[bytes]) -> int:
    with replaced(target) as file:
        return _write(file, pieces)


@contextmanager
def replaced(target: Path) -> Iterator[BinaryIO]:
    """A file to be written, which takes the place of `target` when it is whole."""
    draft = target.with_name(f".holdfast-{os.getpid()}{_DRAFT}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _is_draft(name: object) -> bool:
    return str(name).endswith(_DRAFT)
