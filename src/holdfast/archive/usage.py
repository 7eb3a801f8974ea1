"""An archive's disk usage and savings: the same figures for every page, command and metric (P14).

    captured ──duplicates──► unique ──compression──► stored
                                                        └── on disk, beside records, catalog, index, crawls

Disk use is counted as `du` does it: the space that the file system has allocated to files and directories below the
archive's directory, and to hard links once. What volumes take elsewhere, on other machines or in other directories,
is counted by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

from holdfast.env import paths

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive
    from holdfast.archive.volumes import VolumeReport

_SECTOR = 512  # the unit of `st_blocks`, on every system
_PARTS = {
    paths.VOLUMES: "contents",
    paths.BATCHES: "records",
    paths.CATALOG: "catalog",
    paths.INDEX: "index",
    paths.CRAWLS: "crawls",
}


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Bytes on disk below the directory of an archive, by purpose."""

    contents: int = 0  # volumes
    records: int = 0  # batches
    catalog: int = 0
    index: int = 0
    crawls: int = 0
    other: int = 0  # settings, filters, logs, leases, a node's state, the directory itself

    @property
    def total(self) -> int:
        """What `du` prints for the directory."""
        return sum(self.as_dict().values())

    def as_dict(self) -> dict[str, int]:
        """The parts by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ArchiveUsage:
    """Sizes in bytes. `stored_bytes` of `unique_bytes` are in volumes, compressed; the rest is in batches."""

    captured_bytes: int  # all payloads, each as often as it was captured
    unique_bytes: int  # each content once, uncompressed
    content_bytes: int  # of these, in volumes, uncompressed
    stored_bytes: int  # the same, compressed
    disk: DiskUsage
    elsewhere_bytes: int  # blocks of volumes that are not below the archive's directory

    @property
    def compressed_bytes(self) -> int:
        """Each content once, compressed in volumes; payloads in batches count as they are."""
        return self.unique_bytes - self.content_bytes + self.stored_bytes

    @property
    def saved_by_duplicates_bytes(self) -> int:
        return self.captured_bytes - self.unique_bytes

    @property
    def saved_by_compression_bytes(self) -> int:
        """Of contents in volumes; it is negative if headers take more than compression saves."""
        return self.content_bytes - self.stored_bytes

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `disk_bytes` in all, and its parts in `disk`."""
        return asdict(self) | {
            "saved_by_duplicates_bytes": self.saved_by_duplicates_bytes,
            "saved_by_compression_bytes": self.saved_by_compression_bytes,
            "disk_bytes": self.disk.total,
        }


def archive_usage(archive: Archive, reports: Iterable[VolumeReport] | None = None) -> ArchiveUsage:
    """Reads every directory of the archive: about a second for 200,000 files. Volumes that are down count as empty."""
    reports = list(archive.volumes() if reports is None else reports)
    totals = archive.catalog.totals()[0].values()
    inline = sum(total.inline_bytes for total in totals)  # each payload counts: no volume knows of it
    stats = [report.stat for report in reports if report.stat is not None]
    contents = sum(stat.content_bytes for stat in stats)
    referenced = sum(stat.referenced_bytes for stat in stats)
    root = archive.path.resolve()
    local = [archive.instance.directory(report.settings) for report in reports if not report.settings.address]
    inside = [place for place in local if place.resolve().is_relative_to(root)]
    outside = [place.resolve() for place in local if place not in inside]
    remote = [report.stat.disk_bytes for report in reports if report.stat is not None and report.settings.address]
    return ArchiveUsage(
        captured_bytes=max(sum(total.payload_bytes for total in totals), inline + referenced),
        unique_bytes=inline + contents,
        content_bytes=contents,
        stored_bytes=sum(stat.stored_bytes for stat in stats),
        disk=disk_usage(root, inside),
        elsewhere_bytes=sum(remote) + sum(map(_size, outside)),
    )


def disk_usage(root: Path, volumes: Iterable[Path] = ()) -> DiskUsage:
    """Disk usage below a directory. `volumes` are further directories of contents in it."""
    root = root.resolve()
    seen: set[tuple[int, int]] = set()
    sums = dict.fromkeys(DiskUsage().as_dict(), 0)
    sums["contents"] = sum(_size(place.resolve(), seen) for place in volumes)
    for name in sorted(os.listdir(root)):
        sums[_PARTS.get(name, "other")] += _size(root / name, seen)
    sums["other"] += os.lstat(root).st_blocks * _SECTOR
    return DiskUsage(**sums)


def _size(place: Path, seen: set[tuple[int, int]] | None = None) -> int:
    """The allocated bytes of a file, or of a directory and everything below it, except inodes already `seen`.

    Files may come and go meanwhile.
    """
    seen = set() if seen is None else seen
    size, waiting = 0, [os.fspath(place)]
    while waiting:
        path = waiting.pop()
        try:
            status = os.lstat(path)
            names = os.listdir(path) if S_ISDIR(status.st_mode) else []
        except FileNotFoundError:
            continue
        if status.st_nlink > 1 or S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
        size += status.st_blocks * _SECTOR
        waiting += [os.path.join(path, name) for name in names]
    return size
