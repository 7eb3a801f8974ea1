"""The contents of an archive: put, get, delete, by contentkey. What a user of the store sees."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.env.files import Buffer
from holdfast.errors import ContentNotFound, Damaged, Denied, VolumeDown
from holdfast.model import ContentKey, ContentStat, Stored
from holdfast.storage.instance import Found, Instance
from holdfast.storage.replicas import Replicator
from holdfast.storage.storing import StoreHints, StoreOptions, Storer
from holdfast.storage.training import AutomaticTraining
from holdfast.storage.volume import Block, BlockKey, Effect, ReadableVolume, Recount, Release

log = logging.getLogger("holdfast.storage")
_DEFAULTS = StoreOptions()
_NO_HINTS = StoreHints()


class Contents:
    """Thread-safe. What a method has done is durable when it returns."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._replicator = Replicator(instance)
        self._storer = Storer(instance, self._replicator)
        self._training = AutomaticTraining(instance)

    # -- storing ------------------------------------------------------------------------------------------------

    def put(self, content: Buffer, options: StoreOptions = _DEFAULTS) -> ContentKey:
        """Stores a content, or counts one more reference to it; returns its key."""
        return self.store(content, options).key

    def store(self, content: Buffer, options: StoreOptions = _DEFAULTS) -> Stored:
        """Like `put`, and tells what it cost."""
        return self.put_batch([content], options)[0]

    def put_batch(
        self, contents: Sequence[Buffer], options: StoreOptions = _DEFAULTS, hints: StoreHints = _NO_HINTS
    ) -> list[Stored]:
        """Stores many contents with few syncs. Equal ones among them are duplicates of each other."""
        self._require_writable()
        stored = self._storer.store(contents, options, hints)
        self._training.notice(stored)
        return stored

    def sign(self, contents: Sequence[Buffer]) -> list[bytes]:
        """The signature of each content, computed on all cores."""
        return self._storer.sign(contents)

    def require_up(self, volume: str) -> None:
        """Raises VolumeDown if the volume is."""
        if reason := self._instance.down.get(volume):
            raise VolumeDown(f"volume {volume!r} is down: {reason}")

    def references(self, key: ContentKey, size: int) -> tuple[ContentKey, int] | None:
        """The block of that key, or else one of its volume with the same signature and size, and its counter."""
        for found in self._instance.find(key):
            if not found.facts.replica and found.facts.size == size:
                return key, found.facts.references
        volume = self._instance.volumes.get(key.volume)
        if volume is None:
            return None
        (blocks,) = volume.probe([key.signature])
        for facts in blocks:
            if not facts.replica and facts.size == size:
                return self._instance.content_key(volume, facts.key), facts.references
        return None

    # -- retrieving ---------------------------------------------------------------------------------------------

    def get(self, key: ContentKey) -> bytes:
        """The content. Raises ContentNotFound, or Damaged if neither the block nor a replica can be read."""
        own = self._instance.volumes.get(key.volume)
        if own is not None:  # nearly always the answer, at the price of one look-up
            try:
                (block,) = own.fetch([BlockKey(key.signature, key.overflow)])
                if block is not None:
                    return self._instance.encodings.decode(block, own)
            except Damaged as error:
                log.warning("%s", error)
        block, volume = self._fetch_any(key)
        return self._instance.encodings.decode(block, volume)

    def get_batch(self, keys: Sequence[ContentKey]) -> list[bytes]:
        """The contents, in the order of the keys."""
        contents: list[bytes | None] = [None] * len(keys)
        by_volume: dict[str, list[int]] = {}
        for index, key in enumerate(keys):
            by_volume.setdefault(key.volume, []).append(index)
        for name, indexes in by_volume.items():
            volume = self._instance.volumes.get(name)
            if volume is not None:
                self._get_from(volume, keys, indexes, contents)
        return [self.get(key) if content is None else content for key, content in zip(keys, contents, strict=True)]

    def _get_from(
        self, volume: ReadableVolume, keys: Sequence[ContentKey], indexes: list[int], contents: list[bytes | None]
    ) -> None:
        """Fills in what one volume has; what it cannot give is left to `get`, which knows where else to look."""
        try:
            blocks = volume.fetch([BlockKey(keys[index].signature, keys[index].overflow) for index in indexes])
            found = [(index, block) for index, block in zip(indexes, blocks, strict=True) if block is not None]
            decoded = self._instance.encodings.decode_all([block for _, block in found], volume)
        except Damaged:
            return
        for (index, _), content in zip(found, decoded, strict=True):
            contents[index] = content

    def _fetch_any(self, key: ContentKey) -> tuple[Block, ReadableVolume]:
        """The first block that can be read and decoded, wherever it is."""
        try:
            return self._fetch_first(key)
        except ContentNotFound:
            if self._instance.writable:
                raise
        for volume in self._instance.volumes.values():  # it may have moved from one that was seen later
            volume.refresh()
        return self._fetch_first(key)

    def _fetch_first(self, key: ContentKey) -> tuple[Block, ReadableVolume]:
        damage: Damaged | None = None
        for found in self._instance.find(key):
            try:
                (block,) = found.volume.fetch([found.facts.key])
                if block is not None:
                    self._instance.encodings.codec_of(block.encoded, found.volume)
                    return block, found.volume
            except Damaged as error:
                damage = error
        if damage is not None:
            raise damage
        raise self._not_found(key)

    def _not_found(self, key: ContentKey) -> ContentNotFound | VolumeDown:
        reason = self._instance.down.get(key.volume)
        if reason is not None:
            return VolumeDown(f"cannot read content {key}: its volume is down and no replica is known ({reason})")
        return ContentNotFound(f"no content {key}")

    def stat(self, key: ContentKey) -> ContentStat:
        """What is known of a content. Raises ContentNotFound."""
        holders = [found.volume.name for found in self._instance.find(key)]
        block, volume = self._fetch_any(key)
        return self._stat(volume, block, tuple(name for name in holders if name != volume.name))

    def holders(self, key: ContentKey) -> list[str]:
        """The volumes that have the content, or a replica of it."""
        return [found.volume.name for found in self._instance.find(key)]

    def listing(self, volume: str | None = None) -> Iterator[list[ContentStat]]:
        """What `stat` tells of every content, or of those in one volume, in batches. Copies are not sought."""
        names = list(self._instance.volumes) if volume is None else [self._instance.volume(volume).name]
        for each in map(self._instance.volume, names):
            for blocks in each.scan():
                yield [self._stat(each, block) for block in blocks if self._is_in_force(each, block)]

    def _stat(self, volume: ReadableVolume, block: Block, copies: tuple[str, ...] = ()) -> ContentStat:
        key, encoded = self._instance.content_key(volume, block.key), block.encoded
        return ContentStat(key, encoded.size, len(encoded.data), block.references, encoded.codec, block.place, copies)

    def scan(self) -> Iterator[list[tuple[ContentKey, bytes]]]:
        """All contents, volume by volume in the volume's order, in batches."""
        for volume in self._instance.volumes.values():
            for blocks in volume.scan(counted=False):
                yield [
                    (self._instance.content_key(volume, block.key), self._instance.encodings.decode(block, volume))
                    for block in blocks
                    if self._is_in_force(volume, block)
                ]

    def _is_in_force(self, volume: ReadableVolume, block: Block) -> bool:
        """Whether the block stands for its content: no replica, nor a copy that an unfinished migration made."""
        if block.replica or not block.key.home:
            return not block.replica
        found = next(iter(self._instance.find(self._instance.content_key(volume, block.key))), None)
        return found is not None and found.volume is volume

    # -- deleting -----------------------------------------------------------------------------------------------

    def delete(self, key: ContentKey) -> int:
        """Takes one reference away and returns how many are left; the last one removes the content."""
        return self.delete_batch([key])[0]

    def delete_batch(self, keys: Sequence[ContentKey]) -> list[int]:
        """Like `delete` for each; if a key is unknown, nothing is deleted."""
        self._require_writable()
        with self._instance.gate:
            return self._delete_batch(keys)

    def _delete_batch(self, keys: Sequence[ContentKey]) -> list[int]:
        originals = [self._original(key) for key in keys]
        self._withdraw_replicas(keys, originals)
        left = [0] * len(keys)
        by_volume: dict[str, list[int]] = {}
        for index, original in enumerate(originals):
            by_volume.setdefault(original.volume.name, []).append(index)
        for name, indexes in by_volume.items():
            outcomes = self._instance.writer(name).commit([Release(originals[index].facts.key) for index in indexes])
            for index, outcome in zip(indexes, outcomes, strict=True):
                if outcome.effect is Effect.MISSING:
                    raise ContentNotFound(f"no content {keys[index]}")
                left[index] = outcome.references
        if self._replicator.may_exist:
            for key in dict.fromkeys(keys):
                self._replicator.follow(key)
        return left

    def _withdraw_replicas(self, keys: Sequence[ContentKey], originals: Sequence[Found]) -> None:
        """Replicas go before their block does: a crash in between leaves too few copies, never one too many."""
        for key, count in Counter(keys).items():
            references = originals[keys.index(key)].facts.references
            if count > references:
                raise ContentNotFound(f"content {key} has {references} references, fewer than {count}")
            if count == references and self._replicator.may_exist:
                self._replicator.withdraw(key)

    def _original(self, key: ContentKey) -> Found:
        """The block in force. What an interrupted migration left beside it goes now, or it would come into force."""
        found = [each for each in self._instance.find(key) if not each.facts.replica]
        if not found:
            raise self._not_found(key)
        for copy in found[1:]:
            self._instance.writer(copy.volume.name).commit([Recount(copy.facts.key, 0)])
        return found[0]

    def _require_writable(self) -> None:
        if not self._instance.writable:
            raise Denied("the archive is open for reading only")

    def close(self) -> None:
        """Waits for work in the background."""
        self._training.close()
        self._storer.close()
