"""Figures 4 and 5: which bucket size is best for pages of these sizes on this disk, and what it costs in space.

Pages are assigned to buckets by their signatures, in the order of which they stand there. A bucket that is full goes on
in an overflow bucket of the same size, and so on; a page that is larger than a bucket takes as many as it needs. A
random access reads from the first one up to the one that has the page.

    D   how many buckets hold so many bytes         B   time to read a bucket of this size, measured
    C   buckets read for one page, on average       A = B · C   time of a random page access
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIZES = tuple(kib << 10 for kib in (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512))
PAGES_PER_BUCKET = (1, 2, 4, 8, 16, 32, 64, 128)
_BINS = 60


@dataclass(frozen=True, slots=True)
class Choice:
    """What a bucket size comes to."""

    bucket_bytes: int
    reads: float  # C
    read_ms: float  # B
    utilization: float  # share of the buckets' bytes that pages take
    overflowing: float  # share of the buckets that have overflow buckets

    @property
    def access_ms(self) -> float:
        """A."""
        return self.reads * self.read_ms


@dataclass(frozen=True, slots=True)
class Figure4:
    """All of a number of pages per bucket."""

    pages_per_bucket: int
    fills: tuple[tuple[float, float], ...]  # bytes, and the share of buckets that hold about so many
    choices: tuple[Choice, ...]

    @property
    def best(self) -> Choice:
        return min(self.choices, key=lambda each: each.access_ms)


def figure_4(pages: Sequence[tuple[bytes, int]], read_ms: Mapping[int, float], pages_per_bucket: int) -> Figure4:
    """`pages` are signatures with sizes; `read_ms` is what a read of each bucket size takes."""
    buckets = _assigned(pages, max(1, round(len(pages) / pages_per_bucket)))
    choices = tuple(_choice(buckets, size, ms) for size, ms in sorted(read_ms.items()))
    return Figure4(pages_per_bucket, _distribution([sum(bucket) for bucket in buckets]), choices)


def figure_5(pages: Sequence[tuple[bytes, int]], read_ms: Mapping[int, float]) -> list[Figure4]:
    """The same for all numbers of pages per bucket that the pages suffice for."""
    return [figure_4(pages, read_ms, number) for number in PAGES_PER_BUCKET if number <= len(pages)]


def _assigned(pages: Sequence[tuple[bytes, int]], count: int) -> list[list[int]]:
    """Sizes of the pages in each bucket, in the order of their signatures."""
    buckets: list[list[int]] = [[] for _ in range(count)]
    for signature, size in sorted(pages):
        buckets[int.from_bytes(signature[:8], "big") * count >> 64].append(size)
    return buckets


def _choice(buckets: Sequence[Sequence[int]], bucket_bytes: int, read_ms: float) -> Choice:
    reads = pages = parts_all = overflowing = 0
    for bucket in buckets:
        parts, filled = 1, 0
        for size in bucket:
            if filled + size > bucket_bytes and filled:
                parts, filled = parts + 1, 0
            further = -(-size // bucket_bytes) - 1  # buckets that a large page takes beyond its first
            parts, filled = parts + further, bucket_bytes if further else filled + size
            reads += parts
            pages += 1
        parts_all += parts
        overflowing += parts > 1
    used = sum(map(sum, buckets))
    return Choice(
        bucket_bytes, reads / max(pages, 1), read_ms, used / (parts_all * bucket_bytes), overflowing / len(buckets)
    )


def _distribution(fills: Sequence[int]) -> tuple[tuple[float, float], ...]:
    """Shares of buckets by what they hold, in bins up to the 99th percentile."""
    last = sorted(fills)[int(len(fills) * 0.99)] or 1
    width = last / _BINS
    counts = [0] * _BINS
    for fill in fills:
        if fill <= last:
            counts[min(int(fill / width), _BINS - 1)] += 1
    return tuple(((number + 0.5) * width, count / len(fills)) for number, count in enumerate(counts))
