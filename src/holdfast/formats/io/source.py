"""The decoded bytes of a file, and their positions on disk.

    on disk:    | member A          | member B      | damage | member D        |
    decoded:    | record 1          | record 2      |        | record 4        |
    marks:      (0, 0)              (d1, a1)        (d2, a2) (d2, a3)

A `Source` decodes a stream of any size, pipe or file, piece by piece. `data[pos:]` is the buffer; `fill` reads
more. Positions in the decoded bytes are absolute (`base` is that of `data[0]`), and `disk` turns one into an offset in
the file: in a plain file the same number, otherwise the offset of the member in which the byte lies, or the end of the
last member if it lies after it. So the ranges of records that follow each other never overlap and leave no gap.

When the coding is damaged the source stops (`broken` says why) until `recover` has found the next good place.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

CHUNK_BYTES = 64 * 1024  # read at a time
PASSED_MAX = 1000  # ranges without records between two records that are remembered
_NEWLINES = (b"\n", b"\r")
Plausible = Callable[[bytes], bool]  # whether these bytes may begin a record


class ByteSource:
    """A plain file. Codings derive from it. Not for more than one thread."""

    unit = ""  # what a compressed file consists of

    def __init__(self, stream: BinaryIO, first: bytes = b"") -> None:
        """Reads `stream` from where it stands; `first` was read from it already."""
        self.data = b""
        self.pos = 0
        self.base = 0
        self.broken = ""
        self.one_each = True  # as far as seen, every member begins with a record
        self._stream = stream
        self._dry = False  # nothing more comes, unless `recover` finds it
        self._first = first
        self._decoded = 0  # bytes decoded so far, all of them
        self._loaded = 0  # bytes of the file read so far
        self._marks: list[tuple[int, int]] = [(0, 0)]

    def fill(self, size: int) -> bool:
        """True if the buffer has `size` bytes from `pos` on; moves `data`, `pos` and `base`, never the position."""
        data, pos = self.data, self.pos
        have = len(data) - pos
        if have >= size:
            return True
        if self._dry:
            return False
        parts = [data[pos:]] if have else []
        while have < size:
            piece = self._next()
            if not piece:
                self._dry = True
                break
            parts.append(piece)
            have += len(piece)
        self.base += pos
        self.pos = 0
        self.data = parts[0] if len(parts) == 1 else b"".join(parts)
        return have >= size

    def go(self, position: int) -> None:
        """Moves to an absolute position within the buffer."""
        self.pos = position - self.base
        assert 0 <= self.pos <= len(self.data)

    @property
    def position(self) -> int:
        return self.base + self.pos

    @property
    def size(self) -> int:
        """Bytes of the file; right once everything was read."""
        return self._loaded

    def disk(self, position: int) -> int:
        """Where the decoded byte lies in the file."""
        return position

    def ends_at(self, position: int) -> bool:
        """True if a member is known to end here."""
        return False

    def extent(self, start: int, stop: int) -> tuple[int, int] | None:
        """Offset and length on disk of a record that ends at `stop`: alone in its member, or followed by no newline.

        None if it is not so, or not known yet.
        """
        at = stop - self.base
        return (start, stop - start) if at <= len(self.data) and self.data[at : at + 1] not in _NEWLINES else None

    def forget(self, position: int) -> None:
        """Positions before this one will not be needed again."""

    def boundaries(self, start: int, end: int) -> list[int]:
        """Positions strictly between at which members begin."""
        return []

    def peek_at(self, position: int, size: int) -> bytes | None:
        """Bytes ahead of what was read, if the stream can seek; None if it cannot."""
        stream = self._stream
        # Others may seek by reading everything again.
        if not isinstance(getattr(stream, "raw", stream), io.FileIO | io.BytesIO) or not stream.seekable():
            return None
        here = stream.tell()
        stream.seek(here + position - (self._loaded + len(self._first)))
        found = stream.read(size)
        stream.seek(here)
        return found

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Offset and length of what lies between two offsets, without what may lie there and holds no record."""
        return [(start, end - start)] if end > start else []

    def recover(self, plausible: Plausible) -> bool:
        """Goes on after damage at the next member that begins with a record; False if there is none."""
        return False

    def _next(self) -> bytes:
        """The next decoded bytes; none at the end of the file and when broken."""
        piece = self._load()
        self._decoded += len(piece)
        return piece

    def _load(self) -> bytes:
        """The next bytes of the file as they lie there."""
        if self._first:
            piece, self._first = self._first, b""
        else:
            piece = self._stream.read(CHUNK_BYTES)
        self._loaded += len(piece)
        return piece


class MemberSource(ByteSource):
    """A file of compressed members. What all codings share: marks, the bytes kept to recover, and the search."""

    probe_bytes = 4096  # of a member, to see whether it holds a record
    kept_bytes_max = 256 * 1024  # of a member, to look back for the next one: damage shows long before

    def __init__(self, stream: BinaryIO, first: bytes = b"") -> None:
        super().__init__(stream, first)
        self._raw = b""
        self._at = 0  # in `_raw`: the first byte not decoded
        self._kept: list[bytes] = []  # read before `_raw`, of the current member
        self._member = 0  # offset of the current member
        self._passed: list[tuple[int, int]] = []  # start and end of what holds no record by right

    def disk(self, position: int) -> int:
        for decoded, offset in reversed(self._marks):
            if decoded <= position:
                return offset
        return self._marks[0][1]

    def ends_at(self, position: int) -> bool:
        for decoded, _ in reversed(self._marks):
            if decoded <= position:
                return decoded == position
        return False

    def extent(self, start: int, stop: int) -> tuple[int, int] | None:
        marks = self._marks
        if len(marks) < 2 or marks[0][0] != start or marks[1][0] != stop or (len(marks) > 2 and marks[2][0] == stop):
            return None
        offset = marks[0][1]
        return offset, marks[1][1] - offset

    def forget(self, position: int) -> None:
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= position:
            del marks[0]

    def boundaries(self, start: int, end: int) -> list[int]:
        return [decoded for decoded, _ in self._marks if start < decoded < end]

    def peek_at(self, position: int, size: int) -> bytes | None:
        return None

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        found = []
        for first, last in self._passed:
            found.append((start, min(first, end) - start))
            start = max(start, min(last, end))
        found.append((start, end - start))
        self._passed = [each for each in self._passed if each[1] > end]
        return [gap for gap in found if gap[1] > 0]

    def _pass(self) -> None:
        """What ends here from the start of the member on needs no record."""
        start, end = self._member, self._offset()
        if self._passed and self._passed[-1][1] == start:
            start = self._passed.pop()[0]
        self._passed.append((start, end))
        del self._passed[:-PASSED_MAX]  # the rest counts as lost

    def recover(self, plausible: Plausible) -> bool:
        self._raw = b"".join([*self._kept, self._raw])
        self._kept = []
        raw_offset = self._loaded - len(self._raw)
        self._at = max(self._member + 1 - raw_offset, 0)
        self.broken = ""
        self._dry = False
        self.base = self._decoded
        self.data, self.pos = b"", 0
        while True:
            found = self._find_member(self._at)
            if found >= 0:
                self._at = found
                if self._promising(plausible):
                    break
                self._at += 1
                continue
            self._raw = self._raw[-3:]  # a magic number may lie across the edge
            more = self._load()
            if not more:
                self._raw, self._at = b"", 0
                self._mark()
                return False
            self._raw += more
            self._at = 0
        self._start_member()
        self._mark()
        return True

    def _promising(self, plausible: Plausible) -> bool:
        """True if the member that seems to begin here holds a record."""
        while len(self._raw) - self._at < self.probe_bytes and (more := self._load()):
            self._raw, self._at = self._raw[self._at :] + more, 0
        begin = self._probe()
        return bool(begin) and (not self.one_each or plausible(begin))

    def _refill(self) -> bool:
        """The next chunk, keeping those of the current member; False at the end of the file."""
        piece = self._load()
        if not piece:
            return False
        if self._raw:
            self._keep(self._raw)
        self._raw, self._at = piece, 0
        return True

    def _keep(self, raw: bytes) -> None:
        """Keeps bytes of the current member, and drops the oldest beyond the limit."""
        self._kept.append(raw)
        while len(self._kept) > 1 and sum(map(len, self._kept)) > self.kept_bytes_max:
            del self._kept[0]

    def _offset(self) -> int:
        """Of the first byte not decoded."""
        return self._loaded - len(self._raw) + self._at

    def _mark(self) -> None:
        self._marks.append((self._decoded, self._offset()))

    def _start_member(self) -> None:
        self._kept = []
        self._member = self._offset()

    def _find_member(self, start: int) -> int:
        """Index in `_raw` of the next magic number, -1 if there is none."""
        raise AssertionError("every coding has its own")

    def _probe(self) -> bytes:
        """The first decoded bytes of the member at `_at`; none if it is not one."""
        raise AssertionError("every coding has its own")
