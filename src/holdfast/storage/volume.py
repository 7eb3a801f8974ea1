"""The volume protocol, common to all organizations (W4, W13).

A volume holds opaque encoded blocks. It knows signatures, sizes and reference counters, never contents. Encoding,
decoding and comparing are the client's work, so that a remote volume moves compressed bytes, and for a duplicate only
its signature (W12).

All writing is one call, `commit`, with a batch of operations. They are durable when it returns; if it raises, none of
them is acknowledged. Calls from several threads share syncs. Operations see the effects of those before them.

A commit may carry an idempotency key (`IdempotentVolume`). It is then applied once, however often it is repeated, even
across a crash of the volume's process. A client that lost the response repeats the commit with the same key and gets
the results of the first time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError, UsageError, VolumeDown, VolumeFull, VolumeReadOnly
from holdfast.model import OVERFLOW_MAX

FAILURES = (VolumeDown, VolumeFull, VolumeReadOnly)  # of one volume: another may do

# Added to the counter of the copy that a migration makes, until the original is gone. Such a copy is never counted, and
# the rest of an interrupted migration can be recognized.
MOVING = 5_000_000_000


def held(references: int) -> int:
    """The references that a counter stands for; those of a moving copy belong to its original."""
    return references if references < MOVING else 0


class BlockKey(NamedTuple):
    """Names a block in a volume. `home` is the volume that its contentkey names; empty: this volume."""

    signature: bytes
    overflow: int = 0
    home: bytes = b""


def next_key(signature: bytes, overflow: int) -> BlockKey:
    """The key of a new block of the volume itself. Raises UsageError if too many contents share the signature."""
    if overflow > OVERFLOW_MAX:
        raise UsageError(f"more than {OVERFLOW_MAX} contents share signature {signature.hex()} in one volume")
    return BlockKey(signature, overflow)


class BlockFacts(NamedTuple):
    """The result of a probe for one block."""

    key: BlockKey
    replica: bool
    size: int
    stored: int
    references: int
    damaged: bool = False  # its data is known to be unreadable

    @property
    def moving(self) -> bool:
        """True if it is the copy of an unfinished migration."""
        return self.references >= MOVING


class ScanPosition(NamedTuple):
    """A position in a volume's order: after this block."""

    key: BlockKey
    serial: int


class Encoded(NamedTuple):
    """An encoded content, as it is sent and stored."""

    codec: str
    dictionary: int  # 0 unless the codec is zstd-dict
    size: int
    data: Buffer
    checksum: int | None = None  # CRC-32 of the data, if the encoder computed it, outside the volume's lock


class EncodedGroup(NamedTuple):
    """Contents with the same encoding, checksums verified, each with its index in the request. Data shares memory."""

    codec: str
    dictionary: int
    indexes: list[int]
    sizes: list[int]  # of the contents
    data: list[memoryview]


class Gathered(NamedTuple):
    """The response to a request for many blocks: those that were read together, and those to request singly."""

    groups: list[EncodedGroup]
    alone: list[int]  # indexes in the request


class Block(NamedTuple):
    """A block as read from a volume."""

    key: BlockKey
    replica: bool
    references: int
    encoded: Encoded
    path: Path  # the file that holds it
    offset: int
    serial: int  # position in the volume's order

    @property
    def place(self) -> str:
        """File and offset, for a person with dd."""
        return f"{self.path}@{self.offset}"

    @property
    def mark(self) -> ScanPosition:
        """Where a scan that has seen this block continues."""
        return ScanPosition(self.key, self.serial)


@dataclass(frozen=True, slots=True)
class Store:
    """Add a reference to the content if the volume has it, else keep it as a new block.

    A block of the volume itself with the same signature and size counts as a duplicate, and is healed if it is known
    to be damaged. If `compared` is given, only the caller can decide: a block of equal size that it has not compared
    yet gives UNSURE. Blocks under another home are not counted: only the store knows whether they are in force.
    """

    signature: bytes
    encoded: Encoded
    force_new: bool = False
    compared: frozenset[BlockKey] | None = None
    overflow_min: int = 0  # the least overflow of a new block
    references: int = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Add a reference to the volume's own block with this signature and size. MISSING if there is none, or if it is
    known to be damaged: then the content is needed.

    For a client that sends a content only if it must.
    """

    signature: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Refer:
    """Add a reference to an existing block. MISSING if it is a replica or known to be damaged."""

    key: BlockKey


@dataclass(frozen=True, slots=True)
class Release:
    """Remove a reference; the last one removes the block. MISSING if it is a replica."""

    key: BlockKey


@dataclass(frozen=True, slots=True)
class Adopt:
    """Keep a block under exactly this key and counter, in place of what is there: a replica, or a block that moves in.

    With `expected`, only in place of a replica with this counter; 0: only if there is nothing. Otherwise CONFLICT.
    """

    key: BlockKey
    encoded: Encoded
    references: int
    replica: bool
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Recount:
    """Set a block's counter; 0 removes the block. With `expected`, only if the counter still has that value.

    With `replica`, only if it is a replica or not, else MISSING: since the probe, a block may have moved away and a
    replica taken its place.
    """

    key: BlockKey
    references: int
    expected: int | None = None
    replica: bool | None = None


@dataclass(frozen=True, slots=True)
class Heal:
    """Replace the data of a block that is known to be damaged, and add `references` to its counter: HEALED.

    If it is sound by now, it is only counted, or CONFLICT if there is nothing to count. A replica is healed but never
    counted: with `references` it is MISSING.
    """

    key: BlockKey
    encoded: Encoded
    references: int = 1


Operation = Store | Claim | Refer | Release | Adopt | Recount | Heal


def signature_of(operation: Operation) -> bytes:
    """The signature that the operation is about."""
    return operation.signature if isinstance(operation, Store | Claim) else operation.key.signature


class Effect(Enum):
    """What an operation did."""

    NEW = "new"
    DUPLICATE = "duplicate"
    COUNTED = "counted"
    REMOVED = "removed"
    MISSING = "missing"  # no such block; nothing changed
    UNSURE = "unsure"  # a block of equal signature and size must be compared first; nothing changed
    CONFLICT = "conflict"  # the counter was not as expected; nothing changed
    HEALED = "healed"  # a damaged block has sound data again

    __hash__ = object.__hash__  # that of `Enum` is a call in Python, and every commit looks some of them up

    @property
    def changes(self) -> bool:
        """True if the volume has changed."""
        return self in _CHANGING


_CHANGING = frozenset([Effect.NEW, Effect.DUPLICATE, Effect.COUNTED, Effect.REMOVED, Effect.HEALED])


class OperationResult(NamedTuple):
    """The result of one operation."""

    effect: Effect
    key: BlockKey
    references: int = 0
    stored: int = 0


Result = list[OperationResult] | HoldfastError  # of one of many commits


@dataclass(frozen=True, slots=True)
class VolumeStat:
    """The size of a volume."""

    organization: str
    blocks: int
    replicas: int
    references: int
    content_bytes: int
    stored_bytes: int
    referenced_bytes: int  # what all references would take uncompressed and without deduplication
    disk_bytes: int
    dead_bytes: int  # reclaimable by compaction
    free_bytes: int
    dictionaries: int


class IdempotencyKey(NamedTuple):
    """Names a commit, so that it is applied once: its client, and its number among the client's commits."""

    client: bytes  # 8 bytes, chosen at random
    sequence: int  # from 1 on, without gaps
    settled: int = 0  # the client will not repeat its commits up to this one: they can be forgotten


class News(NamedTuple):
    """The signatures that were added to a volume since a position. None: too many; read `signatures`."""

    position: int
    signatures: list[bytes] | None


@dataclass(frozen=True, slots=True)
class Activity:
    """What a volume is doing (B5)."""

    state: str  # down, idling, storing, streaming
    outstanding: int = 0  # requests without a response yet
    clients: int = 0


@runtime_checkable
class Active(Protocol):
    """A volume that reports what it is doing: one on a server. Any thread may call."""

    def status(self) -> tuple[VolumeStat, Activity]:
        """Size and activity, with one request. Raises VolumeDown if there is no response."""


class ReadableVolume(Protocol):
    """A volume open for reading, possibly while another process writes to it. Any thread may call."""

    @property
    def name(self) -> str: ...
    @property
    def organization(self) -> str: ...
    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        """All blocks of each signature."""

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        """The blocks, checksums verified; None where there is none. Raises DamagedBlock, and remembers the damage."""

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        """All blocks in the volume's order, in batches; blocks stored or removed meanwhile may or may not appear.

        Without `counted`, their `references` may be outdated, which is faster. `after` continues after a block of an
        earlier scan, even if that block is gone.
        """

    def signatures(self) -> Iterator[bytes]:
        """The signature of every block, in no particular order, once each."""

    def stat(self) -> VolumeStat: ...
    def refresh(self) -> None:
        """Shows what the volume's writer has acknowledged before this call."""

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        """Id and bytes of a dictionary; without a number, of the newest."""

    def close(self) -> None: ...


class Volume(ReadableVolume, Protocol):
    """A volume open for writing."""

    def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Carries out the operations in order; durable on return."""

    def add_dictionary(self, number: int, data: bytes) -> None:
        """Adds a dictionary, permanently; durable on return."""

    def position(self) -> int:
        """A number that changes with every change of the volume's set of blocks."""


class IdempotentVolume(Volume, Protocol):
    """A volume that a server can serve: each commit of a client is applied once."""

    def commit(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey | None = None
    ) -> list[OperationResult]:
        """As `commit_all` for one commit; raises its error."""

    def commit_all(
        self, commits: Sequence[tuple[Sequence[Operation], IdempotencyKey | None]]
    ) -> list[list[OperationResult] | HoldfastError]:
        """Many commits with one sync; durable on return. One that fails does not fail the others.

        A commit with a known idempotency key is not applied again: it gets the results of the first time. UsageError
        for a key that was made void or that its client has settled.
        """

    def void(self, idempotency_key: IdempotencyKey) -> list[OperationResult] | None:
        """The results of the commit with this key. None if it was not applied; then it never will be. Durable."""


@runtime_checkable
class DamageNoting(Protocol):
    """A volume that remembers its damaged blocks until they are healed or gone. Any thread may call."""

    def note_damaged(self, keys: Sequence[BlockKey]) -> None:
        """Remembers damaged blocks. Durable on return, if the volume's directory is writable."""

    def may_be_damaged(self) -> bool:
        """False if no block is known to be damaged; True if some are, or if only a probe could tell."""


@runtime_checkable
class Remote(Protocol):
    """A volume on another machine: each call is a round trip, it may be down, and others write to it."""

    @property
    def available(self) -> bool:
        """False for a short while after a failure, during which it is skipped."""

    def fetch_at_once(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        """As `fetch`; raises VolumeDown at once if it does not respond."""

    def wake(self) -> None:
        """Ends the pause after a failure: the next call waits as if it had not failed."""

    def resolve(self) -> None:
        """Before closing: finds out what became of abandoned commits, if the server responds."""

    def rolled_back(self) -> list[BlockKey]:
        """The blocks that rollbacks have removed since the last call: replicas of them may be left."""


@runtime_checkable
class BulkReadable(Protocol):
    """A volume that reads many blocks faster together than one by one. Any thread may call."""

    def gather(self, signatures: Sequence[bytes]) -> Gathered:
        """The volume's own blocks with these signatures and overflow 0. Raises nothing: missing and damaged blocks are
        listed in `alone`, to be requested singly."""


@runtime_checkable
class LimitedFetch(Protocol):
    """A volume that finds places and sizes of blocks with one look-up. Any thread may call."""

    def fetch_up_to(self, keys: Sequence[BlockKey], bytes_max: int) -> list[Block | None]:
        """The first blocks, at least one, as many as have no more than `bytes_max` bytes of data together."""


@runtime_checkable
class Newsworthy(Protocol):
    """A volume that others write to, and that lists what was added since."""

    def news(self, since: int) -> News:
        """The signatures added since a position. Removals are not reported."""
