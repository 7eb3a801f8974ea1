"""Reading ARC 1 and 2."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reading_builders import CODINGS, SAMPLES, arc, assert_accounted, gz, needs_samples, page, read_all

from holdfast.formats.io.sniff import sniff
from holdfast.formats.record import FindingKind

DESCRIPTION = b"1 1 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n<xml/>\n"
FIRST = b"filedesc://a.arc 0.0.0.0 20200102030405 text/plain %d\n" % len(DESCRIPTION) + DESCRIPTION + b"\n"
RECORDS = [FIRST, *(arc(number, b"text " * number) for number in range(5))]


@pytest.mark.parametrize("coding", CODINGS)
def test_bytes_are_exact(coding: str) -> None:
    parts = [CODINGS[coding](record) for record in RECORDS]
    texts, records, findings = read_all(b"".join(parts))
    assert texts == RECORDS
    assert findings == []
    assert [record.type for record in records] == ["warcinfo"] + ["response"] * 5
    assert [record.length for record in records] == [len(part) for part in parts]
    assert (records[1].url, records[1].timestamp, records[1].ip) == (
        "http://example.com/0",
        "20200102030405",
        "192.0.2.1",
    )
    assert (records[1].format, records[1].has_http, records[0].has_http) == ("arc/1", True, False)
    assert records[1].headers["Content-type"] == "text/html"
    assert sniff(b"".join(parts)).startswith("arc")


def test_version_2_has_ten_fields() -> None:
    text = b"2 0 AlexaInternet\nURL ...\n"
    first = b"filedesc://a.arc 0.0.0.0 20200102030405 text/plain 200 - - 0 a.arc %d\n" % len(text) + text + b"\n"
    block = page(b"hi")
    second = b"http://e.com/ 192.0.2.1 20200102030405 text/html 200 fac0 - 209 a.arc %d\n" % len(block) + block + b"\n"
    texts, records, findings = read_all(first + second)
    assert texts == [first, second]
    assert [record.format for record in records] == ["arc/2", "arc/2"]
    assert (records[1].headers["Result-code"], records[1].headers["Checksum"]) == ("200", "fac0")
    assert findings == []


@pytest.mark.parametrize(
    ("line", "timestamp", "faults"),
    [
        (b"http://e.com/a b c 192.0.2.1 20200102030405 text/html", "20200102030405", ["bad URL 'http://e.com/a b c'"]),
        (b"http://e.com/ 192.0.2.1 202001020304 text/html", "20200102030400", ["bad Archive-date '202001020304'"]),
        (
            b"http://e.com/ 192.0.2.1 20200102030405123 text/html",
            "20200102030405",
            ["bad Archive-date '20200102030405123'"],
        ),
        (b"http://e.com/ - - -", "", ["bad Archive-date '-'"]),
        (b"http://e.com/ nowhere 20200102030405 text/html", "20200102030405", ["bad IP-address 'nowhere'"]),
        (b"dns:e.com 192.0.2.1 20200102030405 text/html; charset=x", "20200102030405", []),
    ],
)
def test_odd_lines(line: bytes, timestamp: str, faults: list[str]) -> None:
    record = line + b" 5\nhello\n"
    texts, records, findings = read_all(FIRST + record + RECORDS[2])
    assert texts == [FIRST, record, RECORDS[2]]
    assert records[1].timestamp == timestamp
    assert [finding.reason for finding in findings] == faults


def test_a_wrong_length_costs_nothing() -> None:
    wrong = RECORDS[5].replace(b" text/html 6", b" text/html 9")
    file = FIRST + wrong + b"".join(RECORDS[1:])
    texts, records, findings = read_all(file)
    assert texts == [FIRST, wrong, *RECORDS[1:]]
    assert [(finding.kind, finding.offset, finding.length) for finding in findings] == [
        (FindingKind.TRUNCATED, len(FIRST), len(wrong))
    ]
    assert_accounted(len(file), records, findings)


@pytest.mark.parametrize("encode", [bytes, gz])
def test_a_last_record_that_is_cut_keeps_what_is_there(encode: Callable[[bytes], bytes]) -> None:
    cut = encode(RECORDS[5])[:-20]
    texts, records, findings = read_all(encode(FIRST) + cut)
    assert len(texts) == 2
    assert RECORDS[5].startswith(texts[1])
    assert len(texts[1]) > len(records[1].head)
    assert [finding.kind for finding in findings] == [FindingKind.TRUNCATED]
    assert_accounted(len(encode(FIRST) + cut), records, findings)


@needs_samples
def test_real_files() -> None:
    expected = {
        "jwat/arc/1-1-20110922131213-00000-svc-VirtualBox.arc": (102, []),
        "jwat/arc/small_BNF.arc": (6, []),
        "jwat/arc/invalid-arcfile-record-then-garbage.arc": (1, [(2329, 25)]),
        "warcio/example.arc": (2, []),
        "warcio/example.arc.gz": (2, []),
        "warcio/bad.arc": (1, [(0, 202), (262, 69)]),
        "blackbook/IAH-20080430204825-00000-blackbook-truncated.arc": (9, []),
    }
    for name, (count, lost) in expected.items():
        file = (SAMPLES / name).read_bytes()
        texts, records, findings = read_all(file)
        assert len(texts) == count, name
        assert [(f.offset, f.length) for f in findings if f.kind is FindingKind.LOST] == lost, name
        assert_accounted(len(file), records, findings)
