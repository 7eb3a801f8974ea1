"""Reads a file to be imported: records become drafts, in groups; findings are reported as they are made.

A reader only reads: it may run in a thread, or in a process (`reader_process`). It emits

    DraftGroup  up to 512 records, in their order; or one with its payload in a spool file
    Finding     something wrong with the file
    EndOfFile   the file has been read, or abandoned because of an error
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from holdfast.errors import Denied, HoldfastError, MalformedInput, NotFound, UsageError
from holdfast.formats.io.open import open_records
from holdfast.formats.record import Finding, FindingKind, Report
from holdfast.records.draft import Drafting, RecordDraft
from holdfast.storage.store.encoder import ContentEncoding

if TYPE_CHECKING:
    from holdfast.formats.wacz.reader import Wacz

log = logging.getLogger("holdfast.archive")
DRAFTS_MAX = 512
_FIRST_DRAFTS_MAX = 64  # of the first group of a file, so that adding begins soon; the next are larger
_PAYLOAD_BYTES_MAX = 8 << 20
_ZIP_MAGIC = b"PK\x03\x04"
DATE_ORIGINS = {
    "part": "what is left of its date",
    "http": "the Date of its HTTP message",
    "neighbour": "the record beside it",
    "none": "nothing: no date was found",
}


@dataclass(frozen=True, slots=True)
class ImportInput:
    """A file to be imported. It can be handed to another process unless it is a stream."""

    name: str
    path: Path | None = None
    member: str = ""  # of a WACZ at `path`
    is_first: bool = False  # of the members: with it the WACZ itself is verified
    size: int | None = None
    stream: BinaryIO | None = None

    @contextmanager
    def opened(self, report: Report) -> Iterator[BinaryIO]:
        """Its bytes. Faults of the WACZ around them go to `report`."""
        if self.path is None:
            assert self.stream is not None
            yield self.stream
        elif not self.member:
            with self.path.open("rb", buffering=0) as file:
                yield file
        else:
            from holdfast.formats.wacz.reader import Wacz

            with Wacz(self.path) as wacz, wacz.open(self.member) as stream:
                if self.is_first:
                    wacz.verify(report)
                yield stream


def inputs_of(path: Path) -> list[ImportInput]:
    """The file itself, or the WARC files in a WACZ.

    Raises MalformedInput for a broken WACZ, NotFound, Denied, or UsageError for a directory.
    """
    try:
        with path.open("rb") as file:
            is_zip = file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
    except FileNotFoundError:
        raise NotFound(f"cannot import '{path}': no such file") from None
    except IsADirectoryError:
        raise UsageError(f"cannot import '{path}': it is a directory; give the files in it") from None
    except PermissionError:
        raise Denied(f"cannot import '{path}': no permission to read it") from None
    if not is_zip:
        return [ImportInput(path.name, path, size=path.stat().st_size)]
    from holdfast.formats.wacz.reader import Wacz

    with Wacz(path) as wacz:
        if not wacz.warcs:
            raise MalformedInput(f"'{path.name}' {_without_warcs(wacz)}")
        return [
            ImportInput(f"{path.name}:{Path(name).name}", path, name, is_first=index == 0, size=wacz.size(name))
            for index, name in enumerate(wacz.warcs)
        ]


def _without_warcs(wacz: Wacz) -> str:
    """Why a WACZ has nothing to import."""
    elsewhere = [name for name in wacz.names() if name.lower().endswith((".warc", ".warc.gz", ".wacz"))]
    if elsewhere:
        return f"has no WARC in its folder 'archive/': unpack it and import '{elsewhere[0]}' and the like by themselves"
    return "is a WACZ or zip file without WARCs: there is nothing to import in it"


@dataclass(frozen=True, slots=True)
class DraftGroup:
    drafts: list[RecordDraft]


@dataclass(frozen=True, slots=True)
class EndOfFile:
    error: HoldfastError | None = None


Event = DraftGroup | Finding | EndOfFile


class ReaderStopped(Exception):
    """The import has ended: no more events are wanted."""


@dataclass(frozen=True, slots=True)
class ImportTask:
    """A file to be read, and how."""

    source: ImportInput
    drafting: Drafting
    signature: str  # the algorithm; readers sign the payloads
    strict: bool
    verify_digests: bool
    spool: Path  # where files for large payloads are made, with this prefix
    encoding: ContentEncoding | None = None  # of new contents; None: they are encoded when they are stored


class FileReader:
    """Reads one file. `emit` takes the events in their order; it may block, and raise ReaderStopped."""

    def __init__(self, task: ImportTask, emit: Callable[[Event], None]) -> None:
        self._task = task
        self._emit = emit
        self._spools = count()

    def run(self) -> None:
        try:
            with self._task.source.opened(self._emit) as stream:
                self._read(stream)
            end = EndOfFile()
        except MalformedInput as error:
            end = EndOfFile(MalformedInput(f"cannot import '{self._task.source.name}': {error}"))
        except HoldfastError as error:
            end = EndOfFile(error)
        except OSError as error:
            end = EndOfFile(MalformedInput(f"cannot read '{self._task.source.name}': {error.strerror or error}"))
        except ReaderStopped:
            raise
        except Exception as error:  # an edge: whatever it is, the file must not seem to be in
            log.exception("cannot import '%s'", self._task.source.name)
            end = EndOfFile(HoldfastError(f"cannot import '{self._task.source.name}': {type(error).__name__}: {error}"))
        self._emit(end)

    def _read(self, stream: BinaryIO) -> None:
        drafts: list[RecordDraft] = []
        payload_bytes = 0
        most = _FIRST_DRAFTS_MAX
        task = self._task
        for record in open_records(stream, strict=task.strict, report=self._emit, verify_digests=task.verify_digests):
            try:
                if self._task.drafting.is_large(record):
                    large = self._task.drafting.large_draft(record, self._next_spool())
                    self._hand_over(drafts)
                    self._hand_over([large])
                    drafts, payload_bytes = [], 0
                    continue
                draft = self._task.drafting.draft(record)
            except MalformedInput:
                if task.strict:
                    raise
                continue  # the iterator reports what is lost
            drafts.append(draft)
            payload_bytes += len(draft.payload)
            # The first date of a file is also that of the records before it: they go into one group.
            limit = min(most, DRAFTS_MAX) if task.drafting.last_timestamp else DRAFTS_MAX
            if len(drafts) > limit or payload_bytes > _PAYLOAD_BYTES_MAX:
                self._hand_over(drafts, keep=1)  # the last may belong to the one that comes next
                drafts = drafts[-1:]
                most *= 2
                payload_bytes = len(draft.payload)
        self._hand_over(drafts)

    def _report_date(self, draft: RecordDraft) -> None:
        """Names the time that a record got because its own date cannot be read."""
        entry = draft.entry
        if '"dateFrom": ' not in entry.extra:
            return
        origin = DATE_ORIGINS[json.loads(entry.extra)["dateFrom"]]
        self._emit(Finding(FindingKind.INVALID, entry.offset, entry.length, f"dated {entry.timestamp} by {origin}"))

    def _next_spool(self) -> Path:
        return self._task.spool.with_name(f"{self._task.spool.name}-{next(self._spools)}.open")

    def _hand_over(self, drafts: list[RecordDraft], keep: int = 0) -> None:
        if not (drafts and drafts[0].spooled):
            self._task.drafting.complete(drafts)
        ready = drafts[: len(drafts) - keep]
        for draft in ready:
            if draft.entry.extra != "-":
                self._report_date(draft)
        if ready:
            self._emit(DraftGroup(ready))
