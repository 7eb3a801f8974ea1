"""One figure: a workload on a subject, in one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.bench.archive.crawl import Crawls
from holdfast.bench.archive.workload import ArchiveWorkload
from holdfast.bench.measure import Cost
from holdfast.bench.subject import bytes_on_disk

NO_COST = Cost(0.0, 0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Figure:
    """What was done, and what it cost."""

    subject: str
    workload: ArchiveWorkload
    operations: int
    cost: Cost = NO_COST  # none for `space`
    pages: int = 0  # responses among the records
    content_bytes: int = 0  # of payloads
    disk_bytes: int = 0  # allocated, of what was written
    apparent_bytes: int = 0
    form: str = ""  # which catalog, where there are several
    seconds_all: tuple[float, ...] = ()  # of all repeats, in order

    @property
    def per_s(self) -> float:
        return self.operations / max(self.cost.seconds, 1e-9)

    @property
    def pages_per_s(self) -> float:
        return self.pages / max(self.cost.seconds, 1e-9)

    @property
    def per_cpu_s(self) -> float:
        return self.operations / max(self.cost.cpu_s, 1e-6)

    @property
    def mb_per_s(self) -> float:
        return self.content_bytes / max(self.cost.seconds, 1e-9) / 1e6

    @property
    def place(self) -> tuple[str, ArchiveWorkload, str]:
        return self.subject, self.workload, self.form


def middle(repeats: Sequence[Figure]) -> Figure:
    """The repeat with the median time (the better one of an even number), with the times of all of them."""
    ordered = sorted(repeats, key=lambda repeat: repeat.cost.seconds)
    return replace(ordered[(len(ordered) - 1) // 2], seconds_all=tuple(repeat.cost.seconds for repeat in repeats))


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
