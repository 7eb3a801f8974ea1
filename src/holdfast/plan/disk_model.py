"""WebBase's model of a disk: what an operation costs is the sum of its seeks, reads and writes (B13).

The paper's tables S-3-1 to S-3-9 write each operation of an organization as a sequence of elementary operations; S-5
and S-6 make rates of their times. Here the same sequences are timed for any disk. As in the paper, overflow buckets and
the log's catalog are left out; so are processors, caches and syncs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.errors import UsageError

KB: Final = 1024
MB: Final = 1024 * KB
GB: Final = 1024 * MB


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """What elementary operations cost on a disk."""

    name: str
    seek_ms: float  # across half of the data, with the wait for the sector
    short_seek_ms: float  # to a place nearby
    turn_ms: float  # more for a write that does not follow the last one: a turn of the disk, a rewritten block
    read_mb_s: float  # MB of 2^20 bytes
    write_mb_s: float

    def check(self) -> None:
        """Raises UsageError."""
        for name, value in (("seek", self.seek_ms), ("short seek", self.short_seek_ms), ("turn", self.turn_ms)):
            if not 0 <= value < math.inf:
                raise UsageError(f"bad {name} of a disk: {value:g} ms must be finite, and not negative")
        for name, value in (("read", self.read_mb_s), ("write", self.write_mb_s)):
            if not 0 < value < math.inf:
                raise UsageError(f"bad {name} rate of a disk: {value:g} MB/s must be more than 0, and finite")
        if self.short_seek_ms > self.seek_ms:
            raise UsageError("bad seeks of a disk: a short one takes longer than a mean one")

    def scaled(self, seek_ms: float) -> DiskSpeed:
        """The disk with another seek; the times that come with seeks change with it."""
        ratio = seek_ms / self.seek_ms if self.seek_ms else 0.0
        times = (seek_ms, self.short_seek_ms * ratio, self.turn_ms * ratio)
        return DiskSpeed(self.name, *times, self.read_mb_s, self.write_mb_s)


# The paper's disk, as its table S-4 implies it; the others as data sheets of their kind have it.
DISKS: Final = {
    each.name: each
    for each in (
        DiskSpeed("paper", 14.8, 3.8, 15.0, 16.1, 15.0),
        DiskSpeed("hdd", 12.7, 5.0, 8.3, 240.0, 240.0),
        DiskSpeed("ssd", 0.12, 0.12, 0.05, 520.0, 480.0),
        DiskSpeed("nvme", 0.08, 0.08, 0.01, 3000.0, 2000.0),
    )
}


@dataclass(frozen=True, slots=True)
class RepositoryShape:
    """Table S-2."""

    disk_bytes: float = 6.0 * GB  # S
    bucket_bytes: float = 64.0 * KB  # B
    tree_block_bytes: float = 8.0 * KB  # T
    buffer_bytes: float = 16.0 * MB  # M
    page_bytes: float = 2.53 * KB  # p
    utilization: float = 0.6  # u
    transfer_bytes: float = 64.0 * KB  # b
    update_ratio: float = 0.25  # r

    def check(self) -> None:
        """Raises UsageError."""
        sizes = (self.disk_bytes, self.bucket_bytes, self.tree_block_bytes, self.buffer_bytes, self.page_bytes)
        if not all(0 < each < math.inf for each in (*sizes, self.transfer_bytes)):
            raise UsageError("bad sizes of a repository: each must be more than 0, and finite")
        if not (0 < self.utilization <= 1 and 0 < self.update_ratio <= 1):
            raise UsageError("bad repository: utilization and update ratio must be more than 0 and at most 1")
        if self.page_bytes > self.bucket_bytes * self.utilization:
            raise UsageError("bad repository: a page does not fit into its bucket")
        if not self.bucket_bytes <= self.buffer_bytes <= self.disk_bytes:
            raise UsageError("bad repository: the buffer must be as large as a bucket, and no larger than the disk")


class PageOperation(StrEnum):
    """The operations of table 3."""

    STREAM = "streaming"
    RANDOM = "random page access"
    ADD_RANDOM = "page addition, random order"
    ADD_BUFFERED = "page addition, random order, 10 MB buffer"
    ADD_SORTED = "page addition, sorted order"


ORGANIZATIONS: Final = ("log", "hash", "hashed-log")
CONFIGURATIONS: Final = (("log", "hash"), ("hash", "hash"), ("hashed-log", "hash"))  # update and read, of table 4

# What the paper prints: pages per second and node; of table 4 pages added per second, and seconds of a batch update.
PAPER_TABLE_3: Final[Mapping[str, Mapping[PageOperation, float]]] = {
    "log": {
        PageOperation.STREAM: 6300,
        PageOperation.RANDOM: 35,
        PageOperation.ADD_RANDOM: 6100,
        PageOperation.ADD_BUFFERED: 6100,
        PageOperation.ADD_SORTED: 6100,
    },
    "hash": {
        PageOperation.STREAM: 3900,
        PageOperation.RANDOM: 51,
        PageOperation.ADD_RANDOM: 23,
        PageOperation.ADD_BUFFERED: 35,
        PageOperation.ADD_SORTED: 1300,
    },
    "hashed-log": {PageOperation.ADD_BUFFERED: 660},
}
PAPER_TABLE_4: Final[Mapping[tuple[str, str], tuple[float, float]]] = {
    ("log", "hash"): (6100, 11_700),
    ("hash", "hash"): (35, 1260),
    ("hashed-log", "hash"): (660, 1260),
}


def operation_ms(disk: DiskSpeed, shape: RepositoryShape) -> dict[int, float]:
    """Table S-4 by the model. Raises UsageError for disks and shapes that cannot be."""
    disk.check()
    shape.check()
    half = shape.disk_bytes / 2

    def seek(distance: float) -> float:
        """A head that accelerates and brakes needs a time that grows with the root of the distance."""
        return disk.short_seek_ms + (disk.seek_ms - disk.short_seek_ms) * math.sqrt(min(1.0, distance / half))

    def read(size: float) -> float:
        return size / (disk.read_mb_s * MB) * 1e3

    def write(size: float) -> float:
        return size / (disk.write_mb_s * MB) * 1e3

    bucket, page = shape.bucket_bytes, shape.page_bytes
    back = seek(0)  # to the beginning of the same bucket
    between = shape.disk_bytes * page / shape.buffer_bytes  # pages of a full buffer, in the order of their places
    written = shape.buffer_bytes**2 / shape.disk_bytes  # of a full buffer, to one of the logs
    return {
        1: seek(half) + read(bucket),
        2: seek(half) + read(shape.tree_block_bytes) + seek(half) + read(page),
        3: read(shape.transfer_bytes) * page / shape.transfer_bytes,
        4: read(bucket),
        5: seek(half) + read(bucket) + back + disk.turn_ms + write(bucket),
        6: seek(between) + read(bucket) + back + disk.turn_ms + write(bucket),
        7: read(bucket) + back + write(bucket),
        8: seek(shape.buffer_bytes) + disk.turn_ms + write(written),
        9: write(shape.transfer_bytes) * page / shape.transfer_bytes,
    }


def table_3(ms: Mapping[int, float], shape: RepositoryShape) -> dict[str, dict[PageOperation, float]]:
    """Pages per second, by organization and operation: table S-5, and the hashed log beside.

    A hashed log is streamed and looked up as a log is: its pages lie behind each other, and it has an index.
    """
    in_bucket = shape.bucket_bytes * shape.utilization / shape.page_bytes
    to_a_log = shape.buffer_bytes**2 / shape.page_bytes / shape.disk_bytes
    add = {
        PageOperation.ADD_RANDOM: 1e3 / ms[9],
        PageOperation.ADD_BUFFERED: 1e3 / ms[9],
        PageOperation.ADD_SORTED: 1e3 / ms[9],
    }
    logged = 1e3 / ms[8] * to_a_log
    return {
        "log": {PageOperation.STREAM: 1e3 / ms[3], PageOperation.RANDOM: 1e3 / ms[2], **add},
        "hash": {
            PageOperation.STREAM: 1e3 / ms[4] * in_bucket,
            PageOperation.RANDOM: 1e3 / ms[1],
            PageOperation.ADD_RANDOM: 1e3 / ms[5],
            PageOperation.ADD_BUFFERED: 1e3 / ms[6],
            PageOperation.ADD_SORTED: 1e3 / ms[7] * in_bucket,
        },
        "hashed-log": {
            PageOperation.STREAM: 1e3 / ms[3],
            PageOperation.RANDOM: 1e3 / ms[2],
            PageOperation.ADD_BUFFERED: logged,
        },
    }


def table_4(ms: Mapping[int, float], shape: RepositoryShape) -> dict[tuple[str, str], tuple[float, float]]:
    """Pages added per second, and seconds of a batch update, by configuration: table S-6."""
    pages = shape.disk_bytes * shape.utilization * shape.update_ratio / shape.page_bytes
    unsorted_s = pages * ms[6] / 1e3
    sorted_s = shape.disk_bytes / shape.bucket_bytes * ms[7] / 1e3
    rates = table_3(ms, shape)
    return {
        (update, read): (rates[update][PageOperation.ADD_BUFFERED], unsorted_s if update == "log" else sorted_s)
        for update, read in CONFIGURATIONS
    }
