"""Every study of an empty archive, of one capture and of one without a date: a clear answer each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from generated import Fact, add, made, undated_warc

from holdfast import study
from holdfast.archive import Archive
from holdfast.study.chart import Theme, chart
from holdfast.study.display import cell

Run = Callable[[Archive], study.StudyResult]
STUDIES: dict[str, Run] = {
    "duplicates": study.duplicates,
    "near-duplicates": study.near_duplicates,
    "change": study.change,
    "composition": study.composition,
    "media": study.media,
    "topic": lambda archive: study.topic(archive, "harbour"),
}
DAY_S = 86_400
TEXT = b"<p>The harbour opens at nine, and closes when the last boat is in. " * 3


@pytest.mark.parametrize("name", STUDIES)
def test_an_empty_archive(tmp_path: Path, name: str) -> None:
    with made(tmp_path / "archive") as archive:
        archive.index.update()
        result = STUDIES[name](archive)
    assert (result.rows(), list(result.panels)) == ([], [])
    assert len(result.notes) == 1


@pytest.mark.parametrize("name", STUDIES)
def test_one_capture(tmp_path: Path, name: str) -> None:
    with made(tmp_path / "archive") as archive:
        add(archive, [Fact("one", "http://a.example/", "20200101000000", TEXT)])
        archive.index.update()
        result = STUDIES[name](archive)
    assert bool(result.rows()) == (name != "media")
    if result.panels:
        assert chart(result.panels, "svg", Theme.DARK, is_narrow=True).startswith(b"<?xml")


def test_changes_within_minutes_are_shown_in_seconds(tmp_path: Path) -> None:
    """As in the demo, whose two visits are seconds apart."""
    seconds = [f"202001010000{second:02}" for second in (0, 20, 40)]
    with made(tmp_path / "archive") as archive:
        add(archive, [Fact("one", "http://a.example/", time, TEXT + time.encode()) for time in seconds])
        result = study.change(archive)
    assert result.panels[0].x_label == "seconds"
    assert max(result.panels[0].series[0].places) == pytest.approx(10)  # halfway between two visits
    row = {"change_interval_days": 20 / DAY_S, "change_interval_low": 10 / DAY_S, "change_interval_high": 200 / DAY_S}
    assert cell("change_interval_days", row) == "20s (10s to 3m 20s)"
    assert cell("change_interval_days", row | {"change_interval_days": None}) == "over 10s"
    assert cell("half_life_days", {"half_life_days": 12.3}) == "12.3d"


def test_what_visits_cannot_tell_is_noted(tmp_path: Path) -> None:
    """Each visit sees a change, and visits are 20 seconds apart."""
    seconds = [f"202001010000{second:02}" for second in (0, 20, 40)]
    with made(tmp_path / "archive") as archive:
        add(archive, [Fact("one", "http://a.example/", time, TEXT + time.encode()) for time in seconds])
        add(archive, [Fact("one", "http://b.example/", time, TEXT) for time in seconds[:2]])
        assert [note for note in study.change(archive).notes if note.startswith("2 of 3 visits saw a change")]
        assert [note for note in study.composition(archive).notes if "visited 20s apart on average" in note]
        later = [f"2020{month:02}01000000" for month in range(2, 8)]
        add(archive, [Fact("one", "http://b.example/", time, TEXT) for time in later])
        assert not [note for note in study.change(archive).notes if "saw a change" in note]
        assert not [note for note in study.composition(archive).notes if "apart on average" in note]


NOTES = {
    "duplicates": "captures without a date: 1; they count",
    "near-duplicates": "",
    "change": "captures without a date, left out: 1",
    "composition": "captures without a date, not counted for change: 1",
    "media": "there are no captures besides pages",
    "topic": "captures without a date, left out: 1",
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_capture_without_a_date(tmp_path: Path, name: str) -> None:
    (tmp_path / "undated.warc").write_bytes(undated_warc("http://a.example/", TEXT))
    with made(tmp_path / "archive") as archive:
        archive.import_files(tmp_path / "undated.warc")
        archive.index.update()
        result = STUDIES[name](archive)
    assert NOTES[name] in "; ".join(result.notes)
