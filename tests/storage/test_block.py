"""The bytes of a block's header: golden, found at the documented offsets, and safe against every flipped bit."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, DICT, HEADER_BYTES, REPLICA, STATE, TICKET, Header

GOLDEN = Path(__file__).parents[1] / "golden"
HELLO = b"hello world"
SIGNATURE = hashlib.sha256(HELLO).digest()
CRC = zlib.crc32(HELLO)
NAME = b"client-1" + (7).to_bytes(8, "big")
PAST = (GOLDEN / "ticket.txt").read_bytes()[HEADER_BYTES:]

# What the files in tests/golden say, which were written by hand from the table in the format's documentation.
GOLDEN_HEADERS = {
    "block.txt": Header(
        BLOCK, b"9f3a61c2", 1, 0, b"sha256", SIGNATURE, 0, b"", b"none", 0, len(HELLO), len(HELLO), 1, CRC
    ),
    "count.txt": Header(COUNT, b"9f3a61c2", 2, 1, b"sha256", SIGNATURE, 0, b"", b"none", 0, 0, 0, 2, 0),
    "dict.txt": Header(
        DICT, b"9f3a61c2", 3, 2, b"sha256", CRC.to_bytes(4, "big"), 0, b"", b"none", 7, len(HELLO), len(HELLO), 1, CRC
    ),
    "ticket.txt": Header(
        TICKET, b"9f3a61c2", 4, 3, b"sha256", NAME, 0, b"", b"none", 0, len(PAST), len(PAST), 2, zlib.crc32(PAST)
    ),
    "replica.txt": Header(
        REPLICA,
        b"9f3a61c2",
        987_654_321_098,
        987_654_321_097,
        b"rabin64",
        bytes.fromhex("8f014872634503c7"),
        99_999,
        b"sixteen-chars-ab",
        b"zstd-dict",
        0x1A2B3C4D,
        19_432,
        len(HELLO),
        9_999_999_999,
        CRC,
    ),
}


def number(digits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 10**digits - 1)


def word(length: int) -> st.SearchStrategy[bytes]:
    return st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=1, max_size=length).map(str.encode)


word32 = st.integers(0, 2**32 - 1)
headers = st.builds(
    Header,
    kind=st.sampled_from([BLOCK, REPLICA, DICT, COUNT, TICKET, STATE]),
    uid=word32.map(lambda value: b"%08x" % value),
    serial=number(12),
    after=number(12),
    algorithm=word(8),
    signature=st.binary(min_size=1, max_size=32),
    overflow=number(5),
    home=st.just(b"") | word(16),
    codec=word(12),
    dictionary=word32,
    size=number(12),
    stored=number(12),
    references=number(10),
    checksum=word32,
)


@pytest.mark.parametrize("name", GOLDEN_HEADERS)
def test_golden_bytes(name: str) -> None:
    raw = (GOLDEN / name).read_bytes()
    assert block.pack(GOLDEN_HEADERS[name]) == raw[:HEADER_BYTES]
    assert block.parse(raw) == block.parse(memoryview(raw)) == GOLDEN_HEADERS[name]


def test_fields_stand_where_the_documentation_says() -> None:
    raw = (GOLDEN / "block.txt").read_bytes()
    starts = {
        0: b"HOLDFAST/1 block    9f3a61c2\n",
        29: b"serial 000000000001 after 000000000000\n",
        68: b"signature sha256   b94d27b9934d3e08",
        152: b"overflow 00000 home -               \n",
        189: b"codec none         dictionary 00000000\n",
        228: b"size 000000000011 stored 000000000011\n",
        266: b"references 0000000001\n",
        288: b"crc32 0d4a1185 header ",
        320: HELLO,
    }
    for offset, text in starts.items():
        assert raw[offset : offset + len(text)] == text
    assert raw[:HEADER_BYTES].isascii()
    assert int(raw[310:318], 16) == zlib.crc32(raw[:310])


@given(headers)
def test_what_is_packed_can_be_parsed(header: Header) -> None:
    packed = block.pack(header)
    assert len(packed) == HEADER_BYTES
    assert block.parse(packed) == header
    assert header.length == HEADER_BYTES + header.stored


@pytest.mark.parametrize("name", GOLDEN_HEADERS)
def test_any_flipped_bit_of_a_header_is_noticed(name: str) -> None:
    raw = bytearray((GOLDEN / name).read_bytes()[:HEADER_BYTES])
    for position in range(HEADER_BYTES * 8):
        raw[position // 8] ^= 1 << position % 8
        assert block.parse(raw) is None, f"bit {position}"
        raw[position // 8] ^= 1 << position % 8
    assert block.parse(raw) == GOLDEN_HEADERS[name]


def test_a_part_of_a_header_is_none() -> None:
    raw = (GOLDEN / "block.txt").read_bytes()
    assert [length for length in range(HEADER_BYTES) if block.parse(raw[:length]) is not None] == []


@given(st.binary(max_size=400))
def test_any_bytes_are_a_header_or_none(raw: bytes) -> None:
    assert block.parse(raw) is None
    assert block.parse(block.MAGIC + raw) is None


@pytest.mark.parametrize(
    "outgrown", [{"overflow": 100_000}, {"references": 10**10}, {"codec": b"thirteen-char"}, {"home": b"s" * 17}]
)
def test_what_does_not_fit_is_never_written(outgrown: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match="outgrew"):
        block.pack(GOLDEN_HEADERS["block.txt"]._replace(**outgrown))


@given(st.binary(max_size=500))
def test_the_checksum_is_zlibs(data: bytes) -> None:
    assert block.checksum(data) == block.checksum(memoryview(data)) == zlib.crc32(data)


@pytest.mark.parametrize("name", GOLDEN_HEADERS)
def test_the_encoding_is_that_of_the_whole_header(name: str) -> None:
    raw, header = (GOLDEN / name).read_bytes(), GOLDEN_HEADERS[name]
    expected = (header.codec.decode(), header.dictionary, header.size, header.stored, header.checksum)
    assert block.parse_encoding(raw, header.signature) == expected
    assert block.parse_encoding(memoryview(raw), header.signature) == expected


def test_the_encoding_of_another_signature_is_not_given() -> None:
    raw, signature = block.pack(GOLDEN_HEADERS["block.txt"]), SIGNATURE
    for other in (signature[:-1], signature[:8], signature[:-1] + b"\0", signature + b"\0"):
        assert block.parse_encoding(raw, other) is None


def test_a_flipped_bit_gives_no_encoding() -> None:
    raw = block.pack(GOLDEN_HEADERS["block.txt"])
    for bit in range(8 * HEADER_BYTES):
        harmed = bytearray(raw)
        harmed[bit // 8] ^= 1 << bit % 8
        assert block.parse_encoding(bytes(harmed), SIGNATURE) is None
    assert block.parse_encoding(raw[:-1], SIGNATURE) is None
