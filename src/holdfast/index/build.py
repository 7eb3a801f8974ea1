"""Building the index: `update` indexes what is new, `build` rebuilds it.

    catalog ──tasks──► crew of workers ──harvests, in order──► words (tantivy) ─┐
                                                            └─► tables (Arrow) ─┴─ commit ──► STATE

A commit makes the files of the tables and the words durable, side by side, then replaces the state, which names them:
killed at any moment, the next writer finds the state of the last commit, takes out what lies beyond it, and goes on
from there. A build does the same in directories of its own, with a state of its own (`BUILD`); at its end that becomes
the state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.env import WriterLock
from holdfast.errors import DamagedIndex, HoldfastError
from holdfast.index import paths
from holdfast.index.removal import forget_build, found_originals, take_out
from holdfast.index.state import IndexState, read_state
from holdfast.index.workers.backlog import targets, tasks
from holdfast.index.writer import IndexWriter

if TYPE_CHECKING:
    from holdfast.index.index import Index

log = logging.getLogger("holdfast.index")

Progress = Callable[[int], None]  # called with the number of records done; if it raises, what was added is kept


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What an update or a build did."""

    records: int = 0  # that were looked at, whatever they are
    captures: int = 0
    documents: int = 0
    links: int = 0
    bytes: int = 0  # of payloads that were read
    removed: int = 0  # records that had left the archive


def update(index: Index, progress: Progress | None) -> BuildReport:
    """Indexes what has come since the last time, and takes out what has left."""
    with locked(index):
        state = index.state()
        if state.generation == 0:
            state = IndexState(1)
        with IndexWriter(index, state, paths.STATE) as writer:
            removed = take_out(index, writer)
            report = _bring_up(index, writer, progress)
            return replace(report, removed=removed + take_out(index, writer))


def build(index: Index, progress: Progress | None) -> BuildReport:
    """A new generation, in the place of the old one when it is complete."""
    with locked(index):
        if not index.removed.is_sound:
            forget_build(index)  # nobody knows any more what is to be taken out of it
        with IndexWriter(index, _begun(index), paths.BUILD) as writer:
            report = _bring_up(index, writer, progress)
            writer.take_over()
            # Not before: until now, what was removed had to be kept from those who read the old generation.
            index.removed.mend()
            return replace(report, removed=take_out(index, writer))


def purge_removed(index: Index) -> bool:
    """Takes what left the archive out of the files; False if that cannot be now, as another process writes.

    Nobody finds it in either case, so a removal need not fail because of this.
    """
    if not index.exists or not index.removed.mark():
        return True
    try:
        with locked(index), IndexWriter(index, index.state(), paths.STATE) as writer:
            take_out(index, writer)
    except HoldfastError as error:
        log.info("what was removed is found no more, but is still in the index: %s", error)
        return False
    return True


def locked(index: Index) -> WriterLock:
    """The lock of the one process that writes the index. Raises Busy."""
    index.env.files.make_directory(index.directory)
    return WriterLock(index.directory / paths.LOCK, "the index", subject="index")


def _begun(index: Index) -> IndexState:
    """The state of a build that was interrupted, or that of a new one, which keeps the numbers of batches."""
    try:
        begun = read_state(index.directory, index.env, paths.BUILD)
        if begun.generation:
            return begun
    except DamagedIndex:
        pass
    try:
        old = index.state()
    except DamagedIndex:
        old = IndexState()
    names = index.env.files.names(index.directory)
    newest = max((paths.generation_of(name) or 0 for name in names), default=0)
    batches = tuple((name, 1) for name, _ in old.batches)
    return IndexState(
        max(newest, old.generation) + 1, batches, next_file=old.next_file
    )  # no name of a file comes twice


def _bring_up(index: Index, writer: IndexWriter, progress: Progress | None) -> BuildReport:
    index.catalog.refresh()
    wanted = targets(writer.state, index.catalog)
    if any(first < end for _, first, end in wanted):
        report = _index(index, writer, wanted, progress)
        writer.replace((), found_originals(writer.state, index.catalog))
        return report
    if not writer.is_begun:
        writer.commit()  # an index of nothing is one, too
    return BuildReport()


def _index(
    index: Index, writer: IndexWriter, wanted: list[tuple[str, int, int]], progress: Progress | None
) -> BuildReport:
    report = BuildReport()
    writer.number_batches([name for name, _, _ in wanted])
    with writer.crew(sum(max(0, end - first) for _, first, end in wanted)) as crew:
        for task, harvest in crew.run(tasks(wanted, index.catalog)):
            captures, links = writer.add(task, harvest)
            report = BuildReport(
                report.records + task.end - task.first,
                report.captures + captures,
                report.documents + len(harvest.documents),
                report.links + links,
                report.bytes + harvest.bytes,
            )
            if progress is not None:
                _tell(progress, task.end - task.first, writer)
        writer.commit()
    return report


def _tell(progress: Progress, records: int, writer: IndexWriter) -> None:
    """Between two tasks nothing is half done: if the work ends here, what was added is kept."""
    try:
        progress(records)
    except BaseException:
        writer.commit()
        raise
