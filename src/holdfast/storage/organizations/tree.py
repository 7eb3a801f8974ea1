"""The `tree` organization: Webstore's own (W4). A directory tree of degree 256, one file per block.

`sig2location` is the paper's: in a tree of depth n, the n-1 most significant bytes of the signature name the nodes to
follow, and the remaining bytes name the file. With depth 3, signature ADEE2232AF3A4355 is found at AD/EE/2232AF3A4355.
An overflow block has the suffix `~1`, a block that belongs to volume v0 the suffix `@v0`.

A block file is a block followed by the count entries that changed its counter since; the last one is in force. Counters
are thus appended, never rewritten in place, and a torn one is simply not there. Compaction folds them into the header.

Threads: any thread may call any method; access to one signature is exclusive. Each operation is durable by itself.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from holdfast.env import Environment
from holdfast.env.files import read_file
from holdfast.errors import DamagedBlock, VolumeDown
from holdfast.storage import block, layout
from holdfast.storage.block import BLOCK, HEADER_BYTES, REPLICA, Header
from holdfast.storage.damage import KnownDamage
from holdfast.storage.identity import Identity
from holdfast.storage.organizations.dictionaries import DictionaryShelf
from holdfast.storage.volume import Block, BlockFacts, BlockKey, Encoded, Mark, VolumeStat, held

SCAN_BATCH = 256
_LEAF = re.compile(r"((?:[0-9A-F]{2})+)(?:~([0-9]{1,5}))?(?:@([a-z0-9_-]{1,16}))?")


def sig2location(signature: bytes, depth: int) -> tuple[str, ...]:
    """Nodes and leaf of a signature in a tree of this depth."""
    nodes = min(depth - 1, len(signature) - 1)
    return (*(f"{byte:02X}" for byte in signature[:nodes]), signature[nodes:].hex().upper())


class BlockFile(NamedTuple):
    """A block file as read: its header, its data, and the counter in force."""

    path: Path
    header: Header
    data: memoryview
    references: int
    serial: int  # of the last sound entry
    end: int  # where the last sound entry ends
    excess: int  # bytes behind it: a counter that was never acknowledged, or is damaged
    damaged: bool = False  # its data is not what was written; everything else is known

    @property
    def key(self) -> BlockKey:
        return BlockKey(self.header.signature, self.header.overflow, self.header.home)

    @property
    def facts(self) -> BlockFacts:
        header = self.header
        return BlockFacts(self.key, header.kind == REPLICA, header.size, header.stored, self.references, self.damaged)


class TreeReading:
    """The reading half of a tree volume."""

    organization = "tree"

    def __init__(self, name: str, directory: Path, identity: Identity, env: Environment) -> None:
        self.name = name
        self.directory = directory
        self.identity = identity
        self._env = env
        self._tree = directory / layout.TREE
        self._dictionaries = DictionaryShelf(env, directory, identity)
        self.damage = KnownDamage(env, directory)

    def close(self) -> None:
        """Nothing is kept open."""

    # -- places ---------------------------------------------------------------------------------------------------

    def path(self, key: BlockKey) -> Path:
        *nodes, leaf = sig2location(key.signature, self.identity.shape)
        overflow = f"~{key.overflow}" if key.overflow else ""
        home = f"@{key.home.decode()}" if key.home else ""
        return self._tree.joinpath(*nodes, leaf + overflow + home)

    def paths_of(self, signature: bytes) -> list[Path]:
        """The files of all blocks with this signature."""
        own = self.path(BlockKey(signature))
        names = self._env.files.names(own.parent)
        return [own.parent / name for name in names if name.split("~")[0].split("@")[0] == own.name]

    def all_paths(self, after: BlockKey | None = None) -> Iterator[Path]:
        """Every block file, by ascending signature; those behind the place of `after`, whether that is there or not."""
        return self._walk(self._tree, self.path(after).relative_to(self._tree).parts if after is not None else ())

    def _walk(self, directory: Path, after: tuple[str, ...]) -> Iterator[Path]:
        names = self._env.files.names(directory)
        for name in names[bisect_left(names, after[0]) :] if after else names:
            path = directory / name
            on_the_way = after[:1] == (name,)
            if self._env.files.is_directory(path):
                yield from self._walk(path, after[1:] if on_the_way else ())
            elif not on_the_way:
                yield path

    def signature_of(self, path: Path) -> bytes | None:
        """The inverse of `path`, from the name alone; None for a file that is not ours."""
        *nodes, leaf = path.relative_to(self._tree).parts
        try:
            return bytes.fromhex("".join(nodes) + leaf.split("~")[0].split("@")[0]) or None
        except ValueError:
            return None

    def key_of(self, path: Path) -> BlockKey | None:
        """The block that a file's path promises; None if it is no block's path."""
        match = _LEAF.fullmatch(path.name)
        signature = self.signature_of(path) if match is not None else None
        if match is None or signature is None:
            return None
        key = BlockKey(signature, int(match[2] or 0), (match[3] or "").encode())
        return key if self.path(key) == path else None

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, path: Path) -> BlockFile:
        """Raises FileNotFoundError or DamagedBlock."""
        raw = self._raw(path)
        header = block.parse(raw[:HEADER_BYTES])
        if header is None or header.uid != self.identity.uid or len(raw) < header.length:
            raise self._damaged(path, "a sound header of this volume", repr(bytes(raw[:28])))
        found = block.checksum(raw[HEADER_BYTES : header.length])
        if found != header.checksum:
            raise self._damaged(path, f"crc32 {header.checksum:08x}", f"{found:08x}")
        return self._counted(path, header, raw)

    def _raw(self, path: Path) -> memoryview:
        try:
            return memoryview(read_file(self._env.files, path))
        except VolumeDown:
            if self._env.files.is_directory(path):  # a signature too short for this tree
                raise FileNotFoundError(path) from None
            raise

    def _counted(self, path: Path, header: Header, raw: memoryview, *, damaged: bool = False) -> BlockFile:
        """The file with the counter in force."""
        references, serial, end = header.references, header.serial, header.length
        while (count := block.parse(raw[end : end + HEADER_BYTES])) is not None and count.serial == serial + 1:
            references, serial, end = count.references, count.serial, end + HEADER_BYTES
        data = raw[HEADER_BYTES : header.length]
        return BlockFile(path, header, data, references, serial, end, len(raw) - end, damaged)

    def read_or_salvage(self, path: Path) -> BlockFile:
        """As `read`; of a damaged block what its header and its counters say, if they can be told.

        Raises FileNotFoundError, or DamagedBlock if not even they can be.
        """
        try:
            return self.read(path)
        except DamagedBlock as error:
            raw = self._raw(path)
            head = raw[:HEADER_BYTES]
            header = block.parse(head) or block.parse(block.mended(head) or b"")
            if header is None or header.kind not in (BLOCK, REPLICA) or header.uid != self.identity.uid:
                raise
            file = self._counted(path, header, raw, damaged=True)
            if file.excess < 0 or self.path(file.key) != path:  # too short, or another block's
                raise error from None
            return file

    def _damaged(self, path: Path, expected: str, found: str) -> DamagedBlock:
        return DamagedBlock(
            f"cannot read block '{path.name}' in '{path}' at 0: expected {expected}, found {found}; "
            "run 'holdfast check --repair'"
        )

    def misplaced(self, file: BlockFile) -> DamagedBlock:
        """The file holds another block than its name promises."""
        return self._damaged(file.path, "the block of this name", f"block {file.key.signature.hex()}")

    def require_whole(self, file: BlockFile) -> None:
        """Opening cut off what was never acknowledged: an unreadable counter is damage, and its value is unknown."""
        if file.excess >= HEADER_BYTES:
            raise self._damaged(file.path, "a counter", f"{file.excess} unreadable bytes at {file.end}")

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        return [tuple(self._facts_of(signature)) for signature in signatures]

    def _facts_of(self, signature: bytes) -> Iterator[BlockFacts]:
        """Of all blocks of which something can be told: a replica must be found though the block is damaged."""
        damaged = self.damage.keys()
        for path in self.paths_of(signature):
            with suppress(FileNotFoundError, DamagedBlock):
                facts = self.read_or_salvage(path).facts
                yield facts._replace(damaged=facts.damaged or facts.key in damaged)

    def note_damaged(self, keys: Sequence[BlockKey]) -> None:
        self.damage.note(keys)

    def may_be_damaged(self) -> bool:
        return bool(self.damage.keys())

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return [self._fetch(key) for key in keys]

    def _fetch(self, key: BlockKey) -> Block | None:
        path = self.path(key)
        try:
            file = self.read(path)
        except FileNotFoundError:
            return None
        except DamagedBlock:
            self.damage.note([key])
            raise
        if file.key != key:
            raise self.misplaced(file)
        return self._block(file)

    def _block(self, file: BlockFile) -> Block:
        header = file.header
        encoded = Encoded(header.codec.decode(), header.dictionary, header.size, file.data)
        return Block(file.key, header.kind == REPLICA, file.references, encoded, file.path, 0, header.serial)

    def scan(self, *, counted: bool = True, after: Mark | None = None) -> Iterator[list[Block]]:
        batch: list[Block] = []
        for path in self.all_paths(after.key if after is not None else None):
            try:
                batch.append(self._block(self.read(path)))
            except FileNotFoundError:
                continue  # removed meanwhile
            except DamagedBlock:
                if (key := self.key_of(path)) is not None:
                    self.damage.note([key])
                continue
            if len(batch) >= SCAN_BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def signatures(self) -> Iterator[bytes]:
        previous = None
        for path in self.all_paths():
            signature = self.signature_of(path)
            if signature is not None and signature != previous:
                yield signature
            previous = signature

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        return self._dictionaries.newest() if number is None else self._dictionaries.read(number)

    def refresh(self) -> None:
        """Every look-up asks the file system anyway."""

    def stat(self) -> VolumeStat:
        """Reads the whole tree: this organization keeps no totals."""
        blocks = replicas = references = content = stored = referenced = disk = dead = 0
        for path in self.all_paths():
            try:
                file = self.read_or_salvage(path)
            except (FileNotFoundError, DamagedBlock):
                continue
            disk += file.end
            dead += file.end - file.header.length
            if file.header.kind == REPLICA:
                replicas += 1
                continue
            blocks += 1
            references += held(file.references)
            content += file.header.size
            stored += file.header.stored
            referenced += file.header.size * held(file.references)
        return VolumeStat(
            "tree",
            blocks,
            replicas,
            references,
            content,
            stored,
            referenced,
            disk,
            dead,
            self._env.files.free_bytes(self.directory),
            len(self._dictionaries.numbers()),
        )
