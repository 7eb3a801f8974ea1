"""A record as a reader returns it: its fields, the exact bytes around its block, and the block to read.

Readers of all formats yield `Record`. Its bytes in the file are `head`, the block, `tail`, in that order and nothing
between; so these three are enough to write the file again byte for byte (N3).

A `Finding` is something wrong with a file: a range of bytes that could not be read as a record (`lost`), a record
of which only a part is there (`truncated`), or a record that was read but breaks a rule of its format (`invalid`).
Offsets are those of the file as it lies on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class FindingKind(StrEnum):
    LOST = "lost"
    TRUNCATED = "truncated"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a file: where, how long, and why."""

    kind: FindingKind
    offset: int
    length: int
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.offset}, {self.length} bytes: {self.reason}"


Report = Callable[[Finding], None]


class Headers:
    """Named fields in their order, repeated ones kept. Names are case-insensitive."""

    __slots__ = ("_fields", "_first")

    def __init__(self, fields: Iterable[tuple[str, str]], first: dict[str, str] | None = None) -> None:
        """`fields` may be lazy: they are read when somebody needs them. `first` is what `first` returns, if known."""
        self._fields = fields
        self._first = first

    def first(self) -> dict[str, str]:
        """The first value of each name, in lower case: for callers that need many."""
        if self._first is None:
            self._first = {each.lower(): value for each, value in reversed(self._all())}
        return self._first

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value under the name."""
        return self.first().get(name.lower(), default)

    def get_all(self, name: str) -> list[str]:
        wanted = name.lower()
        if self.get(wanted) is None:
            return []
        return [value for each, value in self._all() if each.lower() == wanted]

    def items(self) -> list[tuple[str, str]]:
        return list(self._all())

    def _all(self) -> list[tuple[str, str]]:
        if not isinstance(self._fields, list):
            self._fields = list(self._fields)
        return self._fields

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._all())

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __len__(self) -> int:
        return len(self._all())

    def __reduce__(self) -> tuple[type[Headers], tuple[list[tuple[str, str]]]]:
        return Headers, (self._all(),)

    def __repr__(self) -> str:
        return f"Headers({self._all()!r})"


class BlockReader(Protocol):
    """The block of a record: read once, front to back."""

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`; all that is left if negative; none at the end.

        If the file ends or is damaged before the block does, so does the block: `finish` reports it.
        """


@dataclass(slots=True)
class Record:
    """One record. Read `block` before the iterator goes on; `finish` skips the rest of it."""

    format: str  # 'warc/1.0', 'warc/1.1', 'arc/1', 'arc/2', 'tianwang/1.0'
    type: str  # lower case; ARC and Tianwang records are 'response', an ARC file's first is 'warcinfo'
    url: str  # '' where the record has none
    timestamp: str  # 14 digits, UTC; '' where the date is missing or wrong
    headers: Headers  # fields of the record's header; for ARC and Tianwang under their own names
    head: bytes  # the bytes before the block, exactly
    content_length: int  # of the block: what the head says, -1 if nothing; after `finish` what is there
    block: BlockReader
    offset: int  # in the file as it lies on disk
    ip: str = ""
    has_http: bool = False  # the block is an HTTP message (response, request, or a revisit's head)
    tail: bytes = b""  # the bytes after the block, exactly; known after `finish`
    length: int = 0  # in the file as it lies on disk; known after `finish`
    truncated: bool = False  # the block has fewer bytes than the head says; known after `finish`
    findings: list[Finding] = field(default_factory=list)  # rules that this record breaks
    _finish: Callable[[Record], None] | None = None

    def finish(self) -> None:
        """Reads to the end of the record; afterwards all fields are complete. Idempotent.

        Raises MalformedInput in strict mode if the record turns out to be damaged.
        """
        if self._finish is not None:
            self._finish(self)
            self._finish = None
