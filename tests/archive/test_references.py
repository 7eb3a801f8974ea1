"""Captures by reference: lines of CDX become records whose bytes stay in files elsewhere (I10)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from archive_warcs import HTTP, chunked, packed, record, response, revisit, sha1

import holdfast
from holdfast import Archive
from holdfast.archive.check import check
from holdfast.archive.create import Plan
from holdfast.archive.export import ExportOptions
from holdfast.archive.ingest.writer import AddOutcome
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.config import RecordSettings
from holdfast.errors import CaptureNotFound, MalformedInput
from holdfast.records.references import reference_drafts
from holdfast.records.selection import Selection

URL = "http://example.com/page"
DIGEST = sha1(b"hello").removeprefix("sha1:")
LINE = f"com,example)/page 20261102030405 {URL} text/html 200 {DIGEST} - - 0 0 a.warc"


@pytest.fixture
def place(quick: Path) -> Path:
    """An archive that reads references from the directory `warcs` inside it."""
    holdfast.init(quick / "archive", Plan(records=RecordSettings(warc_paths=("warcs",))))
    (quick / "archive" / "warcs").mkdir()
    return quick / "archive"


@pytest.fixture
def opened(place: Path, closing: ExitStack) -> Archive:
    return closing.enter_context(holdfast.open(place))


def post(archive: Archive, *lines: str) -> list[AddOutcome]:
    drafts = reference_drafts([line.encode() for line in lines], "main")
    return [each.outcome for each in archive.add_drafts(drafts)]


def line(at: int, name: str = "a.warc", mime: str = "text/html", time: str = "20261102030405") -> str:
    return f"com,example)/page {time} {URL} {mime} 200 {DIGEST} - - 0 {at} {name}"


@pytest.mark.parametrize("coding", ["plain", "gzip", "zstd"])
def test_a_record_is_read_from_the_file_that_the_line_names(opened: Archive, place: Path, coding: str) -> None:
    first = packed(response("http://example.com/other", b"other"), coding)
    (place / "warcs" / "a.warc").write_bytes(first + packed(response(URL, b"hello"), coding))
    assert post(opened, line(len(first))) == [AddOutcome.ADDED]
    found = opened.get(URL)
    assert found.payload() == b"hello"
    assert found.http_head is not None
    assert found.http_head.status == 200
    assert b"".join(found.raw()) == response(URL, b"hello")
    assert found.entry.size == 5


def test_a_dictionary_at_the_start_of_the_file_is_used(opened: Archive, place: Path) -> None:
    words = zstandard.train_dictionary(2048, [f"HTTP/1.1 200 OK {i} example".encode() * 20 for i in range(200)])
    body = words.as_bytes()
    begin = b"\x5d\x2a\x4d\x18" + len(body).to_bytes(4, "little") + body
    frame = zstandard.ZstdCompressor(dict_data=words).compress(response(URL, b"hello"))
    (place / "warcs" / "a.warc").write_bytes(begin + frame)
    post(opened, line(len(begin)))
    assert opened.get(URL).payload() == b"hello"


def test_chunks_are_joined_and_large_payloads_stream(opened: Archive, place: Path) -> None:
    payload = bytes(range(256)) * (5 << 12)
    (place / "warcs" / "a.warc").write_bytes(record("response", URL, chunked(payload, 65536)))
    post(opened, line(0))
    found = opened.get(URL)
    assert found.payload() == payload
    assert found.entry.size == len(payload)


def test_a_revisit_in_a_file_has_the_payload_of_its_original(opened: Archive, place: Path) -> None:
    first = response(URL, b"hello")
    again = revisit(URL, sha1(b"hello"), "2026-11-03T03:04:05Z")
    (place / "warcs" / "a.warc").write_bytes(first + again)
    post(opened, line(0), line(len(first), mime="warc/revisit", time="20261103030405"))
    found = opened.get(URL, "20261103")
    assert found.entry.type == "revisit"
    assert found.payload() == b"hello"


def test_the_same_line_twice_is_one_record_in_any_form(opened: Archive) -> None:
    as_json = (
        f'com,example)/page 20261102030405 {{"url": "{URL}", "mime": "text/html", "status": 200, '
        f'"digest": "sha1:{DIGEST}", "length": 0, "offset": 0, "filename": "a.warc"}}'
    )
    assert post(opened, LINE) == [AddOutcome.ADDED]
    assert post(opened, LINE, as_json) == [AddOutcome.KNOWN, AddOutcome.KNOWN]
    (row,) = opened.search(CaptureQuery(url=URL))
    assert row.capture.status == "200"
    assert row.capture.digest == f"sha1:{DIGEST}"
    assert row.capture.filename == "a.warc"


def test_headers_and_older_forms_are_understood(opened: Archive) -> None:
    nine = f"com,example)/page 20200102030405 {URL} text/html 200 {DIGEST} - 77 old.warc.gz"
    assert post(opened, " CDX N b a m s k r V g", nine, "") == [AddOutcome.ADDED]
    (row,) = opened.search(CaptureQuery(url=URL))
    assert (row.capture.offset, row.capture.filename) == (77, "old.warc.gz")


@pytest.mark.parametrize(
    "bad",
    [
        "nonsense",
        LINE.replace("20261102030405", "2026"),
        LINE.replace("20261102030405", "20261399999999"),
        LINE.replace(" 0 0 a.warc", " 0 x a.warc"),
        LINE.replace("a.warc", "-"),
        "com,example)/page 20261102030405 {not json}",
        "com,example)/page 20261102030405 {}",
    ],
)
def test_a_bad_line_is_named_and_nothing_is_stored(opened: Archive, bad: str) -> None:
    with pytest.raises(MalformedInput, match="line 2"):
        post(opened, LINE, bad)
    assert list(opened.search(CaptureQuery(url=URL))) == []


def test_a_missing_file_is_named(opened: Archive) -> None:
    post(opened, LINE)
    with pytest.raises(CaptureNotFound, match=r"'a\.warc'.*warc_paths"):
        opened.get(URL)


@pytest.mark.parametrize("name", ["../holdfast.toml", "/etc/passwd", "link.warc"])
def test_no_name_leads_out_of_the_directories(opened: Archive, place: Path, name: str) -> None:
    (place / "outside.warc").write_bytes(response(URL, b"hello"))
    (place / "warcs" / "link.warc").symlink_to(place / "outside.warc")
    post(opened, line(0, name))
    with pytest.raises(CaptureNotFound, match="warc_paths"):
        opened.get(URL)


def test_a_wrong_place_gives_no_other_record(opened: Archive, place: Path) -> None:
    other = response("http://example.com/other", b"other")
    (place / "warcs" / "a.warc").write_bytes(other + response(URL, b"hello"))
    post(opened, line(0), line(3, time="20270101000000"))
    for time in ("2026", "2027"):
        with pytest.raises(CaptureNotFound, match="cannot read record"):
            opened.get(URL, time)


def test_references_are_checked_reindexed_exported_and_removed(opened: Archive, place: Path, quick: Path) -> None:
    (place / "warcs" / "a.warc").write_bytes(response(URL, b"hello"))
    post(opened, LINE)
    assert check(place).clean
    opened.reindex()
    assert opened.get(URL).payload() == b"hello"
    report = opened.export(Selection(), quick / "out.warc", ExportOptions("warc"))
    assert report.records == 0
    assert report.notes == ("1 records by reference were left out: they are in other files",)
    rows = opened.export(Selection(), quick / "out.cdxj", ExportOptions("cdxj"))
    assert rows.records == 1
    selection = Selection(CaptureQuery(url=URL))
    assert opened.remove(selection, RemovalOptions("test", refuse=True)).captures == 1
    assert list(opened.search(CaptureQuery(url=URL))) == []
    assert post(opened, LINE) == [AddOutcome.REFUSED]
    assert (place / "warcs" / "a.warc").exists()


def test_a_record_of_that_type_from_outside_is_no_reference(opened: Archive, quick: Path) -> None:
    (quick / "odd.warc").write_bytes(record("reference", URL, HTTP + b"x"))
    (report,) = opened.import_files([quick / "odd.warc"])
    assert report.added == 1
    types = {entry.type for _, entry in Selection().entries(opened.journal)}
    assert types == {"foreign-reference"}


def test_settings_take_a_list_of_directories(place: Path) -> None:
    assert holdfast.Settings().records.warc_paths == ()
    text = (place / "holdfast.toml").read_text()
    assert 'warc_paths = ["warcs"]' in text
    assert replace(RecordSettings(), warc_paths=("a",)).warc_paths == ("a",)
