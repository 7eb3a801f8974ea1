"""Reading WARC: exact bytes, fields, offsets."""

from __future__ import annotations

import io

import pytest
from reading_builders import CODINGS, Pipe, assert_accounted, page, read_all, warc, warc_record, whole

from holdfast.errors import MalformedInput
from holdfast.formats.io.open import open_records
from holdfast.formats.io.sniff import sniff
from holdfast.formats.record import Finding, FindingKind

RECORDS = [warc(number, b"x" * number * 100) for number in range(12)]


@pytest.mark.parametrize("coding", CODINGS)
def test_bytes_and_places_are_exact(coding: str) -> None:
    parts = [CODINGS[coding](record) for record in RECORDS]
    texts, records, findings = read_all(b"".join(parts))
    assert texts == RECORDS
    assert findings == []
    assert [record.length for record in records] == [len(part) for part in parts]
    assert_accounted(sum(map(len, parts)), records, findings)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("step", [1, 17, 4096])
def test_a_pipe_will_do(coding: str, step: int) -> None:
    parts = [CODINGS[coding](record) for record in RECORDS[:4]]
    texts, records, findings = read_all(Pipe(b"".join(parts), step))  # type: ignore[arg-type]
    assert texts == RECORDS[:4]
    assert findings == []
    assert_accounted(sum(map(len, parts)), records, findings)


def test_the_record_says_what_it_is() -> None:
    [record] = open_records(io.BytesIO(warc_record(page(b"hello"), "WARC-IP-Address: 192.0.2.7")))
    assert (record.format, record.type, record.url) == ("warc/1.1", "response", "http://example.com/1")
    assert (record.timestamp, record.ip, record.has_http) == ("20200102030405", "192.0.2.7", True)
    assert record.headers["warc-ip-address"] == "192.0.2.7"
    assert record.block.read(4) == b"HTTP"
    assert record.block.read() == page(b"hello")[4:]
    assert record.block.read() == b""


def test_odd_heads_are_kept_and_parsed() -> None:
    odd = "X-Name: grün \udcff"
    record_bytes = warc_record(
        b"", odd, "WARC-Concurrent-To: <urn:a:1>", "WARC-Concurrent-To: <urn:a:2>", "X: a\r\n\tb"
    )
    texts, [record], findings = read_all(record_bytes)
    assert texts == [record_bytes]
    assert record.headers["x-name"] == "grün \udcff"
    assert record.headers["X"] == "a b"
    assert record.headers.get_all("warc-concurrent-to") == ["<urn:a:1>", "<urn:a:2>"]
    assert [finding.reason for finding in findings] == ["the head is not UTF-8"]


def test_lines_that_end_in_lf_are_tolerated() -> None:
    head, _, rest = RECORDS[1].partition(b"\r\n\r\n")
    odd = head.replace(b"\r\n", b"\n") + b"\n\n" + rest
    texts, [record], findings = read_all(odd + RECORDS[2])[0], read_all(odd)[1], read_all(odd)[2]
    assert texts == [odd, RECORDS[2]]
    assert record.url == "http://example.com/1"
    assert "LF instead of CR LF" in findings[0].reason


@pytest.mark.parametrize("tail", [b"", b"\r\n", b"\n\n", b"\r\n\r\n\r\n\r\n"])
def test_other_ends_of_records_are_told(tail: bytes) -> None:
    odd = RECORDS[3][:-4] + tail
    texts, records, findings = read_all(odd + RECORDS[2])
    assert texts == [odd, RECORDS[2]]
    assert [(finding.kind, finding.offset) for finding in findings] == [(FindingKind.INVALID, 0)]
    assert records[0].findings == findings


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("seekable", [True, False])
def test_large_blocks_come_in_pieces(coding: str, seekable: bool) -> None:
    block = page(bytes(range(256)) * 12_000)
    parts = [CODINGS[coding](record) for record in (RECORDS[1], warc_record(block), RECORDS[2])]
    file = b"".join(parts)
    findings: list[Finding] = []
    sizes, records = [], []
    for record in open_records(io.BytesIO(file) if seekable else Pipe(file, 70_000), report=findings.append):  # type: ignore[arg-type]
        got = b"".join(iter(lambda r=record: r.block.read(50_000), b""))  # type: ignore[misc]
        sizes.append(len(got))
        assert len(got) < 100_000 or got == block
        record.finish()
        records.append(record)
    assert sizes[1] == len(block)
    assert findings == []
    assert_accounted(len(file), records, findings)


def test_what_is_not_read_is_skipped() -> None:
    file = warc_record(page(b"y" * 3_000_000)) + RECORDS[1]
    assert [record.url[-1] for record in open_records(io.BytesIO(file))] == ["1", "1"]


def test_an_empty_file_is_told() -> None:
    assert [finding.reason for finding in read_all(b"")[2]] == ["the file is empty"]


def test_strict_raises_at_the_first_fault() -> None:
    with pytest.raises(MalformedInput, match=f"at {len(RECORDS[0])}: no record begins with"):
        list(open_records(io.BytesIO(RECORDS[0] + b"garbage" + RECORDS[1]), strict=True))
    with pytest.raises(MalformedInput, match="invalid input at 0: unknown WARC-Type"):
        list(open_records(io.BytesIO(warc_record(b"", kind="monkey")), strict=True))
    assert [whole(record) for record in open_records(io.BytesIO(b"".join(RECORDS)), strict=True)] == RECORDS


def test_rules_can_be_left_out() -> None:
    file = warc_record(b"abc", "WARC-Block-Digest: sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", kind="monkey")
    assert len(read_all(file)[2]) == 2
    assert len(read_all(file, validate=False)[2]) == 1
    assert read_all(file, validate=False, verify_digests=False)[2] == []


@pytest.mark.parametrize("coding", CODINGS)
def test_sniffing(coding: str) -> None:
    suffix = {"plain": "", "gz": ".gz", "zst": ".zst"}[coding]
    assert sniff(CODINGS[coding](RECORDS[0])) == "warc" + suffix
    assert sniff(CODINGS[coding](b"nothing that we know")) == ""
    assert sniff(b"") == ""
