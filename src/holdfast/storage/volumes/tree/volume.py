"""The `tree` organization: Webstore's own (W4). A directory tree of degree 256, one file per block.

`sig2location` is the paper's: in a tree of depth n, the n-1 most significant bytes of the signature name the nodes to
follow, and the remaining bytes name the file. With depth 3, signature ADEE2232AF3A4355 is found at AD/EE/2232AF3A4355.
An overflow block has the suffix `~1`, a block that belongs to volume v0 the suffix `@v0`.

A block file is a block followed by the count entries that changed its counter since; the last one is in force. Counters
are appended, never rewritten in place, and a torn one is ignored. Compaction folds them into the header.

Durability: without an idempotency key, each operation is durable by itself. A commit with one is first made durable as
a whole in a journal (`tree.journal`), then carried out in the files.

Threads: any thread may call any method; access to one signature is exclusive.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from holdfast.env import Environment, paths
from holdfast.env.files import read_file, replace_file
from holdfast.errors import DamagedBlock, HoldfastError, VolumeDown, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, HEADER_BYTES, REPLICA, Header
from holdfast.storage.identity import Identity
from holdfast.storage.volume import (
    Block,
    BlockFacts,
    BlockKey,
    Encoded,
    IdempotencyKey,
    Operation,
    OperationResult,
    Result,
    ScanPosition,
    VolumeStat,
    held,
    signature_of,
)
from holdfast.storage.volumes.compaction import Compaction, Progress
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.group_commit import fresh_error
from holdfast.storage.volumes.idempotency import Kept, Past, key_name, pack_past, require_not_void
from holdfast.storage.volumes.operations import NOTHING, UNREADABLE, Change, PlannedBlocks, decide
from holdfast.storage.volumes.tree.journal import Promise, TreeJournal

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
        self._tree = directory / paths.TREE
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

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
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


class TreeBlocks:
    """The blocks of a volume as their files describe them; each file is read once."""

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
        """An unreadable block is a duplicate of nothing, but its key is taken."""
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


_STRIPES = 256
_DRAFTS = "drafts"
OPEN = "OPEN"  # there while a writer has the volume open


class TreeVolume(TreeReading):
    """A tree volume open for writing. Access to one signature is exclusive.

    Locks are taken in this order: tickets, signatures by stripe, the journal's own.
    """

    def __init__(self, name: str, directory: Path, identity: Identity, env: Environment) -> None:
        super().__init__(name, directory, identity, env)
        self._drafts = directory / _DRAFTS
        self._marker = directory / OPEN
        self._locks = [threading.Lock() for _ in range(_STRIPES)]
        self._counter_lock = threading.Lock()
        self._directory_lock = threading.Lock()
        self._tickets_lock = threading.Lock()
        self._changes = int.from_bytes(env.random_bytes(7), "big")  # never the same in two openings
        for leftover in env.files.names(self._drafts):
            env.files.remove(self._drafts / leftover)
        for made in (self._tree, self._drafts):
            env.files.make_directory(made)
        crashed = env.files.exists(self._marker)
        if crashed:
            self._settle(self._tree)
            self._dictionaries.settle()
            env.files.sync_directory(directory)
        self._journal = TreeJournal(env, directory, identity)
        promised = self._journal.open(crashed=crashed)  # before the marker: what is damaged must not look torn
        if not crashed:
            replace_file(env.files, self._marker, b"open for writing; if no process has it open, it was not closed\n")
        if promised:
            self._repeat(promised)
            self._journal.done()
            self._journal.renew(at_once=True)

    def position(self) -> int:
        return self._changes

    def commit(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey | None = None
    ) -> list[OperationResult]:
        if idempotency_key is None:
            return [self._perform(operation) for operation in operations]
        (result,) = self._commit_once([(operations, idempotency_key)])
        if isinstance(result, HoldfastError):
            raise result
        return result

    def commit_all(self, commits: Sequence[tuple[Sequence[Operation], IdempotencyKey | None]]) -> list[Result]:
        results: list[Result] = []
        gathered: list[tuple[Sequence[Operation], IdempotencyKey]] = []
        for operations, idempotency_key in commits:
            if idempotency_key is not None:
                gathered.append((operations, idempotency_key))
                continue
            results += self._commit_once(gathered)
            gathered = []
            try:
                results.append(self.commit(operations))
            except HoldfastError as error:
                results.append(error)
        return results + self._commit_once(gathered)

    def _perform(self, operation: Operation) -> OperationResult:
        signature = signature_of(operation)
        with self._locks[signature[-1] % _STRIPES]:
            blocks = TreeBlocks(self)
            result, change = decide(operation, blocks)
            if change is not None:
                self._claim(signature)
                self._carry_out([change], blocks.files)
                self.damage.settle([result])
        return result

    # -- with idempotency keys: promised in the journal, then done ------------------------------------------------

    def _commit_once(self, commits: Sequence[tuple[Sequence[Operation], IdempotencyKey]]) -> list[Result]:
        operations = [operation for each, _ in commits for operation in each]
        with self._tickets_lock, self._exclusive(operations):
            blocks, promises = TreeBlocks(self), list[Promise]()
            plan = PlannedBlocks(blocks)
            results = [self._promise(plan, promises, *commit) for commit in commits]
            try:
                self._keep(promises, blocks.files)
            except HoldfastError as error:
                return [result if isinstance(result, HoldfastError) else fresh_error(error) for result in results]
        self.damage.settle(outcome for result in results if isinstance(result, list) for outcome in result)
        return results

    def void(self, idempotency_key: IdempotencyKey) -> list[OperationResult] | None:
        with self._tickets_lock:
            self._journal.require_working(self.name)
            past = self._journal.sessions.find(idempotency_key)
            if past is None:
                promises = [self._remember(idempotency_key, Past(0, True, []), [], [])]
                self._keep(promises, {})
        return None if past is None or past.void else past.outcomes

    @contextmanager
    def _exclusive(self, operations: Sequence[Operation]) -> Iterator[None]:
        """No other thread touches the operations' signatures."""
        with ExitStack() as stack:
            for stripe in sorted({signature_of(operation)[-1] % _STRIPES for operation in operations}):
                stack.enter_context(self._locks[stripe])
            yield

    def _promise(
        self,
        plan: PlannedBlocks,
        promises: list[Promise],
        operations: Sequence[Operation],
        idempotency_key: IdempotencyKey,
    ) -> Result:
        try:
            self._journal.require_working(self.name)
            past = self._journal.sessions.find(idempotency_key)
            if past is not None:
                return require_not_void(idempotency_key, past)
            outcomes, changes = plan.decide(operations)
        except HoldfastError as error:
            return error
        if changes:  # or nothing has happened that must be remembered
            promises.append(self._remember(idempotency_key, Past(0, False, outcomes), changes, promises))
        return outcomes

    def _remember(
        self, idempotency_key: IdempotencyKey, past: Past, changes: list[Change], before: Sequence[Promise]
    ) -> Promise:
        """From here on the ticket is known, so that it is not taken twice in one batch."""
        sessions, name = self._journal.sessions, key_name(idempotency_key)
        data = pack_past(past._replace(settled=sessions.settled(idempotency_key)))
        serial = before[-1].end if before else self._journal.next_serial
        sessions.apply(name, Kept(serial, data))
        return Promise(serial, name, data, changes)

    def _keep(self, promises: Sequence[Promise], files: Mapping[BlockKey, BlockFile]) -> None:
        if not promises:
            return
        self._journal.append(promises)
        try:
            self._carry_out([change for promise in promises for change in promise.changes], files)
            self._journal.done()
            self._journal.renew()
        except BaseException as error:
            self._journal.failure = error  # the next opening will keep what was promised
            raise

    def _claim(self, signature: bytes) -> None:
        """The files of a signature are about to change without the journal knowing."""
        self._journal.require_working(self.name)
        if signature in self._journal.unmarked:
            self._journal.mark()

    # -- files ------------------------------------------------------------------------------------------------------

    def _carry_out(self, changes: Sequence[Change], known: Mapping[BlockKey, BlockFile]) -> None:
        """The changes in order. `known` are block files as they are before the first of them."""
        files = dict(known)  # as they are after the changes so far
        for change in changes:
            key = change.key
            file = files.pop(key, None)
            if change.kind != COUNT:
                self._publish(self.path(key), change)
                self._note_change()
            elif change.references == 0:
                self._remove(self.path(key))
            else:
                files[key] = self._append_count(file or self.read_or_salvage(self.path(key)), change.references)

    def _repeat(self, changes: Sequence[Change]) -> None:
        """Does what was promised before a crash, wherever that interrupted it."""
        for change in changes:
            with suppress(FileNotFoundError, DamagedBlock):  # a later change removes it; for `check` to report
                self._carry_out([change], {})

    def _remove(self, path: Path) -> None:
        self._env.files.remove(path)
        self._env.files.sync_directory(path.parent)
        self._note_change()

    def _publish(self, path: Path, block: Change) -> None:
        files = self._env.files
        with self._directory_lock:  # a directory that another thread has made may not be durable yet
            files.make_directory(path.parent)
        draft = self._drafts / f"{threading.get_ident():x}"
        files.remove(draft)
        file = files.open(draft, writable=True, create=True)
        try:
            file.append([block.packed_header(self.identity, 1, 0), block.encoded.data])
            file.sync()
        except VolumeFull:
            files.remove(draft)  # what fitted is in the way of smaller blocks
            raise
        finally:
            file.close()
        files.rename(draft, path)
        files.sync_directory(path.parent)

    def _append_count(self, file: BlockFile, references: int) -> BlockFile:
        """Appends to the block file. What fails is cut off: after a failed sync, no later one would write it."""
        count = Change(COUNT, file.key, NOTHING, references)
        handle = self._env.files.open(file.path, writable=True)
        try:
            if file.excess:
                handle.truncate(file.end)
            handle.append([count.packed_header(self.identity, file.serial + 1, file.serial)])
            handle.sync()
        except BaseException:
            handle.truncate(file.end)
            raise
        finally:
            handle.close()
        end = file.end + HEADER_BYTES
        return file._replace(references=references, serial=file.serial + 1, end=end, excess=0)

    def _note_change(self) -> None:
        with self._counter_lock:
            self._changes += 1

    # -- dictionaries and space -----------------------------------------------------------------------------------

    def add_dictionary(self, number: int, data: bytes) -> None:
        self._dictionaries.add(number, data)

    def compact(self, progress: Progress | None) -> Compaction:
        """Folds counters that were appended to block files into their headers. Removed blocks take no space anyway."""
        files = before = after = 0
        for path in self.all_paths():
            signature = self.signature_of(path)
            if signature is None:
                continue
            with self._locks[signature[-1] % _STRIPES]:
                try:
                    file = self.read(path)
                except FileNotFoundError:
                    continue
                self.require_whole(file)
                if file.serial > file.header.serial:
                    self._claim(signature)
                    self._fold(file)
                    files, before, after = files + 1, before + file.end, after + file.header.length
            if progress is not None:
                progress(file.end)
        return Compaction(files, before, after)

    def _fold(self, file: BlockFile) -> None:
        header = file.header
        encoded = Encoded(header.codec.decode(), header.dictionary, header.size, file.data)
        self._publish(file.path, Change(header.kind, file.key, encoded, file.references))

    # -- opening and closing --------------------------------------------------------------------------------------

    def _settle(self, directory: Path) -> None:
        """After a crash: what is there stays, for a killed process may have left it unsynced."""
        files = self._env.files
        for name in files.names(directory):
            path = directory / name
            if files.is_directory(path):
                self._settle(path)
            else:
                self._settle_counter(path)
        files.sync_directory(directory)

    def _settle_counter(self, path: Path) -> None:
        """A counter that was being appended when the crash came was never acknowledged, and goes."""
        try:
            file = self.read_or_salvage(path)
        except DamagedBlock:
            return  # for `check` to report
        handle = self._env.files.open(path, writable=True)
        if handle.size() > file.end:
            handle.truncate(file.end)
        if handle.size() > file.header.length:
            handle.sync()
        handle.close()

    def close(self) -> None:
        """A clean close spares the next opening a walk through the tree."""
        self._journal.close()
        if self._journal.failure is not None:
            return  # the next opening must look at everything
        self._env.files.remove(self._marker)
        self._env.files.sync_directory(self.directory)
