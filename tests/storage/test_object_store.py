"""A volume in an object store: what is here and what is there, a store that is away, a directory that is lost."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from object_store import S3Server
from object_world import (
    bucket_at,
    content,
    fill,
    objects_in,
    opened,
    segments_here,
    settings,
    wait_for_upload,
)
from waiting import wait_until

from holdfast.config import VolumeSettings
from holdfast.env import REAL, paths
from holdfast.errors import Busy, DamagedBlock, UsageError, VolumeDown, VolumeFull
from holdfast.storage.volume import BlockKey, Refer, Release
from holdfast.storage.volumes.log.compaction import compact
from holdfast.storage.volumes.object.upload_list import adopt
from holdfast.storage.volumes.object.volume import require_attached, take_over
from holdfast.storage.volumes.organizations import create_volume, open_volume_reader
from holdfast.testing.volumes import fetched, perform, scanned, sign, totals

pytest_plugins = ["object_fixtures"]


def test_segments_move_into_the_store_and_are_read_there(tmp_path: Path, url: str) -> None:
    with closing(opened(tmp_path, url)) as volume:
        fill(volume, range(200))
        wait_for_upload(volume, tmp_path)
        assert len(objects_in(url)) > 5
        blocks = volume.fetch([BlockKey(sign(number)) for number in (150, 3, 999, 77)])
        assert [block and bytes(block.encoded.data) for block in blocks] == [
            content(150),
            content(3),
            None,
            content(77),
        ]
        expected = scanned(volume)
        assert [data for _, data, _ in expected] == [content(number) for number in range(200)]
        with closing(open_volume_reader("v0", tmp_path, settings(), REAL)) as reader:
            assert scanned(reader) == expected
            assert totals(reader) == totals(volume)
            fill(volume, range(200, 400))
            wait_for_upload(volume, tmp_path)
            reader.refresh()
            assert len(scanned(reader)) == 400


def test_everything_is_in_the_store_after_a_clean_close(tmp_path: Path, url: str) -> None:
    with closing(opened(tmp_path, url)) as volume:
        fill(volume, range(50))
        tail = max(segments_here(tmp_path))
    assert objects_in(url) == {f"{number:06d}.seg" for number in range(1, int(tail[:6]) + 1)}


def test_short_lives_do_not_make_small_segments(tmp_path: Path, url: str) -> None:
    for number in range(5):
        with closing(opened(tmp_path, url)) as volume:
            fill(volume, range(number, number + 1))
    assert objects_in(url) == segments_here(tmp_path) == {"000001.seg"}


def test_a_lost_directory_is_rebuilt_from_the_store(tmp_path: Path, url: str) -> None:
    directory = tmp_path / "volume"
    volume_settings = VolumeSettings("v0", url=url)
    with closing(opened(directory, url)) as volume:
        fill(volume, range(200))
        volume.commit([Release(BlockKey(sign(number))) for number in range(0, 200, 3)])
        volume.commit([Refer(BlockKey(sign(number))) for number in range(1, 200, 3)])
        volume.add_dictionary(7, b"a dictionary")
        compact(volume)
        expected, counts = scanned(volume), totals(volume)
    shutil.rmtree(directory)
    with pytest.raises(VolumeDown, match="holdfast volume take-over v0"):
        require_attached(volume_settings, directory, REAL)
    take_over(directory, volume_settings, REAL)
    take_over(directory, volume_settings, REAL)  # once is enough
    with closing(opened(directory, url)) as volume:
        assert (scanned(volume), totals(volume)) == (expected, counts)
        assert volume.dictionary() == (7, b"a dictionary")
        fill(volume, range(1000, 1100))
        assert len(scanned(volume)) == len(expected) + 100
    with closing(opened(directory, url)) as volume:
        assert len(scanned(volume)) == len(expected) + 100


def test_compaction_replaces_objects(tmp_path: Path, url: str) -> None:
    with closing(opened(tmp_path, url)) as volume:
        fill(volume, range(200))
        wait_for_upload(volume, tmp_path)
        before = objects_in(url)
        volume.commit([Release(BlockKey(sign(number))) for number in range(200) if number % 10])
        scan = volume.scan()
        blocks = next(scan)
        compact(volume)
        blocks += [block for batch in scan for block in batch]
        assert [bytes(block.encoded.data) for block in blocks] == [content(number) for number in range(0, 200, 10)]
        del scan, blocks
        wait_for_upload(volume, tmp_path)
        assert not before & objects_in(url)
        assert [data for _, data, _ in scanned(volume)] == [content(number) for number in range(0, 200, 10)]


@pytest.mark.usefixtures("no_object_cache")
def test_a_reader_goes_on_though_the_writer_compacts(tmp_path: Path, url: str) -> None:
    with closing(opened(tmp_path, url)) as volume:
        fill(volume, range(300))
        wait_for_upload(volume, tmp_path)
        with closing(open_volume_reader("v0", tmp_path, settings(), REAL)) as reader:
            scan = reader.scan()
            blocks = next(scan)
            volume.commit([Release(BlockKey(sign(number))) for number in range(0, 300, 2)])
            compact(volume)
            wait_for_upload(volume, tmp_path)
            blocks += [block for batch in scan for block in batch]
            numbers = [block.key.signature for block in blocks]
            assert len(numbers) == len(set(numbers))
            assert {sign(number) for number in range(1, 300, 2)} <= set(numbers)
            assert fetched(reader, BlockKey(sign(1))) == (content(1), 1)


# -- whose it is -------------------------------------------------------------------------------------------------------


def test_a_store_belongs_to_one_directory(tmp_path: Path, url: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with closing(opened(first, url)) as volume:
        fill(volume, range(10))
    with pytest.raises(UsageError, match="take-over"):
        create_volume(second, VolumeSettings("v0", url=url), settings(), REAL)
    take_over(second, VolumeSettings("v0", url=url), REAL)
    with pytest.raises(Busy, match=r"second.*holdfast volume take-over"):
        opened(first, url)
    with closing(opened(second, url)) as volume:
        assert len(scanned(volume)) == 10


def test_an_owner_that_was_replaced_refuses_to_write(tmp_path: Path, url: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    volume = opened(first, url)
    fill(volume, range(50))
    wait_for_upload(volume, first)
    take_over(second, VolumeSettings("v0", url=url), REAL)
    known = objects_in(url)
    fill(volume, range(100, 150))
    wait_until(lambda: volume.uploader.failure is not None, "the old owner hears that it was replaced")
    with pytest.raises(VolumeDown, match="taken over"):
        fill(volume, range(200, 250))
    volume.close()
    assert objects_in(url) == known
    with closing(opened(second, url)) as successor:
        fill(successor, range(300, 310))
    take_over(first, VolumeSettings("v0", url=url), REAL)
    assert list((first / paths.LOST).glob("*.seg")), "what never reached the store is set aside"
    with closing(opened(first, url)) as volume:
        assert fetched(volume, BlockKey(sign(305))) == (content(305), 1)


def test_an_old_copy_of_the_directory_is_noticed(tmp_path: Path, url: str) -> None:
    directory, copy = tmp_path / "volume", tmp_path / "copy"
    with closing(opened(directory, url)) as volume:
        fill(volume, range(100))
    shutil.copytree(directory, copy)
    with closing(opened(directory, url)) as volume:
        fill(volume, range(100, 200))
    with pytest.raises(Busy, match="old copy"):
        opened(copy, url)
    take_over(copy, VolumeSettings("v0", url=url), REAL)
    with closing(opened(copy, url)) as volume:
        assert len(scanned(volume)) == 200


def test_late_uploads_of_a_replaced_owner_do_not_count() -> None:
    keys = ["000001/000001.seg", "000001/000002.seg", "000002/000002.seg", "000001/000003.seg", "000002/000001-1.seg"]
    found, late = adopt({f"segments/{key}": 1 for key in keys} | {"segments/000001/else": 1, "VOLUME": 1})
    assert {each.key.removeprefix("segments/") for each in found.values()} == {
        "000001/000001.seg",
        "000002/000002.seg",
        "000002/000001-1.seg",
    }
    assert late == ["segments/000001/000002.seg", "segments/000001/000003.seg"]


def test_the_list_of_what_is_uploaded_can_be_lost(tmp_path: Path, url: str) -> None:
    with closing(opened(tmp_path, url)) as volume:
        fill(volume, range(100))
        expected = scanned(volume)
    for harm in (Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-20])):
        harm(tmp_path / paths.UPLOADED)
        with closing(opened(tmp_path, url)) as volume:
            assert scanned(volume) == expected


@pytest.mark.usefixtures("no_object_cache")
def test_an_object_that_vanishes_is_damage(tmp_path: Path, url: str) -> None:
    with closing(opened(tmp_path, url)) as volume:
        fill(volume, range(100))
        wait_for_upload(volume, tmp_path)
        reader = open_volume_reader("v0", tmp_path, settings(), REAL)
        bucket_at(url).delete("segments/000001/000001.seg")
        for each in (volume, reader):
            with pytest.raises(DamagedBlock, match=r"000001\.seg' is missing.*check --repair"):
                each.fetch([BlockKey(sign(0))])
            with pytest.raises(DamagedBlock, match=r"000001\.seg' is missing.*check --repair"):
                scanned(each)
            assert fetched(each, BlockKey(sign(90))) == (content(90), 1)
        reader.close()


# -- a store that is away ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_object_cache")
def test_a_store_that_is_away_is_waited_for(tmp_path: Path, url: str, s3: S3Server) -> None:
    volume = opened(tmp_path, url, stage_bytes_max=100_000)
    fill(volume, range(100))
    wait_for_upload(volume, tmp_path)
    s3.kill()
    written = 100
    try:
        with pytest.raises(VolumeFull, match="stage_bytes_max"):
            while written < 2000:
                fill(volume, range(written, written + 10))
                written += 10
        assert written > 150, "writes go on for a while"
        with pytest.raises(VolumeDown):
            volume.fetch([BlockKey(sign(1))])
        assert fetched(volume, BlockKey(sign(written - 1))) == (content(written - 1), 1)
        volume.close()  # what is staged stays
        staged = segments_here(tmp_path)
        assert len(staged) > 3
        volume = opened(tmp_path, url)
        perform(volume, Refer(BlockKey(sign(written - 1))))
    finally:
        s3.start()
    wait_for_upload(volume, tmp_path)
    fill(volume, range(5000, 5100))
    assert [data for _, data, _ in scanned(volume)][:written] == [content(number) for number in range(written)]
    volume.close()
    assert staged <= objects_in(url)


def test_a_server_that_is_killed_under_load_loses_nothing(tmp_path: Path, url: str, s3: S3Server) -> None:
    with closing(opened(tmp_path, url)) as volume:
        fill(volume, range(300))
        s3.kill()
        fill(volume, range(300, 400))
        s3.start()
        fill(volume, range(5000, 5100))
        wait_for_upload(volume, tmp_path)
        stored = [data for _, data, _ in scanned(volume)]
    numbers = [*range(400), *range(5000, 5100)]
    assert stored == [content(number) for number in numbers]
