"""How a study runs: gathered from each archive, merged, finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.catalog.query.search import Permits
from holdfast.env.scratch import ScratchDirectory
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


def run_study(study: Study, sources: Sequence[StudySource]) -> StudyResult:
    """Gathers from each archive, then finishes."""
    with ScratchDirectory("study") as scratch:
        partials = []
        for number, source in enumerate(sources):
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
