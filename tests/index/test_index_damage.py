"""A damaged index is told with the way out; a full disk costs nothing that was there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from index_samples import add, everything, finds, new_archive, pages, reading, update

from holdfast.archive import Archive
from holdfast.env import REAL, File, LocalFiles
from holdfast.env.files import Buffer
from holdfast.errors import DamagedIndex, FormatTooNew, VolumeFull
from holdfast.index import paths


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = new_archive(tmp_path_factory.mktemp("indexed") / "archive")
    add(path, pages(5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.index.build.WRITER_THREADS", 1)
        update(path)
    return path


@pytest.fixture
def archive_path(indexed: Path, tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    shutil.copytree(indexed, path)
    return path


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0x40
    path.write_bytes(content)


def first(index: Path, pattern: str) -> Path:
    return sorted(index.glob(pattern))[0]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "state flipped": lambda index: flipped(index / paths.STATE),
    "state no text": lambda index: (index / paths.STATE).write_bytes(b"\xff\xfe"),
    "state empty": lambda index: (index / paths.STATE).write_bytes(b""),
    "meta gone": lambda index: first(index, "words-*/meta.json").unlink(),
    "meta garbage": lambda index: first(index, "words-*/meta.json").write_bytes(b"{}"),
    "words gone": lambda index: shutil.rmtree(first(index, "words-*")),
    "segment gone": lambda index: first(index, "words-*/*.idx").unlink(),
    "removed garbage": lambda index: (index / paths.REMOVED).write_bytes(b"what is this?\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told(damage: str, archive_path: Path) -> None:
    DAMAGES[damage](archive_path / "index")
    with reading(archive_path) as archive:
        with pytest.raises(DamagedIndex, match="run 'holdfast index build'"):
            archive.index.view()
        assert archive.index.verify()


@pytest.mark.parametrize("pattern", ["words-*/*.pos", "words-*/*.term", "words-*/*.fast", "tables-*/captures-*"])
def test_flipped_bits_are_found(pattern: str, archive_path: Path) -> None:
    flipped(first(archive_path / "index", pattern))
    with reading(archive_path) as archive:
        assert archive.index.verify()


def test_a_sound_index_has_no_faults(indexed: Path) -> None:
    with reading(indexed) as archive:
        assert archive.index.verify() == []


def test_a_build_mends_everything(archive_path: Path) -> None:
    with reading(archive_path) as archive:
        before = everything(archive.index)
    for damage in ("state flipped", "segment gone", "removed garbage"):
        DAMAGES[damage](archive_path / "index")
    with reading(archive_path) as archive:
        archive.index.build()
        assert everything(archive.index) == before
        assert archive.index.verify() == []


def test_a_later_format_is_left_alone(archive_path: Path) -> None:
    state = archive_path / "index" / paths.STATE
    text = state.read_text().replace("holdfast-index 4", "holdfast-index 5")
    state.write_text(text)
    with reading(archive_path) as archive:
        with pytest.raises(FormatTooNew):
            archive.index.view()
        with pytest.raises(FormatTooNew):
            archive.index.update()
    assert state.read_text() == text


# -- a full disk -------------------------------------------------------------------------------------------------------


class FullFiles(LocalFiles):
    """A disk that is full for files of certain names."""

    def __init__(self, full: str) -> None:
        self.full = full

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        file = super().open(path, writable=writable, create=create)
        return _FullFile(file) if self.full and self.full in path.name and writable else file


class _FullFile:
    def __init__(self, file: File) -> None:
        self._file = file
        self.path = file.path
        self.read, self.size, self.sync, self.truncate = file.read, file.size, file.sync, file.truncate
        self.close = file.close

    def append(self, buffers: Sequence[Buffer]) -> None:
        self._file.append([b"half"])
        raise VolumeFull(f"no space left for '{self.path}'")


@pytest.mark.parametrize("full", ["captures-", "links-", "STATE"])
def test_a_full_disk(full: str, archive_path: Path) -> None:
    add(archive_path, pages(3, 5))
    files = FullFiles(full)
    with Archive(archive_path, read_only=True, env=replace(REAL, files=files)) as archive:
        with pytest.raises(VolumeFull):
            archive.index.update()
        assert len(finds(archive.index, "common")) == 5
        files.full = ""
        archive.index.update()
        assert len(finds(archive.index, "common")) == 8
        assert archive.index.verify() == []
