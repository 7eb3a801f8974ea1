"""How a study runs: gathered from each archive or node, merged, finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from holdfast.catalog.query.search import Permits
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import UsageError
from holdfast.study.engine.database import StudyDatabase
from holdfast.study.engine.scan import Progress, StudySource
from holdfast.study.result import StudyResult

if TYPE_CHECKING:
    from holdfast.archive import Archive


class Study(Protocol):
    """A question to archives."""

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        """Writes the partial result of one archive: Parquet files, always the same names."""

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """The result of all archives whose partial results are in these directories."""


def partial_result(study: Study, source: StudySource, directory: Path) -> None:
    """Writes the partial result of one archive into an empty directory. What it needs meanwhile is in scratch space."""
    with StudyDatabase() as database:
        study.gather(source, database, directory)


def finished_result(study: Study, partials: Sequence[Path]) -> StudyResult:
    """Merges partial results, which may come from several nodes, and finishes them."""
    with StudyDatabase() as database:
        return study.finish(partials, database)


@runtime_checkable
class ClusterArchive(Protocol):
    """An archive on several machines: each gathers from what it answers for, and one finishes."""

    def study(self, study: Study, collection: str | None, progress: Progress) -> StudyResult:
        """The result of all nodes; `coverage` says how much is missing. Raises UnknownCollection or ClusterDown."""

    def captures(self, collection: str | None = None) -> int:
        """How many captures are read for a study, for progress."""


def run_study(
    study: Study,
    archive: Archive | ClusterArchive | Sequence[Archive],
    collection: str | None,
    permits: Permits | None,
    progress: Progress | None,
) -> StudyResult:
    """Gathers from each archive, or from each node, then finishes. Raises UnknownCollection."""
    if isinstance(archive, ClusterArchive):
        if permits is not None:
            raise UsageError("'permits' cannot be given to a cluster: each node applies its own access rules")
        return archive.study(study, collection, progress or (lambda _: None))
    with ScratchDirectory("study") as scratch:
        partials = []
        for number, source in enumerate(sources_of(archive, collection, permits, progress)):
            directory = scratch.path / str(number)
            directory.mkdir()
            partial_result(study, source, directory)
            partials.append(directory)
        return finished_result(study, partials)


def sources_of(
    archive: Archive | Sequence[Archive],
    collection: str | None = None,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> list[StudySource]:
    """One source for each archive. Raises UnknownCollection if no archive has the collection."""
    archives = archive if isinstance(archive, Sequence) else [archive]
    if collection is not None and not any(collection in each.collections() for each in archives):
        for each in archives:
            each.require_collection(collection)
    return [StudySource(each, collection, permits, progress or (lambda _: None)) for each in archives]
