"""A sample: drawn, compared with the archive, and written as a collection (I9)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.catalog.query.search import Permits
from holdfast.errors import UsageError
from holdfast.streams.snapshot import Snapshot, take_snapshot
from holdfast.study.engine.database import StudyDatabase
from holdfast.study.engine.run import ClusterArchive, gathered
from holdfast.study.engine.scan import Progress
from holdfast.study.result import StudyResult
from holdfast.study.samples.collection import SampleManifest, SampleWriter, new_directory
from holdfast.study.samples.draw import SampleStudy
from holdfast.study.samples.options import SampleOptions


@checked
def sample(
    archive: Archive | ClusterArchive,
    options: SampleOptions,
    target: str | Path | None = None,
    *,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Draws a sample and writes it to a new directory; without `target`, only the report is made.

    Tables `sizes`, `distances`, `distributions` and `strata`. Raises UsageError if the archive has not enough,
    IndexNotFound or UnknownCollection; of a cluster ClusterDown, if nodes are missing.
    """
    return _made(archive, options, _snapshot(archive), _path(target), permits, progress)


@checked
def sample_again(
    archive: Archive | ClusterArchive, manifest: str | Path, target: str | Path, *, progress: Progress | None = None
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
    archive: Archive | ClusterArchive,
    options: SampleOptions,
    snapshot: Snapshot,
    target: Path | None,
    permits: Permits | None,
    progress: Progress | None,
) -> StudyResult:
    study = SampleStudy(options.as_json(), snapshot.ends)
    with gathered(study, archive, options.collection, permits, progress) as partials, StudyDatabase() as database:
        result = replace(study.finish(partials.paths, database), coverage=partials.coverage)
        if target is None:
            return result
        advance: Progress = progress or (lambda _: None)
        with new_directory(target) as directory:
            # The captures are counted already; a caller may still raise to end it.
            notes = SampleWriter(archive, options, database, lambda _: advance(0)).write(directory, result, snapshot)
            advance(0)
        return replace(result, notes=notes)


def _snapshot(archive: Archive | ClusterArchive) -> Snapshot:
    return take_snapshot(archive.catalog) if isinstance(archive, Archive) else archive.snapshot()
