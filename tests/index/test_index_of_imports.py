"""Imports by Python leave an index, as those by the command line do (N8)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import holdfast
from holdfast import ImportOptions
from holdfast.archive.index_update import start_process
from holdfast.config import INDEX_VARIABLE
from holdfast.errors import InvalidSetting
from holdfast.index import paths

WARC = (
    b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-00000000000%d>\r\n"
    b"WARC-Date: 2024-01-02T03:04:05Z\r\nWARC-Target-URI: http://a.example/%d\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 11\r\n\r\na grey whale\r\n\r\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for number in (1, 2):
        (tmp_path / f"{number}.warc").write_bytes(WARC.replace(b"%d", b"%d" % number).replace(b": 11", b": 12"))
    holdfast.init(tmp_path / "archive")
    return tmp_path / "archive"


def imported(path: Path, number: int, options: ImportOptions | None = None) -> None:
    with holdfast.open(path) as archive:
        reports = list(archive.import_files([path.parent / f"{number}.warc"], options or ImportOptions()))
        assert [report.added for report in reports] == [1]


def found(path: Path) -> int:
    with holdfast.open(path, read_only=True) as archive:
        return archive.query("whale").total if archive.index.exists else -1


def test_an_import_is_indexed_when_it_is_done(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INDEX_VARIABLE)
    imported(path, 1)
    assert found(path) == 1
    imported(path, 2, ImportOptions(index=False))
    assert found(path) == 1


def test_the_environment_and_the_options_decide_before_the_settings(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (path / "holdfast.toml").open("a") as settings:
        settings.write("\n[index]\nautomatic = false\n")
    monkeypatch.delenv(INDEX_VARIABLE)
    imported(path, 1)
    assert found(path) == -1
    monkeypatch.setenv(INDEX_VARIABLE, "maybe")
    with pytest.raises(InvalidSetting, match="bad value 'maybe' of HOLDFAST_INDEX_AUTOMATIC"):
        imported(path, 2)
    imported(path, 2, ImportOptions(index=True))
    assert found(path) == 2, "nothing was added by the import that was refused"


def test_an_import_does_not_fail_because_the_index_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(INDEX_VARIABLE, "true")
    imported(path, 1)
    (path / paths.index_directory(path).name / paths.STATE).write_bytes(b"torn")
    with caplog.at_level(logging.WARNING):
        imported(path, 2)
    assert "was not brought up to date" in caplog.text


def test_a_process_that_catches_up_ends_cleanly_while_its_starter_lives(path: Path) -> None:
    """A thread of it waits for the end of standard input; that must not abort the interpreter when it ends."""
    imported(path, 1, ImportOptions(index=False))
    with start_process("catch_up", path) as process:
        assert process.wait() == 0
    assert found(path) == 1
