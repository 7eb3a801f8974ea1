"""Places to run the program in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from program import Shell


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
