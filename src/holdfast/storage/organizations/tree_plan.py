"""What the blocks of a tree volume look like to a `Plan`: by reading their files."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.storage.block import REPLICA
from holdfast.storage.organizations.plan import Plan, Sight
from holdfast.storage.organizations.tree import BlockFile, TreeReading
from holdfast.storage.volume import BlockKey


class TreeSights:
    """The blocks of a volume, each with its file."""

    def __init__(self, volume: TreeReading) -> None:
        self._volume = volume

    def sights_of(self, signature: bytes) -> Iterable[tuple[BlockKey, Sight]]:
        return [(file.key, _sight(file)) for file in self._volume.files_of(signature)]

    def sight(self, key: BlockKey) -> Sight | None:
        try:
            return _sight(self._volume.read(self._volume.path(key)))
        except FileNotFoundError:
            return None

    def require_countable(self, sight: Sight) -> None:
        assert isinstance(sight.origin, BlockFile)
        self._volume.require_whole(sight.origin)


class TreePlan(Plan):
    """Knows the files of the blocks it has seen."""

    def __init__(self, volume: TreeReading) -> None:
        super().__init__(TreeSights(volume))

    def file(self, key: BlockKey) -> BlockFile | None:
        """The block's file as it was before these operations, without its data; None if they write or remove it."""
        file = self.origin(key)
        assert file is None or isinstance(file, BlockFile)
        return file


def _sight(file: BlockFile) -> Sight:
    header = file.header
    is_replica = header.kind == REPLICA
    return Sight(header.size, header.stored, file.references, is_replica, file._replace(data=memoryview(b"")))
