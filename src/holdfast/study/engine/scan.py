"""Reads the captures that a study is about, in the order of their URL keys, and sorts them into groups.

A revisit counts with the content, type and size of its original. A group is a collection, a batch, or a visit of a
crawl: `news#2` is the second visit of the crawl `news`. Captures that were imported belong to no crawl.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from holdfast.catalog.query.search import Permits
from holdfast.catalog.revisits import has_own_answer, is_empty
from holdfast.catalog.rows import unpacked
from holdfast.catalog.timestamps import seconds
from holdfast.crawl.crawls import crawls, kept_job, log_path
from holdfast.crawl.log import LogFilter, read_log
from holdfast.errors import HoldfastError, UnknownName
from holdfast.index.schema import host_of, short_type
from holdfast.model import Capture

if TYPE_CHECKING:
    from holdfast.archive import Archive

Progress = Callable[[int], None]
NO_CRAWL = "(no crawl)"
_RANGE = 2048  # captures read at once
_DOCUMENTS = frozenset(("response", "resource", "revisit"))
_UNDATED = '"dateFrom": "none"'
_END = b"\xff"


class GroupBy(StrEnum):
    """What captures are grouped by."""

    BATCH = "batch"
    COLLECTION = "collection"
    CRAWL = "crawl"

    @classmethod
    def parse(cls, text: str | GroupBy) -> GroupBy:
        """Raises UnknownName."""
        try:
            return cls(text)
        except ValueError:
            raise UnknownName(f"cannot group by {text!r}: one of {', '.join(cls)}") from None


class Observation(NamedTuple):
    """A capture as a study sees it."""

    capture: Capture
    host: str  # '' if its URL has none
    type: str  # html, image, pdf, ...; of the original, if it is a revisit
    status: int  # 0: none
    digest: str  # '' if there is no payload, or an unknown one
    size: int  # bytes of the payload
    time_s: int  # seconds since the year 1; -1: the capture has no date


@dataclass(frozen=True, slots=True)
class StudySource:
    """What a study reads: an archive, or one collection of it, as far as `permits` allows."""

    archive: Archive
    collection: str | None = None
    permits: Permits | None = None
    progress: Progress = lambda _: None

    @property
    def captures(self) -> int:
        """How many there are, as far as the catalog's totals say."""
        totals = self.archive.catalog.totals()[0]
        return sum(total.captures for name, total in totals.items() if self.collection in (None, name))

    def observations(self) -> Iterator[Observation]:
        """Documents, by URL key and time. Requests, metadata and the like are left out."""
        catalog = self.archive.catalog
        place = b""
        urlkey, host = "", ""
        known: dict[str, tuple[str, int, str]] = {}  # type, size and status of the URL's payloads, by digest
        last = ""  # the digest before
        while found := catalog.rows.by_place(self.collection, (place, _END), _RANGE):
            place = found[-1][0] + b"\0"
            self.progress(len(found))
            for capture in map(unpacked, found):
                if capture.type not in _DOCUMENTS or (self.permits is not None and not self.permits(capture)):
                    continue
                if capture.urlkey != urlkey:
                    urlkey, host, last = capture.urlkey, host_of(capture.urlkey), ""
                    known.clear()
                digest = "" if capture.digest == "-" else capture.digest
                kind, size, status = capture.mime, capture.size, capture.status
                if capture.type == "revisit":
                    digest = digest or last
                    if digest not in known:
                        original = catalog.resolve(capture)
                        if original is not None:
                            digest = digest or original.digest
                            known[digest] = original.mime, original.size, original.status
                    if digest in known:
                        kind, size, before = known[digest]
                        status = status if has_own_answer(capture) else before
                elif digest:
                    known[digest] = kind, size, status
                last = digest or last
                time_s = -1 if _UNDATED in capture.extra else seconds(capture.timestamp)
                number = int(status) if status.isdigit() else 0
                has_payload = size > 0 or (capture.type == "revisit" and digest not in known and not is_empty(capture))
                yield Observation(capture, host, type_of(kind), number, digest if has_payload else "", size, time_s)


@lru_cache(4096)
def type_of(mime: str) -> str:
    """What people call a type; `unknown` where there is none."""
    return "unknown" if mime in ("", "-", "unk") else short_type(mime.lower())


# -- groups ------------------------------------------------------------------------------------------------------------


def group_function(archive: Archive, by: GroupBy) -> Callable[[Capture], str]:
    """The group of a capture."""
    match by:
        case GroupBy.COLLECTION:
            return lambda capture: capture.collection
        case GroupBy.BATCH:
            return lambda capture: capture.record.batch
        case GroupBy.CRAWL:
            return CrawlVisits(archive).of


class CrawlVisits:
    """Which visit of which crawl a capture comes from: only one crawl of an archive runs at a time."""

    def __init__(self, archive: Archive) -> None:
        """Reads the logs of all crawls."""
        runs = sorted(_runs(archive))
        self._starts = [run[0] for run in runs]
        self._runs = runs

    def of(self, capture: Capture) -> str:
        """`name#visit`, or `(no crawl)`."""
        if capture.filename != "-" or not self._runs:
            return NO_CRAWL
        time_s = seconds(capture.timestamp)
        at = bisect_right(self._starts, time_s) - 1
        if at < 0:
            return NO_CRAWL
        _, end_s, name, collection = self._runs[at]
        return name if time_s <= end_s and capture.collection == collection else NO_CRAWL


def _runs(archive: Archive) -> Iterator[tuple[int, int, str, str]]:
    """Start and end in seconds since the year 1, name and visit, collection; of every run of every crawl."""
    epoch_s = seconds("19700101000000")
    wanted = LogFilter(events=frozenset(("start", "stop")))
    for status in crawls(archive.path):
        try:
            job = kept_job(archive.path, status.name)
        except HoldfastError:
            continue  # its job cannot be read, so its collection is not known
        collection = (job.collection if job else "") or archive.settings.records.collection
        begun: tuple[int, str] | None = None
        for row in read_log(log_path(archive.path, status.name), wanted):
            time_s = epoch_s + int(row["time"])
            if begun is not None:
                yield begun[0], time_s, begun[1], collection
            begun = (time_s, f"{status.name}#{row['visit']}") if row["event"] == "start" else None
        if begun is not None:  # running, or killed
            yield begun[0], max(begun[0], epoch_s + int(status.updated)) + 1, begun[1], collection
