"""Entries: golden bytes, and every entry comes back as it was (I2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.batches.entry import (
    JournalEntry,
    OpenFrame,
    digits,
    encode,
    find_heads,
    one_line,
    parse_entries,
    parse_entry,
    payload_of,
    runs,
    with_payload,
)
from holdfast.errors import DamagedBatch, UsageError
from holdfast.formats.dates import mail_date

GOLDEN = b"""version: 2.1
serial: 4711
type: response
url: http://www.pku.edu.cn/
date: Tue, 15 Apr 2003 08:13:06 GMT
ip: 162.105.129.12
collection: main
format: warc/1.1
status: 200
mime: text/html
digest: sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ
size: 18133
contentkey: v0:3f0a
layout: 8+18133+4
file: crawl.warc.gz
place: 81920+7210
refers-to: 20030101000000 http://a/
extra: {"redirect": "http://b/"}
length: 12

WARC/1.1\r\n\r\n
"""
ENTRY = JournalEntry(
    "response",
    "http://www.pku.edu.cn/",
    "20030415081306",
    b"WARC/1.1\r\n\r\n",
    4711,
    "162.105.129.12",
    "main",
    "warc/1.1",
    "200",
    "text/html",
    "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    18133,
    "v0:3f0a",
    "-",
    "8+18133+4",
    "crawl.warc.gz",
    81920,
    7210,
    "20030101000000 http://a/",
    '{"redirect": "http://b/"}',
)
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40).map(one_line)
ENTRIES = st.builds(
    JournalEntry,
    st.sampled_from(["response", "request", "revisit"]),
    TEXT,
    st.datetimes().map(lambda time: f"{time:%Y%m%d%H%M%S}".rjust(14, "0")),
    st.binary(max_size=200),
    st.integers(0, 2**32 - 1),
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    st.integers(0, 2**40),
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    TEXT,
    TEXT,
    TEXT,
)


def test_golden_bytes() -> None:
    assert encode(ENTRY) == GOLDEN
    assert parse_entries(GOLDEN) == [ENTRY]


def test_a_payload_that_stays_with_its_record() -> None:
    entry = ENTRY._replace(data=b"<1+2>", layout="1+1+1+1+1", contents="-", size=2)
    whole = with_payload(entry._replace(data=b"<+>"), b"12", b"\x3f\x0a")
    assert (whole.data, whole.signature) == (b"<1+2>", "3f0a")
    assert (whole.payload, whole.literals, whole.is_inline) == (b"12", b"<+>", True)
    raw = encode(whole)
    assert b"\nsize: 2\nsignature: 3f0a\nlayout: 1+1+1+1+1\n" in raw
    assert parse_entries(raw) == [whole]
    ((_, head),) = find_heads(raw, {4711})
    assert not isinstance(head, JournalEntry)
    assert payload_of(head) == b"12"
    assert (ENTRY.payload, ENTRY.literals, ENTRY.is_inline) == (b"", ENTRY.data, False)


def test_heads_of_other_programs() -> None:
    """Attributes in another order, and some that we do not know."""
    first, *lines, length = GOLDEN.partition(b"\n\n")[0].split(b"\n")
    head = b"\n".join([first, b"note: by hand", *reversed(lines), length])
    assert parse_entries(GOLDEN.replace(GOLDEN.partition(b"\n\n")[0], head)) == [ENTRY]
    request = b"version: 2.1\nserial: 1\ntype: request\nurl: -\ndate: Tue, 15 Apr 2003 08:13:06 GMT\nsize: -3\n"
    (short,) = parse_entries(request + b"length: 0\n\n\n")
    assert short.size == -3, "so it was written once, of requests without a block"


@given(st.lists(ENTRIES, max_size=8), st.sets(st.integers(0, 12)), st.booleans())
def test_only_wanted_heads_are_found(entries: list[JournalEntry], wanted: set[int], is_dense: bool) -> None:
    """Whether serial numbers follow each other or have gaps."""
    numbered = [entry._replace(serial=index if is_dense else index * 3 // 2) for index, entry in enumerate(entries)]
    found = find_heads(b"".join(map(encode, numbered)), wanted)
    assert [serial for serial, _ in found] == [entry.serial for entry in numbered if entry.serial in wanted]
    for serial, head in found:
        read = head if isinstance(head, JournalEntry) else parse_entry(head.string, head.start())[0]
        assert read.serial == serial


@given(st.lists(ENTRIES, max_size=5))
def test_entries_come_back(entries: list[JournalEntry]) -> None:
    kept = [entry if entry.filename != "-" else entry._replace(offset=0, length=0) for entry in entries]
    raw = b"".join(map(encode, kept))
    assert parse_entries(raw) == kept
    assert [OpenFrame(raw).entry(index) for index in range(len(kept) + 2)] == [*kept, None, None]
    frame = OpenFrame(raw)
    assert [frame.entry(index) for index in reversed(range(len(kept) + 2))] == [None, None, *reversed(kept)]


@given(st.binary(max_size=300))
def test_garbage_is_told_apart(raw: bytes) -> None:
    if raw:
        with pytest.raises(DamagedBatch):
            parse_entries(raw)
        with pytest.raises(DamagedBatch):
            OpenFrame(raw).entry(1)


@pytest.mark.parametrize("cut", range(1, len(GOLDEN)))
def test_a_cut_entry_is_told_apart(cut: int) -> None:
    with pytest.raises(DamagedBatch):
        parse_entries(GOLDEN[:cut])


def test_an_attribute_cannot_end_the_head() -> None:
    with pytest.raises(UsageError, match="line end"):
        encode(ENTRY._replace(url="http://a/\n\nlength: 0"))


@pytest.mark.parametrize(
    ("timestamp", "date"),
    [
        ("20030415081306", "Tue, 15 Apr 2003 08:13:06 GMT"),
        ("20000229235959", "Tue, 29 Feb 2000 23:59:59 GMT"),
        ("00010101000000", "Mon, 01 Jan 0001 00:00:00 GMT"),
    ],
)
def test_dates(timestamp: str, date: str) -> None:
    assert mail_date(timestamp) == date
    assert digits(date) == timestamp


def test_runs_pair_literals_with_payload() -> None:
    assert runs("12") == [(12, 0)]
    assert runs("12+5") == [(12, 5)]
    assert runs("12+5+4") == [(12, 5), (4, 0)]
    assert runs("1+2+3+4+5") == [(1, 2), (3, 4), (5, 0)]
