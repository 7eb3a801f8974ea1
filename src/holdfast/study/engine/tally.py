"""Counts under names and in bins, kept in memory until they are many, and summed in the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.statistics.survival import Count

_COUNTS_MAX = 200_000  # in memory


class Tally:
    """Writes rows `what, name, bin, number, total`. One thread."""

    COLUMNS: Final = (
        ("what", "VARCHAR"),
        ("name", "VARCHAR"),
        ("bin", "INTEGER"),
        ("number", "BIGINT"),
        ("total", "DOUBLE"),
    )
    MERGED: Final = (
        "SELECT what, name, bin, sum(number)::BIGINT AS number, sum(total) AS total FROM counts GROUP BY ALL"
    )

    def __init__(self, rows: RowBuffer) -> None:
        self._rows = rows
        self._counts: dict[tuple[str, str, int], list[float]] = {}

    def add(self, what: str, name: str, bin: int, value: float) -> None:
        """One more, with its value."""
        count = self._counts.setdefault((what, name, bin), [0, 0.0])
        count[0] += 1
        count[1] += value
        if len(self._counts) >= _COUNTS_MAX:
            self.flush()

    def flush(self) -> None:
        """All counts are in the table on return."""
        for (what, name, bin), (number, total) in self._counts.items():
            self._rows.add((what, name.encode("utf-8", "replace").decode(), bin, int(number), float(total)))
        self._counts.clear()
        self._rows.flush()

    @classmethod
    def read(cls, database: StudyDatabase) -> dict[tuple[str, str], dict[int, Count]]:
        """The sums of the view `counts`, by what and name, then by bin."""
        found: dict[tuple[str, str], dict[int, Count]] = {}
        for batch in database.batches(cls.MERGED):
            for row in batch.to_pylist():
                found.setdefault((row["what"], row["name"]), {})[row["bin"]] = Count(row["number"], row["total"])
        return found


def power_of(count: int) -> int:
    """The bin of a size: n for 2^n to 2^(n+1) - 1; -1 for 0."""
    return count.bit_length() - 1


def median_of_powers(bins: Mapping[int, Count]) -> float | None:
    """The median, by the bin in which it lies: two straight lines that meet at its mean, and have this mean."""
    total = sum(each.number for each in bins.values())
    below = 0
    for bin, each in sorted(bins.items()):
        if below + each.number >= total / 2:
            low, high, mean = (1 << bin if bin >= 0 else 0), 1 << bin + 1, each.mean_s
            share, below_mean = (total / 2 - below) / each.number, (high - mean) / (high - low)
            if share <= below_mean:
                return low + (mean - low) * share / below_mean
            return mean + (high - mean) * (share - below_mean) / (1 - below_mean)
        below += each.number
    return None


def power_name(count: int) -> str:
    """Powers of two: 512, 4K, 2M."""
    for unit in ("", "K", "M", "G"):
        if count < 1024:
            return f"{count}{unit}"
        count //= 1024
    return f"{count}T"
