"""WebBase's model against the paper's tables S-4, 3 and 4; a disk that is measured (B13)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.errors import UnknownName, UsageError
from holdfast.plan import disk
from holdfast.plan.disk import PageMix
from holdfast.plan.disk_model import (
    DISKS,
    PAPER_TABLE_3,
    PAPER_TABLE_4,
    DiskSpeed,
    PageOperation,
    RepositoryShape,
    operation_ms,
    table_3,
    table_4,
)
from holdfast.plan.disk_probe import measured_disk

SHAPE = RepositoryShape()
TABLE_S_4 = {1: 19.8, 2: 28.2, 3: 0.159, 4: 3.87, 5: 42.9, 6: 28.9, 7: 11.8, 8: 23.71, 9: 0.164}  # ms


def test_the_model_of_the_papers_disk_takes_the_papers_times() -> None:
    found = operation_ms(DISKS["paper"], SHAPE)
    assert {number: found[number] for number in TABLE_S_4} == {
        number: pytest.approx(ms, rel=0.08) for number, ms in TABLE_S_4.items()
    }


def test_rates_are_made_of_times_as_in_the_paper() -> None:
    """Tables S-5 and S-6 on the authors' own times give the tables that they print."""
    rates = table_3(TABLE_S_4, SHAPE)
    for name, printed in PAPER_TABLE_3.items():
        for row, value in printed.items():
            assert rates[name][row] == pytest.approx(value, rel=0.08), (name, row)
    for configuration, (added, seconds) in PAPER_TABLE_4.items():
        here = table_4(TABLE_S_4, SHAPE)[configuration]
        assert here == (pytest.approx(added, rel=0.08), pytest.approx(seconds, rel=0.09))


def test_tables_by_the_model_beside_the_paper() -> None:
    result = disk("paper")
    assert list(result.tables) == ["choice", "table_3", "table_4", "disk"]
    for row in result.rows("table_3"):
        if row["paper"] is not None:
            assert row["model"] == pytest.approx(row["paper"], rel=0.15), row
    for row in result.rows("table_4"):
        assert row["update_s"] == pytest.approx(row["update_s_paper"], rel=0.1)
    assert [row["organization"] for row in result.rows("choice")] == ["log", "hashed-log", "hash"]


def test_which_organization_depends_on_what_is_done() -> None:
    assert disk("paper", mix=PageMix(0, 0, 1)).rows()[0]["organization"] == "hash", "one seek instead of two"
    assert disk("paper", mix=PageMix(1, 0, 0)).rows()[0]["organization"] == "log"
    no_seeks = DiskSpeed("memory", 0.0, 0.0, 0.0, 1000.0, 1000.0)
    assert disk(no_seeks, mix=PageMix(0, 0, 1)).rows()[0]["organization"] != "hash", "a bucket is more to read"


def test_measured_figures_stand_beside(tmp_path: Path) -> None:
    path = tmp_path / "webbase.json"
    rows = [
        {"organization": "log", "row": PageOperation.STREAM.value, "warm": False, "per_s": 21_563.0},
        {"organization": "log", "row": PageOperation.STREAM.value, "warm": True, "per_s": 32_463.0},
        {"organization": "hash", "row": PageOperation.ADD_BUFFERED.value, "warm": False, "per_s": 1082.0},
    ]
    updates = [{"update": "log", "read": "hash", "total_s": 11.8}]
    path.write_text(json.dumps({"table_3": rows, "table_4": updates}))
    result = disk("ssd", measured=path)
    found = {(row["organization"], row["operation"]): row["measured"] for row in result.rows("table_3")}
    assert found["log", "streaming"] == 21_563.0
    assert found["hash", PageOperation.ADD_BUFFERED.value] == 1082.0
    assert found["hash", "streaming"] is None
    assert [row["update_s_measured"] for row in result.rows("table_4")] == [11.8, None, None]
    for bad in ("", "[]", '{"table_3": []}', "{"):
        path.write_text(bad)
        with pytest.raises(UsageError, match="lacks tables 3 and 4"):
            disk("ssd", measured=path)
    with pytest.raises(UsageError, match="cannot read"):
        disk("ssd", measured=tmp_path / "absent")


def test_the_benchmark_names_rows_as_the_model_does() -> None:
    from benchmarks.webbase import paper

    assert paper.Row is PageOperation and paper.TABLE_3 is PAPER_TABLE_3


def test_a_disk_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    written: list[int] = []
    speed = measured_disk(tmp_path, 8 << 20, written.append)
    assert sum(written) == 8 << 20
    assert list(tmp_path.iterdir()) == []
    speed.check()
    assert speed.read_mb_s > 0 and disk(speed).rows()


def test_disks_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="there are paper, hdd, ssd, nvme"):
        disk("tape")
    for speed in (
        DiskSpeed("x", -1.0, 0.0, 0.0, 1.0, 1.0),
        DiskSpeed("x", 1.0, 2.0, 0.0, 1.0, 1.0),
        DiskSpeed("x", 1.0, 1.0, 0.0, 0.0, 1.0),
    ):
        with pytest.raises(UsageError, match="disk"):
            disk(speed)
    for shape in (
        RepositoryShape(page_bytes=0.0),
        RepositoryShape(page_bytes=1e9),
        RepositoryShape(buffer_bytes=1e12),
        RepositoryShape(utilization=1.5),
    ):
        with pytest.raises(UsageError, match="repository"):
            disk("paper", shape=shape)
    for mix in (PageMix(0, 0, 0), PageMix(-1, 1, 1)):
        with pytest.raises(UsageError, match="mix"):
            disk("paper", mix=mix)
    with pytest.raises(UsageError, match="cannot measure"):
        measured_disk(tmp_path / "absent")
    with pytest.raises(UsageError, match="cannot measure"):
        measured_disk(tmp_path, 10)
