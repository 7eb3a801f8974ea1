"""Gzip and zstd files that are not as they should be, and dictionaries."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from random import Random

import pytest
import zstandard
from reading_builders import Pipe, assert_accounted, gz, page, read_all, warc, warc_record, zst

from holdfast.formats.io.open import open_records
from holdfast.formats.record import FindingKind

RECORDS = [warc(number, b"some text of a page " * number) for number in range(1, 9)]


def test_one_member_for_the_whole_file() -> None:
    file = gzip.compress(b"".join(RECORDS), mtime=0)
    texts, records, findings = read_all(file)
    assert texts == RECORDS
    assert [record.offset for record in records] == [0] * len(RECORDS)
    assert [(finding.kind, finding.reason) for finding in findings] == [
        (FindingKind.INVALID, "several records in one gzip member")
    ]
    assert_accounted(len(file), records, findings)


@pytest.mark.parametrize("encode", [gz, zst])
@pytest.mark.parametrize("size", [1, 10, 100, 1000])
def test_records_split_over_members(encode, size: int) -> None:  # type: ignore[no-untyped-def]
    whole = b"".join(RECORDS[:3])
    file = b"".join(encode(whole[at : at + size]) for at in range(0, len(whole), size))
    texts, records, findings = read_all(file)
    assert texts == RECORDS[:3]
    assert all(finding.kind is FindingKind.INVALID for finding in findings)
    assert_accounted(len(file), records, findings)


def test_a_split_file_is_salvaged() -> None:
    whole = b"".join(RECORDS)
    members = [gz(whole[at : at + 100]) for at in range(0, len(whole), 100)]
    members[4] = members[4][:20] + b"damage" + members[4][26:]
    texts, records, findings = read_all(b"".join(members))
    assert len(texts) >= len(RECORDS) - 3
    assert RECORDS[-1] in texts
    assert_accounted(len(b"".join(members)), records, findings)


def test_bytes_behind_a_record_in_its_member() -> None:
    parts = [gz(RECORDS[0] + b"some garbage"), gz(RECORDS[1])]
    texts, records, findings = read_all(b"".join(parts))
    assert texts == RECORDS[:2]
    assert [record.length for record in records] == [len(part) for part in parts]
    assert [finding.reason for finding in findings] == ["12 bytes after the record in its gzip member"]


def test_empty_members_and_padding_are_accounted_for() -> None:
    file = gz(RECORDS[0]) + gz(b"") + gz(RECORDS[1]) + bytes(100)
    texts, records, findings = read_all(file)
    assert texts == RECORDS[:2]
    assert [finding.length for finding in findings] == [len(gz(b"")), 100]
    assert_accounted(len(file), records, findings)


def test_a_length_that_reaches_over_the_next_member_costs_nothing() -> None:
    wrong = RECORDS[0].replace(b"Content-Length: ", b"Content-Length: 9", 1)
    file = gz(wrong) + b"".join(map(gz, RECORDS[1:]))
    texts, records, findings = read_all(file)
    assert texts == [wrong, *RECORDS[1:]]
    assert [(finding.kind, finding.offset, finding.length) for finding in findings] == [
        (FindingKind.TRUNCATED, 0, len(gz(wrong)))
    ]
    assert_accounted(len(file), records, findings)


def test_a_large_length_that_reaches_over_the_next_member() -> None:
    wrong = RECORDS[0].replace(b"Content-Length: ", b"Content-Length: 9000000", 1)
    file = gz(wrong) + b"".join(map(gz, RECORDS[1:]))
    texts, records, findings = read_all(file)
    assert texts == [wrong, *RECORDS[1:]]
    assert [(finding.kind, finding.offset, finding.length) for finding in findings] == [
        (FindingKind.TRUNCATED, 0, len(gz(wrong)))
    ]
    assert_accounted(len(file), records, findings)


@pytest.mark.parametrize("encode", [gz, zst])
@pytest.mark.parametrize("size", [10_000, 300_000, 3_000_000])
@pytest.mark.parametrize("compressible", [True, False])
def test_a_member_that_is_cut_gives_what_can_be_decompressed(
    encode: Callable[[bytes], bytes], size: int, compressible: bool
) -> None:
    body = bytes(size) if compressible else Random(1).randbytes(size)
    record = warc(2, body)
    member = encode(record)
    cut = member[: len(member) * 3 // 4]
    file = encode(RECORDS[0]) + cut
    for stream in (io.BytesIO(file), Pipe(file, 65536)):
        texts, records, findings = read_all(stream)  # type: ignore[arg-type]
        assert texts[0] == RECORDS[0]
        if len(texts) == 2:
            assert record.startswith(texts[1])
            assert records[1].truncated
            assert findings[0].kind is FindingKind.TRUNCATED
        assert_accounted(len(file), records, findings)
        expected = decompressed(encode, cut)
        assert b"".join(texts[1:]) == (expected if b"\nWARC-Target-URI: http://example.com/2\r\n" in expected else b"")


def decompressed(encode: Callable[[bytes], bytes], cut: bytes) -> bytes:
    if encode is gz:
        return zlib.decompressobj(31).decompress(cut)
    return zstandard.ZstdDecompressor().decompressobj().decompress(cut)


def test_a_large_record_in_a_member_that_is_damaged_late() -> None:
    member = bytearray(gz(warc(2, Random(1).randbytes(3_000_000))))
    member[2_500_000] ^= 255
    file = gz(RECORDS[0]) + bytes(member) + gz(RECORDS[1])
    texts, records, findings = read_all(file)
    assert [texts[0], texts[2]] == RECORDS[:2]
    assert len(texts[1]) > 2_400_000
    assert [finding.kind for finding in findings] == [FindingKind.TRUNCATED]
    assert_accounted(len(file), records, findings)


def trained(compress: bool) -> tuple[bytes, list[bytes]]:
    samples = [warc(number, bytes([65 + number % 26]) * 50 + b" common text") for number in range(2000)]
    dictionary = zstandard.train_dictionary(4096, samples)
    data = dictionary.as_bytes()
    if compress:
        data = zst(data)
    compressor = zstandard.ZstdCompressor(dict_data=dictionary, write_checksum=True)
    frame = b"\x5d\x2a\x4d\x18" + struct.pack("<I", len(data)) + data
    return frame, [compressor.compress(record) for record in RECORDS]


@pytest.mark.parametrize("compress", [True, False])
def test_zstd_with_a_dictionary(compress: bool) -> None:
    frame, parts = trained(compress)
    file = frame + b"".join(parts)
    for stream in (io.BytesIO(file), Pipe(file, 100)):
        texts, records, findings = read_all(stream)  # type: ignore[arg-type]
        assert texts == RECORDS
        assert records[0].offset == len(frame)
        assert [finding.kind for finding in findings] == []


def test_zstd_skippable_frames_are_passed_over() -> None:
    skip = b"\x52\x2a\x4d\x18" + struct.pack("<I", 5) + b"hello"
    file = zst(RECORDS[0]) + skip + zst(RECORDS[1]) + skip
    texts, records, _ = read_all(file)
    assert texts == RECORDS[:2]
    assert records[1].offset == len(zst(RECORDS[0])) + len(skip)


@pytest.mark.parametrize("encode", [gz, zst])
def test_a_bomb_takes_no_memory(encode) -> None:  # type: ignore[no-untyped-def]
    file = encode(warc_record(page(bytes(60_000_000))))
    tracemalloc.start()
    for record in open_records(io.BytesIO(file)):
        assert record.content_length > 60_000_000
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()
