"""Verification of a batch: every frame's checksum, every serial number, and the seal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.batches.batch import BatchState, file_digest, file_generations, is_restoring, open_newest, read_seal
from holdfast.batches.frame import Passed, Walked, walk
from holdfast.env import Environment, File, paths
from holdfast.errors import DamagedBatch
from holdfast.model import Fault


@dataclass(slots=True)
class BatchReport:
    """The result of a verification."""

    name: str
    records: int = 0
    removed: int = 0
    bytes: int = 0
    sealed: bool = False
    faults: list[Fault] = field(default_factory=list)

    def add(self, path: Path, offset: int, kind: str, expected: str, found: str) -> None:
        """Adds a fault."""
        self.faults.append(Fault(self.name, str(path), offset, kind, expected, found))


def verify_batch(
    name: str,
    directory: Path,
    env: Environment,
    progress: Callable[[int], None] | None = None,
    known: BatchState | None = None,
) -> BatchReport:
    """Reads every byte of the batch. An open batch may have an unfinished end, left by a crash or a writer.

    `known` is what the catalog knows of the batch, read before: what lies before its end was acknowledged.
    """
    report = BatchReport(name)
    seal = _read_seal(report, directory, env)
    report.sealed = seal is not None
    if is_restoring(env, directory):
        report.add(directory / paths.RESTORING, 0, "unfinished restore", "a whole batch", "a part of it")
    files = file_generations(env, directory)
    last_serial = 0
    for number in files:
        before = report.bytes
        file, generation = open_newest(env, directory, number)
        known_generation, end = known.files.get(number, (0, 0)) if known is not None else (0, 0)
        torn_from = end if known_generation == generation else 0
        if number != max(files):
            torn_from = sys.maxsize
        with closing(file):
            last_serial = _verify_file(report, file, walk(file, number, generation), last_serial, torn_from)
        if progress is not None:
            progress(report.bytes - before)
    if seal is not None:
        _verify_seal(report, seal, directory, env)
    return report


def _read_seal(report: BatchReport, directory: Path, env: Environment) -> dict[str, object] | None:
    try:
        return read_seal(env, directory)
    except DamagedBatch as error:
        report.add(directory / paths.SEALED, 0, "seal", "a list of files", str(error))
        return None


def _verify_file(
    report: BatchReport, file: File, frames: Iterable[Walked | Passed], last_serial: int, torn_from: int
) -> int:
    """Returns the last serial number. An unfinished end may begin at `torn_from`, not before."""
    report.bytes += file.size()
    for found in frames:
        if isinstance(found, Passed):
            if not found.torn or report.sealed or found.offset < torn_from:
                report.add(file.path, found.offset, "damaged frame", "a sound frame", found.reason)
            continue
        for entry in found.entries:
            if entry.serial and entry.serial <= last_serial:
                report.add(file.path, found.place.offset, "serial", f"above {last_serial}", str(entry.serial))
            last_serial = max(last_serial, entry.serial)
            report.removed += entry.type == "removed"
            report.records += bool(entry.serial) and entry.type != "removed"
    return last_serial


def _verify_seal(report: BatchReport, seal: dict[str, object], directory: Path, env: Environment) -> None:
    files = seal["files"]
    assert isinstance(files, dict)
    for name, facts in files.items():
        try:
            size, digest = file_digest(env, directory / name)
        except FileNotFoundError:
            report.add(directory / name, 0, "missing file", "the file that SEALED lists", "nothing")
            continue
        if size != facts.get("bytes") or digest != facts.get("sha256"):
            report.add(directory / name, 0, "digest", f"sha256 {facts.get('sha256')}", f"sha256 {digest}")
