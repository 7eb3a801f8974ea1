"""Salvage: reads all intact records of a file, however damaged it is (I3, N7).

    aligned ──head and end are right──▶ record handed out ──────────────────▶ aligned
       │                                                                         ▲
       ├──the head is right, the end is not──▶ record with what is there, marked ┤
       │                                                                         │
       └──no head──▶ lost: search the next place where a record stands ──────────┘

A record is handed out when its head parses. If its block is not followed by the end of a record, or if the file ends or
is damaged within it, the block is what stands between the head and the next record: the record is reported as truncated
if that is less than the head says, as invalid otherwise. A head that a search found amid other bytes must be complete,
and follow the end of a record or lead to one; so a record that is quoted in a page is seldom taken for one of the file.
Blocks of up to `SMALL_BYTES` are looked at whole beforehand.

Everything that was not handed out is reported as lost, with its offset and length in the file. Ranges of records and
lost ranges together are the file: no byte twice, no byte missing but for the frames of zstd that need not hold a record
(dictionary, skippable). Records that share a gzip member have its offset; the last of them has its length, the others
have length 0.

Every byte is read once and searched at most twice; memory is a few pieces of the file, whatever its size. Damaged and
hostile files have many places that look like the start of a head, and few blank lines after them. The end found for one
start holds for all starts before it, so it is searched once; after `TRIES_MAX` failed starts before the same end only
the last one is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import MalformedInput
from holdfast.formats.io.record_block import CUT_OFF, OVER_NEXT, BytesBlock, Checks, OpenBlock, StreamBlock
from holdfast.formats.io.source import ByteSource
from holdfast.formats.record import Finding, FindingKind, Record, Report

SMALL_BYTES = 1024 * 1024  # blocks up to here are checked whole before they are handed out
PLAUSIBLE_BYTES = 8192  # that are looked at to see whether a record begins
TAIL_LOOK = 64  # bytes after a block that are looked at when it does not end as it should
_NEWLINES = (b"\n", b"\r")
_BLANK = re.compile(rb"\r{0,3}\n\r{0,3}\n\Z")  # the end of a WARC record, however its lines end
_LINE_ENDS = re.compile(rb"(?:\r{0,3}\n){1,2}\Z")
_TAIL_BYTES_MAX = 8  # of those


class Framing(Protocol):
    """What the reader must know of a format."""

    usual_tail: bytes
    hold_bytes: int  # of what was searched in vain: here a start may begin that is not complete yet

    def quick(self, data: bytes, at: int) -> Record | None:
        """The record whose head stands at `at`, by what `learn` has seen; it breaks no rule. None: use `parse`."""
        return None

    def learn(self, record: Record) -> None:
        """Sees a record that breaks no rule, so that `quick` knows its like."""
        return None

    def parse(self, source: ByteSource, *, found: bool = False) -> Record:
        """The record whose head stands at the source's position, which does not move. Raises Unreadable.

        `found`: a search came here, no record ended here; then the head must have all that it needs.
        """

    def find(self, data: bytes, start: int) -> int:
        """Index of the next place that looks like the start of a record; -1 if there is none."""

    def plausible(self, begin: bytes) -> bool:
        """True if these bytes, from the start of a member or after a record, begin a record."""

    def extent(self, begin: bytes) -> int:
        """Size of the head and block that begin here, as the head says; -1 if unknown."""

    def tail(self, rest: bytes) -> tuple[int, str]:
        """Size of the tail at the start of `rest`, and what is wrong with it. Raises Unreadable if it is none."""

    def usual_start(self, rest: bytes, *, odd: bool) -> bool:
        """True if `rest`, after a record, confirms that its length is right; its tail may have been `odd`."""

    def holds_start(self, block: bytes) -> bool:
        """True if another record begins within the block, so that its length may be wrong."""

    def faults(self, record: Record) -> list[str]:
        """Rules of the format that the head breaks."""

    def checks(self, record: Record) -> Checks | None:
        """Tests for a block that is read in pieces."""
        return None

    def block_faults(self, record: Record, block: BytesBlock, *, doubtful: bool = False) -> list[str] | None:
        """What is wrong with a block in memory; None if nothing can be tested.

        More is tested of a `doubtful` one: something else is wrong with its record.
        """


@dataclass(frozen=True, slots=True)
class ReadMode:
    """How to read; see `open_records`."""

    strict: bool = False
    report: Report | None = None
    validate: bool = True
    verify_digests: bool = True


class RecordReader:
    """The records of one source. One thread. A record is finished when the next is requested."""

    def __init__(self, source: ByteSource, framing: Framing, reading: ReadMode) -> None:
        self._source = source
        self._framing = framing
        self._reading = reading
        self._done = 0  # all of the file before this offset is accounted for
        self._done_decoded = 0
        self._fault = ""  # why bytes are being lost
        self._reported_sharing = False
        self._found = False  # a search came to where the source stands,
        self._behind_end = False  # and the end of a record stands before it

    def doubt(self, reason: str) -> None:
        """Sets the reason that is reported if nothing can be read."""
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
            self._report(Finding(FindingKind.INVALID, 0, 0, "the file is empty"))

    def _next(self) -> Record | None:
        source, framing = self._source, self._framing
        while True:
            if source.pos >= len(source.data) and not source.fill(1):
                if not source.broken:
                    return None
                self._lose(source.broken)
                if not source.recover(framing.plausible):
                    return None
                self._found = False
                continue
            start = source.position
            source.forget(start)
            usual = self._usual(start) if not self._found else None
            if usual is not None:
                return usual
            try:
                record = framing.parse(source, found=self._found)
                record.offset = source.disk(start)
                self._frame_as_far(record, start)
            except Unreadable as fault:
                self._lose(str(fault))
                self._search(max(start + 1, fault.resume))
                continue
            self._found = False
            return record

    def _usual(self, start: int) -> Record | None:
        """The record at `start` if it is like most: its head of a known shape, its end right, in a member of its own.

        All others take the long way; for them nothing has changed.
        """
        source, usual = self._source, self._framing.usual_tail
        if not source.unit:
            source.fill(PLAUSIBLE_BYTES)
        record = self._framing.quick(source.data, source.pos)
        if record is None or record.content_length > SMALL_BYTES:
            return None
        size = len(record.head) + record.content_length + len(usual)
        stop = start + size
        if not (source.fill(size) and source.ends_at(stop)):
            source.fill(size + 1)  # shows what follows, or that the member ends
        extent = source.extent(start, stop)
        end = source.pos + size - len(usual)
        if extent is None or not source.data.startswith(usual, end):
            return None
        record.offset, record.length = extent
        self._account(record.offset, start)
        self._done, self._done_decoded = record.offset + record.length, stop
        record.tail = usual
        record.block = BytesBlock(source.data, end - record.content_length, end)
        source.pos = end + len(usual)
        if self._reading.verify_digests:
            record._finish = self._verify
        return record

    def _frame_as_far(self, record: Record, start: int) -> None:
        """Finds the end of the record, or where it must end. Raises Unreadable if its head is not to be believed."""
        if record.truncated:
            self._frame_headless(record, start)
            return
        try:
            if record.content_length < 0:
                raise Unreadable("its length is not known")
            self._frame(record, start)
        except Unreadable as fault:
            if self._found and not self._behind_end:
                raise
            self._frame_damaged(record, start, str(fault))

    def _frame(self, record: Record, start: int) -> None:
        """Finds the end of the record that begins at `start`, and moves past it, or to its block if that is large."""
        source = self._source
        block_size = record.content_length
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
            raise Unreadable(source.broken or CUT_OFF)
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
        """Rejects a record that seems to end well by accident."""
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
                raise Unreadable(OVER_NEXT)

    def _look_over_members(self, start: int, end: int) -> None:
        source = self._source
        for boundary in source.boundaries(start, end + 1):
            at = boundary - source.base
            if boundary < end and self._framing.plausible(source.data[at : at + PLAUSIBLE_BYTES]):
                raise Unreadable(OVER_NEXT)
            source.one_each = source.one_each and boundary == end

    def _frame_large(self, record: Record, start: int) -> None:
        source = self._source
        end = start + len(record.head) + record.content_length
        ahead = source.peek_at(end - 1, TAIL_LOOK + 1)
        if ahead is not None:
            if not ahead:
                raise Unreadable(CUT_OFF)
            self._framing.tail(ahead[1:])
        elif not source.fill(len(record.head) + SMALL_BYTES):
            raise Unreadable(source.broken or CUT_OFF)
        else:
            self._look_over_members(start, min(end, source.base + len(source.data)))
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
        block.drain()
        end = source.position
        said = record.content_length
        if block.missing:
            record.content_length -= block.missing
            self._conclude_damaged(record, start, said, block.fault)
            return
        try:
            source.fill(TAIL_LOOK)
            record.tail, fault = self._odd_tail(end)
            stop = end + len(record.tail)
            if source.unit and not source.ends_at(stop) and stop - source.base == len(source.data):
                raise Unreadable(source.broken or f"the {source.unit} does not end")
        except Unreadable as error:
            self._conclude_damaged(record, start, said, str(error))
        else:
            source.go(stop)
            self._conclude(record, start, fault)
        if block.checks is not None:
            self._invalid(record, block.checks.faults())

    # -- records that do not end as they should -----------------------------------------------------------------

    def _frame_headless(self, record: Record, start: int) -> None:
        """A record of which only a part of the head is there."""
        source = self._source
        source.go(start + len(record.head))
        record.block = BytesBlock(b"", 0, 0)
        self._conclude_damaged(record, start, record.content_length, "the head is cut off by the end of the file")

    def _frame_damaged(self, record: Record, start: int, reason: str) -> None:
        """Gives the record what stands between its head and the next record."""
        source = self._source
        source.go(start)
        body, said = start + len(record.head), record.content_length
        end, ended = self._reach(body)
        if not ended:
            self._frame_open(record, start, reason)
            return
        data, first = source.data, body - source.base
        size = end - body
        if 0 <= said < size and self._is_confirmed(record, BytesBlock(data, first, first + said)):
            size = said
        else:
            record.tail = self._tail_before(body, end, said)
            size -= len(record.tail)
        record.block = BytesBlock(data, first, first + size)
        record.content_length = size
        source.go(body + size + len(record.tail))
        self._conclude_damaged(record, start, said, reason)

    def _frame_open(self, record: Record, start: int, reason: str) -> None:
        """The same for a record that may be large: its end shows when its block was read."""
        source, said = self._source, record.content_length
        source.go(start + len(record.head))
        block = OpenBlock(source, lambda: self._reach(source.position))
        record.block = block
        record.content_length = max(said, SMALL_BYTES + 1)
        self._account(record.offset, start)

        def finish(record: Record) -> None:
            record._finish = None
            block.drain()
            record.content_length = block.size
            self._conclude_damaged(record, start, said, reason)

        record._finish = finish

    def _reach(self, position: int) -> tuple[int, bool]:
        """How far a block goes that ends with the next record only, from `position` on; whether it ends there."""
        source, framing = self._source, self._framing
        is_all = not source.fill(position - source.position + SMALL_BYTES)
        data, at = source.data, position - source.base
        last = source.base + len(data)
        for boundary in source.boundaries(position - 1, last + 1):
            begin = data[boundary - source.base :][:PLAUSIBLE_BYTES]
            if source.one_each or framing.plausible(begin):
                last, is_all = boundary, True
                break
        limit = last - source.base
        while 0 <= (at := framing.find(data, at)) < limit:
            if self._is_start(at):
                return source.base + at, True
            at += 1
        return (last, True) if is_all else (last - PLAUSIBLE_BYTES, False)

    def _is_start(self, at: int) -> bool:
        """True if a record begins at this index of the buffer: its head is complete, and follows or leads to an end."""
        source, framing = self._source, self._framing
        data = source.data
        begin = data[at : at + PLAUSIBLE_BYTES]
        if not framing.plausible(begin):
            return False
        if self._stands_behind_end(at):
            return True
        size = framing.extent(begin)
        end = at + size
        if size < 0 or end >= len(data):
            return size >= 0
        try:
            framing.tail(data[end : end + TAIL_LOOK])
        except Unreadable:
            return False
        return True

    def _stands_behind_end(self, at: int) -> bool:
        """True if the end of a record stands before this index; that of ARC and Tianwang is too short to be a sign."""
        source = self._source
        if source.unit and source.ends_at(source.base + at):
            return True
        before = source.data[max(0, at - _TAIL_BYTES_MAX) : at]
        return len(self._framing.usual_tail) > 1 and _BLANK.search(before) is not None

    def _tail_before(self, body: int, end: int, said: int) -> bytes:
        """The tail of a record whose block begins at `body` and is followed by the record at `end`, or by nothing."""
        source, usual = self._source, self._framing.usual_tail
        at = end - source.base
        if body + said > end and at == len(source.data) and not source.ends_at(end):
            return b""  # cut off: whatever stands there belongs to the block
        rest = source.data[max(body - source.base, at - _TAIL_BYTES_MAX) : at]
        if rest.endswith(usual):
            return usual
        ends = _LINE_ENDS.search(rest)
        return ends[0] if ends is not None else b""

    def _is_confirmed(self, record: Record, block: BytesBlock) -> bool:
        """True if a digest says that the block is whole, so that what follows is not part of it."""
        return self._framing.block_faults(record, block, doubtful=True) == []

    def _conclude_damaged(self, record: Record, start: int, said: int, reason: str) -> None:
        """Finishes a record whose block is what there is; `said` is the length that its head gives, -1 if none."""
        source = self._source
        if source.broken and source.pos == len(source.data):
            reason = source.broken
            if source.recover(self._framing.plausible):
                reason = reason.removesuffix(" by the end of the file")
        size = record.content_length
        if said != size:
            reason += f"; the block has {size} bytes" + (f" instead of {said}" if said >= 0 else "")
        record.truncated = record.truncated or said > size
        self._conclude(record, start, "", damage=reason)

    def _conclude(self, record: Record, start: int, fault: str, *, damage: str = "") -> None:
        """Completes length and findings of a record whose end is known, and accounts for it."""
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
        if damage:
            self._note(record, FindingKind.TRUNCATED if record.truncated else FindingKind.INVALID, damage)
        if reading.validate:
            faults += self._framing.faults(record)
            if not faults and not damage:
                self._framing.learn(record)
        if faults:
            self._invalid(record, faults)
        if reading.verify_digests and isinstance(record.block, BytesBlock) and not record.truncated:
            record._finish = self._verify_doubtful if faults or damage else self._verify

    def _verify(self, record: Record, *, doubtful: bool = False) -> None:
        """Tests a block in memory when its record is finished."""
        record._finish = None
        assert isinstance(record.block, BytesBlock)
        if faults := self._framing.block_faults(record, record.block, doubtful=doubtful):
            self._invalid(record, faults)

    def _verify_doubtful(self, record: Record) -> None:
        self._verify(record, doubtful=True)

    def _sharing(self, start: int, stop: int) -> list[str]:
        """What is wrong with how the record lies in its member; skips bytes that follow it there to no purpose."""
        source = self._source
        faults = []
        if not source.ends_at(start) and not self._reported_sharing:
            self._reported_sharing = True
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
            faults.append(f"{limit - stop} bytes after the record in its {source.unit}")
            source.go(limit)
        return faults

    def _search(self, position: int) -> None:
        """Moves to the next place from `position` on that looks like a record's start, or to the end of what is."""
        source, framing = self._source, self._framing
        self._found = True
        source.go(max(position, source.base))
        while (found := framing.find(source.data, source.pos)) < 0:
            keep = min(len(source.data) - source.pos, framing.hold_bytes + _TAIL_BYTES_MAX)
            source.pos = len(source.data) - keep
            if not source.fill(keep + 1):
                source.pos = len(source.data)
                return
        source.pos = found
        self._behind_end = self._stands_behind_end(found)

    def _lose(self, reason: str) -> None:
        self._fault = self._fault or reason
        if self._reading.strict:
            raise MalformedInput(f"damaged input at {self._done}: {reason}; read it without 'strict' to salvage")

    def _account(self, offset: int, decoded: int) -> None:
        """Reports as lost what lies before and is not accounted for."""
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
            self._report(Finding(FindingKind.LOST, start, length, reason))
        self._done_decoded = max(self._done_decoded, decoded)
        self._fault = ""

    def _invalid(self, record: Record, faults: list[str]) -> None:
        for fault in faults:
            self._note(record, FindingKind.INVALID, fault)

    def _note(self, record: Record, kind: FindingKind, reason: str) -> None:
        finding = Finding(kind, record.offset, record.length, reason)
        record.findings.append(finding)
        self._report(finding)

    def _report(self, finding: Finding) -> None:
        reading = self._reading
        if reading.report is not None:
            reading.report(finding)
        if reading.strict:
            raise MalformedInput(f"{finding.kind} input at {finding.offset}: {finding.reason}")


HEAD_BYTES_MAX = 1024 * 1024
TRIES_MAX = 32
_BLANK_BYTES_MAX = 5  # of a blank line and the line end before it
_FIRST_BYTES = 4096


class Unreadable(Exception):
    """There is no whole record here; the message says why. `resume` is where to continue, if not at the next byte.

    Set after many failed starts before the same end of a head, so that reading stays linear.
    """

    def __init__(self, reason: str, resume: int = 0) -> None:
        super().__init__(reason)
        self.resume = resume


class CutHead(Unreadable):
    """The file ends, or is damaged, within the head."""


def newlines_at(rest: bytes) -> int:
    """How many characters of newlines `rest` begins with."""
    return len(rest) - len(rest.lstrip(b"\r\n"))


class HeadEnd:
    """Finds ends of heads in one source, front to back."""

    def __init__(self, blank: re.Pattern[bytes], magics: tuple[bytes, ...], *, bytes_max: int = HEAD_BYTES_MAX) -> None:
        self._blank = blank
        self._magics = magics
        self._bytes_max = bytes_max
        self._none_before = 0  # no blank line ends before this position
        self._end = -1
        self._tries = 0

    def head(self, source: ByteSource) -> bytes:
        """The bytes from the source's position through the blank line. Raises Unreadable."""
        match = self._blank.search(source.data, max(source.pos, self._none_before - source.base))
        if match is None or match.end() - source.pos > self._bytes_max:
            match = self._look_on(source)
        end = source.base + match.end()
        if end == self._end:
            self._tries += 1
            if self._tries > TRIES_MAX:
                raise Unreadable("too many starts of heads before one end", self._last_start(source, match.end()))
        else:
            self._end, self._tries = end, 0
        return source.data[source.pos : match.end()]

    def _look_on(self, source: ByteSource) -> re.Match[bytes]:
        size = _FIRST_BYTES
        while True:
            more = source.fill(size)
            match = self._blank.search(source.data, max(source.pos, self._none_before - source.base))
            if match is not None and match.end() - source.pos <= self._bytes_max:
                return match
            if match is not None or size > self._bytes_max:
                self._none_before = source.base + (match.start() if match else len(source.data) - _BLANK_BYTES_MAX)
                raise Unreadable(f"no end of the head within {self._bytes_max} bytes")
            if not more:
                self._none_before = source.base + len(source.data) - _BLANK_BYTES_MAX
                raise CutHead(source.broken or "the head is cut off by the end of the file")
            size *= 2

    def _last_start(self, source: ByteSource, end: int) -> int:
        """Position of the last start before the end, or of the end itself."""
        last = max(source.data.rfind(magic, source.pos + 1, end) for magic in self._magics)
        return source.base + (last if last >= 0 else end)
