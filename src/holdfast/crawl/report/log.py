"""The log of a crawl, `log.jsonl`: one JSON object per event, in the order of completion.

A group of rows is one write, so that a killed process leaves at most one torn line, the last, which is cut off when the
log is opened again. Readers need no lock; they take whole lines only.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.crawl.frontier import UrlRow
from holdfast.crawl.processes.messages import ParsedPage
from holdfast.env.files import from_os_error, translated_errors
from holdfast.errors import HoldfastError

Row = dict[str, Any]

EVENTS = (
    *("fetch", "start", "stop", "robots", "refused", "trapped"),
    *("abandoned", "stored", "pause", "expired", "superseded", "warning"),
)
RESULTS = (
    *("new", "duplicate", "unchanged", "redirect", "gone", "empty"),
    *("error", "retry", "robots", "part", "withheld"),
)

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
_CHUNK_BYTES = 1 << 16
_NEWLINE = 0x0A
_HOST = re.compile(r"https?://([^/?#]+)")


class CrawlLog:
    """The log, open for appending; close it at the end. One process, one thread. Writes survive a kill."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: HoldfastError | None = None
        with translated_errors(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._end = _whole_bytes(self._descriptor)
            os.ftruncate(self._descriptor, self._end)

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends a group. After a failure nothing of the group is in the log, and it takes no more."""
        data = "".join(f"{_encode(row)}\n" for row in rows).encode()
        if self._failed is not None:
            raise self._failed
        try:
            self._append(data)
        except OSError as error:
            os.ftruncate(self._descriptor, self._end)
            self._failed = from_os_error(error, self._path)
            raise self._failed from error
        self._end += len(data)

    def _append(self, data: bytes) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:] if done else data, self._end + done)

    def sync(self) -> None:
        """Makes the log durable."""
        with translated_errors(self._path):
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def row_of_fetch(page: ParsedPage, row: UrlRow) -> Row:
    """The row of a fetch; empty fields are left out."""
    values = {
        "event": "fetch",
        "time": round(page.started, 3),
        "elapsed": round(page.elapsed, 4),
        "url": row.url,
        "kind": row.kind,
        "hop": row.hop,
        "depth": row.depth,
        "via": row.via,
        "outcome": page.outcome,
        "status": page.status,
        "mime": page.mime,
        "size": page.size,
        "transferred": page.transferred,
        "ip": page.ip,
        "digest": page.digest,
        "truncated": page.truncated,
        "note": page.detail,
    }
    return {name: value for name, value in values.items() if value not in ("", None)}


def _whole_bytes(descriptor: int) -> int:
    """Up to the end of the last whole line."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _CHUNK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


# -- page -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which rows: those that match all that is given; of several values, one."""

    events: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    host: str = ""
    text: str = ""  # somewhere in the URL

    def takes(self, row: Row) -> bool:
        return (
            (not self.events or str(row.get("event")) in self.events)
            and (not self.results or str(row.get("result")) in self.results)
            and (not self.host or _host(row) == self.host)
            and (not self.text or self.text in str(row.get("url", "")))
        )


def last_row(path: Path, field: str, value: str, takes: Callable[[Row], bool] = lambda _: True) -> Row | None:
    """The newest row whose field has this value and that `takes` accepts; other rows are not parsed."""
    wanted = f'"{field}":{_encode(value)}'.encode()
    try:
        with translated_errors(path), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return None
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
                return _last_row(data, wanted, lambda row: row.get(field) == value and takes(row))
    except FileNotFoundError:
        return None


def _last_row(data: mmap.mmap, wanted: bytes, takes: Callable[[Row], bool]) -> Row | None:
    place = data.rfind(wanted)
    while place >= 0:
        start = data.rfind(b"\n", 0, place) + 1
        end = data.find(b"\n", place)
        row = _row(data[start:end]) if end >= 0 else None
        if row is not None and takes(row):
            return row
        place = data.rfind(wanted, 0, start)
    return None


def _host(row: Row) -> str:
    """As it stands in the URL, with its port if there is one."""
    match = _HOST.match(str(row.get("url", "")))
    return str(row.get("host") or (match[1] if match else ""))


def read_log(path: Path, chosen: LogFilter | None = None, *, last: int | None = None) -> Iterator[Row]:
    """The rows, oldest first; with `last`, only that many at the end. No rows if there is no such file."""
    start = 0 if last is None or chosen is not None else _start_of_last(path, last)
    found = (row for row, _ in _rows(path, start) if chosen is None or chosen.takes(row))
    return found if last is None else iter(deque(found, last))


def follow_log(
    path: Path, ended: Callable[[], bool], wait: Callable[[], None], chosen: LogFilter | None = None, *, last: int = 10
) -> Iterator[Row]:
    """The last rows, then new ones, until the crawl has ended and nothing more comes."""
    position = _start_of_last(path, last) if chosen is None else 0

    def new_rows() -> Iterator[Row]:
        nonlocal position
        for row, end in _rows(path, position):
            position = end
            if chosen is None or chosen.takes(row):
                yield row

    yield from deque(new_rows(), last)
    is_over = False
    while not is_over:
        is_over = ended()  # before the last page: rows may have come since the one before
        yield from new_rows()
        if not is_over:
            wait()


def _rows(path: Path, start: int) -> Iterator[tuple[Row, int]]:
    """Rows, each with where the next begins. Invalid JSON is skipped: a power cut may leave such lines."""
    for line, end in _lines(path, start):
        row = _row(line)
        if row is not None:
            yield row, end


def _row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _start_of_last(path: Path, count: int) -> int:
    """Where the last `count` whole lines begin."""
    try:
        with translated_errors(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        end = _whole_bytes(descriptor)
        if count <= 0:
            return end
        while end:
            start = max(0, end - _CHUNK_BYTES)
            chunk = os.pread(descriptor, end - start, start)
            ends = [place for place, byte in enumerate(chunk) if byte == _NEWLINE]
            if len(ends) > count:
                return start + ends[-count - 1] + 1
            count -= len(ends)
            end = start
        return 0
    finally:
        os.close(descriptor)


def _lines(path: Path, start: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines from an offset on; a torn one at the end is left for later."""
    try:
        with translated_errors(path):
            file: BinaryIO = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return
            start += len(line)
            yield line, start
