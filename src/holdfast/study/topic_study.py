"""Topics over time (I6): how strongly they are present, when they burst, who mentions them, and in which pages.

A topic is a query. What counts are captures of documents with text that were answered with 2xx and are indexed, or
those that the query `within` finds. Of them, by period and kind of site:

    captures    those that match the topic
    pages       URLs with such a capture
    sites       registered domains with such a page

A partial result has these counts, the sites of each topic, and some matching captures of each day. All captures of a
site are on one node, so counts of pages and sites add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.catalog.query.search import Permits
from holdfast.errors import UsageError
from holdfast.query.language.parser import parse
from holdfast.study.chart import Mark, Panel, Series
from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.engine.matches import QueryMatches
from holdfast.study.engine.periods import AUTO, PeriodUnit, best_unit, first_day, last_day, periods_of
from holdfast.study.engine.run import ClusterArchive, run_study
from holdfast.study.engine.scan import Observation, Progress, StudySource
from holdfast.study.engine.sites import kind_of_site, site_of
from holdfast.study.result import StudyResult
from holdfast.study.statistics.bursts import PERIODS_MIN, find_bursts

TOPICS_MAX = 6
SITES_MAX = 1000  # of each topic
PAGES_MAX = 20  # of each period of a burst, one of each site
_TEXTS = frozenset(("html", "plain", "text", "pdf", "office", "feed"))
_ALL = -1  # the number of what is not of a topic: everything
_WHOLE = "all"  # the period of all captures
_UNITS = tuple(PeriodUnit)
_CHUNK = 4096
_STRENGTH = (
    *(("site", "VARCHAR"), ("kind", "VARCHAR"), ("unit", "VARCHAR"), ("period", "VARCHAR"), ("topic", "INTEGER")),
    *(("captures", "BIGINT"), ("pages", "BIGINT"), ("first", "VARCHAR"), ("last", "VARCHAR")),
)
_HITS = (
    *(("topic", "INTEGER"), ("day", "VARCHAR"), ("site", "VARCHAR")),
    *(("url", "VARCHAR"), ("timestamp", "VARCHAR"), ("collection", "VARCHAR")),
)


@dataclass(frozen=True, slots=True)
class TopicStudy:
    """`topics` and `within` are queries; `unit` is that of periods, or `auto`."""

    topics: tuple[str, ...]
    unit: str = AUTO
    within: str = ""

    @property
    def queries(self) -> list[str]:
        """The topics, then `within`, if there is one."""
        return [*self.topics, *([self.within] if self.within else [])]

    def __post_init__(self) -> None:
        if not 1 <= len(self.topics) <= TOPICS_MAX:
            raise UsageError(f"{len(self.topics)} topics: give 1 to {TOPICS_MAX}")
        if not all(topic.strip() for topic in self.topics):
            raise UsageError("a topic is empty: give a query, such as 'harbour tides'")
        if len(set(self.topics)) < len(self.topics):
            raise UsageError("a topic is given twice")
        PeriodUnit.parse(self.unit)
        for query in (*self.topics, self.within):
            parse(query)

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        """Partial result: `strength`, `sites`, `hits` and `left_out`. Raises IndexNotFound."""
        gatherer = _Gatherer(self, source, database)
        gatherer.run()
        sums = "sum(captures)::BIGINT AS captures, sum(pages)::BIGINT AS pages"
        database.write(
            f"SELECT unit, period, kind, topic, {sums}, count(DISTINCT site) AS sites FROM strength GROUP BY ALL",
            directory / "strength.parquet",
        )
        database.write(
            f"SELECT topic, site, kind, {sums}, min(first) AS first, max(last) AS last FROM strength "
            f"WHERE period = '{_WHOLE}' AND topic != {_ALL} GROUP BY topic, site, kind",
            directory / "sites.parquet",
        )
        database.write(
            "SELECT topic, day, url, timestamp, collection FROM (SELECT *, row_number() OVER "
            "(PARTITION BY topic, day ORDER BY timestamp, url) AS place FROM (SELECT *, row_number() OVER "
            "(PARTITION BY topic, day, site ORDER BY timestamp, url, collection) AS of_site FROM hits) "
            f"WHERE of_site = 1) WHERE place <= {PAGES_MAX}",
            directory / "hits.parquet",
        )
        database.write(
            f"SELECT {gatherer.pending}::BIGINT AS pending, {gatherer.undated}::BIGINT AS undated",
            directory / "left_out.parquet",
        )

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """Tables `topics`, `strength`, `bursts`, `kinds`, `sites` and `pages`."""
        for name in ("strength", "sites", "hits", "left_out"):
            database.read(name, [each / f"{name}.parquet" for each in partials])
        finisher = _Finisher(self, database)
        return finisher.result()


class _Gatherer:
    """Reads the captures of one archive, in the order of their URL keys, and counts them site by site."""

    def __init__(self, study: TopicStudy, source: StudySource, database: StudyDatabase) -> None:
        self._source = source
        self._topics = range(len(study.topics))
        self._has_within = bool(study.within)
        self._places = [(_UNITS.index(unit), unit.value) for unit in PeriodUnit.parse(study.unit)]
        self._matches = QueryMatches(source, study.queries)
        self._strength = RowBuffer(database, "strength", _STRENGTH)
        self._hits = RowBuffer(database, "hits", _HITS)
        self._counts: dict[tuple[str, str, int], list[Any]] = {}  # unit, period, topic: captures, pages, first, last
        self._seen: set[tuple[str, str, int]] = set()  # of the present URL
        self._site, self._kind, self._urlkey = "", "", ""
        self.pending = 0
        self.undated = 0

    def run(self) -> None:
        observations = self._source.observations()
        while some := list(islice(observations, _CHUNK)):
            numbers = self._matches.numbers(each.capture.record for each in some)
            is_matched = [self._matches.flags(topic, numbers) for topic in self._topics]
            is_within = self._matches.flags(len(self._topics), numbers) if self._has_within else numbers >= 0
            for at, each in enumerate(some):
                if self._counts_for(each, int(numbers[at]), bool(is_within[at])):
                    self._add(each, [topic for topic in self._topics if is_matched[topic][at]])
        self._end_site()
        self._strength.flush()
        self._hits.flush()

    def _counts_for(self, each: Observation, number: int, is_within: bool) -> bool:
        if not each.digest or not (each.status == 0 or 200 <= each.status < 300):
            return False
        if not self._has_within and each.type not in _TEXTS:
            return False
        if not number:
            self.pending += 1
        elif is_within and each.time_s < 0:
            self.undated += 1
        return bool(number) and is_within and each.time_s >= 0

    def _add(self, each: Observation, topics: list[int]) -> None:
        capture = each.capture
        if capture.urlkey != self._urlkey:
            self._urlkey = capture.urlkey
            self._seen.clear()
            site = site_of(each.host)
            if site != self._site:
                self._end_site()
                self._site, self._kind = site, kind_of_site(each.host)
        day = capture.timestamp[:8]
        periods = periods_of(day)
        for topic in (_ALL, *topics):
            for unit, period in (("", _WHOLE), *((name, periods[at]) for at, name in self._places)):
                key = unit, period, topic
                count = self._counts.get(key)
                if count is None:
                    count = self._counts[key] = [0, 0, capture.timestamp, capture.timestamp]
                count[0] += 1
                if key not in self._seen:
                    self._seen.add(key)
                    count[1] += 1
                count[2] = min(count[2], capture.timestamp)
                count[3] = max(count[3], capture.timestamp)
        for topic in topics:
            url = capture.url.encode("utf-8", "replace").decode()
            self._hits.add((topic, periods[0], self._site, url, capture.timestamp, capture.collection))

    def _end_site(self) -> None:
        for (unit, period, topic), count in self._counts.items():
            self._strength.add((self._site, self._kind, unit, period, topic, *count))
        self._counts.clear()


# -- what the counts say -----------------------------------------------------------------------------------------------

_SHARES = (
    *(("captures", "int64"), ("share", "float64"), ("pages", "int64"), ("pages_share", "float64")),
    *(("sites", "int64"), ("sites_share", "float64")),
)
_SCHEMAS: dict[str, tuple[tuple[str, str], ...]] = {
    "topics": (
        *(("topic", "string"), *_SHARES, ("take_off", "string"), ("peak", "string"), ("peak_share", "float64")),
        ("bursts", "int64"),
    ),
    "strength": (
        *(("topic", "string"), ("kind", "string"), ("period", "string"), *_SHARES, ("is_burst", "bool")),
        *(("all_captures", "int64"), ("all_pages", "int64"), ("all_sites", "int64")),
    ),
    "bursts": (
        *(("topic", "string"), ("begin", "string"), ("end", "string"), ("peak", "string"), ("peak_share", "float64")),
        *(("quiet_share", "float64"), ("captures", "int64"), ("weight", "float64")),
    ),
    "kinds": (("topic", "string"), ("kind", "string"), *_SHARES),
    "sites": (
        *(("topic", "string"), ("site", "string"), ("kind", "string"), ("captures", "int64"), ("pages", "int64")),
        *(("first", "string"), ("last", "string")),
    ),
    "pages": (
        *(("topic", "string"), ("period", "string"), ("url", "string"), ("timestamp", "string")),
        ("collection", "string"),
    ),
}
_WHAT = ("captures", "pages", "sites")
Counts = dict[str, int]


class _Finisher:
    """Makes tables of merged partial results."""

    def __init__(self, study: TopicStudy, database: StudyDatabase) -> None:
        self._study = study
        self._database = database
        self._unit = self._chosen_unit()
        self._overall = self._read("period = 'all'")
        self._by_period = self._read(f"unit = '{self._unit}'")

    def result(self) -> StudyResult:
        import pyarrow

        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _SCHEMAS}
        total = self._overall.get((_WHOLE, _WHOLE, _ALL), {})
        for number in range(len(self._study.topics)) if total else ():
            self._add_topic(rows, number, total)
        tables = {
            name: pyarrow.Table.from_pylist(rows[name], pyarrow.schema(columns)) for name, columns in _SCHEMAS.items()
        }
        notes = self._notes(rows)
        panels = _panels(self._study.topics, rows, self._unit) if any(row["captures"] for row in rows["topics"]) else ()
        return StudyResult("topic", tables, notes, panels)

    def _chosen_unit(self) -> PeriodUnit:
        units = PeriodUnit.parse(self._study.unit)
        if len(units) == 1:
            return units[0]
        periods: dict[PeriodUnit, list[str]] = {unit: [] for unit in units}
        for row in self._database.rows("SELECT DISTINCT unit, period FROM strength WHERE period != 'all'").to_pylist():
            periods[PeriodUnit(row["unit"])].append(row["period"])
        return best_unit(periods)

    def _read(self, where: str) -> dict[tuple[str, str, int], Counts]:
        """Counts by kind, period and topic; kind `all` is the sum of all kinds."""
        sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in _WHAT)
        query = (
            f"SELECT coalesce(kind, 'all') AS kind, period, topic, {sums} FROM strength WHERE {where} "
            "GROUP BY GROUPING SETS ((kind, period, topic), (period, topic))"
        )
        return {
            (row["kind"], row["period"], row["topic"]): {name: row[name] for name in _WHAT}
            for row in self._database.rows(query).to_pylist()
        }

    def _add_topic(self, rows: dict[str, list[dict[str, Any]]], number: int, total: Counts) -> None:
        topic = self._study.topics[number]
        kinds = sorted({kind for kind, _, _ in self._overall} - {_WHOLE})
        for kind in kinds:
            everything = self._overall[kind, _WHOLE, _ALL]
            counts = self._overall.get((kind, _WHOLE, number), {})
            rows["kinds"].append({"topic": topic, "kind": kind, **_shares(counts, everything)})
        bursts = self._add_bursts(rows, number)
        for kind in (_WHOLE, *kinds):
            for period in self._periods(kind):
                everything = self._by_period[kind, period, _ALL]
                shares = _shares(self._by_period.get((kind, period, number), {}), everything)
                totals = {f"all_{name}": everything[name] for name in _WHAT}
                is_burst = any(row["begin"] <= period <= row["end"] for row in bursts)
                rows["strength"].append({"topic": topic, "kind": kind, "period": period, **shares, **totals})
                rows["strength"][-1]["is_burst"] = is_burst
        strongest = max(
            (row for row in rows["strength"] if row["topic"] == topic and row["kind"] == _WHOLE and row["captures"]),
            key=lambda row: row["share"],
            default=None,
        )
        begun = [row for row in bursts if row["begin"] > min(self._periods(_WHOLE))]  # with something before them
        heaviest = max(begun, key=lambda row: row["weight"], default=None)
        rows["topics"].append(
            {
                "topic": topic,
                **_shares(self._overall.get((_WHOLE, _WHOLE, number), {}), total),
                "take_off": heaviest["begin"] if heaviest else None,
                "peak": strongest["period"] if strongest else None,
                "peak_share": strongest["share"] if strongest else None,
                "bursts": len(bursts),
            }
        )
        self._add_sites(rows, number)

    def _periods(self, kind: str) -> list[str]:
        return sorted(period for of, period, topic in self._by_period if (of, topic) == (kind, _ALL))

    def _add_bursts(self, rows: dict[str, list[dict[str, Any]]], number: int) -> list[dict[str, Any]]:
        """The bursts of a topic, and the pages behind them."""
        topic = self._study.topics[number]
        periods = self._periods(_WHOLE)
        matched = [self._by_period.get((_WHOLE, each, number), {}).get("captures", 0) for each in periods]
        totals = [self._by_period[_WHOLE, each, _ALL]["captures"] for each in periods]
        found = find_bursts(matched, totals)
        bursts: list[dict[str, Any]] = [
            {
                "topic": topic,
                "begin": periods[each.first],
                "end": periods[each.last],
                "peak": periods[each.peak],
                "peak_share": matched[each.peak] / totals[each.peak],
                "quiet_share": found.quiet_share,
                "captures": sum(matched[each.first : each.last + 1]),
                "weight": each.weight,
            }
            for each in found.bursts
        ]
        rows["bursts"] += bursts
        for burst in bursts:
            rows["pages"] += self._pages(number, burst["peak"])
        return bursts

    def _pages(self, number: int, period: str) -> Iterator[dict[str, Any]]:
        """The first captures of a period that match, one of each site as far as that is known."""
        begin, end = first_day(period).isoformat(), last_day(period).isoformat()
        query = (
            f"SELECT url, timestamp, collection FROM hits WHERE topic = {number} AND day BETWEEN '{begin}' AND '{end}' "
            f"ORDER BY timestamp, url, collection LIMIT {PAGES_MAX}"
        )
        for row in self._database.rows(query).to_pylist():
            yield {"topic": self._study.topics[number], "period": period, **row}

    def _add_sites(self, rows: dict[str, list[dict[str, Any]]], number: int) -> None:
        query = (
            "SELECT site, kind, sum(captures)::BIGINT AS captures, sum(pages)::BIGINT AS pages, min(first) AS first, "
            f"max(last) AS last FROM sites WHERE topic = {number} GROUP BY site, kind "
            f"ORDER BY pages DESC, captures DESC, site LIMIT {SITES_MAX}"
        )
        topic = self._study.topics[number]
        rows["sites"] += [{"topic": topic, **row} for row in self._database.rows(query).to_pylist()]

    def _notes(self, rows: dict[str, list[dict[str, Any]]]) -> list[str]:
        notes = []
        pending, undated = (
            self._database.value(f"SELECT coalesce(sum({name}), 0) FROM left_out") for name in ("pending", "undated")
        )
        if not rows["topics"]:
            notes.append("there are no indexed captures of documents with text to study")
        notes += [f"no capture mentions '{row['topic']}'" for row in rows["topics"] if not row["captures"]]
        periods = len(self._periods(_WHOLE))
        if rows["topics"] and periods < PERIODS_MIN:
            notes.append(f"bursts need {PERIODS_MIN} {self._unit}s with captures; the archive has {periods}")
        if undated:
            notes.append(f"captures without a date, left out: {undated:,}")
        if pending:
            notes.append(f"captures not indexed yet, left out: {pending:,}; run 'holdfast index update'")
        return notes


def _shares(counts: Counts, total: Counts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _WHAT:
        count = counts.get(name, 0)
        found |= {name: count, "share" if name == "captures" else f"{name}_share": count / total[name]}
    return found


def _panels(topics: Sequence[str], rows: dict[str, list[dict[str, Any]]], unit: PeriodUnit) -> list[Panel]:
    panels = []
    for column, what in (("share", "captures"), ("sites_share", "sites")):
        series = []
        for topic in topics:
            own = [row for row in rows["strength"] if row["topic"] == topic and row["kind"] == _WHOLE]
            places = [_place(row["period"]) for row in own]
            series.append(Series(topic, [100 * row[column] for row in own], places))
        half = unit.days / 2
        marks = [
            Mark(_place(row["begin"]) - half, _place(row["end"]) + half, topics.index(row["topic"]))
            for row in rows["bursts"]
        ]
        title = "Strength of the topic" if len(topics) == 1 else "Strength of topics"
        panels.append(Panel(f"{title}, in {what}", unit.value, f"{what} (%)", series, is_dates=True, marks=marks))
    kinds = sorted({row["kind"] for row in rows["kinds"]})
    bars = []
    for topic in topics:
        shares = {row["kind"]: 100 * row["sites_share"] for row in rows["kinds"] if row["topic"] == topic}
        bars.append(Series(topic, [shares[kind] for kind in kinds]))
    panels.append(Panel("Sites that mention it, by kind of site", "kind of site", "sites (%)", bars, kinds))
    return panels


def _place(period: str) -> float:
    """Days since 1970."""
    return float(first_day(period).toordinal() - 719_163)


@checked
def topic(
    archive: Archive | ClusterArchive | Sequence[Archive],
    topics: str | Sequence[str],
    *,
    unit: str = AUTO,
    within: str = "",
    collection: str | None = None,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """How strongly a topic, or up to six, are present over time; by 'day', 'week', 'month', 'year' or 'auto'.

    A topic is a query; `within` is a query for what counts. Raises IndexNotFound, MalformedQuery, UnknownName,
    UsageError or UnknownCollection.
    """
    study = TopicStudy((topics,) if isinstance(topics, str) else tuple(topics), unit, within)
    return run_study(study, archive, collection, permits, progress)
