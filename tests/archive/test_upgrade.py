"""An archive of an earlier release: what is derived is made again, and records move to a new archive (N3, P13)."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_warcs import exchange, write
from truths import PLAN, import_all

import holdfast
from holdfast import Archive, RemovalOptions, Selection
from holdfast.env.paths import AUDIT, REFUSED
from holdfast.errors import DamagedCatalog, DamagedIndex
from holdfast.index.paths import STATE, index_directory


def captures(archive: Archive) -> list[tuple[str, str, str, str, bytes]]:
    """All that a reader sees of them."""
    found = [row.capture for row in archive.search("*")]
    return [
        (each.url, each.timestamp, each.digest, each.collection, archive.records.of(each).payload()) for each in found
    ]


@pytest.fixture
def old(quick: Path) -> Path:
    """Crawled, imported and added records in two collections, one of them removed for good."""
    path = quick / "old"
    holdfast.init(path, PLAN)
    with holdfast.open(path) as archive:
        records = [each for n in range(6) for each in exchange(f"http://files.example/{n}", b"content %d" % n * 200)]
        import_all(archive, write(quick / "files.warc", records), batch="files", collection="files")
        archive.add(
            [holdfast.page(f"http://added.example/{n}", f"<p>{n}", timestamp="20260501080000") for n in range(3)]
        )
        archive.remove("files.example/2", RemovalOptions("asked", refuse=True))
        archive.index.update()
    return path


def test_records_move_with_their_collections_and_refusals(old: Path, quick: Path) -> None:
    with holdfast.open(old, read_only=True) as archive:
        collections = archive.collections()
        for name in collections:
            archive.export(Selection(collection=name), quick / f"{name}.warc.gz")
        before = captures(archive)
    holdfast.init(quick / "new", PLAN)
    for name in (REFUSED, AUDIT):
        (quick / "new" / name).write_bytes((old / name).read_bytes())
    with holdfast.open(quick / "new") as archive:
        for name in collections:
            assert archive.import_files(quick / f"{name}.warc.gz", holdfast.ImportOptions(collection=name)).complete
        assert captures(archive) == before
        assert len(before) == 5 + 3
        again = archive.import_files(quick / "files.warc", holdfast.ImportOptions(collection="files"))
        assert again.refused >= 1, "what was removed for good does not come back"
        assert captures(archive) == before
    assert holdfast.check(quick / "new").clean


def test_exact_exports_alone_do_not_move_an_archive(old: Path, quick: Path) -> None:
    """The reason why the way over is a plain export."""
    (quick / "exact").mkdir()
    with holdfast.open(old, read_only=True) as archive:
        archive.export(Selection(), quick / "exact", holdfast.ExportOptions("warc", exact=True))
    urls = {
        each.url
        for file in (quick / "exact").iterdir()
        for each in holdfast.ArchiveIterator(file, record_types=["response"])
    }
    assert urls and not any("added" in url for url in urls)


def test_a_catalog_of_an_earlier_release_is_made_again(old: Path) -> None:
    with holdfast.open(old) as archive:
        before = captures(archive)
        archive.catalog._table.write([(b"v", b"3")])
    with pytest.raises(DamagedCatalog, match="is of another release; run 'holdfast reindex'"):
        holdfast.open(old, read_only=True).catalog.close()
    assert holdfast.check(old, holdfast.CheckOptions(repair=True)).clean
    with holdfast.open(old) as archive:
        assert captures(archive) == before


def test_an_index_of_an_earlier_release_is_made_again(old: Path) -> None:
    state = index_directory(old) / STATE
    magic, number, rest = state.read_bytes().split(b" ", 2)
    state.write_bytes(b"%b %d %b" % (magic, int(number) - 1, rest))
    with holdfast.open(old) as archive:
        with pytest.raises(DamagedIndex, match="of an earlier release"):
            archive.query("content")
        assert archive.index.is_outdated
        archive.index.update()
        assert archive.query("content").total == 5
