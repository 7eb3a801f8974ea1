"""Resuming a stream from a token, in an archive of many small captures: time to the next capture.

One child fills the archive and takes a token in its middle; a fresh one opens the archive and resumes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.process import ChildFailed, run_apart

ORDERS = ("log", "url")
_GROUP = 1024  # captures of one addition
_PAGES_PER_HOST = 50
_CONTENTS = 16
_TIME = "20260105000000"


@dataclass(frozen=True, slots=True)
class Resumed:
    """The figures of one order."""

    captures: int
    order: str
    token_bytes: int
    open_s: float  # of the archive
    first_s: float  # from creating the stream to the first capture
    seconds_all: tuple[float, ...]  # of all repeats, opening included

    @property
    def seconds(self) -> float:
        return self.open_s + self.first_s


def measure_resume(path: Path, captures: int, repeats: int) -> Iterator[Resumed]:
    """Raises ChildFailed."""
    run_apart(fill, path, captures)
    for order in ORDERS:
        token, expected = run_apart(pause, path, order, captures // 2)
        tries = [run_apart(go_on, path, order, token, expected) for _ in range(repeats)]
        opened, first = sorted(tries, key=sum)[(repeats - 1) // 2]
        yield Resumed(captures, order, len(token), opened, first, tuple(sum(each) for each in tries))


def fill(path: Path, captures: int) -> None:
    from holdfast.archive import init, open
    from holdfast.archive.ingest.exchange import page

    init(path)
    with open(path) as archive:
        for start in range(0, captures, _GROUP):
            numbers = range(start, min(captures, start + _GROUP))
            archive.add([page(_url(each), b"<p>%d" % (each % _CONTENTS), timestamp=_TIME) for each in numbers])


def pause(path: Path, order: str, captures: int) -> tuple[str, str]:
    """The token after this many captures, and the URL of the next one."""
    from holdfast.archive import open
    from holdfast.streams import StreamOptions

    with open(path, read_only=True) as archive:
        stream = archive.stream(StreamOptions(order=order, fields=("url",), batch_size=4096))
        for _ in stream.batches(captures):
            pass
        token = stream.token
        following = next(iter(stream))
        stream.close()
    return token, following.url


def go_on(path: Path, order: str, token: str, expected: str) -> tuple[float, float]:
    """Seconds to open the archive, and until the first capture with its payload."""
    from holdfast.archive import open
    from holdfast.streams import StreamOptions

    start = time.perf_counter()
    with open(path, read_only=True) as archive:
        opened = time.perf_counter()
        stream = archive.stream(StreamOptions(order=order, token=token))
        page = next(iter(stream))
        payload = page.payload
        first = time.perf_counter()
        stream.close()
    if page.url != expected or not payload.startswith(b"<p>"):
        raise ChildFailed(f"the stream resumed with '{page.url}', expected '{expected}'")
    return opened - start, first - opened


def _url(number: int) -> str:
    host, page = divmod(number, _PAGES_PER_HOST)
    return f"http://www.host{host:07d}.example/section/page-{page}.html"
