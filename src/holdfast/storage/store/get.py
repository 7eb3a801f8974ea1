"""Bulk reads: first the blocks, together and in disk order, then their contents, on all cores.

The two steps are separate so that one batch can be read while another is decoded, which releases the interpreter lock.
What cannot be read in bulk, for whatever reason, is read alone, by the path that knows of replicas, of volumes that are
down and of blocks that have moved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError
from holdfast.model import ContentKey
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import BulkReadable, Gathered

_PLAIN = re.compile("(?:[0-9a-f]{2})+")  # the rest of a contentkey, unless others have the same signature


class BulkRead:
    """The blocks of some contents, read and not decoded yet. One thread at a time."""

    def __init__(self, store: BlockStore, keys: Sequence[str], get: Callable[[ContentKey], bytes]) -> None:
        """Reads the blocks. Raises nothing: the error of a content takes its place in the result."""
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
        """The contents in the order of the keys, or the error of one in its place."""
        found: list[Buffer | HoldfastError] = [b""] * len(self._keys)
        for name, indexes, gathered in self._gathered:
            volume = self._store.volumes.get(name)
            for group in gathered.groups:
                try:
                    contents = (
                        self._store.encodings.decode_group(group, volume, threads) if volume is not None else None
                    )
                except DamagedBlock:  # no dictionary is known that decodes them
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
