"""Replicas: copies of a block in other volumes, under the key of the volume whose block it is (W7, N10).

The counter of the block itself is the one in force; replicas repeat it, so that a lost block comes back with its right
counter. They follow after the block's own commit and before the caller is told, and they go before the block goes. So
if a crash comes in between, a replica differs from its block only by what was never acknowledged; the next operation on
the content brings it in line, and so does `check --repair`.
"""

from __future__ import annotations

import threading

from holdfast.errors import ContentNotFound
from holdfast.model import ContentKey
from holdfast.storage.codec import ZSTD_DICT
from holdfast.storage.instance import Found, Instance
from holdfast.storage.volume import Adopt, Block, BlockKey, Effect, Encoded, ReadableVolume, Recount, Volume

_STRIPES = 64


class Replicator:
    """Any thread may call any method."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._locks = [threading.Lock() for _ in range(_STRIPES)]  # or an older count might overwrite a newer one

    @property
    def may_exist(self) -> bool:
        """Whether some content may have a replica at all."""
        return len(self._instance.volumes) > 1

    def follow(self, key: ContentKey, copies: int = 1, places: list[str] | None = None) -> None:
        """Brings the replicas in line with the block: same counter, at least `copies` in all, none if it is gone."""
        with self._locks[key.signature[-1] % _STRIPES]:
            self._follow(key, copies, places)

    def _follow(self, key: ContentKey, copies: int, places: list[str] | None) -> None:
        found = list(self._instance.find(key))
        original = next((each for each in found if not each.facts.replica), None)
        replicas = [each for each in found if each.facts.replica]
        references = original.facts.references if original else 0
        for replica in replicas:
            if replica.facts.references != references:
                self._instance.writer(replica.volume.name).commit([Recount(replica.facts.key, references)])
        missing = copies - 1 - len(replicas)
        if original is None or missing <= 0:
            return
        holders = {each.volume.name for each in found}
        targets = [name for name in places or self._instance.places(key.signature) if name not in holders]
        for name in targets[:missing]:
            self.copy(original, key, name, replica=True)

    def withdraw(self, key: ContentKey) -> None:
        """Removes all replicas of a content."""
        with self._locks[key.signature[-1] % _STRIPES]:
            for found in list(self._instance.find(key)):
                if found.facts.replica:
                    self._instance.writer(found.volume.name).commit([Recount(found.facts.key, 0)])

    def copy(self, original: Found, key: ContentKey, name: str, *, replica: bool) -> None:
        """Puts a copy of the block into another volume, as a replica or as the block that is to move there."""
        (block,) = original.volume.fetch([original.facts.key])
        if block is None:
            raise ContentNotFound(f"no content {key}")
        target = self._instance.writer(name)
        home = key.volume.encode() if name != key.volume else b""
        adopted = Adopt(
            BlockKey(key.signature, key.overflow, home),
            self.portable(block, original.volume, target),
            block.references,
            replica,
        )
        (outcome,) = target.commit([adopted])
        assert outcome.effect is Effect.NEW
        self._instance.note(key.signature, name)

    def portable(self, block: Block, source: ReadableVolume, target: Volume) -> Encoded:
        """The block's data in a form that the target can decode by itself: with its dictionary, or encoded anew."""
        encoded = block.encoded
        if encoded.codec != ZSTD_DICT:
            return encoded
        wanted = source.dictionary(encoded.dictionary)
        present = target.dictionary(encoded.dictionary)
        if present is None and wanted is not None:
            target.add_dictionary(*wanted)
            return encoded
        if present == wanted:
            return encoded
        content = self._instance.encodings.decode(block, source)
        return self._instance.encodings.encode(content, "auto", None, target)
