"""This archive: how it grows by the dates of its captures, when its disk is full, and the scenario that it makes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.env.extras import require
from holdfast.errors import UsageError
from holdfast.plan.scenario import Scenario
from holdfast.study import composition
from holdfast.study.chart import Panel, Series
from holdfast.study.display import in_size_unit
from holdfast.study.engine.run import ClusterArchive, run_study
from holdfast.study.engine.scan import Progress
from holdfast.study.growth_study import GrowthStudy
from holdfast.study.result import StudyResult
from holdfast.study.statistics.mean import mean_interval

WINDOW_DAYS = 365
_FIGURES = (
    ("figure", "string"),
    ("value", "float64"),
    ("value_low", "float64"),
    ("value_high", "float64"),
    ("unit", "string"),
)
_MONTHS = (
    ("month", "string"),
    ("captures", "int64"),
    ("new_urls", "int64"),
    ("bytes", "int64"),
    ("total_bytes", "int64"),
)
_MONTH_DAYS = 365.2425 / 12
_AHEAD = 24  # months that the chart looks ahead


@dataclass(slots=True)
class _Month:
    captures: int = 0
    new_urls: int = 0
    payload_bytes: int = 0  # of captures that are no revisits


@dataclass(frozen=True, slots=True)
class Growth:
    """What an archive has, and how much is added. Bytes a day are those on disk."""

    used_bytes: int  # of the archive's directory, or of all nodes
    free_bytes: int  # of its disk; of those of its volumes, if they are elsewhere
    captures: int
    urls: int
    bytes_day: float
    low_bytes_day: float | None  # of a single month no bounds are known
    high_bytes_day: float | None
    captures_day: float
    new_urls_day: float
    first: str  # month of the first capture, '' if none has a date
    last: str

    def full_days(self, bytes_day: float, reserve: float = 0.0) -> float:
        """Until only this share of the disk is free, at this growth; infinite without growth."""
        room = self.free_bytes - reserve * (self.used_bytes + self.free_bytes)
        return max(0.0, room) / bytes_day if bytes_day > 0 else math.inf


def _number(month: str) -> int:
    return int(month[:4]) * 12 + int(month[4:6]) - 1


def _name(number: int) -> str:
    return f"{number // 12:04d}{number % 12 + 1:02d}"


def _measured(
    archive: Archive | ClusterArchive, window_days: float, progress: Progress | None
) -> tuple[Growth, dict[str, _Month], StudyResult]:
    result = run_study(GrowthStudy(), archive, None, None, progress)
    months = {row["month"]: _Month(row["captures"], row["new_urls"], row["bytes"]) for row in result.rows("months")}
    (totals,) = result.rows("totals")
    used, free = totals["used_bytes"], totals["free_bytes"]
    payload = sum(each.payload_bytes for each in months.values())
    on_disk = used / payload if payload else 0.0  # bytes on disk for one of a payload
    rates = [0.0]
    captures = new_urls = 0.0
    days = 1.0
    if months:
        last = _number(max(months))
        count = max(1, min(last - _number(min(months)) + 1, round(window_days / _MONTH_DAYS)))
        shown = [months.get(_name(number), _Month()) for number in range(last - count + 1, last + 1)]
        rates = [each.payload_bytes * on_disk / _MONTH_DAYS for each in shown]
        days = count * _MONTH_DAYS
        captures, new_urls = sum(each.captures for each in shown), sum(each.new_urls for each in shown)
    mean = sum(rates) / len(rates)
    low, high = mean_interval(rates)
    growth = Growth(
        used,
        free,
        sum(each.captures for each in months.values()) + totals["undated"],
        totals["urls"],
        mean,
        low,
        high,
        captures / days,
        new_urls / days,
        min(months, default=""),
        max(months, default=""),
    )
    return growth, months, result


@checked
def growth(
    archive: Archive | ClusterArchive,
    *,
    window_days: float = WINDOW_DAYS,
    reserve: float = 0.1,
    bytes_day: float | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Tables `figures` and `months`: size, growth in the last `window_days`, and when the disk is full.

    Of a cluster: of all nodes, with what their disks take and have free together. It counts as full when only the
    share `reserve` of it is free. `bytes_day` is used instead of the measured growth.
    Raises UsageError.
    """
    require("search")
    import pyarrow

    if not 1 <= window_days < math.inf:
        raise UsageError(f"bad window: {window_days:g} days must be 1 or more, and finite")
    if not 0 <= reserve < 1:
        raise UsageError(f"bad reserve: {reserve:g} must be from 0 to less than 1")
    if bytes_day is not None and not 0 <= bytes_day < math.inf:
        raise UsageError(f"bad growth: {bytes_day:g} bytes a day must be finite, and not negative")
    found, months, measured = _measured(archive, window_days, progress)
    rate = found.bytes_day if bytes_day is None else bytes_day
    full = found.full_days(rate, reserve)
    low, high = (None, None) if bytes_day is not None else (found.low_bytes_day, found.high_bytes_day)
    sooner, later = (None if each is None else found.full_days(each, reserve) for each in (high, low))
    figures = [
        _figure("captures", found.captures, ""),
        _figure("URLs", found.urls, ""),
        _figure("archive on disk", found.used_bytes, "bytes"),
        _figure("free on its disk", found.free_bytes, "bytes"),
        _figure("captures per day", found.captures_day, ""),
        _figure("new URLs per day", found.new_urls_day, ""),
        _figure("growth", rate, "bytes/day", low, high),
        _figure("full in", full, "days", sooner, later),
    ]
    rows, total = [], 0
    for name, month in sorted(months.items()):
        total += month.payload_bytes
        rows.append(
            {
                "month": f"{name[:4]}-{name[4:]}",
                "captures": month.captures,
                "new_urls": month.new_urls,
                "bytes": month.payload_bytes,
                "total_bytes": total,
            }
        )
    tables = {
        "figures": pyarrow.Table.from_pylist([each for each in figures if each], pyarrow.schema(_FIGURES)),
        "months": pyarrow.Table.from_pylist(rows, pyarrow.schema(_MONTHS)),
    }
    panels = _panels(found, months, rate, reserve) if months else []
    (totals,) = measured.rows("totals")
    notes = _notes(found, full, totals["undated"], bytes_day)
    if measured.coverage is not None:
        notes.append(f"of the cluster: sizes on disk are those of {totals['nodes']} nodes together, copies included")
    return StudyResult("growth", tables, notes, panels, measured.coverage)


def _figure(name: str, value: float, unit: str, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    """Nothing for what is infinite."""
    if not math.isfinite(value):
        return {}
    bounds = [each if each is not None and math.isfinite(each) else None for each in (low, high)]
    return {"figure": name, "value": float(value), "value_low": bounds[0], "value_high": bounds[1], "unit": unit}


def _notes(found: Growth, full: float, undated: int, given: float | None) -> list[str]:
    notes = []
    if not found.captures:
        notes.append("there are no captures, so the growth of the archive is unknown")
    elif math.isinf(full):
        notes.append("the archive does not grow: it is never full")
    elif full > 36500:
        notes.append("this archive, growing like this, is full in more than a century")
    else:
        day = date.today() + timedelta(days=math.floor(full))
        notes.append(f"this archive, growing like this, is full in {full:,.0f} days: on {day.isoformat()}")
    if found.captures and found.first == found.last and given is None:
        notes.append("all captures are of one month: its growth may not be the usual one")
    if undated:
        notes.append(f"captures without a date, not counted for growth: {undated:,}")
    return notes


def _panels(found: Growth, months: dict[str, _Month], rate: float, reserve: float) -> list[Panel]:
    payload = sum(each.payload_bytes for each in months.values())
    scale = found.used_bytes / payload if payload else 0.0
    first, last = _number(min(months)), _number(max(months))
    begin = max(first, last - 119)
    sizes, total = [], 0.0
    for number in range(first, last + 1):
        total += months.get(_name(number), _Month()).payload_bytes * scale
        if number >= begin:
            sizes.append(total)
    places = [(number - last) / 12 for number in range(begin, last + 1)]
    ahead = [month / 12 for month in range(_AHEAD + 1)]
    to_come = [total + rate * _MONTH_DAYS * 12 * each for each in ahead]
    limit = (1 - reserve) * (found.used_bytes + found.free_bytes)
    unit, scaled = in_size_unit([*to_come, *sizes, limit], max(to_come))
    future, past = scaled[: len(to_come)], scaled[len(to_come) : -1]
    series = [Series("so far", past, places), Series("growing like this", future, ahead)]
    if limit < 20 * max(to_come):
        series.append(Series("full", [scaled[-1]] * 2, [places[0], ahead[-1]]))
    return [Panel("Size of this archive", "years from the last capture", f"on disk ({unit})", series)]


@checked
def archive_scenario(
    archive: Archive | ClusterArchive, *, window_days: float = WINDOW_DAYS, progress: Progress | None = None
) -> Scenario:
    """The scenario of an archive, from its measured figures: one copy on this machine, for a year from now.

    Of a cluster: its nodes and copies, and disks of their mean size. What the archive does not say, such as lives and
    bandwidth of nodes, is that of a usual server. Raises UsageError
    for an archive without captures.
    """
    found, _, measured = _measured(archive, window_days, progress)
    if not found.captures:
        raise UsageError("cannot plan from this archive: it has no captures")
    figures = {row["figure"]: row["value"] for row in composition(archive, progress=progress).rows("figures")}
    nodes = int(measured.rows("totals")[0]["nodes"])
    copies, partitions = (1, None) if isinstance(archive, Archive) else archive.copies_and_partitions()
    copies = min(copies, nodes)
    pages = max(1.0, found.urls * figures.get("pages among captures", 100.0) / 100)
    stored = figures.get("stored bytes per byte of content", 1.0)
    made = Scenario(
        name="archive",
        pages=pages,
        images_per_page=figures.get("images per page", 0.0),
        page_bytes=max(1.0, figures.get("mean size of a page", figures.get("mean size of a capture", 1.0))),
        image_bytes=figures.get("mean size of an image", 0.0),
        page_stored=stored,
        image_stored=stored,
        changed_per_day=min(1.0, figures.get("pages that change per day", 0.0) / 100),
        new_per_day=min(1.0, found.new_urls_day / found.urls),
        visits_per_day=found.captures_day / found.urls,
        links_per_page=figures.get("links per page that has links", 0.0),
        link_bytes=figures.get("length of a URL", 0.0),
        new_links=0.1,
        request_bytes=600,
        days=365,
        copies=copies,
        disk_bytes=(found.used_bytes + found.free_bytes) / nodes,
        fill=0.9,
        bandwidth_bytes_s=12.5e6,
        life_days=1825,
        uptime=0.99,
        outage_s=1800,
        nodes=nodes,
        stored_bytes=found.used_bytes / copies,
        growth_bytes_day=found.bytes_day / copies,
    )
    made.check()
    return made if partitions is None else made.changed(partitions=partitions)
