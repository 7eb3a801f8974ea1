"""Captures by WebBase's page id, and by modified date: keys of the catalog, derived from the records (B2, B3, B11)."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast import Archive, CaptureQuery, Exchange, RemovalOptions, Selection
from holdfast.errors import CaptureNotFound, DamagedCatalog, MalformedKey
from holdfast.urls import page_id, page_id_text

URL = "http://www.Stanford.EDU:80/Dept/CS//"
ID = page_id(URL)


def head(modified: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLast-Modified: {modified}\r\n\r\n".encode()


def test_a_page_is_had_by_its_id(archive: Archive) -> None:
    archive.add([holdfast.page("http://www.stanford.edu/Dept/CS", b"old", timestamp="20200101000000")])
    archive.add([holdfast.page("http://www.stanford.edu/Dept/CS/", b"new", timestamp="20220101000000")])
    archive.add(
        [holdfast.page("http://www.stanford.edu/Dept/CS", b"side", timestamp="20230101000000")], collection="side"
    )
    archive.add([holdfast.page("http://www.stanford.edu/dept/cs", b"other", timestamp="20240101000000")])
    assert archive.get_page(ID).payload() == b"side"
    assert archive.get_page(page_id_text(ID)).payload() == b"side"
    assert archive.get_page(ID, at="2019").payload() == b"old"
    assert archive.get_page(ID, at="202110").payload() == b"new"
    assert archive.get_page(ID, collection="main").payload() == b"new"
    archive.reindex()
    assert archive.get_page(ID, collection="main").payload() == b"new"
    with holdfast.open(archive.path, read_only=True) as reader:
        assert reader.get_page(ID, at="2020").payload() == b"old"


def test_what_was_removed_is_not_had_by_its_id(archive: Archive) -> None:
    for number, url in enumerate(["http://a.example/\tx", "http://a.example/y"]):
        modified = head(f"Tue, 15 Apr 200{number} 08:13:06 GMT")
        archive.add([Exchange(url=url, head=modified, body=b"x", timestamp="20200101000000")])
    captures = [row.capture for row in archive.search(CaptureQuery(url="*"))]
    assert len(captures) == 2
    ids = [page_id(each.url) for each in captures]
    assert all(archive.get_page(each).payload() == b"x" for each in ids)
    archive.remove(Selection(CaptureQuery(url="*")), RemovalOptions("asked"))
    for each in ids:
        with pytest.raises(CaptureNotFound):
            archive.get_page(each)
    archive.catalog.verify()
    assert archive.catalog.rows.by_time(b"", b"\x7f", 10, modified=True) == []


def test_no_such_page(archive: Archive) -> None:
    with pytest.raises(CaptureNotFound, match=f"page id {page_id_text(ID)}$"):
        archive.get_page(ID)
    for bad in ("17", "x" * 16, -1, 2**64):
        with pytest.raises(MalformedKey):
            archive.get_page(bad)


@pytest.mark.parametrize(
    ("modified", "digits"),
    [
        ("Tue, 15 Apr 2003 08:13:06 GMT", "20030415081306"),
        ("Tuesday, 15-Apr-03 08:13:06 GMT", "20030415081306"),
        ("Tue Apr 15 08:13:06 2003", "20030415081306"),
        ("Tue, 15 Apr 2003 10:13:06 +0200", "20030415081306"),
        ("Tue, 15 Apr 2031 08:13:06 GMT", "20200101000000"),  # not later than its capture (RFC 9110)
        ("yesterday", "-"),
        ("", "-"),
    ],
)
def test_modified_dates(archive: Archive, modified: str, digits: str) -> None:
    archive.add([Exchange(url=URL, head=head(modified), body=b"x", timestamp="20200101000000")])
    assert archive.get(URL).capture.modified == digits
    capture = archive.catalog.newest(URL)
    assert capture is not None
    assert capture.modified == digits
    archive.catalog.verify()


def test_a_word_in_the_payload_is_no_date(archive: Archive) -> None:
    body = b"\nLast-Modified: Tue, 15 Apr 2003 08:13:06 GMT\n"
    archive.add([holdfast.page(URL, body, timestamp="20200101000000")])
    assert archive.get(URL).capture.modified == "-"


def test_a_catalog_of_an_earlier_release_is_rebuilt(archive: Archive, quick: Path) -> None:
    archive.add([holdfast.page(URL, b"x", timestamp="20200101000000")])
    archive.catalog._table.write([(b"v", b"2")])
    archive.close()
    with pytest.raises(DamagedCatalog, match="run 'holdfast reindex'"), holdfast.open(archive.path) as opened:
        opened.get(URL)
