"""WARC files that other people's programs read: one member or frame per record, offsets exact, in files of a size."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import zstandard
from isal import isal_zlib
from warcio.archiveiterator import ArchiveIterator

from holdfast.env import Environment, LocalFiles
from holdfast.errors import UsageError, VolumeDown
from holdfast.formats.io.open import open_records
from holdfast.formats.record import Finding
from holdfast.formats.warc import writer as warc_writer
from holdfast.formats.warc.compose import WarcHead, digest_of, record_id, record_parts
from holdfast.formats.warc.writer import (
    SUFFIXES,
    Compression,
    RecordCompressor,
    WarcFiles,
    WarcFilesOptions,
    WarcWriter,
)

ALL: list[Compression] = ["none", "gzip", "zstd"]
CLOCK = 1_794_794_400.0  # 2026-11-16T02:00:00Z


def records(count: int = 20) -> list[list[bytes]]:
    """Responses with digests, of growing size, in pieces."""
    random = Random(0)
    made = []
    for number in range(count):
        payload = f"<p>page {number}".encode() + random.randbytes(number * 37).hex().encode()
        http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
        head = WarcHead(
            "response",
            "20261116020000",
            record_id(random.randbytes(16)),
            url=f"http://example.com/{number}",
            block_digest=digest_of([http, payload]),
            payload_digest=digest_of([payload], "sha256"),
        )
        made.append(record_parts(head, [http, payload]))
    return made


def environment() -> Environment:
    random = Random(1)
    return Environment(files=LocalFiles(), clock=lambda: CLOCK, random_bytes=random.randbytes)


def plain(compression: Compression, piece: bytes) -> bytes:
    """The one record in a piece of a file; fails if it is more or less than one member or frame."""
    if compression == "gzip":
        member = isal_zlib.decompressobj(wbits=31)
        data = member.decompress(piece)
        assert member.eof
        assert member.unused_data == b""
        return bytes(data)
    if compression == "zstd":
        facts = zstandard.get_frame_parameters(piece)
        assert facts.has_checksum
        frame = zstandard.ZstdDecompressor().decompressobj()
        data = frame.decompress(piece)
        assert frame.eof
        assert frame.unused_data == b""
        return data
    return piece


def written(compression: Compression, pieces: Sequence[Sequence[bytes]]) -> tuple[bytes, list[tuple[int, int]]]:
    sink = io.BytesIO()
    writer = WarcWriter(sink, compression=compression)
    places = [writer.write(parts) for parts in pieces]
    assert writer.offset == len(sink.getvalue())
    return sink.getvalue(), places


# -- one record, one piece ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ALL)
def test_every_place_holds_exactly_its_record(compression: Compression) -> None:
    file, places = written(compression, records())
    assert [plain(compression, file[start : start + size]) for start, size in places] == [
        b"".join(parts) for parts in records()
    ]
    assert sum(size for _, size in places) == len(file)


@pytest.mark.parametrize("compression", ALL)
@pytest.mark.parametrize("size_known", [True, False])
def test_records_fed_in_pieces_are_the_same_records(compression: Compression, size_known: bool) -> None:
    sink = io.BytesIO()
    writer = WarcWriter(sink, compression=compression)
    whole = b"".join(records(40)[-1])
    first = writer.write(records()[0])
    writer.begin(len(whole) if size_known else None)
    for start in range(0, len(whole), 100):
        writer.feed(memoryview(whole)[start : start + 100])
    fed = writer.end()
    last = writer.write(records()[1])
    assert fed == (first[1], last[0] - first[1])
    assert plain(compression, sink.getvalue()[fed[0] : last[0]]) == whole


@pytest.mark.parametrize("size_known", [True, False])
def test_a_zstd_frame_says_how_long_its_content_is_when_known(size_known: bool) -> None:
    sink = io.BytesIO()
    writer = WarcWriter(sink, compression="zstd")
    writer.begin(5 if size_known else None)
    writer.feed(b"hello")
    writer.end()
    size = zstandard.get_frame_parameters(sink.getvalue()).content_size
    assert size == (5 if size_known else zstandard.CONTENTSIZE_UNKNOWN)


@pytest.mark.parametrize("compression", ALL)
def test_records_may_be_compressed_in_many_threads(compression: Compression) -> None:
    sink = io.BytesIO()
    writer = WarcWriter(sink, compression=compression)
    with ThreadPoolExecutor(4) as pool:
        places = [writer.append(piece) for piece in pool.map(writer.compressor.compress_record, records(200))]
    assert (sink.getvalue(), places) == written(compression, records(200))


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(UsageError, match="bzip2"):
        RecordCompressor("bzip2")  # type: ignore[arg-type]


# -- other people's readers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_warcio_reads_with_offsets_and_digests(compression: Compression) -> None:
    file, places = written(compression, records())
    seen = []
    iterator = ArchiveIterator(io.BytesIO(file), check_digests="raise")
    for record in iterator:
        record.content_stream().read()
        assert record.digest_checker.passed
        seen.append((iterator.get_record_offset(), iterator.get_record_length()))
    if compression == "gzip":
        assert seen == places
    assert [offset for offset, _ in seen] == [offset for offset, _ in places]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_warcio_check_passes(compression: Compression, tmp_path: Path) -> None:
    path = tmp_path / ("a" + SUFFIXES[compression])
    path.write_bytes(written(compression, records())[0])
    command = [sys.executable, "-m", "warcio.cli", "check", "-v", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("digest pass") == 20


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_fastwarc_reads_with_offsets_and_digests(compression: Compression) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # FastWARC warns of its own modules when imported
        from fastwarc.warc import ArchiveIterator as FastIterator
    file, places = written(compression, records())
    seen = []
    for record in FastIterator(io.BytesIO(file), parse_http=False):
        assert record.verify_block_digest()
        seen.append(record.stream_pos)
    assert seen == [offset for offset, _ in places]


@pytest.mark.parametrize(("compression", "program"), [("gzip", "gzip"), ("zstd", "zstd")])
def test_the_common_programs_unpack_it(compression: Compression, program: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    path = tmp_path / ("a" + SUFFIXES[compression])
    path.write_bytes(written(compression, records())[0])
    subprocess.run([program, "-t", "-q", str(path)], check=True)
    done = subprocess.run([program, "-d", "-c", "-q", str(path)], check=True, capture_output=True)
    assert done.stdout == b"".join(b"".join(parts) for parts in records())


@pytest.mark.parametrize("compression", ALL)
def test_our_own_reader_reads_it(compression: Compression) -> None:
    file, places = written(compression, records())
    found: list[Finding] = []
    seen = []
    for record in open_records(io.BytesIO(file), report=found.append):
        block = record.block.read()
        record.finish()
        assert record.findings == []
        seen.append((record.head + block + record.tail, (record.offset, record.length)))
    assert seen == list(zip((b"".join(parts) for parts in records()), places, strict=True))
    assert found == []


# -- failures ----------------------------------------------------------------------------------------------------------


class _Failing(io.BytesIO):
    def write(self, data: object, /) -> int:
        raise OSError("disk on fire")


def test_a_writer_that_failed_once_refuses_further_records() -> None:
    writer = WarcWriter(_Failing())
    with pytest.raises(OSError, match="fire"):
        writer.write(records()[0])
    with pytest.raises(VolumeDown, match="within a record"):
        writer.write(records()[0])
    assert not writer.whole


class _Grudging(io.BytesIO):
    def write(self, data: object, /) -> int:
        return super().write(bytes(data)[:7])  # type: ignore[call-overload]


def test_sinks_that_take_little_at_a_time_get_all_of_it() -> None:
    sink = _Grudging()
    writer = WarcWriter(sink)
    writer.write(records()[5])
    assert plain("gzip", sink.getvalue()) == b"".join(records()[5])


# -- files of a size ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ALL)
def test_files_are_named_and_roll_over(
    compression: Compression, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warc_writer, "gethostname", lambda: "my host")
    options = WarcFilesOptions(bytes_max=3000, compression=compression, info=(("software", "x"),))
    with WarcFiles(tmp_path / "out", "CRAWL", options, env=environment()) as files:
        places = [files.write(parts) for parts in records()]
        assert [path.suffix for path in sorted((tmp_path / "out").iterdir())].count(".open") == 1
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [path.name for path in files.finished]
    assert len(names) > 2
    expected = re.compile(r"CRAWL-20261116020000-\d{5}-my-host" + re.escape(SUFFIXES[compression]))
    assert all(expected.fullmatch(name) for name in names)
    for parts, place in zip(records(), places, strict=True):
        file = (tmp_path / "out" / place.filename).read_bytes()
        assert plain(compression, file[place.offset : place.offset + place.length]) == b"".join(parts)
    largest = max(place.length for place in places)
    assert all((tmp_path / "out" / name).stat().st_size < 3000 + largest for name in names)


def test_each_file_begins_with_a_warcinfo_of_its_own(tmp_path: Path) -> None:
    options = WarcFilesOptions(bytes_max=2000, info=(("software", "holdfast"), ("operator", "me")))
    with WarcFiles(tmp_path, "a", options, env=environment()) as files:
        for parts in records():
            files.write(parts)
    ids = set()
    for path in files.finished:
        first, *others = [
            (record.rec_type, record.rec_headers, record.content_stream().read())
            for record in ArchiveIterator(io.BytesIO(path.read_bytes()), check_digests="raise")
        ]
        assert first[0] == "warcinfo"
        assert first[1].get_header("WARC-Filename") == path.name
        assert first[2].startswith(b"software: holdfast\r\noperator: me\r\nformat: WARC File Format 1.1\r\n")
        ids.add(first[1].get_header("WARC-Record-ID"))
        assert {kind for kind, _, _ in others} == {"response"}
    assert len(ids) == len(files.finished)


def test_a_record_larger_than_a_file_gets_one_of_its_own(tmp_path: Path) -> None:
    with WarcFiles(tmp_path, "a", WarcFilesOptions(bytes_max=10), env=environment()) as files:
        names = [files.write(parts).filename for parts in records(3)]
    assert len(set(names)) == 3


def test_large_records_are_fed(tmp_path: Path) -> None:
    with WarcFiles(tmp_path, "a", env=environment()) as files:
        files.begin()
        for piece in records()[7]:
            files.feed(piece)
        place = files.end()
    file = (tmp_path / place.filename).read_bytes()
    assert plain("gzip", file[place.offset : place.offset + place.length]) == b"".join(records()[7])
    assert gzip.decompress(file).endswith(b"".join(records()[7]))


def test_names_in_use_are_passed_over(tmp_path: Path) -> None:
    for _ in range(2):
        with WarcFiles(tmp_path, "a", env=environment()) as files:
            files.write(records()[0])
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_left_by_an_exception_keeps_its_open(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), WarcFiles(tmp_path, "a", env=environment()) as files:
        files.write(records()[0])
        raise ZeroDivisionError
    assert [path.suffix for path in tmp_path.iterdir()] == [".open"]


def test_a_file_that_ends_amid_a_record_is_not_given_its_name(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path, "a", env=environment())
    files.begin()
    files.feed(b"WARC/1.1\r\n")
    with pytest.raises(VolumeDown, match="within a record"):
        files.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [".open"]


@pytest.mark.parametrize("prefix", ["", "a/b", "..", "a b", ".hidden"])
def test_prefixes_that_are_no_names_are_refused(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="prefix"):
        WarcFiles(tmp_path, prefix)
