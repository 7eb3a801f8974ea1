"""The bytes of a file on a disk that forgets: what was synced, what was not, and what a power cut may make of them."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from random import Random

_SECTOR_BYTES = 512


def refusal(code: int) -> OSError:
    return OSError(code, os.strerror(code))


@dataclass(slots=True)
class Image:
    """Bytes of a file. Those below `floor` are on the disk, save the `lost` ranges, whose sync has failed."""

    data: bytearray = field(default_factory=bytearray)
    floor: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    versions: dict[int, list[bytes]] = field(default_factory=dict)  # of sectors overwritten since the last sync

    def write(self, offset: int, data: bytes) -> None:
        assert offset + len(data) <= len(self.data), "only what is there can be overwritten"
        first = offset - offset % _SECTOR_BYTES
        for begin in range(first, min(offset + len(data), self.floor), _SECTOR_BYTES):
            self.versions.setdefault(begin, []).append(bytes(self.data[begin : begin + _SECTOR_BYTES]))
        self.data[offset : offset + len(data)] = data

    def after_power_cut(self, random: Random) -> bytearray:
        fate = random.choice(("none", "all", "prefix", "torn", "torn prefix"))
        end = self.floor if fate == "none" else len(self.data)
        if "prefix" in fate:
            end = random.randint(self.floor, end)
        data = self.data[:end]
        if "torn" in fate and self.floor < end:
            sectors = range(self.floor - self.floor % _SECTOR_BYTES, end, _SECTOR_BYTES)
            for begin in random.sample(sectors, random.randint(1, len(sectors))):
                _spoil(data, max(begin, self.floor), begin + _SECTOR_BYTES, random)
        for start, stop in self.lost:
            _spoil(data, start, stop, random)
        self._choose_versions(data, random)
        return data

    def _choose_versions(self, data: bytearray, random: Random) -> None:
        """The disk may have written any of them, in any order, and been in the middle of one."""
        fate = random.choice(("old", "new", "any", "any", "spoilt"))
        for begin, versions in self.versions.items():
            end = min(begin + _SECTOR_BYTES, len(data))
            if fate == "old":
                data[begin:end] = versions[0][: end - begin]
            elif fate != "new" and (older := random.randint(0, len(versions))) < len(versions):
                data[begin:end] = versions[older][: end - begin]
            if fate == "spoilt" and random.random() < 0.1:
                _spoil(data, begin, end, random)


def _spoil(data: bytearray, start: int, stop: int, random: Random) -> None:
    length = max(0, min(stop, len(data)) - start)
    data[start : start + length] = random.choice((bytes(length), random.randbytes(length)))


@dataclass(slots=True, eq=False)
class Inode:
    """A file whatever its name. `earlier` holds the image before each truncation that is not yet durable."""

    image: Image = field(default_factory=Image)
    earlier: list[Image] = field(default_factory=list)

    def truncate(self, size: int) -> None:
        image = self.image
        if size < len(image.data):
            self.earlier.append(image)
            lost = [(start, min(stop, size)) for start, stop in image.lost if start < size]
            versions = {begin: list(each) for begin, each in image.versions.items() if begin < size}
            self.image = Image(image.data[:size], min(image.floor, size), lost, versions)
        else:
            image.data.extend(bytes(size - len(image.data)))

    def sync(self, *, fail: bool) -> None:
        image = self.image
        if fail:  # as on Linux, the pages count as clean from now on, so that no later sync writes them
            image.lost.append((image.floor, len(image.data)))
            image.lost += [(begin, begin + _SECTOR_BYTES) for begin in image.versions]
            raise refusal(errno.EIO)
        self.earlier.clear()
        image.versions.clear()
        image.floor = len(image.data)

    def forget(self, random: Random) -> None:
        data = random.choice([*self.earlier, self.image]).after_power_cut(random)
        self.image, self.earlier = Image(data, len(data)), []
