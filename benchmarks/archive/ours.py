"""Holdfast at the workloads. Every function runs in a process of its own and checks what it got before it answers."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.archive.crawl import CRAWLS, Crawls
from benchmarks.archive.figure import written
from benchmarks.archive.sample import WARM_UP, chosen, settle
from benchmarks.archive.workload import JOBS, ArchiveWorkload
from benchmarks.harness.figure import NO_COST, OURS, Figure
from benchmarks.harness.measure import measured
from benchmarks.harness.process import ChildFailed

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.model import Capture

_COMPARED_BYTES = 1 << 20


def import_all(path: Path, crawls: Crawls) -> list[Figure]:
    """Makes an archive of the files; the time to close it counts. Figures for `import` and `space`."""
    from holdfast.archive import init, open

    init(path)
    archive = open(path)
    try:
        added, cost = measured(lambda: _import_and_close(archive, crawls.files))
    finally:
        archive.close()
    if added != crawls.records:
        raise ChildFailed(f"{added} records were added, expected {crawls.records}")
    figure = written(OURS, ArchiveWorkload.IMPORT, crawls, path, cost)
    return [figure, replace(figure, workload=ArchiveWorkload.SPACE, cost=NO_COST)]


def look_up_imported(path: Path, crawls: Crawls, subject: str) -> list[Figure]:
    """Lookups in the catalog of what was imported, by the writer or by a reader."""
    from holdfast.archive import open

    with open(path, read_only=subject != OURS) as archive:
        return [look_up(archive.catalog.lookup, chosen(crawls.urls()), subject, f"{crawls.captures:,} captures")]


def look_up(lookup: Callable[[str], Sequence[Capture]], urls: Sequence[str], subject: str, form: str) -> Figure:
    """Every URL once, when background work has come to rest; each has one capture of every crawl."""
    for url in urls[:WARM_UP]:
        lookup(url)
    settle()
    found, cost = measured(lambda: sum([len(lookup(url)) for url in urls]))
    if found != len(urls) * len(CRAWLS):
        raise ChildFailed(f"{found} captures were found, expected {len(urls) * len(CRAWLS)}")
    return Figure(subject, ArchiveWorkload.LOOKUP, len(urls), cost, form=form)


def export_all(path: Path, crawls: Crawls, target: Path) -> list[Figure]:
    """Everything into one gzip WARC, which is durable in the end."""
    from holdfast.archive import open
    from holdfast.archive.export import ExportOptions
    from holdfast.records.selection import Selection

    with open(path, read_only=True) as archive:
        report, cost = measured(lambda: archive.export(Selection(), target, ExportOptions("warc.gz"), None))
    if report.records < crawls.records:
        raise ChildFailed(f"{report.records} records were exported, expected {crawls.records}")
    check_whole(target, crawls)
    return [written(OURS, ArchiveWorkload.EXPORT, crawls, target, cost)]


def export_cdxj(path: Path, target: Path) -> None:
    """The rows of the catalog as a sorted CDXJ file, for peers that search one."""
    from holdfast.archive import open
    from holdfast.archive.export import ExportOptions
    from holdfast.records.selection import Selection

    with open(path, read_only=True) as archive:
        archive.export(Selection(), target, ExportOptions("cdxj"), None)


def round_trip(path: Path, crawls: Crawls, target: Path) -> list[Figure]:
    """Import and exact export under one clock; then every byte is compared with the files."""
    from holdfast.archive import init, open

    init(path)
    archive = open(path)
    try:
        _, cost = measured(lambda: _there_and_back(archive, crawls.files, target))
    finally:
        archive.close()
    for file in crawls.files:
        compare(file, target / file.name)
    return [written(OURS, ArchiveWorkload.ROUNDTRIP, crawls, target, cost)]


def compare(original: Path, copy: Path) -> None:
    """Raises ChildFailed if the uncompressed bytes differ."""
    with gzip.open(original) as one, gzip.open(copy) as other:
        at = 0
        while True:
            expected, found = _read(one), _read(other)
            if expected != found:
                raise ChildFailed(f"'{copy.name}' differs from its original between {at} and {at + _COMPARED_BYTES}")
            if not expected:
                return
            at += len(expected)


def check_whole(target: Path, crawls: Crawls) -> None:
    """Raises ChildFailed if the file holds fewer uncompressed bytes than those that went into it."""
    found, expected = _unpacked_bytes(target), sum(map(_unpacked_bytes, crawls.files))
    if found < expected:
        raise ChildFailed(f"'{target.name}' holds {found} bytes, expected at least {expected}")


def _unpacked_bytes(path: Path) -> int:
    size = 0
    with gzip.open(path) as stream:
        while piece := _read(stream):
            size += len(piece)
    return size


def _read(stream: gzip.GzipFile) -> bytes:
    """A full piece: a stream may give less at the end of a gzip member."""
    pieces: list[bytes] = []
    size = 0
    while size < _COMPARED_BYTES and (piece := stream.read(_COMPARED_BYTES - size)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _import_and_close(archive: Archive, files: Sequence[Path]) -> int:
    added = import_files(archive, files)
    archive.close()
    return added


def import_files(archive: Archive, files: Sequence[Path]) -> int:
    """Returns how many records were added. Raises ChildFailed if anything was wrong with a file."""
    from holdfast.archive.ingest.file_reader import inputs_of
    from holdfast.archive.ingest.importer import ImportOptions

    inputs = [each for file in files for each in inputs_of(file)]
    added = 0
    for report in archive.iter_import(inputs, ImportOptions(jobs=JOBS, index=False)):
        if report.error is not None or report.lost or report.invalid:
            first = report.error or (report.findings[0] if report.findings else "unknown")
            raise ChildFailed(f"'{report.name}' was not imported whole: {first}")
        added += report.added
    return added


def _there_and_back(archive: Archive, files: Sequence[Path], target: Path) -> None:
    from holdfast.archive.export import ExportOptions
    from holdfast.records.selection import Selection

    import_files(archive, files)
    archive.export(Selection(), target, ExportOptions("warc.gz", exact=True), None)
