"""ZipNum: what is written is found again by exact key and by prefix, whatever the size of a block."""

from __future__ import annotations

import gzip
import io
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import MalformedInput
from holdfast.formats.cdx.zipnum import ZipNumReader, ZipNumWriter, loc_line

keys = st.text("ab,)/", min_size=1, max_size=6)
lines_of = st.lists(st.tuples(keys, st.integers(1, 3)), max_size=30).map(
    lambda pairs: sorted(f"{key} {year} {{}}".encode() for key, year in pairs)
)


def write(directory: Path, lines: list[bytes], lines_per_block: int, wacz: bool = False) -> Path:
    with (
        (directory / "a.cdx.gz").open("wb") as cdx,
        (directory / "a.idx").open("wb") as idx,
        ZipNumWriter(cdx, idx, "a.cdx.gz", lines_per_block, wacz=wacz) as writer,
    ):
        for line in lines:
            writer.add(line)
    if not wacz:
        (directory / "a.loc").write_text(loc_line("a.cdx.gz"))
    return directory / "a.idx"


@given(lines=lines_of, lines_per_block=st.integers(1, 5), key=keys, prefix=st.booleans(), wacz=st.booleans())
def test_lookup_is_a_search_in_the_lines(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    lines_per_block: int,
    key: str,
    *,
    prefix: bool,
    wacz: bool,
) -> None:
    index = write(tmp_path_factory.mktemp("zipnum"), lines, lines_per_block, wacz)
    start = key.encode() if prefix else key.encode() + b" "
    with ZipNumReader(index) as reader:
        assert list(reader.lookup(key.encode(), prefix=prefix)) == [line for line in lines if line.startswith(start)]
        assert list(reader.lines()) == lines
        assert [list(reader.lines(line)) for line in lines] == [lines[lines.index(line) :] for line in lines]


def test_the_files_are_what_pywb_expects() -> None:
    cdx, idx = io.BytesIO(), io.BytesIO()
    writer = ZipNumWriter(cdx, idx, "main.cdx.gz", 2)
    for line in (b"com,a)/ 2020 {}", b"com,b)/ 2020 {}\n", b'com,c)/ 2020 {"a": "b c"}'):
        writer.add(line)
    writer.close()
    rows = [line.split(b"\t") for line in idx.getvalue().splitlines()]
    assert [(row[0], row[1], row[4]) for row in rows] == [
        (b"com,a)/ 2020", b"main.cdx.gz", b"1"),
        (b"com,c)/ 2020", b"main.cdx.gz", b"2"),
    ]
    packed = cdx.getvalue()
    blocks = [gzip.decompress(packed[int(row[2]) : int(row[2]) + int(row[3])]) for row in rows]
    assert blocks == [b"com,a)/ 2020 {}\ncom,b)/ 2020 {}\n", b'com,c)/ 2020 {"a": "b c"}\n']
    assert loc_line("main.cdx.gz") == "main.cdx.gz\tmain.cdx.gz\n"


def test_the_index_of_a_wacz_package() -> None:
    cdx, idx = io.BytesIO(), io.BytesIO()
    with ZipNumWriter(cdx, idx, "index.cdx.gz", wacz=True) as writer:
        writer.add(b'com,a)/ 20200102030405 {"url": "http://a.com/"}')
    assert idx.getvalue().decode() == (
        '!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n'
        f'com,a)/ 20200102030405 {{"offset": 0, "length": {len(cdx.getvalue())}, '
        f'"digest": "sha256:{sha256(cdx.getvalue()).hexdigest()}", "filename": "index.cdx.gz"}}\n'
    )


def test_headers_are_no_captures(tmp_path: Path) -> None:
    lines = [b" CDX N b a m s k r M S V g", b"com,a)/ 2020 x"]
    with ZipNumReader(write(tmp_path, lines, 10)) as reader:
        assert list(reader.lines()) == [b"com,a)/ 2020 x"]
    (tmp_path / "a.idx").write_bytes(b"!meta 0 {}\n" + (tmp_path / "a.idx").read_bytes())
    with ZipNumReader(tmp_path / "a.idx") as reader:
        assert list(reader.lookup(b"com,a)/")) == [b"com,a)/ 2020 x"]


def test_faults_are_named(tmp_path: Path) -> None:
    index = write(tmp_path, [b"com,a)/ 2020 x"], 10)
    (tmp_path / "a.cdx.gz").write_bytes(b"not gzip at all, not a bit of it")
    with (
        ZipNumReader(index) as reader,
        pytest.raises(MalformedInput, match=r"cannot read \d+ bytes at 0 of .*a.cdx.gz"),
    ):
        list(reader.lines())
    index.write_bytes(b"com,a)/ 2020\ta.cdx.gz\tx\n")
    with ZipNumReader(index) as reader, pytest.raises(MalformedInput, match=r"malformed line in .*a.idx' at 0"):
        list(reader.lines())
