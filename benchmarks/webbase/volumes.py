"""Table 3: what one volume of an organization does in a second, with real pages.

A volume is filled with half of the pages, sorted, and compacted; of that one reads are measured. Additions are of the
other half, each order of arrival into a copy of that volume:

    one at a time, in random order     each is durable before the next one comes
    in random order, through a buffer  10 MB of pages at a time are handed over, and durable together
    in sorted order, through it        the same, sorted by signature over all of them
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.webbase.disk import forget
from benchmarks.webbase.pages import Pages
from benchmarks.webbase.paper import Row
from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL
from holdfast.storage.volume import BlockKey, ReadableVolume, Store
from holdfast.storage.volumes.organizations import compact_volume, create_volume, open_volume, open_volume_reader

BUFFER_BYTES = 10 << 20
SINGLE_MAX = 500  # pages that are added one at a time
RANDOM_MAX = 2000  # pages that are read at random
COLD_MAX = 400  # of them with cold caches
COLD_AT_ONCE = 20  # and so many before the system is made to forget again
_SETTINGS = StoreSettings(train_after=0)
_NAME = "v0"

Told = dict[tuple[Row, bool], float]  # pages per second, by what was measured, and whether it was with warm caches


class VolumeBench:
    """The measurements of one organization."""

    def __init__(self, organization: str, pages: Pages) -> None:
        self._organization = organization
        middle = len(pages.stores) // 2
        self._there, self._coming = pages.stores[:middle], pages.stores[middle:]

    def run(self, directory: Path) -> Told:
        """Everything once, below a directory, which is empty afterwards."""
        filled = directory / "filled"
        create_volume(filled, VolumeSettings(_NAME, organization=self._organization), _SETTINGS, REAL)
        self._fill(filled)
        told = self._reads(filled)
        for row, groups in self._arrivals().items():
            volume = Path(shutil.copytree(filled, directory / "added"))
            told[row, False] = self._additions(volume, groups)
            shutil.rmtree(volume)
        shutil.rmtree(filled)
        return told

    def _fill(self, directory: Path) -> None:
        volume = open_volume(_NAME, directory, _SETTINGS, REAL)
        for group in grouped(sorted(self._there, key=lambda each: each.signature)):
            volume.commit(group)
        compact_volume(volume, 0.0, None)
        volume.close()

    # -- reading ------------------------------------------------------------------------------------------------

    def _reads(self, directory: Path) -> Told:
        keys = [BlockKey(each.signature) for each in self._there]
        Random(3).shuffle(keys)
        keys = keys[:RANDOM_MAX]
        told: Told = {}
        for warm in (False, True):
            told[Row.STREAM, warm] = len(self._there) / self._seconds(directory, _stream, warm=warm)
        told[Row.RANDOM, True] = len(keys) / self._seconds(directory, partial(_fetch, keys=keys), warm=True)
        cold, seconds = keys[:COLD_MAX], 0.0
        for start in range(0, len(cold), COLD_AT_ONCE):  # or what is read ahead would soon be all of it
            some = cold[start : start + COLD_AT_ONCE]
            seconds += self._seconds(directory, partial(_fetch, keys=some), warm=False)
        told[Row.RANDOM, False] = len(cold) / seconds
        return told

    def _seconds(self, directory: Path, work: Callable[[ReadableVolume], None], *, warm: bool) -> float:
        """How long a fresh reader takes; a cold one finds nothing in memory, not even the volume's tables."""
        if not warm:
            forget(directory)
        volume = open_volume_reader(_NAME, directory, _SETTINGS, REAL)
        try:
            if warm:
                work(volume)
            begun = time.perf_counter()
            work(volume)
            return time.perf_counter() - begun
        finally:
            volume.close()

    # -- adding -------------------------------------------------------------------------------------------------

    def _arrivals(self) -> dict[Row, list[list[Store]]]:
        by_signature = sorted(self._coming, key=lambda each: each.signature)
        return {
            Row.ADD_RANDOM: [[each] for each in self._coming[:SINGLE_MAX]],
            Row.ADD_BUFFERED: list(grouped(self._coming)),
            Row.ADD_SORTED: list(grouped(by_signature)),
        }

    def _additions(self, directory: Path, groups: Sequence[Sequence[Store]]) -> float:
        volume = open_volume(_NAME, directory, _SETTINGS, REAL)
        try:
            begun = time.perf_counter()
            for group in groups:
                volume.commit(group)
            return sum(map(len, groups)) / (time.perf_counter() - begun)
        finally:
            volume.close()


def grouped(stores: Sequence[Store]) -> Iterator[list[Store]]:
    """What fits into the buffer, in the given order."""
    group: list[Store] = []
    size = 0
    for each in stores:
        group.append(each)
        size += len(each.encoded.data)
        if size >= BUFFER_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _stream(volume: ReadableVolume) -> None:
    for _ in volume.scan(counted=False):
        pass


def _fetch(volume: ReadableVolume, keys: Sequence[BlockKey]) -> None:
    for key in keys:
        (block,) = volume.fetch([key])
        assert block is not None
