"""The volume protocol: what every place that holds blocks can do, whatever its organization (W4, W13).

A volume holds opaque encoded blocks. It knows signatures, sizes and reference counters, never contents: encoding,
decoding and comparing happen on the client's side, so that a remote volume moves compressed bytes and a duplicate
moves nothing but its signature (W12).

All writing is one call, `commit`, with a batch of operations: when it returns they are durable; if it raises, none of
them was acknowledged. Calls from several threads share syncs. Operations see the effects of those before them.

A commit may carry an idempotency key (`IdempotentVolume`): then it happens once, however often it is repeated, also
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
from holdfast.errors import HoldfastError, UsageError
from holdfast.model import OVERFLOW_MAX

# Added to the counter of a copy that a migration makes, until the original is gone: nobody counts on such a copy, and
# what a crash leaves of a migration can be told from a block.
MOVING = 5_000_000_000


def held(references: int) -> int:
    """How many references a counter stands for: those of a copy on its way are its original's."""
    return references if references < MOVING else 0


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
    damaged: bool = False  # it is known that its data cannot be read

    @property
    def moving(self) -> bool:
        """Whether it is a copy that a migration has not finished."""
        return self.references >= MOVING


class ScanPosition(NamedTuple):
    """A place in a volume's order: behind this block."""

    key: BlockKey
    serial: int


class Encoded(NamedTuple):
    """A content in encoded form, as it travels and rests."""

    codec: str
    dictionary: int  # 0 unless the codec is zstd-dict
    size: int
    data: Buffer


class EncodedGroup(NamedTuple):
    """Contents that are encoded alike, checksums verified, each with its place in the question. Data shares memory."""

    codec: str
    dictionary: int
    indexes: list[int]
    sizes: list[int]  # of the contents
    data: list[memoryview]


class Gathered(NamedTuple):
    """The answer to a question for many blocks: what could be read together, and what must be asked for alone."""

    groups: list[EncodedGroup]
    alone: list[int]  # places in the question


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

    @property
    def mark(self) -> ScanPosition:
        """Where a scan that has seen this block goes on."""
        return ScanPosition(self.key, self.serial)


@dataclass(frozen=True, slots=True)
class Store:
    """Add a reference to the content if the volume has it, else keep it as a new block.

    A block of the volume's own with the same signature and size is taken for a duplicate, and healed if it is known to
    be damaged, unless `compared` is given: then only the caller can tell, and a block of equal size that it has not
    compared yet makes the outcome UNSURE.
    Blocks under another home are not counted: whether they are in force, only the instance knows.
    """

    signature: bytes
    encoded: Encoded
    force_new: bool = False
    compared: frozenset[BlockKey] | None = None
    overflow_min: int = 0  # a new block gets at least this number
    references: int = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Add a reference to the volume's own block with this signature and size, if it has one: MISSING otherwise.

    One that is known to be damaged is MISSING, too: the content is needed.

    A store that sends its content only where it must begins with this.
    """

    signature: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Refer:
    """Add a reference to an existing block. A replica, or one that is known to be damaged, is MISSING."""

    key: BlockKey


@dataclass(frozen=True, slots=True)
class Release:
    """Take a reference away; the last one removes the block. A replica is MISSING here too."""

    key: BlockKey


@dataclass(frozen=True, slots=True)
class Adopt:
    """Keep a block under exactly this key and counter, replacing what is there: a replica, or a block that moves in.

    With `expected`, only in the place of a replica that has this counter; 0: only if there is nothing. Else CONFLICT.
    """

    key: BlockKey
    encoded: Encoded
    references: int
    replica: bool
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Recount:
    """Set a block's counter, 0 removing it; with `expected`, only if the counter still has that value.

    With `replica`, only if it is one, or is none: else it is MISSING. Between looking and counting, a block may have
    moved away, and a replica have come in its place.
    """

    key: BlockKey
    references: int
    expected: int | None = None
    replica: bool | None = None


@dataclass(frozen=True, slots=True)
class Heal:
    """Put sound data in the place of a block that is known to be damaged, and add `references` to its counter: HEALED.

    If it is sound, or was healed meanwhile, it is just counted; with nothing to count, CONFLICT. A replica is healed as
    well, but never counted: with `references` it is MISSING.
    """

    key: BlockKey
    encoded: Encoded
    references: int = 1


Operation = Store | Claim | Refer | Release | Adopt | Recount | Heal


def signature_of(operation: Operation) -> bytes:
    """What the operation is about."""
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

    @property
    def changes(self) -> bool:
        """Whether the volume is not as it was."""
        return self in _CHANGING


_CHANGING = frozenset([Effect.NEW, Effect.DUPLICATE, Effect.COUNTED, Effect.REMOVED, Effect.HEALED])


class OperationResult(NamedTuple):
    """The answer to one operation."""

    effect: Effect
    key: BlockKey
    references: int = 0
    stored: int = 0


Result = list[OperationResult] | HoldfastError  # of one of many commits


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


class IdempotencyKey(NamedTuple):
    """Names a commit, so that it happens once: its client, and its number among the commits of that client."""

    client: bytes  # 8 bytes, chosen at random
    sequence: int  # from 1 on, without gaps
    settled: int = 0  # the client will not ask again for its commits up to this one: they can be forgotten


class News(NamedTuple):
    """The signatures that were added to a volume since a position. None: too many; read `signatures`."""

    position: int
    signatures: list[bytes] | None


@dataclass(frozen=True, slots=True)
class Activity:
    """What a volume is doing (B5)."""

    state: str  # down, idling, storing, streaming
    outstanding: int = 0  # requests that wait for their answer
    clients: int = 0


@runtime_checkable
class Active(Protocol):
    """A volume that can tell what it is doing: one on a server. Any thread may call."""

    def status(self) -> tuple[VolumeStat, Activity]:
        """How full it is, and what it does, with one request. Raises VolumeDown if there is no response."""


class ReadableVolume(Protocol):
    """A volume open for reading, maybe while another process writes to it. Any thread may call."""

    @property
    def name(self) -> str: ...
    @property
    def organization(self) -> str: ...
    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        """For each signature all blocks that have it."""

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        """The blocks, checksums verified; None where there is none. Raises DamagedBlock: it is remembered of which."""

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        """All blocks in the volume's order, in batches; those stored or removed meanwhile may or may not appear.

        Without `counted`, their `references` may be outdated: who does not need them is served faster. `after` goes on
        behind a block that an earlier scan gave, also if that block is gone.
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

    def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Carries the operations out in order; they are durable when this returns."""

    def add_dictionary(self, number: int, data: bytes) -> None:
        """Keeps a dictionary for good; durable on return."""

    def position(self) -> int:
        """A number that changes with every change of the volume's set of blocks."""


class IdempotentVolume(Volume, Protocol):
    """A volume that a server can give out: each commit of a client happens once."""

    def commit(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey | None = None
    ) -> list[OperationResult]:
        """As `commit_all` for one commit; raises what keeps it from happening."""

    def commit_all(
        self, commits: Sequence[tuple[Sequence[Operation], IdempotencyKey | None]]
    ) -> list[list[OperationResult] | HoldfastError]:
        """Many commits with one sync; they are durable when this returns. One that fails does not fail the others.

        A commit whose idempotency key the volume knows is not carried out again: it gets the results of the first time.
        A key that was made void, or that its client has settled, gets UsageError.
        """

    def void(self, idempotency_key: IdempotencyKey) -> list[OperationResult] | None:
        """What the commit with this idempotency key did; None if it did not happen, and then it never will. Durable."""


@runtime_checkable
class DamageNoting(Protocol):
    """A volume that remembers which of its blocks are damaged, until they are healed or gone. Any thread may call."""

    def note_damaged(self, keys: Sequence[BlockKey]) -> None:
        """The blocks were found damaged. Durable on return, if the volume's directory can be written to."""

    def may_be_damaged(self) -> bool:
        """False if no block is known to be damaged; True if some are, or if only a probe would tell."""


@runtime_checkable
class Remote(Protocol):
    """A volume on another machine: each call is a round trip, it may be down for a while, and others write to it."""

    @property
    def available(self) -> bool:
        """False for a short while after a failure: then it is left alone."""

    def fetch_at_once(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        """As `fetch`; if it does not answer, VolumeDown is raised at once."""

    def wake(self) -> None:
        """It is not left alone any more: the next call waits for it as if it had not failed."""


@runtime_checkable
class BulkReadable(Protocol):
    """A volume that reads many blocks faster together than one by one. Any thread may call."""

    def gather(self, signatures: Sequence[bytes]) -> Gathered:
        """The volume's own blocks of these signatures, overflow 0. What is not there, or not sound, is to be asked for
        alone: nothing is raised here."""


@runtime_checkable
class Newsworthy(Protocol):
    """A volume that others write to as well, and that can tell what came in since."""

    def news(self, since: int) -> News:
        """The signatures that have come since a position. Removed ones are not told."""
