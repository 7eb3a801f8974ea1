"""The log of a crawl: whole lines whatever happens to its writer, and readers that keep up with it (H5)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.crawl.report.log import CrawlLog, LogFilter, follow_log, read_log
from holdfast.errors import Denied, VolumeFull

ROWS = [
    {"event": "start", "name": "x"},
    {"event": "fetch", "url": "https://a.example/1", "host": "a.example", "result": "new"},
    {"event": "fetch", "url": "https://b.example/2", "host": "b.example", "result": "error"},
    {"event": "fetch", "url": "https://a.example/3", "host": "a.example", "result": "error"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def numbered(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"event": "fetch", "number": number} for number in range(start, start + count)]


def numbers(rows: Iterator[dict[str, Any]]) -> list[int]:
    return [row["number"] for row in rows]


def test_what_is_written_is_read(path: Path) -> None:
    with closing(CrawlLog(path)) as log:
        log.write(ROWS[:1])
        log.write([])
        log.write(ROWS[1:])
        assert list(read_log(path)) == ROWS  # nothing is held back
    with closing(CrawlLog(path)) as log:
        log.write([{"event": "stop", "odd": "\ud800 \n é", "path": Path("/x")}])
        log.sync()
    assert list(read_log(path))[-1] == {"event": "stop", "odd": "\ud800 \n é", "path": "/x"}
    assert len(path.read_bytes().splitlines()) == len(ROWS) + 1


@pytest.mark.parametrize("keep", range(1, 40))
def test_a_torn_line_is_cut_off(path: Path, keep: int) -> None:
    with closing(CrawlLog(path)) as log:
        log.write(numbered(2))
    whole = path.read_bytes()
    line = whole.splitlines(keepends=True)[0]
    path.write_bytes(whole + line[: min(keep, len(line) - 1)])
    assert numbers(read_log(path)) == [0, 1]
    with closing(CrawlLog(path)) as log:
        assert path.read_bytes() == whole
        log.write(numbered(1, 2))
    assert numbers(read_log(path)) == [0, 1, 2]


def test_a_log_that_is_one_torn_line(path: Path) -> None:
    path.write_bytes(b'{"event": "' + b"x" * 200_000)
    with closing(CrawlLog(path)) as log:
        assert path.stat().st_size == 0
        log.write(numbered(1))
    assert numbers(read_log(path)) == [0]


def test_lines_that_are_no_rows_are_passed_over(path: Path) -> None:
    path.write_bytes(b'{"number": 1}\n\0\0\0\n[]\n{"number": 2}\n')
    assert numbers(read_log(path)) == [1, 2]


def test_rows_of_wrong_types_are_rows(path: Path) -> None:
    path.write_bytes(b'{"event": [], "number": 1}\n' + b"[" * 100_000 + b'\n{"event": "x", "url": 3, "number": 2}\n')
    assert numbers(read_log(path)) == [1, 2]
    chosen = LogFilter(events=frozenset({"x"}), text="3")
    assert numbers(read_log(path, chosen)) == [2]


def test_no_log_has_no_rows(path: Path) -> None:
    assert list(read_log(path)) == []
    assert list(read_log(path, last=3)) == []
    assert list(follow_log(path, lambda: True, lambda: None)) == []


def test_a_failed_group_leaves_nothing_and_the_log_takes_no_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) < 30:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: len(data) - 10], offset)

    with closing(CrawlLog(path)) as log:
        log.write(numbered(1))
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(VolumeFull):
            log.write(numbered(2, 1))
        monkeypatch.setattr(os, "pwrite", write)
        with pytest.raises(VolumeFull):
            log.write(numbered(2, 1))
    assert numbers(read_log(path)) == [0]


def test_a_log_that_may_not_be_written(tmp_path: Path) -> None:
    with pytest.raises((Denied, FileNotFoundError)):
        CrawlLog(tmp_path / "missing" / "log.jsonl")


# -- choosing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "places"),
    [
        (LogFilter(), [0, 1, 2, 3]),
        (LogFilter(events=frozenset({"start"})), [0]),
        (LogFilter(results=frozenset({"error", "gone"})), [2, 3]),
        (LogFilter(host="a.example"), [1, 3]),
        (LogFilter(host="a.example", results=frozenset({"error"})), [3]),
        (LogFilter(text="example/2"), [2]),
    ],
)
def test_filters(path: Path, chosen: LogFilter, places: list[int]) -> None:
    with closing(CrawlLog(path)) as log:
        log.write(ROWS)
    assert list(read_log(path, chosen)) == [ROWS[place] for place in places]
    assert list(read_log(path, chosen, last=1)) == [ROWS[places[-1]]]


@pytest.mark.parametrize("last", [0, 1, 2, 999, 1000, 1001, 10_000])
def test_the_last_rows(path: Path, last: int) -> None:
    """Many enough that they are looked for in several steps."""
    filler = "x" * 500
    with closing(CrawlLog(path)) as log:
        log.write([row | {"filler": filler} for row in numbered(1000)])
    assert numbers(read_log(path, last=last)) == list(range(1000))[max(0, 1000 - last) :]


# -- following ---------------------------------------------------------------------------------------------------------


def test_following_across_waits_and_torn_lines(path: Path) -> None:
    with closing(CrawlLog(path)) as log:
        log.write(numbered(5))
    whole = json.dumps(numbered(1, 6)[0]) + "\n"
    steps = iter(range(4))

    def wait() -> None:
        match next(steps):
            case 0:
                with closing(CrawlLog(path)) as log:
                    log.write(numbered(1, 5))
            case 1:
                with path.open("a") as file:
                    file.write(whole[:7])
            case 2:  # the writer was killed and began again
                with closing(CrawlLog(path)) as log:
                    log.write(numbered(2, 6))
            case _:
                pass

    ended = iter([False, False, False, False, True])
    assert numbers(follow_log(path, lambda: next(ended), wait, last=2)) == [3, 4, 5, 6, 7]


def test_what_is_written_at_the_very_end_is_seen(path: Path) -> None:
    with closing(CrawlLog(path)) as log:
        log.write(numbered(1))

        def ended() -> bool:
            log.write(numbered(1, 1))
            return True

        assert numbers(follow_log(path, ended, lambda: None)) == [0, 1]


def test_following_with_a_filter(path: Path) -> None:
    with closing(CrawlLog(path)) as log:
        log.write(ROWS)
    chosen = LogFilter(host="a.example")
    assert list(follow_log(path, lambda: True, lambda: None, chosen)) == [ROWS[1], ROWS[3]]
    assert list(follow_log(path, lambda: True, lambda: None, chosen, last=0)) == []
