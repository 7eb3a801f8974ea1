"""How the web changes (I7): half-lives and intervals of change, by site, domain, type, depth and size.

What is seen of a URL is a row of visits: captures with status 2xx show a content, 404 and 410 that the URL is gone,
others say nothing. From it:

    intervals    two visits in a row: the content changed, or it did not
    page         from the first visit to the first change or the end of the URL
    content      the same of each version
    url          from the first visit to the end of the URL
    modified     what Last-Modified says: the time since the last change, or since the last visit without one

What ended between two visits is taken to have ended in the middle; what was there at the last visit is censored there.

A partial result has counts by duration (`survival`) for each stratum: all captures of a URL are on one node, so that
counts add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.catalog.query.search import Permits
from holdfast.catalog.timestamps import seconds
from holdfast.study.chart import Panel, Series
from holdfast.study.display import in_time_unit
from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.engine.run import ClusterArchive, run_study
from holdfast.study.engine.scan import Observation, Progress, StudySource
from holdfast.study.engine.sites import kind_of_site, site_of
from holdfast.study.result import StudyResult
from holdfast.study.statistics.survival import (
    Bins,
    Count,
    Estimate,
    bin_of,
    change_rate,
    exponential_rate,
    kaplan_meier,
    median_of,
    rate_of,
)
from holdfast.urls import public_suffix

KINDS = ("all", "category", "tld", "type", "depth", "size", "site")
SITES_MAX = 1000
_DAY_S = 86_400
_GONE = frozenset((404, 410))
_DEPTH_MAX = 4
_SEEN_MAX = 0.5  # of visits that see a change; beyond, the time between visits decides half-lives
_COUNTS_MAX = 200_000  # in memory
_COUNTS = (
    ("kind", "VARCHAR"),
    ("value", "VARCHAR"),
    ("what", "VARCHAR"),
    ("is_end", "BOOLEAN"),
    ("bin", "INTEGER"),
    ("number", "BIGINT"),
    ("seconds", "DOUBLE"),
)


class PageVisit(NamedTuple):
    """A capture of a URL that says something about it."""

    time_s: int
    digest: str  # '' if the URL is gone
    modified_s: int  # -1: not known


class Duration(NamedTuple):
    """Something that lasted, and whether its end was seen."""

    what: str
    is_end: bool
    seconds: float


class ChangeStudy:
    """Reads captures and their Last-Modified."""

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        """Partial result: `counts` and `undated`."""
        counts = _Counts(RowBuffer(database, "counts", _COUNTS))
        undated = 0
        visits: list[PageVisit] = []
        first: Observation | None = None
        urlkey = ""
        for each in source.observations():
            if each.time_s < 0:
                undated += 1
                continue
            if each.capture.urlkey != urlkey:
                counts.add_url(first, visits)
                urlkey, first, visits = each.capture.urlkey, None, []
            if each.digest and (each.status == 0 or 200 <= each.status < 300):
                first = first or each
                modified = each.capture.modified
                visits.append(PageVisit(each.time_s, each.digest, -1 if modified == "-" else seconds(modified)))
            elif each.status in _GONE:
                visits.append(PageVisit(each.time_s, "", -1))
        counts.add_url(first, visits)
        counts.flush()
        summed = "sum(number)::BIGINT AS number, sum(seconds) AS seconds"
        database.write(
            f"SELECT kind, value, what, is_end, bin, {summed} FROM counts GROUP BY ALL", directory / "counts.parquet"
        )
        database.write(f"SELECT {undated}::BIGINT AS captures", directory / "undated.parquet")

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """Tables `strata` and `survival`."""
        for name in ("counts", "undated"):
            database.read(name, [each / f"{name}.parquet" for each in partials])
        strata: list[dict[str, Any]] = []
        curves: list[dict[str, Any]] = []
        for stratum in _strata(database):
            strata.append(stratum.row())
            if stratum.kind != "site":
                curves += stratum.curves()
        import pyarrow

        tables = {
            "strata": pyarrow.Table.from_pylist(strata, _schema(_STRATA)),
            "survival": pyarrow.Table.from_pylist(curves, _schema(_SURVIVAL)),
        }
        notes = []
        if undated := database.value("SELECT coalesce(sum(captures), 0) FROM undated"):
            notes.append(f"captures without a date, left out: {undated:,}")
        if not strata:
            notes.append("there are no captures with a content to study")
        elif not strata[0]["intervals"]:
            notes.append("no URL was captured twice with a content: nothing is known about change but what servers say")
        elif strata[0]["half_life_days"] is None:
            notes.append("less than half of the pages were seen to change: their half-life is not reached")
        elif strata[0]["changes"] > _SEEN_MAX * strata[0]["intervals"]:
            notes.append(
                f"{strata[0]['changes']:,} of {strata[0]['intervals']:,} visits saw a change: pages change faster than "
                "they were visited, so half-lives are upper bounds, and their intervals are too narrow"
            )
        result = StudyResult("change", tables, notes)
        return StudyResult("change", tables, notes, _panels(result))


class _Counts:
    """Counts of durations, in memory until they are many."""

    def __init__(self, rows: RowBuffer) -> None:
        self._rows = rows
        self._counts: dict[tuple[str, str, str, bool, int], list[float]] = {}

    def add_url(self, first: Observation | None, visits: Sequence[PageVisit]) -> None:
        """All that is known of a URL; nothing if it never had a content."""
        if first is None:
            return
        found = [(each.what, each.is_end, bin_of(each.seconds), each.seconds) for each in durations(visits)]
        contents = sum(bool(each.digest) for each in visits)
        for kind, value in strata_of(first):
            for what, number in (("urls", 1), ("captures", contents)):
                self._counts.setdefault((kind, value, what, True, 0), [0, 0.0])[0] += number
            for what, is_end, bin, length_s in found:
                count = self._counts.setdefault((kind, value, what, is_end, bin), [0, 0.0])
                count[0] += 1
                count[1] += length_s
        if len(self._counts) >= _COUNTS_MAX:
            self.flush()

    def flush(self) -> None:
        for key, (number, length_s) in self._counts.items():
            self._rows.add((*key, int(number), length_s))
        self._counts.clear()
        self._rows.flush()


def durations(visits: Sequence[PageVisit]) -> Iterator[Duration]:
    """What is learnt from the visits of a URL, in order of time."""
    seen = [each for each in visits if each.digest]
    for before, after in pairwise(visits):
        if before.digest and after.digest and after.time_s > before.time_s:
            yield Duration("interval", before.digest != after.digest, after.time_s - before.time_s)
    runs = list(_runs(visits))
    yield from (Duration("content", is_end, length_s) for is_end, length_s in runs if is_end or length_s)
    if runs[0][0] or runs[0][1]:
        yield Duration("page", *runs[0])
    last = max(at for at, each in enumerate(visits) if each.digest)
    is_gone = last + 1 < len(visits)
    end_s = (visits[last].time_s + visits[last + 1].time_s) / 2 if is_gone else visits[last].time_s
    if is_gone or end_s > seen[0].time_s:
        yield Duration("url", is_gone, end_s - seen[0].time_s)
    yield from _modified(seen)


def _runs(visits: Sequence[PageVisit]) -> Iterator[tuple[bool, float]]:
    """Of each version of the content: whether its end was seen, and how long it was there."""
    begin: PageVisit | None = None
    last: PageVisit | None = None
    for each in visits:
        if begin is not None and last is not None and each.digest != begin.digest:
            yield True, (last.time_s + each.time_s) / 2 - begin.time_s
            begin = None
        if each.digest:
            begin, last = begin or each, each
    if begin is not None and last is not None:
        yield False, last.time_s - begin.time_s


def _modified(seen: Sequence[PageVisit]) -> Iterator[Duration]:
    """The last change before each visit is the end of a time without change; else there was none since the last one."""
    before: PageVisit | None = None
    for each in seen:
        if each.modified_s >= 0:
            if before is None or each.modified_s > before.time_s:
                yield Duration("modified", True, max(0, each.time_s - each.modified_s))
            else:
                yield Duration("modified", False, each.time_s - before.time_s)
        before = each


def strata_of(first: Observation) -> Iterator[tuple[str, str]]:
    """Kind and value of each stratum that a URL belongs to, by its first capture with a content."""
    path = first.capture.urlkey.partition(")/")[2].partition("?")[0].strip("/")
    depth = path.count("/") + 1 if path else 0
    octave = max(10, (first.size.bit_length() - 1) // 2 * 2) if first.size else 10
    yield "all", "all"
    yield "category", kind_of_site(first.host)
    yield "tld", first.host.rpartition(".")[2] if public_suffix(first.host) else "none"
    yield "type", first.type
    yield "depth", str(depth) if depth < _DEPTH_MAX else f"{_DEPTH_MAX} and more"
    yield "size", f"from {1 << octave - 10:,} KiB" if octave > 10 else "under 4 KiB"
    yield "site", site_of(first.host)


# -- what the counts say -----------------------------------------------------------------------------------------------

_ESTIMATES = ("half_life", "half_life_exponential", "change_interval", "modified_interval", "content_life", "url_life")
_STRATA = (
    *(("kind", str), ("value", str), ("urls", int), ("captures", int), ("intervals", int), ("changes", int)),
    *((f"{name}{part}", float) for name in _ESTIMATES for part in ("_days", "_low", "_high")),
    ("gone", int),
)
_SURVIVAL = (
    *(("kind", str), ("value", str), ("what", str)),
    *((name, float) for name in ("days", "survival", "low", "high", "exponential")),
)


def _schema(columns: Iterable[tuple[str, type]]) -> Any:
    import pyarrow

    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    return pyarrow.schema([(name, kinds[kind]) for name, kind in columns])


@dataclass(frozen=True, slots=True)
class Stratum:
    """The counts of some URLs."""

    kind: str
    value: str
    counts: dict[tuple[str, bool], Bins]

    def bins(self, what: str, is_end: bool) -> Bins:
        return self.counts.get((what, is_end), {})

    def number(self, what: str, is_end: bool) -> int:
        return sum(each.number for each in self.bins(what, is_end).values())

    def row(self) -> dict[str, Any]:
        """The row of the table `strata`; times in days."""
        estimates = {
            "half_life": median_of(kaplan_meier(self.bins("page", True), self.bins("page", False))),
            "half_life_exponential": self._rate("page").inverse().times(math.log(2)),
            "change_interval": change_rate(self.bins("interval", True), self.bins("interval", False)).inverse(),
            "modified_interval": self._modified().inverse(),
            "content_life": median_of(kaplan_meier(self.bins("content", True), self.bins("content", False))),
            "url_life": median_of(kaplan_meier(self.bins("url", True), self.bins("url", False))),
        }
        found: dict[str, Any] = {
            "kind": self.kind,
            "value": self.value,
            "urls": self.number("urls", True),
            "captures": self.number("captures", True),
            "intervals": self.number("interval", True) + self.number("interval", False),
            "changes": self.number("interval", True),
            "gone": self.number("url", True),
        }
        for name, estimate in estimates.items():
            in_days = estimate.times(1 / _DAY_S)
            found |= {f"{name}_days": in_days.value, f"{name}_low": in_days.low, f"{name}_high": in_days.high}
        return found

    def curves(self) -> Iterator[dict[str, Any]]:
        """Rows of the table `survival`."""
        for what in ("page", "content", "url"):
            rate = self._rate(what).value or 0.0
            for point in kaplan_meier(self.bins(what, True), self.bins(what, False)):
                yield {
                    "kind": self.kind,
                    "value": self.value,
                    "what": what,
                    "days": point.seconds / _DAY_S,
                    "survival": point.share,
                    "low": point.low,
                    "high": point.high,
                    "exponential": math.exp(-rate * point.seconds),
                }

    def _rate(self, what: str) -> Estimate:
        return exponential_rate(self.bins(what, True), self.bins(what, False))

    def _modified(self) -> Estimate:
        bins = [*self.bins("modified", True).values(), *self.bins("modified", False).values()]
        return rate_of(self.number("modified", True), sum(each.seconds for each in bins))


_LARGEST = f"""
    SELECT kind, value FROM
        (SELECT kind, value, row_number() OVER (PARTITION BY kind ORDER BY sum(number) DESC, value) AS place
         FROM counts WHERE what = 'captures' GROUP BY kind, value)
    WHERE place <= {SITES_MAX}
"""


def _strata(database: StudyDatabase) -> Iterator[Stratum]:
    """By kind, then the largest first."""
    query = f"""
        SELECT kind, value, what, is_end, bin, sum(number)::BIGINT AS number, sum(seconds) AS seconds
        FROM counts SEMI JOIN ({_LARGEST}) USING (kind, value) GROUP BY ALL
    """
    found: dict[tuple[str, str], dict[tuple[str, bool], dict[int, Count]]] = {}
    for batch in database.batches(query):
        for row in batch.to_pylist():
            stratum = found.setdefault((row["kind"], row["value"]), {})
            bins = stratum.setdefault((row["what"], row["is_end"]), {})
            bins[row["bin"]] = Count(row["number"], row["seconds"])
    strata = [Stratum(kind, value, dict(counts)) for (kind, value), counts in found.items()]
    return iter(sorted(strata, key=lambda each: (KINDS.index(each.kind), -each.number("captures", True), each.value)))


def _panels(result: StudyResult) -> list[Panel]:
    panels = []
    rows = [row for row in result.rows("survival") if (row["kind"], row["what"]) == ("all", "page")]
    if rows:
        begin = {"days": 0.0} | dict.fromkeys(("survival", "low", "high", "exponential"), 1.0)
        rows = [begin, *rows]
        unit, places = in_time_unit([row["days"] for row in rows])
        measured = Series(
            "measured (Kaplan-Meier, 95 %)",
            [100 * row["survival"] for row in rows],
            places,
            [100 * row["low"] for row in rows],
            [100 * row["high"] for row in rows],
            is_stepped=True,
        )
        fit = Series("exponential fit", [100 * row["exponential"] for row in rows], places)
        title = "Pages not changed since they were first captured"
        panels.append(Panel(title, unit, "pages (%)", [measured, fit], y_max=100))
    for kind, title in (("category", "kind of site"), ("tld", "top-level domain"), ("type", "type")):
        known = [row for row in result.rows() if row["kind"] == kind and row["change_interval_days"] is not None][:12]
        if known:
            parts = [row[f"change_interval_{part}"] or 0.0 for part in ("days", "low", "high") for row in known]
            unit, times = in_time_unit(parts)
            values, low, high = (times[at : at + len(known)] for at in range(0, len(times), len(known)))
            names = [row["value"] for row in known]
            series = Series(unit, values, low=low, high=high)
            panels.append(Panel(f"Interval of change by {title}", title, f"{unit} between changes", [series], names))
    return panels


@checked
def change(
    archive: Archive | ClusterArchive | Sequence[Archive],
    *,
    collection: str | None = None,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Half-lives and intervals of change, of one archive, of several as one, or of a cluster.

    Raises UnknownCollection.
    """
    return run_study(ChangeStudy(), archive, collection, permits, progress)
