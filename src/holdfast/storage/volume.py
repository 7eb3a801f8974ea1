"""The volume protocol: what every place that holds blocks can do, whatever its organization (W4, W13).

A volume holds opaque encoded blocks. It knows signatures, sizes and reference counters, never contents: encoding,
decoding and comparing happen on the client's side, so that a remote volume moves compressed bytes and a duplicate
moves nothing but its signature (W12).

All writing is one call, `commit`, with a batch of operations: when it returns they are durable; if it raises, none of
them was acknowledged. Calls from several threads share syncs. Operations see the effects of those before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.env.files import Buffer
from holdfast.errors import UsageError
from holdfast.model import OVERFLOW_MAX


class BlockKey(NamedTuple):
    """Names a block inside a volume. `home` is the volume whose contentkeys lead here; empty: the volume itself."""

    signature: bytes
    overflow: int = 0
    home: bytes = b""


def next_key(signature: bytes, overflow: int) -> BlockKey:
    """The key of a new block of the volume's own. Raises UsageError if too many contents share the signature."""
    if overflow > OVERFLOW_MAX:
        raise UsageError(f"more than {OVERFLOW_MAX} contents share signature {signature.hex()} in one volume")
    return BlockKey(signature, overflow)


class BlockFacts(NamedTuple):
    """What a probe tells of a block."""

    key: BlockKey
    replica: bool
    size: int
    stored: int
    references: int


class Encoded(NamedTuple):
    """A content in encoded form, as it travels and rests."""

    codec: str
    dictionary: int  # 0 unless the codec is zstd-dict
    size: int
    data: Buffer


class Block(NamedTuple):
    """A block as it comes out of a volume."""

    key: BlockKey
    replica: bool
    references: int
    encoded: Encoded
    path: Path  # the file it stands in
    offset: int
    serial: int  # position in the volume's order

    @property
    def place(self) -> str:
        """File and offset, for a person with dd."""
        return f"{self.path}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Store:
    """Add a reference to the content if the volume has it, else keep it as a new block.

    A block of the volume's own with the same signature and size is taken for a duplicate, unless `compared` is given:
    then only the caller can tell, and a block of equal size that it has not compared yet makes the outcome UNSURE.
    Blocks under another home are not counted: whether they are in force, only the instance knows.
    """

    signature: bytes
    encoded: Encoded
    force_new: bool = False
    compared: frozenset[BlockKey] | None = None
    overflow_min: int = 0  # a new block gets at least this number
    references: int = 1


@dataclass(frozen=True, slots=True)
class Refer:
    """Add a reference to an existing block."""

    key: BlockKey


@dataclass(frozen=True, slots=True)
class Release:
    """Take a reference away; the last one removes the block."""

    key: BlockKey


@dataclass(frozen=True, slots=True)
class Adopt:
    """Keep a block under exactly this key and counter, replacing what is there: a replica, or a block that moves in."""

    key: BlockKey
    encoded: Encoded
    references: int
    replica: bool


@dataclass(frozen=True, slots=True)
class Recount:
    """Set a block's counter, 0 removing it; with `expected`, only if the counter still has that value."""

    key: BlockKey
    references: int
    expected: int | None = None


Operation = Store | Refer | Release | Adopt | Recount


class Effect(Enum):
    """What an operation did."""

    NEW = "new"
    DUPLICATE = "duplicate"
    COUNTED = "counted"
    REMOVED = "removed"
    MISSING = "missing"  # no such block; nothing changed
    UNSURE = "unsure"  # a block of equal signature and size must be compared first; nothing changed
    CONFLICT = "conflict"  # the counter was not as expected; nothing changed


class Outcome(NamedTuple):
    """The answer to one operation."""

    effect: Effect
    key: BlockKey
    references: int = 0
    stored: int = 0


@dataclass(frozen=True, slots=True)
class VolumeStat:
    """How full a volume is."""

    organization: str
    blocks: int
    replicas: int
    references: int
    content_bytes: int
    stored_bytes: int
    referenced_bytes: int  # what all references would take without elimination of duplicates, uncompressed
    disk_bytes: int
    dead_bytes: int  # reclaimable by compaction
    free_bytes: int
    dictionaries: int


class ReadableVolume(Protocol):
    """A volume open for reading, maybe while another process writes to it. Any thread may call."""

    @property
    def name(self) -> str: ...
    @property
    def organization(self) -> str: ...
    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        """For each signature all blocks that have it."""

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        """The blocks, checksums verified; None where there is none. Raises DamagedBlock."""

    def scan(self, *, counted: bool = True) -> Iterator[list[Block]]:
        """All blocks in the volume's order, in batches; those stored or removed meanwhile may or may not appear.

        Without `counted`, their `references` may be outdated: who does not need them is served faster.
        """

    def signatures(self) -> Iterator[bytes]:
        """The signature of every block, in no particular order, once each."""

    def stat(self) -> VolumeStat: ...
    def refresh(self) -> None:
        """What the volume's writer has acknowledged before this call is seen after it."""

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        """Id and bytes of a dictionary; without a number, of the newest one."""

    def close(self) -> None: ...


class Volume(ReadableVolume, Protocol):
    """A volume open for writing."""

    def commit(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Carries the operations out in order; they are durable when this returns."""

    def add_dictionary(self, number: int, data: bytes) -> None:
        """Keeps a dictionary for good; durable on return."""

    def position(self) -> int:
        """A number that changes with every change of the volume's set of blocks."""
