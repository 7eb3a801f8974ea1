"""The run as a picture: figures 4, 5 and 6 of the paper, and table 3 as bars with the paper's own beside."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.chart import draw
from benchmarks.webbase import paper
from benchmarks.webbase.paper import TABLE_3, Row
from benchmarks.webbase.run import WebbaseOutcome

_COLOURS = {"log": "#0b6e4f", "hash": "#c0504d", "hashed-log": "#e08e45"}
_STEPS = ("#4f81bd", "#8064a2", "#8c8c8c", "#c0504d", "#e08e45")
_SHORT = {
    Row.STREAM: "streaming",
    Row.RANDOM: "random\naccess",
    Row.ADD_RANDOM: "add,\none by one",
    Row.ADD_BUFFERED: "add,\nbuffered",
    Row.ADD_SORTED: "add,\nsorted",
}
_KIB = 1024


def draw_webbase(outcome: WebbaseOutcome, title: str, path: Path) -> None:
    panels = [partial(each, outcome=outcome) for each in (_figure_4, _figure_5, _figure_6, _table_3)]
    draw(title, path, panels, columns=2, panel_size=(8.0, 5.7))


def _figure_4(axis: Any, outcome: WebbaseOutcome) -> None:
    found = outcome.figure_4
    axis.set_title(f"figure 4: bucket size, {paper.FIGURE_4_PAGES} pages a bucket on average", fontsize=10)
    if found is None:
        return
    sizes = [each.bucket_bytes / _KIB for each in found.choices]
    axis.plot(sizes, [each.access_ms for each in found.choices], "o-", color="#0b6e4f", label="A: random access, ms")
    axis.plot(sizes, [each.read_ms for each in found.choices], "s-", color="#4f81bd", label="B: read of a bucket, ms")
    best = found.best
    axis.plot(best.bucket_bytes / _KIB, best.access_ms, "*", markersize=16, color="#0b6e4f")
    axis.annotate(
        f"best here: {best.bucket_bytes // _KIB} KiB, {best.access_ms:.2f} ms\nthe paper's: 64 KiB, 20.7 ms",
        (best.bucket_bytes / _KIB, best.access_ms),
        xytext=(25, 75),
        textcoords="offset points",
        fontsize=8,
        arrowprops={"arrowstyle": "-", "linewidth": 0.6},
    )
    axis.set_xscale("log", base=2)
    axis.set_xlabel("bucket size, KiB; of D, what a bucket holds", fontsize=8)
    axis.set_xticks(sizes, [f"{size:g}" for size in sizes], fontsize=7)
    axis.set_ylabel("ms", fontsize=8)
    axis.set_ylim(bottom=0, top=min(max(each.access_ms for each in found.choices), 6 * best.access_ms))
    axis.grid(visible=True, linewidth=0.3)
    other = axis.twinx()
    other.plot(
        sizes, [each.reads for each in found.choices], "^--", color="#c0504d", label="C: buckets read for a page"
    )
    top = max(share for _, share in found.fills)
    scaled = [(fill / _KIB, share / top * 3) for fill, share in found.fills]
    other.fill_between(*zip(*scaled, strict=True), color="#8c8c8c", alpha=0.35, label="D: share of buckets, scaled")
    other.set_ylim(bottom=0, top=max(4.0, min(12.0, max(each.reads for each in found.choices))))
    other.set_ylabel("buckets read", fontsize=8)
    _legend(axis, other, "upper center")


def _figure_5(axis: Any, outcome: WebbaseOutcome) -> None:
    axis.set_title("figure 5: space against performance", fontsize=10)
    if not outcome.figure_5:
        return
    numbers = [each.pages_per_bucket for each in outcome.figure_5]
    rates = [1e3 / each.best.access_ms for each in outcome.figure_5]
    axis.plot(numbers, rates, "o-", color="#0b6e4f", label="E: random accesses per second")
    axis.set_ylim(bottom=0, top=max(rates) * 1.25)
    axis.set_xscale("log", base=2)
    axis.set_xticks(numbers, [str(number) for number in numbers])
    axis.set_xlabel("pages in a bucket, on average", fontsize=8)
    axis.set_ylabel("per second", fontsize=8)
    axis.grid(visible=True, linewidth=0.3)
    other = axis.twinx()
    used = [each.best.utilization * 100 for each in outcome.figure_5]
    other.plot(numbers, used, "s--", color="#c0504d", label="F: space used, %")
    other.set_ylim(0, 100)
    other.set_ylabel("%", fontsize=8)
    for number, each, rate in zip(numbers, outcome.figure_5, rates, strict=True):
        label = f"{each.best.bucket_bytes // _KIB} KiB"
        axis.annotate(label, (number, rate), xytext=(0, 9), textcoords="offset points", fontsize=7, ha="center")
    axis.plot([], [], " ", label="G: best bucket size, at the points (the paper at 16: 64 KiB, 48.3/s)")
    _legend(axis, other, "lower center")


def _figure_6(axis: Any, outcome: WebbaseOutcome) -> None:
    axis.set_title("figure 6: batch update by update ratio, log and log", fontsize=10)
    if not outcome.figure_6:
        return
    ratios = [each.ratio for each in outcome.figure_6]
    steps = list(outcome.figure_6[0].seconds)
    heights = [[each.seconds[step] for each in outcome.figure_6] for step in steps]
    axis.stackplot(ratios, heights, labels=steps, colors=_STEPS, alpha=0.8)
    axis.set_xlabel(f"update ratio; {outcome.figure_6[0].pages:,} pages are there", fontsize=8)
    axis.set_ylabel("seconds, cumulative", fontsize=8)
    axis.set_ylim(bottom=0)
    axis.grid(visible=True, linewidth=0.3)
    axis.legend(fontsize=8, loc="upper left")


def _table_3(axis: Any, outcome: WebbaseOutcome) -> None:
    axis.set_title("table 3: pages per second and volume, cold caches; hatched, the paper's", fontsize=10)
    rows = list(Row)
    names = [name for name in paper.ORGANIZATIONS if name in outcome.table_3]
    if not names:
        return
    width = 0.8 / (2 * len(names))
    for place, name in enumerate(names):
        for number, row in enumerate(rows):
            for side, value in enumerate((outcome.rate(name, row), TABLE_3[name].get(row))):
                if value:
                    x = number + (2 * place + side - len(names) + 0.5) * width
                    bars = axis.bar(
                        x,
                        value,
                        width * 0.92,
                        color=_COLOURS[name] if side == 0 else "white",
                        edgecolor=_COLOURS[name],
                        hatch="////" if side else None,
                        label=name if side == 0 and number == 0 else None,
                    )
                    axis.bar_label(bars, labels=[f"{value:,.0f}"], fontsize=6, rotation=90, padding=2)
    axis.set_yscale("log")
    axis.margins(y=0.25)
    axis.set_xticks(range(len(rows)), [_SHORT[row] for row in rows], fontsize=8)
    axis.set_ylabel("pages per second", fontsize=8)
    axis.legend(fontsize=8, loc="upper right", ncols=3)


def _legend(axis: Any, other: Any, place: str) -> None:
    lines, labels = axis.get_legend_handles_labels()
    more, texts = other.get_legend_handles_labels()
    axis.legend([*lines, *more], [*labels, *texts], fontsize=8, loc=place)
