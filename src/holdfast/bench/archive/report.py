"""What a run found, for people (a table for each workload) and for programs (one JSON object)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holdfast.bench.archive.crawl import DUPLICATE_EVERY, GZIP_LEVEL
from holdfast.bench.archive.figure import Figure
from holdfast.bench.archive.run import ArchiveOutcome, ArchivePlan
from holdfast.bench.archive.target import archive_verdicts
from holdfast.bench.archive.workload import OURS, ArchiveWorkload, facts
from holdfast.bench.report import print_machine, verdict_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMAT = 1
_MB = 1e6


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """Everything that is printed, drawn or written about a run."""

    plan: ArchivePlan
    outcome: ArchiveOutcome
    machine: dict[str, str | int | float]
    packages: dict[str, str]


def as_json(report: ArchiveReport) -> dict[str, Any]:
    """The report as plain values. The names are part of the format; new ones may be added."""
    outcome = report.outcome
    return {
        "format": FORMAT,
        "machine": report.machine,
        "packages": report.packages,
        "crawls": _crawls(report),
        "repeats": report.plan.repeats,
        "results": [_result(each, outcome) for each in outcome.figures],
        "scales": [asdict(scale) | {"lookups_per_s": scale.lookups_per_s} for scale in outcome.scales],
        "large": outcome.large and asdict(outcome.large),
        "missing": [asdict(each) for each in outcome.missing],
        "targets": [asdict(verdict) for verdict in archive_verdicts(outcome)],
    }


def _crawls(report: ArchiveReport) -> dict[str, Any] | None:
    crawls = report.outcome.crawls
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
        "workload": each.workload.value,
        "form": each.form,
        "does": facts(each.subject).does[each.workload],
        "operations": each.operations,
        "pages": each.pages,
        "seconds": each.cost.seconds,
        "seconds_all": list(each.seconds_all),
        "cpu_s": each.cost.cpu_s,
        "per_s": each.per_s if each.cost.seconds else None,
        "pages_per_s": each.pages_per_s if each.cost.seconds else None,
        "per_cpu_s": each.per_cpu_s if each.cost.seconds else None,
        "mb_per_s": each.mb_per_s if each.cost.seconds else None,
        "rss_peak_bytes": each.cost.rss_peak_bytes,
        "rss_before_bytes": each.cost.rss_before_bytes,
        "disk_bytes": each.disk_bytes,
        "apparent_bytes": each.apparent_bytes,
        "holdfast_ratio": ratio(each, outcome),
    }


def ratio(each: Figure, outcome: ArchiveOutcome) -> float | None:
    """How many times faster Holdfast was; for `space`, its bytes in relation to these."""
    ours = outcome.find(OURS, each.workload, each.form)
    if ours is None:
        return None
    if each.workload is ArchiveWorkload.SPACE:
        return ours.disk_bytes / each.disk_bytes
    return ours.per_s / each.per_s


def print_report(report: ArchiveReport, console: Console) -> None:
    """Machine, tables, what is missing, verdicts."""
    print_machine(report.machine, report.packages, console)
    _print_crawls(report, console)
    outcome = report.outcome
    for workload in ArchiveWorkload:
        for form in outcome.forms(workload):
            rows = [each for each in outcome.figures if each.workload is workload and each.form == form]
            console.print(_table(outcome, workload, form, rows))
    if outcome.scales:
        console.print(_scale_table(outcome))
    if outcome.large is not None:
        console.print(_large_table(outcome))
    for each in outcome.missing:
        console.print(f"[yellow]no figure[/] for {each.subject}, {each.what}: {each.reason}", highlight=False)
    console.print(verdict_table(archive_verdicts(outcome)))


def _print_crawls(report: ArchiveReport, console: Console) -> None:
    crawls = report.outcome.crawls
    if crawls is None:
        return
    console.print(
        f"{crawls.pages:,} pages from '{crawls.corpus.directory}', crawled twice, {1 / DUPLICATE_EVERY:.0%} of them "
        f"duplicates: {crawls.records:,} records in {len(crawls.files)} files, {crawls.disk_bytes / _MB:.1f} MB "
        f"(zlib level {GZIP_LEVEL}), payloads {crawls.content_bytes / _MB:.1f} MB; median of {report.plan.repeats}",
        highlight=False,
    )


def _table(outcome: ArchiveOutcome, workload: ArchiveWorkload, form: str, rows: Sequence[Figure]) -> Table:
    from rich.table import Table

    table = Table(title=f"{workload} · {form}" if form else workload, title_justify="left", title_style="bold")
    table.add_column("subject", no_wrap=True)
    is_space = workload is ArchiveWorkload.SPACE
    names = ("1/s", "pages/s", "s", "MB/s", "CPU s", "1/CPU s", "peak MB", "disk MB", "Holdfast is")
    for name in ("disk MB", "apparent MB", "Holdfast is") if is_space else names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what it does")
    key = (lambda row: row.disk_bytes) if is_space else (lambda row: -row.per_s)
    for row in sorted(rows, key=key):
        cells = _space_cells(row, outcome) if is_space else _cells(row, outcome)
        what = facts(row.subject).does[workload]
        table.add_row(facts(row.subject).title, *cells, what, style="bold" if row.subject == OURS else "")
    return table


def _space_cells(row: Figure, outcome: ArchiveOutcome) -> list[str]:
    share = ratio(row, outcome)
    return [
        f"{row.disk_bytes / _MB:,.1f}",
        f"{row.apparent_bytes / _MB:,.1f}",
        f"{share:.1%}" if share is not None and row.subject != OURS else "",
    ]


def _cells(row: Figure, outcome: ArchiveOutcome) -> list[str]:
    times = ratio(row, outcome)
    return [
        f"{row.per_s:,.0f}",
        f"{row.pages_per_s:,.0f}" if row.pages else "",
        f"{row.cost.seconds:.2f}",
        f"{row.mb_per_s:,.1f}" if row.content_bytes else "",
        f"{row.cost.cpu_s:.2f}",
        f"{row.per_cpu_s:,.0f}",
        f"{row.cost.rss_peak_bytes / _MB:,.0f}",
        f"{row.disk_bytes / _MB:,.1f}" if row.disk_bytes else "",
        f"{times:.2f}x" if times is not None and row.subject != OURS else "",
    ]


def _scale_table(outcome: ArchiveOutcome) -> Table:
    from rich.table import Table

    table = Table(title="scale · synthetic captures in one catalog", title_justify="left", title_style="bold")
    names = (
        "captures",
        "fill 1/s",
        "fill MB",
        "close s",
        "disk MB",
        "open s",
        "open MB",
        "peak MB",
        "first 1/s",
        "lookup 1/s",
        "1/CPU s",
    )
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for scale in outcome.scales:
        table.add_row(
            f"{scale.captures:,}",
            f"{scale.captures / scale.fill_s:,.0f}",
            f"{scale.fill_rss_peak_bytes / _MB:,.0f}",
            f"{scale.close_s:.2f}",
            f"{scale.disk_bytes / _MB:,.0f}",
            f"{scale.open_s:.3f}",
            f"{scale.rss_open_bytes / _MB:,.0f}",
            f"{scale.rss_peak_bytes / _MB:,.0f}",
            f"{scale.lookups / max(scale.first_s, 1e-9):,.0f}",
            f"{scale.lookups_per_s:,.0f}",
            f"{scale.lookups / max(scale.lookup_cpu_s, 1e-6):,.0f}",
        )
    return table


def _large_table(outcome: ArchiveOutcome) -> Table:
    from rich.table import Table

    large = outcome.large
    assert large is not None
    title = f"one record with a payload of {large.payload_bytes:,} bytes"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("", "s", "MB/s", "before MB", "peak MB"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    rows = (
        ("import", large.import_s, large.import_rss_before_bytes, large.import_rss_peak_bytes),
        ("export, exact", large.export_s, large.export_rss_before_bytes, large.export_rss_peak_bytes),
    )
    for name, seconds, before, most in rows:
        speed = large.payload_bytes / max(seconds, 1e-9) / _MB
        table.add_row(name, f"{seconds:.2f}", f"{speed:,.0f}", f"{before / _MB:,.0f}", f"{most / _MB:,.0f}")
    return table
