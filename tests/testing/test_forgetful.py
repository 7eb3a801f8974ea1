"""The forgetful disk behaves as a real one while the power is on, and forgets only what a real one could."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.env.files import File, Files, LocalFiles, read_file, replace_file
from holdfast.errors import VolumeDown, VolumeFull
from holdfast.testing.forgetful_files import ForgetfulFiles, PowerCut

SEEDS = range(200)
ARCHIVE = Path("/archive")
LOG = ARCHIVE / "log"


def put(files: Files, path: Path, data: bytes, *, sync: bool = False) -> File:
    file = files.open(path, writable=True, create=True)
    file.append([data])
    if sync:
        file.sync()
    return file


def durable_log(data: bytes = b"", **settings: int) -> tuple[ForgetfulFiles, File]:
    files = ForgetfulFiles(**settings)
    files.make_directory(ARCHIVE)
    file = put(files, LOG, data, sync=True)
    files.sync_directory(ARCHIVE)
    return files, file


def survivors(files: ForgetfulFiles, path: Path = LOG) -> set[bytes | None]:
    """What the file can hold after a power cut; None where it has no name."""
    disks = [files.after_power_cut(Random(seed)) for seed in SEEDS]
    return {read_file(disk, path) if disk.exists(path) else None for disk in disks}


def outcome(operation: Callable[[Files, Path], object], files: Files, root: Path) -> tuple[object, list[object]]:
    """What an operation returns or raises, and the tree it leaves."""
    try:
        result = operation(files, root)
    except Exception as error:
        result = type(error)
    return result, list(tree(files, root))


def tree(files: Files, directory: Path) -> Iterator[object]:
    for name in files.names(directory):
        path = directory / name
        if files.is_directory(path):
            yield name, list(tree(files, path))
        else:
            yield name, read_file(files, path)


# --- With the power on -----------------------------------------------------------------------------


def append_in_parts(files: Files, root: Path) -> object:
    file = files.open(root / "a", writable=True)
    file.append([b"one", bytearray(b"two"), memoryview(b"three")])
    file.append([])
    return file.size(), file.read(3, 4), file.read(12, 99), file.read(99, 1), file.read(0, 0)


def read_through_another_handle(files: Files, root: Path) -> object:
    reader, writer = files.open(root / "a"), files.open(root / "a", writable=True)
    writer.append([b"more"])
    writer.close()
    return reader.read(0, 99), reader.size()


def read_removed_file(files: Files, root: Path) -> object:
    file = files.open(root / "a", writable=True)
    files.remove(root / "a")
    put(files, root / "a", b"another").close()
    file.append([b"!"])
    file.sync()
    return file.read(0, 99)


def shrink_and_append(files: Files, root: Path) -> object:
    file = files.open(root / "a", writable=True)
    file.truncate(2)
    file.append([b"Z"])
    return file.read(0, 99)


def grow_by_truncating(files: Files, root: Path) -> object:
    file = files.open(root / "a", writable=True)
    file.truncate(8)
    file.append([b"Z"])
    return file.size()


def closed(operation: Callable[[File], object]) -> Callable[[Files, Path], object]:
    def use(files: Files, root: Path) -> object:
        file = files.open(root / "a", writable=True)
        file.close()
        file.close()
        return operation(file)

    return use


def rename_onto_empty_directory(files: Files, root: Path) -> None:
    files.make_directory(root / "empty")
    files.rename(root / "d", root / "empty")


# Each runs where 'a' holds b"first", 'b' holds b"second" and 'd' is a directory with the file 'inner'.
OPERATIONS: dict[str, Callable[[Files, Path], object]] = {
    "append in parts": append_in_parts,
    "append nothing": lambda f, r: put(f, r / "new", b"").size(),
    "read through another handle": read_through_another_handle,
    "read a removed file": read_removed_file,
    "read at a negative offset": lambda f, r: f.open(r / "a").read(-1, 1),
    "append to a read-only file": lambda f, r: f.open(r / "a").append([b"x"]),
    "truncate a read-only file": lambda f, r: f.open(r / "a").truncate(1),
    "sync a read-only file": lambda f, r: f.open(r / "a").sync(),
    "shrink and append": shrink_and_append,
    "grow by truncating": grow_by_truncating,
    "truncate to less than nothing": lambda f, r: f.open(r / "a", writable=True).truncate(-1),
    "read a closed file": closed(lambda file: file.read(0, 1)),
    "append to a closed file": closed(lambda file: file.append([b"x"])),
    "open a missing file": lambda f, r: f.open(r / "missing"),
    "open below a missing directory": lambda f, r: f.open(r / "missing" / "a"),
    "open below a file": lambda f, r: f.open(r / "a" / "x"),
    "open a directory for writing": lambda f, r: f.open(r / "d", writable=True),
    "create": lambda f, r: put(f, r / "new", b"data").path == r / "new",
    "create an existing file": lambda f, r: f.open(r / "a", writable=True, create=True),
    "create an existing directory": lambda f, r: f.open(r / "d", writable=True, create=True),
    "create below a missing directory": lambda f, r: f.open(r / "missing" / "a", writable=True, create=True),
    "names": lambda f, r: f.names(r),
    "names of a missing directory": lambda f, r: f.names(r / "missing"),
    "names of a file": lambda f, r: f.names(r / "a"),
    "exists": lambda f, r: [f.exists(r / p) for p in ("a", "d", "d/inner", "missing", "a/x", "missing/x")],
    "is directory": lambda f, r: [f.is_directory(r / p) for p in ("a", "d", "missing", "a/x", "")],
    "make directories": lambda f, r: f.make_directory(r / "x" / "y" / "z"),
    "make an existing directory": lambda f, r: f.make_directory(r / "d"),
    "make a directory over a file": lambda f, r: f.make_directory(r / "a"),
    "make a directory below a file": lambda f, r: f.make_directory(r / "a" / "x"),
    "rename": lambda f, r: f.rename(r / "a", r / "c"),
    "rename onto a file": lambda f, r: f.rename(r / "a", r / "b"),
    "rename onto itself": lambda f, r: f.rename(r / "a", r / "a"),
    "rename into a directory": lambda f, r: f.rename(r / "a", r / "d" / "a"),
    "rename onto a directory": lambda f, r: f.rename(r / "a", r / "d"),
    "rename a missing file": lambda f, r: f.rename(r / "missing", r / "c"),
    "rename into a missing directory": lambda f, r: f.rename(r / "a", r / "missing" / "a"),
    "rename a directory": lambda f, r: f.rename(r / "d", r / "e"),
    "rename a directory onto itself": lambda f, r: f.rename(r / "d", r / "d"),
    "rename a directory onto an empty one": rename_onto_empty_directory,
    "rename a directory onto a file": lambda f, r: f.rename(r / "d", r / "a"),
    "rename a directory into itself": lambda f, r: f.rename(r / "d", r / "d" / "d"),
    "remove": lambda f, r: f.remove(r / "a"),
    "remove a missing file": lambda f, r: f.remove(r / "missing"),
    "remove below a missing directory": lambda f, r: f.remove(r / "missing" / "a"),
    "remove below a file": lambda f, r: f.remove(r / "a" / "x"),
    "remove a directory": lambda f, r: f.remove(r / "d"),
    "sync a directory": lambda f, r: f.sync_directory(r / "d"),
    "sync a missing directory": lambda f, r: f.sync_directory(r / "missing"),
    "sync a file as a directory": lambda f, r: f.sync_directory(r / "a"),
    "free bytes": lambda f, r: f.free_bytes(r / "a") > 0,
    "free bytes at a missing path": lambda f, r: f.free_bytes(r / "missing"),
    "replace a file": lambda f, r: replace_file(f, r / "a", b"replaced"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_same_as_local_files(name: str, tmp_path: Path) -> None:
    outcomes = []
    for files, root in ((LocalFiles(), tmp_path), (ForgetfulFiles(), Path("/r"))):
        files.make_directory(root / "d")
        for path, data in (("a", b"first"), ("b", b"second"), ("d/inner", b"third")):
            put(files, root / path, data).close()
        outcomes.append(outcome(OPERATIONS[name], files, root))
    local, forgetful = outcomes
    assert forgetful == local


def test_relative_paths_count_from_the_root() -> None:
    files = ForgetfulFiles()
    files.make_directory(Path("a/b"))
    assert files.names(Path("/a")) == ["b"]
    assert files.names(Path()) == ["a"]


def test_append_after_a_change_through_another_handle_is_a_broken_invariant() -> None:
    files, first = durable_log()
    files.open(LOG, writable=True).append([b"x"])
    with pytest.raises(AssertionError, match="another handle"):
        first.append([b"y"])


def test_threads_share_one_disk() -> None:
    files = ForgetfulFiles()

    def fill(number: int) -> None:
        file = files.open(Path(str(number)), writable=True, create=True)
        for _ in range(50):
            file.append([b"x" * number])
            file.sync()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, range(8)))
    assert [files.open(Path(str(n))).size() for n in range(8)] == [50 * n for n in range(8)]
    assert files.points == 8 * 101
    assert files.syncs == 8 * 50


# --- The fuse --------------------------------------------------------------------------------------


def all_kinds_of_points(files: Files) -> None:
    files.make_directory(ARCHIVE)
    file = put(files, LOG, b"x" * 100, sync=True)
    file.truncate(50)
    files.rename(LOG, ARCHIVE / "old")
    files.sync_directory(ARCHIVE)
    files.remove(ARCHIVE / "old")


def test_history_names_the_points() -> None:
    files = ForgetfulFiles()
    all_kinds_of_points(files)
    assert files.history == [
        "make_directory /archive",
        "create /archive/log",
        "append /archive/log",
        "sync /archive/log",
        "truncate /archive/log",
        "rename /archive/log /archive/old",
        "sync_directory /archive",
        "remove /archive/old",
    ]
    assert files.points == len(files.history)


@pytest.mark.parametrize("fuse", range(1, 9))
def test_the_fuse_cuts_the_power_in_that_point(fuse: int) -> None:
    files = ForgetfulFiles(fuse)
    with pytest.raises(PowerCut, match=f"point {fuse}:"):
        all_kinds_of_points(files)
    assert files.points == fuse


def test_a_fuse_beyond_the_last_point_does_nothing() -> None:
    files = ForgetfulFiles(9)
    all_kinds_of_points(files)
    assert files.names(ARCHIVE) == []


def test_reading_is_no_point() -> None:
    files, file = durable_log(b"data")
    before = files.points
    file.read(0, 4), file.size(), files.names(ARCHIVE), files.exists(LOG), files.is_directory(LOG)
    files.open(LOG).close()
    files.free_bytes(LOG)
    files.make_directory(ARCHIVE)
    assert files.points == before


def test_power_cut_passes_through_handlers_of_exceptions() -> None:
    assert not issubclass(PowerCut, Exception)


def test_without_power_every_call_fails_in_every_thread() -> None:
    files, file = durable_log(b"data")
    files.fuse = files.points + 1
    with pytest.raises(PowerCut):
        file.append([b"x"])
    calls: list[Callable[[], object]] = [
        lambda: file.append([b"x"]),
        lambda: file.read(0, 1),
        file.size,
        file.sync,
        lambda: file.truncate(0),
        lambda: files.open(LOG),
        lambda: files.names(ARCHIVE),
        lambda: files.exists(LOG),
        lambda: files.is_directory(LOG),
        lambda: files.make_directory(ARCHIVE),
        lambda: files.rename(LOG, LOG),
        lambda: files.remove(LOG),
        lambda: files.sync_directory(ARCHIVE),
        lambda: files.free_bytes(LOG),
    ]
    points = files.points
    with ThreadPoolExecutor(4) as pool:
        errors = [future.exception() for future in [pool.submit(call) for call in calls]]
    assert [type(error) for error in errors] == [PowerCut] * len(calls)
    assert files.points == points
    file.close()


def test_the_interrupted_append_arrives_in_part() -> None:
    sizes = set()
    for earlier in range(30):
        files, file = durable_log()
        for _ in range(earlier):
            file.append([])
        files.fuse = files.points + 1
        with pytest.raises(PowerCut):
            file.append([b"x" * 100])
        sizes.add(files.copy().open(LOG).size())
    assert len(sizes) > 10
    assert max(sizes) <= 100


# --- Bytes after a power cut -----------------------------------------------------------------------


def test_synced_bytes_survive() -> None:
    files, file = durable_log(b"a" * 700)
    file.append([b"b" * 5000])
    assert all(data and data[:700] == b"a" * 700 for data in survivors(files))
    file.sync()
    assert survivors(files) == {b"a" * 700 + b"b" * 5000}


def test_unsynced_bytes_survive_not_at_all_wholly_in_part_or_torn() -> None:
    files, file = durable_log(b"a" * 700)
    whole = b"a" * 700 + b"b" * 5000
    file.append([b"b" * 5000])
    states = {data for data in survivors(files) if data is not None}
    assert {whole[:700], whole} <= states
    assert len([s for s in states if s != whole and whole.startswith(s)]) > 10
    torn = [s for s in states if not whole.startswith(s)]
    assert any(len(s) == len(whole) for s in torn)
    assert any(bytes(512) in s for s in torn)
    assert any(set(s) - set(b"ab\0") for s in torn)
    for state in torn:
        for begin in range(1024, len(state), 512):  # whole sectors arrive or do not
            sector = state[begin : begin + 512]
            assert set(sector) in ({ord("b")}, {0}) or len(set(sector)) > 2 or len(sector) < 512


def test_torn_data_begins_only_where_the_synced_bytes_end() -> None:
    files, file = durable_log(b"a" * 100)
    file.append([b"b" * 100])
    assert all(data and data.startswith(b"a" * 100) for data in survivors(files))


def test_an_unsynced_truncation_may_not_have_happened() -> None:
    files, file = durable_log(b"abcdef")
    file.truncate(2)
    assert survivors(files) == {b"abcdef", b"ab"}
    file.sync()
    assert survivors(files) == {b"ab"}


def test_truncations_survive_in_order() -> None:
    files, file = durable_log(b"abcdef")
    file.truncate(4)
    file.truncate(2)
    assert survivors(files) == {b"abcdef", b"abcd", b"ab"}


def test_bytes_appended_after_an_unsynced_truncation_need_it() -> None:
    files, file = durable_log(b"abcdef")
    file.truncate(2)
    file.append([b"XY"])
    states = survivors(files)
    assert {b"abcdef", b"ab", b"abX", b"abXY"} <= states
    assert all(s == b"abcdef" or (s and s.startswith(b"ab") and len(s) <= 4) for s in states)


def test_growth_by_truncation_is_not_durable() -> None:
    files, file = durable_log(b"ab")
    file.truncate(4)
    assert {b"ab", b"ab\0\0"} <= survivors(files)


def test_the_disk_after_a_cut_is_durable_and_the_cut_one_unchanged() -> None:
    files, file = durable_log(b"a" * 100)
    file.append([b"b" * 100])
    disk = files.after_power_cut(Random(3))
    assert survivors(disk) == {read_file(disk, LOG)}
    assert disk.points == 0
    disk.open(LOG, writable=True).append([b"c"])
    assert file.read(0, 999) == b"a" * 100 + b"b" * 100


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=25)
def test_the_same_seed_gives_the_same_disk(seed: int) -> None:
    def disk() -> list[object]:
        files, file = durable_log(b"a" * 100)
        file.append([b"b" * 5000])
        for number in range(10):
            put(files, ARCHIVE / str(number), bytes([number]) * 600)
        return list(tree(files.after_power_cut(Random(seed)), Path("/")))

    assert disk() == disk()


# --- Names after a power cut -----------------------------------------------------------------------


def test_a_synced_file_loses_its_name_until_the_directory_is_synced() -> None:
    files = ForgetfulFiles()
    files.make_directory(ARCHIVE)
    put(files, LOG, b"data", sync=True)
    assert survivors(files) == {None, b"data"}
    files.sync_directory(ARCHIVE)
    assert survivors(files) == {b"data"}


def test_a_name_can_survive_without_the_data() -> None:
    files = ForgetfulFiles()
    files.make_directory(ARCHIVE)
    put(files, LOG, b"data")
    files.sync_directory(ARCHIVE)
    states = survivors(files)
    assert {b"", b"data"} <= states
    assert None not in states


def test_directories_are_durable_at_once() -> None:
    files = ForgetfulFiles()
    files.make_directory(ARCHIVE / "x" / "y")
    assert all(files.after_power_cut(Random(seed)).is_directory(ARCHIVE / "x" / "y") for seed in SEEDS)


def name_states(files: ForgetfulFiles, *directories: Path) -> set[tuple[tuple[str, ...], ...]]:
    disks = [files.after_power_cut(Random(seed)) for seed in SEEDS]
    return {tuple(tuple(disk.names(directory)) for directory in directories) for disk in disks}


def test_changes_of_a_directory_survive_in_order() -> None:
    files, _ = durable_log()
    put(files, ARCHIVE / "a", b"")
    files.rename(ARCHIVE / "a", ARCHIVE / "b")
    files.remove(LOG)
    expected = {("log",), ("a", "log"), ("b", "log"), ("b",)}
    assert name_states(files, ARCHIVE) == {(names,) for names in expected}
    files.sync_directory(ARCHIVE)
    assert name_states(files, ARCHIVE) == {(("b",),)}


def test_directories_forget_independently() -> None:
    files = ForgetfulFiles()
    for name in ("x", "y"):
        files.make_directory(ARCHIVE / name)
    put(files, ARCHIVE / "x" / "1", b"")
    put(files, ARCHIVE / "y" / "2", b"")
    states = name_states(files, ARCHIVE / "x", ARCHIVE / "y")
    assert states == {((), ()), (("1",), ()), ((), ("2",)), (("1",), ("2",))}


@pytest.mark.parametrize("synced", ["x", "y", None])
def test_a_rename_between_directories_is_atomic(synced: str | None) -> None:
    files = ForgetfulFiles()
    for name in ("x", "y"):
        files.make_directory(ARCHIVE / name)
    put(files, ARCHIVE / "x" / "1", b"data", sync=True)
    files.sync_directory(ARCHIVE / "x")
    put(files, ARCHIVE / "y" / "0", b"")
    files.rename(ARCHIVE / "x" / "1", ARCHIVE / "y" / "1")
    put(files, ARCHIVE / "y" / "2", b"")
    done = {((), ("0", "1")), ((), ("0", "1", "2"))}
    if synced:
        files.sync_directory(ARCHIVE / synced)
    expected = {
        None: done | {(("1",), ()), (("1",), ("0",))},
        "x": done,
        "y": {((), ("0", "1", "2"))},
    }
    assert name_states(files, ARCHIVE / "x", ARCHIVE / "y") == expected[synced]


def test_a_rename_of_a_directory_takes_its_files_along() -> None:
    files, _ = durable_log(b"data")
    files.rename(ARCHIVE, Path("/new"))
    assert name_states(files, Path("/")) == {(("archive",),), (("new",),)}
    files.sync_directory(Path("/"))
    assert survivors(files, Path("/new/log")) == {b"data"}


def test_a_removed_file_can_come_back() -> None:
    files, _ = durable_log(b"data")
    files.remove(LOG)
    assert survivors(files) == {None, b"data"}


@given(fuse=st.integers(1, 20), seed=st.integers(0, 1 << 32))
@settings(max_examples=200)
def test_replace_file_leaves_the_old_or_the_new_whole(fuse: int, seed: int) -> None:
    old, new = b"o" * 3000, b"n" * 4000
    files, _ = durable_log(old)
    files.fuse = files.points + fuse
    cut = False
    try:
        replace_file(files, LOG, new)
    except PowerCut:
        cut = True
    data = read_file(files.after_power_cut(Random(seed)), LOG)
    assert data in (old, new) if cut else data == new


def test_the_double_tells_a_careless_writer_from_a_careful_one() -> None:
    """Replacing without a sync before the rename is the classic mistake: it must show."""
    files, _ = durable_log(b"old")
    put(files, ARCHIVE / "draft", b"new" * 1000)
    files.rename(ARCHIVE / "draft", LOG)
    files.sync_directory(ARCHIVE)
    assert survivors(files) - {b"old", b"new" * 1000}


# --- A full disk and a failing one -----------------------------------------------------------------


def test_a_full_disk_takes_a_part() -> None:
    files, file = durable_log(b"x" * 6, capacity=10)
    with pytest.raises(VolumeFull, match="no space left for '/archive/log'"):
        file.append([b"yyy", b"zzz"])
    assert file.read(0, 99) == b"xxxxxxyyyz"
    assert files.free_bytes(ARCHIVE) == 0
    file.truncate(8)
    assert files.free_bytes(ARCHIVE) == 2
    file.append([b"!!"])
    assert file.read(0, 99) == b"xxxxxxyy!!"


def test_a_removed_file_takes_room_until_it_is_closed() -> None:
    files, file = durable_log(b"x" * 6, capacity=10)
    files.remove(LOG)
    assert files.free_bytes(ARCHIVE) == 4
    file.close()
    assert files.free_bytes(ARCHIVE) == 10


@pytest.mark.parametrize("later_sync", [False, True])
def test_what_a_failed_sync_left_is_lost_in_a_later_power_cut(later_sync: bool) -> None:
    files, file = durable_log(b"a" * 100)
    files.fail_sync_at = files.syncs + 1
    file.append([b"b" * 100])
    with pytest.raises(VolumeDown, match="cannot use '/archive/log'"):
        file.sync()
    assert file.read(100, 100) == b"b" * 100  # still in the page cache
    file.append([b"c" * 100])
    if later_sync:
        file.sync()
    for data in survivors(files):
        assert data
        assert data[:100] == b"a" * 100
        assert data[100:110] != b"b" * 10
        assert not later_sync or data[200:] == b"c" * 100


def test_rewriting_after_a_failed_sync_is_safe() -> None:
    files, file = durable_log(b"a", fail_sync_at=2)
    file.append([b"b" * 10])
    with pytest.raises(VolumeDown):
        file.sync()
    file.truncate(1)
    file.append([b"b" * 10])
    file.sync()
    assert survivors(files) == {b"a" + b"b" * 10}


# --- Copies ----------------------------------------------------------------------------------------


def test_dump_and_load(tmp_path: Path) -> None:
    files, _ = durable_log(b"data")
    files.make_directory(ARCHIVE / "empty")
    put(files, ARCHIVE / "draft", b"")
    files.dump(tmp_path / "copy")
    assert sorted(os.listdir(tmp_path / "copy" / "archive")) == ["draft", "empty", "log"]
    assert (tmp_path / "copy" / "archive" / "log").read_bytes() == b"data"

    loaded = ForgetfulFiles()
    put(loaded, Path("/gone"), b"")
    loaded.load(tmp_path / "copy")
    assert list(tree(loaded, Path("/"))) == list(tree(files, Path("/")))
    assert name_states(loaded, Path("/"), ARCHIVE) == {(("archive",), ("draft", "empty", "log"))}


def test_dump_works_without_power(tmp_path: Path) -> None:
    files, file = durable_log(b"data")
    files.fuse = 1
    with pytest.raises(PowerCut):
        file.sync()
    files.after_power_cut(Random(0)).dump(tmp_path)
    files.dump(tmp_path)
    assert (tmp_path / "archive" / "log").read_bytes() == b"data"


def test_a_copy_knows_what_is_durable_and_goes_its_own_way() -> None:
    files, file = durable_log(b"abcdef", capacity=100)
    file.truncate(2)
    put(files, ARCHIVE / "new", b"")
    twin = files.copy(fuse=2)
    assert (twin.points, twin.capacity) == (0, 100)
    assert survivors(twin) == {b"abcdef", b"ab"}
    assert name_states(twin, ARCHIVE) == {(("log",),), (("log", "new"),)}
    twin.remove(LOG)
    assert files.exists(LOG)
    with pytest.raises(PowerCut):
        twin.sync_directory(ARCHIVE)
    file.append([b"the original has power"])
