"""Batch updates (B8, B15): make gathered captures visible to readers, and remove superseded ones.

Under the batch scheme an update goes through these steps, in WebBase's order, but without stopping service:

    isolate    the present end of each batch becomes the next state; later records wait for the next update
    transfer   the contents in update volumes move to the read volumes, in sorted order
    index      the index, if there is one, is brought up to date
    switch     the file `active` is replaced: streams and queries now see the next state
    remove     with `keep = "latest"`, superseded captures are removed once nobody holds a lease on an older state
    compact    the volumes free the space of dead blocks

Readers see the whole old state until the switch, and the whole new one after it. WebBase deletes class A pages before
it restarts the system; here readers never stop, so class A pages are deleted once no reader is shown them.

The file `update` records progress, durably, before each step. Each step is idempotent, so the next run finishes an
interrupted update with the same result.

Under the incremental scheme there is nothing to isolate, transfer or switch; the other steps are the same.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from holdfast.archive.removal import Removal, RemovalOptions
from holdfast.arguments import checked
from holdfast.batches.journal import Journal
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.catalog.revisits import can_stand_alone
from holdfast.env import Environment, paths
from holdfast.env.files import read_file, replace_file
from holdfast.errors import ClusterDown, Damaged
from holdfast.model import Capture, RecordId
from holdfast.records.active_state import (
    ABOUT,
    ActiveState,
    ClassCounts,
    PageClass,
    active_state,
    allow_leases,
    captures_beyond,
    class_of,
    count_classes,
    end_leases,
    read_active,
    write_active,
)
from holdfast.records.selection import Selection
from holdfast.storage import placement
from holdfast.storage.maintenance.migrate import Migration, Transfer

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive


Progress = Callable[[int], None]
FORMAT = 1
LATEST = "latest"
REASON = "latest only: a later capture of the page is kept"


class UpdateStep(StrEnum):
    """The next step of an update."""

    TRANSFER = "transfer"
    INDEX = "index"
    SWITCH = "switch"
    REMOVE = "remove"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """The options of an update."""

    wait_s: float = 60.0  # for streams that read an older state, before what only that one shows is removed
    dead_share_min: float = 0.0  # compaction leaves files alone of which less is dead
    dry_run: bool = False  # only report what would go


@dataclass(slots=True)
class UpdateReport:
    """The result of an update."""

    scheme: str
    generation: int = 0  # of the state that readers see now; 0 under the incremental scheme
    resumed: bool = False  # it carried one to its end that had been interrupted
    moved: Migration = field(default_factory=lambda: Migration(0, 0))
    indexed: int = 0  # captures that the index has learnt of
    leases_ended: bool = True  # nobody held a lease on an older state when captures were removed
    captures: int = 0  # removed, or in a dry run would be
    records: int = 0
    contents: int = 0
    reclaimed_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # that each step took

    def add(self, removal: Removal) -> None:
        self.captures += removal.captures
        self.records += removal.records
        self.contents += removal.contents


@dataclass(frozen=True, slots=True)
class UpdateStatus:
    """The state of an archive between two updates."""

    scheme: str
    keep: str
    active: ActiveState | None  # None: readers see everything
    classes: ClassCounts
    waiting_blocks: int  # in update volumes
    waiting_bytes: int  # the same, as stored
    unfinished: str  # the step at which an update was interrupted; empty: none was


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is in the file `update`."""

    step: UpdateStep
    target: ActiveState


def prepare_active_state(archive: Archive) -> None:
    """Creates the first active state, of all records, under the batch scheme; removes it under the incremental one."""
    root, env = archive.path, archive.env
    if archive.settings.store.update == placement.BATCH:
        if read_active(root, env) is None:
            first = ActiveState(1, _now(env), archive.writer.ends())
            allow_leases(root, first.generation)
            write_active(root, first, env)
    elif env.files.exists(root / paths.ACTIVE):
        env.files.remove(root / paths.ACTIVE)
        env.files.sync_directory(root)


def _now(env: Environment) -> str:
    return datetime.fromtimestamp(env.clock(), UTC).isoformat(timespec="seconds")


class Updates:
    """The updates of an archive. `run` is for one thread at a time; others may add and read meanwhile."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._root = archive.path
        self._env = archive.env

    @property
    def is_batch(self) -> bool:
        return self._archive.settings.store.update == placement.BATCH

    @property
    def active(self) -> ActiveState | None:
        """The state that streams and queries see; None: everything."""
        return active_state(self._root, self._archive.settings, self._env)

    @property
    def shown(self) -> ActiveState | None:
        """The state that decides classes: the active one; under the incremental scheme, that of the index."""
        index = self._archive.index
        if self.is_batch or not index.exists:
            return self.active
        return ActiveState(0, "", MappingProxyType(dict(index.state().batches)))

    @checked
    def class_of(self, capture: Capture) -> PageClass:
        return class_of(self._archive.catalog, self.shown, capture)

    def status(self) -> UpdateStatus:
        """Takes time in proportion to the captures added since the last switch. Readers may call it."""
        settings, instance = self._archive.settings, self._archive.instance
        waiting = [
            instance.volume(each.name).stat()
            for each in settings.volume
            if placement.is_update(settings, each) and each.name in instance.volumes
        ]
        plan = self._read_plan()
        return UpdateStatus(
            settings.store.update,
            settings.records.keep,
            self.active,
            count_classes(self._archive.catalog, self.shown),
            sum(each.blocks for each in waiting),
            sum(each.stored_bytes for each in waiting),
            plan.step.value if plan else "",
        )

    @checked
    def run(
        self,
        options: UpdateOptions = UpdateOptions(),
        progress: Progress | None = None,
    ) -> UpdateReport:
        """Runs an update, or finishes one that was interrupted. Durable on return."""
        if self._archive.settings.records.keep == LATEST and not (options.dry_run or self._archive.can_remove):
            raise ClusterDown(f"'{self._root}' is a node of a cluster: it is updated only while it runs")
        report = UpdateReport(self._archive.settings.store.update)
        plan = self._read_plan()
        report.resumed = plan is not None
        if options.dry_run:
            self._remove(plan.target if plan else self._target(), options, report)
            return report
        if plan is None:
            plan = self._isolate()
        steps = {
            UpdateStep.TRANSFER: lambda: self._transfer(report, progress),
            UpdateStep.INDEX: lambda: self._index(report, progress),
            UpdateStep.SWITCH: lambda: self._switch(plan.target),
            UpdateStep.REMOVE: lambda: self._remove_superseded(plan.target, options, report),
            UpdateStep.COMPACT: lambda: self._compact(options, report, progress),
        }
        if not self.is_batch:
            del steps[UpdateStep.TRANSFER], steps[UpdateStep.SWITCH]
        for step in [each for each in list(UpdateStep)[list(UpdateStep).index(plan.step) :] if each in steps]:
            self._write_plan(replace(plan, step=step))
            begun = self._env.monotonic()
            steps[step]()
            report.seconds[step.value] = self._env.monotonic() - begun
        self._env.files.remove(self._root / paths.UPDATE)
        self._env.files.sync_directory(self._root)
        report.generation = plan.target.generation if self.is_batch else 0
        return report

    # -- steps --------------------------------------------------------------------------------------------------

    def _isolate(self) -> _Plan:
        if self.is_batch:
            Transfer(self._archive.instance)  # raises before anything changes if it cannot be done
        return _Plan(UpdateStep.TRANSFER if self.is_batch else UpdateStep.INDEX, self._target())

    def _target(self) -> ActiveState:
        """Everything that is acknowledged now, as the state that comes next."""
        before = read_active(self._root, self._env)
        return ActiveState(before.generation + 1 if before else 1, _now(self._env), self._archive.writer.ends())

    def _transfer(self, report: UpdateReport, progress: Progress | None) -> None:
        report.moved = Transfer(self._archive.instance).run(progress, resumed=report.resumed)

    def _index(self, report: UpdateReport, progress: Progress | None) -> None:
        if self._archive.index.exists:
            report.indexed = self._archive.index.update(progress).captures

    def _switch(self, target: ActiveState) -> None:
        allow_leases(self._root, target.generation)
        write_active(self._root, target, self._env)

    def _remove_superseded(self, target: ActiveState, options: UpdateOptions, report: UpdateReport) -> None:
        if self._archive.settings.records.keep != LATEST:
            return
        if self.is_batch:
            report.leases_ended = end_leases(self._root, target.generation, options.wait_s, self._env)
        self._remove(target, options, report)

    def _remove(self, target: ActiveState, options: UpdateOptions, report: UpdateReport) -> None:
        chosen = replace(target, batches=self._archive.writer.ends())
        how = RemovalOptions(REASON, compact=False, dry_run=options.dry_run)
        everywhere = self._archive.everywhere
        is_complete = everywhere.completeness() if everywhere is not None else None
        for group in superseded(self._archive.catalog, target, chosen, is_complete):
            report.add(self._archive.remove(group, how))

    def _compact(self, options: UpdateOptions, report: UpdateReport, progress: Progress | None) -> None:
        for name in self._archive.instance.volumes:
            done = self._archive.compact(name, options.dead_share_min, progress)
            report.reclaimed_bytes += done.bytes_before - done.bytes_after

    # -- the plan -----------------------------------------------------------------------------------------------

    def _write_plan(self, plan: _Plan) -> None:
        facts = {
            "format": FORMAT,
            "step": plan.step.value,
            "generation": plan.target.generation,
            "time": plan.target.time,
            "batches": dict(plan.target.batches),
        }
        replace_file(self._env.files, self._root / paths.UPDATE, json.dumps(facts).encode() + b"\n")

    def _read_plan(self) -> _Plan | None:
        """Raises Damaged."""
        path = self._root / paths.UPDATE
        try:
            facts: dict[str, Any] = json.loads(read_file(self._env.files, path))
            target = ActiveState(facts["generation"], facts["time"], MappingProxyType(facts["batches"]))
            return _Plan(UpdateStep(facts["step"]), target)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(
                f"cannot read '{path}': {error}; it is the state of an update that was interrupted: delete it, and run "
                "'holdfast update run' again"
            ) from None


_REVISIT = "revisit"
_ERRORS = ("4", "5")  # what the status of an error begins with
AT_A_TIME = 10_000  # captures that one removal takes


@dataclass(frozen=True, slots=True)
class Superseded(Selection):
    """Some superseded captures, without those that later records refer to."""

    records: tuple[RecordId, ...] = ()
    chosen: ActiveState = field(default_factory=lambda: ActiveState(0, ""))  # what there was then

    @property
    def is_whole(self) -> bool:
        return False

    def record_ids(self, catalog: Catalog, journal: Journal) -> Iterator[RecordId]:
        needed = set(_originals(catalog, captures_beyond(catalog, self.chosen)))
        return (record for record in self.records if record not in needed)


def superseded(
    catalog: Catalog, shown: ActiveState, chosen: ActiveState, is_complete: Callable[[str], bool] | None = None
) -> Iterator[Superseded]:
    """All captures of the state `shown` that are superseded in it, in batch order, in groups.

    `chosen` is the state of all present records. Incomplete URLs keep all their captures: in a cluster, a capture that
    has not arrived yet may refer to an older one. Takes 4 bytes of memory per superseded capture, and some per revisit.
    """
    gone: dict[str, array[int]] = {}
    needed: set[RecordId] = set()
    for collection in catalog.collections():
        rows = catalog.search(CaptureQuery(url="*", collection=collection))
        for _, group in groupby((row.capture for row in rows), key=lambda each: each.urlkey):
            captures = list(group)
            old = {
                each.record for each in _old(catalog, captures, shown) if is_complete is None or is_complete(each.url)
            }
            for record in old:
                gone.setdefault(record.batch, array("I")).append(record.serial)
            staying = (each for each in captures if each.record not in old)
            needed.update(_originals(catalog, staying))
    records = (
        record
        for batch in sorted(gone)
        for serial in sorted(gone.pop(batch))
        if (record := RecordId(batch, serial)) not in needed
    )
    while some := tuple(islice(records, AT_A_TIME)):
        yield Superseded(records=some, chosen=chosen)


def _old(catalog: Catalog, captures: list[Capture], shown: ActiveState) -> Iterator[Capture]:
    """Of the captures under one key, by time, those that a later one of the very same URL has superseded."""
    pages: dict[str, list[Capture]] = {}
    for capture in captures:
        if capture.record in shown and capture.type not in ABOUT:
            pages.setdefault(capture.url, []).append(capture)
    for versions in pages.values():
        newest = versions.pop()
        kept: Capture | None = newest
        if not _can_be_shown(catalog, newest):
            kept = next((each for each in reversed(versions) if _can_be_shown(catalog, each)), None)
        yield from (each for each in versions if each is not kept)


def _can_be_shown(catalog: Catalog, capture: Capture) -> bool:
    if capture.status.startswith(_ERRORS):
        return False
    if capture.type != _REVISIT or capture.contents != "-" or can_stand_alone(capture):
        return True
    return catalog.resolve(capture) is not None


def _originals(catalog: Catalog, captures: Iterator[Capture]) -> Iterator[RecordId]:
    """The records that those of the captures need which have no payload of their own."""
    for capture in captures:
        if capture.type == _REVISIT and (original := catalog.resolve(capture)) is not None:
            yield original.record
