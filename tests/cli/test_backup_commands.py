"""`holdfast batch backup` and `batch restore`: a batch carried from one archive to another (I4)."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from random import Random

import pytest
from program import Shell
from warcs import write_warc

import holdfast


@pytest.fixture
def target(tmp_path: Path, empty_archive: Path) -> Shell:
    """Another archive, empty, with two volumes."""
    shutil.copytree(empty_archive, tmp_path / "target")
    return Shell(tmp_path / "target")


def test_backup_and_restore(filled: Shell, target: Shell, tmp_path: Path) -> None:
    filled("batch", "seal", "pages")
    text = filled("batch", "backup", "pages", tmp_path / "backup").text
    assert text.startswith(f"backed up batch 'pages', sealed, to '{tmp_path}/backup': 11 records (")
    rows = filled.quick("cdx", "*").lines
    assert [json.loads(line.split(" ", 2)[2])["url"] for line in Shell(tmp_path / "backup").quick("cdx", "*").lines]
    done = target("batch", "restore", tmp_path / "backup", "--index")
    assert done.text.startswith(f"restored batch 'pages', sealed, from '{tmp_path}/backup': 11 records (")
    assert "indexed 5 captures" in done.errors
    assert len(target.quick("cdx", "*").lines) == len(rows)
    assert target.quick("batch", "list").lines[1].split()[:3] == ["pages", "sealed", "5"]
    (summary,) = target("batch", "restore", tmp_path / "backup", "--json").objects
    assert (summary["event"], summary["clean"], summary["records"], summary["known"]) == ("summary", True, 0, 11)
    target("export", "--exact", "-o", tmp_path / "again.warc", "--source", "pages.warc.gz")
    filled("export", "--exact", "-o", tmp_path / "once.warc", "--source", "pages.warc.gz")
    assert (tmp_path / "again.warc").read_bytes() == (tmp_path / "once.warc").read_bytes()
    assert "no faults" in target("check", "--deep").errors + target("check", "--deep").text


def test_mistakes(filled: Shell, target: Shell, tmp_path: Path) -> None:
    assert "no batch 'nope': known are pages" in filled("batch", "backup", "nope", "b", code=2).errors
    assert "exists" in filled("batch", "backup", "pages", tmp_path, code=2).errors
    assert "not a backup of a batch" in target("batch", "restore", filled.directory, code=3).errors
    assert "not a backup of a batch" in target("batch", "restore", "nowhere", code=3).errors
    filled("batch", "backup", "pages", "b")
    write_warc(target.directory / "other.warc", [("http://new.org/", "2022-01-01T00:00:00Z", b"new")])
    target("import", "other.warc", "--batch", "pages")
    assert "another batch 'pages'" in target("batch", "restore", filled.directory / "b", code=2).errors


def test_damage_is_named_and_the_rest_is_restored(filled: Shell, target: Shell, tmp_path: Path) -> None:
    page = Random(1).randbytes(8192)  # small ones are kept in their records
    write_warc(filled.directory / "large.warc", [("http://large.org/", "2022-01-01T00:00:00Z", page)])
    filled("import", "large.warc", "--batch", "pages")
    report = filled("batch", "backup", "pages", tmp_path / "backup", "--json").objects[-1]
    with holdfast.open(tmp_path / "backup", read_only=True) as backup:
        stat = next(stat for stats in backup.contents.listing() for stat in stats)
    name, _, at = stat.place.rpartition("@")
    content = bytearray(Path(name).read_bytes())
    content[int(at) + 321] ^= 1
    Path(name).write_bytes(content)
    failed = target("batch", "restore", tmp_path / "backup", "--json", code=5).objects
    assert [each["kind"] for each in failed[:-1]] == ["missing content"] * (len(failed) - 1)
    assert (failed[-1]["event"], failed[-1]["clean"], failed[-1]["records"]) == ("summary", False, report["records"])
    assert "missing content" in target("check", code=5).text
    shutil.rmtree(tmp_path / "target")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, empty_archive: Path) -> Path:
    """An archive with a few megabytes in batch `big`; and its backup."""
    directory = tmp_path_factory.mktemp("large")
    shutil.copytree(empty_archive, directory / "source")
    pages = [(f"http://new.org/{n}", "2022-01-01T00:00:00Z", Random(n).randbytes(20_000)) for n in range(150)]
    write_warc(directory / "big.warc", pages)
    source = Shell(directory / "source")
    source("import", directory / "big.warc", "--batch", "big")
    source("batch", "backup", "big", directory / "backup")
    return directory


@pytest.mark.parametrize("limit", [1_000, 30_000, 400_000])
def test_a_full_disk(large: Path, target: Shell, tmp_path: Path, limit: int) -> None:
    """What there is no room for is told; once there is room, the same command goes on."""

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    def run(shell: Shell, *words: str | Path) -> None:
        done = subprocess.run(
            shell.command(*words),
            cwd=shell.directory,
            env=shell.environment(),
            capture_output=True,
            preexec_fn=full,
            check=False,
        )
        assert b"Traceback" not in done.stderr
        assert done.returncode in (7, 9), done  # RocksDB says "I/O error" where a file says "full"

    source = Shell(large / "source")
    run(source, "batch", "backup", "big", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    source("batch", "backup", "big", tmp_path / "backup")
    assert not list(tmp_path.glob("*.open"))
    run(target, "batch", "restore", tmp_path / "backup")
    target("batch", "restore", tmp_path / "backup")
    target("check")
    assert len(target.keys()) == 150


def test_ctrl_c(large: Path, target: Shell, tmp_path: Path) -> None:
    """The backup goes on where it was."""
    source = Shell(large / "source")
    with source.start("batch", "backup", "big", tmp_path / "backup") as process:
        while process.poll() is None and not (tmp_path / "backup.open/volumes/v0/000001.seg").exists():
            pass
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert b"Traceback" not in errors
    if process.returncode:
        assert b"run the same command again to continue" in errors
        assert not (tmp_path / "backup").exists()
        source("batch", "backup", "big", tmp_path / "backup")
    target("batch", "restore", tmp_path / "backup")
    target("check")
