"""The state file, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.env import REAL
from holdfast.errors import DamagedIndex, FormatTooNew
from holdfast.index.schema import record_number
from holdfast.index.state import IndexState, TableFile, read_state, write_state
from holdfast.index.words import beyond
from holdfast.model import RecordId

STATE = IndexState(
    2,
    (("202610", 812), ("spring", 5)),
    5120,
    {"captures": (TableFile("captures-000001.parquet", 813, 7),), "links": (), "backlinks": ()},
    2,
    (record_number(1, 3),),
)
TEXT = (
    "holdfast-index 4 498bf31d\n"
    '{"generation": 2, "batches": [["202610", 812], ["spring", 5]], "opstamp": 5120, '
    '"tables": {"captures": [["captures-000001.parquet", 813, 7]], "links": [], "backlinks": []}, "next_file": 2, '
    '"unresolved": [4294967299]}\n'
)


def test_golden(tmp_path: Path) -> None:
    write_state(tmp_path, REAL, STATE)
    assert (tmp_path / "STATE").read_text() == TEXT
    assert read_state(tmp_path, REAL) == STATE


def test_none(tmp_path: Path) -> None:
    assert read_state(tmp_path, REAL) == IndexState()


def test_numbers_of_records() -> None:
    assert STATE.number_of(RecordId("spring", 4)) == record_number(1, 4)
    assert STATE.number_of(RecordId("spring", 5)) is None, "not indexed yet"
    assert STATE.number_of(RecordId("summer", 1)) is None
    assert STATE.record_of(record_number(1, 4)) == RecordId("spring", 4)
    assert STATE.end_of("summer") == 1
    assert beyond(STATE) == [
        (record_number(0, 812), record_number(1, 0) - 1),
        (record_number(1, 5), record_number(2, 0) - 1),
        (record_number(2, 0), 2**64 - 1),
    ]


def test_other_formats_are_refused_with_what_to_do(tmp_path: Path) -> None:
    for number, error, repair in (("3", DamagedIndex, "holdfast index build"), ("5", FormatTooNew, "later")):
        (tmp_path / "STATE").write_text(TEXT.replace("index 4", f"index {number}"))
        with pytest.raises(error, match=f"has format {number}.*{repair}"):
            read_state(tmp_path, REAL)


@pytest.mark.parametrize("at", range(0, len(TEXT) - 1, 7))
def test_any_flipped_bit_is_noticed(at: int, tmp_path: Path) -> None:
    content = bytearray(TEXT.encode())
    content[at] ^= 1
    (tmp_path / "STATE").write_bytes(content)
    with pytest.raises((DamagedIndex, FormatTooNew)):
        read_state(tmp_path, REAL)
