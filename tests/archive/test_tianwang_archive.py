"""Tianwang in the archive (I2): compressed or not, in and out."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.archive.export import ExportOptions
from holdfast.formats.io.open import open_records
from holdfast.formats.tianwang import page_attributes, tianwang_record
from holdfast.formats.warc.compose import digest_of
from holdfast.records.selection import Selection

MESSAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=gb2312\r\n\r\n<html>hello</html>"


@pytest.fixture(params=[False, True], ids=["plain", "compressed"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> holdfast.Archive:
    attributes = page_attributes("http://www.pku.edu.cn/", "20030415081306", origin="http://a.cn/", ip="162.105.129.12")
    (tmp_path / "pages.tw").write_bytes(tianwang_record(attributes, MESSAGE, compress=request.param))
    holdfast.init(tmp_path / "archive")
    archive = holdfast.open(tmp_path / "archive")
    request.addfinalizer(archive.close)
    (report,) = archive.import_files([tmp_path / "pages.tw"])
    assert (report.added, report.findings) == (1, [])
    return archive


def test_a_page_is_what_it_was(archive: holdfast.Archive) -> None:
    page = archive.get("http://www.pku.edu.cn/")
    assert page.payload() == b"<html>hello</html>"
    assert page.http_head is not None
    assert page.http_bytes() + page.payload() == MESSAGE
    assert page.capture[1:6] == (
        "20030415081306",
        "http://www.pku.edu.cn/",
        "text/html",
        "200",
        digest_of([b"<html>hello</html>"]),
    )


def test_exports(archive: holdfast.Archive, tmp_path: Path) -> None:
    archive.export(Selection(), tmp_path / "exact", ExportOptions("tianwang", exact=True))
    assert (tmp_path / "exact/pages.tw").read_bytes() == (tmp_path / "pages.tw").read_bytes()
    for form in ("tianwang", "warc"):
        archive.export(Selection(), tmp_path / form, ExportOptions(form))
        findings: list[object] = []
        with (tmp_path / form).open("rb") as file:
            records = [
                (record.url, record.timestamp, record.ip, record.block.read())
                for record in open_records(file, report=findings.append)
                if record.type == "response"
            ]
        assert findings == []
        assert records == [("http://www.pku.edu.cn/", "20030415081306", "162.105.129.12", MESSAGE)]
    assert b"\norigin: http://a.cn/\n" in (tmp_path / "tianwang").read_bytes()
