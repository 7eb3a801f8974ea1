"""What a crash leaves in the small files beside the journal, and how the next writer deals with it."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import pytest
from archive_warcs import exchange, response, write
from truths import PLAN, assert_exact, captures, import_all, references

import holdfast
from holdfast import Archive
from holdfast.archive.ingest import intent
from holdfast.archive.ingest.file_reader import ImportInput, inputs_of
from holdfast.archive.ingest.intent import IntentLog, Purpose
from holdfast.archive.ingest.writer import Refusals
from holdfast.env import REAL
from holdfast.errors import VolumeDown, VolumeFull
from holdfast.model import ContentKey
from holdfast.storage.store.put import Announced


def announced(number: int) -> Announced:
    return Announced(ContentKey("v0", bytes([number]) * 32), 10, 0)


def test_a_torn_line_does_not_spoil_the_next(quick: Path) -> None:
    """The file with nothing but a torn line is done away with, or the next line would be glued to it."""
    holdfast.init(quick / "archive", PLAN)
    (quick / "archive/intent").write_bytes(b'{"batch":"b","first":1,"cou')
    holdfast.open(quick / "archive").close()
    assert not (quick / "archive/intent").exists()


def test_lines_of_one_addition_stay_together(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long record announces piece by piece; the file is not emptied in its middle."""
    monkeypatch.setattr(intent, "_BYTES_MAX", 300)
    log = IntentLog(quick, REAL)
    for serial in range(1, 9):
        log.announce(Purpose("b", serial, 1), [announced(0)])
    for number in range(8):
        log.announce(Purpose("b", 9, 1), [announced(number)])
    found = log.last()
    assert found is not None
    assert [each.key for each in found.announced] == [announced(number).key for number in range(8)]
    log.close()


def test_refusals_survive_spoiled_lines(quick: Path) -> None:
    """Sectors that a power cut left as zeros cost no line but their own, and nobody the opening."""
    marks = [bytes([number]) * 16 for number in range(40)]
    refusals = Refusals(quick, REAL)
    refusals.add(marks)
    raw = bytearray((quick / "refused").read_bytes())
    raw[512:1024] = bytes(512)
    (quick / "refused").write_bytes(raw + b"0123")
    kept = [mark for number, mark in enumerate(marks) if 33 * number + 33 <= 512 or 33 * number >= 1024]
    assert list(refusals.all()) == kept
    refusals.add(marks)
    assert set(refusals.all()) == set(marks)
    (quick / "refused").write_bytes(bytes(66))
    refusals.add(marks[:2])
    assert list(refusals.all()) == marks[:2]


def test_a_failed_addition_leaves_nothing(archive: Archive, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents that were stored are taken back, and the first failure is the one that is told."""
    import_all(archive, write(quick / "a.warc", exchange("http://a.example/", b"shared")))
    before, listed = references(archive), captures(archive)
    from holdfast.batches.batch import Batch

    def full(*_: object) -> None:
        raise VolumeFull("no space left")

    large = response("http://b.example/large", Random(1).randbytes(9000))
    records = [*exchange("http://b.example/", b"shared"), response("http://c.example/", b"own")]
    for each in ([large], records):
        with monkeypatch.context() as patch, pytest.raises(VolumeFull):
            patch.setattr(Batch, "append", full)
            import_all(archive, write(quick / "b.warc", each))
        assert (references(archive), captures(archive)) == (before, listed)
        import_all(archive, write(quick / "b.warc", each))
        assert_exact(archive)
        before, listed = references(archive), captures(archive)


def test_what_a_full_disk_kept_from_being_undone_is_undone_later(
    archive: Archive, quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive need not be opened again once there is room."""
    import_all(archive, write(quick / "a.warc", exchange("http://a.example/", b"shared" * 100)))
    before, listed = references(archive), captures(archive)
    from holdfast.batches.batch import Batch

    def full(*_: object) -> None:
        raise VolumeFull("no space left")

    more = write(quick / "b.warc", exchange("http://b.example/", b"shared" * 100))
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "append", full)
        patch.setattr(IntentLog, "void", full)
        with pytest.raises(VolumeFull, match="no space left"):
            import_all(archive, more)
        with pytest.raises(VolumeDown, match="cannot be undone yet: no space left"):
            import_all(archive, more)
    assert captures(archive) == listed
    import_all(archive, more)
    assert_exact(archive)
    assert len(captures(archive)) > len(listed) and references(archive) != before


def test_a_batch_restored_from_an_older_copy(archive: Archive, quick: Path) -> None:
    """The catalog knows more of the file than there is; what is added afterwards can be read all the same."""
    import_all(archive, write(quick / "a.warc", exchange("http://a.example/", b"a")))
    (file,) = (quick / "archive/batches/b").iterdir()
    older = file.read_bytes()
    import_all(archive, write(quick / "b.warc", exchange("http://b.example/", b"b")))
    archive.close()
    file.write_bytes(older)
    with holdfast.open(quick / "archive") as again:
        import_all(again, write(quick / "c.warc", exchange("http://c.example/", b"c")))
        assert again.get("http://c.example/").payload() == b"c"
        assert again.get("http://a.example/").payload() == b"a"


def test_a_reader_that_fails_in_an_unknown_way(archive: Archive, quick: Path) -> None:
    """Then the file must not seem to be in, and the others are imported."""

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise RuntimeError("a bug")

    good = write(quick / "a.warc", exchange("http://a.example/", b"a"))
    inputs = [ImportInput("broken.warc", stream=Broken()), *inputs_of(good)]
    broken, fine = archive.import_files(inputs)
    assert str(broken.error) == "cannot import 'broken.warc': RuntimeError: a bug"
    assert (broken.complete, fine.complete, fine.added) == (False, True, 3)
