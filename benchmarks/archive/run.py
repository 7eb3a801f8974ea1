"""A whole run: the files are made once, then every subject works on them in a fresh process and directory."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.archive.captures import CatalogScale, form_of, measure_captures, sample_urls, write_cdxj
from benchmarks.archive.cdxj_file import look_up_file, look_up_with_pywb
from benchmarks.archive.crawl import Crawls, build
from benchmarks.archive.large import LargeRecord, measure_large
from benchmarks.archive.ours import export_all, export_cdxj, import_all, look_up_imported, round_trip
from benchmarks.archive.peers import (
    index_with_cdxj_indexer,
    read_with_fastwarc,
    read_with_warcio,
    rewrite_with_warcio,
    write_with_warcio,
)
from benchmarks.archive.sample import chosen
from benchmarks.archive.small import SmallRecords, measure_small
from benchmarks.archive.workload import READER, SUBJECTS, ArchiveWorkload
from benchmarks.harness.corpus import Corpus
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.process import ChildFailed, run_apart
from benchmarks.harness.run import Missing, Progress, Runner, Step


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
    small_records: int = 0  # with payloads of up to 600 bytes; none if zero
    pywb: str = sys.executable  # an interpreter that has pywb


@dataclass(slots=True)
class ArchiveOutcome:
    """All that a run found."""

    crawls: Crawls | None = None
    figures: list[Figure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    scales: list[CatalogScale] = field(default_factory=list)
    large: LargeRecord | None = None
    small: SmallRecords | None = None

    def find(self, subject: str, workload: ArchiveWorkload, form: str = "") -> Figure | None:
        """The figure of that place, if there is one."""
        wanted = (subject, workload, form)
        return next((each for each in self.figures if (each.subject, each.workload, each.form) == wanted), None)

    def forms(self, workload: ArchiveWorkload) -> list[str]:
        """The forms in which the workload was measured, in order."""
        return list(dict.fromkeys(each.form for each in self.figures if each.workload == workload))


def run_archive(plan: ArchivePlan, directory: Path, progress: Progress) -> ArchiveOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on."""
    return _Run(plan, directory, progress).run()


class _Run:
    """A run under way."""

    def __init__(self, plan: ArchivePlan, directory: Path, progress: Progress) -> None:
        self._plan = plan
        self._directory = directory
        self._outcome = ArchiveOutcome()
        self._runner = Runner[Figure](plan.repeats, self._count(), progress)

    def run(self) -> ArchiveOutcome:
        plan, outcome, runner = self._plan, self._outcome, self._runner
        if plan.corpus is not None:
            runner.announce("making the WARC files of two crawls")
            outcome.crawls = run_apart(build, plan.corpus, self._directory / "crawls")
            for turn in range(plan.repeats):  # repeats are spread over the run, so that a slow minute hits one of each
                self._repeat(outcome.crawls, turn)
        for captures in self._catalogs():
            self._attempt_captures(captures)
        if plan.large_bytes:
            self._attempt_large(plan.large_bytes)
        if plan.small_records:
            self._attempt_small(plan.small_records)
        outcome.figures += runner.figures()
        outcome.missing = runner.missing
        runner.finish()
        return outcome

    def _catalogs(self) -> list[int]:
        """Sizes of the synthetic catalogs, without repetition."""
        wanted = self._plan.captures if ArchiveWorkload.LOOKUP in self._plan.workloads else 0
        return sorted({*self._plan.scales, wanted} - {0})

    def _count(self) -> int:
        repeats = self._plan.repeats if self._plan.corpus is not None else 0
        steps = sum(1 for each in _PLANNED if self._wanted(*each)) if repeats else 0
        return (1 if repeats else 0) + repeats * steps + len(self._catalogs()) + self._others()

    def _others(self) -> int:
        return bool(self._plan.large_bytes) + bool(self._plan.small_records)

    def _wanted(self, subject: str, workload: str) -> bool:
        return subject in self._plan.subjects and workload in self._plan.workloads

    # -- one repeat ---------------------------------------------------------------------------------------------

    def _repeat(self, crawls: Crawls, turn: int) -> None:
        directory = self._directory / f"repeat-{turn}"
        directory.mkdir()
        if self._wanted("gzip-warc", ArchiveWorkload.SPACE) and not turn:
            space = _space_of(crawls)
            self._runner.found[space.place].append(space)
        try:
            for step in _steps(crawls, directory, self._plan.pywb):
                wanted = self._wanted(step.subject, step.what)
                if wanted or (step.makes is not None and self._needed(step)):
                    self._runner.attempt(step, turn, quiet=not wanted or step.function is export_cdxj)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        for place in [place for place in self._runner.found if not self._wanted(str(place[0]), str(place[1]))]:
            del self._runner.found[place]  # of steps that others needed

    def _needed(self, step: Step) -> bool:
        """The archive is needed by everything that is ours, the CDXJ file by those that search it."""
        searching = any(self._wanted(each, ArchiveWorkload.LOOKUP) for each in ("cdxj-file", "pywb"))
        if step.makes is not None and step.makes.suffix == ".cdxj":
            return searching
        after_import = (ArchiveWorkload.SPACE, ArchiveWorkload.LOOKUP, ArchiveWorkload.EXPORT)
        ours = any(self._wanted(name, each) for name in (OURS, READER) for each in after_import)
        return searching or ours

    # -- synthetic captures, and the large record ---------------------------------------------------------------

    def _attempt_captures(self, captures: int) -> None:
        directory = self._directory / f"captures-{captures}"
        directory.mkdir()
        self._runner.announce(f"catalog of {captures:,} synthetic captures")
        os.sync()
        try:
            scale, figures = measure_captures(directory / "catalog", captures, self._plan.repeats)
            self._outcome.scales.append(scale)
            if self._wanted(OURS, ArchiveWorkload.LOOKUP) and captures == self._plan.captures:
                self._runner.found[figures[0].place] += figures
                self._search_file(directory / "captures.cdxj", captures)
        except ChildFailed as failure:
            self._runner.note(OURS, form_of(captures), failure)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _search_file(self, path: Path, captures: int) -> None:
        """The peers' lookups in the same captures."""
        peers = [each for each in ("cdxj-file", "pywb") if self._wanted(each, ArchiveWorkload.LOOKUP)]
        if not peers:
            return
        run_apart(write_cdxj, path, captures)
        urls, form = sample_urls(captures), form_of(captures)
        for turn in range(self._plan.repeats):
            for step in _searches(path, urls, form, self._plan.pywb):
                if step.subject in peers:
                    self._runner.attempt(step, turn, quiet=True)

    def _attempt_large(self, payload_bytes: int) -> None:
        directory = self._directory / "large"
        self._runner.announce(f"one record of {payload_bytes:,} bytes")
        os.sync()
        try:
            self._outcome.large = measure_large(directory, payload_bytes)
        except ChildFailed as failure:
            self._runner.note(OURS, "one large record", failure)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _attempt_small(self, records: int) -> None:
        directory = self._directory / "small"
        self._runner.announce(f"{records:,} small records")
        os.sync()
        try:
            self._outcome.small = measure_small(directory, records)
        except ChildFailed as failure:
            self._runner.note(OURS, "small records", failure)
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
