"""Reading records out of a file, whatever has happened to it (I3, N7).

    aligned ──head and end are right──▶ record handed out ──▶ aligned
       │                                                        ▲
       └──anything is wrong──▶ lost: search the next place ─────┘
                               where a whole record stands

A record is handed out when its head parses and what stands behind its block is the end of a record; blocks of up to
`SMALL_BYTES` are looked at whole beforehand. What was not handed out is reported as lost with its offset and length in
the file. Ranges of records and lost ranges together are the file: no byte twice, no byte missing but for the frames of
zstd that hold no record by right (dictionary, skippable). Records that share a gzip member have its offset; the last of
them has its length, the others have length 0.

Every byte is read once and searched at most twice; memory is a few pieces of the file, whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import MalformedInput
from holdfast.formats.blocks import BytesBlock, Checks, StreamBlock
from holdfast.formats.record import Finding, FindingKind, Record, Report
from holdfast.formats.source import Source

SMALL_BYTES = 1024 * 1024  # blocks up to here are checked whole before they are handed out
HEAD_BYTES_MAX = 1024 * 1024
PLAUSIBLE_BYTES = 8192  # that are looked at to see whether a record begins
TAIL_LOOK = 64  # bytes behind a block that are looked at when it does not end as it should
_NEWLINES = (b"\n", b"\r")


class Unreadable(Exception):
    """Here stands no whole record; the message says why. `resume` is where to search on, if that is not the next byte.

    A framing that has tried many starts in vain before one and the same end of a head uses it: so reading stays linear.
    """

    def __init__(self, reason: str, resume: int = 0) -> None:
        super().__init__(reason)
        self.resume = resume


class Framing(Protocol):
    """What the reader must know of a format."""

    usual_tail: bytes
    hold_bytes: int  # of what was searched in vain: here a start may begin that is not complete yet

    def parse(self, source: Source) -> Record:
        """The record whose head stands at the source's position, which does not move. Raises Unreadable."""

    def find(self, data: bytes, start: int) -> int:
        """Index of the next place that looks like the start of a record; -1 if there is none."""

    def plausible(self, begin: bytes) -> bool:
        """Whether these bytes, from the start of a member or behind a record, begin a record."""

    def tail(self, rest: bytes) -> tuple[int, str]:
        """Size of the tail at the start of `rest`, and what is wrong with it. Raises Unreadable if it is none."""

    def usual_start(self, rest: bytes, *, odd: bool) -> bool:
        """Whether `rest`, behind a record, is good reason to believe in it; its tail may have been `odd`."""

    def holds_start(self, block: bytes) -> bool:
        """Whether another record begins within the block, so that its length may be wrong."""

    def faults(self, record: Record) -> list[str]:
        """Rules of the format that the head breaks."""

    def checks(self, record: Record, *, doubtful: bool = False) -> Checks | None:
        """What to test in the block; more of one that is `doubtful`, because something else is wrong with it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read: see `open_records`."""

    strict: bool = False
    report: Report | None = None
    validate: bool = True
    verify_digests: bool = True


class RecordReader:
    """The records of one source. One thread; each record is done with when the next is asked for."""

    def __init__(self, source: Source, framing: Framing, reading: Reading) -> None:
        self._source = source
        self._framing = framing
        self._reading = reading
        self._done = 0  # all of the file before this offset is accounted for
        self._done_decoded = 0
        self._fault = ""  # why bytes are being lost
        self._shared_told = False

    def doubt(self, reason: str) -> None:
        """Why it is likely that nothing can be read; told if it is so."""
        self._fault = reason

    def __iter__(self) -> Iterator[Record]:
        while (record := self._next()) is not None:
            yield record
            try:
                record.finish()
            except MalformedInput:
                if self._reading.strict:
                    raise
        self._account(self._source.size, self._source.position)
        if not self._source.size:
            self._tell(Finding(FindingKind.INVALID, 0, 0, "the file is empty"))

    def _next(self) -> Record | None:
        source, framing = self._source, self._framing
        while True:
            if source.pos >= len(source.data) and not source.fill(1):
                if not source.broken:
                    return None
                self._lose(source.broken)
                if not source.recover(framing.plausible):
                    return None
                continue
            start = source.position
            source.forget(start)
            try:
                record = framing.parse(source)
                self._frame(record, start)
            except Unreadable as fault:
                self._lose(str(fault))
                self._search(max(start + 1, fault.resume))
                continue
            return record

    def _frame(self, record: Record, start: int) -> None:
        """Finds the end of the record that begins at `start`, and moves behind it, or to its block if that is large."""
        source = self._source
        block_size = record.content_length
        record.offset = source.disk(start)
        if block_size > SMALL_BYTES:
            self._frame_large(record, start)
            return
        usual = self._framing.usual_tail
        head_size = len(record.head)
        end = start + head_size + block_size
        stop = end + len(usual)
        if not (source.fill(stop - start) and source.ends_at(stop)):
            source.fill(stop - start + 1)  # shows what follows, or that the member ends
        data, at = source.data, end - source.base
        if len(data) < at:
            raise Unreadable(source.broken or "the record is cut off by the end of the file")
        if source.unit:
            self._look_over_members(start, end)
        after = data[at + len(usual) : at + len(usual) + 1]
        fault = ""
        if data.startswith(usual, at) and (source.ends_at(stop) or after not in _NEWLINES):
            record.tail = usual
        else:
            record.tail, fault = self._odd_tail(end)
            stop = end + len(record.tail)
        self._doubt(record, end, odd=record.tail is not usual)
        record.block = BytesBlock(source.data, end - block_size - source.base, end - source.base)
        source.go(stop)
        self._conclude(record, start, fault)

    def _odd_tail(self, end: int) -> tuple[bytes, str]:
        """The tail at `end`, which is not the usual one."""
        source = self._source
        source.fill(end - source.position + TAIL_LOOK)
        limits = source.boundaries(end + len(self._framing.usual_tail) - 1, end + TAIL_LOOK)
        rest = source.data[end - source.base : (limits or [end + TAIL_LOOK])[0] - source.base]
        size, fault = self._framing.tail(rest)
        return rest[:size], fault

    def _doubt(self, record: Record, end: int, *, odd: bool) -> None:
        """Refuses a record that ends well by accident."""
        source = self._source
        stop = end + len(record.tail)
        at = stop - source.base
        ended = source.ends_at(stop)
        if source.unit and not ended and at == len(source.data):
            raise Unreadable(source.broken or f"the {source.unit} does not end")
        rest = b"" if ended else source.data[at : at + PLAUSIBLE_BYTES]
        if (odd or rest) and not self._framing.usual_start(rest, odd=odd):
            block = source.data[end - record.content_length - source.base : end - source.base]
            if self._framing.holds_start(block):
                raise Unreadable("its length reaches over the next record")

    def _look_over_members(self, start: int, end: int) -> None:
        source = self._source
        for boundary in source.boundaries(start, end + 1):
            at = boundary - source.base
            if boundary < end and self._framing.plausible(source.data[at : at + PLAUSIBLE_BYTES]):
                raise Unreadable("its length reaches over the next record")
            source.one_each = source.one_each and boundary == end

    def _frame_large(self, record: Record, start: int) -> None:
        source = self._source
        end = start + len(record.head) + record.content_length
        ahead = source.peek_at(end - 1, TAIL_LOOK + 1)
        if ahead is not None:
            if not ahead:
                raise Unreadable("the record is cut off by the end of the file")
            self._framing.tail(ahead[1:])
        block = StreamBlock(source, record, self._framing.plausible)
        source.go(start + len(record.head))
        record.block = block
        if self._reading.verify_digests:
            block.checks = self._framing.checks(record)
        self._account(record.offset, start)

        def finish(record: Record) -> None:
            record._finish = None
            self._finish_large(record, block, start)

        record._finish = finish

    def _finish_large(self, record: Record, block: StreamBlock, start: int) -> None:
        source = self._source
        try:
            block.drain()
            end = source.position
            source.fill(TAIL_LOOK)
            record.tail, fault = self._odd_tail(end)
            stop = end + len(record.tail)
            if source.unit and not source.ends_at(stop) and stop - source.base == len(source.data):
                raise Unreadable(source.broken or f"the {source.unit} does not end")
        except (MalformedInput, Unreadable) as error:
            failure = error if isinstance(error, MalformedInput) else block.failure(str(error))
            self._lose(block.fault)
            self._search(max(source.base, start + 1))
            raise failure from error
        source.go(stop)
        self._conclude(record, start, fault)
        if block.checks is not None:
            self._invalid(record, block.checks.faults())

    def _conclude(self, record: Record, start: int, fault: str) -> None:
        """Settles length and findings of a record whose end is known, and accounts for it."""
        source, reading = self._source, self._reading
        stop = source.position
        faults = [fault] if fault else []
        if source.unit:
            faults += self._sharing(start, stop)
            stop = source.position
        record.length = source.disk(stop) - record.offset
        self._account(record.offset, start)
        self._done = record.offset + record.length
        self._done_decoded = stop
        if reading.validate:
            faults += self._framing.faults(record)
        if faults:
            self._invalid(record, faults)
        if reading.verify_digests and isinstance(record.block, BytesBlock):
            checks = self._framing.checks(record, doubtful=bool(faults))
            if checks is not None:
                record._finish = _Verification(self, checks, record.block)

    def _sharing(self, start: int, stop: int) -> list[str]:
        """What is wrong with how the record lies in its member; skips bytes that follow it there to no purpose."""
        source = self._source
        faults = []
        if not source.ends_at(start) and not self._shared_told:
            self._shared_told = True
            faults.append(f"several records in one {source.unit}")
        if source.ends_at(stop):
            return faults
        source.fill(TAIL_LOOK)
        at = source.pos
        if self._framing.plausible(source.data[at : at + PLAUSIBLE_BYTES]):
            return faults
        source.fill(SMALL_BYTES)
        limits = source.boundaries(stop, source.base + len(source.data) + 1)
        limit = limits[0] if limits else -1
        candidate = self._framing.find(source.data, source.pos)
        if limit >= 0 and not 0 <= candidate < limit - source.base:
            faults.append(f"{limit - stop} bytes behind the record in its {source.unit}")
            source.go(limit)
        return faults

    def _search(self, position: int) -> None:
        """Moves to the next place from `position` on that looks like a record's start, or to the end of what is."""
        source, framing = self._source, self._framing
        source.go(max(position, source.base))
        while (found := framing.find(source.data, source.pos)) < 0:
            keep = min(len(source.data) - source.pos, framing.hold_bytes)
            source.pos = len(source.data) - keep
            if not source.fill(keep + 1):
                source.pos = len(source.data)
                return
        source.pos = found

    def _lose(self, reason: str) -> None:
        self._fault = self._fault or reason
        if self._reading.strict:
            raise MalformedInput(f"damaged input at {self._done}: {reason}; read it without 'strict' to salvage")

    def _account(self, offset: int, decoded: int) -> None:
        """Reports as lost what lies before, if nobody answered for it."""
        if offset == self._done and decoded == self._done_decoded:
            self._fault = ""
            return
        silent = decoded - self._done_decoded
        gaps = self._source.gaps(self._done, offset)
        reason = self._fault or ("no record" if silent > 0 else f"empty {self._source.unit}")
        if silent > 0 and not gaps:
            reason = f"{silent} decoded bytes within a {self._source.unit}: {reason}"
            gaps = [(self._done, 0)]
        self._done = max(self._done, offset)
        for start, length in gaps:
            self._tell(Finding(FindingKind.LOST, start, length, reason))
        self._done_decoded = max(self._done_decoded, decoded)
        self._fault = ""

    def _invalid(self, record: Record, faults: list[str]) -> None:
        for fault in faults:
            finding = Finding(FindingKind.INVALID, record.offset, record.length, fault)
            record.findings.append(finding)
            self._tell(finding)

    def _tell(self, finding: Finding) -> None:
        reading = self._reading
        if reading.report is not None:
            reading.report(finding)
        if reading.strict:
            raise MalformedInput(f"{finding.kind} input at {finding.offset}: {finding.reason}")


class _Verification:
    """Tests a small block when its record is finished."""

    __slots__ = ("_block", "_checks", "_reader")

    def __init__(self, reader: RecordReader, checks: Checks, block: BytesBlock) -> None:
        self._reader = reader
        self._checks = checks
        self._block = block

    def __call__(self, record: Record) -> None:
        record._finish = None
        faults = self._checks.whole(self._block)
        if faults:
            self._reader._invalid(record, faults)
