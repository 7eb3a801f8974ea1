"""The report of `python -m benchmarks archive`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.archive.crawl import DUPLICATE_EVERY, GZIP_LEVEL
from benchmarks.archive.run import ArchiveOutcome, ArchivePlan
from benchmarks.archive.small import SmallRecords
from benchmarks.archive.target import archive_verdicts
from benchmarks.archive.workload import SUBJECTS, ArchiveWorkload, facts
from benchmarks.harness.chart import bars, colour, draw
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.machine import package_versions
from benchmarks.harness.report import MB, Report, table, times

if TYPE_CHECKING:
    from rich.table import Table

_UNITS = {ArchiveWorkload.SPACE: "MB, less is better", ArchiveWorkload.LOOKUP: "URLs per second"}


def archive_report(plan: ArchivePlan, outcome: ArchiveOutcome, machine: dict[str, str | int | float]) -> Report:
    """A table for each workload and form, of large catalogs, and of one large record."""
    panels = [(workload, form) for workload in ArchiveWorkload for form in outcome.forms(workload)]
    tables = [_table(outcome, workload, form) for workload, form in panels]
    if outcome.scales:
        tables.append(_scale_table(outcome))
    if outcome.large is not None:
        tables.append(_large_table(outcome))
    if outcome.small is not None:
        tables.append(_small_table(outcome.small))
    return Report(
        "archive",
        machine,
        package_versions({package for name in plan.subjects for package in facts(name).packages}),
        plan.repeats,
        _about(outcome),
        {
            "crawls": _crawls(outcome),
            "results": [_result(each, outcome) for each in outcome.figures],
            "scales": [asdict(scale) | {"lookups_per_s": scale.lookups_per_s} for scale in outcome.scales],
            "large": outcome.large and asdict(outcome.large),
            "small": outcome.small and asdict(outcome.small) | {"ratio": outcome.small.ratio},
        },
        tables,
        outcome.missing,
        archive_verdicts(outcome),
        partial(_draw, outcome, panels) if outcome.figures else None,
    )


def _about(outcome: ArchiveOutcome) -> str:
    crawls = outcome.crawls
    if crawls is None:
        return ""
    return (
        f"{crawls.pages:,} pages from '{crawls.corpus.directory}', crawled twice, {1 / DUPLICATE_EVERY:.0%} of them "
        f"duplicates: {crawls.records:,} records in {len(crawls.files)} files, {crawls.disk_bytes / MB:.1f} MB "
        f"(zlib level {GZIP_LEVEL}), payloads {crawls.content_bytes / MB:.1f} MB"
    )


def _crawls(outcome: ArchiveOutcome) -> dict[str, Any] | None:
    crawls = outcome.crawls
    if crawls is None:
        return None
    return {
        "corpus": str(crawls.corpus.directory),
        "documents": len(crawls.corpus.paths),
        "pages": crawls.pages,
        "captures": crawls.captures,
        "records": crawls.records,
        "files": len(crawls.files),
        "content_bytes": crawls.content_bytes,
        "disk_bytes": crawls.disk_bytes,
        "apparent_bytes": crawls.apparent_bytes,
        "gzip_level": GZIP_LEVEL,
    }


def _result(each: Figure, outcome: ArchiveOutcome) -> dict[str, Any]:
    return {
        "subject": each.subject,
        "workload": str(each.workload),
        "form": each.form,
        "does": facts(each.subject).does[each.workload],
        "operations": each.operations,
        "pages": each.pages,
        "seconds": each.cost.seconds,
        "seconds_all": list(each.seconds_all),
        "cpu_s": each.cost.cpu_s,
        "cpu_us": each.cpu_us,
        "per_s": each.per_s if each.cost.seconds else None,
        "pages_per_s": each.pages_per_s if each.cost.seconds else None,
        "per_cpu_s": each.per_cpu_s if each.cost.seconds else None,
        "mb_per_s": each.mb_per_s if each.cost.seconds else None,
        "rss_peak_bytes": each.cost.rss_peak_bytes,
        "rss_before_bytes": each.cost.rss_before_bytes,
        "disk_bytes": each.disk_bytes,
        "apparent_bytes": each.apparent_bytes,
        "holdfast_ratio": _ratio(each, outcome),
    }


def _ratio(each: Figure, outcome: ArchiveOutcome) -> float | None:
    """How many times faster Holdfast was; for `space`, its bytes in relation to these."""
    ours = outcome.find(OURS, ArchiveWorkload(each.workload), each.form)
    if ours is None:
        return None
    if each.workload == ArchiveWorkload.SPACE:
        return ours.disk_bytes / each.disk_bytes
    return ours.per_s / each.per_s


def _table(outcome: ArchiveOutcome, workload: ArchiveWorkload, form: str) -> Table:
    rows = [each for each in outcome.figures if each.workload == workload and each.form == form]
    title, ours = f"{workload} · {form}" if form else str(workload), facts(OURS).title
    if workload is ArchiveWorkload.SPACE:
        columns: Sequence[str] = ("subject", "disk MB", "apparent MB", "Holdfast is", "<what it does")
        cells = [_space_cells(row, outcome) for row in sorted(rows, key=lambda row: row.disk_bytes)]
    else:
        columns = ("subject", "1/s", "pages/s", "s", "MB/s", "CPU s", "CPU µs", "peak MB", "disk MB", "Holdfast is")
        columns = (*columns, "<what it does")
        cells = [_cells(row, outcome) for row in sorted(rows, key=lambda row: -row.per_s)]
    return table(title, columns, cells, bold=lambda row: row[0] == ours)


def _space_cells(row: Figure, outcome: ArchiveOutcome) -> list[str]:
    share = _ratio(row, outcome)
    return [
        facts(row.subject).title,
        f"{row.disk_bytes / MB:,.1f}",
        f"{row.apparent_bytes / MB:,.1f}",
        f"{share:.1%}" if share is not None and row.subject != OURS else "",
        facts(row.subject).does[row.workload],
    ]


def _cells(row: Figure, outcome: ArchiveOutcome) -> list[str]:
    return [
        facts(row.subject).title,
        f"{row.per_s:,.0f}",
        f"{row.pages_per_s:,.0f}" if row.pages else "",
        f"{row.cost.seconds:.2f}",
        f"{row.mb_per_s:,.1f}" if row.content_bytes else "",
        f"{row.cost.cpu_s:.2f}",
        f"{row.cpu_us:,.0f}",
        f"{row.cost.rss_peak_bytes / MB:,.0f}",
        f"{row.disk_bytes / MB:,.1f}" if row.disk_bytes else "",
        times(_ratio(row, outcome)) if row.subject != OURS else "",
        facts(row.subject).does[row.workload],
    ]


def _scale_table(outcome: ArchiveOutcome) -> Table:
    columns = ("captures", "fill 1/s", "fill MB", "close s", "disk MB", "open s", "open MB", "peak MB", "first 1/s")
    rows = [
        (
            f"{scale.captures:,}",
            f"{scale.captures / scale.fill_s:,.0f}",
            f"{scale.fill_rss_peak_bytes / MB:,.0f}",
            f"{scale.close_s:.2f}",
            f"{scale.disk_bytes / MB:,.0f}",
            f"{scale.open_s:.3f}",
            f"{scale.rss_open_bytes / MB:,.0f}",
            f"{scale.rss_peak_bytes / MB:,.0f}",
            f"{scale.lookups / max(scale.first_s, 1e-9):,.0f}",
            f"{scale.lookups_per_s:,.0f}",
            f"{scale.lookup_cpu_s / max(scale.lookups, 1) * 1e6:,.0f}",
        )
        for scale in outcome.scales
    ]
    return table("scale · synthetic captures in one catalog", (*columns, "lookup 1/s", "CPU µs"), rows)


def _large_table(outcome: ArchiveOutcome) -> Table:
    large = outcome.large
    assert large is not None
    rows = (
        ("import", large.import_s, large.import_rss_before_bytes, large.import_rss_peak_bytes),
        ("export, exact", large.export_s, large.export_rss_before_bytes, large.export_rss_peak_bytes),
    )
    cells = [
        (name, f"{s:.2f}", f"{large.payload_bytes / max(s, 1e-9) / MB:,.0f}", f"{old / MB:,.0f}", f"{most / MB:,.0f}")
        for name, s, old, most in rows
    ]
    title = f"one record with a payload of {large.payload_bytes:,} bytes"
    return table(title, ("", "s", "MB/s", "before MB", "peak MB"), cells)


def _small_table(small: SmallRecords) -> Table:
    sizes = {"gzip WARC": small.warc_bytes, "Holdfast": small.disk_bytes, **small.part_bytes}
    cells = [
        (name, f"{size / MB:,.1f}", f"{size / small.records:,.0f}", f"{size / small.warc_bytes:.2f}")
        for name, size in sizes.items()
    ]
    us = [f"{name} {cpu_s / small.records * 1e6:,.0f}" for name, cpu_s in small.cpu_s.items()]
    title = f"{small.records:,} small records · CPU µs a record: {', '.join(us)}"
    return table(title, ("", "disk MB", "bytes a record", "÷ gzip WARC"), cells)


def _draw(outcome: ArchiveOutcome, panels: Sequence[tuple[ArchiveWorkload, str]], title: str, path: Path) -> None:
    draw(title, path, [partial(_panel, outcome, workload, form) for workload, form in panels])


def _panel(outcome: ArchiveOutcome, workload: ArchiveWorkload, form: str, axis: Any) -> None:
    names = tuple(SUBJECTS)
    present = [each for each in outcome.figures if each.workload == workload and each.form == form]
    present.sort(key=lambda each: names.index(each.subject))
    is_space = workload is ArchiveWorkload.SPACE
    name = f"{workload}, {form}" if form else str(workload)
    bars(
        axis,
        f"{name} ({_UNITS.get(workload, 'records per second')})",
        [facts(each.subject).title for each in present],
        [each.disk_bytes / MB if is_space else each.per_s for each in present],
        [colour(names, each.subject) for each in present],
    )
