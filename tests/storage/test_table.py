"""A table: ranges forwards and backwards equal those of a sorted list, steps are whole, followers follow."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.env.table import Table, TableKind, verify_table
from holdfast.errors import DamagedCatalog, DamagedKeydir

PLAIN = TableKind("keydir", DamagedKeydir, "mend it")
PACKED = TableKind("catalog", DamagedCatalog, "mend it", packed=True)
FOLLOWERS = 150
short = st.binary(min_size=1, max_size=3)


@given(st.dictionaries(short, st.binary(max_size=3)), short, short, st.sampled_from([PLAIN, PACKED]))
def test_ranges_equal_those_of_a_sorted_list(
    pairs: dict[bytes, bytes], start: bytes, end: bytes, kind: TableKind
) -> None:
    with TemporaryDirectory() as directory:
        table = Table(Path(directory) / "table", kind, cache_bytes=1 << 20)
        table.write(pairs.items())
        inside = [(key, pairs[key]) for key in sorted(pairs) if start <= key < end]
        above = [(key, pairs[key]) for key in sorted(pairs) if start <= key]
        assert list(table.scan(start, end)) == inside == table.range(start, end)
        assert list(table.scan(start, end, reverse=True)) == inside[::-1]
        assert table.last(start, end) == (inside[-1] if inside else None)
        assert (list(table.scan(start)), list(table.scan(start, reverse=True))) == (above, above[::-1])
        assert table.get_many([start, end]) == [pairs.get(start), pairs.get(end)]
        table.abandon()


def test_deletes_come_before_puts(tmp_path: Path) -> None:
    table = Table(tmp_path / "table", PLAIN, cache_bytes=1 << 20)
    table.write([(b"a", b"1"), (b"b", b"2")])
    table.write([(b"a", b"3")], [b"a", b"b"])
    assert table.get_many([b"a", b"b"]) == [b"3", None]
    table.close()


def test_a_follower_sees_what_it_caught_up_with_and_leaves_nothing(tmp_path: Path) -> None:
    table = Table(tmp_path / "table", PACKED, cache_bytes=1 << 20)
    table.write([(b"a", b"1")])
    follower = Table(table.path, PACKED, cache_bytes=1 << 20, follow=True)
    running = follower.scan(b"a")
    mirror = follower.mirror
    assert mirror is not None and "holdfast-catalog-" in str(mirror)
    table.write([(b"b", b"2")])
    assert follower.get(b"b") is None
    follower.catch_up()
    assert follower.get(b"b") == b"2"
    follower.reopen()
    assert [key for key, _ in running] in ([b"a"], [b"a", b"b"])
    again = follower.mirror
    follower.close()
    table.close()
    assert again is not None and not mirror.exists() and not again.exists()


@pytest.mark.parametrize("end", ["compact", "close", "open anew"])
def test_a_follower_sees_what_was_changed_just_before_a_new_log_began(tmp_path: Path, end: str) -> None:
    """RocksDB's followers alone see the old value until something is written to the new log."""
    table = Table(tmp_path / "table", PACKED, cache_bytes=1 << 20)
    table.write([(b"a", b"1"), (b"b", b"2")])
    follower = Table(table.path, PACKED, cache_bytes=1 << 20, follow=True)
    table.write([(b"a", b"3")], [b"b"])
    if end == "compact":
        table.compact()
    elif end == "close":
        table.close()
    else:
        table.abandon()
        table = Table(table.path, PACKED, cache_bytes=1 << 20)
    follower.catch_up()
    assert follower.get_many([b"a", b"b"]) == [b"3", None]
    assert follower.range(b"", b"z") == [(b"a", b"3")]
    follower.close()
    table.abandon()


def test_a_follower_may_come_while_the_writer_opens_and_closes(tmp_path: Path) -> None:
    Table(tmp_path / "table", PLAIN, cache_bytes=1 << 20).close()
    enough = threading.Event()

    def come_and_go() -> None:
        for number in itertools.count():
            table = Table(tmp_path / "table", PLAIN, cache_bytes=1 << 20)
            table.write([(b"a", b"%d" % number)])
            table.close()
            if enough.is_set():
                return

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(come_and_go)
        try:
            for _ in range(FOLLOWERS):
                follower = Table(tmp_path / "table", PLAIN, cache_bytes=1 << 20, follow=True)
                follower.catch_up()
                follower.close()
        finally:
            enough.set()
        writing.result()


def test_a_damaged_file_is_noticed_and_named(tmp_path: Path) -> None:
    table = Table(tmp_path / "table", PACKED, cache_bytes=1 << 20)
    table.write([(b"%05d" % n, b"x" * 100) for n in range(5000)])
    table.close()
    verify_table(table.path, PACKED, cache_bytes=1 << 20)
    (file,) = table.path.glob("*.sst")
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0x55
    file.write_bytes(content)
    with pytest.raises(DamagedCatalog, match=r"cannot read catalog '.*table': .*; run 'mend it'"):
        verify_table(table.path, PACKED, cache_bytes=1 << 20)
