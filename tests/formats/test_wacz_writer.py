"""Writing WACZ: what is written validates elsewhere, in bounded memory, and is there whole or not at all."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from wacz_samples import NAMES, findings, rewrite, write

from holdfast.errors import UsageError, VolumeFull
from holdfast.formats.wacz import writer as wacz_writer
from holdfast.formats.wacz.reader import Wacz
from holdfast.formats.wacz.writer import MemberSink, WaczWriter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "made.wacz"
    write(made)
    return made


def test_members_stand_in_order_and_warcs_are_stored(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        methods = {info.filename: info.compress_type for info in archive.infolist()}
    assert list(methods) == NAMES
    assert [methods[name] for name in NAMES[:3]] == [zipfile.ZIP_STORED] * 3


def validated(path: Path) -> bool:
    """What the program of py-wacz says."""
    if importlib.util.find_spec("wacz") is None:
        pytest.skip("py-wacz is not installed")
    command = [sys.executable, "-c", "import sys; from wacz.main import main; sys.exit(main())"]
    done = subprocess.run([*command, "validate", "-f", str(path)], capture_output=True, text=True, check=False)
    assert "Validation" in done.stdout, done.stdout + done.stderr
    return done.returncode == 0 and "Validation succeeded, the passed WACZ is valid" in done.stdout


def test_py_wacz_validates_it_until_it_is_changed(path: Path) -> None:
    assert validated(path)
    rewrite(path, lambda each, data: data + b"x" if each == "archive/a.warc.gz" else data)
    assert not validated(path)


def test_the_datapackage_says_what_it_is(path: Path) -> None:
    with Wacz(path) as wacz:
        facts = wacz.datapackage()
    assert facts["profile"] == "data-package"
    assert facts["wacz_version"] == "1.1.1"
    assert facts["created"] == "2026-11-16T02:00:00Z"
    assert isinstance(facts["resources"], list)
    assert [each["name"] for each in facts["resources"]] == [
        "a.warc.gz",
        "b.warc.gz",
        "index.cdx.gz",
        "index.idx",
        "pages.jsonl",
    ]


def test_the_index_is_sorted_and_every_line_leads_to_its_record(path: Path) -> None:
    with Wacz(path) as wacz:
        with wacz.open("indexes/index.idx") as stream:
            assert stream.read().startswith(b'!meta 0 {"format": "cdxj-gzip-1.0"')
        with wacz.open("indexes/index.cdx.gz") as stream:
            lines = gzip.decompress(stream.read()).splitlines()
        assert lines == sorted(lines)
        assert len(lines) == 20
        for line in lines:
            facts = json.loads(line.split(b" ", 2)[2])
            start = wacz.data_offset(f"archive/{facts['filename']}") + facts["offset"]
            record = gzip.decompress(wacz.read_at(start, facts["length"]))
            assert f"WARC-Target-URI: {facts['url']}\r\n".encode() in record


def test_an_index_larger_than_memory_is_merged_from_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wacz_writer, "_RUN_BYTES_MAX", 300)
    monkeypatch.setattr(wacz_writer, "_MEMORY_BYTES_MAX", 10)
    monkeypatch.setattr(wacz_writer, "LINES_PER_BLOCK", 7)
    lines = write(tmp_path / "a.wacz", count=50)
    with Wacz(tmp_path / "a.wacz") as wacz, wacz.open("indexes/index.cdx.gz") as stream:
        assert gzip.decompress(stream.read()).splitlines() == lines
    assert findings(tmp_path / "a.wacz") == []
    assert [each.name for each in tmp_path.iterdir()] == ["a.wacz"]


def test_it_is_open_while_it_is_written_and_gone_if_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), WaczWriter(tmp_path / "a.wacz") as writer:
        assert [each.name for each in tmp_path.iterdir()] == ["a.wacz.open"]
        with writer.warc("a.warc.gz") as sink:
            sink.write(b"x")
            raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_wacz_without_a_warc_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one WARC"), WaczWriter(tmp_path / "a.wacz"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a", "../a.warc.gz", "a/b.warc", "a.warc.zst", ".warc", "a b.warc"])
def test_names_that_are_none_of_a_warc_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="bad name"), WaczWriter(tmp_path / "a.wacz") as writer, writer.warc(name):
        pass


def test_a_warc_cannot_be_added_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already"), WaczWriter(tmp_path / "a.wacz") as writer:
        for _ in range(2):
            with writer.warc("a.warc"):
                pass


def test_a_full_disk_is_named(path: Path) -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(VolumeFull, match=r"made\.wacz"):
        MemberSink(full, path).write(b"x")
