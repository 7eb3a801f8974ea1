"""Reading Tianwang 1.0 as its authors define it, and recovering it as they say (I2, I3)."""

from __future__ import annotations

import zlib

import pytest
from reading_builders import assert_accounted, read_all, tianwang

from holdfast.formats.io.sniff import sniff
from holdfast.formats.record import FindingKind

GOLDEN = (
    b"version: 1.0\n"
    b"url: http://www.pku.edu.cn/\n"
    b"origin: http://www.somewhere.cn/\n"
    b"date: Tue, 15 Apr 2003 08:13:06 GMT\n"
    b"ip: 162.105.129.12\n"
    b"length: 20\n"
    b"\n"
    b"HTTP/1.0 200 OK\n\nabc\n"
)
RECORDS = [tianwang(number, b"text\n" * number) for number in range(8)]


def test_the_typical_record() -> None:
    texts, [record], findings = read_all(GOLDEN)
    assert texts == [GOLDEN]
    assert findings == []
    assert (record.format, record.type, record.url) == ("tianwang/1.0", "response", "http://www.pku.edu.cn/")
    assert (record.timestamp, record.ip, record.has_http) == ("20030415081306", "162.105.129.12", True)
    assert record.headers["origin"] == "http://www.somewhere.cn/"
    assert (record.tail, record.length) == (b"\n", len(GOLDEN))
    assert sniff(GOLDEN) == "tianwang"


def compressed(content: bytes, size: int) -> bytes:
    data = zlib.compress(content)
    head = f"version: 1.0\nurl: http://e.cn/\ndate: Tue, 15 Apr 2003 08:13:06 GMT\nunzip-length: {size}\n"
    return head.encode() + b"length: %d\n\n" % len(data) + data + b"\n"


def test_compressed_data_stays_as_it_is() -> None:
    texts, [record], findings = read_all(compressed(b"HTTP/1.0 200 OK\n\n", 17))
    assert texts == [compressed(b"HTTP/1.0 200 OK\n\n", 17)]
    assert (record.headers["unzip-length"], record.has_http) == ("17", False)
    assert findings == []


def test_compressed_data_is_verified() -> None:
    assert read_all(compressed(b"abc", 4))[2][0].reason == "the data inflates to 3 bytes instead of 4"
    torn = compressed(b"abc" * 100, 300).replace(zlib.compress(b"abc" * 100)[:2], b"\0\0")
    assert "cannot be inflated" in read_all(torn)[2][0].reason


@pytest.mark.parametrize("victim", range(8))
def test_a_cut_loses_only_what_it_touches(victim: int) -> None:
    start = sum(map(len, RECORDS[:victim]))
    file = b"".join(RECORDS)
    for begin in range(0, len(RECORDS[victim]) - 5, 7):
        at = start + begin
        for harmed in (file[:at] + file[at + 5 :], file[:at] + b"#####" + file[at + 5 :]):
            texts, records, findings = read_all(harmed)
            assert [record for record in RECORDS if record not in texts] in ([], [RECORDS[victim]])
            assert_accounted(len(harmed), records, findings)


def test_a_start_needs_three_good_records_in_a_row() -> None:
    fake = b"version: 1.0\nurl: x\nlength: 3\n\nabc\n"
    texts, _, findings = read_all(RECORDS[0] + b"junk" + fake + b"more junk" + b"".join(RECORDS[1:]))
    assert texts == RECORDS
    assert [finding.length for finding in findings] == [len(b"junk" + fake + b"more junk")]
    assert findings[0].kind is FindingKind.LOST


@pytest.mark.parametrize("between", [1, 2])
@pytest.mark.parametrize("harm", [b"vers#on", b"length: x", b"\0" * 40])
def test_sound_records_between_two_damaged_heads_are_read(between: int, harm: bytes) -> None:
    """The authors' rule of three good records in a row would lose them; each damaged record is named apart (I3, N7)."""
    damaged = [1, 2 + between]
    parts = list(RECORDS)
    for number in damaged:
        old = {b"v": b"version", b"l": b"length: "}.get(harm[:1], RECORDS[number][:40])
        parts[number] = RECORDS[number].replace(old, harm, 1)
    texts, records, findings = read_all(b"".join(parts))
    assert texts == [record for number, record in enumerate(RECORDS) if number not in damaged]
    places = [(sum(map(len, parts[:number])), len(parts[number])) for number in damaged]
    assert [(finding.offset, finding.length) for finding in findings] == places
    assert {finding.kind for finding in findings} == {FindingKind.LOST}
    assert_accounted(len(b"".join(parts)), records, findings)


def test_fewer_will_do_at_the_end_of_the_file() -> None:
    texts, _, _ = read_all(RECORDS[0] + b"junk" + RECORDS[1])
    assert texts == RECORDS[:2]


def test_rules() -> None:
    reasons = [finding.reason for finding in read_all(b"version: 1.0\nUrl: x\nlength: 0\n\n\n")[2]]
    assert reasons == ["bad date None", "bad name of an attribute 'Url'"]
