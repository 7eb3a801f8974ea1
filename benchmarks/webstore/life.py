"""One life: servers on empty directories, clients, their steps under the clock, and the end of all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.crawl.tree import cpu_of, family
from benchmarks.harness.measure import Cost
from benchmarks.webstore.figure import WebstoreFigure
from benchmarks.webstore.machines import Machines
from benchmarks.webstore.subject import Subject
from benchmarks.webstore.subjects import SUBJECTS
from benchmarks.webstore.workload import Life, Step


def live(name: str, life: Life, pages: tuple[Path, ...], directory: Path) -> list[WebstoreFigure]:
    """Figures of the life's steps. Raises Unavailable if the subject is not here, ChildFailed if something failed."""
    directory.mkdir(parents=True)
    subject = SUBJECTS[name]()
    try:
        place = subject.start(directory, life.volumes)
        machines = Machines(name, place, pages, life)
        try:
            figures = [_take(step, name, life, machines, subject) for step in life.steps]
        finally:
            machines.stop()
    finally:
        subject.stop()
    return [figure for figure in figures if figure is not None]


def _take(step: Step, name: str, life: Life, machines: Machines, subject: Subject) -> WebstoreFigure | None:
    machines.prepare(step)
    os.sync()  # what an earlier step left dirty is not this one's burden
    servers, clients = _cpu_s(subject.pids()), _cpu_s(machines.pids())
    done = machines.go()
    servers, clients = _cpu_s(subject.pids()) - servers, _cpu_s(machines.pids()) - clients
    machines.finish()
    if step.experiment is None or step.line is None:
        return None
    return WebstoreFigure(
        name,
        step.line,
        sum(each.operations for each in done),
        Cost(max(each.end for each in done) - min(each.start for each in done), servers + clients, 0, 0),
        content_bytes=sum(each.content_bytes for each in done),
        experiment=step.experiment,
        x=life.x,
        server_cpu_s=servers,
    )


def _cpu_s(pids: Sequence[int]) -> float:
    """Of these processes, and what they started."""
    return cpu_of({member for pid in pids for member in family(pid)})
