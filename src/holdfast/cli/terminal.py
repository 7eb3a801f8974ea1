"""The terminal: lines, tables, JSON and progress go out, Ctrl-C comes in.

The library is safe from KeyboardInterrupt, but a command interrupted between storing and printing would not report
what it did. So a command that writes defers Ctrl-C until a safe point, then closes the archive and ends. A second
Ctrl-C ends the process at once; nothing acknowledged is lost.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import click

from holdfast.env.paths import CLUSTER, CONTROL
from holdfast.env.uninterruptible import raises_nothing
from holdfast.errors import PartialAnswer

if TYPE_CHECKING:
    from holdfast.archive import Archive, Connection
    from holdfast.cluster.answers.whole_archive import WholeArchive
    from holdfast.model import Coverage, Fault

STANDARD_STREAM = "-"  # as the name of a file: standard input or output
_DRAFT = ".open"
# Control characters, line separators, bidirectional controls, and lone surrogates.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NOTICE = b"holdfast: finishing the current step; Ctrl-C again ends at once\n"
_SHOW_CURSOR = b"\x1b[?25h\n"

Advance = Callable[[int], None]  # takes the bytes, or things, done since its last call


# -- lines -------------------------------------------------------------------------------------------------------------


def visible(text: str) -> str:
    """The text with control characters escaped: servers choose URLs, names and remarks."""
    return _HIDDEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def counted(count: int, noun: str) -> str:
    """'1 block', '2,000 blocks'."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def note(message: str) -> None:
    """Prints a remark for people, on standard error."""
    click.echo(visible(message), err=True)


def show(values: dict[str, Any], text: str, *, as_json: bool) -> None:
    """One result, as one line either way."""
    click.echo(json.dumps(values) if as_json else text)


def show_json(values: dict[str, Any]) -> None:
    click.echo(json.dumps(values))


def show_lines(lines: Iterable[str]) -> None:
    """Prints many lines in one write. They have left the process on return."""
    text = "\n".join(lines)
    if text:
        click.echo(text)


def show_stream(lines: Iterable[str]) -> None:
    """Prints any number of lines as they are produced. Bytes of a URL that are not UTF-8 stay as they are."""
    sys.stdout.buffer.writelines(f"{line}\n".encode("utf-8", "surrogateescape") for line in lines)


def show_fields(values: dict[str, str]) -> None:
    """One thing, a line for each of its fields."""
    width = max(map(len, values))
    show_lines(f"{name:<{width}}  {visible(value)}".rstrip() for name, value in values.items())


def show_facts(values: dict[str, Any], fields: dict[str, str], *, as_json: bool) -> None:
    """One thing: its values as JSON, or for people a line for each field."""
    if as_json:
        show_json(values)
    else:
        show_fields(fields)


def show_table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> None:
    """Prints columns under a heading; the first `left` hold words, the others numbers."""
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


def csv_lines(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """The rows, the first of them the heading."""
    for row in rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        yield line.getvalue()


def show_fault(fault: Fault, text: str, *, as_json: bool) -> None:
    show({"event": "fault"} | asdict(fault) | {"key": str(fault.key) if fault.key else None}, text, as_json=as_json)


def make_archive(path: Path) -> None:
    """Makes an archive with one volume, unless there is one."""
    import holdfast
    from holdfast.env import paths

    if not (path / paths.SETTINGS).exists():
        holdfast.init(path)
        note(f"made archive '{path}'")


# -- files -------------------------------------------------------------------------------------------------------------


def write_pieces(path: Path, pieces: Iterable[bytes]) -> int:
    """Writes a file atomically and returns its size. Writes to a device or a pipe directly."""
    try:
        is_file = path.is_file() or not path.exists()
        with replaced(path.resolve()) if is_file else path.open("wb") as file:
            return sum(map(file.write, pieces))
    except OSError as error:
        if error.filename not in (None, str(path)) and not str(error.filename).endswith(_DRAFT):
            raise  # an error of the archive, not of the file
        raise type(error)(error.errno, error.strerror, str(path)) from error


@contextmanager
def replaced(target: Path) -> Iterator[BinaryIO]:
    """A new file that replaces `target` when the block ends without an error."""
    draft = target.with_name(f".holdfast-{os.getpid()}{_DRAFT}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def output_target(output: str, *, streamed: bool = True) -> Iterator[Path | BinaryIO]:
    """Standard output for '-', else a path. A device or a pipe is opened if the output is `streamed`."""
    path = Path(output)
    if output == STANDARD_STREAM:
        yield sys.stdout.buffer
    elif streamed and path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as stream:
            yield stream
    else:
        yield path


# -- progress ----------------------------------------------------------------------------------------------------------


@contextmanager
def progress_bar(
    title: str, total: int | None = None, *, lines: bool = False, counts: bool = False
) -> Iterator[Advance]:
    """A progress bar, if standard error is a terminal; not if `lines` are printed to the same terminal meanwhile.

    It shows bytes, or with `counts` a number of things.
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


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


class Interruption:
    """Defers Ctrl-C to checkpoints, to `allowed` sections and to the end of the `with`. Main thread only."""

    def __init__(self) -> None:
        self.pressed = False  # for threads that wait on something
        self._is_displayed = False
        self._usual = signal.getsignal(signal.SIGINT)

    def checkpoint(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed."""
        if self.pressed:
            raise KeyboardInterrupt

    @contextmanager
    def progress_bar(
        self, title: str, total: int | None = None, *, counts: bool = False, remark: str = ""
    ) -> Iterator[Advance]:
        """A progress bar whose every step is a checkpoint. After Ctrl-C, `remark` says what was left undone."""
        try:
            with progress_bar(title, total, counts=counts) as advance:

                def step(count: int) -> None:
                    advance(count)
                    self.checkpoint()

                yield step
        except KeyboardInterrupt:
            if remark:
                note(f"holdfast: {remark}")
            raise

    @contextmanager
    def displayed(self) -> Iterator[None]:
        """The caller's display shows that Ctrl-C was `pressed`; a printed notice would garble it."""
        self._is_displayed = True
        try:
            yield
        finally:
            self._is_displayed = False

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Ctrl-C works as usual here. For waiting on something outside the archive."""
        self.checkpoint()
        self._install(self._usual)
        try:
            self.checkpoint()  # it may have been pressed in between
            yield
        finally:
            self._install(self._press)

    @raises_nothing
    def _press(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            if self._is_displayed:
                os.write(2, _SHOW_CURSOR)  # displays hide the cursor
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        self.pressed = True
        if not self._is_displayed:
            os.write(2, _NOTICE)

    def _install(self, handler: signal._HANDLER) -> None:
        if self._usual is not signal.SIG_IGN:  # a shell's background job: Ctrl-C does not reach it
            signal.signal(signal.SIGINT, handler)

    def __enter__(self) -> Self:
        self._install(self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._install(self._usual)
        if error is None:
            self.checkpoint()


# -- what commands work on ---------------------------------------------------------------------------------------------


def reading(path: Path) -> Archive:
    """The archive, open for reading."""
    import holdfast

    return holdfast.open(path, read_only=True)


def asking(path: Path) -> Archive | WholeArchive:
    """The archive, open for reading; that of all nodes, if the directory is that of a running node."""
    import holdfast

    if not is_running_node(path):
        if (path / CLUSTER).exists():
            note("note: the node does not run: this is what it has itself")
        return holdfast.open(path, read_only=True)
    from holdfast.cluster.answers.routes import ClusterRouter

    return ClusterRouter(path.resolve()).open_whole()


def require_whole(coverage: Coverage | None) -> None:
    """Raises PartialAnswer if nodes that were needed for an answer did not respond."""
    if coverage is not None and coverage.missing:
        raise PartialAnswer(
            f"the answer is partial: {coverage.missing} of {coverage.partitions} partitions have no node that responds"
        )


def reading_contents(path: Path, connector: Path | None) -> Archive | Connection:
    """The archive, or the volumes of a connector, open for reading."""
    import holdfast

    return holdfast.connect(connector, read_only=True) if connector else holdfast.open(path, read_only=True)


def is_running_node(archive: Path) -> bool:
    """Whether the archive is a node of a cluster whose process runs: that is its writer then."""
    if not (archive / CLUSTER / CONTROL).exists():
        return False
    from holdfast.cluster.control import is_running

    return is_running(archive / CLUSTER)


def ask_node(archive: Path, command: str, **values: Any) -> dict[str, Any]:
    """The response of the running node to a command. Raises ClusterDown, and the errors of the command."""
    from holdfast.cluster.control import send_command

    return send_command(archive / CLUSTER, {"command": command, **values}, timeout_s=None)


@contextmanager
def writing(path: Path) -> Iterator[tuple[Archive, Interruption]]:
    """The archive, open for writing, with Ctrl-C deferred."""
    import holdfast

    with Interruption() as interruption, holdfast.open(path) as archive:
        yield archive, interruption


@contextmanager
def writing_contents(path: Path, connector: Path | None) -> Iterator[tuple[Archive | Connection, Interruption]]:
    """The archive, or the volumes of a connector, open for writing, with Ctrl-C deferred."""
    import holdfast

    with Interruption() as interruption, holdfast.connect(connector) if connector else holdfast.open(path) as opened:
        yield opened, interruption
