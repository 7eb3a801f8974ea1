"""A sample: drawn, compared with the archive, and written as a collection (I9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.catalog.query.search import Permits
from holdfast.errors import UsageError
from holdfast.streams.snapshot import Snapshot, take_snapshot
from holdfast.study.engine.database import StudyDatabase
from holdfast.study.engine.run import sources_of
from holdfast.study.engine.scan import Progress
from holdfast.study.result import StudyResult
from holdfast.study.samples.collection import SampleManifest, SampleWriter, new_directory
from holdfast.study.samples.draw import SampleDraw
from holdfast.study.samples.options import SampleOptions
from holdfast.study.samples.report import distances, distributions, make_distributions, panels_of

STRATA_MAX = 100_000  # in the table and the file of strata


@checked
def sample(
    archive: Archive,
    options: SampleOptions,
    target: str | Path | None = None,
    *,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Draws a sample and writes it to a new directory; without `target`, only the report is made.

    Tables `sizes`, `distances`, `distributions` and `strata`. Raises UsageError if the archive has not enough,
    IndexNotFound or UnknownCollection.
    """
    return _made(archive, options, take_snapshot(archive.catalog), _path(target), permits, progress)


@checked
def sample_again(
    archive: Archive, manifest: str | Path, target: str | Path, *, progress: Progress | None = None
) -> StudyResult:
    """Makes a sample again by its manifest, from the captures that were there then.

    Raises UsageError if any file comes out different: then the archive lost captures, or it is another one.
    """
    known = SampleManifest.read(Path(manifest))
    path = Path(target)
    with new_directory(path) as draft:
        inner = draft / "sample"
        result = _made(archive, known.options, known.snapshot, inner, None, progress)
        made = SampleManifest.read(inner)
        differ = sorted(name for name in {*known.files, *made.files} if known.files.get(name) != made.files.get(name))
        if differ:
            raise UsageError(
                f"the sample cannot be made again: {', '.join(differ)} would differ. The archive has lost captures "
                "since, it is another archive, or another version of Holdfast made the sample"
            )
        for file in inner.iterdir():
            file.rename(draft / file.name)
        inner.rmdir()
    return result


def _path(target: str | Path | None) -> Path | None:
    return None if target is None else Path(target)


def _made(
    archive: Archive,
    options: SampleOptions,
    snapshot: Snapshot,
    target: Path | None,
    permits: Permits | None,
    progress: Progress | None,
) -> StudyResult:
    (source,) = sources_of(archive, options.collection, permits, progress)
    with StudyDatabase() as database:
        draw = SampleDraw(options, source, database)
        draw.run(snapshot)
        result = _report(database, _notes(draw))
        if target is None:
            return result
        with new_directory(target) as directory:
            writer = SampleWriter(archive, options, database, lambda _: None)
            notes = writer.write(directory, result, snapshot)
        return StudyResult("sample", result.tables, notes, result.panels)


def _notes(draw: SampleDraw) -> list[str]:
    notes = []
    if draw.revisits:
        notes.append(f"{draw.revisits:,} revisits have no payload of their own and are not drawn")
    if draw.pending:
        notes.append(f"{draw.pending:,} captures are not indexed yet and are not drawn: run 'holdfast index update'")
    return notes


_SIZES = """
    SELECT 'archive' AS what, count(*) AS captures, sum(size)::BIGINT AS bytes, count(DISTINCT stratum) AS strata,
           count(DISTINCT site) AS sites FROM population
    UNION ALL
    SELECT 'sample', count(*), sum(size)::BIGINT, count(DISTINCT stratum), count(DISTINCT site) FROM sample
"""
_STRATA = f"""
    SELECT stratum, captures, bytes, coalesce(sampled, 0) AS sampled, coalesce(sampled_bytes, 0) AS sampled_bytes,
           captures / sampled AS weight
    FROM (SELECT stratum, count(*) AS captures, sum(size)::BIGINT AS bytes FROM population GROUP BY stratum)
    LEFT JOIN (SELECT stratum, count(*) AS sampled, sum(size)::BIGINT AS sampled_bytes FROM sample GROUP BY stratum)
    USING (stratum) ORDER BY captures DESC, stratum LIMIT {STRATA_MAX}
"""
_DISTANCES = (
    *(("dimension", "string"), ("values", "int64"), ("total_variation", "float64"), ("expected", "float64")),
    *(("jensen_shannon", "float64"), ("kolmogorov_smirnov", "float64")),
)
_DISTRIBUTIONS = (
    *(("dimension", "string"), ("value", "string"), ("captures", "int64"), ("share", "float64")),
    *(("sampled", "int64"), ("sampled_share", "float64")),
)


def _report(database: StudyDatabase, notes: list[str]) -> StudyResult:
    import pyarrow

    make_distributions(database)
    rows = distributions(database)
    tables: dict[str, Any] = {
        "sizes": database.rows(f"SELECT * FROM ({_SIZES}) ORDER BY what"),
        "distances": pyarrow.Table.from_pylist(distances(database), pyarrow.schema(_DISTANCES)),
        "distributions": pyarrow.Table.from_pylist(rows, pyarrow.schema(_DISTRIBUTIONS)),
        "strata": database.rows(_STRATA),
    }
    return StudyResult("sample", tables, notes, panels_of(rows))
