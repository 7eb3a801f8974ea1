"""Which organization for which disk: WebBase's model beside what was measured (B13)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.arguments import checked
from holdfast.env.extras import require
from holdfast.errors import UnknownName, UsageError
from holdfast.plan.disk_model import (
    DISKS,
    ORGANIZATIONS,
    PAPER_TABLE_3,
    PAPER_TABLE_4,
    DiskSpeed,
    PageOperation,
    RepositoryShape,
    operation_ms,
    table_3,
    table_4,
)
from holdfast.study.chart import Panel, Series
from holdfast.study.result import StudyResult

_CHOICE = (
    *(("organization", "string"), ("add_ms", "float64"), ("stream_ms", "float64"), ("read_ms", "float64")),
    *(("all_ms", "float64"), ("disk_to_pages", "float64")),
)
_TABLE_3 = (
    *(("operation", "string"), ("organization", "string"), ("model", "float64"), ("measured", "float64")),
    ("paper", "float64"),
)
_TABLE_4 = (
    *(
        ("configuration", "string"),
        ("pages_s", "float64"),
        ("pages_s_measured", "float64"),
        ("pages_s_paper", "float64"),
    ),
    *(("update_s", "float64"), ("update_s_measured", "float64"), ("update_s_paper", "float64")),
)
_DISK = (("figure", "string"), ("value", "float64"), ("unit", "string"))
_SEEKS_MS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


@dataclass(frozen=True, slots=True)
class PageMix:
    """What a repository does, in pages: added through a buffer, streamed, read at random."""

    adds: float = 1.0
    streams: float = 1.0
    reads: float = 0.1

    def check(self) -> None:
        """Raises UsageError."""
        values = (self.adds, self.streams, self.reads)
        if not all(0 <= each < float("inf") for each in values) or not sum(values):
            raise UsageError("bad mix of operations: none may be negative, and one must be more than 0")


@checked
def disk(
    speed: DiskSpeed | str = "paper",
    *,
    shape: RepositoryShape | None = None,
    mix: PageMix | None = None,
    measured: Path | str | None = None,
) -> StudyResult:
    """Tables `choice`, `table_3`, `table_4` and `disk`; the best organization first.

    `measured` is the JSON file that `python -m benchmarks webbase --output` writes. Raises UnknownName and UsageError.
    """
    require("search")
    import pyarrow

    if isinstance(speed, str) and speed not in DISKS:
        raise UnknownName(f"no disk {speed!r}: there are {', '.join(DISKS)}")
    chosen = DISKS[speed] if isinstance(speed, str) else speed
    shape, mix = shape or RepositoryShape(), mix or PageMix()
    mix.check()
    ms = operation_ms(chosen, shape)
    found = _measured(Path(measured)) if measured is not None else {}
    choice = _choice(table_3(ms, shape), shape, mix)
    rows = {
        "choice": (choice, _CHOICE),
        "table_3": (_rows_3(table_3(ms, shape), found, PAPER_TABLE_3), _TABLE_3),
        "table_4": (_rows_4(table_4(ms, shape), found, PAPER_TABLE_4), _TABLE_4),
        "disk": (_speed_rows(chosen, shape), _DISK),
    }
    tables = {name: pyarrow.Table.from_pylist(each, pyarrow.schema(schema)) for name, (each, schema) in rows.items()}
    return StudyResult("disk", tables, _notes(chosen, shape, choice), [_panel(chosen, shape, mix)])


def _choice(
    rates: Mapping[str, Mapping[PageOperation, float]], shape: RepositoryShape, mix: PageMix
) -> list[dict[str, Any]]:
    rows = []
    for name in ORGANIZATIONS:
        add, stream, read = (
            1e3 / rates[name][row] for row in (PageOperation.ADD_BUFFERED, PageOperation.STREAM, PageOperation.RANDOM)
        )
        rows.append(
            {
                "organization": name,
                "add_ms": add,
                "stream_ms": stream,
                "read_ms": read,
                "all_ms": mix.adds * add + mix.streams * stream + mix.reads * read,
                "disk_to_pages": 1 / shape.utilization if name == "hash" else 1.0,
            }
        )
    return sorted(rows, key=lambda row: row["all_ms"])


def _rows_3(
    model: Mapping[str, Mapping[PageOperation, float]],
    found: Mapping[str, Any],
    paper: Mapping[str, Mapping[PageOperation, float]],
) -> list[dict[str, Any]]:
    return [
        {
            "operation": row.value,
            "organization": name,
            "model": model[name].get(row),
            "measured": found.get(f"{name}/{row.value}"),
            "paper": paper[name].get(row),
        }
        for row in PageOperation
        for name in ORGANIZATIONS
    ]


def _rows_4(
    model: Mapping[tuple[str, str], tuple[float, float]],
    found: Mapping[str, Any],
    paper: Mapping[tuple[str, str], tuple[float, float]],
) -> list[dict[str, Any]]:
    return [
        {
            "configuration": f"Batch [U(hash, {update}), R(hash, {read})]",
            "pages_s": model[update, read][0],
            "pages_s_measured": found.get(f"{update}/{PageOperation.ADD_BUFFERED.value}"),
            "pages_s_paper": paper[update, read][0],
            "update_s": model[update, read][1],
            "update_s_measured": found.get(f"{update}>{read}"),
            "update_s_paper": paper[update, read][1],
        }
        for update, read in model
    ]


def _speed_rows(speed: DiskSpeed, shape: RepositoryShape) -> list[dict[str, Any]]:
    found = (
        ("seek", speed.seek_ms, "ms"),
        ("short seek", speed.short_seek_ms, "ms"),
        ("more for a write elsewhere", speed.turn_ms, "ms"),
        ("reads", speed.read_mb_s, "MB/s"),
        ("writes", speed.write_mb_s, "MB/s"),
        ("disk", shape.disk_bytes / 2**30, "GB"),
        ("bucket", shape.bucket_bytes / 1024, "KB"),
        ("buffer", shape.buffer_bytes / 2**20, "MB"),
        ("page as stored", shape.page_bytes / 1024, "KB"),
    )
    return [{"figure": name, "value": value, "unit": unit} for name, value, unit in found]


def _measured(path: Path) -> dict[str, float]:
    """Pages per second by 'organization/operation', and seconds of updates by 'update>read'."""
    try:
        values = json.loads(path.read_text("utf-8"))
        found = {
            f"{each['organization']}/{each['row']}": float(each["per_s"])
            for each in values["table_3"]
            if not each["warm"] and each["per_s"] is not None
        }
        return found | {f"{each['update']}>{each['read']}": float(each["total_s"]) for each in values["table_4"]}
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"'{path}' is not what 'python -m benchmarks webbase --output DIR' writes: it lacks tables 3 and 4"
        ) from None


def _notes(speed: DiskSpeed, shape: RepositoryShape, choice: list[dict[str, Any]]) -> list[str]:
    best, other = choice[0], choice[1]
    notes = [
        f"on this disk '{best['organization']}' costs least for this mix: {best['all_ms']:.3g} ms, "
        f"'{other['organization']}' {other['all_ms']:.3g} ms"
    ]
    if speed.seek_ms < 1:
        notes.append(
            "seeks are so fast that processors, caches and syncs decide, which the model leaves out: measure "
            "('python -m benchmarks webbase')"
        )
    return notes


def _panel(speed: DiskSpeed, shape: RepositoryShape, mix: PageMix) -> Panel:
    costs: dict[str, list[float]] = {name: [] for name in ORGANIZATIONS}
    for seek in _SEEKS_MS:
        for row in _choice(table_3(operation_ms(speed.scaled(seek), shape), shape), shape, mix):
            costs[row["organization"]].append(row["all_ms"])
    series = [Series(name, costs[name], list(_SEEKS_MS)) for name in ORGANIZATIONS]
    title = f"Pages: {mix.adds:g} added, {mix.streams:g} streamed, {mix.reads:g} read at random"
    return Panel(title, "mean seek (ms)", "time of the disk (ms)", series, is_log_x=True, is_log_y=True)
