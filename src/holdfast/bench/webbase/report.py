"""What a run found, for people (tables as in the paper, with the paper's figures beside) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holdfast.bench.report import print_machine
from holdfast.bench.webbase import paper
from holdfast.bench.webbase.buckets import Figure4
from holdfast.bench.webbase.findings import findings, table_6
from holdfast.bench.webbase.paper import READS, TABLE_3, TABLE_4, TABLE_5, TABLE_6, Row
from holdfast.bench.webbase.run import WebbaseOutcome, WebbasePlan
from holdfast.bench.webbase.updates import UpdateCost

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMAT = 1
_KIB = 1024
_NOTHING = "·"


@dataclass(frozen=True, slots=True)
class WebbaseReport:
    """Everything that is printed, drawn or written about a run."""

    plan: WebbasePlan
    outcome: WebbaseOutcome
    machine: dict[str, str | int | float]
    packages: dict[str, str]

    @property
    def prototype_update(self) -> UpdateCost | None:
        """The batch update of table 5."""
        return next((each for each in self.outcome.figure_6 if each.ratio == paper.UPDATE_RATIO), None)


def as_json(report: WebbaseReport) -> dict[str, Any]:
    """The report as plain values. The names are part of the format; new ones may be added."""
    outcome, corpus = report.outcome, report.plan.corpus
    return {
        "format": FORMAT,
        "machine": report.machine,
        "packages": report.packages,
        "corpus": {
            "directory": str(corpus.directory),
            "pages": len(corpus.paths),
            "content_bytes": corpus.total_bytes,
            "mean_stored_bytes": round(outcome.mean_stored, 1),
        },
        "repeats": report.plan.repeats,
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
        "missing": [asdict(each) for each in outcome.missing],
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


def print_report(report: WebbaseReport, console: Console) -> None:
    """Machine, tables, findings, what is missing."""
    print_machine(report.machine, report.packages, console)
    corpus, outcome = report.plan.corpus, report.outcome
    console.print(
        f"{len(corpus.paths):,} pages from '{corpus.directory}', mean {corpus.mean_bytes / 1e3:.1f} KB, "
        f"{outcome.mean_stored / 1e3:.1f} KB as stored (the paper's: 2.5 KB); median of {report.plan.repeats}",
        highlight=False,
    )
    tables = [_table_3(outcome), _table_4(outcome), _table_5(report), _table_6(outcome)]
    if outcome.figure_4 is not None:
        tables += [_figure_4(outcome), _figure_5(outcome)]
    for table in [*tables, _figure_6(outcome), _findings(outcome)]:
        console.print(table)
    for each in outcome.missing:
        console.print(f"[yellow]no figure[/] for {each.subject}, {each.what}: {each.reason}", highlight=False)


def _made(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


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
    return _made("table 3: organizations; one volume, reads with cold caches", columns, rows)


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
    return _made(f"table 4: batch update of {pages:,} pages, update ratio {paper.UPDATE_RATIO:g}", columns, rows)


def _table_5(report: WebbaseReport) -> Table:
    found, update = report.outcome.table_5, report.prototype_update
    here = {
        "streaming": _rate(found.streaming if found else None) + " pages/s",
        "page addition": _rate(found.addition if found else None) + " pages/s",
        "batch update": _seconds(update.total_s if update else None) + " s",
        "random page access": _rate(found.random if found else None) + " pages/s",
    }
    rows = [[name, text, f"{TABLE_5[name]:,.0f}"] for name, text in here.items()]
    return _made("table 5: a whole archive, log and log, cold caches", ["", "here", "paper"], rows)


def _table_6(outcome: WebbaseOutcome) -> Table:
    rows = []
    for name, signs in table_6(outcome).items():
        pairs = zip(signs, TABLE_6[name][1], strict=True)
        rows.append([_plain(name), *(f"{here or _NOTHING} ({there or _NOTHING})" for here, there in pairs)])
    columns = ["configuration", "streaming", "random access", "page addition", "update time"]
    return _made("table 6: relative to the best of each column; in parentheses, the paper's", columns, rows)


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
    return _made(f"{title}{size // _KIB} KiB, {ms} ms", columns, rows)


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
    return _made("figure 5: space and performance (the paper at 16: 64 KiB, 48.3/s)", columns, rows)


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
    return _made("figure 6: batch update by update ratio, log and log", columns, rows)


def _findings(outcome: WebbaseOutcome) -> Table:
    words = {True: "[green]holds[/]", False: "[red]does not hold[/]", None: "not measured"}
    rows = [
        [each.words, f"{each.paper:.1f}x", f"{each.here:.1f}x" if each.here else _NOTHING, words[each.holds]]
        for each in findings(outcome)
    ]
    return _made("what the paper found", ["finding", "paper", "here", ""], rows)


def _plain(text: str) -> str:
    """Brackets are no markup here."""
    from rich.markup import escape

    return escape(text)


def _rate(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"
