"""What an archive takes on disk is what `du` says, and its parts and savings add up (P14)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast import Archive, VolumeSettings, page
from holdfast.archive.usage import disk_usage

BIG = b"<p>" + b"a few words, again and again " * 400
PAGES = 40


def du(path: Path) -> int:
    return int(subprocess.run(["du", "-s", "--block-size=1", path], capture_output=True, check=True).stdout.split()[0])


@pytest.fixture(params=["log", "tree", "hash", "hashed-log"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An archive with everything in it: contents, records, an index, a crawl's files, hard links."""
    path = tmp_path / "archive"
    holdfast.init(path, holdfast.Plan(volumes=2, organization=request.param))
    with holdfast.open(path) as archive:
        for year in ("2020", "2021"):
            archive.add(
                [
                    page(f"http://example.com/{number}", BIG + b"%d" % number, timestamp=f"{year}0102030405")
                    for number in range(PAGES)
                ]
            )
        archive.add([page("http://example.com/small", b"small", timestamp="20200102030405")])
        archive.index.update()
    crawl = path / "crawls" / "one"
    crawl.mkdir(parents=True)
    (crawl / "log.jsonl").write_bytes(b"x" * 10_000)
    os.link(crawl / "log.jsonl", crawl / "linked")
    (crawl / "sparse").touch()
    os.truncate(crawl / "sparse", 1 << 20)
    return path


def test_the_total_is_what_du_says(full: Path) -> None:
    with holdfast.open(full, read_only=True) as archive:
        usage = archive.usage()
        assert usage.disk.total == du(full)
        parts = usage.disk.as_dict()
    for part, name in {"contents": "volumes", "records": "batches", "catalog": "catalog", "index": "index"}.items():
        assert parts[part] == du(full / name) > 0, part
    assert parts["crawls"] == du(full / "crawls") < 1 << 20, "a sparse file takes little, a hard link nothing"
    assert usage.elsewhere_bytes == 0


def test_savings_add_up(full: Path) -> None:
    with holdfast.open(full, read_only=True) as archive:
        usage = archive.usage()
        totals = archive.catalog.totals()[0]["main"]
    assert totals.captures == 2 * PAGES + 1
    assert usage.captured_bytes == totals.payload_bytes
    assert usage.captured_bytes - usage.saved_by_duplicates_bytes == usage.unique_bytes
    assert usage.unique_bytes == PAGES * (len(BIG) + 1) + (PAGES - 10) + len(b"small")
    assert usage.content_bytes - usage.saved_by_compression_bytes == usage.stored_bytes < usage.content_bytes


def test_volumes_in_other_directories_are_counted_by_themselves(tmp_path: Path) -> None:
    path, other = tmp_path / "archive", tmp_path / "disk2"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        archive.add_volume(VolumeSettings("v1", path=str(other)))
        archive.add_volume(VolumeSettings("v2", path="extra/v2"))
    with holdfast.open(path, read_only=True) as archive:
        usage = archive.usage()
    assert usage.elsewhere_bytes == du(other) > 0
    assert usage.disk.total == du(path)
    assert usage.disk.contents == du(path / "volumes") + du(path / "extra" / "v2")


def test_files_may_go_while_they_are_counted(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir

    def with_a_ghost(place: str) -> list[str]:
        return [*listed(place), "gone"]

    monkeypatch.setattr("holdfast.archive.usage.os.listdir", with_a_ghost)
    assert disk_usage(full).total == du(full)


def test_an_archive_that_is_a_link(full: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(full)
    with holdfast.open(tmp_path / "link", read_only=True) as archive:
        assert isinstance(archive, Archive)
        assert archive.usage().disk.total == du(full)
