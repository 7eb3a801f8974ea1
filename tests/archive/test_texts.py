"""Texts are taken wherever a user has texts, answers iterate, and errors of the system are errors of the tree (N4)."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import holdfast
from holdfast import Archive, ContentKey, Exchange
from holdfast.errors import (
    CaptureNotFound,
    ContentNotFound,
    HoldfastError,
    MalformedKey,
    MalformedQuery,
    NotFound,
    UnknownName,
    UsageError,
)

URL = "http://a.example/new"


@pytest.fixture
def filled(archive: Archive) -> Archive:
    archive.add([holdfast.page(URL, "<title>new</title> words", timestamp="20260501080000")], batch="one")
    archive.add(holdfast.page("http://b.example/", b"<title>old</title> words", timestamp="20260502080000"))
    archive.index.update()
    return archive


def test_contentkeys(archive: Archive) -> None:
    key = archive.contents.put(b"content")
    text = str(key)
    contents = archive.contents
    assert contents.get(text) == b"content"
    assert contents.get_batch([text, key]) == [b"content", b"content"]
    assert contents.stat(text) == contents.stat(key)
    assert contents.holders(text) == ["v0"]
    assert contents.references(text, 7) == (key, 1)
    assert not contents.is_shared(text)
    assert contents.delete(text) == 0
    with pytest.raises(ContentNotFound):
        contents.get(text)
    with pytest.raises(MalformedKey, match="malformed contentkey 'v0'"):
        contents.get("v0")
    with pytest.raises(MalformedKey):
        contents.delete_batch([key, ""])


def test_put_and_put_batch_are_alike(archive: Archive) -> None:
    contents = archive.contents
    one = contents.put(b"one")
    assert isinstance(one, ContentKey)
    assert contents.put_batch([b"one", b"two"]) == [one, contents.put(b"two")]
    stored = contents.store(b"one")
    (again,) = contents.store_batch([b"one"])
    assert (stored.references, again.references, again.key) == (3, 4, one)


def test_modes_and_states(archive: Archive) -> None:
    key = archive.contents.put(b"x")
    assert archive.contents.put(b"x", holdfast.StoreOptions("force-new")) != key  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="unknown mode 'fast': one of regular, compare, force-new"):
        holdfast.StoreOptions("fast")  # type: ignore[arg-type]
    archive.add_volume("v9")
    archive.set_state("v9", "read-only")
    assert archive.settings.volume[-1].state == "read-only"
    with pytest.raises(UnknownName, match="unknown state 'full': one of writable, read-only"):
        archive.set_state("v9", "full")


def test_records(filled: Archive) -> None:
    record = filled.get(URL)
    assert filled.records.read(str(record.id)).payload() == b"<title>new</title> words"
    with pytest.raises(MalformedKey):
        filled.records.read("one")
    with pytest.raises(CaptureNotFound):
        filled.records.read("one-0000000099")


def test_searches(filled: Archive) -> None:
    assert [row.capture.url for row in filled.search("a.example/*")] == [URL]
    assert len(list(filled.search("*"))) == 2
    with pytest.raises(MalformedQuery):
        filled.search("")
    result = filled.query("title:new")
    assert [hit.url for hit in result] == [URL] == [hit.url for hit in result.hits]


def test_single_texts_for_tuples() -> None:
    query = holdfast.CaptureQuery(url="*", filters="=status:200", collapse="urlkey")  # type: ignore[arg-type]
    assert (query.filters, query.collapse) == (("=status:200",), ("urlkey",))
    assert holdfast.CheckOptions(volumes="v0").volumes == ("v0",)  # type: ignore[arg-type]


def test_streams(tmp_path: Path, filled: Archive) -> None:
    assert [page.url for page in filled.stream("title:new")] == [URL]
    assert len(list(filled.stream())) == 2
    with filled.multicast("title:new") as multicast, multicast.join() as consumer:
        assert [page.url for page in consumer] == [URL]
    with filled.share("title:new", tmp_path / "shared") as shared:
        assert [page.url for batch in shared.batches() for page in batch] == [URL]
    with pytest.raises(MalformedQuery):
        filled.stream("title:(")


def test_exports_and_imports(tmp_path: Path, filled: Archive) -> None:
    by_name = filled.export("a.example/*", str(tmp_path / "a.warc.gz"))
    assert filled.export("a.example/*", tmp_path / "a", "warc").records == by_name.records == 1
    assert [each.url for each in holdfast.ArchiveIterator(str(tmp_path / "a"), ["response"])] == [URL]
    with pytest.raises(UsageError, match=r"no format is known by the name 'a\.doc': give one of warc"):
        filled.export("*", tmp_path / "a.doc")
    summary = filled.import_files(str(tmp_path / "a.warc.gz"))
    assert [report.name for report in summary] == ["a.warc.gz"]
    with pytest.raises(NotFound):
        filled.import_files("nowhere.warc")


def test_removals(filled: Archive) -> None:
    assert filled.remove("a.example/*", "asked by its owner").captures == 1
    assert [row.capture.url for row in filled.search("*")] == ["http://b.example/"]
    with pytest.raises(UsageError):
        filled.remove("*", "")


def test_a_text_as_page_is_kept_as_utf_8(archive: Archive) -> None:
    page = holdfast.page(URL, "Grüße")
    assert b"text/html; charset=utf-8\r\n" in page.head
    assert b"charset=UTF-8\r\n" in holdfast.page(URL, "x", "text/plain; charset=UTF-8").head
    archive.add(page)
    assert archive.get(URL).payload().decode() == "Grüße"
    with pytest.raises(UsageError, match="bad content type"):
        holdfast.page(URL, b"", "text/html\r\nX: y")
    assert isinstance(page, Exchange)


def test_reports_iterate(filled: Archive) -> None:
    assert list(holdfast.check(filled.path)) == []


def test_an_iterator_over_a_path_closes_its_file(tmp_path: Path, filled: Archive) -> None:
    path = tmp_path / "all.warc"
    filled.export("*", path)
    with holdfast.ArchiveIterator(path) as records:
        next(records)
    left = holdfast.ArchiveIterator(path)
    next(left)
    del left
    gc.collect()  # an open file would warn
    with pytest.raises(NotFound, match=r"cannot use '.*nowhere.warc': No such file"):
        holdfast.ArchiveIterator("nowhere.warc")


def test_errors_of_the_system_are_of_the_tree(tmp_path: Path, filled: Archive) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(HoldfastError, match="Not a directory"):
        holdfast.init(tmp_path / "file" / "archive")
    with pytest.raises(HoldfastError, match="File name too long"):
        holdfast.open("x" * 5000)
    with pytest.raises(UsageError, match="null byte"):
        holdfast.open("a\0b")
    with pytest.raises(HoldfastError, match="is a directory: name a file"):
        filled.export("*", tmp_path, "warc")
