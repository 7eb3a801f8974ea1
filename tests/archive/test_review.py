"""What reviewers broke, kept from breaking again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from archive_warcs import record, response, write

import holdfast
from holdfast import CaptureQuery, ExportOptions, RemovalOptions, Selection
from holdfast.archive.ingest.writer import AddOutcome
from holdfast.env import REAL, File
from holdfast.env.files import Buffer, LocalFiles
from holdfast.errors import Damaged, DamagedBatch, UsageError, VolumeFull

URL = "http://example.com/"


class FullFiles(LocalFiles):
    """A disk that has no room for the first append to one file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        file = super().open(path, writable=writable, create=create)
        if path.name == self.name and writable:
            self.name = ""
            return _FullOnce(file)  # type: ignore[return-value]
        return file


class _FullOnce:
    """Takes everything but the first append."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._is_full = True

    def append(self, buffers: Sequence[Buffer]) -> None:
        if self._is_full:
            self._is_full = False
            raise VolumeFull(f"no space left for '{self._file.path}'")
        self._file.append(buffers)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


@pytest.mark.parametrize("name", ["records-000001.tw.zst", "records-000002.tw.zst"])
def test_a_full_disk_when_a_file_is_begun(quick: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.batches.batch.FILE_BYTES_MAX", 4096)
    holdfast.init(quick / "a")
    env = replace(REAL, files=FullFiles(name))
    kept = []
    with holdfast.Archive(quick / "a", env=env) as archive:
        for number in range(60):
            url = f"{URL}{number}"
            try:
                archive.add([holdfast.page(url, bytes(str(number), "ascii") * 50)])
                kept.append(url)
            except VolumeFull:
                pass
        assert len(kept) == 59
        assert all(archive.get(url).payload() for url in kept)
    assert holdfast.check(quick / "a").clean
    with holdfast.open(quick / "a") as archive:
        assert all(archive.get(url).payload() for url in kept)


@pytest.mark.parametrize("name", ["new\nline.warc", "two\n\nlines.warc", "tab\tname.warc"])
def test_odd_names_of_files(quick: Path, name: str) -> None:
    write(quick / name, [response(URL, b"body")])
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        (report,) = archive.import_files([quick / name])
        assert (report.added, report.error) == (1, None)
        assert archive.get(URL).payload() == b"body"
    assert holdfast.check(quick / "a").clean


@pytest.mark.parametrize("kind", ["source", "removed", "batch"])
def test_types_that_the_journal_has_for_itself(quick: Path, kind: str) -> None:
    path = write(quick / "x.warc", [response(URL, b"body"), record(kind, URL, b"mine")])
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        (report,) = archive.import_files([path])
        assert report.added == 2
        archive.export(Selection(), quick / "exact", ExportOptions("warc", exact=True))
        assert (quick / "exact/x.warc").read_bytes() == path.read_bytes()
        archive.reindex()
        (report,) = archive.import_files([path])
        assert report.known == 2


def test_odd_bytes_in_heads(quick: Path) -> None:
    odd = response(URL, b"body").replace(b"WARC-Type: response", b"WARC-Type: resp\xff\x00onse")
    digest = record("response", URL + "2", b"HTTP/1.1 200 OK\r\n\r\nx", [("WARC-Payload-Digest", "sha1:A\x00B\tC")])
    path = write(quick / "x.warc", [odd, digest, response(URL + "3", b"sound")])
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        (report,) = archive.import_files([path])
        assert (report.added, report.error) == (3, None)
        archive.remove(Selection(), RemovalOptions("all"))
    assert holdfast.check(quick / "a").clean


def test_a_deleted_journal_file_is_named(quick: Path) -> None:
    path = write(quick / "x.warc", [response(URL, b"body")])
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        list(archive.import_files([path], holdfast.ImportOptions(batch="b")))
    shutil.rmtree(quick / "a/batches/b")
    assert [fault.kind for fault in holdfast.check(quick / "a").faults] == ["missing file"]
    with pytest.raises(DamagedBatch, match="put it back, or run 'holdfast reindex'"):
        holdfast.open(quick / "a")


def test_a_damaged_plan_of_a_removal_is_named(quick: Path) -> None:
    holdfast.init(quick / "a")
    for text in ("", "{", "[]", "{}"):
        (quick / "a/removal").write_text(text)
        assert [fault.kind for fault in holdfast.check(quick / "a").faults] == ["damaged removal"]
        with pytest.raises(Damaged, match="delete it to go on"):
            holdfast.open(quick / "a")


def test_captures_whose_content_is_lost_can_be_removed(quick: Path) -> None:
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        archive.add([holdfast.page(URL, b"lost" * 500), holdfast.page(URL + "2", b"kept" * 500)])
        key = archive.get(URL).capture.contents
        archive.contents.delete(holdfast.ContentKey.parse(key))
        assert archive.remove(Selection(CaptureQuery(url=URL)), RemovalOptions("x")).captures == 1
        assert archive.get(URL + "2").payload() == b"kept" * 500


def test_removing_an_original_tells_of_its_revisits(quick: Path) -> None:
    digest = "sha1:" + "A" * 32
    revisit = record("revisit", URL, b"", [("WARC-Payload-Digest", digest), ("WARC-Profile", "http://x/")])
    original = record("response", URL, b"HTTP/1.1 200 OK\r\n\r\nbody", [("WARC-Payload-Digest", digest)])
    path = write(quick / "x.warc", [original, revisit])
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        list(archive.import_files([path], holdfast.ImportOptions(verify_digests=False)))
        chosen = Selection(CaptureQuery(url=URL, filters=("=type:response",)))
        planned = archive.remove(chosen, RemovalOptions("x", dry_run=True))
        assert (planned.captures, planned.orphaned) == (1, 1)


def test_captures_by_post_are_found_and_removed(quick: Path) -> None:
    request = b"POST /form HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\na=1&b=2"
    url = URL + "form"
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        exchange = replace(holdfast.page(url, b"answer"), request=request)
        assert {added.outcome for added in archive.add([exchange])} == {AddOutcome.ADDED}
        capture = archive.get(url).capture
        assert capture.urlkey == "com,example)/form?__wb_method=post&a=1&b=2"
        assert capture.extra == '{"method": "POST", "requestBody": "a=1&b=2"}'
        assert archive.remove(Selection(CaptureQuery(url=url)), RemovalOptions("x")).captures == 1


def test_exports_do_not_replace_what_is_no_file(quick: Path) -> None:
    holdfast.init(quick / "a")
    (quick / "directory").mkdir()
    with holdfast.open(quick / "a") as archive:
        archive.add([holdfast.page(URL, b"body")])
        for form in ("warc", "wacz", "parquet", "zipnum", "cdxj"):
            with pytest.raises(UsageError, match="is a directory"):
                archive.export(Selection(), quick / "directory", ExportOptions(form))


def test_a_closed_archive_says_so_and_takes_nothing(quick: Path) -> None:
    """Not that it is damaged: who repairs a sound archive may do harm (H5)."""
    holdfast.init(quick / "a")
    archive = holdfast.open(quick / "a")
    source = quick / "late.warc"
    source.write_bytes(b"")
    archive.add([holdfast.page("http://a.example/", b"text")], batch="b")
    archive.close()
    uses: list[Callable[[], object]] = [
        lambda: archive.add([holdfast.page("http://a.example/2", b"late")]),
        lambda: archive.import_files([source]),
        lambda: archive.contents.put(b"late"),
        lambda: archive.seal("b"),
        lambda: archive.compact("v0"),
        lambda: archive.get(URL),
    ]
    for use in uses:
        with pytest.raises(UsageError, match="is closed"):
            use()
    with holdfast.open(quick / "a") as again:
        again.add([holdfast.page("http://a.example/3", b"more")], batch="b")  # it was not sealed


def test_exact_export_tells_what_is_not_whole(quick: Path) -> None:
    whole = response(URL, b"body")
    (quick / "x.warc").write_bytes(whole + response(URL + "2", b"cut off")[:-9])
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        list(archive.import_files([quick / "x.warc"]))
        report = archive.export(Selection(), quick / "exact", ExportOptions("warc", exact=True))
        assert any("1 of its records are not whole" in note for note in report.notes)
        with pytest.raises(holdfast.HoldfastError, match=r"no file 'y.warc' was imported: known are 'x.warc'"):
            archive.export(Selection(), quick / "y.warc", ExportOptions("warc", exact=True, source="y.warc"))


def test_pages_go_before_what_is_said_of_them(quick: Path) -> None:
    about = record("metadata", URL, b"{}", [("Content-Type", "application/json")])
    path = write(quick / "x.warc", [response(URL, b"the page"), about])
    holdfast.init(quick / "a")
    with holdfast.open(quick / "a") as archive:
        list(archive.import_files([path]))
        assert archive.get(URL).payload() == b"the page"
        assert archive.get(URL, at="2030").payload() == b"the page"
