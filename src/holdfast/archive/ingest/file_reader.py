"""A reader of a file to be imported: records become drafts, in groups; findings are reported as they are made.

A reader only reads: it may run in a thread or in a process of its own (`import_worker`). What it emits:

    DraftGroup  up to 512 records, in their order
    LargeDraft  a record whose payload was put into a file of its own
    Finding     something wrong with the file
    EndOfFile   the file is read, or given up because of an error
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from holdfast.archive.ingest.input import ImportInput
from holdfast.errors import HoldfastError, MalformedInput
from holdfast.formats import Finding, FindingKind, open_records
from holdfast.records.draft import Drafting, RecordDraft

log = logging.getLogger("holdfast.archive")
DRAFTS_MAX = 512
_PAYLOAD_BYTES_MAX = 16 << 20
DATE_ORIGINS = {
    "part": "what is left of its date",
    "http": "the Date of its HTTP message",
    "neighbour": "the record beside it",
    "none": "nothing: no date was found",
}


@dataclass(frozen=True, slots=True)
class DraftGroup:
    drafts: list[RecordDraft]


@dataclass(frozen=True, slots=True)
class LargeDraft:
    draft: RecordDraft


@dataclass(frozen=True, slots=True)
class EndOfFile:
    error: HoldfastError | None = None


Event = DraftGroup | LargeDraft | Finding | EndOfFile


class ReaderStopped(Exception):
    """The import has ended: no more events are wanted."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a file is to be read."""

    strict: bool = False
    verify_digests: bool = True
    spool: Path = Path()  # where files for large payloads are made, with this prefix


class FileReader:
    """Reads one file. `emit` takes the events in their order; it may block, and raise ReaderStopped."""

    def __init__(
        self, source: ImportInput, drafting: Drafting, options: ReadOptions, emit: Callable[[Event], None]
    ) -> None:
        self._source = source
        self._drafting = drafting
        self._options = options
        self._emit = emit
        self._spools = count()

    def run(self) -> None:
        try:
            with self._source.opened(self._emit) as stream:
                self._read(stream)
            end = EndOfFile()
        except MalformedInput as error:
            end = EndOfFile(MalformedInput(f"cannot import '{self._source.name}': {error}"))
        except HoldfastError as error:
            end = EndOfFile(error)
        except OSError as error:
            end = EndOfFile(MalformedInput(f"cannot read '{self._source.name}': {error.strerror or error}"))
        except ReaderStopped:
            raise
        except Exception as error:  # an edge: whatever it is, the file must not seem to be in
            log.exception("cannot import '%s'", self._source.name)
            end = EndOfFile(HoldfastError(f"cannot import '{self._source.name}': {type(error).__name__}: {error}"))
        self._emit(end)

    def _read(self, stream: BinaryIO) -> None:
        drafts: list[RecordDraft] = []
        payload_bytes = 0
        options = self._options
        for record in open_records(
            stream, strict=options.strict, report=self._emit, verify_digests=options.verify_digests
        ):
            try:
                if self._drafting.is_large(record):
                    large = self._drafting.large_draft(record, self._next_spool())
                    self._hand_over(drafts)
                    self._report_date(large)
                    self._emit(LargeDraft(large))
                    drafts, payload_bytes = [], 0
                    continue
                draft = self._drafting.draft(record)
            except MalformedInput:
                if options.strict:
                    raise
                continue  # the iterator reports what is lost
            drafts.append(draft)
            payload_bytes += len(draft.payload)
            if len(drafts) > DRAFTS_MAX or payload_bytes > _PAYLOAD_BYTES_MAX:
                self._hand_over(drafts, keep=1)  # the last may belong to the one that comes next
                drafts = drafts[-1:]
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
        base = self._options.spool
        return base.with_name(f"{base.name}-{next(self._spools)}.open")

    def _hand_over(self, drafts: list[RecordDraft], keep: int = 0) -> None:
        self._drafting.complete(drafts)
        ready = drafts[: len(drafts) - keep]
        for draft in ready:
            self._report_date(draft)
        if ready:
            self._emit(DraftGroup(ready))
