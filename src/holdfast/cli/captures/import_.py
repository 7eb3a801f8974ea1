"""`holdfast import`: records of files, folders, pipes and standard input into the archive.

All inputs are found before anything is added. A line is printed for each file with faults, and a summary.
"""

from __future__ import annotations

import errno
import io
import os
import select
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.archive.index import bring_up, is_automatic
from holdfast.cli.options import archive_option, duration_option, index_option, init_option, is_verbose, json_option
from holdfast.cli.terminal import (
    STANDARD_STREAM,
    Interruption,
    counted,
    is_running_node,
    make_archive,
    note,
    reading,
    show_json,
    show_lines,
    writing,
)
from holdfast.env.paths import BATCHES, CATALOG, CLUSTER, CRAWLS, INDEX, SETTINGS, VOLUMES
from holdfast.env.scratch import ScratchDirectory
from holdfast.env.units import rounded_size
from holdfast.errors import ClusterDown, MalformedInput, NotFound, UsageError
from holdfast.model import batch_name

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.ingest.file_reader import ImportInput
    from holdfast.archive.ingest.importer import ImportOptions, ImportReport


_NAME_OF_STANDARD_INPUT = "standard-input"
SUFFIXES = (*(f".{kind}{coding}" for kind in ("warc", "arc", "tw") for coding in ("", ".gz", ".zst")), ".wacz")
_OF_ARCHIVES = {BATCHES, CATALOG, CLUSTER, CRAWLS, INDEX, VOLUMES}  # their folders
_ZIP_MAGIC = b"PK\x03\x04"
_WAIT_S = 0.2
JOBS = min(os.cpu_count() or 1, 4)
FINDINGS_SHOWN = 20
_RANKS = ("lost", "truncated", "invalid")  # kinds of findings, in the order in which they are shown
_COUNTS = ("bytes", "records", "added", "known", "refused", "lost", "lost_bytes", "truncated", "invalid")


def _named(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Validates a name before anything is read."""
    return None if value is None else batch_name(value)


@click.command("import")
@archive_option
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option(
    "-c",
    "--collection",
    metavar="NAME",
    callback=_named,
    help="Collection of the records; by default as the settings say.",
)
@click.option(
    "--batch", metavar="NAME", callback=_named, help="Batch that takes the records; by default that of the month."
)
@click.option("--jobs", type=click.IntRange(1, 64), default=JOBS, help=f"Files read at a time; {JOBS} by default here.")
@click.option("--strict", is_flag=True, help="Stop at the first fault of a file.")
@click.option("--no-verify", is_flag=True, help="Do not compare blocks and payloads with their digests.")
@duration_option("--wait-safe", help="At a node of a cluster: wait so long until enough nodes have the records.")
@init_option
@index_option
@json_option
@click.pass_context
def import_(
    context: click.Context,
    /,
    *,
    archive: Path,
    paths: tuple[str, ...],
    no_verify: bool,
    wait_safe: float | None,
    makes: bool,
    index: bool | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Add the records of WARC, ARC, WACZ and Tianwang files.

    PATH is a file, a folder, or '-' for standard input. Damaged parts are skipped and reported. Known records are not
    added again: after an interruption, run the same command again.

    Exits with 11 if something could not be read.
    """
    from holdfast.archive.ingest.importer import ImportOptions

    if makes:
        require_paths(paths)
        make_archive(archive)
    # Indexed below, after the archive is closed for writing.
    options = ImportOptions(verify_digests=not no_verify, index=False, **chosen)
    tally = ImportTally(as_json=as_json, verbose=is_verbose(context))
    if is_running_node(archive):
        _import_by_node(archive, paths, options, tally, wait_safe)
        return
    if wait_safe is not None:
        raise UsageError(f"'{archive}' is not a running node of a cluster: --wait-safe is for one")
    with ExitStack() as closing, writing(archive) as (opened, interruption):
        wanted = is_automatic(opened, index)
        with interruption.allowed():
            found = find_inputs(paths, lambda: interruption.pressed, closing)
        _remark(found, verbose=is_verbose(context))
        before = _stored(opened)
        _import(opened, found, options, tally, interruption)
        stored = _stored(opened)
        stored.subtract(before)
        tally.summarize(stored)
    if wanted:
        bring_up(archive, quiet=as_json)
    if tally.failed:
        raise click.exceptions.Exit(MalformedInput.exit_code)


def _import_by_node(
    archive: Path, paths: Sequence[str], options: ImportOptions, tally: ImportTally, wait_safe_s: float | None
) -> None:
    """Has the running node of a cluster import the files: its process is the archive's writer."""
    from holdfast.cluster.copies.write_socket import NOT_SAFE, import_by_node

    if STANDARD_STREAM in paths:
        raise UsageError("a node of a cluster imports files only: standard input ('-') cannot be handed to it")
    with reading(archive) as opened:
        before = _stored(opened)
    reports, is_safe = import_by_node(archive, [Path(each) for each in paths], options, wait_safe_s=wait_safe_s)
    for report in reports:
        tally.take(report, report.name)
    with reading(archive) as opened:
        stored = _stored(opened)
    stored.subtract(before)
    tally.summarize(stored)
    if not is_safe:
        raise ClusterDown(f"imported, but {NOT_SAFE}")
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
    remark = "what was added stays; run the same command again to continue"
    with interruption.progress_bar("importing", found.total_bytes, remark=remark) as progress:
        for report in archive.iter_import(found.inputs, options, progress):
            if sys.stdout.isatty():
                held.append(report)
            else:
                tally.take(report, found.path_of(report.name))
        interruption.checkpoint()
    for report in held:
        tally.take(report, found.path_of(report.name))


def _remark(found: FoundFiles, *, verbose: bool) -> None:
    if found.skipped:
        note(f"note: skipped {counted(len(found.skipped), 'file')} of other kinds in folders")
    for path in found.skipped if verbose else ():
        note(f"note: skipped '{path}'")


# -- what to import ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FoundFiles:
    """Files to import, files skipped, and files that cannot be opened."""

    inputs: list[ImportInput] = field(default_factory=list)
    paths: dict[str, list[str]] = field(default_factory=dict)  # by the names of the inputs, as the caller gave them
    skipped: list[Path] = field(default_factory=list)
    broken: list[tuple[str, MalformedInput]] = field(default_factory=list)

    @property
    def total_bytes(self) -> int | None:
        """None if it is unknown before reading."""
        sizes = [each.size for each in self.inputs if each.size is not None]
        return sum(sizes) if len(sizes) == len(self.inputs) else None

    def path_of(self, name: str) -> str:
        """The path of an input as the caller gave it."""
        paths = self.paths.get(name, [])
        return paths[0] if len(paths) == 1 else name

    def add(self, path: str, inputs: Sequence[ImportInput]) -> None:
        self.inputs += inputs
        for each in inputs:
            inner = each.name.partition(":")[2]
            self.paths.setdefault(each.name, []).append(f"{path}:{inner}" if inner else path)


def require_paths(names: Sequence[str]) -> None:
    """Raises OSError if a file or folder is missing."""
    for name in names:
        if name != STANDARD_STREAM:
            os.stat(name)


def find_inputs(names: Sequence[str], pressed: Callable[[], bool], closing: ExitStack) -> FoundFiles:
    """All inputs. Raises OSError or NotFound if one is missing. `pressed` ends a wait for standard input."""
    if names.count(STANDARD_STREAM) > 1:
        raise UsageError("standard input ('-') can be read only once")
    found = FoundFiles()
    for name in names:
        if name == STANDARD_STREAM:
            _add_stream(found, name, _Waiting(sys.stdin.fileno(), pressed), closing)
        elif stat.S_ISDIR(mode := os.stat(name).st_mode):
            _add_folder(found, Path(name))
        elif stat.S_ISREG(mode):
            _add_file(found, Path(name))
        else:  # a pipe or a device, which can be read only once
            descriptor = os.open(name, os.O_RDONLY)
            closing.callback(os.close, descriptor)
            _add_stream(found, name, _Waiting(descriptor, pressed), closing)
    if not found.inputs and not found.broken:
        folders = ", ".join(f"'{name}'" for name in names)
        raise NotFound(
            f"nothing to import in {folders}: no name there ends in {', '.join(SUFFIXES)}; "
            "a file given by name is imported whatever its suffix"
        )
    return found


def _add_folder(found: FoundFiles, folder: Path) -> None:
    """Adds what is below a folder, except for the own files of archives."""
    for directory, subfolders, names in os.walk(folder, onerror=_refuse):
        subfolders.sort()
        if SETTINGS in names:
            note(f"note: the archive in '{directory}' is passed over: 'holdfast export' writes files to import from it")
            subfolders[:] = [each for each in subfolders if each not in _OF_ARCHIVES]
        for name in sorted(names):
            path = Path(directory, name)
            if name.lower().endswith(SUFFIXES) and path.is_file():
                _add_file(found, path)
            else:
                found.skipped.append(path)


def _refuse(error: OSError) -> None:
    raise error


def _add_file(found: FoundFiles, path: Path) -> None:
    from holdfast.archive.ingest.file_reader import inputs_of

    if not os.access(path, os.R_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    try:
        found.add(str(path), inputs_of(path))
    except MalformedInput as error:
        found.broken.append((str(path), error))


# -- streams ----------------------------------------------------------------------------------------


def _add_stream(found: FoundFiles, name: str, source: _Waiting, closing: ExitStack) -> None:
    from holdfast.archive.ingest.file_reader import ImportInput, inputs_of

    stream = io.BufferedReader(source, 1 << 16)
    title = _NAME_OF_STANDARD_INPUT if name == STANDARD_STREAM else Path(name).name
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
    """A stream that stops waiting for data after Ctrl-C, in any thread."""

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


# -- reports ---------------------------------------------------------------------------------------------------


def _stored(archive: Archive) -> Counter[str]:
    """What store and batches hold of payloads; the difference of two shows what an import stored."""
    stored = Counter(dict.fromkeys(("contents", "references", "stored_bytes", "saved_bytes"), 0))
    totals = archive.catalog.totals()[0].values()
    stored["inline"] = sum(total.inline for total in totals)
    stored["inline_bytes"] = sum(total.inline_bytes for total in totals)
    for held in (report.stat for report in archive.volumes() if report.stat is not None):
        stored["contents"] += held.blocks
        stored["references"] += held.references
        stored["stored_bytes"] += held.stored_bytes
        stored["saved_bytes"] += held.referenced_bytes - held.content_bytes  # by eliminating duplicates
    return stored


class ImportTally:
    """Prints the reports of an import as they arrive, and sums them up."""

    def __init__(self, *, as_json: bool, verbose: bool) -> None:
        self._as_json = as_json
        self._verbose = verbose
        self._sums = dict.fromkeys(_COUNTS, 0)
        self.files = 0
        self.failed = 0  # files that are incomplete, unreadable or without records

    def take(self, report: ImportReport, path: str) -> None:
        self.files += 1
        self.failed += bool(report.lost or report.truncated or report.error or not report.records)
        for name in _COUNTS:
            self._sums[name] += getattr(report, name)
        try:
            if self._as_json:
                show_json(_values(report, path))
            elif report.lost or report.truncated or report.invalid or report.error:
                show_lines(_lines(report, path, verbose=self._verbose))
        except BrokenPipeError:  # the reader of our output is gone; the records are added all the same
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def summarize(self, stored: Counter[str]) -> None:
        if self._as_json:
            values = {"event": "summary", "files": self.files, "files_failed": self.failed} | self._sums
            show_json(values | stored)
            return
        sums = self._sums
        inline = (
            f", {stored['inline']:,} in batches ({rounded_size(stored['inline_bytes'])})" if stored["inline"] else ""
        )
        show_lines(
            [
                f"imported {counted(sums['records'], 'record')} of {counted(self.files, 'file')}: "
                f"{sums['added']:,} added, {sums['known']:,} known already, {sums['refused']:,} refused",
                *self._faults(),
                f"payloads: {counted(stored['contents'], 'new content')} ({rounded_size(stored['stored_bytes'])} "
                f"stored), {stored['references'] - stored['contents']:,} held already "
                f"({rounded_size(stored['saved_bytes'])} saved){inline}",
            ]
        )

    def _faults(self) -> list[str]:
        sums = self._sums
        if not (self.failed or sums["invalid"]):
            return []
        lost = f"{counted(sums['lost'], 'range')} lost ({rounded_size(sums['lost_bytes'])})"
        truncated = f", {counted(sums['truncated'], 'record')} truncated" if sums["truncated"] else ""
        invalid = counted(sums["invalid"], "broken rule")
        return [f"faults: {lost}{truncated}, {invalid}, {counted(self.failed, 'file')} not imported whole"]


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
    """The faults of a file, the most serious first."""
    lines = [f"{path}: {report.error}"] if report.error else []
    findings = sorted(report.findings, key=lambda finding: (_RANKS.index(finding.kind), finding.offset))
    shown = findings if verbose else findings[:FINDINGS_SHOWN]
    lines += [f"{path}: {finding}" for finding in shown]
    left = report.lost + report.truncated + report.invalid - len(shown)
    if left > 0:
        remedy = "" if verbose else "; -v before the command shows more"
        lines.append(f"{path}: {counted(left, 'more fault')}{remedy}")
    return lines
