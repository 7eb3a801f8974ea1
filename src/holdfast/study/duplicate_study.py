"""Duplicates and persistence (W16): Table 1 of Gomes, Santos and Silva, 'Managing duplicates in a web archive'.

A document is a capture with a payload. Of all captures with one content, the first is the original and the others are
duplicates. For each group, in the order of their first captures:

    within      documents that repeat an earlier one of the same group
    previous    documents whose content is in the group before
    earlier     documents whose content is in any group before
    urls        URLs of the group that are in the group before, or in any

A partial result holds a row for each content of a host in a group, and counts of URLs by the set of groups that have
them: all captures of a URL are on one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.catalog.query.search import Permits
from holdfast.study.chart import Panel, Series
from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.engine.run import ClusterArchive, run_study
from holdfast.study.engine.scan import NO_CRAWL, GroupBy, Observation, Progress, StudySource, group_function
from holdfast.study.engine.tally import power_name
from holdfast.study.result import StudyResult

if TYPE_CHECKING:
    import pyarrow

HOSTS_MAX = 1000
PAIRS_GROUPS_MAX = 120  # the newest groups that are compared with each other, one bit each
_URL_SETS_MAX = 50_000  # in memory
_CAPTURES = (
    ("grp", "VARCHAR"),
    ("digest", "VARCHAR"),
    ("host", "VARCHAR"),
    ("type", "VARCHAR"),
    ("size", "BIGINT"),
    ("time", "VARCHAR"),
    ("block", "VARCHAR"),
    ("is_inline", "BOOLEAN"),
)


@dataclass(frozen=True, slots=True)
class DuplicateStudy:
    """`successful`: only responses with a status of 2xx, or without a status."""

    by: GroupBy = GroupBy.BATCH
    successful: bool = False

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        """Partial result: `groups`, `contents`, `urls`, `sizes` and `kept`."""
        _Gatherer(self, source, database).run()
        database.write(
            "SELECT grp, digest, host, type, count(*) AS captures, max(size) AS size, min(time) AS first "
            "FROM captures GROUP BY ALL",
            directory / "contents.parquet",
        )
        database.write(
            "SELECT grp, CASE WHEN size > 0 THEN floor(log2(size))::INT ELSE -1 END AS bin, count(*) AS documents, "
            "sum(size)::BIGINT AS bytes FROM captures GROUP BY ALL",
            directory / "sizes.parquet",
        )
        database.write(
            "SELECT count(*) AS documents, coalesce(sum(size), 0)::BIGINT AS bytes, "
            "coalesce(sum(size) FILTER (is_inline), 0)::BIGINT + coalesce((SELECT sum(size) FROM "
            "(SELECT max(size) AS size FROM captures WHERE block IS NOT NULL GROUP BY block)), 0)::BIGINT "
            "AS kept_bytes FROM captures",
            directory / "kept.parquet",
        )
        sums = "sum(captures)::BIGINT AS captures, sum(undated)::BIGINT AS undated, min(first) AS first"
        database.write(f"SELECT grp, {sums} FROM groups GROUP BY grp", directory / "groups.parquet")
        database.write(
            "SELECT groups, sum(urls)::BIGINT AS urls FROM url_sets GROUP BY groups", directory / "urls.parquet"
        )

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """Tables `groups`, `pairs`, `types`, `hosts`, `sizes`, `saved` and `paper`."""
        for name in ("groups", "contents", "urls", "sizes", "kept"):
            database.read(name, [each / f"{name}.parquet" for each in partials])
        database.execute(_ORDERED, [NO_CRAWL])
        database.execute(_HELD)
        database.execute(_URL_PLACES)
        tables = {
            "groups": database.rows(_GROUPS),
            "pairs": database.rows(_pairs(database.value("SELECT count(*) FROM ordered"))),
            "types": database.rows(_shares("type")),
            "hosts": database.rows(_shares("host")),
            "sizes": database.rows(_SIZES),
            "saved": database.rows(_SAVED),
        }
        tables["paper"] = _beside_the_paper(tables["groups"])
        notes = self._notes(database, len(tables["groups"]))
        result = StudyResult("duplicates", tables, notes)
        return StudyResult("duplicates", tables, notes, _panels(result, self.by) if result.rows() else ())

    def _notes(self, database: StudyDatabase, groups: int) -> list[str]:
        notes = []
        outside = database.value(f"SELECT coalesce(sum(captures), 0) FROM groups WHERE grp = '{NO_CRAWL}'")
        undated = database.value("SELECT coalesce(sum(undated), 0) FROM groups")
        if outside:
            notes.append(f"captures that come from no crawl of this archive, left out: {outside:,}")
        if undated:
            notes.append(f"captures without a date: {undated:,}; they count, but do not say when a {self.by} began")
        if not groups:
            notes.append("there are no captures to study")
        elif groups == 1:
            notes.append(f"there is only one {self.by}: nothing to compare it with")
        return notes


class _Gatherer:
    """Reads the captures of one archive into tables."""

    def __init__(self, study: DuplicateStudy, source: StudySource, database: StudyDatabase) -> None:
        self._study = study
        self._source = source
        self._group_of = group_function(source, study.by)
        self._captures = RowBuffer(database, "captures", _CAPTURES)
        self._url_rows = RowBuffer(database, "url_sets", (("groups", "VARCHAR"), ("urls", "BIGINT")))
        columns = (("grp", "VARCHAR"), ("captures", "BIGINT"), ("undated", "BIGINT"), ("first", "VARCHAR"))
        self._group_rows = RowBuffer(database, "groups", columns)
        self._url_sets: Counter[str] = Counter()
        self._totals: dict[str, list[int]] = {}  # captures and undated ones
        self._first: dict[str, str] = {}

    def run(self) -> None:
        urlkey, held = "", set[str]()
        for each in self._source.observations():
            if self._study.successful and not (each.status == 0 or 200 <= each.status < 300):
                continue
            group = self._group_of(each.capture)
            self._count(each, group)
            if group == NO_CRAWL:
                continue
            if each.capture.urlkey != urlkey:
                self._end_url(held)
                urlkey, held = each.capture.urlkey, set()
            held.add(group)
            if each.digest:
                self._captures.add(_row(each, group))
        self._end_url(held)
        self._flush_url_sets()
        for group, (captures, undated) in self._totals.items():
            self._group_rows.add((group, captures, undated, self._first.get(group, "")))
        for buffer in (self._captures, self._url_rows, self._group_rows):
            buffer.flush()

    def _count(self, each: Observation, group: str) -> None:
        total = self._totals.setdefault(group, [0, 0])
        total[0] += 1
        if each.time_s < 0:
            total[1] += 1
        else:
            self._first[group] = min(self._first.get(group, "9"), each.capture.timestamp)

    def _end_url(self, held: set[str]) -> None:
        if held:
            self._url_sets["\t".join(sorted(held))] += 1
            if len(self._url_sets) >= _URL_SETS_MAX:
                self._flush_url_sets()

    def _flush_url_sets(self) -> None:
        for row in self._url_sets.items():
            self._url_rows.add(row)
        self._url_sets.clear()


def _row(each: Observation, group: str) -> tuple[object, ...]:
    capture = each.capture
    block = None if capture.contents == "-" or capture.type == "revisit" else capture.contents
    host = each.host.encode("utf-8", "replace").decode()
    return group, each.digest, host, each.type, each.size, capture.timestamp, block, capture.is_inline


_ORDERED = """
    CREATE TABLE ordered AS
    SELECT grp, min(nullif(first, '')) AS first, sum(captures)::BIGINT AS captures,
           row_number() OVER (ORDER BY min(nullif(first, '')) NULLS LAST, grp) - 1 AS pos
    FROM groups WHERE grp != ? GROUP BY grp
"""
_HELD = """
    CREATE TABLE held AS
    SELECT pos, digest, captures, max(size) OVER (PARTITION BY digest) AS size,
           lag(pos) OVER (PARTITION BY digest ORDER BY pos) AS before
    FROM (SELECT pos, digest, sum(contents.captures)::BIGINT AS captures, max(size) AS size
          FROM contents JOIN ordered USING (grp) GROUP BY pos, digest)
"""
_URL_PLACES = """
    CREATE TABLE url_places AS
    SELECT id, urls, pos, lag(pos) OVER (PARTITION BY id ORDER BY pos) AS before
    FROM (SELECT id, urls, unnest(string_split(groups, chr(9))) AS grp
          FROM (SELECT row_number() OVER () AS id, groups, sum(urls)::BIGINT AS urls FROM urls GROUP BY groups))
    JOIN ordered USING (grp)
"""
_GROUPS = """
    SELECT grp AS "group", first AS date, ordered.captures, coalesce(url.urls, 0) AS urls,
           coalesce(documents, 0) AS documents, coalesce(contents, 0) AS contents,
           (documents - contents) / documents AS within,
           CASE WHEN pos > 0 THEN coalesce(previous, 0) / documents END AS previous,
           CASE WHEN pos > 0 THEN coalesce(earlier, 0) / documents END AS earlier,
           CASE WHEN pos > 0 THEN coalesce(url.previous_urls, 0) / url.urls END AS urls_previous,
           CASE WHEN pos > 0 THEN coalesce(url.earlier_urls, 0) / url.urls END AS urls_earlier,
           coalesce(bytes, 0) AS bytes, coalesce(unique_bytes, 0) AS unique_bytes, coalesce(new_bytes, 0) AS new_bytes
    FROM ordered
    LEFT JOIN (
        SELECT pos, sum(captures)::BIGINT AS documents, count(*) AS contents,
               sum(captures) FILTER (before = pos - 1) AS previous,
               sum(captures) FILTER (before IS NOT NULL) AS earlier,
               sum(captures * size)::BIGINT AS bytes, sum(size)::BIGINT AS unique_bytes,
               sum(size) FILTER (before IS NULL)::BIGINT AS new_bytes
        FROM held GROUP BY pos) USING (pos)
    LEFT JOIN (
        SELECT pos, sum(urls)::BIGINT AS urls, sum(urls) FILTER (before = pos - 1) AS previous_urls,
               sum(urls) FILTER (before IS NOT NULL) AS earlier_urls
        FROM url_places GROUP BY pos) AS url USING (pos)
    ORDER BY pos
"""
_SIZES = """
    SELECT grp AS "group", CASE WHEN bin < 0 THEN 0 ELSE 1::BIGINT << bin END AS from_bytes,
           CASE WHEN bin < 0 THEN 1 ELSE 1::BIGINT << (bin + 1) END AS to_bytes,
           sum(documents)::BIGINT AS documents, sum(bytes)::BIGINT AS bytes,
           sum(documents) / sum(sum(documents)) OVER (PARTITION BY grp)::BIGINT AS share
    FROM sizes JOIN ordered USING (grp) GROUP BY grp, pos, bin ORDER BY pos, bin
"""
_SAVED = """
    SELECT documents, contents, bytes, unique_bytes, kept_bytes, bytes - kept_bytes AS saved_bytes,
           CASE WHEN bytes > 0 THEN (bytes - kept_bytes) / bytes END AS saved
    FROM (SELECT coalesce(sum(documents), 0)::BIGINT AS documents, coalesce(sum(bytes), 0)::BIGINT AS bytes,
                 coalesce(sum(kept_bytes), 0)::BIGINT AS kept_bytes FROM kept),
         (SELECT count(*) AS contents, coalesce(sum(size), 0)::BIGINT AS unique_bytes FROM held WHERE before IS NULL)
"""


_TABLE_1 = (  # of Gomes, Santos and Silva: date, URLs, and shares within, of the crawl before, of URLs that persist
    ("2002-07", 1_600_000, 0.23, None, None),
    ("2002-10", 1_200_000, 0.214, 0.074, 0.36),
    ("2003-03", 3_500_000, 0.154, 0.096, 0.14),
    ("2003-10", 3_300_000, 0.109, 0.185, 0.27),
    ("2004-06", 4_400_000, 0.067, 0.181, 0.32),
)
_MEASURES = ("urls", "within", "previous", "urls_previous")  # the columns of Table 1 behind the date


def _beside_the_paper(groups: pyarrow.Table) -> pyarrow.Table:
    """Table 1 in its own columns: the groups of the archive by number, each figure beside that of the paper's crawl."""
    import pyarrow

    own = groups.select(["group", "date", *_MEASURES]).to_pylist()
    theirs = ["paper_date", *(f"paper_{name}" for name in _MEASURES)]
    rows = []
    for number in range(max(len(own), len(_TABLE_1)) if own else 0):
        row = {"crawl": str(number + 1), **(own[number] if number < len(own) else {})}
        rows.append(row | (dict(zip(theirs, _TABLE_1[number], strict=True)) if number < len(_TABLE_1) else {}))
    columns = [(name, pyarrow.string()) for name in ("crawl", "group", "date", "paper_date")]
    for name in _MEASURES:
        kind = pyarrow.int64() if name == "urls" else pyarrow.float64()
        columns += [(name, kind), (f"paper_{name}", kind)]
    return pyarrow.Table.from_pylist(rows, pyarrow.schema(columns))


def _shares(column: str) -> str:
    """By type or host: the first capture of a content is its original, wherever it stands."""
    return f"""
        SELECT {column}, sum(captures)::BIGINT AS documents, sum(captures - is_original)::BIGINT AS duplicates,
               sum(captures - is_original) / sum(captures) AS share, sum(captures * size)::BIGINT AS bytes,
               sum((captures - is_original) * size)::BIGINT AS duplicate_bytes
        FROM (SELECT host, type, contents.captures, max(size) OVER (PARTITION BY digest) AS size,
                     (row_number() OVER (PARTITION BY digest ORDER BY contents.first, pos, host, type) = 1)::INT
                     AS is_original
              FROM contents JOIN ordered USING (grp))
        GROUP BY {column} ORDER BY duplicates DESC, documents DESC, {column} LIMIT {HOSTS_MAX}
    """


def _pairs(groups: int) -> str:
    """Every group with every one before it; sets of groups that share a content are counted once, as bits."""
    base = max(0, groups - PAIRS_GROUPS_MAX)
    return f"""
        WITH masks AS (SELECT digest, bit_or(1::HUGEINT << (pos - {base})::INT) AS mask FROM held
                       WHERE pos >= {base} GROUP BY digest),
             sets AS (SELECT mask, pos, sum(held.captures) AS captures FROM held JOIN masks USING (digest)
                      WHERE pos >= {base} GROUP BY mask, pos),
             shared AS (SELECT sets.pos, older.pos AS older, sum(sets.captures)::BIGINT AS documents
                        FROM sets JOIN ordered AS older
                          ON older.pos < sets.pos AND older.pos >= {base}
                         AND (mask >> (older.pos - {base})::INT) & 1 = 1
                        GROUP BY ALL),
             totals AS (SELECT pos, sum(captures)::BIGINT AS documents FROM held GROUP BY pos),
             url_totals AS (SELECT pos, sum(urls)::BIGINT AS urls FROM url_places GROUP BY pos),
             url_shared AS (SELECT a.pos, b.pos AS older, sum(a.urls)::BIGINT AS urls
                            FROM url_places AS a JOIN url_places AS b ON a.id = b.id AND b.pos < a.pos GROUP BY ALL)
        SELECT a.grp AS "group", b.grp AS before, coalesce(shared.documents, 0) AS documents,
               coalesce(shared.documents, 0) / totals.documents AS share, coalesce(url_shared.urls, 0) AS urls,
               coalesce(url_shared.urls, 0) / url_totals.urls AS urls_share
        FROM ordered AS a JOIN ordered AS b ON b.pos < a.pos AND b.pos >= {base}
        LEFT JOIN shared ON shared.pos = a.pos AND shared.older = b.pos
        LEFT JOIN url_shared ON url_shared.pos = a.pos AND url_shared.older = b.pos
        LEFT JOIN totals ON totals.pos = a.pos
        LEFT JOIN url_totals ON url_totals.pos = a.pos
        ORDER BY a.pos, b.pos
    """


def _panels(result: StudyResult, by: GroupBy) -> list[Panel]:
    rows = result.rows()
    names = [row["group"] for row in rows]

    def percent(column: str) -> list[float | None]:
        return [None if row[column] is None else 100 * row[column] for row in rows]

    contents = [Series(f"within the {by}", percent("within"))]
    if len(rows) > 1:
        contents.append(Series(f"of the {by} before", percent("previous")))
        contents.append(Series("of any before", percent("earlier")))
    urls = [Series(f"URLs of the {by} before", percent("urls_previous"))]
    urls.append(Series("of any before", percent("urls_earlier")))
    last = [row for row in result.rows("pairs") if row["group"] == names[-1]]
    before = Series("documents", [100 * (row["share"] or 0) for row in last])
    sizes: Counter[int] = Counter()
    for row in result.rows("sizes"):
        sizes[row["from_bytes"]] += row["documents"]
    total = sum(sizes.values())
    bins = _powers(min(sizes), max(sizes)) if sizes else []
    return [
        Panel("Duplicates", by.value, "documents (%)", contents, names, y_max=100),
        *([Panel("Persistent URLs", by.value, "URLs (%)", urls, names, y_max=100)] if len(rows) > 1 else []),
        *(
            [
                Panel(
                    f"Documents of the last {by} that are in earlier ones",
                    f"earlier {by}",
                    f"documents of '{names[-1]}' (%)",
                    [before],
                    [row["before"] for row in last],
                )
            ]
            if last
            else []
        ),
        *(
            [
                Panel(
                    "Sizes of documents",
                    "bytes, from this to twice as many",
                    "documents (%)",
                    [Series("documents", [100 * sizes[each] / total for each in bins])],
                    [power_name(each) for each in bins],
                )
            ]
            if total
            else []
        ),
    ]


def _powers(least: int, most: int) -> list[int]:
    """All sizes from one bin to another, each twice the one before; 0 is a bin of its own."""
    bins = [0] if least == 0 else []
    bins += [1 << number for number in range(max(least, 1).bit_length() - 1, most.bit_length())]
    return bins


@checked
def duplicates(
    archive: Archive | ClusterArchive | Sequence[Archive],
    *,
    by: str = "batch",
    collection: str | None = None,
    successful: bool = False,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Duplicates and persistent URLs by 'batch', 'collection' or 'crawl'.

    Of one archive, of several as one, or of a cluster. Raises UnknownName or UnknownCollection.
    """
    study = DuplicateStudy(GroupBy.parse(by), successful)
    return run_study(study, archive, collection, permits, progress)
