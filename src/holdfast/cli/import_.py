"""`holdfast import`: records of files into the archive.

What to import: files, what lies in folders, pipes and standard input, all looked at before anything is added.

What an import tells: one line for each file with faults, and what came of it all.
"""

from __future__ import annotations

import errno
import io
import os
import select
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.index import bring_up, index_option, is_automatic
from holdfast.cli.interrupt import Interruption, writing
from holdfast.cli.options import archive_option, is_verbose, json_option
from holdfast.cli.output import counted, note, show, show_lines
from holdfast.env.scratch import ScratchDirectory
from holdfast.env.units import rounded_size
from holdfast.errors import MalformedInput, NotFound, UsageError
from holdfast.model import batch_name

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.ingest.importer import ImportOptions, ImportReport
    from holdfast.archive.ingest.input import ImportInput
    from holdfast.formats import Finding


STANDARD_INPUT = "-"
NAME_OF_STANDARD_INPUT = "standard-input"
SUFFIXES = (*(f".{kind}{coding}" for kind in ("warc", "arc", "tw") for coding in ("", ".gz", ".zst")), ".wacz")
_ZIP_MAGIC = b"PK\x03\x04"
_WAIT_S = 0.2


@dataclass(slots=True)
class FoundFiles:
    """What there is to import, what was passed over, and what cannot be opened."""

    inputs: list[ImportInput] = field(default_factory=list)
    paths: dict[str, list[str]] = field(default_factory=dict)  # by the names of the inputs, as the caller gave them
    passed_over: list[Path] = field(default_factory=list)
    broken: list[tuple[str, MalformedInput]] = field(default_factory=list)

    @property
    def total_bytes(self) -> int | None:
        """None if only reading tells."""
        sizes = [each.size for each in self.inputs if each.size is not None]
        return sum(sizes) if len(sizes) == len(self.inputs) else None

    def path_of(self, name: str) -> str:
        """An input as the caller knows it."""
        paths = self.paths.get(name, [])
        return paths[0] if len(paths) == 1 else name

    def add(self, path: str, inputs: Sequence[ImportInput]) -> None:
        self.inputs += inputs
        for each in inputs:
            inner = each.name.partition(":")[2]
            self.paths.setdefault(each.name, []).append(f"{path}:{inner}" if inner else path)


def find_inputs(names: Sequence[str], pressed: Callable[[], bool], closing: ExitStack) -> FoundFiles:
    """All inputs; raises OSError or NotFound if one is not there. `pressed` ends a wait for standard input."""
    if names.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input ('-') can be read only once")
    found = FoundFiles()
    for name in names:
        if name == STANDARD_INPUT:
            _add_stream(found, name, _Waiting(sys.stdin.fileno(), pressed), closing)
        elif stat.S_ISDIR(mode := os.stat(name).st_mode):
            _add_folder(found, Path(name))
        elif stat.S_ISREG(mode):
            _add_file(found, Path(name))
        else:  # a pipe or a device, which can be read but once
            descriptor = os.open(name, os.O_RDONLY)
            closing.callback(os.close, descriptor)
            _add_stream(found, name, _Waiting(descriptor, pressed), closing)
    if not found.inputs and not found.broken:
        folders = ", ".join(f"'{name}'" for name in names)
        raise NotFound(
            f"nothing to import in {folders}: no name there ends in {', '.join(SUFFIXES)}; "
            "a file that is named itself is imported whatever its name"
        )
    return found


def _add_folder(found: FoundFiles, folder: Path) -> None:
    for directory, subfolders, names in os.walk(folder, onerror=_refuse):
        subfolders.sort()
        for name in sorted(names):
            path = Path(directory, name)
            if name.lower().endswith(SUFFIXES) and path.is_file():
                _add_file(found, path)
            else:
                found.passed_over.append(path)


def _refuse(error: OSError) -> None:
    raise error


def _add_file(found: FoundFiles, path: Path) -> None:
    from holdfast.archive.ingest.input import inputs_of

    if not os.access(path, os.R_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    try:
        found.add(str(path), inputs_of(path))
    except MalformedInput as error:
        found.broken.append((str(path), error))


# -- what can be read but once ----------------------------------------------------------------------------------------


def _add_stream(found: FoundFiles, name: str, source: _Waiting, closing: ExitStack) -> None:
    from holdfast.archive.ingest.input import ImportInput, inputs_of

    stream = io.BufferedReader(source, 1 << 16)
    title = NAME_OF_STANDARD_INPUT if name == STANDARD_INPUT else Path(name).name
    if not stream.peek(len(_ZIP_MAGIC)).startswith(_ZIP_MAGIC):
        found.add(name, [ImportInput(title, stream=stream)])
        return
    copy = closing.enter_context(ScratchDirectory("import")).path / f"{Path(title).stem}.wacz"
    with copy.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    try:
        found.add(name, inputs_of(copy))
    except MalformedInput as error:
        found.broken.append((name, error))


class _Waiting(io.RawIOBase):
    """A stream that stops waiting for more when Ctrl-C was pressed, in whatever thread it is read."""

    def __init__(self, descriptor: int, pressed: Callable[[], bool]) -> None:
        self._descriptor = descriptor
        self._pressed = pressed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        from holdfast.archive.ingest.file_reader import ReaderStopped

        while not select.select([self._descriptor], [], [], _WAIT_S)[0]:
            if self._pressed():
                raise ReaderStopped
        piece = os.read(self._descriptor, len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


FINDINGS_SHOWN = 20
_RANKS = ("lost", "truncated", "invalid")  # kinds of findings, in the order in which they are shown
_COUNTS = ("bytes", "records", "added", "known", "refused", "lost", "lost_bytes", "truncated", "invalid")


@dataclass(frozen=True, slots=True)
class ImportedCounts:
    """What is stored at a moment; the difference of two tells what an import cost."""

    contents: int
    references: int
    stored_bytes: int
    saved_bytes: int  # by eliminating duplicates

    @classmethod
    def of(cls, archive: Archive) -> ImportedCounts:
        stats = [report.stat for report in archive.volumes() if report.stat is not None]
        return cls(
            sum(stat.blocks for stat in stats),
            sum(stat.references for stat in stats),
            sum(stat.stored_bytes for stat in stats),
            sum(stat.referenced_bytes - stat.content_bytes for stat in stats),
        )

    def since(self, before: ImportedCounts) -> ImportedCounts:
        return ImportedCounts(
            self.contents - before.contents,
            self.references - before.references,
            self.stored_bytes - before.stored_bytes,
            self.saved_bytes - before.saved_bytes,
        )


class ImportTally:
    """The reports of an import, shown as they come, and their sum."""

    def __init__(self, *, as_json: bool, verbose: bool) -> None:
        self._as_json = as_json
        self._verbose = verbose
        self._sums = dict.fromkeys(_COUNTS, 0)
        self.files = 0
        self.failed = 0  # files of which something is missing, that could not be read, or had nothing to be read

    def take(self, report: ImportReport, path: str) -> None:
        self.files += 1
        self.failed += bool(report.lost or report.truncated or report.error or not report.records)
        for name in _COUNTS:
            self._sums[name] += getattr(report, name)
        try:
            if self._as_json:
                show(_values(report, path), "", as_json=True)
            elif report.lost or report.truncated or report.invalid or report.error:
                show_lines(_lines(report, path, verbose=self._verbose))
        except BrokenPipeError:  # nobody reads any more; what was asked for is to add records
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def summarize(self, stored: ImportedCounts) -> None:
        if self._as_json:
            values = {"event": "summary", "files": self.files, "files_failed": self.failed} | self._sums
            show(values | asdict(stored), "", as_json=True)
            return
        sums = self._sums
        show_lines(
            [
                f"imported {counted(sums['records'], 'record')} of {counted(self.files, 'file')}: "
                f"{sums['added']:,} added, {sums['known']:,} known already, {sums['refused']:,} refused",
                *self._faults(),
                f"payloads: {counted(stored.contents, 'new content')} ({rounded_size(stored.stored_bytes)} stored), "
                f"{stored.references - stored.contents:,} held already ({rounded_size(stored.saved_bytes)} saved)",
            ]
        )

    def _faults(self) -> list[str]:
        sums = self._sums
        if not (self.failed or sums["invalid"]):
            return []
        lost = f"{counted(sums['lost'], 'range')} lost ({rounded_size(sums['lost_bytes'])})"
        parts = [
            lost,
            f"{counted(sums['invalid'], 'broken rule')}",
            f"{counted(self.failed, 'file')} not imported whole",
        ]
        if sums["truncated"]:
            parts.insert(1, f"{counted(sums['truncated'], 'record')} truncated")
        return [f"faults: {', '.join(parts)}"]


def _values(report: ImportReport, path: str) -> dict[str, Any]:
    return {
        "event": "file",
        "file": path,
        "name": report.name,
        **{name: getattr(report, name) for name in _COUNTS},
        "complete": report.complete,
        "error": str(report.error) if report.error else None,
        "findings": [asdict(finding) for finding in report.findings],
    }


def _lines(report: ImportReport, path: str, *, verbose: bool) -> list[str]:
    """The faults of a file, those that cost something first."""
    lines = [f"{path}: {report.error}"] if report.error else []
    findings = sorted(report.findings, key=_rank)
    shown = findings if verbose else findings[:FINDINGS_SHOWN]
    lines += [f"{path}: {finding}" for finding in shown]
    left = report.lost + report.truncated + report.invalid - len(shown)
    if left > 0:
        remedy = "" if verbose else "; -v before the command shows more"
        lines.append(f"{path}: {counted(left, 'more fault')}{remedy}")
    return lines


def _rank(finding: Finding) -> tuple[int, int]:
    return _RANKS.index(finding.kind), finding.offset


JOBS = min(os.cpu_count() or 1, 4)


def _named(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Refused before anything is read."""
    return None if value is None else batch_name(value)


@click.command("import")
@archive_option
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("-c", "--collection", metavar="NAME", callback=_named, help="Of the records; as the settings say.")
@click.option("--batch", metavar="NAME", callback=_named, help="Where the records go; by default that of the month.")
@click.option("--jobs", type=click.IntRange(1, 64), default=JOBS, help=f"Files read at a time; here {JOBS} by default.")
@click.option("--strict", is_flag=True, help="Stop at the first fault of a file.")
@click.option("--no-verify", is_flag=True, help="Do not compare blocks and payloads with their digests.")
@index_option
@json_option
@click.pass_context
def import_(
    context: click.Context,
    *,
    archive: Path,
    paths: tuple[str, ...],
    collection: str | None,
    batch: str | None,
    jobs: int,
    strict: bool,
    no_verify: bool,
    index: bool | None,
    as_json: bool,
) -> None:
    """Add the records of WARC, ARC, WACZ and Tianwang files.

    PATH is a file, a folder, or '-' for standard input. What is damaged is passed over and reported. What is in
    already is not added twice: after an interruption, run the same command again.

    Exits with 11 if something could not be read.
    """
    from holdfast.archive.ingest.importer import ImportOptions

    # Indexed below, when the archive is no longer open for writing.
    options = ImportOptions(collection, batch, jobs, strict, not no_verify, index=False)
    tally = ImportTally(as_json=as_json, verbose=is_verbose(context))
    with ExitStack() as closing, writing(archive) as (opened, interruption):
        with interruption.allowed():
            found = find_inputs(paths, lambda: interruption.pressed, closing)
        _remark(found, verbose=is_verbose(context))
        before = ImportedCounts.of(opened)
        try:
            _import(opened, found, options, tally, interruption)
        except KeyboardInterrupt:
            note("holdfast: what was added stays; run the same command again to go on")
            raise
        tally.summarize(ImportedCounts.of(opened).since(before))
        wanted = is_automatic(opened, index)
    if wanted:
        bring_up(archive, quiet=as_json)
    if tally.failed:
        raise click.exceptions.Exit(MalformedInput.exit_code)


def _import(
    archive: Archive, found: FoundFiles, options: ImportOptions, tally: ImportTally, interruption: Interruption
) -> None:
    from holdfast.archive.ingest.importer import ImportReport

    for path, error in found.broken:
        if options.strict:
            raise error
        tally.take(ImportReport(Path(path).name, error=error), path)
    held: list[ImportReport] = []  # until the progress bar has left the terminal
    with interruption.progress_bar("importing", found.total_bytes) as progress:
        for report in archive.iter_import(found.inputs, options, progress):
            if sys.stdout.isatty():
                held.append(report)
            else:
                tally.take(report, found.path_of(report.name))
    interruption.checkpoint()
    for report in held:
        tally.take(report, found.path_of(report.name))


def _remark(found: FoundFiles, *, verbose: bool) -> None:
    if found.passed_over:
        note(f"note: passed over {counted(len(found.passed_over), 'file')} of other kinds in folders")
    for path in found.passed_over if verbose else ():
        note(f"note: passed over '{path}'")
