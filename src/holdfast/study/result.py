"""The result of a study: tables in Arrow, remarks in words, and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.model import Coverage

if TYPE_CHECKING:
    import pyarrow

    from holdfast.study.chart import Panel


@dataclass(frozen=True, slots=True)
class StudyResult:
    """What a study found. The first table is the main one."""

    study: str
    tables: Mapping[str, pyarrow.Table]
    notes: Sequence[str] = ()  # what was left out, and what is missing
    panels: Sequence[Panel] = field(default=(), repr=False)  # of the chart; none if there is nothing to draw
    coverage: Coverage | None = None  # how much of a cluster it is about

    @property
    def table(self) -> pyarrow.Table:
        """The main table."""
        return next(iter(self.tables.values()))

    def rows(self, name: str = "") -> list[dict[str, Any]]:
        """The rows of a table, of the main one by default."""
        found: list[dict[str, Any]] = (self.tables[name] if name else self.table).to_pylist()
        return found
