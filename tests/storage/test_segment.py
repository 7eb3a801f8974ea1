"""Segments: golden bytes, and a walk that loses nothing but what is damaged."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import Environment, LocalFiles
from holdfast.env.files import Buffer
from holdfast.env.paths import parse_segment_name, segment_name
from holdfast.errors import DamagedBlock, FormatTooNew
from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, HEADER_BYTES, REPLICA, Header
from holdfast.storage.identity import Identity, read_identity
from holdfast.storage.signature import SHA256
from holdfast.storage.volume import BlockKey, Refer, Release, Store
from holdfast.storage.volumes.local import block_of
from holdfast.storage.volumes.log import segment
from holdfast.storage.volumes.log.segment import (
    SEGMENT_HEADER_BYTES,
    Damage,
    SegmentEntry,
    SegmentHeader,
    pack_segment_header,
    read_segment_header,
    walk,
)
from holdfast.storage.volumes.log.span import EntrySpan, walk_spans
from holdfast.storage.volumes.organizations import create_volume, open_volume
from holdfast.testing.volumes import perform, plain

GOLDEN = Path(__file__).parents[1] / "golden"
UID = b"9f3a61c2"
HEADER = SegmentHeader(UID, 1, 0, 1)


class Memory:
    """A file of given bytes."""

    path = Path("000001.seg")

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def size(self) -> int:
        return len(self.data)

    def append(self, buffers: Sequence[Buffer]) -> None: ...
    def sync(self) -> None: ...
    def truncate(self, size: int) -> None: ...
    def close(self) -> None: ...


def entry(serial: int, data: bytes = b"", *, uid: bytes = UID) -> bytes:
    kind, crc = (BLOCK, zlib.crc32(data)) if data else (COUNT, 0)
    signature = b"%08d" % serial
    size = len(data)
    header = Header(kind, uid, serial, serial - 1, b"sha256", signature, 0, b"", b"none", 0, size, size, 1, crc)
    return block.pack(header) + data


def walked(data: bytes, *, floor: int = -1) -> list[SegmentEntry | Damage]:
    return list(walk(Memory(data), UID, SEGMENT_HEADER_BYTES, len(data), floor))


def serials(steps: list[SegmentEntry | Damage]) -> list[int]:
    return [step.header.serial for step in steps if isinstance(step, SegmentEntry)]


def starts_of(entries: list[bytes]) -> list[int]:
    return [SEGMENT_HEADER_BYTES + sum(map(len, entries[:index])) for index in range(len(entries) + 1)]


# -- headers -----------------------------------------------------------------------------------------------------------


def test_golden_header() -> None:
    raw = (GOLDEN / "segment.txt").read_bytes()
    assert pack_segment_header(HEADER) == raw[:SEGMENT_HEADER_BYTES]
    assert read_segment_header(Memory(raw)) == HEADER


def test_a_volume_writes_the_golden_segment(tmp_path: Path) -> None:
    """One content stored, referred to, released: byte for byte as written by hand."""
    env = Environment(LocalFiles(), random_bytes=lambda length: bytes.fromhex("9f3a61c2")[:length])
    create_volume(tmp_path, VolumeSettings("v0"), StoreSettings(), env)
    volume = open_volume("v0", tmp_path, StoreSettings(), env)
    signature = SHA256.digest(b"hello world")
    perform(volume, Store(signature, plain(b"hello world")))
    perform(volume, Refer(BlockKey(signature)))
    perform(volume, Release(BlockKey(signature)))
    volume.close()
    assert (tmp_path / "000001.seg").read_bytes() == (GOLDEN / "segment.txt").read_bytes()
    assert (tmp_path / "VOLUME").read_bytes() == (GOLDEN / "volume-log.txt").read_bytes()


@given(st.integers(1, 10**8 - 1), st.integers(0, 10**6 - 1), st.integers(1, 10**8 - 1))
def test_headers_and_names_round_trip(number: int, generation: int, through: int) -> None:
    header = SegmentHeader(UID, number, generation, through)
    assert read_segment_header(Memory(pack_segment_header(header))) == header
    assert parse_segment_name(segment_name(number, generation)) == (number, generation)


def test_any_flipped_bit_of_the_header_is_noticed() -> None:
    raw = bytearray(pack_segment_header(HEADER))
    for position in range(SEGMENT_HEADER_BYTES * 8):
        raw[position // 8] ^= 1 << position % 8
        with pytest.raises((DamagedBlock, FormatTooNew)):
            read_segment_header(Memory(bytes(raw)))
        raw[position // 8] ^= 1 << position % 8


@pytest.mark.parametrize("length", range(SEGMENT_HEADER_BYTES))
def test_a_part_of_a_header_is_damage(length: int) -> None:
    with pytest.raises(DamagedBlock):
        read_segment_header(Memory(pack_segment_header(HEADER)[:length]))


@pytest.mark.parametrize("version", [2, 17])
def test_a_later_version_is_not_damage(version: int) -> None:
    later = b"HOLDFAST-SEGMENT/%d 9f3a61c2\nand so on" % version
    with pytest.raises(FormatTooNew, match=f"'000001.seg' has format version {version}; this release reads version 1"):
        read_segment_header(Memory(later))


@pytest.mark.parametrize("name", ["1.seg", "000001.seg.open", "000001-.seg", "keydir", "000001-1234567.seg"])
def test_other_names_are_no_segments(name: str) -> None:
    assert parse_segment_name(name) is None


# -- the VOLUME file ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("volume-log.txt", Identity(UID, "log", 3, "sha256")),
        ("volume-tree.txt", Identity(UID, "tree", 2, "sha256")),
    ],
)
def test_golden_identity(name: str, identity: Identity) -> None:
    assert identity.pack() == (GOLDEN / name).read_bytes()


def test_any_flipped_bit_of_an_identity_is_noticed(tmp_path: Path) -> None:
    env = Environment(LocalFiles())
    raw = bytearray((GOLDEN / "volume-log.txt").read_bytes())
    for position in range(len(raw) * 8):
        raw[position // 8] ^= 1 << position % 8
        (tmp_path / "VOLUME").write_bytes(raw)
        with pytest.raises((DamagedBlock, FormatTooNew)):
            read_identity(env, tmp_path)
        raw[position // 8] ^= 1 << position % 8


# -- walking -----------------------------------------------------------------------------------------------------------


def test_a_sound_segment_yields_its_entries() -> None:
    entries = [entry(1, b"one"), entry(2), entry(5, b"five"), entry(9)]
    steps = walked(pack_segment_header(HEADER) + b"".join(entries))
    assert serials(steps) == [1, 2, 5, 9]
    assert [step.offset for step in steps] == starts_of(entries)[:-1]
    assert [bytes(step.data) for step in steps if isinstance(step, SegmentEntry)] == [b"one", b"", b"five", b""]
    assert b"".join(step.raw for step in steps if isinstance(step, SegmentEntry)) == b"".join(entries)


def test_an_empty_segment_yields_nothing() -> None:
    assert walked(pack_segment_header(HEADER)) == []


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_only_the_damaged_entry_is_lost(change: int) -> None:
    """A byte changed at every offset in turn."""
    entries = [entry(1, b"one " * 9), entry(2), entry(3, b"three" * 9), entry(4, b"four"), entry(5)]
    starts = starts_of(entries)
    data = bytearray(pack_segment_header(HEADER) + b"".join(entries))
    for offset in range(SEGMENT_HEADER_BYTES, len(data)):
        data[offset] ^= change
        steps = walked(bytes(data))
        lost = next(index for index in range(len(entries)) if starts[index + 1] > offset)
        assert serials(steps) == [serial for serial in range(1, 6) if serial != lost + 1]
        (damage,) = [step for step in steps if isinstance(step, Damage)]
        assert (damage.offset, damage.length) == (starts[lost], len(entries[lost]))
        in_data = offset >= starts[lost] + HEADER_BYTES
        assert (damage.header is not None) == in_data
        data[offset] ^= change


@pytest.mark.parametrize("span_bytes", [400, 1000, 1 << 20])
@pytest.mark.parametrize("change", [0, 0x01, 0x20, 0xFF])
def test_spans_have_the_entries_of_a_walk_and_name_the_same_damage(change: int, span_bytes: int) -> None:
    """A byte changed at every third offset; spans that hold one entry, a few, and all of them (W6, N7)."""
    entries = [
        entry(1, b"one " * 9),
        entry(2),
        entry(3, b"three" * 9),
        entry(4, b"four" * 99),
        entry(5),
        entry(6, b"6"),
    ]
    data = bytearray(pack_segment_header(HEADER) + b"".join(entries))
    for offset in range(SEGMENT_HEADER_BYTES, len(data), 3):
        data[offset] ^= change
        damages, blocks = [], []
        for step in walk_spans(Memory(bytes(data)), UID, SEGMENT_HEADER_BYTES, len(data), span_bytes):
            if isinstance(step, Damage):
                damages.append(step)
            elif isinstance(step, SegmentEntry):
                blocks += [(step.offset, step.header.serial, bytes(step.data))] if step.header.kind == BLOCK else []
            else:
                blocks += [
                    (each.offset, each.serial, bytes(each.encoded.data)) for each in step.blocks(Memory.path, -1)
                ]
        steps = walked(bytes(data))
        assert damages == [step for step in steps if isinstance(step, Damage)]
        assert blocks == [
            (step.offset, step.header.serial, bytes(step.data))
            for step in steps
            if isinstance(step, SegmentEntry) and step.header.kind == BLOCK
        ]
        data[offset] ^= change


def test_a_span_has_the_blocks_that_its_headers_describe() -> None:
    numbers = (7, 8, b"sha256", b"\1" * 32, 3, b"v9", b"zstd-dict", 0x1A2B3C4D, 99, 4, 12, zlib.crc32(b"data"))
    replica = Header(REPLICA, UID, *numbers)
    own = replica._replace(kind=BLOCK, serial=9, signature=b"\2" * 8, overflow=0, home=b"", codec=b"none", dictionary=0)
    data = b"".join(block.pack(each) + b"data" for each in (replica, own))
    (span,) = walk_spans(Memory(data), UID, 0, len(data))
    assert isinstance(span, EntrySpan)
    expected = [block_of(each, memoryview(b"data"), 12, Memory.path, at) for each, at in ((replica, 0), (own, 324))]
    assert span.blocks(Memory.path, -1) == expected
    assert span.blocks(Memory.path, 7) == expected[1:]


def test_a_truncated_segment_keeps_the_entries_before() -> None:
    entries = [entry(1, b"one"), entry(2), entry(3, b"three")]
    starts = starts_of(entries)
    data = pack_segment_header(HEADER) + b"".join(entries)
    for end in range(SEGMENT_HEADER_BYTES, len(data)):
        steps = walked(data[:end])
        whole = sum(start <= end for start in starts[1:])
        assert serials(steps) == list(range(1, whole + 1))
        damages = [step for step in steps if isinstance(step, Damage)]
        assert sum(damage.length for damage in damages) == end - starts[whole]


def test_a_copy_of_an_entry_inside_a_content_is_content() -> None:
    """Somebody archived an archive; even when the entry around it is damaged."""
    nested = entry(2) + entry(1, b"inner") + entry(7, b"foreign", uid=b"00000000")
    entries = [entry(3, nested), entry(4, b"after")]
    data = bytearray(pack_segment_header(HEADER) + b"".join(entries))
    assert serials(walked(bytes(data), floor=2)) == [3, 4]
    data[SEGMENT_HEADER_BYTES + HEADER_BYTES + 5] ^= 1
    assert serials(walked(bytes(data), floor=2)) == [4], "damaged data, sound header: the length is known"
    data[SEGMENT_HEADER_BYTES + 40] ^= 1
    steps = walked(bytes(data), floor=2)
    assert serials(steps) == [4], "damaged header: the copies have a low serial, or another volume's uid"


def test_serials_must_ascend() -> None:
    entries = [entry(1), entry(3), entry(2), entry(3), entry(4)]
    steps = walked(pack_segment_header(HEADER) + b"".join(entries))
    assert serials(steps) == [1, 3, 4]
    assert serials(walked(pack_segment_header(HEADER) + b"".join(entries), floor=3)) == [4]


def test_damage_says_what_comes_next() -> None:
    entries = [entry(1), b"garbage" * 20, entry(2), b"more"]
    first, last = [s for s in walked(pack_segment_header(HEADER) + b"".join(entries)) if isinstance(s, Damage)]
    assert (first.length, first.next_serial) == (140, 2)
    assert (last.length, last.next_serial) == (4, None)
    assert first.found.startswith("b'garbage")


@given(st.data())
def test_any_garbage_between_entries_is_skipped(data: st.DataObject) -> None:
    junk = st.binary(max_size=30) | st.just(block.MAGIC) | st.just(entry(1)[:-1]) | st.just(entry(2, uid=b"ffffffff"))
    raw = pack_segment_header(HEADER)
    for serial in range(3, 7):
        raw += data.draw(junk) + entry(serial, data.draw(st.binary(min_size=1, max_size=20)))
    steps = walked(raw, floor=2)
    assert serials(steps) == [3, 4, 5, 6]
    assert (
        sum(len(s.raw) if isinstance(s, SegmentEntry) else s.length for s in steps) == len(raw) - SEGMENT_HEADER_BYTES
    )


def test_a_walk_sees_the_same_through_a_small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [entry(1, b"x" * 1000), b"?" * 700, entry(2), b"HOLDFAST/1" * 50, entry(3, b"y" * 5000), b"HOLD"]
    raw = pack_segment_header(HEADER) + b"".join(entries)
    expected = walked(raw)
    assert serials(expected) == [1, 2, 3]
    for window_bytes in (11, 12, 100, 321, 1000):
        monkeypatch.setattr(segment, "WINDOW_BYTES", window_bytes)
        assert walked(raw) == expected
