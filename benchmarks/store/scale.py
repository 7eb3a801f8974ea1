"""Many small contents in one volume: how long a clean volume takes to open, and how much memory it needs.

One child fills an archive in batches and closes it; another, fresh one opens it and fetches random contents.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.measure import SEED, bytes_on_disk, peak, reset_peak, resident
from benchmarks.harness.process import ChildFailed, run_apart

_BATCH = 1_024
FETCHES = 20_000


@dataclass(frozen=True, slots=True)
class Filled:
    """What filling took, and the keys of the contents to fetch later, with their numbers."""

    seconds: float
    close_s: float
    rss_peak_bytes: int
    disk_bytes: int
    sample: tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """What a fresh process needed."""

    open_s: float
    rss_open_bytes: int
    rss_peak_bytes: int
    fetch_s: float


@dataclass(frozen=True, slots=True)
class Scale:
    """The figures of one size."""

    blocks: int
    fill_s: float
    close_s: float
    fill_rss_peak_bytes: int
    disk_bytes: int
    open_s: float
    rss_open_bytes: int
    rss_peak_bytes: int
    fetches: int
    fetch_s: float


def measure_scale(directory: Path, blocks: int) -> Scale:
    """Fills and opens an archive with so many contents below the directory. Raises ChildFailed."""
    path = directory / f"scale-{blocks}"
    filled = run_apart(fill, path, blocks)
    opened = run_apart(open_filled, path, filled.sample)
    return Scale(
        blocks=blocks,
        fill_s=filled.seconds,
        close_s=filled.close_s,
        fill_rss_peak_bytes=filled.rss_peak_bytes,
        disk_bytes=filled.disk_bytes,
        open_s=opened.open_s,
        rss_open_bytes=opened.rss_open_bytes,
        rss_peak_bytes=opened.rss_peak_bytes,
        fetches=len(filled.sample),
        fetch_s=opened.fetch_s,
    )


def synthetic(number: int) -> bytes:
    """A small content, about 150 bytes, different for every number."""
    digest = hashlib.blake2b(number.to_bytes(8, "little")).hexdigest()
    return f"<p>content {number}</p><p>{digest}</p>".encode()


def fill(path: Path, blocks: int) -> Filled:
    from holdfast import Plan, init
    from holdfast import open as open_archive

    wanted = set(random.Random(SEED).sample(range(blocks), min(FETCHES, blocks)))
    sample: list[tuple[int, Any]] = []
    init(path, Plan(volumes=1, organization="log"))
    archive: Any = open_archive(path)
    start = time.perf_counter()
    with archive:
        for numbers in _batches(blocks):
            stored = archive.contents.store_batch([synthetic(number) for number in numbers])
            sample.extend((number, one.key) for number, one in zip(numbers, stored, strict=True) if number in wanted)
        seconds = time.perf_counter() - start
        closing = time.perf_counter()
    close_s = time.perf_counter() - closing
    random.Random(SEED).shuffle(sample)
    return Filled(seconds, close_s, peak(), bytes_on_disk(path)[0], tuple(sample))


def open_filled(path: Path, sample: tuple[tuple[int, Any], ...]) -> Opened:
    from holdfast import open as open_archive

    reset_peak()
    start = time.perf_counter()
    archive: Any = open_archive(path)
    with archive:
        open_s = time.perf_counter() - start
        rss_open_bytes = resident()
        start = time.perf_counter()
        for number, key in sample:
            if archive.contents.get(key) != synthetic(number):
                raise ChildFailed(f"content {number} came back different from what was stored")
        return Opened(open_s, rss_open_bytes, peak(), time.perf_counter() - start)


def _batches(blocks: int) -> Iterator[range]:
    for start in range(0, blocks, _BATCH):
        yield range(start, min(start + _BATCH, blocks))
