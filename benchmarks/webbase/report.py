"""The report of `python -m benchmarks webbase`: tables as in the paper, with the paper's figures beside."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.harness.machine import package_versions
from benchmarks.harness.report import Report, table
from benchmarks.webbase import paper
from benchmarks.webbase.buckets import Figure4
from benchmarks.webbase.chart import draw_webbase
from benchmarks.webbase.findings import findings, table_6
from benchmarks.webbase.paper import READS, TABLE_3, TABLE_4, TABLE_5, TABLE_6, Row
from benchmarks.webbase.run import WebbaseOutcome, WebbasePlan
from benchmarks.webbase.updates import UpdateCost

if TYPE_CHECKING:
    from rich.table import Table

_KIB = 1024
_NOTHING = "·"


def webbase_report(plan: WebbasePlan, outcome: WebbaseOutcome, machine: dict[str, str | int | float]) -> Report:
    """The paper's tables and figures, with its own numbers beside."""
    corpus = plan.corpus
    tables = [_table_3(outcome), _table_4(outcome), _table_5(outcome), _table_6(outcome)]
    if outcome.figure_4 is not None:
        tables += [_figure_4(outcome), _figure_5(outcome)]
    return Report(
        "webbase",
        machine,
        package_versions(["rocksdict", "zstandard"]),
        plan.repeats,
        f"{len(corpus.paths):,} pages from '{corpus.directory}', mean {corpus.mean_bytes / 1e3:.1f} KB, "
        f"{outcome.mean_stored / 1e3:.1f} KB as stored (the paper's: 2.5 KB)",
        {
            "corpus": {
                "directory": str(corpus.directory),
                "pages": len(corpus.paths),
                "content_bytes": corpus.total_bytes,
                "mean_stored_bytes": round(outcome.mean_stored, 1),
            },
            **_values(outcome),
        },
        [*tables, _figure_6(outcome), _findings(outcome)],
        outcome.missing,
        draw=partial(draw_webbase, outcome),
    )


def _values(outcome: WebbaseOutcome) -> dict[str, Any]:
    return {
        "table_3": [
            {"organization": name, "row": row.value, "warm": warm, "per_s": rate, "paper_per_s": TABLE_3[name].get(row)}
            for name, told in outcome.table_3.items()
            for (row, warm), rate in told.items()
        ],
        "table_4": [_cost(each) | {"paper_s": TABLE_4[pair][1]} for pair, each in outcome.table_4.items()],
        "table_5": outcome.table_5 and asdict(outcome.table_5) | {"paper": TABLE_5},
        "table_6": [
            {"configuration": name, "here": list(signs), "paper": list(TABLE_6[name][1])}
            for name, signs in table_6(outcome).items()
        ],
        "figure_4": outcome.figure_4 and _buckets(outcome.figure_4),
        "figure_5": [_buckets(each) for each in outcome.figure_5],
        "figure_6": [_cost(each) for each in outcome.figure_6],
        "direct_reads": outcome.is_direct,
        "findings": [asdict(each) | {"holds": each.holds} for each in findings(outcome)],
    }


def _cost(each: UpdateCost) -> dict[str, Any]:
    return asdict(each) | {"total_s": each.total_s}


def _buckets(each: Figure4) -> dict[str, Any]:
    best = each.best
    return {
        "pages_per_bucket": each.pages_per_bucket,
        "best_bucket_bytes": best.bucket_bytes,
        "access_ms": best.access_ms,
        "access_per_s": 1e3 / best.access_ms,
        "utilization": best.utilization,
        "distribution": [list(pair) for pair in each.fills],
        "choices": [asdict(choice) | {"access_ms": choice.access_ms} for choice in each.choices],
    }


def _table_3(outcome: WebbaseOutcome) -> Table:
    rows = []
    for row in Row:
        cells: list[str] = [row]
        for name in paper.ORGANIZATIONS:
            warm = outcome.rate(name, row, warm=True)
            beside = f" (warm {_rate(warm)})" if row in READS and warm else ""
            cells += [_rate(outcome.rate(name, row)) + beside, _rate(TABLE_3[name].get(row))]
        rows.append(cells)
    columns = ["pages per second"]
    for name in paper.ORGANIZATIONS:
        columns += [name, "paper"]
    return table("table 3: organizations; one volume, reads with cold caches", columns, rows)


def _table_4(outcome: WebbaseOutcome) -> Table:
    rows = []
    for (update, read), (adding, seconds) in TABLE_4.items():
        cost = outcome.table_4.get((update, read))
        rows.append(
            [
                _plain(f"Batch [U(hash, {update}), R(hash, {read})]"),
                _rate(outcome.rate(update, Row.ADD_BUFFERED)),
                f"{adding:,.0f}",
                _seconds(cost.seconds["transfer"] if cost else None),
                _seconds(cost.total_s if cost else None),
                f"{seconds:,.0f}",
            ]
        )
    columns = ["configuration", "pages added/s", "paper", "transfer s", "update s", "paper s"]
    pages = next((cost.pages for cost in outcome.table_4.values()), 0)
    return table(f"table 4: batch update of {pages:,} pages, update ratio {paper.UPDATE_RATIO:g}", columns, rows)


def _table_5(outcome: WebbaseOutcome) -> Table:
    found = outcome.table_5
    update = next((each for each in outcome.figure_6 if each.ratio == paper.UPDATE_RATIO), None)
    here = {
        "streaming": _rate(found.streaming if found else None) + " pages/s",
        "page addition": _rate(found.addition if found else None) + " pages/s",
        "batch update": _seconds(update.total_s if update else None) + " s",
        "random page access": _rate(found.random if found else None) + " pages/s",
    }
    rows = [[name, text, f"{TABLE_5[name]:,.0f}"] for name, text in here.items()]
    return table("table 5: a whole archive, log and log, cold caches", ["", "here", "paper"], rows)


def _table_6(outcome: WebbaseOutcome) -> Table:
    rows = []
    for name, signs in table_6(outcome).items():
        pairs = zip(signs, TABLE_6[name][1], strict=True)
        rows.append([_plain(name), *(f"{here or _NOTHING} ({there or _NOTHING})" for here, there in pairs)])
    columns = ["configuration", "streaming", "random access", "page addition", "update time"]
    return table("table 6: relative to the best of each column; in parentheses, the paper's", columns, rows)


def _figure_4(outcome: WebbaseOutcome) -> Table:
    assert outcome.figure_4 is not None
    best = outcome.figure_4.best
    rows = [
        [
            f"{each.bucket_bytes // _KIB} KiB{' *' if each is best else ''}",
            f"{each.read_ms:.3f}",
            f"{each.reads:.2f}",
            f"{each.access_ms:.3f}",
            f"{each.utilization:.0%}",
            f"{each.overflowing:.0%}",
        ]
        for each in outcome.figure_4.choices
    ]
    size, ms = paper.FIGURE_4_BEST
    how = "past the cache" if outcome.is_direct else "from a dropped cache"
    title = f"figure 4: {paper.FIGURE_4_PAGES} pages a bucket, read {how}; the paper's best: "
    columns = ["bucket", "B: read ms", "C: reads a page", "A: access ms", "space used", "overflowing"]
    return table(f"{title}{size // _KIB} KiB, {ms} ms", columns, rows)


def _figure_5(outcome: WebbaseOutcome) -> Table:
    rows = [
        [
            str(each.pages_per_bucket),
            f"{each.best.bucket_bytes // _KIB} KiB",
            f"{1e3 / each.best.access_ms:,.0f}",
            f"{each.best.utilization:.0%}",
        ]
        for each in outcome.figure_5
    ]
    columns = ["pages a bucket", "G: best bucket", "E: accesses/s", "F: space used"]
    return table("figure 5: space and performance (the paper at 16: 64 KiB, 48.3/s)", columns, rows)


def _figure_6(outcome: WebbaseOutcome) -> Table:
    rows = [
        [
            f"{each.ratio:g}",
            *(f"{each.seconds[step]:.2f}" for step in each.seconds),
            f"{each.total_s:.2f}",
            f"{each.moved:,}",
            f"{each.removed:,}",
        ]
        for each in outcome.figure_6
    ]
    steps = list(outcome.figure_6[0].seconds) if outcome.figure_6 else []
    columns = ["update ratio", *(f"{step} s" for step in steps), "all s", "moved", "removed"]
    return table("figure 6: batch update by update ratio, log and log", columns, rows)


def _findings(outcome: WebbaseOutcome) -> Table:
    words = {True: "[green]holds[/]", False: "[red]does not hold[/]", None: "not measured"}
    rows = [
        [each.words, f"{each.paper:.1f}x", f"{each.here:.1f}x" if each.here else _NOTHING, words[each.holds]]
        for each in findings(outcome)
    ]
    return table("what the paper found", ["finding", "paper", "here", ""], rows)


def _plain(text: str) -> str:
    """Brackets are no markup here."""
    from rich.markup import escape

    return escape(text)


def _rate(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"
