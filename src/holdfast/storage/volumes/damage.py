"""Known damage of a volume: the blocks that a read, a scrub or a check could not read (N13).

The directory `damaged` of a volume has an empty file for each such block, named like the block file of a tree:
`<signature>[~overflow][@home]`. Any process that meets damage creates the file. The writer removes it when the block
was written again or is gone. The next put of the content sees the file and heals the block with the bytes at hand.

The files are hints. If one is missing, the damage is found again later. If a crash leaves one behind after a repair,
the block is written again.

Also here: what checks and repairs of all organizations report, such as lost blocks and progress.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from holdfast.env import REAL, Environment, paths
from holdfast.errors import HoldfastError
from holdfast.model import ContentKey, Fault
from holdfast.storage.volume import BlockKey, Effect, OperationResult

log = logging.getLogger("holdfast.storage")

DAMAGED_MAX: Final = 10_000  # damaged blocks remembered per volume; more are left to `check --repair`
_NAME = re.compile(r"((?:[0-9a-f]{2}){1,64})(?:~([0-9]{1,5}))?(?:@([a-z0-9][a-z0-9_-]{0,15}))?")
_NONE: Final[frozenset[BlockKey]] = frozenset()
_SETTLING = frozenset([Effect.NEW, Effect.HEALED, Effect.REMOVED])


class KnownDamage:
    """The damaged blocks of one volume. Any thread and any process may call any method."""

    def __init__(self, env: Environment, directory: Path) -> None:
        self._files = env.files
        self._volume = directory / paths.VOLUME
        self._directory = directory / paths.DAMAGED
        self._seen = _NONE  # by this process, at its last look

    def keys(self) -> frozenset[BlockKey]:
        """All damaged blocks known now, also to other processes. Usually none, for the price of one `stat`."""
        if not self._files.exists(self._directory):
            return _NONE
        names = self._files.names(self._directory)
        self._seen = frozenset(key for name in names if (key := _key(name)) is not None)
        return self._seen

    def note(self, keys: Iterable[BlockKey]) -> None:
        """Remembers damaged blocks. Durable on return; a failure to write is only logged.

        Does not create the directory of a volume that is gone.
        """
        try:
            known = self.keys()
            fresh = [key for key in dict.fromkeys(keys) if key not in known]
            if not fresh or not self._files.exists(self._volume):
                return
            if len(known) + len(fresh) > DAMAGED_MAX:
                log.error("'%s' has more than %d damaged blocks; run 'holdfast check'", self._directory, DAMAGED_MAX)
                fresh = fresh[: max(0, DAMAGED_MAX - len(known))]
            self._files.make_directory(self._directory)
            for key in fresh:
                self._make(self._directory / _name(key))
            self._files.sync_directory(self._directory)
        except HoldfastError as error:
            log.warning("damage in '%s' cannot be remembered: %s", self._directory.parent, error)

    def _make(self, path: Path) -> None:
        if not self._files.exists(path):
            try:
                self._files.open(path, writable=True, create=True).close()
            except HoldfastError:
                if not self._files.exists(path):  # else another process was faster
                    raise

    def settle(self, outcomes: Iterable[OperationResult]) -> None:
        """Forgets blocks that the volume has written or removed, durably."""
        if self._seen:
            gone = [each.key for each in outcomes if each.effect in _SETTLING and each.key in self._seen]
            self.forget(gone)

    def clear(self) -> None:
        """Forgets all damage, after a repair."""
        self.forget(self.keys())

    def forget(self, keys: Iterable[BlockKey]) -> None:
        """Forgets blocks that are sound again or gone. For the volume's writer, or a repair."""
        gone = list(keys)
        if not gone:
            return
        try:
            for key in gone:
                self._files.remove(self._directory / _name(key))
            self._files.sync_directory(self._directory)
            self._seen = self._seen.difference(gone)
        except HoldfastError as error:
            log.warning("'%s' cannot be brought up to date: %s", self._directory, error)


def _name(key: BlockKey) -> str:
    overflow = f"~{key.overflow}" if key.overflow else ""
    home = f"@{key.home.decode()}" if key.home else ""
    return key.signature.hex() + overflow + home


def _key(name: str) -> BlockKey | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return BlockKey(bytes.fromhex(match[1]), int(match[2] or 0), (match[3] or "").encode())


MISSING_DICTIONARY = "missing dictionary"
DAMAGED_BLOCK = "damaged block"
LOST_BLOCK = "lost block"
UNDECODABLE = "undecodable content"
UNLIKE = "content unlike its signature"
HEALABLE = frozenset([DAMAGED_BLOCK, LOST_BLOCK, UNDECODABLE, UNLIKE])


@dataclass(frozen=True, slots=True)
class Lost:
    """A block that its volume no longer has in sound form. `references` is 0 if the counter is unknown."""

    volume: str
    key: BlockKey
    replica: bool
    references: int

    @property
    def content_key(self) -> ContentKey:
        return fault_key(self.volume, self.key)


@dataclass(slots=True)
class CheckProgress:
    """Counts what a check has read, reports progress, and limits the rate."""

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
        """Counts `size` bytes; sleeps if they were read faster than the rate."""
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
        """All faults of the volume."""


@dataclass(slots=True)
class Repair:
    """The result of a volume's own repair, and what only other volumes can restore."""

    lost: list[Lost] = field(default_factory=list)
    dictionaries: list[int] = field(default_factory=list)  # lost, by id
    recount: list[Lost] = field(default_factory=list)  # blocks whose counter may be too low
    blocks: int = 0  # expected number of blocks, replicas included, where they have no names; 0: they have


def note_faults(name: str, damage: KnownDamage, faults: Iterable[Fault]) -> None:
    """Remembers the blocks that a check found damaged, so that the next put of their contents heals them."""
    keys = [fault.key for fault in faults if fault.key is not None and fault.kind in HEALABLE]
    damage.note(
        BlockKey(key.signature, key.overflow, b"" if key.volume == name else key.volume.encode()) for key in keys
    )


def fault_key(volume: str, key: BlockKey) -> ContentKey:
    """The contentkey of a block of the volume."""
    return ContentKey(key.home.decode() or volume, key.signature, key.overflow)
