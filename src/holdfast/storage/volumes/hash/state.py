"""The state of a hash volume: its shape, the free pages of its overflow file, and its totals.

The journal holds the state as text, one line per field:

    serial 42                      number of the last commit
    generation 1                   of the bucket file
    buckets 64                     in it
    split 0                        buckets already split into the next generation; -1: not growing
    overflow 12                    pages of the overflow file
    free 3 5-7                     free pages among these
    page_bytes 123456              of all entries in pages
    blocks 10                      and the other totals of `holdfast volume list`
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Final, NamedTuple, Self

from holdfast.env.files import Buffer
from holdfast.storage.volume import BlockKey, Encoded
from holdfast.storage.volumes.hash.page import BucketId, HashEntry, PageId, bucket_of
from holdfast.storage.volumes.journal import JournalContents, Ticket
from holdfast.storage.volumes.local import count_block
from holdfast.storage.volumes.operations import Change

NOT_GROWING = -1


@dataclass(slots=True)
class HashState:
    """Guarded by the volume's lock."""

    serial: int = 0
    generation: int = 1
    buckets: int = 1
    split: int = NOT_GROWING
    overflow: int = 0
    page_bytes: int = 0
    blocks: int = 0
    replicas: int = 0
    references: int = 0
    content_bytes: int = 0
    stored_bytes: int = 0
    referenced_bytes: int = 0
    free: list[int] = field(default_factory=list)  # pages of the overflow file, ascending

    def copy(self) -> HashState:
        return replace(self, free=list(self.free))

    @property
    def is_growing(self) -> bool:
        return self.split != NOT_GROWING

    def bucket(self, signature: bytes) -> BucketId:
        """The bucket of this signature."""
        number = bucket_of(signature, self.buckets)
        if number < self.split:
            return BucketId(self.generation + 1, bucket_of(signature, 2 * self.buckets), 2 * self.buckets)
        return BucketId(self.generation, number, self.buckets)

    def count(self, entry: HashEntry, sign: int) -> None:
        """Counts a block that was added (+1) or removed (-1)."""
        self.page_bytes += sign * entry.cost
        size, references = entry.header.size, entry.header.references
        count_block(self, sign, replica=entry.replica, size=size, stored=entry.stored, references=references)

    def take(self, pages: int = 1) -> int:
        """Takes consecutive overflow pages, the first run that fits or new ones at the end; returns the first."""
        found = self.first_fit(pages)
        if found is not None:
            at = bisect_left(self.free, found)
            del self.free[at : at + pages]
            return found
        self.shrink()  # free pages at the end of the file begin the run
        first, self.overflow = self.overflow, self.overflow + pages
        return first

    def first_fit(self, pages: int) -> int | None:
        """The first run of this many consecutive free pages."""
        run = 0
        for at, number in enumerate(self.free):
            run = run + 1 if run and number == self.free[at - 1] + 1 else 1
            if run == pages:
                return number - pages + 1
        return None

    def shrink(self) -> None:
        """Drops free pages at the end of the overflow file."""
        while self.free and self.free[-1] == self.overflow - 1:
            self.overflow = self.free.pop()

    def pack(self) -> bytes:
        text = [f"{each.name} {getattr(self, each.name)}" for each in fields(self) if each.name != "free"]
        return ("\n".join([*text, f"free {_ranges(self.free)}"]) + "\n").encode()

    @classmethod
    def unpack(cls, text: bytes) -> Self:
        """The text has been verified."""
        values = dict(line.split(" ", 1) for line in text.decode().splitlines())
        free = [
            number
            for each in values.pop("free").split()
            for number in range(int(each.split("-")[0]), int(each.split("-")[-1]) + 1)
        ]
        return cls(**{name: int(value) for name, value in values.items()}, free=free)


def _ranges(numbers: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(f"{first}-{last}" if first < last else f"{first}" for first, last in parts)


PAGE: Final = b"page"
_PAGE_NAME = struct.Struct(">IQ")


class Redone(NamedTuple):
    """What the journal holds."""

    state: HashState
    images: dict[PageId, bytes]  # the last one of each page
    tickets: list[Ticket]
    serial: int  # of the last entry


def redone(contents: JournalContents) -> Redone:
    images = {
        PageId(*_PAGE_NAME.unpack(each.key.signature)): bytes(each.encoded.data)
        for each in chain(*contents.transactions)
    }
    return Redone(HashState.unpack(contents.state), images, contents.tickets, contents.serial)


def page_change(page: PageId, image: Buffer) -> Change:
    """The entry of the journal for the new image of a page."""
    return Change(PAGE, BlockKey(_PAGE_NAME.pack(*page)), Encoded("none", 0, len(image), image), 0)
