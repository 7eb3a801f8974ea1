"""Near-duplicates (N11): pages whose main texts are almost the same, by the sketch that the index keeps.

Pages whose sketches differ in at most `distance` of 64 bits are linked, and what is linked is a cluster. As with exact
duplicates, one page of a cluster is the original and the others are near-duplicates. Exact duplicates are
near-duplicates too.

A partial result has a row for each group, sketch and content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.catalog.query.search import Permits
from holdfast.errors import UsageError
from holdfast.index.extract.near_pairs import DISTANCE_MAX, clusters_of
from holdfast.model import Capture, RecordId
from holdfast.study.chart import Panel, Series
from holdfast.study.engine.database import StudyDatabase
from holdfast.study.engine.index_rows import missing_file, shown_rows
from holdfast.study.engine.run import ClusterArchive, run_study
from holdfast.study.engine.scan import NO_CRAWL, GroupBy, Progress, StudySource, group_function
from holdfast.study.result import StudyResult

if TYPE_CHECKING:
    import pyarrow

DISTANCE = 4
CLUSTERS_MAX = 1000
MEMBERS_MAX = 20  # listed of each cluster; of a chosen one, `CHOSEN_MAX`
CHOSEN_MAX = 10_000
_TRIES = 5
_COLUMNS = ["record", "collection", "sketch", "digest", "urlkey", "url", "timestamp", "type", "filename"]
_TEXTS = "grp VARCHAR, sketch UBIGINT, digest VARCHAR, url VARCHAR, timestamp VARCHAR, collection VARCHAR"


@dataclass(frozen=True, slots=True)
class NearDuplicateStudy:
    """`cluster`: list all members of this one, named by its least sketch in 16 hexadecimal digits."""

    by: GroupBy = GroupBy.BATCH
    distance: int = DISTANCE
    cluster: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.distance <= DISTANCE_MAX:
            raise UsageError(f"a distance of {self.distance} bits is out of range: use 0 to {DISTANCE_MAX}")
        if self.cluster and _sketch_of(self.cluster) is None:
            raise UsageError(f"{self.cluster!r} is not a cluster: its name has 16 hexadecimal digits")

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        """Partial result: `texts` and `pending`. Raises IndexNotFound."""
        for left in reversed(range(_TRIES)):
            database.execute(f"CREATE OR REPLACE TABLE texts ({_TEXTS})")
            try:
                for rows in self._rows(source):
                    database.insert("texts", rows)
                break
            except FileNotFoundError as error:  # tables were merged meanwhile
                if not left:
                    raise missing_file(error) from None
        database.write(
            "SELECT grp, sketch, digest, count(*) AS documents, arg_min(url, (timestamp, url)) AS url, "
            "min(timestamp) AS timestamp, arg_min(collection, (timestamp, url)) AS collection FROM texts GROUP BY ALL",
            directory / "texts.parquet",
        )
        pending = source.archive.index.pending()
        database.write(f"SELECT {pending}::BIGINT AS records", directory / "pending.parquet")

    def _rows(self, source: StudySource) -> Iterator[pyarrow.Table]:
        """Of each indexed capture with a sketch: its group, sketch, digest, URL, time and collection."""
        import pyarrow
        from pyarrow import compute

        group_of = group_function(source, self.by)
        for each in shown_rows(source.archive, "captures", _COLUMNS):
            source.progress(len(each))
            rows = each.filter(compute.is_valid(each["sketch"]))
            if source.collection is not None:
                rows = rows.filter(compute.equal(rows["collection"], source.collection))
            captures = [_capture(row) for row in rows.to_pylist()]
            groups = [group_of(each) for each in captures]
            wanted = [
                group != NO_CRAWL and source.reads(capture) for capture, group in zip(captures, groups, strict=True)
            ]
            chosen = rows.select(["sketch", "digest", "url", "timestamp", "collection"])
            chosen = chosen.add_column(0, "grp", pyarrow.array(groups, pyarrow.string()))
            yield chosen.filter(pyarrow.array(wanted, pyarrow.bool_()))

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """Tables `groups`, `clusters` and `members`."""
        for name in ("texts", "pending"):
            database.read(name, [each / f"{name}.parquet" for each in partials])
        self._make_clusters(database)
        chosen = _sketch_of(self.cluster) if self.cluster else None
        tables = {
            "groups": database.rows(_GROUPS),
            "clusters": database.rows(_clusters("" if chosen is None else f"WHERE cluster = {chosen}")),
        }
        tables["members"] = database.rows(_members(chosen))
        notes = []
        if self.cluster and not len(tables["clusters"]):
            notes.append(f"there is no cluster {self.cluster} at a distance of {self.distance} bits")
        if pending := database.value("SELECT coalesce(sum(records), 0) FROM pending"):
            notes.append(f"{pending:,} records are not indexed yet and are left out: run 'holdfast index update'")
        if not len(tables["groups"]):
            notes.append("no indexed page has enough text for a sketch")
        result = StudyResult("near-duplicates", tables, notes)
        return StudyResult("near-duplicates", tables, notes, _panels(result, self.by) if result.rows() else ())

    def _make_clusters(self, database: StudyDatabase) -> None:
        """Creates the table `clustered`: the rows of `texts`, each with its cluster."""
        import numpy as np
        import pyarrow

        database.execute("CREATE TABLE links (sketch UBIGINT, cluster UBIGINT)")
        columns = [batch["sketch"].to_numpy() for batch in database.batches("SELECT DISTINCT sketch FROM texts")]
        sketches = np.sort(np.concatenate([np.empty(0, np.uint64), *columns]))
        labels = clusters_of(sketches, self.distance)
        linked = np.flatnonzero(labels != np.arange(len(labels)))
        database.insert("links", pyarrow.table({"sketch": sketches[linked], "cluster": sketches[labels[linked]]}))
        database.execute(
            "CREATE TABLE clustered AS SELECT texts.*, coalesce(cluster, sketch) AS cluster "
            "FROM texts LEFT JOIN links USING (sketch)"
        )


def _capture(row: dict[str, str]) -> Capture:
    """What groups and access rules look at."""
    about = row["urlkey"], row["timestamp"], row["url"], "-", "-", row["digest"], 0, 0, row["filename"] or "-"
    return Capture(*about, row["type"], 0, "-", RecordId.parse(row["record"]), row["collection"])


def _sketch_of(name: str) -> int | None:
    try:
        return int(name, 16) if len(name) == 16 else None
    except ValueError:
        return None


_GROUPS = """
    SELECT grp AS "group", min(timestamp) AS date, sum(documents)::BIGINT AS documents,
           count(DISTINCT digest) AS contents, count(DISTINCT cluster) AS clusters,
           1 - count(DISTINCT digest) / sum(documents) AS exact, 1 - count(DISTINCT cluster) / sum(documents) AS near
    FROM clustered GROUP BY grp ORDER BY date, grp
"""


def _clusters(where: str) -> str:
    """The largest first."""
    return f"""
        SELECT printf('%016x', cluster) AS cluster, sum(documents)::BIGINT AS documents,
               count(DISTINCT digest) AS contents, count(DISTINCT grp) AS groups,
               arg_min(url, (timestamp, url)) AS url, min(timestamp) AS timestamp,
               arg_min(collection, (timestamp, url)) AS collection
        FROM clustered {where} GROUP BY clustered.cluster HAVING count(DISTINCT digest) > 1
        ORDER BY documents DESC, contents DESC, 1 LIMIT {CLUSTERS_MAX}
    """


def _members(chosen: int | None) -> str:
    """One row for each content of a cluster, the oldest first."""
    where, most = (f"WHERE cluster = {chosen}", CHOSEN_MAX) if chosen is not None else ("", MEMBERS_MAX)
    return f"""
        SELECT printf('%016x', cluster) AS cluster, digest, documents, url, timestamp, collection, bits
        FROM (SELECT *, row_number() OVER (PARTITION BY cluster ORDER BY timestamp, url, digest) AS place
              FROM (SELECT cluster, digest, sum(documents)::BIGINT AS documents,
                           arg_min(url, (timestamp, url)) AS url, min(timestamp) AS timestamp,
                           arg_min(collection, (timestamp, url)) AS collection,
                           min(bit_count(xor(sketch, cluster)::BIT)) AS bits
                    FROM clustered SEMI JOIN
                         (SELECT cluster FROM clustered {where} GROUP BY cluster HAVING count(DISTINCT digest) > 1
                          ORDER BY sum(documents) DESC, count(DISTINCT digest) DESC, cluster LIMIT {CLUSTERS_MAX})
                    USING (cluster) GROUP BY cluster, digest))
        WHERE place <= {most} ORDER BY cluster, place
    """


def _panels(result: StudyResult, by: GroupBy) -> list[Panel]:
    rows = result.rows()
    shares = [
        Series("exact duplicates", [100 * row["exact"] for row in rows]),
        Series("with near-duplicates", [100 * row["near"] for row in rows]),
    ]
    panels = [
        Panel("Pages that repeat a text", by.value, "pages (%)", shares, [row["group"] for row in rows], y_max=100)
    ]
    sizes = {"2": 0, "3": 0, "4": 0, "5 to 9": 0, "10 to 99": 0, "100 and more": 0}
    for row in result.rows("clusters"):
        count = row["contents"]
        sizes[
            str(count) if count < 5 else "5 to 9" if count < 10 else "10 to 99" if count < 100 else "100 and more"
        ] += 1
    if any(sizes.values()):
        series = [Series("clusters", [float(count) for count in sizes.values()])]
        panels.append(Panel("Clusters by size", "different contents in a cluster", "clusters", series, list(sizes)))
    return panels


@checked
def near_duplicates(
    archive: Archive | ClusterArchive | Sequence[Archive],
    *,
    by: str = "batch",
    distance: int = DISTANCE,
    cluster: str = "",
    collection: str | None = None,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Pages with almost the same text, by 'batch', 'collection' or 'crawl'; `cluster` lists one cluster whole.

    Sketches may differ in `distance` bits, 0 to 6. Raises IndexNotFound, UnknownName, UsageError or UnknownCollection.
    """
    study = NearDuplicateStudy(GroupBy.parse(by), distance, cluster)
    return run_study(study, archive, collection, permits, progress)
