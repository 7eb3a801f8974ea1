"""The contents of an archive: put, get, delete, by contentkey."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from holdfast.arguments import checked
from holdfast.env.files import Buffer
from holdfast.env.uninterruptible import uninterrupted
from holdfast.errors import ContentNotFound, Damaged, DamagedBlock, Denied, HoldfastError, VolumeDown
from holdfast.model import ContentKey, ContentStat, Stored
from holdfast.storage.codec import AUTO
from holdfast.storage.maintenance.train import AutomaticTraining
from holdfast.storage.store.delete import Deleter
from holdfast.storage.store.encoder import ContentEncoding, EncodedContent
from holdfast.storage.store.put import StoreHints, StoreOptions, Storer
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockLocations, BlockStore
from holdfast.storage.volume import MOVING, Block, BlockKey, BulkReadable, Gathered, ReadableVolume

log = logging.getLogger("holdfast.storage")
T = TypeVar("T")
_LOOKS_MAX = 8  # for a content that is not found
_DEFAULTS = StoreOptions()
_NO_HINTS = StoreHints()


_PLAIN = re.compile("(?:[0-9a-f]{2})+")  # a contentkey without volume and overflow


def _key(key: ContentKey | str) -> ContentKey:
    """The key of a text. Raises MalformedKey."""
    return key if isinstance(key, ContentKey) else ContentKey.parse(key)


class BulkRead:
    """The blocks of some contents, read together in disk order and not decoded yet. For one thread at a time.

    One batch can be read while another is decoded, which releases the interpreter lock. Contents that cannot be read in
    bulk are read one by one, by the path that knows replicas, moved blocks and volumes that are down.
    """

    def __init__(self, store: BlockStore, keys: Sequence[str], get: Callable[[ContentKey], bytes]) -> None:
        """Reads the blocks. Raises nothing: an error takes the place of its content in the result."""
        self._store = store
        self._keys = keys
        self._get = get
        self._gathered: list[tuple[str, list[int], Gathered]] = []
        self._alone: list[int] = []
        for name, indexes in self._by_volume().items():
            self._gather(name, indexes)

    def _by_volume(self) -> dict[str, list[int]]:
        names = {key.partition(":")[0] for key in self._keys}
        if len(names) == 1:
            return {names.pop(): list(range(len(self._keys)))}
        wanted: dict[str, list[int]] = {}
        for index, key in enumerate(self._keys):
            wanted.setdefault(key.partition(":")[0], []).append(index)
        return wanted

    def _gather(self, name: str, indexes: list[int]) -> None:
        volume: object = self._store.volumes.get(name)
        if not isinstance(volume, BulkReadable) or not self._store.is_up(name):
            self._alone += indexes
            return
        plain, skip = indexes, len(name) + 1
        try:
            signatures = [bytes.fromhex(self._keys[index][skip:]) for index in plain]
        except ValueError:
            plain = [index for index in indexes if _PLAIN.fullmatch(self._keys[index], skip)]
            self._alone += [index for index in indexes if not _PLAIN.fullmatch(self._keys[index], skip)]
            signatures = [bytes.fromhex(self._keys[index][skip:]) for index in plain]
        try:
            gathered = volume.gather(signatures)
        except HoldfastError:
            self._alone += plain
            return
        self._gathered.append((name, plain, gathered))
        self._alone += [plain[place] for place in gathered.alone]

    def decode(self, threads: int = 1) -> list[Buffer | HoldfastError]:
        """The contents in the order of the keys; an error takes the place of its content."""
        found: list[Buffer | HoldfastError] = [b""] * len(self._keys)
        for name, indexes, gathered in self._gathered:
            volume = self._store.volumes.get(name)
            for group in gathered.groups:
                try:
                    contents = (
                        self._store.encodings.decode_group(group, volume, threads) if volume is not None else None
                    )
                except DamagedBlock:  # no known dictionary decodes them
                    contents = None
                if contents is None:
                    self._alone += [indexes[place] for place in group.indexes]
                    continue
                for place, content in zip(group.indexes, contents, strict=True):
                    found[indexes[place]] = content
        for index in self._alone:
            found[index] = self._get_or_error(self._keys[index])
        return found

    def _get_or_error(self, key: str) -> Buffer | HoldfastError:
        try:
            return self._get(ContentKey.parse(key))
        except HoldfastError as error:
            return error


class Contents:
    """Thread-safe. Changes are durable when a method returns."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._replicator = Replicator(store)
        self._storer = Storer(store, self._replicator)
        self._deleter = Deleter(store, self._replicator)
        self._training = AutomaticTraining(store)

    # -- storing ------------------------------------------------------------------------------------------------

    @checked
    def put(self, content: Buffer, options: StoreOptions = _DEFAULTS) -> ContentKey:
        """Stores a content, or adds a reference to it; returns its key."""
        return self._store_one(content, options).key

    @checked
    def store(self, content: Buffer, options: StoreOptions = _DEFAULTS) -> Stored:
        """Like `put`; also returns sizes, the counter, and whether it is a duplicate."""
        return self._store_one(content, options)

    def _store_one(self, content: Buffer, options: StoreOptions) -> Stored:
        self._require_writable()
        stored = self._section(lambda: self._storer.store_one(content, options))
        self._training.notice([stored])
        return stored

    @checked
    def put_batch(self, contents: Sequence[Buffer], options: StoreOptions = _DEFAULTS) -> list[ContentKey]:
        """Stores many contents with few syncs; returns their keys, in order.

        Equal contents among them are duplicates of each other.
        """
        return [stored.key for stored in self._store_all(contents, options, _NO_HINTS)]

    @checked
    def store_batch(
        self, contents: Sequence[Buffer], options: StoreOptions = _DEFAULTS, hints: StoreHints = _NO_HINTS
    ) -> list[Stored]:
        """Like `put_batch`; also returns sizes, counters, and which of them are duplicates."""
        return self._store_all(contents, options, hints)

    def _store_all(self, contents: Sequence[Buffer], options: StoreOptions, hints: StoreHints) -> list[Stored]:
        self._require_writable()
        stored = self._section(lambda: self._storer.store(contents, options, hints))
        self._training.notice(stored)
        return stored

    @checked
    def put_encoded(self, contents: Sequence[Buffer | EncodedContent], hints: StoreHints) -> list[Stored]:
        """As `store_batch`, for contents that other processes have signed (`hints`) and encoded, or some of them."""
        self._require_writable()
        stored = self._section(lambda: self._storer.store_signed(contents, _DEFAULTS, hints))
        self._training.notice(stored)
        return stored

    def encoding(self) -> ContentEncoding | None:
        """How other processes may encode contents for `put_encoded`; None if it depends on the content's volume."""
        store = self._store
        if len(store.volumes) != 1 or store.settings.store.codec != AUTO:
            return None
        (volume,) = store.volumes.values()
        newest = store.encodings.newest(volume)
        return ContentEncoding(newest.data if newest is not None else b"")

    @checked
    def plain(self, content: Buffer | EncodedContent) -> Buffer:
        """The bytes of a content that may be encoded."""
        return self._store.encodings.plain(content)

    @checked
    def heal(self, contents: Sequence[Buffer | EncodedContent], signatures: Sequence[bytes]) -> None:
        """Heals known damaged blocks of these contents, without counting a reference.

        Durable on return. Skips a volume that fails.
        """
        self._require_writable()
        self._section(lambda: self._storer.heal(contents, signatures))

    @checked
    def sign(self, contents: Sequence[Buffer]) -> list[bytes]:
        """The signature of each content, computed on all cores."""
        return self._storer.sign(contents)

    @checked
    def home(self, signature: bytes) -> str:
        """The volume that a content with this signature is stored in. Raises VolumeDown."""
        return self._store.places(signature)[0]

    @checked
    def require_up(self, volume: str) -> None:
        """Raises VolumeDown if the volume is down."""
        if volume in self._store.down or (volume in self._store.volumes and not self._store.is_up(volume)):
            reason = self._store.down.get(volume, "it does not answer")
            raise VolumeDown(f"volume {volume!r} is down: {reason}")

    @checked
    def references(self, key: ContentKey | str, size: int) -> tuple[ContentKey, int] | None:
        """Key and counter of the content's block, or of another block of its volume with equal signature and size."""
        key = _key(key)
        for found in self._store.find(key).counted:
            if found.facts.size == size:
                return key, found.facts.references
        volume = self._store.volumes.get(key.volume)
        if volume is None:
            return None
        (blocks,) = volume.probe([key.signature])
        for facts in blocks:
            if not facts.replica and not facts.moving and facts.size == size:
                return self._store.content_key(volume, facts.key), facts.references
        return None

    @checked
    def is_shared(self, key: ContentKey | str) -> bool:
        """True if clients of other archives may count the content too."""
        return any(self._store.is_shared(found.volume.name) for found in self._store.find(_key(key)).counted)

    # -- retrieving ---------------------------------------------------------------------------------------------

    @checked
    def get(self, key: ContentKey | str) -> bytes:
        """The content. Raises ContentNotFound, or Damaged if neither the block nor a replica can be read.

        Raises VolumeDown if a volume that may have it is down. Where replicas are usual, reads a replica rather than
        wait for a volume that does not respond.
        """
        store, key = self._store, _key(key)
        own = store.volumes.get(key.volume)
        wanted = [BlockKey(key.signature, key.overflow)]
        damage: Damaged | None = None
        if own is not None and store.is_up(key.volume):  # almost always enough, with one lookup
            try:
                (block,) = self._fetch_without_retries(own, wanted)
                if block is not None:
                    return store.decoded(block, own)
            except (Damaged, VolumeDown) as error:
                log.warning("%s", error)
                damage = error if isinstance(error, Damaged) else None
        try:
            block, volume = self._fetch_any(key)
        except ContentNotFound:
            if damage is not None:  # and there is no replica
                raise damage from None
            raise
        except VolumeDown:
            remote = self._store.remote.get(key.volume) if self._replicator.is_usual else None
            if own is None or remote is None:
                raise
            remote.wake()
            (found,) = own.fetch(wanted)
            if found is None:
                raise
            block, volume = found, own
        content = self._store.decoded(block, volume)
        if damage is not None and self._store.writable:
            self._storer.heal([content], [key.signature])
        return content

    def _fetch_without_retries(self, volume: ReadableVolume, keys: Sequence[BlockKey]) -> list[Block | None]:
        """The volume's blocks. Where replicas are usual, does not wait for a volume that does not respond."""
        remote = self._store.remote.get(volume.name)
        return volume.fetch(keys) if remote is None or not self._replicator.is_usual else remote.fetch_at_once(keys)

    @checked
    def get_batch(self, keys: Sequence[ContentKey | str]) -> list[bytes]:
        """The contents, in the order of the keys."""
        known = [_key(key) for key in keys]
        contents: list[bytes | None] = [None] * len(known)
        wanted: dict[str, list[tuple[int, BlockKey]]] = {}
        for index, key in enumerate(known):
            wanted.setdefault(key.volume, []).append((index, BlockKey(key.signature, key.overflow)))
        self._get_each(wanted, contents)
        missing = [index for index, content in enumerate(contents) if content is None]
        if len(missing) > 1:  # moved, or their volume is down: few lookups for all of them together
            wanted = {}
            for index, held in zip(missing, self._store.find_batch([known[index] for index in missing]), strict=True):
                if held.blocks:
                    found = held.blocks[0]
                    wanted.setdefault(found.volume.name, []).append((index, found.facts.key))
            self._get_each(wanted, contents)
        return [self.get(key) if content is None else content for key, content in zip(known, contents, strict=True)]

    @checked
    def get_buffers(self, keys: Sequence[str]) -> list[Buffer | HoldfastError]:
        """The contents in the order of the keys, in memory they may share; an error takes the place of its content."""
        return self.gather(keys).decode(threads=os.cpu_count() or 1)

    @checked
    def gather(self, keys: Sequence[str]) -> BulkRead:
        """Reads what `get_buffers` decodes, so that one thread can read while another decodes."""
        return BulkRead(self._store, keys, self.get)

    def _get_each(self, wanted: dict[str, list[tuple[int, BlockKey]]], contents: list[bytes | None]) -> None:
        """Fills in what the volumes have. The rest is left to `get`, which knows where else to look."""
        names = [name for name in wanted if name in self._store.volumes and self._store.is_up(name)]
        responses = self._store.each(names, lambda name: self._get_from(name, wanted[name]))
        for found in responses.results.values():
            for index, content in found:
                contents[index] = content

    def _get_from(self, name: str, wanted: list[tuple[int, BlockKey]]) -> list[tuple[int, bytes]]:
        volume = self._store.volume(name)
        try:
            blocks = self._fetch_without_retries(volume, [key for _, key in wanted])
            found = [(index, block) for (index, _), block in zip(wanted, blocks, strict=True) if block is not None]
            decoded = self._store.encodings.decode_all([block for _, block in found], volume)
        except Damaged:
            return []
        return [(index, content) for (index, _), content in zip(found, decoded, strict=True)]

    def _fetch_any(self, key: ContentKey) -> tuple[Block, ReadableVolume]:
        """The first block that can be read and decoded, in any volume.

        The filter and a reader's view of a volume may be outdated: all volumes are asked before it counts as missing.
        """
        self._store.reload_if_due()
        problem: HoldfastError | None = None
        complete = 0
        for attempt in range(_LOOKS_MAX):
            everywhere = attempt > 0
            held = self._store.find_batch([key], everywhere=everywhere)[0]
            complete += everywhere and not held.away
            for found in held.blocks:
                try:
                    (block,) = found.volume.fetch([found.facts.key])
                    if block is not None:
                        self._store.encodings.check(block, found.volume)
                        return block, found.volume
                except (Damaged, VolumeDown) as error:
                    problem = error
            if problem is not None:
                raise problem
            if complete > 1:  # once is not enough: it may have moved from a volume not yet asked to one already asked
                break
            if not everywhere and not self._store.writable:
                for volume in self._store.volumes.values():
                    volume.refresh()
        raise self._not_found(held)

    def _not_found(self, held: BlockLocations) -> HoldfastError:
        """The reason why there is no block. If even its header cannot be read, it is damaged, not missing."""
        if damage := self._store.damage_of(held.key):
            return damage
        if held.away:
            reasons = [f"{name}: {self._store.down[name]}" for name in held.away if name in self._store.down]
            reason = f" ({'; '.join(reasons)})" if reasons else ""
            return VolumeDown(
                f"cannot read content {held.key}: no replica is known, and {' and '.join(held.away)} "
                f"{'are' if len(held.away) > 1 else 'is'} down{reason}"
            )
        return ContentNotFound(f"no content {held.key}")

    @checked
    def stat(self, key: ContentKey | str) -> ContentStat:
        """Sizes, counter and place of a content. Raises ContentNotFound."""
        key = _key(key)
        holders = self.holders(key)
        block, volume = self._fetch_any(key)
        return self._stat(volume, block, tuple(name for name in holders if name != volume.name))

    @checked
    def holders(self, key: ContentKey | str) -> list[str]:
        """The volumes that have the content or a replica."""
        return [found.volume.name for found in self._store.find(_key(key)).blocks]

    @checked
    def listing(self, volume: str | None = None) -> Iterator[list[ContentStat]]:
        """The `stat` of every content, or of those in one volume, in batches, without copies."""
        names = list(self._store.volumes) if volume is None else [self._store.volume(volume).name]
        for each in map(self._store.volume, names):
            for blocks in each.scan():
                yield [self._stat(each, block) for block in self._in_force(each, blocks)]

    def _stat(self, volume: ReadableVolume, block: Block, copies: tuple[str, ...] = ()) -> ContentStat:
        key, encoded = self._store.content_key(volume, block.key), block.encoded
        references = block.references % MOVING  # also of a copy left by a migration
        return ContentStat(key, encoded.size, len(encoded.data), references, encoded.codec, block.place, copies)

    def scan(self) -> Iterator[list[tuple[ContentKey, bytes]]]:
        """All contents, volume by volume in the volume's order, in batches."""
        for volume in self._store.volumes.values():
            for scanned in volume.scan(counted=False):
                blocks = self._in_force(volume, scanned)
                keys = [self._store.content_key(volume, block.key) for block in blocks]
                yield list(zip(keys, self._store.encodings.decode_all(blocks, volume), strict=True))

    def _in_force(self, volume: ReadableVolume, blocks: Sequence[Block]) -> list[Block]:
        """The blocks that stand for a content: no replicas, no copies of an unfinished migration."""
        unsure = [block for block in blocks if not block.replica and (block.key.home or block.references >= MOVING)]
        out = set()
        if unsure:
            keys = [self._store.content_key(volume, block.key) for block in unsure]
            for block, held in zip(unsure, self._store.find_batch(keys), strict=True):
                if held.original is None or held.original.volume is not volume:
                    out.add(block.key)
        return [block for block in blocks if not block.replica and block.key not in out]

    # -- deleting -----------------------------------------------------------------------------------------------

    @checked
    def delete(self, key: ContentKey | str) -> int:
        """Removes one reference and returns the counter; the last reference removes the content."""
        return self.delete_batch([key])[0]

    @checked
    def delete_batch(self, keys: Sequence[ContentKey | str]) -> list[int]:
        """Like `delete` for each key. If a key is unknown, deletes nothing."""
        self._require_writable()
        wanted = [_key(key) for key in keys]
        return self._section(lambda: self._delete(wanted))

    def _delete(self, keys: Sequence[ContentKey]) -> list[int]:
        with self._store.move_lock:
            return self._deleter.delete(keys)

    def _section(self, change: Callable[[], T]) -> T:
        """Makes a change that no signal handler interrupts, unless it may wait for another machine."""
        try:
            return change() if self._store.remote else uninterrupted(change)
        finally:
            self._replicator.follow_bereft()

    def _require_writable(self) -> None:
        if not self._store.writable:
            raise Denied("the archive is open for reading only")

    def close(self) -> None:
        """Waits for background work."""
        self._training.close()
        self._storer.close()
        if self._store.writable:
            for remote in list(self._store.remote.values()):
                remote.resolve()
            self._replicator.follow_bereft()
            if self._store.has_bereft:
                for remote in list(self._store.remote.values()):
                    remote.wake()
                self._replicator.follow_bereft()
