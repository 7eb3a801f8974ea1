"""The journal: what is appended is there, whatever happens to the process, the power or the bytes (I3, I4)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from holdfast.batches import batch
from holdfast.batches.batch import Batch, BatchState
from holdfast.batches.entry import REMOVED, JournalEntry
from holdfast.batches.frame import Passed, Walked, frame_compressor
from holdfast.batches.journal import Journal
from holdfast.batches.verify import verify_batch
from holdfast.env import REAL, Environment
from holdfast.errors import BatchSealed, FormatTooNew, UnknownName
from holdfast.testing.forgetful_files import ForgetfulFiles, PowerCut


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little data makes many frames and files."""
    monkeypatch.setattr(batch, "FRAME_BYTES", 1024)
    monkeypatch.setattr(batch, "FILE_BYTES_MAX", 8192)


def entry(number: int) -> JournalEntry:
    return JournalEntry(
        "response", f"http://example.org/{number}", "20261116000000", Random(number).randbytes(150), ip="::1"
    )


def entries(start: int, count: int) -> list[JournalEntry]:
    return [entry(number) for number in range(start, start + count)]


def journal(root: Path, env: Environment = REAL, *, writable: bool = True) -> Journal:
    return Journal(root, env, writable=writable)


def filled(root: Path, count: int = 100) -> Journal:
    opened = journal(root)
    for start in range(0, count, 10):
        opened.append("b", entries(start, 10))
    return opened


def read_all(opened: Journal, batch: str = "b") -> dict[int, JournalEntry]:
    return {
        each.serial: each
        for found in opened.walk(batch)
        if isinstance(found, Walked)
        for each in found.entries
        if each.serial
    }


def expected(count: int) -> dict[int, JournalEntry]:
    return {number + 1: entry(number)._replace(serial=number + 1) for number in range(count)}


def recovered(opened: Journal, batch: str = "b") -> list[Walked]:
    return list(opened.recover(batch, BatchState()))


def test_what_is_appended_is_there(tmp_path: Path) -> None:
    with_files = filled(tmp_path)
    assert read_all(with_files) == expected(100)
    assert len(with_files.files("b")) > 1
    for found in list(with_files.walk("b")):
        assert isinstance(found, Walked)
        if found.place.first_serial:
            assert with_files.read("b", found.place) == found.entries
    assert verify_batch("b", with_files.directory("b"), REAL).faults == []


def test_a_journal_goes_on_where_it_stopped(tmp_path: Path) -> None:
    filled(tmp_path, 50).close()
    again = journal(tmp_path)
    assert [each.serial for found in recovered(again) for each in found.entries if each.serial] == list(range(1, 51))
    again.append("b", entries(50, 10))
    assert read_all(again) == expected(60)


def test_only_what_is_not_known_is_recovered(tmp_path: Path) -> None:
    first = filled(tmp_path, 50)
    state = BatchState.unpack(first.batch("b").state().pack())
    first.append("b", entries(50, 3))
    first.close()
    again = journal(tmp_path)
    found = list(again.recover("b", state))
    assert [each.serial for walked in found for each in walked.entries if each.serial] == [51, 52, 53]
    assert again.batch("b").tail.next_serial == 54


def test_zstdcat_reads_a_finished_file(tmp_path: Path) -> None:
    opened = filled(tmp_path, 20)
    opened.batch("b").seal()
    name = min((tmp_path / "batches/b").glob("records-*"))
    text = subprocess.run(["zstd", "-dc", str(name)], check=True, capture_output=True).stdout
    assert text.count(b"\nurl: http://example.org/") == 20 or len(opened.files("b")) > 1
    assert text.startswith(b"version: 2.1\nserial: 0\ntype: batch\n")


def test_a_sealed_batch_takes_no_more(tmp_path: Path) -> None:
    opened = filled(tmp_path, 20)
    opened.batch("b").seal()
    opened.batch("b").seal()
    with pytest.raises(BatchSealed, match="sealed"):
        opened.append("b", entries(20, 1))
    report = verify_batch("b", opened.directory("b"), REAL)
    assert report.sealed
    assert report.records == 20
    assert report.faults == []


def test_a_copied_batch_is_a_backup(tmp_path: Path) -> None:
    filled(tmp_path / "one").close()
    shutil.copytree(tmp_path / "one/batches/b", tmp_path / "two/batches/b")
    assert read_all(journal(tmp_path / "two", writable=False)) == expected(100)


def test_an_unknown_batch_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no batch 'c': known are b"):
        filled(tmp_path, 10).require("c")


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_file_loses_its_tail_only(tmp_path: Path, seed: int) -> None:
    filled(tmp_path, 30).close()
    path = max((tmp_path / "batches/b").glob("records-*"))
    size = Random(seed).randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(size)
    again = journal(tmp_path)
    before = {each.serial for found in recovered(again) for each in found.entries if each.serial}
    assert before == set(range(1, len(before) + 1))
    again.append("b", entries(len(before), 5))
    assert read_all(again) == expected(len(before) + 5)
    assert verify_batch("b", again.directory("b"), REAL).faults == []


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_byte_costs_one_frame_and_is_named(tmp_path: Path, seed: int) -> None:
    opened = filled(tmp_path, 30)
    opened.batch("b").seal()
    opened.close()
    random = Random(seed)
    path = random.choice(sorted((tmp_path / "batches/b").glob("records-*")))
    data = bytearray(path.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    left = read_all(journal(tmp_path, writable=False))
    assert all(left[serial] == whole for serial, whole in expected(30).items() if serial in left)
    assert len(left) >= 30 - 10
    faults = verify_batch("b", tmp_path / "batches/b", REAL).faults
    assert any(fault.file == str(path) for fault in faults)


def test_overwritten_ranges_are_reported_exactly(tmp_path: Path) -> None:
    opened = filled(tmp_path, 30)
    frames = [found for found in opened.walk("b") if isinstance(found, Walked) and found.place.number == 1]
    place = frames[2].place
    path = min((tmp_path / "batches/b").glob("records-*"))
    data = bytearray(path.read_bytes())
    data[place.offset + 9 : place.offset + place.length] = bytes(place.length - 9)
    path.write_bytes(data)
    passed = [found for found in opened.walk("b") if isinstance(found, Passed)]
    assert [(each.offset, each.length) for each in passed] == [(place.offset, place.length)]


def test_a_rewritten_file_has_only_numbers_of_what_was_removed(tmp_path: Path) -> None:
    opened = filled(tmp_path, 30)
    batch = opened.batch("b")
    for number, generation in opened.files("b").items():
        batch.rewrite(number, generation, {3, 4, 29})
        batch.drop(number, generation)
    left = read_all(opened)
    assert left.keys() == set(range(1, 31))
    assert {serial for serial, each in left.items() if each.type == REMOVED} == {3, 4, 29}
    assert left[3].url == "-"
    raw = b"".join(path.read_bytes() for path in (tmp_path / "batches/b").iterdir())
    assert b"example.org/2\n" not in raw
    opened.append("b", entries(30, 2))
    assert read_all(opened)[31] == entry(30)._replace(serial=31)
    opened.close()
    again = journal(tmp_path)
    recovered(again)
    assert again.batch("b").tail.next_serial == 33


def _live(files: ForgetfulFiles, root: Path) -> int:
    """Appends, seals a file, rewrites; returns how many were acknowledged when the power went."""
    env = Environment(files=files)
    acknowledged = 0
    try:
        batch = Batch("b", root / "batches/b", env)
        for start in range(0, 60, 5):
            batch.append(entries(start, 5))
            acknowledged = start + 5
        batch.rewrite(1, 0, {2})
        batch.drop(1, 0)
    except PowerCut:
        pass
    return acknowledged


def test_a_power_cut_at_every_point(tmp_path: Path) -> None:
    root = Path("/archive")
    start = ForgetfulFiles()
    start.make_directory(root / "batches")
    whole = start.copy()
    _live(whole, root)
    for fuse in range(1, whole.points + 1):
        files = start.copy(fuse)
        acknowledged = _live(files, root)
        for seed in range(3):
            disk = files.after_power_cut(Random(1000 * fuse + seed))
            opened = Journal(root, Environment(files=disk), writable=True)
            if "b" in opened.names():
                recovered(opened)
            found = read_all(opened)
            assert found.keys() >= set(range(1, acknowledged + 1)), (fuse, seed)
            assert all(each.type == REMOVED or each == expected(60)[serial] for serial, each in found.items())
            opened.append("b", entries(len(found), 3))
            assert len(read_all(opened)) == len(found) + 3


def test_entries_of_a_later_release_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, 10).close()
    path = min((tmp_path / "batches/b").glob("records-*"))
    before = path.read_bytes()
    later = frame_compressor().compress(b"version: 3.0\nserial: 11\nlength: 0\n\n\n")
    path.write_bytes(before + later)
    with pytest.raises(FormatTooNew, match=r"version 3\.0"):
        recovered(journal(tmp_path))
    assert path.read_bytes() == before + later


def test_a_rewritten_file_keeps_what_is_damaged(tmp_path: Path) -> None:
    opened = filled(tmp_path, 30)
    batch = opened.batch("b")
    batch.finish_file()
    place = next(
        found.place for found in opened.walk("b") if isinstance(found, Walked) and found.place.first_serial > 5
    )
    path = opened.directory("b") / f"records-{place.number:06d}.tw.zst"
    data = bytearray(path.read_bytes())
    data[place.offset + 20] ^= 1
    path.write_bytes(data)
    lost = set(range(place.first_serial, place.first_serial + place.entries))
    batch.rewrite(place.number, 0, {2})
    batch.drop(place.number, 0)
    left = read_all(opened)
    assert left.keys() == set(range(1, 31)) - lost
    assert left[2].type == REMOVED
