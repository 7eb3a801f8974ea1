"""What checking and repairing pass to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from holdfast.env import REAL, Environment
from holdfast.model import ContentKey, Fault
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.damage import KnownDamage

MISSING_DICTIONARY = "missing dictionary"
DAMAGED_BLOCK = "damaged block"
LOST_BLOCK = "lost block"
UNDECODABLE = "undecodable content"
UNLIKE = "content unlike its signature"
HEALABLE = frozenset([DAMAGED_BLOCK, LOST_BLOCK, UNDECODABLE, UNLIKE])


@dataclass(frozen=True, slots=True)
class Lost:
    """A block that its volume no longer has in sound form. `references` is 0 if its counter is unknown."""

    volume: str
    key: BlockKey
    replica: bool
    references: int

    @property
    def content_key(self) -> ContentKey:
        return fault_key(self.volume, self.key)


@dataclass(slots=True)
class CheckProgress:
    """Counts what a check has read, tells the progress, and keeps to a rate."""

    progress: Callable[[int], None] | None = None
    rate_bytes_s: int | None = None
    env: Environment = REAL
    blocks: int = 0
    bytes: int = 0
    notes: list[str] = field(default_factory=list)
    _started_s: float = 0.0

    def __post_init__(self) -> None:
        self._started_s = self.env.monotonic()

    def read(self, size: int) -> None:
        """`size` more bytes were read; waits if that was faster than the rate allows."""
        self.bytes += size
        if self.progress is not None:
            self.progress(size)
        if self.rate_bytes_s:
            ahead_s = self.bytes / self.rate_bytes_s - (self.env.monotonic() - self._started_s)
            if ahead_s > 0.01:
                self.env.sleep(ahead_s)


@runtime_checkable
class SelfChecking(Protocol):
    """A volume that checks its own files, which the client cannot see."""

    def check(self, watch: CheckProgress) -> Iterator[Fault]:
        """Every fault of the volume."""


@dataclass(slots=True)
class Repair:
    """What a volume's own repair did, and what only other volumes can mend."""

    lost: list[Lost] = field(default_factory=list)
    dictionaries: list[int] = field(default_factory=list)  # lost, by id
    recount: list[Lost] = field(default_factory=list)  # the block is there, its counter may be too low
    blocks: int = 0  # how many there must be, replicas included, where names cannot tell; 0: names do


def note_faults(name: str, damage: KnownDamage, faults: Iterable[Fault]) -> None:
    """Remembers the blocks that a check found damaged, for the next store of their contents to heal them."""
    keys = [fault.key for fault in faults if fault.key is not None and fault.kind in HEALABLE]
    damage.note(
        BlockKey(key.signature, key.overflow, b"" if key.volume == name else key.volume.encode()) for key in keys
    )


def fault_key(volume: str, key: BlockKey) -> ContentKey:
    """The contentkey that leads to a block of the volume."""
    return ContentKey(key.home.decode() or volume, key.signature, key.overflow)
