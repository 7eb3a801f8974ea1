"""Where a content is: all blocks that answer to its contentkey, and what each of them is.

*Counted* blocks have references of their own. There is one, as a rule; two clients may have made a second one under the
same key, and then each counts for what it says. The first is the *original*: replicas repeat its counter.
A *moving* block is the copy that a migration makes. While there is a counted block it stands for nothing; if it is left
alone, its migration has removed the original, and it is the block now.
*Replicas* are copies that are never counted on.

Which volume answers under which name.

A volume that a connector lists twice, at two addresses of one machine, would be counted twice: a replica would stand
beside its own block, and merging the two would remove the only one. So it has one name, the first that it was met
under; under the other one it counts as down.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import VolumeDown
from holdfast.model import ContentKey
from holdfast.storage.volume import MOVING, BlockFacts, ReadableVolume


class BlockLocation(NamedTuple):
    """A block that answers to a contentkey, and the volume it stands in."""

    volume: ReadableVolume
    facts: BlockFacts

    @property
    def references(self) -> int:
        """What the counter says, also of a copy on its way."""
        return self.facts.references - (MOVING if self.facts.moving else 0)


@dataclass(slots=True)
class BlockLocations:
    """All blocks that answer to a key, as far as they are known."""

    key: ContentKey
    counted: list[BlockLocation] = field(default_factory=list)
    moving: list[BlockLocation] = field(default_factory=list)
    replicas: list[BlockLocation] = field(default_factory=list)
    away: list[str] = field(default_factory=list)  # volumes that are down and may have more

    def add(self, found: BlockLocation) -> None:
        if found.facts.replica:
            self.replicas.append(found)
        elif found.facts.moving:
            self.moving.append(found)
        else:
            self.counted.append(found)

    @property
    def original(self) -> BlockLocation | None:
        """The block whose counter replicas repeat; a moving one only if nothing else can be the block."""
        if self.counted:
            return self.counted[0]
        return self.moving[0] if self.moving and not self.away else None

    @property
    def blocks(self) -> list[BlockLocation]:
        """All of them, in the order in which they are to be read."""
        return [*self.counted, *self.moving, *self.replicas]

    @property
    def lost(self) -> bool:
        """Whether there are replicas and surely nothing else."""
        return bool(self.replicas) and not self.counted and not self.moving and not self.away

    @property
    def names(self) -> set[str]:
        return {found.volume.name for found in self.blocks}

    def at(self, name: str) -> BlockLocation | None:
        """The block in one of the volumes."""
        return next((found for found in self.blocks if found.volume.name == name), None)


class Roster:
    """Of one instance. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uids: dict[str, str] = {}  # by name

    def enter(self, name: str, uid: str) -> None:
        """The volume answers to the name. Raises VolumeDown if it answers to another one already."""
        with self._lock:
            for other, known in self._uids.items():
                if known == uid and other != name:
                    raise VolumeDown(
                        f"it is the same volume as {other!r}, uid {uid}; take one of them out of the connector"
                    )
            self._uids[name] = uid

    def leave(self, name: str) -> None:
        """Nobody answers to the name any more."""
        with self._lock:
            self._uids.pop(name, None)
