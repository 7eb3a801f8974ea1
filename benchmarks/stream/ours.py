"""Holdfast at the workloads. Each function runs in its own process and checks its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.archive.crawl import Crawls
from benchmarks.archive.ours import import_files
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.measure import Cost, measured
from benchmarks.harness.process import ChildFailed
from benchmarks.stream.workload import CONSUMERS, SEPARATE, StreamWorkload

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.streams import Stream, StreamBatch

Taken = tuple[int, int]  # captures, and bytes of their payloads

_WARM_UP = 512  # captures


def make_archive(path: Path, crawls: Crawls) -> None:
    """The archive that is streamed: the files of both crawls, imported."""
    from holdfast.archive import init, open

    init(path)
    with open(path) as archive:
        import_files(archive, crawls.files)


def stream_raw(path: Path, crawls: Crawls) -> Figure:
    """The payload of every capture, as transferred, then dropped."""
    with _opened(path) as archive:
        taken, cost = measured(lambda: _all_of(archive))
    _check(taken, crawls)
    return Figure(OURS, StreamWorkload.RAW, taken[0], cost, content_bytes=taken[1])


def stream_separately(path: Path, crawls: Crawls) -> Figure:
    """Eight streams at the same time, each by itself."""
    with _opened(path) as archive:
        works = [lambda: _all_of(archive)] * CONSUMERS
        taken, cost = measured(lambda: _at_once(works))
    return _of_all(SEPARATE, taken, crawls, cost)


def stream_shared(path: Path, crawls: Crawls) -> Figure:
    """Eight consumers of one scan."""
    from holdfast.streams import StreamOptions

    def work() -> list[Taken]:
        multicast = archive.multicast(StreamOptions(fields=("payload",)))
        consumers = [multicast.join() for _ in range(CONSUMERS)]
        return _at_once([lambda each=each: _count(each.batches()) for each in consumers])  # type: ignore[misc]

    with _opened(path) as archive:
        taken, cost = measured(work)
    return _of_all(OURS, taken, crawls, cost)


def _opened(path: Path) -> Archive:
    """Open for reading, and warm."""
    from holdfast.archive import open

    archive = open(path, read_only=True)
    stream = _stream(archive)
    _count(stream.batches(_WARM_UP))
    stream.close()
    return archive


def _stream(archive: Archive) -> Stream:
    from holdfast.streams import StreamOptions

    return archive.stream(StreamOptions(fields=("payload",)))


def _all_of(archive: Archive) -> Taken:
    return _count(_stream(archive).batches())


def _count(batches: Iterable[StreamBatch]) -> Taken:
    captures = size = 0
    for batch in batches:
        captures += len(batch.pages)
        size += sum([len(page.buffer) for page in batch.pages])
    return captures, size


def _at_once(works: Sequence[Callable[[], Taken]]) -> list[Taken]:
    with ThreadPoolExecutor(len(works)) as pool:
        return [each.result() for each in [pool.submit(work) for work in works]]


def _of_all(subject: str, taken: Sequence[Taken], crawls: Crawls, cost: Cost) -> Figure:
    for each in taken:
        _check(each, crawls)
    captures, size = (sum(column) for column in zip(*taken, strict=True))
    return Figure(subject, StreamWorkload.SHARED, captures, cost, content_bytes=size)


def _check(taken: Taken, crawls: Crawls) -> None:
    expected = crawls.captures, crawls.content_bytes
    if taken != expected:
        raise ChildFailed(f"{taken[0]} captures with {taken[1]} bytes were delivered, expected {expected}")
