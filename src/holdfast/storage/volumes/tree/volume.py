"""The `tree` organization: Webstore's own (W4). A directory tree of degree 256, one file per block.

`sig2location` follows the paper: in a tree of depth n, the first n-1 bytes of the signature name the directories, the
others the file. With depth 3, signature ADEE2232AF3A4355 is at AD/EE/2232AF3A4355. An overflow block has the suffix
`~1`, a block that belongs to volume v0 the suffix `@v0`.

A block file is a block followed by count entries; the last one is the current counter. Counters are appended, never
rewritten in place, and a torn one is ignored. Compaction folds them into the header.

Durability: a commit is durable as a whole in the journal (`volumes.journal`) before the first file changes for it, and
acknowledged when all its files are durable, so that readers need no journal.

Threads: any thread may call any method. The lock of the group commit guards the planned changes; the thread that leads
a flush writes files.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.env import paths
from holdfast.env.files import read_file
from holdfast.errors import DamagedBlock, VolumeDown, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, HEADER_BYTES, REPLICA, Header
from holdfast.storage.volume import Block, BlockFacts, BlockKey, ScanPosition, VolumeStat
from holdfast.storage.volumes.group_commit import Group, uninterruptible
from holdfast.storage.volumes.idempotency import Sessions
from holdfast.storage.volumes.journal import JournaledVolume, Prepared, Ticket
from holdfast.storage.volumes.local import (
    Compaction,
    LocalVolume,
    Progress,
    VolumeSpec,
    batched,
    block_of,
    count_block,
    encoded_of,
    key_of,
)
from holdfast.storage.volumes.operations import NOTHING, UNREADABLE, Change

_LEAF = re.compile(r"((?:[0-9A-F]{2})+)(?:~([0-9]{1,5}))?(?:@([a-z0-9_-]{1,16}))?")


def sig2location(signature: bytes, depth: int) -> tuple[str, ...]:
    """Directories and file of a signature in a tree of this depth."""
    nodes = min(depth - 1, len(signature) - 1)
    return (*(f"{byte:02X}" for byte in signature[:nodes]), signature[nodes:].hex().upper())


class BlockFile(NamedTuple):
    """A block file as read: its header, data and current counter."""

    path: Path
    header: Header
    data: memoryview
    references: int
    serial: int  # of the last sound entry
    end: int  # where the last sound entry ends
    excess: int  # bytes after it: a counter that was never acknowledged, or is damaged
    damaged: bool = False  # only its data

    @property
    def key(self) -> BlockKey:
        return key_of(self.header)

    @property
    def facts(self) -> BlockFacts:
        header = self.header
        return BlockFacts(self.key, header.kind == REPLICA, header.size, header.stored, self.references, self.damaged)


@dataclass(slots=True)
class TreeTotals:
    """Counted for every `stat`."""

    blocks: int = 0
    replicas: int = 0
    references: int = 0
    content_bytes: int = 0
    stored_bytes: int = 0
    referenced_bytes: int = 0


class TreeReading(LocalVolume):
    """The reading half of a tree volume."""

    organization = "tree"

    def __init__(self, spec: VolumeSpec) -> None:
        super().__init__(spec)
        self._tree = spec.directory / paths.TREE

    def close(self) -> None:
        """Nothing to do: no file is kept open."""

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
        """Every block file by ascending signature, after the place of `after`."""
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
        """The signature in a path; None for a foreign file."""
        *nodes, leaf = path.relative_to(self._tree).parts
        try:
            return bytes.fromhex("".join(nodes) + leaf.split("~")[0].split("@")[0]) or None
        except ValueError:
            return None

    def key_of(self, path: Path) -> BlockKey | None:
        """The inverse of `path`; None if it is not the path of a block."""
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
        """The file with its current counter."""
        references, serial, end = header.references, header.serial, header.length
        while (count := block.parse(raw[end : end + HEADER_BYTES])) is not None and count.serial == serial + 1:
            references, serial, end = count.references, count.serial, end + HEADER_BYTES
        data = raw[HEADER_BYTES : header.length]
        return BlockFile(path, header, data, references, serial, end, len(raw) - end, damaged)

    def read_or_salvage(self, path: Path) -> BlockFile:
        """As `read`; of a damaged block its header and counter, if readable.

        Raises FileNotFoundError, or DamagedBlock if header or counter are unreadable.
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
            if file.excess < 0 or self.path(file.key) != path:  # too short, or of another block
                raise error from None
            return file

    def _damaged(self, path: Path, expected: str, found: str) -> DamagedBlock:
        return DamagedBlock(
            f"cannot read block '{path.name}' in '{path}' at 0: expected {expected}, found {found}; "
            "run 'holdfast check --repair'"
        )

    def misplaced(self, file: BlockFile) -> DamagedBlock:
        """The file holds another block than its name says."""
        return self._damaged(file.path, "the block of this name", f"block {file.key.signature.hex()}")

    def require_whole(self, file: BlockFile) -> None:
        """Raises DamagedBlock if a counter is unreadable. Opening replaced those that were never acknowledged."""
        if file.excess >= HEADER_BYTES:
            raise self._damaged(file.path, "a counter", f"{file.excess} unreadable bytes at {file.end}")

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        return [tuple(self._facts_of(signature)) for signature in signatures]

    def _facts_of(self, signature: bytes) -> Iterator[BlockFacts]:
        """Facts of all readable blocks: a replica is found although the block is damaged."""
        damaged = self.damage.keys()
        for path in self.paths_of(signature):
            with suppress(FileNotFoundError, DamagedBlock):
                facts = self.read_or_salvage(path).facts
                yield facts._replace(damaged=facts.damaged or facts.key in damaged)

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
        return block_of(file.header, file.data, file.references, file.path, 0)

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        return batched(self._blocks(after.key if after is not None else None))

    def _blocks(self, after: BlockKey | None) -> Iterator[Block]:
        for path in self.all_paths(after):
            try:
                yield self._block(self.read(path))
            except FileNotFoundError:
                continue  # removed meanwhile
            except DamagedBlock:
                if (key := self.key_of(path)) is not None:
                    self.damage.note([key])

    def signatures(self) -> Iterator[bytes]:
        previous = None
        for path in self.all_paths():
            signature = self.signature_of(path)
            if signature is not None and signature != previous:
                yield signature
            previous = signature

    def refresh(self) -> None:
        """Nothing to do: every lookup reads the file system."""

    def stat(self) -> VolumeStat:
        """Reads the whole tree: this organization keeps no totals."""
        totals, disk_bytes, dead_bytes = TreeTotals(), 0, 0
        for path in self.all_paths():
            try:
                file = self.read_or_salvage(path)
            except (FileNotFoundError, DamagedBlock):
                continue
            disk_bytes += file.end
            dead_bytes += file.end - file.header.length
            replica, size, stored = file.header.kind == REPLICA, file.header.size, file.header.stored
            count_block(totals, +1, replica=replica, size=size, stored=stored, references=file.references)
        return self._stat(totals, disk_bytes, dead_bytes)


class TreeBlocks:
    """The blocks of a volume as they are in its files; reads each file once."""

    def __init__(self, volume: TreeReading) -> None:
        self._volume = volume
        self._damaged = volume.damage.keys()
        self._known: dict[BlockKey, BlockFacts | None] = {}
        self._unreadable: dict[BlockKey, DamagedBlock] = {}
        self.files: dict[BlockKey, BlockFile] = {}  # without their data

    def all_of(self, signature: bytes) -> Sequence[BlockFacts]:
        keys = [self._volume.key_of(path) for path in self._volume.paths_of(signature)]
        return [known for key in keys if key is not None and (known := self.find(key)) is not None]

    def find(self, key: BlockKey) -> BlockFacts | None:
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def _read(self, key: BlockKey) -> BlockFacts | None:
        """An unreadable block duplicates nothing, but its key is taken."""
        try:
            file = self._volume.read_or_salvage(self._volume.path(key))
            if file.key != key:
                raise self._volume.misplaced(file)
        except FileNotFoundError:
            return None
        except DamagedBlock as error:
            self._unreadable[key] = error
            return BlockFacts(key, replica=False, size=UNREADABLE, stored=0, references=0, damaged=True)
        self.files[key] = file._replace(data=memoryview(b""))
        return file.facts._replace(damaged=file.damaged or key in self._damaged)

    def require_counter(self, key: BlockKey) -> None:
        if key in self._unreadable:
            raise self._unreadable[key]
        self._volume.require_whole(self.files[key])


SPARE_BYTES = 64 << 10  # that must stay free in addition to the space of new blocks


class TreeVolume(JournaledVolume, TreeReading):
    """A tree volume open for writing. The thread that leads a flush, or compacts, is alone with the files."""

    journal_bytes_max = 4 << 20
    _known: TreeBlocks

    def __init__(self, spec: VolumeSpec) -> None:
        TreeReading.__init__(self, spec)
        JournaledVolume.__init__(self, spec)
        files = spec.env.files
        self._draft = spec.directory / ("block" + paths.UNFINISHED)
        self._position = int.from_bytes(spec.env.random_bytes(7), "big")  # never the same in two openings
        self._files_before: dict[BlockKey, BlockFile] = {}  # as known before the group that is flushed
        files.remove(self._draft)
        files.make_directory(self._tree)
        self._dictionaries.settle()
        if not files.exists(self._journal.path):
            self._journal.renew(b"", ())
        contents = self._journal.open()
        self._remembered = Sessions(contents.tickets)
        if changes := contents.transactions[-1]:
            for change in changes:
                with suppress(FileNotFoundError, DamagedBlock):  # removed by a later change; or left to `check`
                    self._apply([change], {})
            self._checkpoint(self._remembered.all_kept())

    def _known_blocks(self) -> TreeBlocks:
        return TreeBlocks(self)

    # -- flushing: Flusher ----------------------------------------------------------------------------------------

    def prepare(self) -> Prepared:
        self._files_before = dict(self._known.files)
        return super().prepare()

    def write(self, group: Group, prepared: Any) -> None:
        self._require_space(prepared.changes)
        self._journal.append(b"", prepared.changes, prepared.tickets)
        with self._must_succeed():
            self._apply(prepared.changes, self._files_before)
            if prepared.kept is not None:
                self._checkpoint(prepared.kept)

    def _require_space(self, changes: Sequence[Change]) -> None:
        """Raises VolumeFull unless the changes can be applied: what the journal holds must be."""
        length = 2 * sum(HEADER_BYTES + len(change.encoded.data) for change in changes)
        spare = SPARE_BYTES if any(change.kind != COUNT for change in changes) else 0
        if self._env.files.free_bytes(self.directory) < length + spare:
            raise VolumeFull(
                f"no space left for '{self.directory}'; free some space or add a volume ('holdfast volume add')"
            )

    def _checkpoint(self, tickets: Sequence[Ticket]) -> None:
        with suppress(VolumeFull):
            self._journal.renew(b"", tickets)

    def settle(self, prepared: object) -> None:
        self._read_again()

    # -- files ------------------------------------------------------------------------------------------------------

    def _apply(self, changes: Sequence[Change], known: Mapping[BlockKey, BlockFile]) -> None:
        """Applies the changes in order, durably. `known` are block files as they are before."""
        files = dict(known)  # as they are after the changes so far
        for change in changes:
            key = change.key
            file = files.pop(key, None)
            if change.kind != COUNT:
                self._publish(self.path(key), change)
            elif change.references == 0:
                self._env.files.remove(self.path(key))
                self._env.files.sync_directory(self.path(key).parent)
            else:
                files[key] = self._append_count(file or self.read_or_salvage(self.path(key)), change.references)

    def _publish(self, path: Path, block: Change) -> None:
        files = self._env.files
        files.make_directory(path.parent)
        files.remove(self._draft)
        file = files.open(self._draft, writable=True, create=True)
        try:
            file.append([block.packed_header(self.identity, 1, 0), block.encoded.data])
            file.sync()
        except VolumeFull:
            files.remove(self._draft)  # it takes the space of smaller blocks
            raise
        finally:
            file.close()
        files.rename(self._draft, path)
        files.sync_directory(path.parent)

    def _append_count(self, file: BlockFile, references: int) -> BlockFile:
        count = Change(COUNT, file.key, NOTHING, references)
        handle = self._env.files.open(file.path, writable=True)
        try:
            if file.excess:
                handle.truncate(file.end)
            handle.append([count.packed_header(self.identity, file.serial + 1, file.serial)])
            handle.sync()
        finally:
            handle.close()
        end = file.end + HEADER_BYTES
        return file._replace(references=references, serial=file.serial + 1, end=end, excess=0)

    # -- space ----------------------------------------------------------------------------------------------------

    def compact(self, progress: Progress | None) -> Compaction:
        """Folds appended counters into the headers of block files, and starts the journal again.

        Removed blocks take no space.
        """
        files = before = after = 0
        for path in self.all_paths():
            if self.key_of(path) is None:
                continue
            with suppress(FileNotFoundError):
                file = self._fold(path)
                if file.serial > file.header.serial:
                    files, before, after = files + 1, before + file.end, after + file.header.length
                if progress is not None:
                    progress(file.end)
        with self.commits.exclusive():
            self._refuse_after_failure()
            self._drop_applied()
        return Compaction(files, before, after)

    @uninterruptible
    def _fold(self, path: Path) -> BlockFile:
        """Returns the file as it was. Raises FileNotFoundError or DamagedBlock."""
        with self.commits.exclusive():
            self._refuse_after_failure()
            file = self.read(path)
            self.require_whole(file)
            if file.serial > file.header.serial:
                encoded = encoded_of(file.header, file.data)
                self._publish(path, Change(file.header.kind, file.key, encoded, file.references))
                self._read_again()
        return file
