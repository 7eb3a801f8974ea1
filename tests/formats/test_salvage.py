"""Damaged files (I3, N7): whatever happens to a file, what was not touched is read, and the rest is accounted for."""

from __future__ import annotations

import gzip
import io
from itertools import accumulate

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from reading_builders import (
    BUILDERS,
    CODINGS,
    SAMPLES,
    Pipe,
    assert_accounted,
    digest,
    gz,
    needs_samples,
    page,
    read_all,
    warc,
    warc_record,
)

from holdfast.errors import MalformedInput
from holdfast.formats.io.open import open_records
from holdfast.formats.record import FindingKind

RECORDS = [warc(number, b"line of text\r\n" * number * 5) for number in range(10)]
SIZES = st.sampled_from([0, 1, 7, 90, 800, 5000])
bodies = st.lists(
    st.builds(lambda size, seed: bytes((seed * at * at) % 251 for at in range(size)), SIZES, SIZES), max_size=9
)


# Damage that pretends to be a file of another kind is another matter.
MARKS = (b"WARC/", b"warc/", b"filedesc:", b"version:", b"http", b"\x1f\x8b", b"\x28\xb5", b"\x2a\x4d\x18")


class Harm:
    """What happens to a range of a file, and which part of the original it touches."""

    def __init__(self, kind: str, at: float, size: int, noise: bytes) -> None:
        self.kind, self.at, self.size, self.noise = kind, at, size, noise

    def __repr__(self) -> str:
        return f"Harm({self.kind!r}, {self.at}, {self.size}, {self.noise!r})"

    def apply(self, file: bytes) -> tuple[bytes, int, int]:
        start = int(self.at * len(file))
        end = min(len(file), start + self.size)
        noise = (self.noise * (end - start + 1))[: end - start]
        if self.kind == "cut":
            return file[:start], start, len(file)
        if self.kind == "overwrite":
            return file[:start] + noise + file[end:], start, end
        if self.kind == "insert":
            return file[:start] + noise + file[start:], start, start
        return file[:start] + file[end:], start, end


harms = st.builds(
    Harm,
    st.sampled_from(["cut", "overwrite", "insert", "delete"]),
    st.floats(0, 1),
    st.sampled_from([1, 2, 20, 300, 3000]),
    st.binary(min_size=1, max_size=40).filter(lambda noise: not any(mark in noise * 9 for mark in MARKS)),
)


def by_accident(parts: list[bytes], start: int, end: int) -> bool:
    """Whether the record that was cut short now ends, by its length, where another one does: nobody can tell."""
    ends = list(accumulate(len(part) for part in parts))
    touched = next((each for each in ends if each > start), 0)
    return touched + end - start in ends


def core(record: bytes) -> bytes:
    """Without the newlines at its end, to which those of inserted bytes may be counted."""
    return record.rstrip(b"\r\n")


@settings(max_examples=400)
@example(
    "tianwang", "plain", [b""] * 3 + [bytes(800)] * 3 + [bytes(5000)], Harm("overwrite", 0.28125, 300, b"\0"), False
)
@given(st.sampled_from(sorted(BUILDERS)), st.sampled_from(sorted(CODINGS)), bodies, harms, st.booleans())
def test_what_is_not_touched_is_read(kind: str, coding: str, texts: list[bytes], harm: Harm, pipe: bool) -> None:
    records = [BUILDERS[kind](number, body) for number, body in enumerate(texts)]
    parts = [CODINGS[coding](record) for record in records]
    harmed, start, end = harm.apply(b"".join(parts))
    assume(coding != "plain" or harm.kind != "delete" or not by_accident(parts, start, end))
    got, found, findings = read_all(Pipe(harmed) if pipe else io.BytesIO(harmed))  # type: ignore[arg-type]
    assert_accounted(len(harmed), found, findings)
    at, cores = 0, [core(text) for text in got]
    for part, record in zip(parts, records, strict=True):
        if at + len(part) <= start or at >= end:
            assert core(record) in cores
        at += len(part)


@settings(max_examples=150)
@given(bodies, harms, harms, st.sampled_from([1, 300, 10**6]))
def test_members_that_hold_parts_of_records(texts: list[bytes], first: Harm, second: Harm, size: int) -> None:
    joined = b"".join(warc(number, body) for number, body in enumerate(texts))
    file = b"".join(gz(joined[at : at + size]) for at in range(0, min(len(joined), 300 * size), size))
    harmed = second.apply(first.apply(file)[0])[0]
    _, records, findings = read_all(harmed)
    assert_accounted(len(harmed), records, findings)


@settings(max_examples=300)
@given(
    st.binary(max_size=2000),
    st.sampled_from([b"", b"WARC/1.0\r\n", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"version: 1.0\n"]),
)
def test_any_bytes_are_accounted_for(junk: bytes, start: bytes) -> None:
    _, records, findings = read_all(start + junk)
    assert_accounted(len(start + junk), records, findings)


@settings(max_examples=100)
@given(bodies, harms)
def test_strict_raises_nothing_else(texts: list[bytes], harm: Harm) -> None:
    file = harm.apply(b"".join(warc(number, body) for number, body in enumerate(texts)))[0]
    _, _, findings = read_all(file)
    if not findings:
        list(open_records(io.BytesIO(file), strict=True))
        return
    with pytest.raises(MalformedInput):
        list(open_records(io.BytesIO(file), strict=True))


@pytest.mark.parametrize("delta", [-7, 5, 50, 900_000, 5_000_000])
def test_a_wrong_length_costs_nothing(delta: int) -> None:
    length = len(page(b"line of text\r\n" * 15))
    wrong = RECORDS[3].replace(b"Content-Length: %d" % length, b"Content-Length: %d" % (length + delta))
    assert wrong != RECORDS[3]
    file = b"".join([*RECORDS[:3], wrong, *RECORDS[4:]])
    texts, records, findings = read_all(file)
    assert texts == [*RECORDS[:3], wrong, *RECORDS[4:]]
    assert records[3].content_length == length
    start = len(b"".join(RECORDS[:3]))
    kind = FindingKind.TRUNCATED if delta > 0 else FindingKind.INVALID
    assert [(finding.kind, finding.offset, finding.length) for finding in findings] == [(kind, start, len(wrong))]
    assert f"the block has {length} bytes instead of {length + delta}" in findings[0].reason
    assert_accounted(len(file), records, findings)


def test_a_digest_tells_that_bytes_behind_a_block_are_no_part_of_it() -> None:
    block = page(b"line of text\r\n" * 15)
    sound = warc_record(block, f"WARC-Block-Digest: {digest(block)}")
    file = sound[:-4] + b"garbage" + RECORDS[4]
    texts, records, findings = read_all(file)
    assert texts == [sound[:-4], RECORDS[4]]
    assert [finding.kind for finding in findings] == [FindingKind.INVALID, FindingKind.LOST]
    assert_accounted(len(file), records, findings)


def test_a_record_that_is_quoted_in_a_damaged_one_is_part_of_it() -> None:
    quoting = warc(1, b"<pre>" + RECORDS[2].replace(b"line", b"<b>line</b>") + b"</pre>")
    file = quoting.replace(b"Content-Length: ", b"Content-Length: 9", 1) + RECORDS[3]
    texts, _, findings = read_all(file)
    assert len(texts) == 2
    assert texts[1] == RECORDS[3]
    assert [finding.kind for finding in findings] == [FindingKind.TRUNCATED]


def test_files_put_together_without_separators() -> None:
    file = RECORDS[1][:-4] + RECORDS[2] + RECORDS[3][:-2]
    texts, _, findings = read_all(file)
    assert texts == [RECORDS[1][:-4], RECORDS[2], RECORDS[3][:-2]]
    assert {finding.kind for finding in findings} == {FindingKind.INVALID}


def test_a_head_cut_off_within_a_line() -> None:
    file = RECORDS[1][:30] + RECORDS[2]
    texts, records, findings = read_all(file)
    assert texts == [RECORDS[2]]
    assert_accounted(len(file), records, findings)


def test_gzip_and_plain_members_in_one_file() -> None:
    file = gz(RECORDS[1]) + RECORDS[2] + gz(RECORDS[3])
    texts, _, findings = read_all(file)
    assert texts == [RECORDS[1], RECORDS[3]]
    assert [(finding.offset, finding.length) for finding in findings] == [(len(gz(RECORDS[1])), len(RECORDS[2]))]


@pytest.mark.parametrize("prefix", [bytes(100_000), b"#" * 300_000])
def test_a_damaged_beginning(prefix: bytes) -> None:
    for encode in (gz, bytes):
        texts, _, findings = read_all(prefix + b"".join(map(encode, RECORDS)))
        assert texts == RECORDS
        assert [(finding.offset, finding.length) for finding in findings] == [(0, len(prefix))]


@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("encode", [bytes, gz])
def test_a_large_block_that_is_cut_gives_what_is_there(seekable: bool, encode) -> None:  # type: ignore[no-untyped-def]
    record = warc_record(page(bytes(at * at % 251 for at in range(4_000_000))))
    large = encode(record)
    file = encode(RECORDS[1]) + large[: len(large) // 2] + encode(RECORDS[2])
    stream = io.BytesIO(file) if seekable else Pipe(file, 65536)
    got, records, findings = read_all(stream)  # type: ignore[arg-type]
    assert got[0] == RECORDS[1]
    assert got[1][:1_000_000] == record[:1_000_000]
    if seekable or encode is gz:  # a pipe cannot be looked ahead in: there the record takes what its length says
        assert got[2:] == [RECORDS[2]]
    (finding,) = [each for each in findings if each.kind is FindingKind.TRUNCATED]
    assert (finding.offset, finding.length) == (records[1].offset, records[1].length)
    assert records[1].content_length == len(got[1]) - len(records[1].head) - len(records[1].tail)
    assert_accounted(len(file), records, findings)


def test_a_wrong_crc_loses_the_record() -> None:
    member = bytearray(gz(RECORDS[4]))
    member[-6] ^= 1
    texts, _, findings = read_all(gz(RECORDS[1]) + bytes(member) + gz(RECORDS[2]))
    assert texts == [RECORDS[1], RECORDS[2]]
    assert [(finding.offset, finding.length) for finding in findings] == [(len(gz(RECORDS[1])), len(member))]


HOSTILE = {
    "starts": b"WARC/" * 40_000,
    "lines": b"WARC/1.0\r\n" * 20_000,
    "nested": b"WARC/1.0\r\n" + b"a:WARC/1.0\r\n" * 20_000 + b"WARC-Type: x\r\nContent-Length: 5\r\n\r\n",
    "long lengths": b"WARC/1.0\r\nWARC-Type: x\r\nContent-Length: 900000\r\n\r\n" * 4_000,
    "versions": b"version: 1.0\n" + b"a:version: 1.0\n" * 15_000,
    "dates": b"filedesc://x 1.2.3.4 20200101000000 text/plain 5\n1 0 x\n\n" + b" 202001010000 x" * 15_000,
    "gzip magic": b"\x1f\x8b\x08\x00" * 20_000,
    "empty members": gzip.compress(b"", mtime=0) * 5_000,
    "zstd magic": b"\x28\xb5\x2f\xfd" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_come_to_an_end(name: str) -> None:
    _, records, findings = read_all(HOSTILE[name])
    assert_accounted(len(HOSTILE[name]), records, findings)
    assert len([finding for finding in findings if finding.kind is FindingKind.LOST]) < 10


@needs_samples
def test_every_sample_is_accounted_for() -> None:
    others = (".json", ".png", ".md", ".txt", ".cdx", "LICENSE", ".gitattributes")
    paths = [path for path in sorted(SAMPLES.rglob("*")) if path.is_file() and not path.name.endswith(others)]
    assert len(paths) > 100
    for path in paths:
        file = path.read_bytes()
        _, records, findings = read_all(file)
        assert_accounted(len(file), records, findings)
