"""Charts as PNG files, with matplotlib and without a display."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

COLOURS = ("#0b6e4f", "#6fb98f", "#c0504d", "#4f81bd", "#e08e45", "#8c8c8c", "#8064a2", "#4bacc6")
Panel = Callable[[Any], None]  # draws on an axis


def draw(
    title: str,
    path: Path,
    panels: Sequence[Panel],
    *,
    columns: int = 3,
    panel_size: tuple[float, float] = (5.0, 4.2),
    legend: Callable[[Any], None] | None = None,
) -> None:
    """One panel after the other in rows, the title above, a legend of all of them below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = max(1, -(-len(panels) // columns))
    width, height = panel_size
    figure, axes = pyplot.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False)
    for number, axis in enumerate(axes.flat):
        if number < len(panels):
            panels[number](axis)
        else:
            axis.axis("off")
    if legend is not None:
        legend(figure)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout(rect=(0, 0.07 if legend is not None else 0, 1, 0.97))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def bars(axis: Any, title: str, names: Sequence[str], heights: Sequence[float], colours: Sequence[str]) -> None:
    """One bar for each name, its value on top."""
    drawn = axis.bar(range(len(heights)), heights, 0.7, color=list(colours))
    axis.bar_label(drawn, labels=[number(height) for height in heights], fontsize=8, padding=2)
    axis.margins(y=0.15)
    axis.set_title(title, fontsize=10)
    axis.set_xticks(range(len(names)), list(names), fontsize=8)


def colour(names: Sequence[str], name: str) -> str:
    """The same colour for a subject in every panel."""
    return COLOURS[list(names).index(name) % len(COLOURS)]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
