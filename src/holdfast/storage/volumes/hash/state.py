"""What a hash volume knows of itself besides its pages: totals, its shape, and which overflow pages are free.

It is written as text, a line for each field, in every entry `state` of the journal (`hash.journal`):

    serial 42                      number of the last commit
    generation 1                   of the bucket file
    buckets 64                     in it
    split 0                        of these, how many have been split into the next generation; -1: none is to be
    overflow 12                    pages of the overflow file
    free 3 5-7                     of these, the free ones
    page_bytes 123456              that all entries take in pages
    blocks 10                      and so on, as `holdfast volume list` shows them
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from holdfast.storage.volume import held
from holdfast.storage.volumes.hash.chain import BucketId
from holdfast.storage.volumes.hash.page import HashEntry, bucket_of

NOT_GROWING = -1


@dataclass(slots=True)
class HashState:
    """Not thread-safe: the volume's lock guards it."""

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

    def copy(self) -> HashState:
        return replace(self)

    @property
    def is_growing(self) -> bool:
        return self.split != NOT_GROWING

    def bucket(self, signature: bytes) -> BucketId:
        """Where blocks with this signature are."""
        number = bucket_of(signature, self.buckets)
        if number < self.split:
            return BucketId(self.generation + 1, bucket_of(signature, 2 * self.buckets), 2 * self.buckets)
        return BucketId(self.generation, number, self.buckets)

    def count(self, entry: HashEntry, sign: int) -> None:
        """A block has come (+1) or gone (-1)."""
        self.page_bytes += sign * entry.cost
        if entry.replica:
            self.replicas += sign
            return
        references, size = held(entry.header.references), entry.header.size
        self.blocks += sign
        self.references += sign * references
        self.content_bytes += sign * size
        self.stored_bytes += sign * entry.stored
        self.referenced_bytes += sign * size * references

    def pack(self, free: Iterable[int]) -> bytes:
        text = [f"{each.name} {getattr(self, each.name)}" for each in fields(self)]
        return ("\n".join([*text, f"free {_ranges(free)}"]) + "\n").encode()


def unpack_state(text: bytes) -> tuple[HashState, list[int]]:
    """The state, and the free pages. The text has been verified."""
    told = dict(line.split(" ", 1) for line in text.decode().splitlines())
    free = [
        number
        for each in told.pop("free").split()
        for number in range(int(each.split("-")[0]), int(each.split("-")[-1]) + 1)
    ]
    return HashState(**{name: int(value) for name, value in told.items()}), free


def _ranges(numbers: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(f"{first}-{last}" if first < last else f"{first}" for first, last in parts)


class Space:
    """The overflow pages that may be taken. What a commit frees may not be taken before the commit is durable."""

    def __init__(self, size: int, available: Iterable[int], limbo: Iterable[int] = ()) -> None:
        self.size = size  # pages of the file
        self.available = sorted(available)
        self.limbo = list(limbo)  # freed, but the disk may still need them

    def copy(self) -> Space:
        return Space(self.size, self.available, self.limbo)

    @property
    def free(self) -> list[int]:
        """As it will be when all is durable."""
        return self.available + self.limbo

    def take(self, pages: int = 1) -> int:
        """The first of so many pages in a row: as far to the front as possible, at the end if need be."""
        found = self.first_fit(pages)
        if found is not None:
            at = bisect_left(self.available, found)
            del self.available[at : at + pages]
            return found
        tail = 0  # free pages at the very end of the file begin the run
        while tail < len(self.available) and self.available[-1 - tail] == self.size - 1 - tail:
            tail += 1
        first = self.size - tail
        del self.available[len(self.available) - tail :]
        self.size = first + pages
        return first

    def first_fit(self, pages: int) -> int | None:
        """Where so many free pages lie in a row."""
        run = 0
        for at, number in enumerate(self.available):
            run = run + 1 if run and number == self.available[at - 1] + 1 else 1
            if run == pages:
                return number - pages + 1
        return None

    def give_back(self, numbers: Iterable[int]) -> None:
        self.limbo += numbers

    def settle(self, numbers: Iterable[int]) -> None:
        """These were freed by a commit that is durable now."""
        gone = set(numbers)
        self.limbo = [number for number in self.limbo if number not in gone]
        self.available = sorted([*self.available, *gone])
