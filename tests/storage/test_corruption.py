"""Damage to any byte of any file of a volume: noticed or harmless, mended if there is a copy, and never contagious."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from crash_archive import Expected, copy, files_of, found_in, make, page, readable_in
from crash_world import quick  # noqa: F401

import holdfast
from holdfast.storage.check import CheckOptions, CheckReport

REPAIR = CheckOptions(repair=True)
SAMPLES = 24  # bytes of a file that is not flipped byte by byte
WHOLE = ("VOLUME",)


@pytest.fixture(scope="module", params=["log", "tree"])
def organization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Patient:
    """An archive to be damaged, and a sound copy of it to begin anew with."""

    def __init__(self, root: Path, volumes: int, organization: str, replicas: int) -> None:
        self.sound, self.path = root / "sound", root / "harmed"
        self.expected = make(self.sound, volumes, organization, replicas)
        self.heal()

    def heal(self) -> None:
        copy(self.sound, self.path)

    def files(self) -> list[Path]:
        return files_of(self.sound)

    def flip(self, file: Path, offset: int) -> None:
        with (self.path / file).open("r+b") as handle:
            handle.seek(offset)
            byte = handle.read(1)[0]
            handle.seek(offset)
            handle.write(bytes([byte ^ mask(offset)]))

    def repaired(self) -> CheckReport:
        """Repairs; a second check is clean."""
        report = holdfast.check(self.path, REPAIR)
        again = holdfast.check(self.path)
        assert again.faults == [], again.faults
        return report


def mask(offset: int) -> int:
    return 0xFF if offset % 9 == 8 else 1 << offset % 9 % 8


def offsets(patient: Patient, file: Path) -> Iterator[int]:
    """Every byte of a small file that matters; of others the first ones, the last ones, and some in between."""
    size = (patient.sound / file).stat().st_size
    if file.name in WHOLE:
        yield from range(size)
        return
    edges = [*range(min(size, 3)), *range(max(0, size - 2), size)]
    yield from sorted({*edges, *Random(str(file.name)).sample(range(size), min(size, SAMPLES))})


def test_a_flipped_byte_is_noticed_or_harmless(quick: Path, organization: str) -> None:  # noqa: F811
    patient = Patient(quick, 1, organization, 1)
    for file in patient.files():
        for offset in offsets(patient, file):
            patient.flip(file, offset)
            report = holdfast.check(patient.path)
            if not report.faults:
                try:
                    _assert_harmless(patient)
                except BaseException as error:
                    error.add_note(f"byte {offset} of '{file}' was flipped, and check found nothing")
                    raise
                patient.heal()
            else:
                patient.flip(file, offset)


def _assert_harmless(patient: Patient) -> None:
    """Read by readers, opened for writing, used, and closed again: all contents and counters are as they were."""
    assert found_in(patient.path) == patient.expected
    with holdfast.open(patient.path) as archive:
        key = archive.contents.put(page(99))
        archive.contents.delete(key)
        archive.compact("v0")
    assert found_in(patient.path) == patient.expected
    assert holdfast.check(patient.path).faults == []


def test_every_byte_of_an_entry_and_of_a_segment_header_matters(quick: Path) -> None:  # noqa: F811
    patient = Patient(quick, 1, "log", 1)
    segment = max(patient.files(), key=lambda file: file.name if file.suffix == ".seg" else "")
    for offset in range(0, 96 + 330):
        patient.flip(segment, offset)
        assert holdfast.check(patient.path).faults, f"byte {offset} of '{segment}' was flipped"
        patient.flip(segment, offset)


def test_with_a_replica_everything_is_restored(quick: Path, organization: str) -> None:  # noqa: F811
    patient = Patient(quick, 2, organization, 2)
    for file in patient.files():
        for offset in list(offsets(patient, file))[::4]:
            patient.flip(file, offset)
            try:
                report = patient.repaired()
                assert report.clean, report.faults
                assert found_in(patient.path) == patient.expected
                _assert_copies(patient)
            except BaseException as error:
                error.add_note(f"byte {offset} of '{file}' was flipped")
                raise
            patient.heal()


def _assert_copies(patient: Patient) -> None:
    with holdfast.open(patient.path) as archive:
        for key in patient.expected:
            assert len(archive.contents.stat(key).copies) == 1


def test_without_a_replica_all_others_remain(quick: Path, organization: str) -> None:  # noqa: F811
    """Before the repair and after it; what is gone is reported, and nothing else."""
    patient = Patient(quick, 1, organization, 1)
    places = [file for file in patient.files() if "keydir" not in file.parts and file.name != "VOLUME"]
    for file in places:
        for offset in list(offsets(patient, file))[::3]:
            patient.flip(file, offset)
            try:
                _assert_others_remain(patient)
            except BaseException as error:
                error.add_note(f"byte {offset} of '{file}' was flipped")
                raise
            patient.heal()


def _assert_others_remain(patient: Patient, lost_max: int = 1) -> None:
    before = readable_in(patient.path, patient.expected)
    assert len(before) >= len(patient.expected) - lost_max
    assert {key: kept.content for key, kept in before.items()}.items() <= {
        key: kept.content for key, kept in patient.expected.items()
    }.items()
    report = patient.repaired()
    after = found_in(patient.path)
    lost = {fault.key for fault in report.faults if fault.kind == "content lost"}
    uncertain = {fault.key for fault in report.faults if fault.kind == "counter uncertain"}
    assert set(after) == set(patient.expected) - lost
    assert len(lost | uncertain) <= lost_max
    assert {key: kept for key, kept in after.items() if key not in uncertain}.items() <= patient.expected.items()
    assert report.clean is not bool(lost | uncertain)
