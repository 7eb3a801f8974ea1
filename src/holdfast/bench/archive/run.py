"""A whole run: the files are made once, then every subject works on them in a fresh process and directory."""

from __future__ import annotations

import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.bench.archive.captures import CatalogScale, form_of, measure_captures, sample_urls, write_cdxj
from holdfast.bench.archive.cdxj_file import look_up_file, look_up_with_pywb
from holdfast.bench.archive.crawl import Crawls, build
from holdfast.bench.archive.figure import Figure, middle
from holdfast.bench.archive.large import LargeRecord, measure_large
from holdfast.bench.archive.ours import export_all, export_cdxj, import_all, look_up_imported, round_trip
from holdfast.bench.archive.peers import (
    index_with_cdxj_indexer,
    read_with_fastwarc,
    read_with_warcio,
    rewrite_with_warcio,
    write_with_warcio,
)
from holdfast.bench.archive.sample import chosen
from holdfast.bench.archive.workload import OURS, READER, SUBJECTS, ArchiveWorkload
from holdfast.bench.child import ChildFailed, run_apart
from holdfast.bench.corpus import Corpus
from holdfast.bench.run import Missing, Progress
from holdfast.bench.subject import Unavailable


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """What to measure."""

    corpus: Corpus | None
    subjects: tuple[str, ...] = tuple(SUBJECTS)
    workloads: frozenset[ArchiveWorkload] = frozenset(ArchiveWorkload)
    repeats: int = 3
    captures: int = 0  # of the synthetic catalog in `lookup`; none if zero
    scales: tuple[int, ...] = ()  # synthetic catalogs for Holdfast alone
    large_bytes: int = 0  # payload of a single record; none if zero
    pywb: str = sys.executable  # an interpreter that has pywb


@dataclass(slots=True)
class ArchiveOutcome:
    """All that a run found."""

    crawls: Crawls | None = None
    figures: list[Figure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    scales: list[CatalogScale] = field(default_factory=list)
    large: LargeRecord | None = None

    def find(self, subject: str, workload: ArchiveWorkload, form: str = "") -> Figure | None:
        """The figure of that place, if there is one."""
        return next((each for each in self.figures if each.place == (subject, workload, form)), None)

    def forms(self, workload: ArchiveWorkload) -> list[str]:
        """The forms in which the workload was measured, in order."""
        return list(dict.fromkeys(each.form for each in self.figures if each.workload is workload))


@dataclass(frozen=True, slots=True)
class Step:
    """One call in a child. `needs` is what must have succeeded before in the same repeat."""

    subject: str
    workload: ArchiveWorkload
    function: Callable[..., list[Figure] | None]
    arguments: tuple[Any, ...]
    makes: Path | None = None  # what others need
    needs: Path | None = None
    cleans: tuple[Path, ...] = ()  # removed afterwards


def run_archive(plan: ArchivePlan, directory: Path, progress: Progress) -> ArchiveOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on."""
    return _Run(plan, directory, progress).run()


class _Run:
    """A run under way."""

    def __init__(self, plan: ArchivePlan, directory: Path, progress: Progress) -> None:
        self._plan = plan
        self._directory = directory
        self._progress = progress
        self._outcome = ArchiveOutcome()
        self._found: dict[tuple[str, ArchiveWorkload, str], list[Figure]] = defaultdict(list)
        self._dead: set[tuple[str, ArchiveWorkload]] = set()
        self._done = 0
        self._total = self._count()

    def run(self) -> ArchiveOutcome:
        plan = self._plan
        if plan.corpus is not None:
            self._tell("making the WARC files of two crawls")
            crawls = run_apart(build, plan.corpus, self._directory / "crawls")
            self._outcome.crawls = crawls
            for turn in range(plan.repeats):  # repeats are spread over the run, so that a slow minute hits one of each
                self._repeat(crawls, turn)
        for captures in self._catalogs():
            self._attempt_captures(captures)
        if plan.large_bytes:
            self._attempt_large(plan.large_bytes)
        self._outcome.figures += [middle(repeats) for repeats in self._found.values()]
        self._progress(self._total, self._total, "done")
        return self._outcome

    def _catalogs(self) -> list[int]:
        """Sizes of the synthetic catalogs, without repetition."""
        wanted = self._plan.captures if ArchiveWorkload.LOOKUP in self._plan.workloads else 0
        return sorted({*self._plan.scales, wanted} - {0})

    def _count(self) -> int:
        repeats = self._plan.repeats if self._plan.corpus is not None else 0
        steps = sum(1 for each in _PLANNED if self._wanted(*each)) if repeats else 0
        return (1 if repeats else 0) + repeats * steps + len(self._catalogs()) + bool(self._plan.large_bytes)

    def _wanted(self, subject: str, workload: ArchiveWorkload) -> bool:
        return subject in self._plan.subjects and workload in self._plan.workloads

    def _tell(self, text: str) -> None:
        self._progress(min(self._done, self._total), self._total, text)
        self._done += 1

    # -- one repeat ---------------------------------------------------------------------------------------------

    def _repeat(self, crawls: Crawls, turn: int) -> None:
        directory = self._directory / f"repeat-{turn}"
        directory.mkdir()
        if self._wanted("gzip-warc", ArchiveWorkload.SPACE) and not turn:
            self._found["gzip-warc", ArchiveWorkload.SPACE, ""].append(_space_of(crawls))
        try:
            for step in _steps(crawls, directory, self._plan.pywb):
                self._attempt(step, turn)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _attempt(self, step: Step, turn: int) -> None:
        """Does the step if it is wanted, or if one that is wanted needs what it makes."""
        wanted = self._wanted(step.subject, step.workload)
        if not wanted and not (step.makes and self._needed(step)):
            return
        if (step.subject, step.workload) in self._dead or (step.needs and not step.needs.exists()):
            return
        if wanted and step.function is not export_cdxj:
            self._tell(f"{step.subject} · {step.workload} · repeat {turn + 1}/{self._plan.repeats}")
        os.sync()  # what the subject before left dirty is not this one's burden
        try:
            figures = run_apart(step.function, *step.arguments) or []
        except (Unavailable, ChildFailed) as failure:
            self._note(step, failure)
            figures = []
            if step.makes is not None:
                _remove(step.makes)  # nobody shall build on half of it
        for figure in figures:
            if self._wanted(figure.subject, figure.workload):
                self._found[figure.place].append(figure)
        for path in step.cleans:
            _remove(path)

    def _needed(self, step: Step) -> bool:
        """The archive is needed by everything that is ours, the CDXJ file by those that search it."""
        searching = any(self._wanted(each, ArchiveWorkload.LOOKUP) for each in ("cdxj-file", "pywb"))
        if step.makes is not None and step.makes.suffix == ".cdxj":
            return searching
        after_import = (ArchiveWorkload.SPACE, ArchiveWorkload.LOOKUP, ArchiveWorkload.EXPORT)
        ours = any(self._wanted(name, each) for name in (OURS, READER) for each in after_import)
        return searching or ours

    def _note(self, step: Step, failure: Exception) -> None:
        verb = "skipped" if isinstance(failure, Unavailable) else "failed"
        self._dead.add((step.subject, step.workload))
        self._outcome.missing.append(Missing(step.subject, step.workload, f"{verb}: {failure}"))

    # -- synthetic captures, and the large record ---------------------------------------------------------------

    def _attempt_captures(self, captures: int) -> None:
        directory = self._directory / f"captures-{captures}"
        directory.mkdir()
        self._tell(f"catalog of {captures:,} synthetic captures")
        os.sync()
        try:
            scale, figures = measure_captures(directory / "catalog", captures, self._plan.repeats)
            self._outcome.scales.append(scale)
            if self._wanted(OURS, ArchiveWorkload.LOOKUP) and captures == self._plan.captures:
                self._found[figures[0].place] += figures
                self._search_file(directory / "captures.cdxj", captures)
        except ChildFailed as failure:
            self._outcome.missing.append(Missing(OURS, form_of(captures), f"failed: {failure}"))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _search_file(self, path: Path, captures: int) -> None:
        """The peers' lookups in the same captures."""
        peers = [each for each in ("cdxj-file", "pywb") if self._wanted(each, ArchiveWorkload.LOOKUP)]
        if not peers:
            return
        run_apart(write_cdxj, path, captures)
        urls, form = sample_urls(captures), form_of(captures)
        for _ in range(self._plan.repeats):
            for step in _searches(path, urls, form, self._plan.pywb):
                if step.subject in peers and (step.subject, step.workload) not in self._dead:
                    try:
                        for figure in run_apart(step.function, *step.arguments) or []:
                            self._found[figure.place].append(figure)
                    except (Unavailable, ChildFailed) as failure:
                        self._note(step, failure)

    def _attempt_large(self, payload_bytes: int) -> None:
        directory = self._directory / "large"
        self._tell(f"one record of {payload_bytes:,} bytes")
        os.sync()
        try:
            self._outcome.large = measure_large(directory, payload_bytes)
        except ChildFailed as failure:
            self._outcome.missing.append(Missing(OURS, "one large record", f"failed: {failure}"))
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _steps(crawls: Crawls, directory: Path, pywb: str) -> Iterator[Step]:
    """All steps of a repeat, in order."""
    archive, cdxj = directory / "archive", directory / "index.cdxj"
    file, files = directory / "exported.warc.gz", directory / "files"
    work = ArchiveWorkload
    yield Step(OURS, work.IMPORT, import_all, (archive, crawls), makes=archive)
    yield Step("cdxj-indexer", work.IMPORT, index_with_cdxj_indexer, (directory, crawls))
    yield Step("warcio", work.IMPORT, read_with_warcio, (crawls,))
    yield Step("fastwarc", work.IMPORT, read_with_fastwarc, (crawls,))
    for name in (OURS, READER):
        yield Step(name, work.LOOKUP, look_up_imported, (archive, crawls, name), needs=archive)
    yield Step("cdxj-file", work.LOOKUP, export_cdxj, (archive, cdxj), makes=cdxj, needs=archive)
    yield from _searches(cdxj, chosen(crawls.urls()), f"{crawls.captures:,} captures", pywb)
    yield Step(OURS, work.EXPORT, export_all, (archive, crawls, file), needs=archive, cleans=(file,))
    yield Step("warcio", work.EXPORT, write_with_warcio, (crawls, file), cleans=(file, archive))
    again = directory / "again"
    yield Step(OURS, work.ROUNDTRIP, round_trip, (again, crawls, files), cleans=(files, again))
    yield Step("warcio", work.ROUNDTRIP, rewrite_with_warcio, (crawls, files), cleans=(files,))


def _searches(cdxj: Path, urls: Sequence[str], form: str, pywb: str) -> Iterator[Step]:
    yield Step("cdxj-file", ArchiveWorkload.LOOKUP, look_up_file, (cdxj, urls, form), needs=cdxj)
    yield Step("pywb", ArchiveWorkload.LOOKUP, look_up_with_pywb, (cdxj, urls, form, pywb), needs=cdxj)


_PLANNED = tuple(
    (name, workload)
    for name, its in SUBJECTS.items()
    for workload in its.does
    if workload is not ArchiveWorkload.SPACE  # it costs no step of its own
)


def _space_of(crawls: Crawls) -> Figure:
    return Figure(
        "gzip-warc",
        ArchiveWorkload.SPACE,
        crawls.records,
        pages=crawls.captures,
        content_bytes=crawls.content_bytes,
        disk_bytes=crawls.disk_bytes,
        apparent_bytes=crawls.apparent_bytes,
    )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
