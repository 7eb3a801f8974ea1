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
from holdfast.storage.storing import StoreOptions, Storer
from holdfast.storage.training import AutomaticTraining
from holdfast.storage.volume import Block, BlockKey, Effect, ReadableVolume, Release

log = logging.getLogger("holdfast.storage")
_DEFAULTS = StoreOptions()


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

    def put_batch(self, contents: Sequence[Buffer], options: StoreOptions = _DEFAULTS) -> list[Stored]:
        """Stores many contents with few syncs. Equal ones among them are duplicates of each other."""
        self._require_writable()
        stored = self._storer.store(contents, options)
        self._training.notice(stored)
        return stored

    # -- retrieving ---------------------------------------------------------------------------------------------

    def get(self, key: ContentKey) -> bytes:
        """The content. Raises ContentNotFound, or Damaged if neither the block nor a replica can be read."""
        block, volume = self._fetch(key)
        return self._instance.encodings.decode(block, volume)

    def get_batch(self, keys: Sequence[ContentKey]) -> list[bytes]:
        """The contents, in the order of the keys."""
        fetched = [self._fetch(key) for key in keys]
        contents: list[bytes] = [b""] * len(keys)
        by_volume: dict[str, list[int]] = {}
        for index, (_, volume) in enumerate(fetched):
            by_volume.setdefault(volume.name, []).append(index)
        for name, indexes in by_volume.items():
            decoded = self._instance.encodings.decode_all(
                [fetched[index][0] for index in indexes], self._instance.volume(name)
            )
            for index, content in zip(indexes, decoded, strict=True):
                contents[index] = content
        return contents

    def _fetch(self, key: ContentKey) -> tuple[Block, ReadableVolume]:
        own = self._instance.volumes.get(key.volume)
        if own is not None:  # nearly always the answer, at the price of one look-up
            try:
                (block,) = own.fetch([BlockKey(key.signature, key.overflow)])
            except Damaged:
                block = None
            if block is not None:
                return block, own
        return self._fetch_any(key)

    def _fetch_any(self, key: ContentKey) -> tuple[Block, ReadableVolume]:
        damage: Damaged | None = None
        for found in self._instance.find(key):
            try:
                (block,) = found.volume.fetch([found.facts.key])
            except Damaged as error:
                log.warning("%s", error)
                damage = error
                continue
            if block is not None:
                return block, found.volume
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
        found = list(self._instance.find(key))
        if not found:
            raise self._not_found(key)
        block, _ = self._fetch(key)
        return ContentStat(
            key,
            found[0].facts.size,
            found[0].facts.stored,
            found[0].facts.references,
            block.encoded.codec,
            block.place,
            tuple(each.volume.name for each in found[1:]),
        )

    def scan(self) -> Iterator[list[tuple[ContentKey, bytes]]]:
        """All contents, volume by volume in the volume's order, in batches."""
        for volume in self._instance.volumes.values():
            for blocks in volume.scan():
                own = [block for block in blocks if not block.replica]
                decoded = self._instance.encodings.decode_all(own, volume)
                keys = [self._instance.content_key(volume, block.key) for block in own]
                yield list(zip(keys, decoded, strict=True))

    # -- deleting -----------------------------------------------------------------------------------------------

    def delete(self, key: ContentKey) -> int:
        """Takes one reference away and returns how many are left; the last one removes the content."""
        return self.delete_batch([key])[0]

    def delete_batch(self, keys: Sequence[ContentKey]) -> list[int]:
        """Like `delete` for each; if a key is unknown, nothing is deleted."""
        self._require_writable()
        originals = [self._original(key) for key in keys]
        for key, count in Counter(keys).items():
            if count > 1 and count > originals[keys.index(key)].facts.references:
                raise ContentNotFound(f"content {key} has fewer than {count} references")
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

    def _original(self, key: ContentKey) -> Found:
        for found in self._instance.find(key):
            if not found.facts.replica:
                return found
        raise self._not_found(key)

    def _require_writable(self) -> None:
        if not self._instance.writable:
            raise Denied("the archive is open for reading only")

    def close(self) -> None:
        """Waits for work in the background."""
        self._training.close()
        self._storer.close()
