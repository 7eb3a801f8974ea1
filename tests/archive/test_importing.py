"""Importing files by Python: done when the call returns, with a report (P1, N7)."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest
from archive_warcs import record, response, write

from holdfast import Archive, ExportOptions, ImportOptions, Selection
from holdfast.archive.ingest import file_reader
from holdfast.archive.ingest.file_reader import ImportInput, inputs_of
from holdfast.archive.ingest.reader_process import ReaderPool
from holdfast.errors import Denied, MalformedInput, NotFound, UsageError

URL = "http://example.com/"


def test_files_are_in_when_the_call_returns(archive: Archive, quick: Path) -> None:
    first = write(quick / "first.warc", [response(URL, b"one"), response(f"{URL}2", b"two")])
    second = write(quick / "second.warc", [response(f"{URL}3", b"three")])

    report = archive.import_files([str(first), second])

    assert archive.get(URL).payload() == b"one"
    assert archive.get(f"{URL}3").payload() == b"three"
    assert (report.added, report.known, report.records, report.complete) == (3, 0, 3, True)
    assert sorted(each.name for each in report.files) == ["first.warc", "second.warc"]
    assert report.bytes == first.stat().st_size + second.stat().st_size
    again = archive.import_files([first, second])
    assert (again.added, again.known, again.refused, again.lost, again.invalid) == (0, 3, 0, 0, 0)


def test_one_path_needs_no_list(archive: Archive, quick: Path) -> None:
    path = write(quick / "x.warc", [response(URL, b"one")])
    assert archive.import_files(path).added == 1
    assert archive.import_files(str(path)).known == 1


def test_the_iterator_reads_nothing_before_it_is_asked(archive: Archive, quick: Path) -> None:
    path = write(quick / "x.warc", [response(URL, b"one")])
    reports = archive.iter_import([path])
    assert archive.catalog.newest(URL) is None
    (report,) = reports
    assert report.added == 1
    assert archive.get(URL).payload() == b"one"


@pytest.mark.parametrize("call", ["import_files", "iter_import"])
def test_what_is_no_file_is_refused_before_anything_is_imported(archive: Archive, quick: Path, call: str) -> None:
    path = write(quick / "x.warc", [response(URL, b"one")])
    with pytest.raises(NotFound, match="no such file"):
        getattr(archive, call)([path, quick / "none.warc"])
    with pytest.raises(UsageError, match="it is a directory"):
        getattr(archive, call)([path, quick])
    assert archive.catalog.newest(URL) is None


def test_a_broken_file_does_not_keep_the_others_out(archive: Archive, quick: Path) -> None:
    path = write(quick / "x.warc", [response(URL, b"one")])
    (quick / "broken.wacz").write_bytes(b"PK\x03\x04 and nothing else")

    report = archive.import_files([quick / "broken.wacz", path])

    errors = {each.name: each.error for each in report.files}
    assert isinstance(errors["broken.wacz"], MalformedInput)
    assert errors["x.warc"] is None
    assert not report.complete
    assert report.added == 1
    with pytest.raises(MalformedInput):
        archive.import_files([quick / "broken.wacz"], ImportOptions(strict=True))


def test_damage_is_counted_over_all_files(archive: Archive, quick: Path) -> None:
    damaged = write(quick / "damaged.warc", [response(URL, b"one"), record("response", f"{URL}2", b"two")])
    damaged.write_bytes(damaged.read_bytes() + b"garbage " * 30)
    report = archive.import_files([damaged])
    assert report.lost == sum(each.lost for each in report.files) > 0
    assert report.lost_bytes >= 240


def test_a_reader_imports_nothing(archive: Archive, quick: Path) -> None:
    import holdfast

    path = write(quick / "x.warc", [response(URL, b"one")])
    with holdfast.open(archive.path, read_only=True) as reader, pytest.raises(Denied):
        reader.import_files([path])


def test_a_reader_that_dies_costs_one_file(archive: Archive, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is reported as given up; another process reads the next one (P1, N7)."""
    monkeypatch.setattr("holdfast.archive.ingest.importer.PROCESS_BYTES_MIN", 0)
    paths = [write(quick / f"{name}.warc", [response(f"{URL}{name}", b"one")]) for name in "abc"]
    started = []
    usual = ReaderPool.__init__

    def start(pool: ReaderPool, count: int) -> None:
        usual(pool, count)
        started.append(count)
        if len(started) == 1:
            pool.kill()

    monkeypatch.setattr(ReaderPool, "__init__", start)
    first, *others = archive.import_files(paths)
    assert (first.complete, str(first.error)) == (False, "the process that read 'a.warc' died")
    assert [(each.complete, each.added) for each in others] == [(True, 1)] * 2
    assert started == [1, 1]


class _Held(io.BytesIO):
    """A stream that gives nothing before it is released."""

    def __init__(self, data: bytes, released: threading.Event) -> None:
        super().__init__(data)
        self._released = released

    def read(self, size: int | None = -1) -> bytes:
        self._released.wait()
        return super().read(size)


def test_groups_that_wait_are_added_together(archive: Archive, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of several files; each file is reported and listed by itself."""
    monkeypatch.setattr(file_reader, "DRAFTS_MAX", 2)
    first = write(quick / "first.warc", [response(URL, b"first")])
    released = threading.Event()
    streams = {name: b"".join(response(f"{URL}{name}{number}", b"%d" % number) for number in range(4)) for name in "ab"}
    held = [ImportInput(name, stream=_Held(data, released)) for name, data in streams.items()]

    reports = archive.iter_import([*inputs_of(first), *held], ImportOptions(jobs=3))
    assert next(reports).name == "first.warc"
    before = archive.catalog.changes
    released.set()
    for thread in threading.enumerate():
        if thread.name.startswith("holdfast-import-"):
            thread.join()  # all that they read waits
    found = {each.name: each for each in reports}

    assert {name: (each.added, each.bytes) for name, each in found.items()} == {
        name: (4, len(data)) for name, data in streams.items()
    }
    assert archive.catalog.changes - before < 6, "one for each of four groups and two lists"
    archive.export(Selection(), quick / "out", ExportOptions("warc", exact=True))
    assert {name: (quick / "out" / name).read_bytes() for name in streams} == streams
