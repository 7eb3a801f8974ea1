"""What an archive takes on its disks, and how much came to it in each month: what `holdfast.plan.growth` begins from.

The growth of an archive is that of the dates of its captures. In a cluster each node counts the captures that it
answers for, and measures its own disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.catalog.rows import unpacked
from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.engine.scan import UNDATED_MARK, StudySource
from holdfast.study.result import StudyResult

if TYPE_CHECKING:
    from holdfast.archive import Archive

_RANGE = 2048  # captures read at once
_END = b"\xff"
_COUNTS = ("captures", "new_urls", "bytes")
_MONTH_COLUMNS = (("month", "VARCHAR"), *((name, "BIGINT") for name in _COUNTS))
_TOTALS = ("urls", "undated", "used_bytes", "free_bytes")
_TOTAL_COLUMNS = tuple((name, "BIGINT") for name in _TOTALS)


@dataclass(slots=True)
class _Month:
    captures: int = 0
    new_urls: int = 0
    payload_bytes: int = 0  # of captures that are no revisits


class GrowthStudy:
    """Captures, new URLs and bytes by month, and the disk. Memory does not grow with the archive."""

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        months: dict[str, _Month] = {}
        place, urlkey, urls, undated = b"", "", 0, 0
        while found := source.archive.catalog.rows.by_place(source.collection, (place, _END), _RANGE):
            place = found[-1][0] + b"\0"
            source.progress(len(found))
            for capture in filter(source.reads, map(unpacked, found)):
                is_new = capture.urlkey != urlkey
                urls += is_new
                urlkey = capture.urlkey
                if UNDATED_MARK in capture.extra or not capture.timestamp[:6].isdigit():
                    undated += 1
                    continue
                month = months.setdefault(capture.timestamp[:6], _Month())
                month.captures += 1
                month.new_urls += is_new
                month.payload_bytes += capture.size if capture.type != "revisit" else 0
        rows = RowBuffer(database, "months", _MONTH_COLUMNS)
        for name, each in months.items():
            rows.add((name, each.captures, each.new_urls, each.payload_bytes))
        rows.flush()
        totals = RowBuffer(database, "totals", _TOTAL_COLUMNS)
        totals.add((urls, undated, *_disk_of(source.archive)))
        totals.flush()
        database.write("SELECT * FROM months", directory / "months.parquet")
        database.write("SELECT * FROM totals", directory / "totals.parquet")

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """Tables `months`, by name, and `totals`, one row; `nodes` are those that answered."""
        for name in ("months", "totals"):
            database.read(name, [path / f"{name}.parquet" for path in partials])
        sums = {names: ", ".join(f"sum({name})::BIGINT AS {name}" for name in names) for names in (_COUNTS, _TOTALS)}
        tables = {
            "months": database.rows(f"SELECT month, {sums[_COUNTS]} FROM months GROUP BY month ORDER BY month"),
            "totals": database.rows(f"SELECT {sums[_TOTALS]}, count(*) AS nodes FROM totals"),
        }
        return StudyResult("growth", tables, [], [])


def _disk_of(archive: Archive) -> tuple[int, int]:
    """Bytes of the archive's directory, and free on its disk; of its volumes instead, if they are elsewhere."""
    used, free = _disk_usage(archive.path), shutil.disk_usage(archive.path).free
    if elsewhere := [each.stat for each in archive.volumes() if each.place and each.stat is not None]:
        used += sum(stat.disk_bytes for stat in elsewhere)
        free = sum(stat.free_bytes for stat in elsewhere)
    return used, free


def _disk_usage(directory: Path) -> int:
    """Bytes on disk of all files below; files that go away meanwhile do not count."""
    total = 0
    for path, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total
