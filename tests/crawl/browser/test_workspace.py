"""Where browsers keep their files: what one that was killed has left is gone with the next run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.crawl.browser.chromium import close_workspace, open_workspace, temporary_files_in


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short, as that of the system is; `tmp_path`, which is asked of the system, is there before."""
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield


def test_what_is_left_of_a_crawl_is_found_by_the_next_run_and_by_no_other_crawl(tmp_path: Path) -> None:
    first = open_workspace(tmp_path / "crawl")
    assert first.stat().st_mode & 0o777 == 0o700
    assert str(first).startswith(tempfile.gettempdir())
    (first / "org.chromium").mkdir()
    (first / "org.chromium" / "SingletonSocket").symlink_to("nowhere")
    assert open_workspace(tmp_path / "other") != first
    assert list(first.iterdir()) != []
    assert open_workspace(tmp_path / "crawl") == first
    assert list(first.iterdir()) == []
    close_workspace(first)
    assert not first.exists()


def test_a_directory_that_somebody_else_has_put_there_is_left_alone(tmp_path: Path) -> None:
    path = open_workspace(tmp_path / "crawl")
    close_workspace(path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_bytes(b"1")
    path.symlink_to(tmp_path / "theirs")
    assert open_workspace(tmp_path / "crawl") != path
    assert (tmp_path / "theirs" / "file").exists()


def test_its_path_leaves_room_for_that_of_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 100)))
    path = open_workspace(tmp_path / ("y" * 200))
    close_workspace(path)
    assert len(f"{path}/org.chromium.Chromium.XXXXXX/SingletonSocket") < 108


def test_programs_that_are_started_learn_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "/before"):
        monkeypatch.delenv("TMPDIR", raising=False)
        if before is not None:
            monkeypatch.setenv("TMPDIR", before)
        with temporary_files_in(tmp_path):
            assert os.environ["TMPDIR"] == str(tmp_path)
        assert os.environ.get("TMPDIR") == before
