"""A worker process: reads records and extracts them.

Tasks come by standard input, results go to standard output, in frames. The serial of the current document is in memory
shared with the parent, which so knows the document that killed a worker. A closed pipe ends the worker.
"""

from __future__ import annotations

import marshal
import mmap
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple

from holdfast.batches.entry import REFERENCE, JournalEntry
from holdfast.batches.frame import FramePlace
from holdfast.batches.journal import Journal
from holdfast.env.child_process import collect_seldom, packed_frame, read_frame
from holdfast.errors import CaptureNotFound, ContentNotFound, DamagedBatch, DamagedBlock, HoldfastError, MalformedInput
from holdfast.index.extract.extract import Extracted, ExtractionLimits, Failure, extract, read_payload
from holdfast.index.extract.rows import Rows
from holdfast.model import Capture, RecordId
from holdfast.records.draft import capture_of, is_captured
from holdfast.records.records import Records, opened_records
from holdfast.records.stored_record import StoredRecord

SLOT_BYTES = 8
_WALL_FACTOR = 20  # wall time per CPU time: reading a content may take a while


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Where a worker reads, and its limits."""

    root: str  # of the archive
    limits: ExtractionLimits
    seconds_max: float  # CPU time per document
    memory_bytes_max: int


class IndexTask(NamedTuple):
    """Records of a batch to be indexed."""

    batch: str
    number: int  # of the batch
    first: int  # serial
    end: int  # first serial after the task
    places: tuple[bytes, ...]  # of their frames
    only: tuple[int, ...] = ()  # serials; empty: all
    prepared: Mapping[int, bytes] = {}  # extracted before, by serial (`Extracted.pack`)


class TaskResult(NamedTuple):
    """The result of a task."""

    documents: list[dict[str, Any]]  # as tantivy takes them
    captures: bytes  # rows, as an Arrow stream
    links: bytes
    bytes: int  # of payloads read
    unresolved: list[int]  # numbers of revisits whose originals are not in the archive


def pack(value: Any) -> bytes:
    """A frame of plain values."""
    return packed_frame(marshal.dumps(value))


def unpack(stream: IO[bytes]) -> Any:
    """The value of the next frame. Raises EOFError at the end of the stream."""
    return marshal.loads(read_frame(stream))


class TaskReader:
    """Carries out tasks. Calls `begin` with the serial of each document before it is read."""

    def __init__(self, records: Records, limits: ExtractionLimits, begin: Callable[[int], None]) -> None:
        self._records = records
        self._limits = limits
        self._begin = begin
        self._bytes = 0

    def read(self, task: IndexTask, known: Mapping[int, str]) -> TaskResult:
        """Rows and documents of a task. `known` has failures of documents that killed a worker: they are skipped."""
        self._bytes = 0
        rows = Rows(task.number)
        for entry in self._entries(task):
            if is_captured(entry):
                self._add(rows, task, entry, known.get(entry.serial, ""))
        self._begin(0)
        return TaskResult(rows.documents, rows.captures(), rows.links(), self._bytes, rows.unresolved)

    def _entries(self, task: IndexTask) -> Iterator[JournalEntry]:
        wanted = set(task.only)
        for packed in task.places:
            for entry in self._frame(task.batch, FramePlace.unpack(packed)):
                if task.first <= entry.serial < task.end and (not wanted or entry.serial in wanted):
                    yield entry

    def _frame(self, batch: str, place: FramePlace) -> list[JournalEntry]:
        """The entries of a frame; if it was moved or is damaged, those that are found one by one."""
        try:
            return self._records.journal.read(batch, place)
        except (DamagedBatch, FileNotFoundError):
            found = []
            for serial in range(place.first_serial, place.first_serial + place.entries):
                try:
                    entry = self._records.entry(RecordId(batch, serial))
                except DamagedBatch:
                    continue
                if entry is not None:
                    found.append(entry)
            return found

    def _add(self, rows: Rows, task: IndexTask, entry: JournalEntry, failure: str) -> None:
        capture = capture_of(entry, task.batch)
        if (known := _known(task, entry)) is not None:
            rows.add(capture, None, known)
            return
        self._begin(entry.serial)
        original: Capture | None = None
        found = Extracted(failure=failure)
        try:
            record = self._records.stored(capture.record, entry)
            if entry.type == REFERENCE:
                record = self._records.read(capture.record)
            elif entry.type == "revisit" and entry.contents == "-":
                original = self._records.original(capture)
                record = self._records.read(original.record)
            if not failure:
                found = self._extract(capture, record)
        except MemoryError:
            found = Extracted(failure=Failure.MEMORY)
        except _LOST:
            found = Extracted(failure=failure or Failure.CONTENT)
        rows.add(capture, original, found)
        if entry.type == "revisit" and entry.contents == "-" and original is None:
            rows.note_unresolved(entry.serial)

    def _extract(self, capture: Capture, record: StoredRecord) -> Extracted:
        payload, size = read_payload(record, capture.url, self._limits.document_bytes)
        self._bytes += size
        return extract(payload, self._limits)


def read_prepared(task: IndexTask, journal: Journal) -> TaskResult | None:
    """Rows and documents of a task if all its documents are prepared; None if a worker must read some."""
    try:
        frames = [journal.read(task.batch, FramePlace.unpack(packed)) for packed in task.places]
    except (DamagedBatch, FileNotFoundError):
        return None
    rows = Rows(task.number)
    for entry in chain.from_iterable(frames):
        if task.first <= entry.serial < task.end and is_captured(entry):
            if (known := _known(task, entry)) is None:
                return None
            rows.add(capture_of(entry, task.batch), None, known)
    return TaskResult(rows.documents, rows.captures(), rows.links(), 0, rows.unresolved)


def _known(task: IndexTask, entry: JournalEntry) -> Extracted | None:
    """What is known of an entry without reading its content."""
    if entry.type in _UNREAD:
        return Extracted()
    return Extracted.unpack(task.prepared[entry.serial]) if entry.serial in task.prepared else None


class _WithoutPandas(MetaPathFinder):
    """Arrow imports pandas if it is installed, which takes as long as all other imports."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def forgo_pandas() -> None:
    """Hides pandas from a process that uses Arrow."""
    sys.meta_path.insert(0, _WithoutPandas())


def main() -> None:
    """Runs until standard input ends. The argument is the descriptor of the shared memory."""
    forgo_pandas()
    collect_seldom()
    slot = mmap.mmap(int(sys.argv[1]), SLOT_BYTES)
    source = sys.stdin.buffer
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not disturb the frames
    root, document_bytes, text_characters, seconds_max, memory_bytes_max = unpack(source)
    options = WorkerOptions(root, ExtractionLimits(document_bytes, text_characters), seconds_max, memory_bytes_max)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes_max, memory_bytes_max))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def begin(serial: int) -> None:
        """The kernel kills us if this document takes too long, even inside a library."""
        slot[:] = serial.to_bytes(SLOT_BYTES, "little")
        seconds = options.seconds_max if serial else 0
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds * _WALL_FACTOR)

    try:
        with opened_records(Path(options.root)) as records:
            reader = TaskReader(records, options.limits, begin)
            while True:
                task, known = unpack(source)
                sink.write(pack((True, tuple(reader.read(IndexTask(*task), known)))))
                sink.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)
    except HoldfastError as error:
        begin(0)
        sink.write(pack((False, (type(error).__name__, str(error)))))
        sink.flush()


_UNREAD = frozenset(("metadata",))  # rows without documents
_LOST = (CaptureNotFound, ContentNotFound, DamagedBlock, DamagedBatch, MalformedInput)
