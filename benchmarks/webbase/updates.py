"""Tables 4 and 5 and figure 6: archives of the batch scheme, crawled again in part, and updated.

An archive has one update volume and one read volume. Half of the pages are its first crawl, and are taken in by a first
update. Then a share of them, the update ratio, comes in a new version; the clock runs while the archive is updated,
with only the latest versions kept, as in WebBase: transfer, index, switch, removal of class A, compaction.

The archive adds, streams and finds as any archive does: records, catalog and all. So table 5 is of the whole system,
as the paper's is of its prototype.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import holdfast
from benchmarks.webbase.disk import forget
from benchmarks.webbase.pages import Pages
from benchmarks.webbase.volumes import COLD_AT_ONCE, COLD_MAX
from holdfast.archive import Archive, Plan
from holdfast.archive.ingest.exchange import Exchange, page
from holdfast.archive.update import UpdateOptions
from holdfast.config import RecordSettings, StoreSettings, VolumeSettings
from holdfast.streams import StreamOptions

_AT_ONCE = 256  # pages of one addition, as a crawl hands them over
_Work = Callable[[Archive], int]
_STEPS = ("transfer", "index", "switch", "remove", "compact")


@dataclass(frozen=True, slots=True)
class UpdateCost:
    """What a batch update took."""

    update: str  # organization of the update volume
    read: str  # and of the read volume
    ratio: float  # of the pages that came in a new version
    pages: int  # that are there
    moved: int
    removed: int
    seconds: dict[str, float]  # by step

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True)
class Prototype:
    """What the archive as a whole does in a second (table 5); pages, with cold caches where it reads."""

    streaming: float
    addition: float
    random: float


class UpdateBench:
    """One archive, from its first crawl to its update."""

    def __init__(self, organizations: tuple[str, str], pages: Pages, directory: Path) -> None:
        """The organizations are of the update volume and of the read volume."""
        self._update, self._read = organizations
        half = len(pages.payloads) // 2
        self._first, self._later = pages.payloads[:half], pages.payloads[half:]
        self._path = directory / "archive"

    def run(self, ratio: float) -> UpdateCost:
        with self._made() as archive:
            self._crawl(archive, self._first, "2026-01-01T00:00:00Z")
            archive.updates.run(UpdateOptions(wait_s=0))
            count = round(len(self._first) * ratio)
            self._crawl(archive, self._later[:count], "2026-02-01T00:00:00Z")
            forget(self._path)
            report = archive.updates.run(UpdateOptions(wait_s=0))
        seconds = {step: report.seconds.get(step, 0.0) for step in _STEPS}
        return UpdateCost(
            self._update, self._read, ratio, len(self._first), report.moved.blocks, report.captures, seconds
        )

    def prototype(self) -> Prototype:
        """Adds, streams and finds all pages of the first crawl."""
        with self._made() as archive:
            begun = time.perf_counter()
            self._crawl(archive, self._first, "2026-01-01T00:00:00Z")
            adding_s = time.perf_counter() - begun
            archive.updates.run(UpdateOptions(wait_s=0))
        streamed, streaming_s = self._read_cold(_streamed)
        asked = list(range(len(self._first)))
        Random(5).shuffle(asked)
        found, finding_s = 0, 0.0
        for start in range(0, min(len(asked), COLD_MAX), COLD_AT_ONCE):
            work = partial(_found, numbers=asked[start : start + COLD_AT_ONCE])
            count, seconds = self._read_cold(work)
            found, finding_s = found + count, finding_s + seconds
        return Prototype(streamed / streaming_s, len(self._first) / adding_s, found / finding_s)

    def _made(self) -> Archive:
        """An archive of the batch scheme that keeps the latest versions only. It has no index: that is not compared."""
        store = StoreSettings(update="batch", train_after=0)
        holdfast.init(self._path, Plan(organization=self._read, store=store, records=RecordSettings(keep="latest")))
        archive = holdfast.open(self._path)
        archive.add_volume(VolumeSettings("u0", organization=self._update, role="update"))
        return archive

    def _crawl(self, archive: Archive, payloads: Sequence[bytes], date: str) -> None:
        for group in _exchanges(payloads, date):
            archive.add(group, batch="crawl")

    def _read_cold(self, work: _Work) -> tuple[int, float]:
        forget(self._path)
        with holdfast.open(self._path, read_only=True) as archive:
            begun = time.perf_counter()
            count = work(archive)
            return count, time.perf_counter() - begun


def _exchanges(payloads: Sequence[bytes], date: str) -> Iterator[list[Exchange]]:
    for start in range(0, len(payloads), _AT_ONCE):
        some = payloads[start : start + _AT_ONCE]
        yield [page(_url(start + index), payload, timestamp=date) for index, payload in enumerate(some)]


def _url(number: int) -> str:
    return f"http://site{number % 97}.example/{number}"


def _streamed(archive: Archive) -> int:
    return sum(len(batch.pages) for batch in archive.stream(StreamOptions(fields=("payload",))).batches())


def _found(archive: Archive, numbers: Sequence[int]) -> int:
    return sum(bool(archive.get(_url(number)).payload()) for number in numbers)
