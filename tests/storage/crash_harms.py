"""Archives that come to harm, and the ways in which they do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from crash_archive import copy, files_of, found_in, make

import holdfast
from holdfast.storage.maintenance.check import CheckOptions, CheckReport

REPAIR = CheckOptions(repair=True)


def mask(offset: int) -> int:
    return 0xFF if offset % 9 == 8 else 1 << offset % 9 % 8


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


class Surgeon:
    """Does harm to one volume of a patient."""

    def __init__(self, patient: Patient, volume: str = "v0") -> None:
        self.patient = patient
        self.directory = patient.path / "volumes" / volume

    def segments(self) -> list[Path]:
        return sorted(self.directory.glob("*.seg"))

    def blocks(self) -> list[Path]:
        return sorted(path for path in (self.directory / "tree").rglob("*") if path.is_file())

    def pages(self) -> list[Path]:
        return sorted(
            [*self.directory.glob("buckets-*"), *self.directory.glob("overflow"), *self.directory.glob("redo")]
        )

    def files(self) -> list[Path]:
        return self.segments() or self.blocks() or self.pages()

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


def cut_short(surgeon: Surgeon, random: Random) -> None:
    path = random.choice(surgeon.files())
    surgeon.cut(path, random.randrange(path.stat().st_size))


def empty_file(surgeon: Surgeon, random: Random) -> None:
    surgeon.cut(random.choice(surgeon.files()), 0)


def missing_file(surgeon: Surgeon, random: Random) -> None:
    random.choice(surgeon.files()).unlink()


def missing_last_file(surgeon: Surgeon, random: Random) -> None:
    surgeon.files()[-1].unlink()


def zeros(surgeon: Surgeon, random: Random) -> None:
    path = random.choice(surgeon.files())
    surgeon.overwrite(path, random.randrange(path.stat().st_size), bytes(700))


def garbage(surgeon: Surgeon, random: Random) -> None:
    path = random.choice(surgeon.files())
    surgeon.overwrite(path, random.randrange(path.stat().st_size), random.randbytes(500))


def appended_garbage(surgeon: Surgeon, random: Random) -> None:
    surgeon.append(random.choice(surgeon.files()), random.randbytes(400))


def repeated_end(surgeon: Surgeon, random: Random) -> None:
    """Sound entries, but of the past."""
    path = random.choice(surgeon.files())
    surgeon.append(path, path.read_bytes()[-random.randrange(330, 800) :])


def two_places(surgeon: Surgeon, random: Random) -> None:
    for path in random.sample(surgeon.files(), 2):
        surgeon.overwrite(path, random.randrange(path.stat().st_size), random.randbytes(3))


def exchanged_files(surgeon: Surgeon, random: Random) -> None:
    one, other = random.sample(surgeon.files(), 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def missing_volume_file(surgeon: Surgeon, random: Random) -> None:
    (surgeon.directory / "VOLUME").unlink()


Harm = Callable[[Surgeon, Random], None]
HARMS: list[Harm] = [
    cut_short,
    empty_file,
    missing_file,
    missing_last_file,
    zeros,
    garbage,
    appended_garbage,
    repeated_end,
    two_places,
    exchanged_files,
    missing_volume_file,
]
