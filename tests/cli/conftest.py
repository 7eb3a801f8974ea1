"""Places to run the program in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from program import Shell
from warcs import write_warc


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A directory without an archive."""
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def empty_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once, to be copied."""
    shell = Shell(tmp_path_factory.mktemp("empty"))
    shell("init", ".", "--volumes", "2")
    return shell.directory


@pytest.fixture
def archive(shell: Shell, empty_archive: Path) -> Shell:
    """A directory that is an empty archive with two volumes."""
    shutil.copytree(empty_archive, shell.directory, dirs_exist_ok=True)
    return shell


@pytest.fixture(scope="session")
def filled_archive(tmp_path_factory: pytest.TempPathFactory, empty_archive: Path) -> Path:
    """Made once, to be copied: the pages of `warcs.PAGES` in collection main and batch pages."""
    directory = tmp_path_factory.mktemp("filled")
    shutil.copytree(empty_archive, directory, dirs_exist_ok=True)
    shell = Shell(directory)
    write_warc(directory / "pages.warc.gz")
    shell("import", "pages.warc.gz", "--batch", "pages")
    return directory


@pytest.fixture
def filled(shell: Shell, filled_archive: Path) -> Shell:
    """A directory that is an archive with a few captures, and holds the file that they came from."""
    shutil.copytree(filled_archive, shell.directory, dirs_exist_ok=True)
    return shell


@pytest.fixture
def shown(filled_archive: Path) -> Shell:
    """The same for those who only look: they share it."""
    return Shell(filled_archive)
