"""The catalog is made anew from the batches: the same rows, whoever asks for it and whoever reads meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from archive_warcs import exchange, response, write
from truths import assert_exact, captures, import_all, records_of

import holdfast
from holdfast import Archive
from holdfast.archive.ingest.writer import ArchiveWriter
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.errors import DamagedCatalog
from holdfast.records.selection import Selection


def fill(archive: Archive, quick: Path) -> None:
    for number in range(4):
        records = [r for n in range(8) for r in exchange(f"http://{number}.example/{n}", b"content %d" % (n % 3) * 200)]
        path = write(quick / f"{number}.warc", records)
        import_all(archive, path, batch=f"b{number % 2}", collection=f"c{number % 3}")
    archive.remove(Selection(CaptureQuery(url="http://1.example/3")), RemovalOptions("asked", refuse=True))
    archive.seal("b0")


def state(archive: Archive) -> tuple[object, ...]:
    catalog = archive.catalog
    return captures(archive), sorted(catalog.sources()), catalog.totals(), catalog.collections(), catalog.batches()


def test_a_catalog_that_is_gone(archive: Archive, quick: Path) -> None:
    fill(archive, quick)
    before = state(archive)
    archive.close()
    shutil.rmtree(quick / "archive/catalog")
    with holdfast.open(quick / "archive", read_only=True) as reader:
        with pytest.raises(DamagedCatalog, match="holdfast reindex"):
            captures(reader)
        assert sum(len(stats) for stats in reader.contents.listing()) == 3, "contents can be read without"
    for _ in range(2):
        with holdfast.open(quick / "archive") as again:
            assert state(again) == before
            again.catalog.verify()
            assert_exact(again)
    with holdfast.open(quick / "archive") as again:
        (report,) = import_all(again, quick / "1.warc", collection="c1", batch="b1")
        assert (report.added, report.refused) == (0, 3)
        assert state(again)[0] == before[0]


def test_opening_walks_a_batch_only_once(archive: Archive, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that was made anew is known to be complete the next time."""
    fill(archive, quick)
    archive.close()
    shutil.rmtree(quick / "archive/catalog")
    holdfast.open(quick / "archive").close()
    entered: list[object] = []
    monkeypatch.setattr(ArchiveWriter, "_enter", lambda *each: entered.append(each))
    holdfast.open(quick / "archive").close()
    assert entered == []


def test_made_anew_while_open(archive: Archive, quick: Path) -> None:
    """And then the archive goes on as before: it adds, knows what it has, removes."""
    fill(archive, quick)
    before = state(archive)
    assert archive.reindex() == len(before[0])  # type: ignore[arg-type]
    assert state(archive) == before
    assert_exact(archive)
    (known,) = import_all(archive, quick / "1.warc", collection="c1", batch="b1")
    assert (known.added, known.refused) == (0, 3)
    (report,) = import_all(archive, write(quick / "new.warc", [response("http://new.example/", b"new")]))
    assert report.added == 1
    assert records_of(archive, "new.warc") == [response("http://new.example/", b"new")]
    archive.remove(Selection(CaptureQuery(url="http://0.example/0")), RemovalOptions("asked"))
    assert len(captures(archive)) == len(before[0])  # type: ignore[arg-type]
    assert_exact(archive)
    after = state(archive)
    archive.close()
    with holdfast.open(quick / "archive") as again:
        assert state(again) == after
        again.reindex()
        assert state(again) == after
        assert_exact(again)


def test_what_a_reindex_left_unfinished_goes(archive: Archive, quick: Path) -> None:
    """Killed between its two renames: the next writer makes the catalog, and keeps no other."""
    fill(archive, quick)
    before = state(archive)
    archive.close()
    root = quick / "archive"
    shutil.copytree(root / "catalog", root / "catalog.open")
    (root / "catalog").rename(root / "catalog.old")
    with holdfast.open(root) as again:
        assert state(again) == before
    assert [path.name for path in root.glob("catalog*")] == ["catalog"]


def test_a_file_that_was_finished_does_not_grow(archive: Archive, quick: Path) -> None:
    """After a removal and a reindex, what comes next goes to a new file of the journal."""
    import_all(
        archive, write(quick / "a.warc", exchange("http://a.example/", b"a") + exchange("http://b.example/", b"b"))
    )
    archive.remove(Selection(CaptureQuery(url="http://a.example/")), RemovalOptions("asked"))
    archive.close()
    for _ in range(2):
        with holdfast.open(quick / "archive") as again:
            again.reindex()
        size = {path: path.stat().st_size for path in (quick / "archive/batches/b").iterdir()}
    with holdfast.open(quick / "archive") as again:
        import_all(again, write(quick / "c.warc", [response("http://c.example/", b"c")]))
        assert_exact(again)
    assert all(path.stat().st_size == before for path, before in size.items())


def test_a_reader_goes_on(archive: Archive, quick: Path) -> None:
    """One that opened before sees the same all the time, and later what is new."""
    fill(archive, quick)
    with holdfast.open(quick / "archive", read_only=True) as reader:
        before = captures(reader)
        for _ in range(3):
            archive.reindex()
            assert captures(reader) == before
            for capture in before[:5]:
                reader.records.of(capture).payload()
        import_all(archive, write(quick / "new.warc", [response("http://new.example/", b"new")]))
        reader.catalog.refresh()
        assert len(captures(reader)) == len(before) + 1
