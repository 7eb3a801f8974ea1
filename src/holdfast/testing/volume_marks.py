"""The part of the conformance suite that is about marks: scans that go on where another ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.storage.volume import BlockKey, Mark, Recount, Store, Volume
from holdfast.testing.volume_calls import fill, marks, plain, scanned, sign


class MarkConformance(ABC):
    """Tests for pytest. A subclass says how its volume is opened."""

    @abstractmethod
    def open_volume(self, directory: Path) -> Volume:
        """Opens the volume in the directory for writing; makes an empty one if there is none."""

    @contextmanager
    def opened(self, directory: Path) -> Iterator[Volume]:
        volume = self.open_volume(directory)
        try:
            yield volume
        finally:
            volume.close()

    # -- marks ----------------------------------------------------------------------------------------------------

    def test_a_scan_goes_on_behind_every_mark(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            fill(volume)
            whole, places = scanned(volume), marks(volume)
            assert len(whole) == len(places) > 20
            for number, place in enumerate(places, 1):
                assert scanned(volume, place) == whole[number:]
        with self.opened(tmp_path) as volume:
            for number, place in enumerate(marks(volume), 1):
                assert scanned(volume, place) == whole[number:]

    def test_a_scan_goes_on_behind_what_is_gone(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            fill(volume)
            whole, places = scanned(volume), marks(volume)
            gone = range(2, len(places), 3)
            volume.commit([Recount(places[number].key, 0) for number in gone])
            left = [(number, each) for number, each in enumerate(whole) if number not in gone]
            for number, place in enumerate(places):
                assert scanned(volume, place) == [each for at, each in left if at > number]

    def test_a_scan_in_pieces_sees_every_block_once(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as volume:
            volume.commit([Store(sign(number), plain(b"%d" % number)) for number in range(40)])
            seen: list[BlockKey] = []
            place: Mark | None = None
            while batch := next(volume.scan(after=place), None):
                seen += (block.key for block in batch[:7])
                place = batch[:7][-1].mark
            assert Counter(seen) == Counter(BlockKey(sign(number)) for number in range(40))
