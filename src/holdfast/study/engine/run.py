"""How a study runs: gathered from each archive or node, merged, finished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from holdfast.catalog.query.search import Permits
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import UsageError
from holdfast.model import Coverage, RecordId
from holdfast.study.engine.database import StudyDatabase
from holdfast.study.engine.scan import Progress, StudySource
from holdfast.study.result import StudyResult

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.export import ExportSource
    from holdfast.streams.snapshot import Snapshot


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


class PartialResults(NamedTuple):
    """The partial results of a study, one directory for each archive or node."""

    paths: Sequence[Path]
    coverage: Coverage | None = None  # of a cluster


@runtime_checkable
class ClusterArchive(Protocol):
    """An archive on several machines: each gathers from what it answers for, and one finishes."""

    archive: Archive  # of the node that was asked

    def gathered(
        self, study: Study, collection: str | None, progress: Progress
    ) -> AbstractContextManager[PartialResults]:
        """The partial results of all nodes. Raises UnknownCollection or ClusterDown."""

    def captures(self, collection: str | None = None) -> int:
        """How many captures are read for a study, for progress."""

    def snapshot(self) -> Snapshot:
        """What all nodes have now, by the batches in which it was recorded. Raises ClusterDown if one is missing."""

    def chosen(self, records: Iterable[tuple[RecordId, str]]) -> ExportSource:
        """Where records are exported from; each with its URL."""

    def copies_and_partitions(self) -> tuple[int, int]:
        """On how many nodes each record is, and how many partitions there are."""


def run_study(
    study: Study,
    archive: Archive | ClusterArchive | Sequence[Archive],
    collection: str | None,
    permits: Permits | None,
    progress: Progress | None,
) -> StudyResult:
    """Gathers from each archive, or from each node, then finishes. Raises UnknownCollection."""
    with gathered(study, archive, collection, permits, progress) as partials:
        return replace(finished_result(study, partials.paths), coverage=partials.coverage)


@contextmanager
def gathered(
    study: Study,
    archive: Archive | ClusterArchive | Sequence[Archive],
    collection: str | None,
    permits: Permits | None,
    progress: Progress | None,
) -> Iterator[PartialResults]:
    """The partial results of each archive, or of each node; gone when it is left. Raises UnknownCollection."""
    if isinstance(archive, ClusterArchive):
        if permits is not None:
            raise UsageError("'permits' cannot be given to a cluster: each node applies its own access rules")
        with archive.gathered(study, collection, progress or (lambda _: None)) as partials:
            yield partials
        return
    with ScratchDirectory("study") as scratch:
        paths = []
        for number, source in enumerate(sources_of(archive, collection, permits, progress)):
            directory = scratch.path / str(number)
            directory.mkdir()
            partial_result(study, source, directory)
            paths.append(directory)
        yield PartialResults(paths)


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
