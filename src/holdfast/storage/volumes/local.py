"""Volumes in a local directory: the specification to open one, and code shared by all organizations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from holdfast.config import StoreSettings
from holdfast.env import Environment, paths
from holdfast.errors import UsageError, VolumeDown
from holdfast.storage.block import REPLICA, Header
from holdfast.storage.identity import Identity, read_identity
from holdfast.storage.volume import Block, BlockKey, Encoded, Remote, VolumeStat, held
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.log.segment_files import SegmentFiles

SCAN_BATCH = 512
SCAN_BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """What is needed to open a volume."""

    name: str
    directory: Path
    identity: Identity
    settings: StoreSettings
    env: Environment

    @classmethod
    def read(cls, name: str, directory: Path, settings: StoreSettings, env: Environment) -> Self:
        """The volume in a directory. Raises VolumeDown, DamagedBlock, FormatTooNew or UsageError."""
        try:
            identity = read_identity(env, directory)
        except FileNotFoundError:
            raise VolumeDown(f"volume {name!r} is not there: '{directory / paths.VOLUME}' is missing") from None
        if identity.signature != settings.signature:
            raise UsageError(
                f"volume {name!r} was made for signature {identity.signature!r}, "
                f"the archive says {settings.signature!r}"
            )
        return cls(name, directory, identity, settings, env)

    def segments(self) -> SegmentFiles:
        """The segment files of a log, plain or hashed."""
        uid, lanes = self.identity.uid, self.identity.lanes
        return SegmentFiles(self.env, self.directory, uid, lanes)


class BlockTotals(Protocol):
    """The totals that every organization reports."""

    blocks: int
    replicas: int
    references: int
    content_bytes: int
    stored_bytes: int
    referenced_bytes: int


def count_block(totals: BlockTotals, sign: int, replica: bool, size: int, stored: int, references: int) -> None:
    """Adds (+1) or removes (-1) a block."""
    if replica:
        totals.replicas += sign
        return
    references = held(references)
    totals.blocks += sign
    totals.references += sign * references
    totals.content_bytes += sign * size
    totals.stored_bytes += sign * stored
    totals.referenced_bytes += sign * size * references


class LocalVolume:
    """Base of all organizations: name, dictionaries and known damage."""

    organization: str

    def __init__(self, spec: VolumeSpec) -> None:
        self.name = spec.name
        self.directory = spec.directory
        self.identity = spec.identity
        self.settings = spec.settings
        self._env = spec.env
        self._dictionaries = DictionaryShelf(spec.env, spec.directory, spec.identity)
        self.damage = KnownDamage(spec.env, spec.directory)

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        return self._dictionaries.newest() if number is None else self._dictionaries.read(number)

    def note_damaged(self, keys: Sequence[BlockKey]) -> None:
        self.damage.note(keys)

    def may_be_damaged(self) -> bool:
        return bool(self.damage.keys())

    def _stat(self, totals: BlockTotals, disk_bytes: int, dead_bytes: int) -> VolumeStat:
        return VolumeStat(
            self.organization,
            totals.blocks,
            totals.replicas,
            totals.references,
            totals.content_bytes,
            totals.stored_bytes,
            totals.referenced_bytes,
            disk_bytes,
            dead_bytes,
            self._env.files.free_bytes(self.directory),
            len(self._dictionaries.numbers()),
        )


def key_of(header: Header) -> BlockKey:
    """The key of the block that an entry is about."""
    return BlockKey(header.signature, header.overflow, header.home)


def encoded_of(header: Header, data: memoryview) -> Encoded:
    return Encoded(header.codec.decode(), header.dictionary, header.size, data)


def block_of(header: Header, data: memoryview, references: int, path: Path, offset: int) -> Block:
    """The block with this header and counter."""
    encoded = encoded_of(header, data)
    return Block(key_of(header), header.kind == REPLICA, references, encoded, path, offset, header.serial)


def batched(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """The blocks in batches that fit into memory."""
    batch: list[Block] = []
    batch_bytes = 0
    for block in blocks:
        batch.append(block)
        batch_bytes += len(block.encoded.data)
        if len(batch) >= SCAN_BATCH or batch_bytes >= SCAN_BATCH_BYTES:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch


Progress = Callable[[int], None]  # bytes read since the last call


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction. `files` were rewritten: segments, or block files of a tree."""

    files: int
    bytes_before: int
    bytes_after: int


@runtime_checkable
class SelfCompacting(Remote, Protocol):
    """A remote volume, whose server reclaims its space."""

    def compact(self, dead_share_min: float, progress: Progress | None) -> Compaction: ...
