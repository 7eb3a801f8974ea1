"""The process that `test_object_crashes` kills: stores into a volume in an object store, and tells of every commit."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from random import Random

from object_world import content, opened

from holdfast.storage.volume import BlockKey, Release, Store
from holdfast.storage.volumes.log.compaction import compact
from holdfast.storage.volumes.object import tiered_files
from holdfast.testing.volumes import plain, sign


def work(directory: Path, url: str, first: int) -> None:
    """Stores for ever; every tenth content goes again, and now and then the volume is compacted."""
    volume = opened(directory, url)
    print("open", flush=True)
    number = first
    while True:
        numbers = range(number, number + 5)
        volume.commit([Store(sign(each), plain(content(each))) for each in numbers])
        print("stored", *numbers, flush=True)
        if number % 10 == 0:
            volume.commit([Release(BlockKey(sign(number)))])
            print("released", number, flush=True)
        if number % 200 == 0:
            compact(volume)
        number += 5


def measure(directory: Path, url: str, megabytes: int) -> None:
    """Fills one large segment, uploads it, and reads it back in every way; tells how much memory that took."""
    tiered_files.CACHE_BYTES = 4 << 20
    volume = opened(directory, url, segment_bytes_max=megabytes << 20)
    for number in range(megabytes):
        volume.commit([Store(sign(number), plain(Random(number).randbytes(1 << 20)))])
    volume.seal()
    volume.close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    volume = opened(directory, url)
    assert not list(directory.glob("000001.seg"))
    seen = sum(len(batch) for batch in volume.scan())
    assert seen == megabytes, seen
    for number in range(0, megabytes, 7):
        assert volume.fetch([BlockKey(sign(number))])[0] is not None
    volume.close()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, flush=True)


if __name__ == "__main__":
    what, directory, url, number = sys.argv[1:]
    {"work": work, "measure": measure}[what](Path(directory), url, int(number))
