"""An archive with a volume in an object store: damage is named and mended, and the commands know it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from object_world import bucket_at, settings

import holdfast
from holdfast import Archive, VolumeSettings
from holdfast.archive.create import Plan
from holdfast.cli.main import cli
from holdfast.env import paths
from holdfast.errors import Damaged, VolumeDown
from holdfast.storage.maintenance.check import CheckOptions
from holdfast.storage.store.put import StoreOptions

pytest_plugins = ["object_fixtures"]

IN_OBJECTS = StoreOptions(volume="v1")


def page(number: int) -> bytes:
    return b"<p>page %d</p>" % number * 50


def archive_with_objects(path: Path, url: str, *, replicas: int = 1) -> Archive:
    """One local volume that takes nothing unless there are replicas, and one in the store."""
    holdfast.init(path, Plan(store=settings(train_after=0, codec="none", replicas=replicas)))
    archive = holdfast.open(path)
    archive.add_volume(VolumeSettings("v1", url=url))
    return archive


def flip(url: str, key: str, offset: int) -> None:
    bucket = bucket_at(url)
    data = bytearray(bucket.get(key))
    data[offset] ^= 0x20
    bucket.put(key, data)


def first_object(url: str) -> str:
    return min(bucket_at(url).sizes("segments/"))


def test_a_damaged_byte_in_an_object_is_named_and_mended(tmp_path: Path, url: str) -> None:
    with archive_with_objects(tmp_path / "a", url) as archive:
        keys = [archive.contents.put(page(number), IN_OBJECTS) for number in range(60)]
    assert holdfast.check(tmp_path / "a").clean
    key = first_object(url)
    flip(url, key, 96 + 320 + 5)  # in the data of the first block
    (fault,) = holdfast.check(tmp_path / "a").faults
    assert (fault.volume, Path(fault.file).name, fault.offset, fault.key) == ("v1", "000001.seg", 96, keys[0])
    with holdfast.open(tmp_path / "a") as archive:
        with pytest.raises(Damaged, match=r"000001\.seg"):
            archive.contents.get(keys[0])
        assert archive.contents.get(keys[1]) == page(1)
    report = holdfast.check(tmp_path / "a", CheckOptions(repair=True))
    assert not report.clean, "there is no other copy"
    assert holdfast.check(tmp_path / "a").clean
    with holdfast.open(tmp_path / "a") as archive:
        assert [archive.contents.get(each) for each in keys[1:]] == [page(number) for number in range(1, 60)]
    assert key not in bucket_at(url).sizes("segments/")


@pytest.mark.parametrize("place", [96 + 320 + 5, 96 + 40], ids=["data", "header"])
def test_a_damaged_byte_in_an_object_is_healed_by_the_next_store(tmp_path: Path, url: str, place: int) -> None:
    with archive_with_objects(tmp_path / "a", url) as archive:
        keys = [archive.contents.put(page(number), IN_OBJECTS) for number in range(60)]
    flip(url, first_object(url), place)
    with holdfast.open(tmp_path / "a", read_only=True) as archive, pytest.raises(Damaged):
        archive.contents.get(keys[0])
    with holdfast.open(tmp_path / "a") as archive:
        stored = archive.contents.store(page(0), IN_OBJECTS)
        assert (stored.key, stored.references) == (keys[0], 2)
        assert archive.contents.get(keys[0]) == page(0)
    assert holdfast.check(tmp_path / "a").clean
    with holdfast.open(tmp_path / "a") as archive:
        archive.compact("v1")
        assert [archive.contents.get(each) for each in keys] == [page(number) for number in range(60)]
        assert archive.contents.stat(keys[0]).references == 2
    report = holdfast.check(tmp_path / "a", CheckOptions(deep=True))
    assert (report.faults, report.notes) == ([], [])


def test_a_missing_object_is_healed_content_by_content(tmp_path: Path, url: str) -> None:
    with archive_with_objects(tmp_path / "a", url) as archive:
        keys = [archive.contents.put(page(number), IN_OBJECTS) for number in range(60)]
    bucket_at(url).delete(first_object(url))
    assert holdfast.check(tmp_path / "a").faults
    with holdfast.open(tmp_path / "a") as archive:
        stored = [archive.contents.store(page(number), IN_OBJECTS) for number in range(60)]
        assert [each.key for each in stored] == keys
        assert {each.references for each in stored} == {2}
        assert [archive.contents.get(each) for each in keys] == [page(number) for number in range(60)]
    assert holdfast.check(tmp_path / "a").clean


def test_a_missing_object_is_named_and_restored_from_a_replica(tmp_path: Path, url: str) -> None:
    with archive_with_objects(tmp_path / "a", url, replicas=2) as archive:
        keys = [archive.contents.put(page(number)) for number in range(60)]
    bucket_at(url).delete(first_object(url))
    faults = holdfast.check(tmp_path / "a").faults
    assert any(fault.kind == "missing segment" and fault.file.endswith("000001.seg") for fault in faults)
    assert holdfast.check(tmp_path / "a", CheckOptions(repair=True)).clean
    report = holdfast.check(tmp_path / "a", CheckOptions(deep=True))
    assert (report.faults, report.notes) == ([], [])
    with holdfast.open(tmp_path / "a") as archive:
        assert [archive.contents.get(each) for each in keys] == [page(number) for number in range(60)]


def test_a_damaged_volume_file_comes_back_from_the_store(tmp_path: Path, url: str) -> None:
    with archive_with_objects(tmp_path / "a", url) as archive:
        key = archive.contents.put(page(1), IN_OBJECTS)
    (tmp_path / "a" / "volumes" / "v1" / paths.VOLUME).write_bytes(b"HOLDFAST-VOLUME/1 nonsense\n")
    assert holdfast.check(tmp_path / "a").clean
    with holdfast.open(tmp_path / "a") as archive:
        assert archive.contents.get(key) == page(1)


def test_the_command_takes_a_lost_volume_over(tmp_path: Path, url: str) -> None:
    path = tmp_path / "a"
    with archive_with_objects(path, url) as archive:
        keys = [archive.contents.put(page(number), IN_OBJECTS) for number in range(60)]
    shutil.rmtree(path / "volumes" / "v1")
    with holdfast.open(path) as archive:
        assert "holdfast volume take-over v1" in str(archive.instance.down["v1"])
        with pytest.raises(VolumeDown):
            archive.contents.get(keys[0])
    assert CliRunner().invoke(cli, ["volume", "take-over", "-a", str(path), "v1"]).exit_code == 0
    with holdfast.open(path) as archive:
        assert [archive.contents.get(each) for each in keys] == [page(number) for number in range(60)]
    assert holdfast.check(path).clean
    refused = CliRunner().invoke(cli, ["volume", "take-over", "-a", str(path), "v0"])
    assert "not in an object store" in str(refused.exception or refused.output)
