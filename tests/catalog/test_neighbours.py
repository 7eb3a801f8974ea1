"""Neighbours: the captures of a URL around one of them (I10)."""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import capture

from holdfast.catalog import Catalog, CatalogChange
from holdfast.catalog.pick import LOOK_AT
from holdfast.model import Capture

URL = "http://a.example/"


@pytest.fixture
def catalog(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Catalog(tmp_path / "catalog") as made:
        yield made


def stamps(catalog: Catalog, middle: Capture, **asked: object) -> list[str | None]:
    found = catalog.neighbours(middle, "main", **asked)  # type: ignore[arg-type]
    return [each.timestamp if each is not None else None for each in found]


def test_first_previous_next_and_last(catalog: Catalog) -> None:
    rows = [capture(URL, f"202{n}0101000000", n) for n in range(5)]
    others = [capture(f"{URL}{name}", "20220101000000", 10 + n) for n, name in enumerate(("a", "?b"))]
    catalog.add(CatalogChange(captures=[*rows, *others]))
    times = [each.timestamp for each in rows]
    assert stamps(catalog, rows[2]) == [times[0], times[1], times[3], times[4]]
    assert stamps(catalog, rows[0]) == [times[0], None, times[1], times[4]]
    assert stamps(catalog, rows[4]) == [times[0], times[3], None, times[4]]
    assert stamps(catalog, others[0]) == ["20220101000000", None, None, "20220101000000"]


def test_captures_of_the_same_second_are_no_neighbours(catalog: Catalog) -> None:
    rows = [capture(URL, "20220101000000", n) for n in range(3)]
    catalog.add(CatalogChange(captures=rows))
    assert stamps(catalog, rows[1]) == ["20220101000000", None, None, "20220101000000"]


def test_what_is_not_wanted_is_passed_over_but_not_for_ever(catalog: Catalog) -> None:
    rows = [
        capture(URL, f"2020010100{n // 60:02}{n % 60:02}", n, status="200" if n in (0, 9) else "404") for n in range(10)
    ]
    catalog.add(CatalogChange(captures=rows))
    wants = lambda each: each.status == "200"  # noqa: E731
    assert stamps(catalog, rows[9], wants=wants) == [rows[0].timestamp, rows[0].timestamp, None, rows[9].timestamp]
    many = [capture(f"{URL}x", str(20200101000000 + n), 100 + n, status="404") for n in range(LOOK_AT + 1)]
    last = capture(f"{URL}x", "20250101000000", 9999)
    early = capture(f"{URL}x", "20190101000000", 9998)
    catalog.add(CatalogChange(captures=[*many, last, early]))
    assert stamps(catalog, last, wants=wants) == [last.timestamp, None, None, last.timestamp]
