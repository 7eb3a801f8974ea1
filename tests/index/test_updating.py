"""The index brought up to date, made anew, and read meanwhile."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from index_samples import (
    DATE,
    DOCX,
    add,
    docx,
    everything,
    exchange,
    finds,
    new_archive,
    pages,
    pdf,
    reading,
    rows,
    update,
)
from tantivy import Query

import holdfast
from holdfast import Exchange
from holdfast.errors import Busy, DamagedIndex, IndexNotFound
from holdfast.formats.warc.compose import WarcHead, record_id, record_parts
from holdfast.index import build
from holdfast.index.build import locked
from holdfast.index.extract.sketch import sketch_of
from holdfast.index.schema import page_number, partition_of
from holdfast.index.state import TABLES
from holdfast.model import RecordId


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of captures of all kinds, indexed. Not to be changed."""
    path = new_archive(tmp_path_factory.mktemp("mixed") / "archive")
    add(
        path,
        [
            exchange("http://www.example.org/a", b"<title>Caf\xc3\xa9</title>blue <a href=/b>the other</a>"),
            exchange("http://example.org/b", gzip.compress(b"green"), "text/plain", "Content-Encoding: gzip"),
            exchange("http://example.org/c.pdf", pdf("red whales"), "application/pdf"),
            exchange("http://example.org/d", docx("yellow"), DOCX),
            exchange("http://example.org/e.png", b"\x89PNG", "image/png"),
            exchange("http://sub.example.org/f", b"", "text/html"),
            Exchange("http://example.org/g", b"HTTP/1.1 301 Moved\r\nLocation: /a\r\n\r\n", b"", DATE),
            exchange("http://example.org/h", b"not a pdf", "application/pdf"),
        ],
    )
    update(path)
    return path


def test_an_index_of_an_earlier_release_is_rebuilt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It cannot be searched; the next update rebuilds it, and says so."""
    path = new_archive(tmp_path / "archive")
    add(path, pages(3))
    update(path)
    with reading(path) as archive:
        before = everything(archive.index)
    state = path / "index" / "STATE"
    state.write_text(state.read_text().replace("holdfast-index 4", "holdfast-index 3"))
    add(path, pages(1, first=3))
    with reading(path) as archive:
        with pytest.raises(DamagedIndex, match=r"has format 3 of an earlier release.*holdfast index build"):
            archive.query("common")
        assert archive.index.pending() == 4, "all records are to be indexed again"
        assert archive.index.update().documents == 4
        assert "has the format of an earlier release: rebuilding it" in caplog.text
        assert archive.query("common").total == 4
        assert everything(archive.index)["documents"][:3] == before["documents"]
        assert archive.index.update().documents == 0


def test_partition_and_sketch_are_in_words_and_tables(tmp_path: Path) -> None:
    """Copies in a cluster never count, and near-duplicates can be found (N11)."""
    path = new_archive(tmp_path / "archive")
    text = " ".join(f"word{number}" for number in range(200))
    urls = ("http://a.example.org/1", "http://b.example.org/2", "http://example.com/3")
    add(path, [exchange(url, f"<nav>{number}</nav><main>{text}".encode()) for number, url in enumerate(urls)])
    update(path)
    with reading(path) as archive:
        found = rows(archive.index, "captures")
        one, two, other = (row["partition"] for row in found)
        assert one == two == partition_of("example.org")
        assert other == partition_of("example.com")
        assert {row["sketch"] for row in found} == {sketch_of(text)}
        assert len(finds(archive.index, one, "partition")) == 2
        hits = archive.index.view().searcher.search(Query.all_query(), 10).hits
        addresses = [address for _, address in hits]
        assert set(archive.index.view().searcher.fast_field_values("sketch", addresses)) == {sketch_of(text)}


def test_all_captures_are_in_words_and_tables(mixed: Path) -> None:
    with reading(mixed) as archive:
        index = archive.index
        found = rows(index, "captures")
        assert [row["record"] for row in found] == [str(RecordId(found[0]["batch"], serial)) for serial in range(1, 9)]
        assert [row["mime"] for row in found[:5]] == [
            "text/html",
            "text/plain",
            "application/pdf",
            DOCX.lower(),
            "image/png",
        ]
        assert [row["failure"] for row in found] == [None] * 7 + ["damaged"]
        assert found[0]["title"] == "Café"
        assert found[0]["host"] == "example.org"
        assert found[5]["domain"] == "example.org"
        assert found[0]["page"] == page_number("org,example)/a")
        assert (found[6]["status"], found[6]["size"]) == (301, 0)
        for word, record in {"blue": 0, "green": 1, "red whales": 2, "yellow": 3}.items():
            assert finds(index, word) == [found[record]["record"]]
        assert finds(index, "cafe", "title") == [found[0]["record"]]
        assert finds(index, "image", "type") == [found[4]["record"]]
        assert finds(index, "example.org", "suffix") == [row["record"] for row in found]
        assert finds(index, "sub.example.org", "host") == [found[5]["record"]]


def test_links_have_anchors_kinds_and_page_numbers(mixed: Path) -> None:
    with reading(mixed) as archive:
        first, second = rows(archive.index, "links")
        backlinks = {row["target_page"]: row["number"] for row in rows(archive.index, "backlinks")}
    assert (first["target"], first["anchor"], first["kind"]) == ("http://www.example.org/b", "the other", "link")
    assert (first["target_key"], first["target_page"]) == ("org,example)/b", page_number("org,example)/b"))
    assert (second["target"], second["anchor"], second["kind"]) == ("http://example.org/a", None, "redirect")
    assert backlinks == {each["target_page"]: each["number"] for each in (first, second)}


def test_status_counts(mixed: Path) -> None:
    with reading(mixed) as archive:
        status = archive.index.status()
    assert (status.captures, status.documents, status.links, status.pending) == (8, 8, 2, 0)
    assert status.failed == {"damaged": 1}
    assert status.bytes > 1000


def test_an_update_in_steps_equals_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_archive(tmp_path / "archive")
    monkeypatch.setattr(build, "COMMIT_RECORDS", 7)
    add(path, pages(12))
    update(path)
    with holdfast.open(path) as archive:
        archive.add(pages(9, 12), batch="other")
        archive.add(pages(5, 30))
    with reading(path) as archive:
        report = archive.index.update()
        assert (report.records, report.captures) == (14, 14)
        assert archive.index.update().captures == 0
        stepwise = everything(archive.index)
        assert len(stepwise["documents"]) == 26
        archive.index.build()
        assert everything(archive.index) == stepwise
        assert archive.index.state().generation == 2
        assert not list(archive.index.directory.glob("*-000001"))


def test_an_empty_archive(tmp_path: Path) -> None:
    path = new_archive(tmp_path / "archive")
    with reading(path) as archive:
        with pytest.raises(IndexNotFound, match="holdfast index update"):
            archive.index.view()
        assert archive.index.status().captures == 0
        assert archive.index.update().captures == 0
        assert everything(archive.index)["documents"] == []
        archive.index.build()
        assert archive.index.view().table_files("captures") == []


def test_readers_go_on_while_another_generation_is_made(tmp_path: Path) -> None:
    path = new_archive(tmp_path / "archive")
    add(path, pages(3))
    update(path)
    with reading(path) as reader, reading(path) as writer:
        old = reader.index.view()
        assert reader.index.view() is old, "nothing changed, nothing is opened"
        writer.index.build()
        assert len(finds(old, "common")) == 3
        new = reader.index.view()
        assert new.state.generation == 2
        assert len(finds(new, "common")) == 3


def test_who_may_not_lock_the_words_sees_what_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_archive(tmp_path / "archive")
    add(path, pages(3))
    update(path)
    with reading(path) as archive:
        with monkeypatch.context() as patch:
            patch.setattr("holdfast.index.words._may_lock", lambda _: False)
            assert len(finds(archive.index, "common")) == 3
        for first in range(3, 30, 3):  # enough for tantivy to merge and delete segments
            add(path, pages(3, first))
            update(path)
            assert len(finds(archive.index, "common")) == first + 3


def test_a_second_writer_is_told(tmp_path: Path) -> None:
    path = new_archive(tmp_path / "archive")
    with reading(path) as archive, locked(archive.index), pytest.raises(Busy, match="index"):
        archive.index.update()


def test_small_files_of_tables_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_archive(tmp_path / "archive")
    monkeypatch.setattr(build, "COMMIT_RECORDS", 1)
    with holdfast.open(path) as archive:
        for number in range(12):
            archive.add(pages(1, number), batch=f"b{number:02d}")
    with reading(path) as archive:
        archive.index.update()
        assert len(archive.index.view().table_files("captures")) < 8
        assert len(rows(archive.index, "captures")) == 12
        listed = {file.name for table in TABLES for file in archive.index.view().table_files(table)}
        assert {file.name for file in archive.index.directory.glob("tables-*/*")} == listed


# -- revisits ----------------------------------------------------------------------------------------------------------

ORIGINAL = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    b"<title>Whales</title>common words of the original <a href=/next>next</a>"
)


def warc_of(kind: str, date: str, block: bytes, *extra: tuple[str, str]) -> bytes:
    head = WarcHead(
        kind, date, record_id((kind + date).encode().ljust(16, b"-")[:16]), url="http://example.org/", extra=extra
    )
    return b"".join(record_parts(head, [block]))


def imported(path: Path, name: str, record: bytes) -> None:
    file = path.parent / name
    file.write_bytes(record)
    with holdfast.open(path) as archive:
        for report in archive.import_files([file]):
            assert report.added == 1


def revisit() -> bytes:
    head = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    refers = (("WARC-Refers-To-Target-URI", "http://example.org/"), ("WARC-Refers-To-Date", "2026-01-02T03:04:05Z"))
    profile = ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/server-not-modified")
    return warc_of("revisit", "20260301000000", head, profile, *refers)


@pytest.mark.parametrize("first", ["original", "revisit"])
def test_a_revisit_has_what_its_original_has(tmp_path: Path, first: str) -> None:
    """Also if the original comes after it, and after it was indexed."""
    path = new_archive(tmp_path / "archive")
    records = {"original": warc_of("response", DATE, ORIGINAL), "revisit": revisit()}
    for name in (first, *({*records} - {first})):
        imported(path, f"{name}.warc", records[name])
        update(path)
    with reading(path) as archive:
        index = archive.index
        found = {row["type"]: row for row in rows(index, "captures")}
        assert finds(index, "words of the original") == sorted(row["record"] for row in found.values())
        assert found["revisit"]["original"] == found["response"]["record"]
        assert (found["revisit"]["mime"], found["revisit"]["status"]) == ("text/html", 200)
        assert (found["revisit"]["title"], found["revisit"]["failure"]) == ("Whales", None)
        assert index.state().unresolved == ()
        stepwise = everything(index)
        index.build()
        assert everything(index) == stepwise
