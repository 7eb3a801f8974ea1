"""How volumes are asked how they are: all at once, never for long, never twice at a time (B5)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Archive, VolumeSettings
from holdfast.archive.volumes import VolumeReport, VolumeReports
from holdfast.env import REAL
from holdfast.errors import VolumeDown
from holdfast.storage.volume import Activity, ReadableVolume, VolumeStat


class Elsewhere:
    """A volume that answers when it is let, and tells what it is doing."""

    def __init__(self, volume: ReadableVolume) -> None:
        self._volume = volume
        self.answers = threading.Event()
        self.asked = 0
        self.failure: Exception | None = None

    def stat(self) -> VolumeStat:
        self.asked += 1
        self.answers.wait()
        if self.failure is not None:
            raise self.failure
        return self._volume.stat()

    def status(self) -> tuple[VolumeStat, Activity]:
        return self.stat(), Activity("streaming", 3, 2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._volume, name)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    holdfast.init(tmp_path / "archive", holdfast.Plan(volumes=3))
    with holdfast.open(tmp_path / "archive", read_only=True) as opened:
        yield opened


@pytest.fixture
def far(archive: Archive) -> Iterator[list[Elsewhere]]:
    """v1 and v2 as if they were on servers."""
    instance = archive.instance
    found = [Elsewhere(instance.volumes[name]) for name in ("v1", "v2")]
    instance.volumes |= {"v1": found[0], "v2": found[1]}  # type: ignore[dict-item]
    volumes = [
        each if each.name == "v0" else replace(each, address=f"{each.name}:9999") for each in instance.settings.volume
    ]
    instance.settings = replace(instance.settings, volume=tuple(volumes))
    yield found
    for each in found:
        each.answers.set()
    for thread in threading.enumerate():
        if thread.name.startswith("how is volume"):
            thread.join()  # before the volumes that it asks are closed


def reports_of(archive: Archive) -> VolumeReports:
    return VolumeReports(archive.instance, lambda volume: archive.path / "writer.lock", REAL)


def activities(reports: list[VolumeReport]) -> list[str]:
    return [report.activity.state for report in reports]


def test_a_volume_that_does_not_answer_holds_nobody_up(archive: Archive, far: list[Elsewhere]) -> None:
    far[1].answers.set()
    reports = reports_of(archive)
    found = reports.take(0.2)
    assert activities(found) == ["idling", "down", "streaming"]
    assert "no answer within" in found[1].reason
    assert (found[1].stat, found[1].capacity_bytes, found[1].fragmentation) == (None, None, None)
    assert found[2].activity == Activity("streaming", 3, 2)
    assert [report.place for report in found] == ["", "v1:9999", "v2:9999"]


def test_a_volume_is_not_asked_again_before_it_has_answered(archive: Archive, far: list[Elsewhere]) -> None:
    reports = reports_of(archive)
    for _ in range(3):
        reports.take(0.01)
    assert [each.asked for each in far] == [1, 1]
    for each in far:
        each.answers.set()
    assert activities(reports.take(60)) == ["idling", "streaming", "streaming"]
    assert activities(reports.take(60)) == ["idling", "streaming", "streaming"]
    assert all(each.asked >= 2 for each in far)  # but it is asked again afterwards


def test_a_volume_that_fails_is_down_with_its_reason(archive: Archive, far: list[Elsewhere]) -> None:
    for each in far:
        each.answers.set()
    far[0].failure = VolumeDown("the server at v1:9999 has gone")
    found = reports_of(archive).take(60)
    assert activities(found) == ["idling", "down", "streaming"]
    assert found[1].reason == "the server at v1:9999 has gone"


def test_a_volume_whose_directory_has_gone_is_down(archive: Archive) -> None:
    shutil.rmtree(archive.path / "volumes" / "v1")
    found = reports_of(archive).take(60)
    assert activities(found) == ["idling", "down", "idling"]
    assert "v1" in found[1].reason


def test_capacity_and_fragmentation() -> None:
    stat = VolumeStat("log", 1, 0, 1, 100, 80, 100, 200, 50, 800, 0)
    report = VolumeReport(VolumeSettings("v0"), stat)
    assert (report.capacity_bytes, report.fragmentation) == (1000, 0.25)
    empty = VolumeReport(VolumeSettings("v0"), replace(stat, disk_bytes=0, dead_bytes=0))
    assert empty.fragmentation == 0.0
