"""Damage to any byte of any file of a volume: noticed or harmless, mended if there is a copy, and never contagious."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from crash_archive import Expected, copy, files_of, found_in, make, page, readable_in
from crash_world import quick  # noqa: F401

import holdfast
from holdfast import Plan
from holdfast.errors import Damaged, DamagedBlock
from holdfast.storage.check import CheckOptions, CheckReport

REPAIR = CheckOptions(repair=True)
SAMPLES = 24  # bytes of a file that is not flipped byte by byte
WHOLE = ("VOLUME",)

Harm = Callable[["Surgeon", Random], None]


@pytest.fixture(scope="module", params=["log", "tree"])
def organization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Patient:
    """An archive to be damaged, and a sound copy of it to begin anew with."""

    def __init__(self, root: Path, volumes: int, organization: str, replicas: int, *, killed: bool = False) -> None:
        self.sound, self.path = root / "sound", root / "harmed"
        self.expected = make(self.sound, volumes, organization, replicas)
        if killed:
            self._leave_as_a_kill_would(root / "killed")
        self.heal()

    def _leave_as_a_kill_would(self, killed: Path) -> None:
        """The keydir's log has entries, the last count is the end of its file, nothing was closed."""
        with holdfast.open(self.sound) as archive:
            for key in list(self.expected)[:5]:
                archive.contents.put(self.expected[key].content)
            copy(self.sound, killed)
        self.sound = killed
        self.expected = found_in(killed)

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


@pytest.mark.parametrize(
    "organization, killed", [("log", False), ("log", True), ("tree", False)], ids=["log", "killed log", "tree"]
)
def test_a_flipped_byte_is_noticed_or_harmless(quick: Path, organization: str, killed: bool) -> None:  # noqa: F811
    """Of a tree that was not closed, the last counter of a file cannot be told from one that was never acknowledged."""
    patient = Patient(quick, 1, organization, 1, killed=killed)
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
        for offset in list(offsets(patient, file))[::6]:
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


@pytest.mark.parametrize("organization, name", [("log", "VOLUME"), ("log", "000001-1.seg"), ("tree", "VOLUME")])
def test_a_damaged_version_is_not_taken_for_a_later_release(quick: Path, organization: str, name: str) -> None:  # noqa: F811
    patient = Patient(quick, 1, organization, 1)
    path = patient.path / "volumes" / "v0" / name
    path.write_bytes(path.read_bytes().replace(b"/1 ", b"/3 ", 1))
    assert holdfast.check(patient.path).faults
    assert patient.repaired().clean
    assert found_in(patient.path) == patient.expected


# -- more than a byte ---------------------------------------------------------------------------------------------------


class Surgeon:
    """Does harm to one volume of a patient."""

    def __init__(self, patient: Patient, volume: str = "v0") -> None:
        self.patient = patient
        self.directory = patient.path / "volumes" / volume

    def segments(self) -> list[Path]:
        return sorted(self.directory.glob("*.seg"))

    def blocks(self) -> list[Path]:
        return sorted(path for path in (self.directory / "tree").rglob("*") if path.is_file())

    def files(self) -> list[Path]:
        return self.segments() or self.blocks()

    def cut(self, path: Path, size: int) -> None:
        with path.open("r+b") as file:
            file.truncate(size)

    def overwrite(self, path: Path, offset: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(data[: max(0, path.stat().st_size - offset)])

    def append(self, path: Path, data: bytes) -> None:
        with path.open("ab") as file:
            file.write(data)


def _cut_short(surgeon: Surgeon, random: Random) -> None:
    path = random.choice(surgeon.files())
    surgeon.cut(path, random.randrange(path.stat().st_size))


def _empty_file(surgeon: Surgeon, random: Random) -> None:
    surgeon.cut(random.choice(surgeon.files()), 0)


def _missing_file(surgeon: Surgeon, random: Random) -> None:
    random.choice(surgeon.files()).unlink()


def _missing_last_file(surgeon: Surgeon, random: Random) -> None:
    surgeon.files()[-1].unlink()


def _zeros(surgeon: Surgeon, random: Random) -> None:
    path = random.choice(surgeon.files())
    surgeon.overwrite(path, random.randrange(path.stat().st_size), bytes(700))


def _garbage(surgeon: Surgeon, random: Random) -> None:
    path = random.choice(surgeon.files())
    surgeon.overwrite(path, random.randrange(path.stat().st_size), random.randbytes(500))


def _appended_garbage(surgeon: Surgeon, random: Random) -> None:
    surgeon.append(random.choice(surgeon.files()), random.randbytes(400))


def _repeated_end(surgeon: Surgeon, random: Random) -> None:
    """Sound entries, but of the past."""
    path = random.choice(surgeon.files())
    surgeon.append(path, path.read_bytes()[-random.randrange(330, 800) :])


def _two_places(surgeon: Surgeon, random: Random) -> None:
    for path in random.sample(surgeon.files(), 2):
        surgeon.overwrite(path, random.randrange(path.stat().st_size), random.randbytes(3))


def _exchanged_files(surgeon: Surgeon, random: Random) -> None:
    one, other = random.sample(surgeon.files(), 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _missing_volume_file(surgeon: Surgeon, random: Random) -> None:
    (surgeon.directory / "VOLUME").unlink()


HARMS = [
    _cut_short,
    _empty_file,
    _missing_file,
    _missing_last_file,
    _zeros,
    _garbage,
    _appended_garbage,
    _repeated_end,
    _two_places,
    _exchanged_files,
    _missing_volume_file,
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__.strip("_"))
def test_with_a_replica_no_harm_lasts(quick: Path, organization: str, harm: Harm) -> None:  # noqa: F811
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


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__.strip("_"))
def test_without_a_replica_harm_does_not_spread(quick: Path, organization: str, harm: Harm) -> None:  # noqa: F811
    patient = Patient(quick, 1, organization, 1)
    for seed in range(4):
        harm(Surgeon(patient), Random(seed))
        try:
            if harm in (_missing_file, _missing_last_file) and organization == "tree":
                _assert_nothing_else_is_harmed(patient)  # a tree has no index that would miss a file
            elif harm is _missing_volume_file:
                patient.repaired()
                assert found_in(patient.path) == patient.expected
            else:
                _assert_others_remain(patient, lost_max=len(patient.expected))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        patient.heal()


def _assert_nothing_else_is_harmed(patient: Patient) -> None:
    assert holdfast.check(patient.path).faults == []
    found = found_in(patient.path)
    assert found.items() <= patient.expected.items()
    assert len(found) == len(patient.expected) - 1


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_segment_of_another_volume_is_not_taken_for_ones_own(quick: Path, replicas: int) -> None:  # noqa: F811
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
def test_the_keydir_is_never_missed(quick: Path, harm: Callable[[Path], None]) -> None:  # noqa: F811
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


def test_a_tree_with_foreign_files_works(quick: Path) -> None:  # noqa: F811
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


def test_a_damaged_counter_of_a_tree_is_not_built_upon(quick: Path) -> None:  # noqa: F811
    """The last of several counters cannot be read: nobody may take the one before for the truth and go on from there."""
    holdfast.init(quick, Plan(1, "tree"))
    with holdfast.open(quick) as archive:
        key = [archive.contents.put(b"thrice") for _ in range(3)][0]
        (path,) = [each for each in (quick / "volumes" / "v0" / "tree").rglob("*") if each.is_file()]
        raw = path.read_bytes()
        path.write_bytes(raw[:-5] + b"XXXXX")
        for change in (lambda: archive.contents.delete(key), lambda: archive.contents.put(b"thrice")):
            with pytest.raises(DamagedBlock, match="check --repair"):
                change()
        path.write_bytes(raw)
        assert archive.contents.delete(key) == 2
