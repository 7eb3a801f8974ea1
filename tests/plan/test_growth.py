"""This archive: how it grows, when it is full, and the scenario that it makes (H9)."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.archive.ingest.exchange import page
from holdfast.errors import UsageError
from holdfast.plan import archive_scenario, estimate, growth
from holdfast.plan.growth import Growth

MONTH_DAYS = 365.2425 / 12


def filled(path: Path, months: int = 4, pages: int = 6, size: int = 20_000) -> Path:
    """Every month the same number of new pages, and the first page again."""
    holdfast.init(path)
    random = Random(4)
    with holdfast.open(path) as archive:
        for month in range(months):
            when = f"2025{month + 1:02d}10000000"
            urls = [f"http://example.com/{month}/{number}" for number in range(pages)]
            made = [page(url, random.randbytes(size), timestamp=when) for url in urls]
            archive.add([*made, page("http://example.com/", random.randbytes(size), timestamp=when)])
    return path


def test_growth_is_that_of_the_months_in_the_window(tmp_path: Path) -> None:
    steps: list[int] = []
    with holdfast.open(filled(tmp_path / "a"), read_only=True) as archive:
        result = growth(archive, progress=steps.append)
        half = growth(archive, window_days=61)
    rows = {row["figure"]: row for row in result.rows()}
    assert sum(steps) == rows["captures"]["value"] == 28
    assert rows["URLs"]["value"] == 25
    months = result.rows("months")
    assert [row["month"] for row in months] == ["2025-01", "2025-02", "2025-03", "2025-04"]
    assert [row["captures"] for row in months] == [7] * 4
    assert [row["new_urls"] for row in months] == [7, 6, 6, 6]
    assert [row["bytes"] for row in months] == [140_000] * 4 and months[-1]["total_bytes"] == 560_000
    on_disk = rows["archive on disk"]["value"]
    assert on_disk > 560_000
    day = rows["growth"]
    assert day["value"] == pytest.approx(on_disk / 4 / MONTH_DAYS)
    assert day["value_low"] == pytest.approx(day["value_high"]), "every month is the same"
    free = rows["free on its disk"]["value"]
    assert rows["full in"]["value"] == pytest.approx((0.9 * free - 0.1 * on_disk) / on_disk * 4 * MONTH_DAYS, rel=1e-6)
    assert rows["captures per day"]["value"] == pytest.approx(28 / 4 / MONTH_DAYS)
    assert half.rows()[5]["value"] == pytest.approx(12 / 2 / MONTH_DAYS)
    assert any("this archive, growing like this, is full in" in each for each in result.notes)


def test_a_single_month_has_no_bounds_and_a_small_archive_is_drawn_in_small_units(tmp_path: Path) -> None:
    with holdfast.open(filled(tmp_path / "a", months=1), read_only=True) as archive:
        result = growth(archive)
    for row in result.rows():
        assert row["value_low"] is row["value_high"] is None, row["figure"]
    (panel,) = result.panels
    assert panel.y_label == "on disk (MiB)"
    assert 0.14 < (panel.series[0].values[-1] or 0) < 100


def test_few_months_have_wide_bounds(tmp_path: Path) -> None:
    """Those of Student's distribution: of two months they are 12.7 standard errors away, not 1.96."""
    holdfast.init(tmp_path / "a")
    with holdfast.open(tmp_path / "a") as archive:
        for month, size in (("01", 100_000), ("02", 110_000)):
            archive.add([page(f"http://example.com/{month}", bytes(size), timestamp=f"2025{month}10000000")])
        row = next(row for row in growth(archive).rows() if row["figure"] == "growth")
    half = 12.706 * (row["value"] * 10 / 210)  # the standard error of two is half of their difference
    assert row["value_high"] == pytest.approx(row["value"] + half)
    assert row["value_low"] == pytest.approx(row["value"] - half)


def test_growth_can_be_given(tmp_path: Path) -> None:
    with holdfast.open(filled(tmp_path / "a", months=1), read_only=True) as archive:
        rows = {row["figure"]: row for row in growth(archive, bytes_day=1e9, reserve=0.0).rows()}
        none = growth(archive, bytes_day=0.0)
    assert rows["full in"]["value"] == pytest.approx(rows["free on its disk"]["value"] / 1e9)
    assert "full in" not in {row["figure"] for row in none.rows()}
    assert any("does not grow" in each for each in none.notes)


def test_full_sooner_with_a_reserve_and_never_without_growth() -> None:
    found = Growth(100, 900, 1, 1, 10.0, 5.0, 20.0, 1.0, 1.0, "202501", "202502")
    assert found.full_days(10.0) == 90 and found.full_days(10.0, 0.1) == 80
    assert found.full_days(10.0, 0.95) == 0.0
    assert math.isinf(found.full_days(0.0))


def test_an_empty_archive_and_captures_without_a_date(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "a")
    with holdfast.open(tmp_path / "a", read_only=True) as archive:
        result = growth(archive)
        assert any("no captures" in each for each in result.notes) and result.panels == []
        assert len(result.tables["months"]) == 0
        with pytest.raises(UsageError, match="no captures"):
            archive_scenario(archive)


@pytest.mark.parametrize("values", [{"window_days": 0.0}, {"reserve": 1.0}, {"reserve": -0.1}, {"bytes_day": -1.0}])
def test_what_cannot_be(tmp_path: Path, values: dict[str, float]) -> None:
    holdfast.init(tmp_path / "a")
    with holdfast.open(tmp_path / "a", read_only=True) as archive, pytest.raises(UsageError):
        growth(archive, **values)  # type: ignore[arg-type]


def test_the_scenario_of_an_archive_is_made_of_its_figures(tmp_path: Path) -> None:
    with holdfast.open(filled(tmp_path / "a"), read_only=True) as archive:
        made = archive_scenario(archive)
        used = {row["figure"]: row["value"] for row in growth(archive).rows()}["archive on disk"]
    assert made.pages == pytest.approx(25) and made.page_bytes == pytest.approx(20_000)
    assert made.stored_bytes == pytest.approx(used)
    assert made.growth_bytes_day == pytest.approx(used / 4 / MONTH_DAYS)
    assert made.nodes == made.copies == 1
    rows = {row["figure"]: row["value"] for row in estimate(made).rows()}
    assert rows["contents at the end, stored"] == pytest.approx(used + 365 * used / 4 / MONTH_DAYS)
    assert "full after" in rows
    more = estimate(made.changed(copies=3, nodes=5))
    assert {row["figure"]: row["value"] for row in more.rows()}["nodes"] == 5
