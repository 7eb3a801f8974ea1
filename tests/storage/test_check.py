"""What `check` says and what `repair` leaves behind: messages, notes, the rate, the audit log, a lost volume."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from crash_archive import copy, found_in, make, page

import holdfast
from holdfast import CheckOptions, Fault, Plan, StoreSettings
from holdfast.env import REAL, Environment
from holdfast.errors import UnknownName, VolumeDown
from holdfast.storage.maintenance.check import CheckReport
from holdfast.storage.volume import Encoded, Store
from holdfast.storage.volumes.damage import CheckProgress

pytest_plugins = ["crash_fixtures"]

REPAIR = CheckOptions(repair=True)
MESSAGE = re.compile(r"(?P<kind>.+) in '(?P<file>.+)' at (?P<offset>\d+): expected .+, found .+")


@pytest.fixture(params=["log", "tree", "hash", "hashed-log"])
def organization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def a_block_file(path: Path) -> Path:
    """The segment or the block file with the most bytes."""
    files = [
        *path.rglob("*.seg"),
        *path.rglob("buckets-*"),
        *(each for each in path.rglob("tree/*/*") if each.is_file()),
    ]
    return max(files, key=lambda file: (file.stat().st_size, file.name))


def in_a_block(file: Path) -> int:
    """Where there is data of the first block."""
    found = re.search(rb"HOLDFAST/1 (block|replica)", file.read_bytes())
    assert found is not None
    return found.start() + 325


def flip(file: Path, offset: int) -> None:
    raw = bytearray(file.read_bytes())
    raw[offset] ^= 1
    file.write_bytes(raw)


# -- messages ----------------------------------------------------------------------------------------------------------


def test_a_sound_archive(quick: Path, organization: str) -> None:
    expected = make(quick, 2, organization, 2)
    for options in (CheckOptions(), CheckOptions(deep=True), REPAIR):
        report = holdfast.check(quick, options)
        assert (report.faults, report.notes, report.clean) == ([], [], True)
        assert report.blocks >= 2 * len(expected)
        assert report.bytes > sum(len(kept.content) for kept in expected.values()) // 4
    assert not (quick / "audit.log").exists(), "nothing was repaired"


def test_a_fault_names_file_offset_expected_and_found(quick: Path, organization: str) -> None:
    make(quick, 1, organization, 1)
    file = a_block_file(quick)
    at = file.read_bytes().index(b"HOLDFAST/1 block")
    flip(file, at + 330)
    report = holdfast.check(quick)
    (fault,) = [fault for fault in report.faults if fault.file == str(file)]
    assert not report.clean
    assert fault.offset == at
    assert (fault.volume, fault.kind) == ("v0", "damaged block")
    assert fault.key is not None and fault.key.volume == "v0"
    match = MESSAGE.fullmatch(str(fault))
    assert match is not None
    assert (match["file"], int(match["offset"])) == (str(file), at)
    assert f"damaged block of {fault.key}" in str(fault)
    if organization == "log":  # the checksums tell the damage from what should be there
        assert re.fullmatch("crc32 [0-9a-f]{8}", fault.expected)
        assert re.fullmatch("[0-9a-f]{8}", fault.found)


def test_a_damaged_header_is_shown(quick: Path) -> None:
    make(quick, 1, "log", 1)
    file = a_block_file(quick)
    flip(file, 96)
    fault = next(fault for fault in holdfast.check(quick).faults if "unreadable bytes" in fault.kind)
    assert (fault.file, fault.offset, fault.expected) == (str(file), 96, "a sound header")
    assert fault.found.startswith("b'IOLDFAST/1 ")


def test_a_counter_that_differs_is_told_with_both_values(quick: Path) -> None:
    holdfast.init(quick)
    with holdfast.open(quick) as archive:
        key, _ = (archive.contents.put(b"twice") for _ in range(2))
        archive.contents.put(b"something behind it")
    (segment,) = quick.rglob("*.seg")
    flip(segment, segment.read_bytes().index(b"HOLDFAST/1 count"))
    told = {fault.kind: fault for fault in holdfast.check(quick).faults}
    assert (told["counter differs"].expected, told["counter differs"].found) == ("1 references", "2")
    assert told["counter differs"].key == key
    assert holdfast.check(quick, REPAIR).clean
    assert found_in(quick)[key].references == 2


def test_a_missing_segment_is_named(quick: Path) -> None:
    make(quick, 1, "log", 1)
    segment = min(quick.rglob("*.seg"))
    size = segment.stat().st_size
    segment.unlink()
    fault = next(fault for fault in holdfast.check(quick).faults if fault.kind == "missing segment")
    assert (fault.file, fault.expected, fault.found) == (str(segment), f"{size} bytes", "nothing")


def test_a_torn_end_is_noted_and_is_no_fault(quick: Path) -> None:
    expected = make(quick, 1, "log", 1)
    last = max(quick.rglob("*.seg"))
    with last.open("ab") as file:
        file.write(b"HOLDFAST/1 half a header")
    report = holdfast.check(quick)
    assert (report.faults, report.clean) == ([], True)
    assert report.notes == [f"'{last}' ends with 24 bytes that were never acknowledged"]
    assert found_in(quick, read_only=False) == expected
    assert holdfast.check(quick).notes == [], "opening for writing cuts it off"


def test_a_torn_counter_of_a_tree_is_noted(quick: Path) -> None:
    make(quick / "archive", 1, "tree", 1)
    with holdfast.open(quick / "archive") as archive:
        archive.contents.put(page(0))
        killed = copy(quick / "archive", quick / "killed")
    file = a_block_file(killed)
    with file.open("ab") as handle:
        handle.write(b"HOLDFAST/1 half a header")
    report = holdfast.check(killed)
    assert report.faults == []
    assert report.notes == [f"'{file}' ends with 24 bytes that were never acknowledged"]


def test_only_the_volumes_that_were_asked_for(quick: Path, organization: str) -> None:
    make(quick, 2, organization, 1)
    file = a_block_file(quick / "volumes" / "v1")
    flip(file, in_a_block(file))
    assert holdfast.check(quick, CheckOptions(volumes=("v0",))).faults == []
    assert {fault.volume for fault in holdfast.check(quick, CheckOptions(volumes=("v1",))).faults} == {"v1"}
    with pytest.raises(UnknownName, match="unknown volume 'v7': known are v0, v1"):
        holdfast.check(quick, CheckOptions(volumes=("v7",)))


def test_a_check_changes_nothing(quick: Path, organization: str) -> None:
    """But that it leaves a note of each block that it found damaged."""
    make(quick, 2, organization, 2)
    file = a_block_file(quick)
    flip(file, in_a_block(file))
    before = {path: path.read_bytes() for path in quick.rglob("*") if path.is_file()}
    (fault, *_) = holdfast.check(quick, CheckOptions(deep=True)).faults
    after = {path: path.read_bytes() for path in quick.rglob("*") if path.is_file()}
    notes = {path: after.pop(path) for path in after.keys() - before.keys()}
    assert after == before
    assert fault.key is not None
    home = f"@{fault.key.volume}" if fault.key.volume != fault.volume else ""
    noted = quick / "volumes" / fault.volume / "damaged" / (fault.key.signature.hex() + home)
    assert notes == {noted: b""}


def test_deep_finds_a_content_unlike_its_signature(quick: Path) -> None:
    """Sound checksums, wrong content: only decoding tells. As if it had been wrong in memory already."""
    holdfast.init(quick)
    with holdfast.open(quick) as archive:
        other = archive.instance.signature.digest(page(1))
        archive.instance.writer("v0").commit([Store(other, Encoded("none", 0, 5, b"wrong"))])
    assert holdfast.check(quick).faults == []
    (fault,) = holdfast.check(quick, CheckOptions(deep=True)).faults
    assert fault.kind == "content unlike its signature"
    assert fault.expected == other.hex()


# -- the rate ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Clock:
    """Time passes only while somebody sleeps."""

    now_s: float = 100.0
    slept: list[float] = field(default_factory=list)

    def environment(self) -> Environment:
        return replace(REAL, monotonic=lambda: self.now_s, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now_s += seconds


def test_the_rate_is_kept_to(quick: Path, organization: str) -> None:
    make(quick, 1, organization, 1)
    clock = Clock()
    report = holdfast.check(quick, CheckOptions(rate_bytes_s=1000), env=clock.environment())
    assert report.bytes > 5000
    assert sum(clock.slept) == pytest.approx(report.bytes / 1000, abs=0.02)
    assert max(clock.slept) < 2, "a little at a time, so that others can read in between"


def test_time_that_passed_anyway_counts() -> None:
    clock = Clock()
    watch = CheckProgress(None, 1000, clock.environment())
    watch.read(500)
    assert clock.slept == [0.5]
    clock.now_s += 10
    watch.read(9000)
    assert clock.slept == [0.5], "no faster than allowed over all"
    watch.read(2000)
    assert sum(clock.slept) == pytest.approx(1.5)


def test_progress_is_told_and_without_a_rate_nobody_sleeps(quick: Path, organization: str) -> None:
    make(quick, 1, organization, 1)
    clock, told = Clock(), list[int]()
    report = holdfast.check(quick, CheckOptions(), told.append, env=clock.environment())
    assert (sum(told), clock.slept) == (report.bytes, [])


# -- repairs -----------------------------------------------------------------------------------------------------------


def audit(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / "audit.log").read_text().splitlines()]


def test_every_repair_is_written_down(quick: Path, organization: str) -> None:
    make(quick, 2, organization, 2)
    file = a_block_file(quick / "volumes" / "v0")
    flip(file, in_a_block(file))
    env = replace(REAL, clock=lambda: 1_500_000_000.0)
    report = holdfast.check(quick, REPAIR, env=env)
    assert report.faults and report.clean
    lines = audit(quick)
    assert len(lines) == len(report.faults)
    first = next(line for line in lines if line["file"] == str(file))
    assert first["event"] == "repaired"
    assert first["time"] == "2017-07-14T02:40:00+00:00"
    assert (first["volume"], first["fault"]) == ("v0", report.faults[0].kind)
    assert first["contentkey"] == str(report.faults[0].key)
    assert holdfast.check(quick, REPAIR).faults == []
    assert audit(quick) == lines, "a second repair has nothing to add"


def test_what_is_lost_is_written_down_and_set_aside(quick: Path, organization: str) -> None:
    make(quick, 1, organization, 1)
    file = a_block_file(quick)
    flip(file, in_a_block(file))
    report = holdfast.check(quick, REPAIR)
    (lost,) = [fault for fault in report.faults if fault.kind == "content lost"]
    assert (lost.repaired, report.clean) == (False, False)
    assert {line["event"] for line in audit(quick) if line["contentkey"] == str(lost.key)} == {"not repaired"}
    (aside,) = (quick / "volumes" / "v0" / "lost").iterdir()
    assert b"HOLDFAST/1 block" in aside.read_bytes()
    assert holdfast.check(quick).faults == []


@pytest.mark.parametrize("lost", ["v0", "v1"])
def test_a_lost_volume_is_made_anew_from_replicas_if_asked(quick: Path, organization: str, lost: str) -> None:
    expected = make(quick, 2, organization, 2)
    shutil.rmtree(quick / "volumes" / lost)
    assert [fault.kind for fault in holdfast.check(quick).faults] == ["unreadable volume"]
    with holdfast.open(quick) as archive:  # the other volume has everything
        assert all(archive.contents.get(key) == kept.content for key, kept in expected.items())
    refused = holdfast.check(quick, REPAIR)
    assert not refused.clean
    assert not (quick / "volumes" / lost).exists(), "its disk may just not be mounted"
    holdfast.check(quick, CheckOptions(repair=True, recreate=True))
    again = holdfast.check(quick)
    assert (again.faults, again.notes) == ([], [])
    assert found_in(quick) == expected
    with holdfast.open(quick) as archive:
        assert all(len(archive.contents.stat(key).copies) == 1 for key in expected)


def test_without_any_volume_nothing_is_opened(quick: Path) -> None:
    make(quick, 1, "log", 1)
    shutil.rmtree(quick / "volumes" / "v0")
    with pytest.raises(VolumeDown, match=r"volume 'v0' is not there: '.*VOLUME' is missing"):
        holdfast.open(quick)


def test_replicas_left_behind_are_notes_that_a_repair_works_off(quick: Path) -> None:
    """More replicas are wanted than there are: harmless, told, and made up for."""
    expected = make(quick, 2, "log", 1)
    settings = quick / "holdfast.toml"
    settings.write_text(settings.read_text().replace("[store]", "[store]\nreplicas = 2", 1))
    report = holdfast.check(quick)
    assert report.faults == []
    assert report.notes == [
        f"{len(expected)} contents with fewer than 2 copies; 'holdfast check --repair' completes them"
    ]
    holdfast.check(quick, REPAIR)
    assert holdfast.check(quick).notes == []
    with holdfast.open(quick) as archive:
        assert all(len(archive.contents.stat(key).copies) == 1 for key in expected)


def test_a_report_is_clean_when_everything_is_repaired() -> None:
    fault = Fault("v0", "file", 7, "kind", "this", "that", remedy="do so")
    assert str(fault) == "kind in 'file' at 7: expected this, found that; do so"
    assert CheckReport().clean
    assert not CheckReport([fault]).clean
    assert CheckReport([replace(fault, repaired=True)]).clean


def test_a_plan_with_defaults_checks_clean(quick: Path) -> None:
    holdfast.init(quick, Plan(3, store=StoreSettings(replicas=3)))
    report = holdfast.check(quick, CheckOptions(deep=True, repair=True))
    assert (report.faults, report.blocks) == ([], 0)
