"""Charts of studies, drawn with matplotlib: PNG and SVG files, and pictures in pages.

Colours are those of Okabe and Ito, which colour-blind people can tell apart; bars are hatched and lines dashed as well,
so that a print without colours can be read.
"""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import Any

from holdfast.errors import UsageError

INSTALL = "charts need matplotlib: run pip install 'holdfast[study]'"
FORMATS = ("png", "svg")
_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
_PANEL_INCHES = (7.0, 4.2)
_NARROW_INCHES = (4.2, 3.4)
_LABEL_MAX = 18  # characters of a name below a bar
_LEGEND_MAX = 44
_TITLE_MAX = 40  # characters of a line of a narrow chart's title
_BARS_MAX = 24
_SLOTS_MIN = 4
_LETTERS = 84  # that fit below the bars, and below those of a narrow chart
_LETTERS_NARROW = 42
_DATES_NAMED = 4  # as many single dates stand on the axis as they are
_DATE_FORMS = {"month": "%Y-%m", "year": "%Y"}
_POINTS_MARKED = 60
_MARKERS = ("o", "s", "^", "D", "v", "P")
_MARKER_POINTS = (8.0, 6.0, 5.0, 4.0, 3.0, 2.5)  # smaller on larger: equal values do not hide each other
_MARKER_SMALL_POINTS = 3.5  # of a single series, and where there are many
_POINTS_LARGE = 15
_ROOM = 1.05  # above the highest value, so that its mark is whole
_drawing = threading.Lock()


class Theme(StrEnum):
    """Light for paper, dark for a dark page."""

    LIGHT = "light"
    DARK = "dark"


_COLOURS = {
    Theme.LIGHT: ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"),
    Theme.DARK: ("#56B4E9", "#E69F00", "#00B387", "#E09BC4", "#F0E442", "#E8743B"),
}
_GROUND = {Theme.LIGHT: "#ffffff", Theme.DARK: "#1a2125"}
_INK = {Theme.LIGHT: "#1b2225", Theme.DARK: "#e9e6df"}
_LINE = {Theme.LIGHT: "#dcd8ce", Theme.DARK: "#2f393e"}


@dataclass(frozen=True, slots=True)
class Series:
    """Values under one name; of lines with their places on the x axis. Bounds are drawn as a band, or as whiskers."""

    name: str
    values: Sequence[float | None]
    places: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    is_stepped: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of the x axis that is shaded in the colour of a series."""

    begin: float
    end: float
    series: int


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: bars over `names`, or lines if there are none. With `is_dates`, places are days since 1970."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    names: Sequence[str] = ()
    is_log_x: bool = False
    is_log_y: bool = False
    y_max: float | None = None
    is_dates: bool = False
    marks: Sequence[Mark] = ()
    mark_name: str = "burst"


def chart(panels: Sequence[Panel], format: str, theme: Theme = Theme.LIGHT, *, is_narrow: bool = False) -> bytes:
    """The panels below each other, as the bytes of a file. Any thread. Raises UsageError without matplotlib.

    A narrow one can be read on a small screen: it has larger letters for its size.
    """
    with _drawing:
        try:
            import matplotlib
            from matplotlib.figure import Figure
            from matplotlib.layout_engine import ConstrainedLayoutEngine
        except ImportError:
            raise UsageError(INSTALL) from None
        look = {
            "text.color": _INK[theme],
            "axes.labelcolor": _INK[theme],
            "axes.edgecolor": _INK[theme],
            "xtick.color": _INK[theme],
            "ytick.color": _INK[theme],
            "hatch.linewidth": 0.6,
            "svg.hashsalt": "holdfast",
            "svg.fonttype": "path",
        }
        with matplotlib.rc_context(look):
            width, height = _NARROW_INCHES if is_narrow else _PANEL_INCHES
            layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.18)  # inches
            figure = Figure(figsize=(width, height * len(panels)), facecolor=_GROUND[theme], layout=layout)
            for panel, axis in zip(panels, figure.subplots(len(panels), squeeze=False).flat, strict=True):
                _draw(panel, axis, theme, is_narrow=is_narrow)
            sink = io.BytesIO()
            metadata = {"Date": None} if format == "svg" else None  # the same bytes each time
            figure.savefig(sink, format=format, dpi=144, metadata=metadata)
            return sink.getvalue()


def chart_format(path: Path) -> str:
    """The format that a file's name asks for. Raises UsageError, also without matplotlib."""
    if find_spec("matplotlib") is None:
        raise UsageError(INSTALL)
    format = path.suffix.lower().removeprefix(".")
    if format not in FORMATS:
        raise UsageError(f"cannot draw '{path}': its name must end with .png or .svg")
    if not path.parent.is_dir():
        raise UsageError(f"cannot draw '{path}': there is no directory '{path.parent}'")
    return format


def _draw(panel: Panel, axis: Any, theme: Theme, *, is_narrow: bool) -> None:
    axis.set_facecolor(_GROUND[theme])
    axis.grid(visible=True, axis="y", color=_LINE[theme], linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if panel.names:
        _draw_bars(panel, axis, theme, is_narrow=is_narrow)
    else:
        _draw_lines(panel, axis, theme, is_narrow=is_narrow)
    has_legend = len(panel.series) > 1 or bool(panel.marks)
    handles, labels = axis.get_legend_handles_labels()
    if panel.marks:
        from matplotlib.patches import Patch

        handles.append(Patch(color=_INK[theme], alpha=0.18, linewidth=0))
        labels.append(panel.mark_name)
    if is_narrow:
        columns = 1 if max(map(len, labels), default=0) > _LABEL_MAX else 2
    else:
        columns = 4 if len(labels) == 4 and sum(map(len, labels)) <= _LEGEND_MAX else 3
    rows = -(-len(labels) // columns) if has_legend else 0
    title = "\n".join(wrap(panel.title, _TITLE_MAX)) if is_narrow else panel.title
    axis.set_title(title, fontsize=11, fontweight="bold", pad=8 + (6 + 14 * rows if rows else 0))
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)
    if panel.is_log_y:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0, top=_top(panel))
        if all(value is None or float(value).is_integer() for series in panel.series for value in series.values):
            axis.yaxis.get_major_locator().set_params(integer=True)
    if has_legend:
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
        axis.legend(handles, [_short(label, _LEGEND_MAX) for label in labels], ncols=columns, fontsize=9, **place)


def _top(panel: Panel) -> float | None:
    """Where the y axis ends; None where nothing is above 0."""
    values = [value for series in panel.series for each in (series.values, series.high) for value in each if value]
    highest = max(values, default=0.0)
    if panel.y_max is not None and highest <= panel.y_max:
        highest = panel.y_max
    return highest * _ROOM or None


def _draw_bars(panel: Panel, axis: Any, theme: Theme, *, is_narrow: bool) -> None:
    names = list(panel.names)[-_BARS_MAX:]
    width = 0.8 / len(panel.series)
    for number, series in enumerate(panel.series):
        shift = (number - (len(panel.series) - 1) / 2) * width
        heights = [0.0 if value is None else value for value in series.values][-_BARS_MAX:]
        axis.bar(
            [at + shift for at in range(len(names))],
            heights,
            width * 0.95,
            label=series.name,
            color=_COLOURS[theme][number % len(_COLOURS[theme])],
            hatch=_HATCHES[number % len(_HATCHES)],
            edgecolor=_GROUND[theme],
            linewidth=0.4,
            yerr=_errors(heights, series) if series.low else None,
            ecolor=_INK[theme],
            capsize=3,
        )
    spare = max(0, _SLOTS_MIN - len(names)) / 2  # few bars stay slim
    axis.set_xlim(-0.5 - spare, len(names) - 0.5 + spare)
    short = [_short(name) for name in names]
    room = (_LETTERS_NARROW if is_narrow else _LETTERS) / max(len(names), _SLOTS_MIN)
    is_crowded = max(map(len, short), default=0) + 1 > room
    axis.set_xticks(range(len(names)), short, fontsize=8)
    if is_crowded:
        axis.tick_params(axis="x", rotation=40)
        for label in axis.get_xticklabels():
            label.set_horizontalalignment("right")


def _errors(heights: Sequence[float], series: Series) -> list[list[float]]:
    """How far the bounds are below and above the bars."""
    below = [max(0.0, height - low) for height, low in zip(heights, series.low, strict=True)]
    return [below, [max(0.0, high - height) for height, high in zip(heights, series.high, strict=True)]]


def _draw_lines(panel: Panel, axis: Any, theme: Theme, *, is_narrow: bool) -> None:
    for number, series in enumerate(panel.series):
        colour = _COLOURS[theme][number % len(_COLOURS[theme])]
        step = {"drawstyle": "steps-post"} if series.is_stepped else {}
        is_marked = len(series.places) <= _POINTS_MARKED and not series.is_stepped
        at = number % len(_MARKERS)
        is_large = len(panel.series) > 1 and len(series.places) <= _POINTS_LARGE
        points = _MARKER_POINTS[at] if is_large else _MARKER_SMALL_POINTS
        few: dict[str, Any] = {"marker": _MARKERS[at], "markersize": points} if is_marked else {}
        values = [math.nan if value is None or (panel.is_log_y and value <= 0) else value for value in series.values]
        axis.plot(
            series.places,
            values,
            label=series.name,
            color=colour,
            linestyle=_DASHES[number % len(_DASHES)],
            linewidth=2,
            clip_on=False,  # marks on an axis are whole
            gid=f"series-{number}",
            **step,
            **few,
        )
        if series.low:
            between = {"step": "post"} if series.is_stepped else {}
            axis.fill_between(series.places, series.low, series.high, color=colour, alpha=0.18, linewidth=0, **between)
    for mark in panel.marks:
        colour = _COLOURS[theme][mark.series % len(_COLOURS[theme])]
        axis.axvspan(mark.begin, mark.end, color=colour, alpha=0.18, linewidth=0)
    if panel.is_log_x:
        axis.set_xscale("log")
    if panel.is_dates:
        _date_axis(panel, axis, is_narrow=is_narrow)


def _date_axis(panel: Panel, axis: Any, *, is_narrow: bool) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DateFormatter

    places = sorted({place for series in panel.series for place in series.places})
    if len(places) <= _DATES_NAMED:
        axis.set_xticks(places)
        axis.xaxis.set_major_formatter(DateFormatter(_DATE_FORMS.get(panel.x_label, "%Y-%m-%d")))
    else:
        locator = AutoDateLocator(minticks=3, maxticks=5 if is_narrow else 9)
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=True))
    if places:
        spare = max(1.0, (max(places) - min(places)) / 50)
        axis.set_xlim(min(places) - spare, max(places) + spare)


def _short(name: str, most: int = _LABEL_MAX) -> str:
    """A dollar sign would begin a formula."""
    text = name if len(name) <= most else name[: most - 1] + "…"
    return text.replace("$", r"\$")
