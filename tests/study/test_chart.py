"""Charts: every mark is whole, and series with equal values can be told apart."""

from __future__ import annotations

import warnings
from xml.etree import ElementTree

import pytest

from holdfast.study.chart import Panel, Series, chart

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
MARK_POINTS_MAX = 8.0  # across


def marks_and_frames(drawn: bytes) -> tuple[list[tuple[str, float, float]], list[tuple[float, float]]]:
    """The shape and place of each mark of a series, and the upper and lower edge of each panel's axes."""
    tree = ElementTree.fromstring(drawn)
    frames = [rect.attrib for clip in tree.iter(f"{SVG}clipPath") for rect in clip.iter(f"{SVG}rect")]
    edges = [(float(each["y"]), float(each["y"]) + float(each["height"])) for each in frames]
    series = [group for group in tree.iter(f"{SVG}g") if group.get("id", "").startswith("series-")]
    marks = [use.attrib for group in series for use in group.iter(f"{SVG}use")]
    assert not any("clip-path" in each.attrib for group in series for each in group.iter()), "nothing is cut off"
    return [(each[LINK], float(each["x"]), float(each["y"])) for each in marks], edges


@pytest.mark.parametrize("y_max", [None, 100.0])
@pytest.mark.parametrize("highest", [20.2, 100.0, 0.003])
def test_marks_are_whole_and_below_the_legend(highest: float, y_max: float | None) -> None:
    panel = Panel("T", "day", "%", [Series("a", [0.0], [1]), Series("b", [highest], [1])], y_max=y_max)
    marks, [(top, bottom)] = marks_and_frames(chart([panel], "svg"))
    assert len(marks) == 2
    assert all(top + MARK_POINTS_MAX / 2 <= y <= bottom + 0.01 for _, _, y in marks)


def test_series_of_equal_values_have_marks_of_different_shapes() -> None:
    series = [Series(name, [5.0, 5.0], [1, 2]) for name in "abcdef"]
    marks, _ = marks_and_frames(chart([Panel("T", "day", "%", series)], "svg"))
    assert len({(x, y) for _, x, y in marks}) == 2
    assert len({shape for shape, _, _ in marks}) == 6


def test_a_panel_of_nothing_but_zeros_is_drawn() -> None:
    panels = [
        Panel("T", "x", "y", [Series("a", [0, 0])], ["one", "two"]),
        Panel("T", "x", "y", [Series("a", [0], [1])]),
    ]
    for format in ("svg", "png"):
        assert chart(panels, format)


def test_zeros_on_a_logarithmic_axis_leave_the_panels_their_room() -> None:
    """Such as the traffic of repair where there is one node."""
    places = [1.0, 10.0, 100.0]
    series = [Series("all", [5.0] * 3, places), Series("repair", [0.0] * 3, places)]
    panels = [Panel("T", "days", "kbit/s", series, is_log_x=True, is_log_y=True)] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns where it gives up the layout
        marks, frames = marks_and_frames(chart(panels, "svg"))
    assert len(marks) == 6, "what is not there has no marks"
    assert frames[0][1] < frames[1][0]
