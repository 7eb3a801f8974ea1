"""The figure of a workload that wrote records to files."""

from __future__ import annotations

from pathlib import Path

from benchmarks.archive.crawl import Crawls
from benchmarks.archive.workload import ArchiveWorkload
from benchmarks.harness.figure import Figure
from benchmarks.harness.measure import Cost, bytes_on_disk


def written(subject: str, workload: ArchiveWorkload, crawls: Crawls, target: Path, cost: Cost) -> Figure:
    """The figure of a workload that wrote all records to a file, or to files in a directory."""
    if target.is_dir():
        allocated, apparent = bytes_on_disk(target)
    else:
        stat = target.stat()
        allocated, apparent = stat.st_blocks * 512, stat.st_size
    return Figure(
        subject,
        workload,
        crawls.records,
        cost,
        pages=crawls.captures,
        content_bytes=crawls.content_bytes,
        disk_bytes=allocated,
        apparent_bytes=apparent,
    )
