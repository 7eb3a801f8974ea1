"""What other nodes must know, as rows of the frontier: written in the same commit as the pages it was found on.

    x  number                   partition, kind, visit, lines that are to be appended to the log
    y  number                   incarnation and sequence number under which the log has them
    z  id                       of this frontier, random
    z  incarnation              of the service that the positions are about
    z  position, partition      sequence number and count of the messages that this frontier has applied; the last cut
    z  run                      run of the crawl, and what was fetched here when it began: URLs, bytes

A row for another node stays until a checkpoint has it that all holders have: so its links never live on one node alone.
A row about an own partition is deleted as soon as the log has it.

The crawl's thread fills it and commits; the exchange's thread publishes.
"""

from __future__ import annotations

import secrets
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from holdfast.cluster.crawl.log import NO_CUT, LogCut
from holdfast.crawl.frontier import Frontier

_ROW = struct.Struct("<IBI")  # partition, kind, visit
_ACKNOWLEDGED = struct.Struct("<IQ")  # incarnation, sequence number
_POSITION = struct.Struct("<QQ")  # sequence number, count; then those of the cut, and its record
_ROW_BYTES_MAX = 32 << 10
_ID = b"zid"
_INCARNATION = b"zincarnation"
_POSITIONS = b"zposition"
_RUN = b"zrun"


class LineKind(IntEnum):
    """Of the lines of a row. In this order they are appended: what was found on a page before that it is done."""

    SENT = 0  # for another node
    FOUND = 1  # this frontier has it
    FINISHED = 2  # likewise


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Lines of one partition that are to be appended."""

    number: int
    partition: int
    kind: LineKind
    visit: int
    text: str


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far this node knows the log of a partition."""

    sequence: int = 0
    count: int = 0  # of messages since the log began
    cut: LogCut = NO_CUT  # the last that it tells of

    def pack(self) -> bytes:
        packed = _POSITION.pack(self.sequence, self.count)
        if not self.cut.sequence:
            return packed
        return packed + _POSITION.pack(self.cut.sequence, self.cut.count) + self.cut.record.encode()

    @classmethod
    def unpack(cls, data: bytes) -> LogPosition:
        sequence, count = _POSITION.unpack_from(data)
        if len(data) == _POSITION.size:
            return cls(sequence, count)
        last, number = _POSITION.unpack_from(data, _POSITION.size)
        return cls(sequence, count, LogCut(last, number, data[2 * _POSITION.size :].decode()))


@dataclass(slots=True)
class Outbox:
    """See above. `lines`, `changes`, `committed` and what takes a frontier are for the crawl's thread."""

    frontier: Frontier
    id: str = ""
    incarnation: int = 0
    run: tuple[int, int, int] = (0, 0, 0)  # its number, and URLs and bytes fetched before it
    _number: int = 0
    _buffers: dict[tuple[int, LineKind], list[str]] = field(default_factory=lambda: defaultdict(list))
    _changes: dict[bytes, bytes | None] = field(default_factory=dict)
    _written: list[OutboxRow] = field(default_factory=list)  # in a commit that may not have ended
    _unpublished: deque[OutboxRow] = field(default_factory=deque)
    _publishing: int = 0  # rows that were taken and are not acknowledged
    # by partition: sequence and number of the rows that the log of this incarnation has, and up to where they went
    _kept: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    _passed: dict[int, int] = field(default_factory=dict)
    _acknowledged: list[tuple[OutboxRow, int, int]] = field(default_factory=list)
    _since_s: float = 0.0  # when the oldest unpublished row was committed
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> dict[int, LogPosition]:
        """Reads the rows of the frontier; returns the positions."""
        rows = dict(self.frontier.shared(b"z"))
        self.id = rows.get(_ID[1:], b"").decode() or secrets.token_hex(8)
        self._changes[_ID] = self.id.encode()
        self.incarnation = int(rows.get(_INCARNATION[1:], b"0"))
        run, urls, size = rows.get(_RUN[1:], b"0 0 0").split()
        self.run = int(run), int(urls), int(size)
        acknowledged = {key: _ACKNOWLEDGED.unpack(value) for key, value in self.frontier.shared(b"y")}
        for number, row in self._rows():
            self._number = max(self._number, number)
            known, sequence = acknowledged.get(number.to_bytes(8, "big"), (-1, 0))
            if known == self.incarnation:
                self._kept[row.partition].append((sequence, number))
            else:
                self._unpublished.append(row)
        prefix = _POSITIONS[1:]
        return {
            int.from_bytes(key[len(prefix) :], "big"): LogPosition.unpack(value)
            for key, value in rows.items()
            if key.startswith(prefix)
        }

    def _rows(self) -> Iterator[tuple[int, OutboxRow]]:
        """The committed rows, by number."""
        for key, value in self.frontier.shared(b"x"):
            number = int.from_bytes(key, "big")
            partition, kind, visit = _ROW.unpack_from(value)
            text = value[_ROW.size :].decode("utf-8", "surrogatepass")
            yield number, OutboxRow(number, partition, LineKind(kind), visit, text)

    # -- the crawl's thread ---------------------------------------------------------------------------------------

    def add(self, partition: int, kind: LineKind, line: str) -> None:
        """A line for the log, with the next commit."""
        self._buffers[partition, kind].append(line)

    def set_position(self, partition: int, position: LogPosition) -> None:
        key = _POSITIONS + partition.to_bytes(4, "big")
        self._changes[key] = position.pack()

    def begin_run(self, run: int, urls: int, size: int) -> None:
        self.run = run, urls, size
        self._changes[_RUN] = b"%d %d %d" % self.run

    def begin(self, incarnation: int) -> None:
        """Another service: it knows nothing of what the old one had."""
        self.incarnation = incarnation
        self._changes[_INCARNATION] = b"%d" % incarnation
        for key, _ in self.frontier.shared(b"z"):
            if key.startswith(_POSITIONS[1:]):
                self._changes[b"z" + key] = None
        kept = {number for rows in self._kept.values() for _, number in rows}
        self._kept.clear()
        self._passed.clear()
        old = [row for number, row in self._rows() if number in kept]
        with self._lock:
            old += [row for row, known, _ in self._acknowledged if known != incarnation]
            self._acknowledged = [each for each in self._acknowledged if each[1] == incarnation]
            self._unpublished.extendleft(sorted(old, key=lambda row: -row.number))

    @property
    def is_changed(self) -> bool:
        return bool(self._buffers or self._changes or self._acknowledged)

    def changes(self, visit: int) -> Iterator[tuple[bytes, bytes | None]]:
        """The rows of this commit."""
        with self._lock:
            acknowledged, self._acknowledged = self._acknowledged, []
        for row, incarnation, sequence in acknowledged:
            if row.kind == LineKind.SENT:
                self._kept[row.partition].append((sequence, row.number))
                yield b"y" + row.number.to_bytes(8, "big"), _ACKNOWLEDGED.pack(incarnation, sequence)
            else:
                yield b"x" + row.number.to_bytes(8, "big"), None
        for (partition, kind), lines in self._buffers.items():
            for text in _cut(lines):
                self._number += 1
                row = OutboxRow(self._number, partition, kind, visit, text)
                self._written.append(row)
                data = _ROW.pack(partition, kind, visit) + text.encode("utf-8", "surrogatepass")
                yield b"x" + row.number.to_bytes(8, "big"), data
        self._buffers.clear()
        yield from self._changes.items()
        self._changes.clear()

    def committed(self) -> None:
        """The last commit has ended: what it wrote may be published."""
        with self._lock:
            if self._written and not self._unpublished:
                self._since_s = time.monotonic()
            self._unpublished.extend(self._written)
        self._written.clear()

    def passed(self, incarnation: int, positions: dict[int, int]) -> None:
        """Checkpoints have the messages of these partitions up to these numbers."""
        if incarnation != self.incarnation:
            return
        for partition, position in positions.items():
            if position <= self._passed.get(partition, 0) or partition not in self._kept:
                continue
            self._passed[partition] = position
            rows = self._kept.pop(partition)
            for _, number in (each for each in rows if each[0] <= position):
                for letter in (b"x", b"y"):
                    self._changes[letter + number.to_bytes(8, "big")] = None
            if left := [each for each in rows if each[0] > position]:
                self._kept[partition] = left

    @property
    def is_empty(self) -> bool:
        """True if the log has everything."""
        with self._lock:
            return not (self._buffers or self._written or self._unpublished or self._publishing)

    # -- the exchange's thread ------------------------------------------------------------------------------------

    def age_s(self) -> float:
        """Of the oldest row that is not published; 0 without one."""
        with self._lock:
            return time.monotonic() - self._since_s if self._unpublished else 0.0

    def take(self, count: int) -> list[OutboxRow]:
        """The next rows to publish; `acknowledge` or `give_back` each of them."""
        with self._lock:
            taken = [self._unpublished.popleft() for _ in range(min(count, len(self._unpublished)))]
            self._publishing += len(taken)
            return taken

    def acknowledge(self, rows: Sequence[OutboxRow], incarnation: int, sequence: int) -> None:
        """The log has these rows."""
        with self._lock:
            self._acknowledged += [(row, incarnation, sequence) for row in rows]
            self._publishing -= len(rows)

    def give_back(self, rows: Sequence[OutboxRow]) -> None:
        """They are published later, in the same order."""
        with self._lock:
            self._unpublished.extendleft(reversed(rows))
            self._publishing -= len(rows)


def _cut(lines: Sequence[str]) -> Iterator[str]:
    """Texts of a limited size."""
    piece: list[str] = []
    size = 0
    for line in lines:
        if piece and size + len(line) > _ROW_BYTES_MAX:
            yield "\n".join(piece)
            piece, size = [], 0
        piece.append(line)
        size += len(line) + 1
    if piece:
        yield "\n".join(piece)
