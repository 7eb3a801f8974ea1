"""Damage to any byte of any file of a volume: noticed or harmless, mended if there is a copy, and never contagious."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from crash_archive import found_in, page, readable_in
from crash_harms import (
    HARMS,
    Harm,
    Patient,
    Surgeon,
    missing_file,
    missing_last_file,
    missing_volume_file,
)

import holdfast
from holdfast import CheckOptions, Plan, StoreSettings
from holdfast.env import REAL
from holdfast.errors import ContentNotFound, Damaged, DamagedBlock
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.organizations import find_organization, volume_spec

pytest_plugins = ["crash_fixtures"]

FEW, MANY = 3, 24  # bytes of a file that is not flipped byte by byte
WHOLE = ("VOLUME",)


@pytest.fixture(scope="module", params=["log", "tree", "hash", pytest.param("hashed-log", marks=pytest.mark.soak)])
def organization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=[FEW, pytest.param(MANY, marks=pytest.mark.soak)], ids=["few", "many"])
def samples(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def offsets(patient: Patient, file: Path, samples: int, *, whole: bool = False) -> Iterator[int]:
    """Every byte of a small file that matters, if `whole` or many are wanted; of others the first ones, the last ones,
    and some in between."""
    size = (patient.sound / file).stat().st_size
    if file.name in WHOLE and (whole or samples == MANY):
        yield from range(size)
        return
    edges = [*range(min(size, 2)), *range(max(0, size - 1), size)]
    yield from sorted({*edges, *Random(str(file.name)).sample(range(size), min(size, samples))})


@pytest.mark.parametrize(
    "organization, killed",
    [
        *(("log", False), ("log", True), ("tree", False), ("hash", False), ("hashed-log", False)),
        pytest.param("hashed-log", True, marks=pytest.mark.soak),
    ],
    ids=["log", "killed log", "tree", "hash", "hashed-log", "killed hashed-log"],
)
def test_a_flipped_byte_is_noticed_or_harmless(quick: Path, organization: str, killed: bool, samples: int) -> None:
    """Of a tree that was not closed, the last counter of a file cannot be told from one that was never acknowledged."""
    patient = Patient(quick, 1, organization, 1, killed=killed)
    if organization == "hashed-log":  # of which there are many small files
        samples //= 2
    for file in patient.files():
        for offset in offsets(patient, file, samples, whole=not killed):  # a kill leaves small files as they are
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


def test_every_byte_of_an_entry_and_of_a_segment_header_matters(quick: Path) -> None:
    patient = Patient(quick, 1, "log", 1)
    segment = max(patient.files(), key=lambda file: file.name if file.suffix == ".seg" else "")
    spec = volume_spec("v0", patient.path / "volumes" / "v0", StoreSettings(), REAL)
    assert not list(find_organization("log").check(spec, CheckProgress()))
    for offset in range(96 + 330):
        patient.flip(segment, offset)
        assert list(find_organization("log").check(spec, CheckProgress())), f"byte {offset} of '{segment}' was flipped"
        patient.flip(segment, offset)


def test_with_a_replica_everything_is_restored(quick: Path, organization: str, samples: int) -> None:
    patient = Patient(quick, 2, organization, 2)
    for file in patient.files():
        for offset in list(offsets(patient, file, samples))[::7]:
            patient.flip(file, offset)
            try:
                _assert_all_readable(patient)
                report = patient.repaired()
                assert report.clean, report.faults
                assert found_in(patient.path) == patient.expected
                _assert_copies(patient)
            except BaseException as error:
                error.add_note(f"byte {offset} of '{file}' was flipped")
                raise
            patient.heal()


def _assert_all_readable(patient: Patient) -> None:
    """Before any repair: what one volume lost, the other one gives."""
    with holdfast.open(patient.path, read_only=True) as archive:
        for key, kept in patient.expected.items():
            assert archive.contents.get(key) == kept.content


def _assert_copies(patient: Patient) -> None:
    with holdfast.open(patient.path) as archive:
        for key in patient.expected:
            assert len(archive.contents.stat(key).copies) == 1


def test_without_a_replica_all_others_remain(quick: Path, organization: str, samples: int) -> None:
    """Before the repair and after it; what is gone is reported, and nothing else."""
    patient = Patient(quick, 1, organization, 1)
    places = [file for file in patient.files() if "keydir" not in file.parts and file.name != "VOLUME"]
    for file in places:
        for offset in list(offsets(patient, file, samples))[::3]:
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


@pytest.mark.parametrize("organization, name", [("log", "VOLUME"), ("log", "000001-1.seg"), ("tree", "VOLUME")])
def test_a_damaged_version_is_not_taken_for_a_later_release(quick: Path, organization: str, name: str) -> None:
    patient = Patient(quick, 1, organization, 1)
    path = patient.path / "volumes" / "v0" / name
    path.write_bytes(path.read_bytes().replace(b"/1 ", b"/3 ", 1))
    assert holdfast.check(patient.path).faults
    assert patient.repaired().clean
    assert found_in(patient.path) == patient.expected


# -- more than a byte --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_with_a_replica_no_harm_lasts(quick: Path, organization: str, harm: Harm) -> None:
    patient = Patient(quick, 2, organization, 2)
    for seed in range(4):
        harm(Surgeon(patient, random_volume := f"v{seed % 2}"), Random(seed))
        try:
            _assert_all_readable(patient)
            patient.repaired()
            assert found_in(patient.path) == patient.expected
            _assert_copies(patient)
        except BaseException as error:
            error.add_note(f"seed {seed}, volume {random_volume}")
            raise
        patient.heal()


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_without_a_replica_harm_does_not_spread(quick: Path, organization: str, harm: Harm) -> None:
    patient = Patient(quick, 1, organization, 1)
    for seed in range(4):
        harm(Surgeon(patient), Random(seed))
        try:
            if harm in (missing_file, missing_last_file) and organization == "tree":
                _assert_nothing_else_is_harmed(patient)  # a tree has no index that would miss a file
            elif organization == "hash" and harm is not missing_volume_file:
                _assert_loss_is_told(patient)  # the names of blocks are where the blocks are
            elif harm is missing_volume_file:
                patient.repaired()
                assert found_in(patient.path) == patient.expected
            else:
                _assert_others_remain(patient, lost_max=len(patient.expected))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        patient.heal()


def _assert_loss_is_told(patient: Patient) -> None:
    before = readable_in(patient.path, patient.expected)
    report = patient.repaired()
    after = found_in(patient.path)
    assert before.items() <= after.items() <= patient.expected.items()
    told = [fault for fault in report.faults if fault.kind in ("content lost", "damaged journal")]
    assert bool(told) or after == patient.expected


def _assert_nothing_else_is_harmed(patient: Patient) -> None:
    assert holdfast.check(patient.path).faults == []
    found = found_in(patient.path)
    assert found.items() <= patient.expected.items()
    assert len(found) == len(patient.expected) - 1


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_segment_of_another_volume_is_not_taken_for_ones_own(quick: Path, replicas: int) -> None:
    patient = Patient(quick, 2, "log", replicas)
    mine, other = Surgeon(patient, "v0").segments(), Surgeon(patient, "v1").segments()
    shutil.copy(other[0], mine[0])
    faults = holdfast.check(patient.path).faults
    assert "wrong segment header" in {fault.kind for fault in faults}
    report = patient.repaired()
    lost = {fault.key for fault in report.faults if fault.kind == "content lost"}
    assert found_in(patient.path) == {key: kept for key, kept in patient.expected.items() if key not in lost}
    assert bool(lost) is (replicas == 1)


def _no_keydir(keydir: Path) -> None:
    shutil.rmtree(keydir)


def _empty_keydir(keydir: Path) -> None:
    shutil.rmtree(keydir)
    keydir.mkdir()


def _keydir_without(name: str) -> Callable[[Path], None]:
    def remove(keydir: Path) -> None:
        for path in keydir.glob(name):
            path.unlink()

    return remove


@pytest.mark.parametrize(
    "harm",
    [_no_keydir, _empty_keydir, *(_keydir_without(name) for name in ("CURRENT", "MANIFEST*", "*.sst", "*.log"))],
    ids=["all", "contents", "CURRENT", "MANIFEST", "tables", "log"],
)
def test_the_keydir_is_never_missed(quick: Path, harm: Callable[[Path], None]) -> None:
    """Readers and writers find everything or say what is wrong; never do they take the volume for empty."""
    patient = Patient(quick, 1, "log", 1, killed=True)
    keydir = Path("volumes", "v0", "keydir")
    for opening in ("reader", "writer", "repair"):
        patient.heal()
        harm(patient.path / keydir)
        try:
            if opening == "repair":
                patient.repaired()
            assert found_in(patient.path, read_only=opening != "writer") == patient.expected
        except Damaged as error:
            assert opening != "repair"
            assert "check --repair" in str(error)


def test_a_tree_with_foreign_files_works(quick: Path) -> None:
    patient = Patient(quick, 1, "tree", 1)
    stray = patient.path / "volumes" / "v0" / "tree" / "notes.txt"
    stray.write_text("left by somebody")
    assert [fault.file for fault in holdfast.check(patient.path).faults] == [str(stray)]
    assert found_in(patient.path) == patient.expected
    with holdfast.open(patient.path) as archive:
        archive.contents.delete(archive.contents.put(page(50)))
        archive.compact("v0")
    patient.repaired()
    assert found_in(patient.path) == patient.expected


def test_a_damaged_counter_of_a_tree_is_not_built_upon(quick: Path) -> None:
    """The last of several counters cannot be read: nobody may go on from the one before."""
    holdfast.init(quick, Plan(1, "tree"))
    with holdfast.open(quick) as archive:
        key, _, _ = (archive.contents.put(b"thrice") for _ in range(3))
        (path,) = [each for each in (quick / "volumes" / "v0" / "tree").rglob("*") if each.is_file()]
        raw = path.read_bytes()
        path.write_bytes(raw[:-5] + b"XXXXX")
        for change in (lambda: archive.contents.delete(key), lambda: archive.contents.put(b"thrice")):
            with pytest.raises(DamagedBlock, match="check --repair"):
                change()
        path.write_bytes(raw)
        assert archive.contents.delete(key) == 2


@pytest.mark.parametrize("opening", ["writer", "repair"])
@pytest.mark.parametrize("place", [0, 330], ids=["header", "data"])
def test_damage_in_the_last_segment_is_not_taken_for_a_torn_end(quick: Path, opening: str, place: int) -> None:
    """Without the keydir, only the entries themselves tell that what stands before them was durable."""
    holdfast.init(quick)
    with holdfast.open(quick) as archive:
        keys = [archive.contents.put(page(number)) for number in range(8)]
    (segment,) = quick.rglob("*.seg")
    raw = bytearray(segment.read_bytes())
    damaged = [match.start() for match in re.finditer(b"HOLDFAST/1 block", raw)][2]
    raw[damaged + place] ^= 1
    segment.write_bytes(raw)
    shutil.rmtree(quick / "volumes" / "v0" / "keydir")
    if opening == "repair":
        holdfast.check(quick, CheckOptions(repair=True))
    with holdfast.open(quick) as archive:
        archive.contents.put(page(99))
        for number in (0, 1, 3, 4, 5, 6, 7):
            assert archive.contents.get(keys[number]) == page(number)
        with pytest.raises((ContentNotFound, Damaged)):
            archive.contents.get(keys[2])
