"""The report of `python -m benchmarks store`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.chart import colour, draw, number
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.machine import package_versions
from benchmarks.harness.report import MB, Report, table, times
from benchmarks.store.run import StoreOutcome, StorePlan, unsupported
from benchmarks.store.sketch import per_s, words
from benchmarks.store.subjects import SUBJECTS, facts
from benchmarks.store.target import store_verdicts
from benchmarks.store.workload import WRITING, Workload, callers_words

if TYPE_CHECKING:
    from rich.table import Table

_PAGE_BYTES = 19_000.0  # where there is no corpus


def store_report(plan: StorePlan, outcome: StoreOutcome, machine: dict[str, str | int | float]) -> Report:
    """Tables by workload and number of callers, the sketch of the limit beside them."""
    corpus = plan.corpus
    mean_bytes = corpus.mean_bytes if corpus else _PAGE_BYTES
    about = (
        f"{len(corpus.paths):,} documents from '{corpus.directory}', {corpus.total_bytes / MB:.1f} MB, "
        f"mean {mean_bytes / 1e3:.1f} KB"
        if corpus
        else ""
    )
    tables = [
        _table(outcome, workload, callers, mean_bytes)
        for workload in Workload
        for callers in plan.callers
        if any(each.workload == workload and each.callers == callers for each in outcome.figures)
    ]
    if outcome.scales:
        tables.append(_scale_table(outcome))
    return Report(
        "store",
        machine,
        package_versions({package for name in plan.subjects for package in facts(name).packages}),
        plan.repeats,
        about,
        {
            "corpus": corpus
            and {
                "directory": str(corpus.directory),
                "documents": len(corpus.paths),
                "bytes": corpus.total_bytes,
                "mean_bytes": round(corpus.mean_bytes, 1),
            },
            "results": [_result(each, outcome, mean_bytes) for each in outcome.figures],
            "scales": [asdict(scale) for scale in outcome.scales],
        },
        tables,
        [*outcome.missing, *(unsupported(plan) if corpus else [])],
        store_verdicts(outcome),
        partial(_draw, outcome, mean_bytes) if outcome.figures else None,
    )


def _result(each: Figure, outcome: StoreOutcome, mean_bytes: float) -> dict[str, Any]:
    return {
        "subject": each.subject,
        "workload": str(each.workload),
        "label": each.label,
        "callers": each.callers,
        "durable": facts(each.subject).durable,
        "operations": each.operations,
        "seconds": each.cost.seconds,
        "seconds_all": list(each.seconds_all),
        "cpu_s": each.cost.cpu_s,
        "cpu_us": each.cpu_us,
        "per_s": each.per_s,
        "per_cpu_s": each.per_cpu_s,
        "mb_per_s": each.mb_per_s,
        "rss_peak_bytes": each.cost.rss_peak_bytes,
        "rss_grown_bytes": each.rss_grown_bytes,
        "disk_bytes": each.disk_bytes,
        "apparent_bytes": each.apparent_bytes,
        "sketch_per_s": per_s(Workload(each.workload), mean_bytes),
        "holdfast_ratio": _ratio(each, outcome, each.callers),
    }


def _ratio(each: Figure, outcome: StoreOutcome, callers: int) -> float | None:
    """How many times faster Holdfast's single form with so many callers was."""
    ours = outcome.find(OURS, Workload(each.workload), callers)
    return ours.per_s / each.per_s if ours else None


def _rows(outcome: StoreOutcome, workload: Workload, callers: int) -> list[Figure]:
    """The figures for one table. Peers that take one writer only stand in every table, with their one caller."""
    rows = [each for each in outcome.figures if each.workload == workload and each.callers == callers]
    present = {row.subject for row in rows}
    if callers > 1:
        rows += [
            each
            for each in outcome.figures
            if each.workload == workload and each.callers == 1 and each.subject not in present
        ]
    return sorted(rows, key=lambda row: -row.per_s)


def _table(outcome: StoreOutcome, workload: Workload, callers: int, mean_bytes: float) -> Table:
    limit = per_s(workload, mean_bytes)
    caption = f"sketch of the limit per core: {limit:,.0f}/s = {words(workload, mean_bytes)}" if limit else ""
    columns = (
        "subject",
        "1/s",
        "ms",
        "MB/s",
        "CPU s",
        "CPU µs",
        "memory MB",
        "disk MB",
        "of sketch",
        "Holdfast is",
        "<durable",
    )
    rows = [_cells(row, outcome, callers, limit) for row in _rows(outcome, workload, callers)]
    ours = facts(OURS).title
    return table(
        f"{workload} · {callers_words(callers)}", columns, rows, bold=lambda row: row[0] == ours, caption=caption
    )


def _cells(row: Figure, outcome: StoreOutcome, callers: int, limit: float | None) -> Sequence[str]:
    alone = " (1 caller)" if row.callers != callers else ""
    return (
        facts(row.subject).title + alone,
        f"{row.per_s:,.0f}" if row.operations > 1 else "",
        f"{row.cost.seconds * 1e3:,.1f}",
        f"{row.mb_per_s:,.1f}" if row.content_bytes else "",
        f"{row.cost.cpu_s:.2f}",
        f"{row.cpu_us:,.0f}" if row.operations > 1 else "",
        f"{row.rss_grown_bytes / MB:,.0f}",
        f"{row.disk_bytes / MB:,.1f}" if row.disk_bytes else "",
        f"{row.per_s / limit:.0%}" if limit and row.subject.startswith(OURS) else "",
        times(_ratio(row, outcome, callers)) if row.subject != OURS else "",
        facts(row.subject).durable if row.workload in WRITING else "",
    )


def _scale_table(outcome: StoreOutcome) -> Table:
    columns = ("blocks", "fill 1/s", "fill MB", "close s", "disk MB", "open s", "open MB", "peak MB", "fetch 1/s")
    rows = [
        (
            f"{scale.blocks:,}",
            f"{scale.blocks / scale.fill_s:,.0f}",
            f"{scale.fill_rss_peak_bytes / MB:,.0f}",
            f"{scale.close_s:.2f}",
            f"{scale.disk_bytes / MB:,.0f}",
            f"{scale.open_s:.3f}",
            f"{scale.rss_open_bytes / MB:,.0f}",
            f"{scale.rss_peak_bytes / MB:,.0f}",
            f"{scale.fetches / scale.fetch_s:,.0f}",
        )
        for scale in outcome.scales
    ]
    return table("scale · small contents in one volume", columns, rows)


def _draw(outcome: StoreOutcome, mean_bytes: float, title: str, path: Path) -> None:
    """One panel for each workload, grouped bars by number of callers, the sketch as a line."""
    present = {each.workload for each in outcome.figures}
    panels = [partial(_panel, outcome, mean_bytes, workload) for workload in Workload if workload in present]
    draw(title, path, panels, legend=partial(_legend, outcome))


def _panel(outcome: StoreOutcome, mean_bytes: float, workload: Workload, axis: Any) -> None:
    figures = [each for each in outcome.figures if each.workload == workload]
    callers = sorted({each.callers for each in figures})
    subjects = [name for name in SUBJECTS if any(each.subject == name for each in figures)]
    width = 0.8 / max(1, len(subjects))
    for place, name in enumerate(subjects):
        for each in (each for each in figures if each.subject == name):
            x = callers.index(each.callers) + (place - (len(subjects) - 1) / 2) * width
            height = each.cost.seconds * 1e3 if workload is Workload.OPEN else each.per_s
            drawn = axis.bar(x, height, width * 0.92, color=colour(tuple(SUBJECTS), name))
            axis.bar_label(drawn, labels=[number(height)], fontsize=6, rotation=90, padding=2)
    limit = per_s(workload, mean_bytes)
    if limit:
        axis.axhline(limit, color="black", linewidth=0.8, linestyle="--")
    axis.set_yscale("log")
    axis.margins(y=0.2)
    axis.set_title(f"{workload} ({'ms, less is better' if workload is Workload.OPEN else 'per second'})", fontsize=10)
    axis.set_xticks(range(len(callers)), [callers_words(each) for each in callers])


def _legend(outcome: StoreOutcome, figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = {each.subject for each in outcome.figures}
    handles: list[Any] = [
        Patch(
            color=colour(tuple(SUBJECTS), name),
            label=f"{facts(name).title} (durable: {facts(name).durable.partition(':')[0]})",
        )
        for name in SUBJECTS
        if name in present
    ]
    handles.append(Line2D([], [], color="black", linestyle="--", linewidth=0.8, label="sketch of the limit, per core"))
    figure.legend(handles=handles, loc="lower center", ncols=3, fontsize=7, frameon=False)
