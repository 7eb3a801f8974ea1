"""Where a content is: all blocks under its contentkey, and the role of each.

- *Counted* blocks have references of their own. As a rule there is one. Two clients may have made a second one under
  the same key; then both count. The first is the *original*: replicas repeat its counter.
- A *moving* block is the copy that a migration makes. Beside a counted block it has no effect. Without one, its
  migration has removed the original, and it is the block now.
- *Replicas* are copies that never count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model import ContentKey
from holdfast.storage.volume import MOVING, BlockFacts, ReadableVolume


class BlockLocation(NamedTuple):
    """A block under a contentkey, and the volume it stands in."""

    volume: ReadableVolume
    facts: BlockFacts

    @property
    def references(self) -> int:
        """The counter, also of a moving copy."""
        return self.facts.references - (MOVING if self.facts.moving else 0)


@dataclass(slots=True)
class BlockLocations:
    """All blocks under a key, as far as they are known."""

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
        """All of them, in the order of preference for reading."""
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
