"""What the blocks of a tree volume look like to a `Plan`: by reading their files."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import DamagedBlock
from holdfast.storage.block import REPLICA
from holdfast.storage.organizations.plan import UNREADABLE, Plan, Sight
from holdfast.storage.organizations.tree import BlockFile, TreeReading
from holdfast.storage.volume import BlockKey


class TreeSights:
    """The blocks of a volume, each with its file."""

    def __init__(self, volume: TreeReading) -> None:
        self._volume = volume
        self._damaged = volume.damage.keys()

    def sights_of(self, signature: bytes) -> Iterable[tuple[BlockKey, Sight]]:
        found = []
        for path in self._volume.paths_of(signature):
            key = self._volume.key_of(path)
            if key is not None and (sight := self.sight(key)) is not None:
                found.append((key, sight))
        return found

    def sight(self, key: BlockKey) -> Sight | None:
        """One of which not even the counter can be told is no duplicate of anything, but its place is taken."""
        try:
            file = self._volume.read_or_salvage(self._volume.path(key))
        except FileNotFoundError:
            return None
        except DamagedBlock as error:
            return Sight(UNREADABLE, 0, 0, False, error, damaged=True)
        if file.key != key:
            return Sight(UNREADABLE, 0, 0, False, self._volume.misplaced(file), damaged=True)
        header = file.header
        is_replica, damaged = header.kind == REPLICA, file.damaged or key in self._damaged
        origin = file._replace(data=memoryview(b""))
        return Sight(header.size, header.stored, file.references, is_replica, origin, damaged)

    def require_countable(self, sight: Sight) -> None:
        if isinstance(sight.origin, DamagedBlock):
            raise sight.origin
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
