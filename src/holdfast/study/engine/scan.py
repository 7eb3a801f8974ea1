"""Reads the captures that a study is about, in the order of their URL keys, and sorts them into groups.

A revisit counts with the content, type and size of its original. A group is a collection, a batch, or a visit of a
crawl: `news#2` is the second visit of the crawl `news`. Captures that were imported belong to no crawl.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.catalog.query.search import Permits
from holdfast.catalog.revisits import has_own_answer, is_empty
from holdfast.catalog.rows import unpacked
from holdfast.catalog.timestamps import seconds
from holdfast.crawl.report.crawls import crawls, kept_job, log_path
from holdfast.crawl.report.log import LogFilter, read_log
from holdfast.errors import HoldfastError, UnknownName
from holdfast.index.schema import host_of, short_type
from holdfast.model import Capture, RecordId

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.query.snapshot import Numbers
    from holdfast.streams.snapshot import Snapshot

Progress = Callable[[int], None]
NO_CRAWL = "(no crawl)"
_RANGE = 2048  # captures read at once
_DOCUMENTS = frozenset(("response", "resource", "revisit"))
UNDATED_MARK = '"dateFrom": "none"'  # in the extra fields of a capture
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
    mime: str  # likewise; '' if it is not known
    status: int  # 0: none
    digest: str  # '' if there is no payload, or an unknown one
    size: int  # bytes of the payload
    time_s: int  # seconds since the year 1; -1: the capture has no date


class ArchivePart(Protocol):
    """The part of an archive that its node of a cluster answers for: each capture is in one part, of one node."""

    def holds(self, capture: Capture) -> bool:
        """Whether a capture of the archive belongs to the part."""

    def batch_of(self, record: RecordId) -> str:
        """The batch of a record as the whole cluster names it: the one in which it was recorded."""

    def name_in(self, snapshot: Snapshot, record: RecordId) -> RecordId | None:
        """The id of a record in a snapshot of the whole cluster; None if it came later."""

    def crawl_runs(self) -> Sequence[CrawlRun]:
        """Those of all nodes."""

    def matching(self, query: str) -> Numbers:
        """The numbers in the index of the records of the part that a query finds, ascending."""

    def numbers(self) -> Numbers:
        """The numbers in the index of all records of the part, ascending."""


@dataclass(frozen=True, slots=True)
class StudySource:
    """What a study reads: an archive, a collection or a part of it, as far as `permits` allows."""

    archive: Archive
    collection: str | None = None
    permits: Permits | None = None
    progress: Progress = lambda _: None
    part: ArchivePart | None = None  # None: all of it

    @property
    def captures(self) -> int:
        """How many there are, as far as the catalog's totals say."""
        totals = self.archive.catalog.totals()[0]
        return sum(total.captures for name, total in totals.items() if self.collection in (None, name))

    def reads(self, capture: Capture) -> bool:
        """Whether a capture counts: it is in the part that is studied, and nothing forbids it."""
        if self.part is not None and not self.part.holds(capture):
            return False
        return self.permits is None or self.permits(capture)

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
                if capture.type not in _DOCUMENTS or not self.reads(capture):
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
                time_s = -1 if UNDATED_MARK in capture.extra else seconds(capture.timestamp)
                number = int(status) if status.isdigit() else 0
                has_payload = size > 0 or (capture.type == "revisit" and digest not in known and not is_empty(capture))
                shown = digest if has_payload else ""
                yield Observation(capture, host, type_of(kind), _mime_of(kind), number, shown, size, time_s)


@lru_cache(4096)
def type_of(mime: str) -> str:
    """What people call a type; `unknown` where there is none."""
    return short_type(known) if (known := _mime_of(mime)) else "unknown"


def _mime_of(mime: str) -> str:
    return "" if mime in ("", "-", "unk") else mime.lower()


def group_function(source: StudySource, by: GroupBy) -> Callable[[Capture], str]:
    """The group of a capture."""
    part = source.part
    match by:
        case GroupBy.COLLECTION:
            return lambda capture: capture.collection
        case GroupBy.BATCH if part is not None:
            return lambda capture: part.batch_of(capture.record)
        case GroupBy.BATCH:
            return lambda capture: capture.record.batch
        case GroupBy.CRAWL:
            return CrawlVisits(crawl_runs(source.archive) if part is None else part.crawl_runs()).of


class CrawlRun(NamedTuple):
    """A run of a crawl, on one node. Times in seconds since the year 1."""

    start_s: int
    end_s: int
    name: str  # and visit: `news#2`
    collection: str


class CrawlVisits:
    """Which visit of which crawl a capture comes from: an archive, or a cluster, runs one crawl at a time."""

    def __init__(self, runs: Iterable[CrawlRun]) -> None:
        """Runs of one visit may overlap: those of the nodes of a cluster."""
        self._runs: list[CrawlRun] = []
        for run in sorted(runs):
            last = self._runs[-1] if self._runs else run._replace(end_s=-1)
            if (run.name, run.collection) == (last.name, last.collection) and run.start_s <= last.end_s:
                self._runs[-1] = last._replace(end_s=max(last.end_s, run.end_s))
            else:
                self._runs.append(run)
        self._starts = [run.start_s for run in self._runs]

    def of(self, capture: Capture) -> str:
        """`name#visit`, or `(no crawl)`."""
        if capture.filename != "-" or not self._runs:
            return NO_CRAWL
        return self.at(seconds(capture.timestamp), capture.collection)

    def at(self, time_s: int, collection: str) -> str:
        """What crawled at a time, in seconds since the year 1."""
        at = bisect_right(self._starts, time_s) - 1
        if at < 0:
            return NO_CRAWL
        run = self._runs[at]
        return run.name if time_s <= run.end_s and collection == run.collection else NO_CRAWL


def crawl_runs(archive: Archive) -> Iterator[CrawlRun]:
    """Every run of every crawl, by the logs of the archive."""
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
                yield CrawlRun(begun[0], time_s, begun[1], collection)
            begun = (time_s, f"{status.name}#{row['visit']}") if row["event"] == "start" else None
        if begun is not None:  # running, or killed
            end_s = max(begun[0], epoch_s + int(status.updated)) + 1
            yield CrawlRun(begun[0], end_s, begun[1], collection)
