"""What goes in comes out, byte for byte and record for record (N3), and what is in is not added twice."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
import zstandard
from archive_warcs import CODINGS, HTTP, Look, chunked, exchange, packed, record, response, revisit, sha1, write
from hypothesis import given, settings
from hypothesis import strategies as st
from truths import PLAN, SAMPLES, assert_exact, captures, import_all, records_of, references, sources

import holdfast
from holdfast import Archive
from holdfast.archive.ingest.file_reader import ImportInput
from holdfast.archive.ingest.importer import ImportOptions
from holdfast.catalog import CaptureQuery

URL = "http://example.com/"
BIG = Random(0).randbytes(12_800)  # some pieces of 4096 bytes


def uncompressed(path: Path) -> bytes:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        return gzip.decompress(raw)
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw), read_across_frames=True) as reader:
            return reader.read()
    return raw


def sample_files() -> list[Path]:
    return sorted(path for path in SAMPLES.rglob("*") if path.is_file()) if SAMPLES.is_dir() else []


needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not beside the project")


@needs_samples
def test_every_sample_comes_out_as_it_went_in(archive: Archive) -> None:
    """A file without a lost range; what breaks a rule but can be read is kept exactly as well."""
    exact = 0
    for number, path in enumerate(sample_files()):
        collection = f"c{number}"  # so that names that occur twice are told apart
        (report,) = import_all(archive, path, collection=collection)
        if not report.lost and report.error is None and report.records:
            parts = records_of(archive, report.name, collection)
            assert len(parts) == report.records
            assert b"".join(parts) == uncompressed(path), path
            exact += 1
    assert exact > 70
    assert_exact(archive)


@needs_samples
def test_every_sample_is_imported_or_its_fault_named(archive: Archive) -> None:
    """Names and offsets of faults; what is called valid has none, what is called invalid has some."""
    for path in sample_files():
        (report,) = import_all(archive, path)
        if not report.records:
            assert report.findings or report.error is not None, f"'{path}' gives neither records nor a fault"
        for finding in report.findings:
            assert 0 <= finding.offset <= path.stat().st_size, (path, finding)
            assert finding.reason
        if path.name.startswith("invalid-") and path.parent.name != "gzip":
            assert report.findings, f"'{path}' passed"
        if path.name.startswith("valid-"):
            assert not report.findings, f"'{path}': {report.findings}"
    assert_exact(archive)


# -- records of every kind --------------------------------------------------------------------------------------------

LF = Look(end=b"\n")
KINDS = {
    "warcinfo": record("warcinfo", "", b"software: by hand\r\nformat: WARC File Format 1.1\r\n"),
    "response": response(URL, b"<p>hello</p>"),
    "resource": record("resource", "file:///etc/motd", b"plain text"),
    "request": record("request", URL, b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"),
    "request with a body": record("request", URL, b"POST / HTTP/1.1\r\nHost: a\r\n\r\n" + b"x=y&" * 60),
    "metadata": record("metadata", URL, b"fetchTimeMs: 17\r\n"),
    "large metadata": record("metadata", URL, b"outlink: http://a.example/\r\n" * 20),
    "revisit": revisit(URL, sha1(b"<p>hello</p>"), "2026-12-02T03:04:05Z"),
    "conversion": record("conversion", URL, b"hello"),
    "first segment": record("response", URL, HTTP + b"the first", [("WARC-Segment-Number", "1")]),
    "continuation": record(
        "continuation", URL, b", the last", [("WARC-Segment-Number", "2"), ("WARC-Segment-Total-Length", "57")]
    ),
    "unknown type": record("dream", URL, b"of electric sheep"),
    "nothing at all": record("response", URL, b""),
    "no payload": response(URL, b""),
    "an empty resource": record("resource", URL, b""),
    "repeated fields": record(
        "response", URL, HTTP + b"a", [("WARC-Concurrent-To", "<urn:a>"), ("WARC-Concurrent-To", "<urn:b>")]
    ),
    "odd spaces and case": record("resource", URL, b"a", [("wArC-tYpE", "  resource\t"), ("X-Empty", "")]),
    "a continued line": record("resource", URL, b"a", [("X-Long", "one\r\n two\r\n\tthree")]),
    "non-ASCII": record("resource", "http://example.com/ü", b"a", [("X-Name", "北京大学")]),
    "Latin-1": record("resource", URL, b"a", [("X-Name", "\udcfc\udcff")]),
    "line feeds only": record("response", URL, HTTP + b"a", look=LF),
    "line feeds everywhere": record("response", URL, b"HTTP/1.0 200 OK\nA: b\n\na", look=LF),
    "another version": record("resource", URL, b"a", look=Look(version="WARC/1.0")),
    "no HTTP": record(
        "response", "dns:example.com", b"20261102\nexample.com. 1 IN A 1.2.3.4\n", [("Content-Type", "text/dns")]
    ),
    "a broken start line": record("response", URL, b"ICY 200 OK\r\n\r\nmusic"),
    "a head without an end": record("response", URL, b"HTTP/1.1 200 OK\r\nServer: a"),
    "chunks": record("response", URL, chunked(b"hello world" * 9, 7)),
    "chunks of one byte": record("response", URL, chunked(b"hello world", 1)),
    "chunks and trailers": record("response", URL, chunked(b"hello", 3, b"X-Check: 1\r\n")),
    "chunks that are none": record("response", URL, chunked(b"", 1)[:-5] + b"<p>not chunked</p>"),
    "chunks that go wrong": record("response", URL, chunked(b"hello world", 4)[:-9] + b"zz\r\nrest"),
    "chunks cut off": record("response", URL, chunked(b"hello world", 4)[:-11]),
    "a chunk too long": record("response", URL, chunked(b"", 1)[:-5] + b"ffff\r\nshort"),
    "pieces": response(URL, BIG),
    "pieces that are alike": response(URL, bytes(4096) * 4 + b"end"),
    "pieces and chunks": record("response", URL, chunked(BIG, 1000, b"A: b\r\n")),
    "pieces of metadata": record("metadata", URL, BIG),
    "pieces of a request": record("request", URL, b"POST / HTTP/1.1\r\nHost: a\r\n\r\n" + BIG),
    "pieces of a resource": record("resource", URL, BIG),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_records_of_every_kind(archive: Archive, quick: Path, coding: str) -> None:
    path = write(quick / "kinds.warc", KINDS.values(), coding)
    (report,) = import_all(archive, path)
    assert (report.lost, report.error, report.records) == (0, None, len(KINDS))
    assert dict(zip(KINDS, records_of(archive, "kinds.warc"), strict=True)) == KINDS
    assert_exact(archive)


def test_files_that_are_read_by_other_processes(archive: Archive, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As larger ones are: the same records, in the same order, and nothing is left of what was put aside."""
    monkeypatch.setattr("holdfast.archive.ingest.importer.PROCESS_BYTES_MIN", 0)
    paths = [write(quick / f"{coding}.warc", KINDS.values(), coding) for coding in CODINGS]
    damaged = write(quick / "damaged.warc", [*KINDS.values(), b"garbage", response(URL, BIG)[:-100]])
    *reports, last = import_all(archive, *paths, damaged, jobs=2)
    assert [(each.records, each.lost) for each in reports] == [(len(KINDS), 0)] * 3
    assert sum(each.added for each in [*reports, last]) == len(KINDS)
    assert (last.known, last.complete) == (len(KINDS), True)
    assert last.findings[-1].offset > 0
    for path in paths:
        assert records_of(archive, path.name) == list(KINDS.values())
    assert list(archive.path.glob("*.open")) == []
    assert_exact(archive)


def test_payloads_of_records_that_are_kept_in_pieces(archive: Archive, quick: Path) -> None:
    chunks = record("response", "http://example.com/chunks", chunked(BIG, 1000, b"A: b\r\n"))
    raw = response("http://example.com/raw", BIG)
    import_all(archive, write(quick / "a.warc", [chunks, raw]))
    for name in ("chunks", "raw"):
        stored = archive.get(f"http://example.com/{name}")
        assert stored.payload() == BIG
        assert stored.capture.size == len(BIG)
        assert stored.capture.digest == sha1(BIG)
    assert sum(references(archive).values()) == 2 * len(references(archive)), "the pieces are shared"


def test_a_payload_of_100_mb(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from a stream and kept in pieces; it is never in memory as a whole."""
    monkeypatch.setattr("holdfast.records.draft.PIECE_BYTES_MAX", 32 << 20)
    size = 100 << 20
    step = bytes(range(256)) * 4096
    head = record("resource", URL, b"", [("Content-Length", str(size))]).replace(b"Content-Length: 0\r\n", b"")[:-4]

    class Generated(io.RawIOBase):
        def __init__(self) -> None:
            self._parts: Iterator[bytes] = iter([head, *[step] * (size // len(step)), b"\r\n\r\n"])
            self._left = b""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            self._left = self._left or next(self._parts, b"")
            taken = self._left[: len(buffer)]
            buffer[: len(taken)] = taken
            self._left = self._left[len(taken) :]
            return len(taken)

    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        source = ImportInput("big.warc", stream=io.BufferedReader(Generated()))
        (report,) = archive.import_files([source], ImportOptions(verify_digests=False))
        assert (report.records, report.lost) == (1, 0)
        stored = archive.get(URL)
        assert stored.capture.size == size
        at = 0
        for part in stored.raw():
            expected = (head if at == 0 else part) if part == head else step * (len(part) // len(step))
            assert part in (expected, b"\r\n\r\n")
            at += len(part)
        assert at == len(head) + size + 4


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["response", "request", "resource", "metadata", "revisit", "conversion", "warcinfo"]),
            st.one_of(
                st.binary(max_size=200),
                st.binary(max_size=60).map(lambda each: HTTP + each),
                st.tuples(st.binary(max_size=60), st.integers(1, 20)).map(lambda each: chunked(*each)),
                st.tuples(st.binary(max_size=60), st.integers(1, 20), st.integers(1, 30)).map(
                    lambda each: chunked(each[0], each[1])[: -each[2]]
                ),
                st.tuples(st.binary(min_size=1, max_size=9), st.integers(4000, 9000)).map(
                    lambda each: (each[0] * each[1])[: each[1]]
                ),
            ),
            st.sampled_from([b"\r\n", b"\n"]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(CODINGS),
)
def test_any_blocks(blocks: list[tuple[str, bytes, bytes]], coding: str) -> None:
    records = [record(kind, URL, block, look=Look(end=end)) for kind, block, end in blocks]
    with TemporaryDirectory(prefix="holdfast-test-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        holdfast.init(Path(name) / "archive", PLAN)
        with holdfast.open(Path(name) / "archive") as archive:
            (report,) = import_all(archive, write(Path(name) / "any.warc", records, coding))
            assert (report.lost, report.records) == (0, len(records))
            assert records_of(archive, "any.warc") == records
            assert_exact(archive)


def test_a_request_without_a_block_has_no_payload(archive: Archive, quick: Path) -> None:
    import_all(archive, write(quick / "empty.warc", [record("request", URL, b"")]))
    (stored,) = [entry for _, entry in holdfast.Selection().entries(archive.journal)]
    assert stored.size == 0
    assert records_of(archive, "empty.warc") == [record("request", URL, b"")]


# -- once and again ---------------------------------------------------------------------------------------------------


def test_the_same_file_again_adds_nothing(archive: Archive, quick: Path) -> None:
    path = write(quick / "kinds.warc.gz", KINDS.values(), "gzip")
    (first,) = import_all(archive, path)
    before, listed, named = references(archive), captures(archive), sources(archive)
    (second,) = import_all(archive, path)
    assert (second.added, second.known) == (0, first.records)
    assert (references(archive), captures(archive), sources(archive)) == (before, listed, named)
    assert_exact(archive)


def test_the_same_records_under_another_name(archive: Archive, quick: Path) -> None:
    """No new captures, and both files can be written again."""
    import_all(archive, write(quick / "one.warc.gz", KINDS.values(), "gzip"))
    before, listed = references(archive), captures(archive)
    other = [*reversed(KINDS.values()), response("http://example.com/new", b"new" * 30)]
    (report,) = import_all(archive, write(quick / "two.warc", other))
    assert report.added == 1
    assert len(captures(archive)) == len(listed) + 1
    assert len(references(archive)) == len(before) + 1
    assert records_of(archive, "one.warc.gz") == list(KINDS.values())
    assert records_of(archive, "two.warc") == other
    assert_exact(archive)


def test_the_same_file_in_another_collection(archive: Archive, quick: Path) -> None:
    """Captures double, contents are shared."""
    path = write(quick / "kinds.warc", KINDS.values())
    import_all(archive, path)
    before, listed = references(archive), captures(archive)
    import_all(archive, path, collection="other")
    assert len(captures(archive)) == 2 * len(listed)
    assert len(captures(archive, CaptureQuery(url="*", collection="other"))) == len(listed)
    assert references(archive) == before + before
    assert records_of(archive, "kinds.warc", "other") == records_of(archive, "kinds.warc") == list(KINDS.values())


def test_a_record_twice_in_one_file(archive: Archive, quick: Path) -> None:
    records = [*exchange(URL, b"hello"), response(URL, BIG)] * 2
    (report,) = import_all(archive, write(quick / "twice.warc", records))
    assert (report.added, report.known) == (4, 4)
    assert records_of(archive, "twice.warc") == records
    assert_exact(archive)


def test_many_files_at_a_time(archive: Archive, quick: Path) -> None:
    files = {}
    for number in range(6):
        records = [response(f"http://example.com/{n}", b"%d" % (n // 3)) for n in range(number * 40, number * 60 + 50)]
        files[write(quick / f"{number}.warc.gz", records, "gzip")] = records
    import_all(archive, *files, jobs=3)
    for path, records in files.items():
        assert records_of(archive, path.name) == records
    assert_exact(archive)


def test_packed_is_what_it_says() -> None:
    assert [packed(b"a" * 99, coding)[:2] for coding in CODINGS] == [b"aa", b"\x1f\x8b", b"\x28\xb5"]


def test_many_chunks_of_a_large_record(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time and memory grow with the record, not with its chunks times its pieces."""
    body = chunked(bytes(6_000_000), 100)
    write(quick / "chunks.warc", [record("response", URL, body)])
    monkeypatch.setattr("holdfast.records.draft.PIECE_BYTES_MAX", 4 << 20)
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        (report,) = archive.import_files([quick / "chunks.warc"])
        assert (report.added, report.findings) == (1, [])
        assert archive.get(URL).payload() == bytes(6_000_000)
        assert b"".join(archive.get(URL).raw()) == (quick / "chunks.warc").read_bytes()
