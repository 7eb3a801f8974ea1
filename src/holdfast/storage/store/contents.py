"""The contents of an archive: put, get, delete, by contentkey."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

from holdfast.arguments import checked
from holdfast.env.files import Buffer
from holdfast.errors import ContentNotFound, Damaged, Denied, HoldfastError, VolumeDown
from holdfast.model import ContentKey, ContentStat, Stored
from holdfast.storage.maintenance.train import AutomaticTraining
from holdfast.storage.store.delete import Deleter
from holdfast.storage.store.get import BulkRead
from holdfast.storage.store.locate import BlockLocations
from holdfast.storage.store.put import StoreHints, StoreOptions, Storer
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import MOVING, Block, BlockKey, ReadableVolume

log = logging.getLogger("holdfast.storage")
_LOOKS_MAX = 8  # for a content that is not found
_DEFAULTS = StoreOptions()
_NO_HINTS = StoreHints()


class Contents:
    """Thread-safe. What a method has done is durable when it returns."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._replicator = Replicator(store)
        self._storer = Storer(store, self._replicator)
        self._deleter = Deleter(store, self._replicator)
        self._training = AutomaticTraining(store)

    # -- storing ------------------------------------------------------------------------------------------------

    @checked
    def put(self, content: Buffer, options: StoreOptions = _DEFAULTS) -> ContentKey:
        """Stores a content, or counts one more reference to it; returns its key."""
        return self.store(content, options).key

    @checked
    def store(self, content: Buffer, options: StoreOptions = _DEFAULTS) -> Stored:
        """Like `put`, with what it cost."""
        return self.put_batch([content], options)[0]

    @checked
    def put_batch(
        self, contents: Sequence[Buffer], options: StoreOptions = _DEFAULTS, hints: StoreHints = _NO_HINTS
    ) -> list[Stored]:
        """Stores many contents with few syncs. Equal ones among them are duplicates of each other."""
        self._require_writable()
        stored = self._storer.store(contents, options, hints)
        self._training.notice(stored)
        return stored

    @checked
    def heal(self, contents: Sequence[Buffer], signatures: Sequence[bytes]) -> None:
        """Heals known damaged blocks of these contents, without counting a reference.

        Durable on return. A volume that fails meanwhile is left as it is.
        """
        self._require_writable()
        self._storer.heal(contents, signatures)

    @checked
    def sign(self, contents: Sequence[Buffer]) -> list[bytes]:
        """The signature of each content, computed on all cores."""
        return self._storer.sign(contents)

    @checked
    def home(self, signature: bytes) -> str:
        """The volume that a content of this signature is stored in. Raises VolumeDown."""
        return self._store.places(signature)[0]

    @checked
    def require_up(self, volume: str) -> None:
        """Raises VolumeDown if the volume is."""
        if volume in self._store.down or (volume in self._store.volumes and not self._store.is_up(volume)):
            reason = self._store.down.get(volume, "it does not answer")
            raise VolumeDown(f"volume {volume!r} is down: {reason}")

    @checked
    def references(self, key: ContentKey, size: int) -> tuple[ContentKey, int] | None:
        """The block of that key, or else one of its volume with the same signature and size, and its counter."""
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
    def is_shared(self, key: ContentKey) -> bool:
        """Whether processes of other archives may count the content too."""
        return any(self._store.is_shared(found.volume.name) for found in self._store.find(key).counted)

    # -- retrieving ---------------------------------------------------------------------------------------------

    @checked
    def get(self, key: ContentKey) -> bytes:
        """The content. Raises ContentNotFound, or Damaged if neither the block nor a replica can be read.

        If a volume that may have it is down, VolumeDown. Where there are replicas as a rule, one of them is read before
        a volume that does not answer is waited for.
        """
        own = self._store.volumes.get(key.volume)
        wanted = [BlockKey(key.signature, key.overflow)]
        damage: Damaged | None = None
        if own is not None and self._store.is_up(key.volume):  # nearly always the answer, with one look-up
            try:
                (block,) = self._fetch_without_retries(own, wanted)
                if block is not None:
                    return self._store.decoded(block, own)
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
        """The volume's blocks; if others have replicas as a rule, one that does not answer is not waited for."""
        remote = self._store.remote.get(volume.name) if self._replicator.is_usual else None
        return volume.fetch(keys) if remote is None else remote.fetch_at_once(keys)

    @checked
    def get_batch(self, keys: Sequence[ContentKey]) -> list[bytes]:
        """The contents, in the order of the keys."""
        contents: list[bytes | None] = [None] * len(keys)
        wanted: dict[str, list[tuple[int, BlockKey]]] = {}
        for index, key in enumerate(keys):
            wanted.setdefault(key.volume, []).append((index, BlockKey(key.signature, key.overflow)))
        self._get_each(wanted, contents)
        missing = [index for index, content in enumerate(contents) if content is None]
        if len(missing) > 1:  # moved, or their volume is down: together they cost few look-ups
            wanted = {}
            for index, held in zip(missing, self._store.find_batch([keys[index] for index in missing]), strict=True):
                if held.blocks:
                    found = held.blocks[0]
                    wanted.setdefault(found.volume.name, []).append((index, found.facts.key))
            self._get_each(wanted, contents)
        return [self.get(key) if content is None else content for key, content in zip(keys, contents, strict=True)]

    @checked
    def get_buffers(self, keys: Sequence[str]) -> list[Buffer | HoldfastError]:
        """The contents, in the order of the keys, in memory that they may share, or the error of one in its place."""
        return self.gather(keys).decode(threads=os.cpu_count() or 1)

    @checked
    def gather(self, keys: Sequence[str]) -> BulkRead:
        """Reads what `get_buffers` decodes: two threads can do the two side by side."""
        return BulkRead(self._store, keys, self.get)

    def _get_each(self, wanted: dict[str, list[tuple[int, BlockKey]]], contents: list[bytes | None]) -> None:
        """Fills in what the volumes have; what they cannot give is left to `get`, which knows where else to look."""
        names = [name for name in wanted if name in self._store.volumes and self._store.is_up(name)]
        responses = self._store.fan_out.each(names, lambda name: self._get_from(name, wanted[name]))
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
        """The first block that can be read and decoded, wherever it is.

        Where the filter, or a reader's view of a volume, may be outdated, all are asked before it is said not to be.
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
            if complete > 1:  # once is not enough: it may have moved from a volume not asked yet to one asked already
                break
            if not everywhere and not self._store.writable:
                for volume in self._store.volumes.values():
                    volume.refresh()
        raise self._not_found(held)

    def _not_found(self, held: BlockLocations) -> HoldfastError:
        """A block of which not even the header can be read is damaged, not missing."""
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
    def stat(self, key: ContentKey) -> ContentStat:
        """What is known of a content. Raises ContentNotFound."""
        holders = self.holders(key)
        block, volume = self._fetch_any(key)
        return self._stat(volume, block, tuple(name for name in holders if name != volume.name))

    @checked
    def holders(self, key: ContentKey) -> list[str]:
        """The volumes that have the content, or a replica of it."""
        return [found.volume.name for found in self._store.find(key).blocks]

    @checked
    def listing(self, volume: str | None = None) -> Iterator[list[ContentStat]]:
        """The `stat` of every content, or of those in one volume, in batches, without their copies."""
        names = list(self._store.volumes) if volume is None else [self._store.volume(volume).name]
        for each in map(self._store.volume, names):
            for blocks in each.scan():
                yield [self._stat(each, block) for block in self._in_force(each, blocks)]

    def _stat(self, volume: ReadableVolume, block: Block, copies: tuple[str, ...] = ()) -> ContentStat:
        key, encoded = self._store.content_key(volume, block.key), block.encoded
        references = block.references % MOVING  # of a copy that is left alone, too
        return ContentStat(key, encoded.size, len(encoded.data), references, encoded.codec, block.place, copies)

    def scan(self) -> Iterator[list[tuple[ContentKey, bytes]]]:
        """All contents, volume by volume in the volume's order, in batches."""
        for volume in self._store.volumes.values():
            for blocks in volume.scan(counted=False):
                yield [
                    (self._store.content_key(volume, block.key), self._store.encodings.decode(block, volume))
                    for block in self._in_force(volume, blocks)
                ]

    def _in_force(self, volume: ReadableVolume, blocks: Sequence[Block]) -> list[Block]:
        """Those in force: no replicas, nor copies of an unfinished migration."""
        unsure = {
            block.key: self._store.content_key(volume, block.key)
            for block in blocks
            if not block.replica and (block.key.home or block.references >= MOVING)
        }
        out = set()
        if unsure:
            for key, held in zip(unsure, self._store.find_batch(list(unsure.values())), strict=True):
                original = held.original
                if original is None or original.volume is not volume:
                    out.add(key)
        return [block for block in blocks if not block.replica and block.key not in out]

    # -- deleting -----------------------------------------------------------------------------------------------

    @checked
    def delete(self, key: ContentKey) -> int:
        """Removes one reference and returns how many are left; the last one removes the content."""
        return self.delete_batch([key])[0]

    @checked
    def delete_batch(self, keys: Sequence[ContentKey]) -> list[int]:
        """Like `delete` for each; if a key is unknown, nothing is deleted."""
        self._require_writable()
        with self._store.move_lock:
            return self._deleter.delete(keys)

    def _require_writable(self) -> None:
        if not self._store.writable:
            raise Denied("the archive is open for reading only")

    def close(self) -> None:
        """Waits for work in the background."""
        self._training.close()
        self._storer.close()
