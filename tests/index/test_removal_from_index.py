"""What leaves the archive leaves the index: at once for those who ask, then off the disk (N2)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from index_samples import DATE, add, everything, exchange, finds, new_archive, pages, reading, rows, update

import holdfast
from holdfast import CaptureQuery, RemovalOptions, Selection
from holdfast.index import paths
from holdfast.index.build import locked
from holdfast.index.removal import PendingRemovals, RemovedRecords, deleted_documents
from holdfast.model import RecordId

ASKING = """
import sys
sys.path.insert(0, sys.argv[2])
from index_samples import finds, reading
with reading(sys.argv[1]) as archive:
    for line in sys.stdin:
        print(len(finds(archive.index, line.strip())), flush=True)
"""


class Asker:
    """Another process that has the archive open, and is asked how often a word is found."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", ASKING, str(path), str(Path(__file__).parent)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def count(self, word: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def removed(path: Path, url: str) -> None:
    with holdfast.open(path) as archive:
        assert archive.remove(Selection(CaptureQuery(url=url)), RemovalOptions("test")).records == 1


def doc_freq(path: Path, word: str) -> int:
    """In how many documents the word is, on disk: deleted ones count."""
    with reading(path) as archive:
        return archive.index.view().searcher.doc_freq("main", word)


def test_what_is_removed_is_found_no_more_and_leaves_the_files(tmp_path: Path) -> None:
    path = new_archive(tmp_path / "archive")
    add(path, pages(10))
    update(path)
    with Asker(path) as asker:
        assert (asker.count("zebra3"), asker.count("common")) == (1, 10)
        with reading(path) as writer, locked(writer.index):  # somebody is writing the index
            removed(path, "http://example.org/3")
            assert (asker.count("zebra3"), asker.count("common")) == (0, 9)
            assert doc_freq(path, "zebra3") == 1
            assert writer.index.status().removed_pending == 1
        removed(path, "http://example.org/4")  # nobody is: this settles both
        assert (asker.count("zebra3"), asker.count("zebra4"), asker.count("common")) == (0, 0, 8)
    assert (doc_freq(path, "zebra3"), doc_freq(path, "zebra4"), doc_freq(path, "common")) == (0, 0, 8)
    with reading(path) as archive:
        status = archive.index.status()
        assert (status.captures, status.documents, status.removed_pending, status.unpurged) == (8, 8, 0, 0)
        assert len(rows(archive.index, "links")) == 8
        assert not (archive.index.directory / paths.REMOVED).exists()
        before = everything(archive.index)
        archive.index.build()
        assert everything(archive.index) == before


def test_large_segments_keep_the_words_until_they_are_merged_or_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.index.removal.PURGE_RECORDS_MAX", 2)
    monkeypatch.setattr("holdfast.index.build.WRITER_THREADS", 1)
    path = new_archive(tmp_path / "archive")
    add(path, pages(5))
    update(path)
    removed(path, "http://example.org/3")
    assert doc_freq(path, "zebra3") == 1
    with reading(path) as archive:
        assert finds(archive.index, "zebra3") == []
        assert archive.index.status().unpurged == 1
        archive.index.build()
        assert deleted_documents(archive.index.directory / paths.words_name(2)) == 0
    assert doc_freq(path, "zebra3") == 0


def test_a_revisit_loses_the_text_of_a_removed_original(tmp_path: Path) -> None:
    path = new_archive(tmp_path / "archive")
    later = "20260401000000"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    add(path, [exchange("http://example.org/", b"secret words"), *pages(2)])
    with holdfast.open(path) as archive:
        file = tmp_path / "again.warc"
        digest = archive.get("http://example.org/").capture.digest
        file.write_bytes(
            b"WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Target-URI: http://example.org/\r\n"
            b"WARC-Date: 2026-04-01T00:00:00Z\r\n"
            b"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n"
            b"WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n"
            + f"WARC-Payload-Digest: {digest}\r\nWARC-Refers-To-Date: 2026-01-02T03:04:05Z\r\n".encode()
            + b"WARC-Refers-To-Target-URI: http://example.org/\r\n"
            + f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(head)}\r\n\r\n".encode()
            + head
            + b"\r\n\r\n"
        )
        assert [report.added for report in archive.import_files([file])] == [1]
    update(path)
    with reading(path) as reader:
        assert len(finds(reader.index, "secret")) == 2
        with reading(path) as writer, locked(writer.index), holdfast.open(path) as archive:
            selection = Selection(CaptureQuery(url="http://example.org/", match="exact", to=DATE))
            archive.remove(selection, RemovalOptions("test"))
            assert finds(reader.index, "secret") == [], "neither the one nor the other"
        reader.index.update()
        assert finds(reader.index, "secret") == []
        assert doc_freq(path, "secret") == 0
        [row] = [row for row in rows(reader.index, "captures") if row["timestamp"] == later]
        assert (row["original"], row["title"], row["failure"]) == (None, None, "no content")


def test_a_removal_without_an_index(tmp_path: Path) -> None:
    path = new_archive(tmp_path / "archive")
    add(path, pages(2))
    removed(path, "http://example.org/1")
    assert not (path / "index").exists()
    update(path)
    with reading(path) as archive:
        assert archive.index.status().captures == 1


# -- the file ----------------------------------------------------------------------------------------------------------


def test_the_file_of_removed_records(tmp_path: Path) -> None:
    from holdfast.env import REAL

    file = RemovedRecords(tmp_path, REAL)
    one, two, three = (RecordId("202611", serial) for serial in (1, 2, 3))
    assert (file.read(), file.mark()) == (PendingRemovals(), None)
    file.add([one, two], [three])
    assert (tmp_path / paths.REMOVED).read_text() == ("202611-0000000001\n202611-0000000002\n202611-0000000003 again\n")
    with (tmp_path / paths.REMOVED).open("a") as torn:
        torn.write("202611-00")  # by a process that was killed
    assert file.read() == PendingRemovals(frozenset({one, two}), frozenset({three}))
    file.add([three])
    assert file.read() == PendingRemovals(frozenset({one, two, three}), frozenset())
    file.clear(PendingRemovals(frozenset({one, three})))
    assert file.read() == PendingRemovals(frozenset({two}))
    file.clear(PendingRemovals(frozenset({two})))
    assert not (tmp_path / paths.REMOVED).exists()
