"""What there is besides pages (I8): images, sound, film, documents, fonts and the rest, with sizes.

Dimensions of images, and durations of sound and film, are read from samples: those whose digests have the lowest
checksums, the same ones each time.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.catalog.query.search import Permits
from holdfast.errors import HoldfastError, UsageError
from holdfast.formats.media import INSTALL, can_read_lengths, dimensions, length_s
from holdfast.model import Capture
from holdfast.study.chart import Panel, Series
from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.engine.run import ClusterArchive, run_study
from holdfast.study.engine.scan import Progress, StudySource
from holdfast.study.engine.tally import Tally, median_of_powers, power_name, power_of
from holdfast.study.result import StudyResult
from holdfast.study.statistics.survival import Count

IMAGES = 1000
RECORDINGS = 200
TYPES_MAX = 1000
_FILE_BYTES_MAX = 32 << 20
_RECORDED = ("audio", "video")
_CATEGORIES = {
    **{name: name for name in ("image", "audio", "video", "font", "archive")},
    **dict.fromkeys(("pdf", "office"), "document"),
    **dict.fromkeys(("json", "xml", "feed"), "data"),
    "script": "script",
    "css": "style",
    **dict.fromkeys(("plain", "text"), "text"),
    "unknown": "unknown",
}
Counts = Mapping[tuple[str, str], Mapping[int, Count]]


@dataclass(frozen=True, slots=True)
class MediaStudy:
    """How many images are read for their dimensions, and recordings for their durations, of each archive."""

    images: int = IMAGES
    recordings: int = RECORDINGS

    def __post_init__(self) -> None:
        for what in ("images", "recordings"):
            if getattr(self, what) < 0:
                raise UsageError(f"cannot read {getattr(self, what)} {what}: give 0 or more")

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        """Partial result: `counts`."""
        tally = Tally(RowBuffer(database, "counts", Tally.COLUMNS))
        recordings = self.recordings if can_read_lengths() else 0
        samples = {"image": _Sample(self.images)} | {name: _Sample(recordings) for name in _RECORDED}
        urlkey, seen = "", set[str]()
        for each in source.observations():
            if each.capture.urlkey != urlkey:
                urlkey, seen = each.capture.urlkey, set()
            if not each.digest or each.type == "html" or not (each.status == 0 or 200 <= each.status < 300):
                continue
            category = category_of(each.type)
            mime = each.mime[:100] or "unknown"
            tally.add("category", category, power_of(each.size), each.size)
            tally.add("mime", f"{category}\t{mime}", power_of(each.size), each.size)
            if category not in seen:
                seen.add(category)
                tally.add("url", category, 0, 0)
            if category in samples and 0 < each.size <= _FILE_BYTES_MAX and each.capture.type != "revisit":
                samples[category].offer(each.digest, each.capture)
        for capture in samples["image"].captures():
            width, height = dimensions(_payload(source.archive, capture))
            tally.add("side", "image", power_of(max(width, height)), max(width, height))
        for name in _RECORDED:
            for capture in samples[name].captures():
                seconds = length_s(_payload(source.archive, capture))
                what = "length" if seconds is not None else "unread"
                tally.add(what, name, power_of(int(seconds or 0)), seconds or 0.0)
        tally.flush()
        database.write(Tally.MERGED, directory / "counts.parquet")

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """Tables `categories`, `types`, `sizes`, `dimensions` and `durations`."""
        import pyarrow

        database.read("counts", [each / "counts.parquet" for each in partials])
        counts = Tally.read(database)
        categories = _categories(counts)
        sides = sorted(counts.get(("side", "image"), {}).items())
        read = sum(each.number for bin, each in sides if bin >= 0)
        shown = [
            {"from_pixels": 1 << bin, "to_pixels": 1 << bin + 1, "images": each.number, "share": each.number / read}
            for bin, each in sides
            if bin >= 0
        ]
        lengths = _lengths(counts)
        tables = {
            "categories": pyarrow.Table.from_pylist(categories, pyarrow.schema(_CATEGORY)),
            "types": pyarrow.Table.from_pylist(_types(counts), pyarrow.schema(_TYPE)),
            "sizes": pyarrow.Table.from_pylist(_sizes(counts), pyarrow.schema(_SIZE)),
            "dimensions": pyarrow.Table.from_pylist(shown, pyarrow.schema(_SIDE)),
            "durations": pyarrow.Table.from_pylist(lengths, pyarrow.schema(_LENGTH)),
        }
        notes = [] if categories else ["there are no captures besides pages"]
        if unread := sum(each.number for bin, each in sides if bin < 0):
            notes.append(f"{unread:,} of {unread + read:,} images could not be read for their dimensions")
        notes += _notes_on_lengths(counts, lengths)
        return StudyResult("media", tables, notes, _panels(categories, shown, lengths) if categories else ())


class _Sample:
    """The captures whose digests have the lowest checksums, one of each digest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[int, str]] = []  # checksums, negative: the highest leaves first
        self._captures: dict[str, Capture] = {}

    def offer(self, digest: str, capture: Capture) -> None:
        if digest in self._captures or not self._size:
            return
        entry = (-crc32(digest.encode("utf-8", "surrogateescape")), digest)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, entry)
        elif entry <= self._heap[0]:
            return
        else:
            del self._captures[heapq.heapreplace(self._heap, entry)[1]]
        self._captures[digest] = capture

    def captures(self) -> list[Capture]:
        """In the order of their records, which is that of the disk."""
        return sorted(self._captures.values(), key=lambda capture: capture.record)


def category_of(type: str) -> str:
    """What kind of media a type is."""
    return _CATEGORIES.get(type, "other")


def _payload(archive: Archive, capture: Capture) -> bytes:
    """Empty if it cannot be read."""
    try:
        return archive.records.of(capture).payload()
    except HoldfastError:
        return b""


# -- what the counts say -----------------------------------------------------------------------------------------------

_COMMON = (("bytes", "int64"), ("bytes_share", "float64"), ("mean_bytes", "float64"), ("median_bytes", "float64"))
_CATEGORY = (("category", "string"), ("captures", "int64"), ("urls", "int64"), ("share", "float64"), *_COMMON)
_TYPE = (("category", "string"), ("mime", "string"), ("captures", "int64"), ("share", "float64"), *_COMMON)
_SIZE = (("category", "string"), ("from_bytes", "int64"), ("to_bytes", "int64"), ("captures", "int64"))
_SIDE = (("from_pixels", "int64"), ("to_pixels", "int64"), ("images", "int64"), ("share", "float64"))
_LENGTH = (
    *(("category", "string"), ("from_seconds", "int64"), ("to_seconds", "int64"), ("files", "int64")),
    *(("share", "float64"), ("mean_seconds", "float64")),
)


def _lengths(counts: Counts) -> list[dict[str, Any]]:
    """Durations of sound and film, in powers of two seconds."""
    found = []
    for name in _RECORDED:
        bins = counts.get(("length", name), {})
        read = sum(each.number for each in bins.values())
        for bin, each in sorted(bins.items()):
            bounds = {"from_seconds": 1 << bin if bin >= 0 else 0, "to_seconds": 1 << bin + 1}
            figures = {"files": each.number, "share": each.number / read, "mean_seconds": each.mean_s}
            found.append({"category": name, **bounds, **figures})
    return found


def _notes_on_lengths(counts: Counts, lengths: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    if unread := sum(counts.get(("unread", name), {}).get(-1, Count(0, 0.0)).number for name in _RECORDED):
        total = unread + sum(row["files"] for row in lengths)
        notes.append(f"{unread:,} of {total:,} recordings could not be read for their durations")
    if not can_read_lengths() and any(("category", name) in counts for name in _RECORDED):
        notes.append(INSTALL)
    return notes


def _rows(counts: Counts, what: str) -> list[tuple[str, dict[str, Any]]]:
    """Name and figures of each, the most frequent first."""
    named = {name: bins for (kind, name), bins in counts.items() if kind == what}
    total = sum(each.number for bins in named.values() for each in bins.values())
    total_bytes = sum(each.seconds for bins in named.values() for each in bins.values())
    found: list[tuple[str, dict[str, Any]]] = []
    for name, bins in named.items():
        captures, size = (sum(values) for values in zip(*bins.values(), strict=True))
        figures = {
            "captures": captures,
            "share": captures / total,
            "bytes": int(size),
            "bytes_share": size / total_bytes if total_bytes else None,
            "mean_bytes": size / captures,
            "median_bytes": median_of_powers(bins),
        }
        found.append((name, figures))
    return sorted(found, key=lambda pair: (-pair[1]["captures"], pair[0]))[:TYPES_MAX]


def _categories(counts: Counts) -> list[dict[str, Any]]:
    urls = {name: bins[0].number for (what, name), bins in counts.items() if what == "url"}
    return [{"category": name, "urls": urls[name], **figures} for name, figures in _rows(counts, "category")]


def _types(counts: Counts) -> list[dict[str, Any]]:
    found = []
    for name, figures in _rows(counts, "mime"):
        category, _, mime = name.partition("\t")
        found.append({"category": category, "mime": mime, **figures})
    return found


def _sizes(counts: Counts) -> list[dict[str, Any]]:
    return [
        {"category": name, "from_bytes": 1 << bin, "to_bytes": 1 << bin + 1, "captures": each.number}
        for (what, name), bins in sorted(counts.items())
        if what == "category"
        for bin, each in sorted(bins.items())
        if bin >= 0
    ]


def _panels(
    categories: Sequence[Mapping[str, Any]], sides: Sequence[Mapping[str, Any]], lengths: Sequence[Mapping[str, Any]]
) -> list[Panel]:
    shares = [
        Series("captures", [100 * row["share"] for row in categories]),
        Series("bytes", [100 * (row["bytes_share"] or 0) for row in categories]),
    ]
    names = [row["category"] for row in categories]
    panels = [Panel("What there is besides pages", "category", "share (%)", shares, names)]
    if sides:
        series = [Series("images", [100 * row["share"] for row in sides])]
        names = [power_name(row["from_pixels"]) for row in sides]
        x_label = "longer side in pixels, from this to twice as many"
        panels.append(Panel("Dimensions of images", x_label, "images (%)", series, names))
    if lengths:
        known = {row["from_seconds"] for row in lengths}
        bins = [each for each in (0, *(1 << bit for bit in range(32))) if min(known) <= each <= max(known)]
        series = []
        for name in _RECORDED:
            own = {row["from_seconds"]: 100 * row["share"] for row in lengths if row["category"] == name}
            series += [Series(name, [own.get(each, 0.0) for each in bins])] if own else []
        x_label = "seconds, from this to twice as many"
        panels.append(Panel("Durations", x_label, "files of the category (%)", series, list(map(str, bins))))
    return panels


@checked
def media(
    archive: Archive | ClusterArchive | Sequence[Archive],
    *,
    images: int = IMAGES,
    recordings: int = RECORDINGS,
    collection: str | None = None,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """What there is besides pages, of one archive, of several as one, or of a cluster.

    `images` are read for their dimensions, and `recordings` each of sound and film for their durations.
    Raises UsageError or UnknownCollection.
    """
    return run_study(MediaStudy(images, recordings), archive, collection, permits, progress)
