"""Import of files: readers make drafts, the caller's thread adds them.

    file ── reader (a process) ── drafts, 512 at a time ──┐
    file ── reader (a process) ── drafts ─────────────────┤─ queue ── caller's thread ── archive.add
    stream ── reader (a thread) ── drafts ────────────────┘

A reader decompresses, verifies and splits records. It reads ahead only a few groups, which bounds memory. Small files
are read in a thread: starting a process takes longer. Groups that wait are added together: they share the syncs. At the
end of each file the list of its records goes into the batch as an entry of type `source`, so that the file can be
written again exactly (N3).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, groupby
from pathlib import Path
from queue import Empty, Full, Queue

from holdfast.archive.index_update import bring_up_at, is_automatic
from holdfast.archive.ingest.file_reader import (
    DraftGroup,
    EndOfFile,
    Event,
    FileReader,
    ImportInput,
    ImportTask,
    ReaderStopped,
)
from holdfast.archive.ingest.manifest import Manifest
from holdfast.archive.ingest.reader_process import ReaderPool, ReaderProcess
from holdfast.archive.ingest.writer import Added, AddOutcome, ArchiveWriter
from holdfast.arguments import check_fields
from holdfast.config import Settings
from holdfast.errors import HoldfastError
from holdfast.formats.record import Finding, FindingKind
from holdfast.records.draft import Drafting, RecordDraft, fits_inline
from holdfast.storage.store.encoder import ContentEncoding

PROCESS_BYTES_MIN = 4 << 20  # smaller files are read in a thread
_READY_MAX = 2  # groups of drafts that wait to be added, per reader
_TAKEN_MAX = 4  # groups that are added together
_FINDINGS_MAX = 1000
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options of an import. None: from the archive's settings."""

    collection: str | None = None
    batch: str | None = None
    jobs: int = 1  # files that are read at a time
    strict: bool = False  # stop at the first fault
    verify_digests: bool = True
    index: bool | None = None  # index the new records at the end

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(slots=True)
class ImportReport:
    """The result of one file."""

    name: str
    bytes: int = 0
    records: int = 0
    added: int = 0
    known: int = 0
    refused: int = 0
    lost: int = 0  # ranges that could not be read
    lost_bytes: int = 0
    truncated: int = 0  # records of which only a part is there
    invalid: int = 0  # rules that were broken
    findings: list[Finding] = field(default_factory=list)  # the first of them
    error: HoldfastError | None = None  # why the file was abandoned
    complete: bool = False

    def note(self, finding: Finding) -> None:
        if finding.kind is FindingKind.LOST:
            self.lost += 1
            self.lost_bytes += finding.length
        elif finding.kind is FindingKind.TRUNCATED:
            self.truncated += 1
        else:
            self.invalid += 1
        if len(self.findings) < _FINDINGS_MAX:
            self.findings.append(finding)

    def count(self, added: Sequence[Added]) -> None:
        self.records += len(added)
        for each in added:
            if each.outcome is AddOutcome.ADDED:
                self.added += 1
            elif each.outcome is AddOutcome.KNOWN:
                self.known += 1
            else:
                self.refused += 1


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """The result of an import. Iterates over the reports of its files, in the order in which they finished."""

    files: tuple[ImportReport, ...]

    def __iter__(self) -> Iterator[ImportReport]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    @property
    def complete(self) -> bool:
        """True if every file was read to its end."""
        return all(each.complete for each in self.files)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.files)

    @property
    def records(self) -> int:
        return sum(each.records for each in self.files)

    @property
    def added(self) -> int:
        return sum(each.added for each in self.files)

    @property
    def known(self) -> int:
        return sum(each.known for each in self.files)

    @property
    def refused(self) -> int:
        return sum(each.refused for each in self.files)

    @property
    def lost(self) -> int:
        """Ranges that could not be read."""
        return sum(each.lost for each in self.files)

    @property
    def lost_bytes(self) -> int:
        return sum(each.lost_bytes for each in self.files)

    @property
    def invalid(self) -> int:
        """Rules that were broken."""
        return sum(each.invalid for each in self.files)


@dataclass(slots=True)
class _File:
    """A file on its way in."""

    report: ImportReport
    manifest: Manifest
    drafting: Drafting

    def note(self, drafts: Sequence[RecordDraft], added: Sequence[Added]) -> int:
        """Counts and lists records that were added; returns their bytes in the file."""
        length = sum([draft.entry.length for draft in drafts])
        self.report.bytes += length
        self.report.count(added)
        self.manifest.note(added)
        return length


class Importer:
    """One import of many files. `run` is for one thread."""

    def __init__(self, writer: ArchiveWriter, root: Path, settings: Settings, options: ImportOptions) -> None:
        self._writer = writer
        self._settings = settings
        self._options = options
        self._root = root
        self._spool = root / f"import-{os.getpid()}"
        self._tasks = count()
        self._stop = threading.Event()
        self._is_repeated = False  # most contents of the last group were in the archive
        self._pools: list[ReaderPool] = []
        self._idle: list[ReaderProcess] = []

    def run(
        self, inputs: Sequence[ImportInput], progress: Callable[[int], None] | None = None
    ) -> Iterator[ImportReport]:
        """Yields a report for each file as it is done; `progress` is called with the bytes read since its last call.

        In strict mode the first fault raises MalformedInput. Records added before an error stay.
        """
        is_indexed = is_automatic(self._settings.index, self._options.index)
        jobs = max(1, min(self._options.jobs, len(inputs)))
        waiting = iter(inputs)
        if readers := min(jobs, sum(map(_wants_process, inputs))):
            self._start(readers)
        turns = threading.Lock()
        ready: Queue[tuple[_File, Event]] = Queue(_READY_MAX * jobs)

        def work() -> None:
            reader: ReaderProcess | None = None
            while not self._stop.is_set():
                with turns:
                    source = next(waiting, None)
                if source is None:
                    break
                with suppress(ReaderStopped):
                    reader = self._read(source, ready, reader)
            if reader is not None:
                reader.close()  # while the last records are added

        threads = [threading.Thread(target=work, name=f"holdfast-import-{index}", daemon=True) for index in range(jobs)]
        for thread in threads:
            thread.start()
        is_done = False
        try:
            yield from self._add_all(len(inputs), ready, threads, progress or (lambda _: None))
            is_done = True
        finally:
            self._stop.set()
            if not is_done:
                for pool in self._pools:
                    pool.kill()
            for thread in threads:
                thread.join()
            for pool in self._pools:
                pool.close()
            for left in self._spool.parent.glob(f"{self._spool.name}-*.open"):
                left.unlink(missing_ok=True)
        if is_indexed:
            bring_up_at(self._root)

    # -- the adder's side ---------------------------------------------------------------------------------------

    def _add_all(
        self,
        files: int,
        ready: Queue[tuple[_File, Event]],
        threads: Sequence[threading.Thread],
        progress: Callable[[int], None],
    ) -> Iterator[ImportReport]:
        """Until so many files have ended."""
        while files and (any(thread.is_alive() for thread in threads) or not ready.empty()):
            try:
                taken = [ready.get(timeout=_POLL_S)]
            except Empty:
                progress(0)
                continue
            while len(taken) < _TAKEN_MAX and not ready.empty():  # nobody else takes
                taken.append(ready.get())
            for is_group, some in groupby(taken, key=_is_group):
                if is_group:
                    progress(self._add([(file, event.drafts) for file, event in some if isinstance(event, DraftGroup)]))
                    continue
                for file, event in some:
                    before = file.report.bytes
                    self._take(file, event)
                    progress(file.report.bytes - before)
                    if isinstance(event, EndOfFile):
                        files -= 1
                        yield self._ended(file, event)

    def _add(self, groups: Sequence[tuple[_File, list[RecordDraft]]]) -> int:
        """Adds groups of several files together; returns how many bytes of the files they were."""
        drafts = [draft for _, group in groups for draft in group]
        added = self._writer.add(drafts, self._options.batch)
        contents = sum(map(_has_content, drafts))
        self._is_repeated = 2 * sum([each.new_content for each in added]) < contents
        at = length = 0
        for file, group in groups:
            length += file.note(group, added[at : at + len(group)])
            at += len(group)
        return length

    def _take(self, file: _File, event: Event) -> None:
        if isinstance(event, DraftGroup):
            file.note(event.drafts, [self._writer.add_large(event.drafts[0], self._options.batch)])
        elif isinstance(event, Finding):
            file.report.note(event)
            if event.kind is FindingKind.LOST:
                file.report.bytes += event.length

    def _ended(self, file: _File, end: EndOfFile) -> ImportReport:
        report = file.report
        if end.error is not None:
            if self._options.strict:
                raise end.error
            report.error = end.error
            return report
        report.complete = True
        if report.records and file.manifest.ids:
            self._writer.add([file.manifest.draft(file.drafting.collection, report)], self._options.batch)
        return report

    # -- the readers' side --------------------------------------------------------------------------------------

    def _read(
        self, source: ImportInput, ready: Queue[tuple[_File, Event]], reader: ReaderProcess | None
    ) -> ReaderProcess | None:
        """Returns the process that may read the thread's next file: `reader`, if it has one already."""
        collection = self._options.collection or self._settings.records.collection
        drafting = Drafting(collection, source.name)
        file = _File(ImportReport(source.name), Manifest(source.name), drafting)
        task = ImportTask(
            source,
            drafting,
            self._settings.store.signature,
            self._options.strict,
            self._options.verify_digests,
            self._spool.with_name(f"{self._spool.name}-{next(self._tasks)}"),
            self._encoding(),
        )

        def emit(event: Event) -> None:
            self._put(ready, file, event)

        if not _wants_process(source):
            FileReader(task, emit).run()
            return reader
        if reader is None:
            if not self._idle:  # one died
                self._start(1)
            reader = self._idle.pop()
        for event in reader.read(task, self._encoding):
            emit(event)
        return None if reader.failed else reader

    def _encoding(self) -> ContentEncoding | None:
        """How readers encode contents: not at all while most are duplicates, which are not stored again."""
        return None if self._is_repeated else self._writer.contents.encoding()

    def _start(self, readers: int) -> None:
        pool = ReaderPool(readers)
        self._pools.append(pool)
        self._idle += pool.readers

    def _put(self, ready: Queue[tuple[_File, Event]], file: _File, event: Event) -> None:
        while not self._stop.is_set():
            try:
                ready.put((file, event), timeout=_POLL_S)
                return
            except Full:
                continue
        raise ReaderStopped


def _is_group(taken: tuple[_File, Event]) -> bool:
    """True for drafts that may be added together with others."""
    event = taken[1]
    return isinstance(event, DraftGroup) and not event.drafts[0].spooled


def _has_content(draft: RecordDraft) -> bool:
    """True if the store, not its record, keeps its payload."""
    return bool(draft.payload) and not fits_inline(draft.entry)


def _wants_process(source: ImportInput) -> bool:
    return source.path is not None and (source.size or 0) >= PROCESS_BYTES_MIN
