"""Looking for duplicates: is the content in its home volume, or in one that the filter names? (W5, W6)

All contents of a batch are asked for at once: one probe of each home volume, then one of each other volume that may
hold some of them. As a rule the filter names none, whatever the number of volumes.

A duplicate counts wherever it is, also in a volume that is full or takes no new contents: a reference is no content. A
block that is known to be damaged, or that a comparison finds so, is a duplicate to be healed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.arguments import check_fields
from holdfast.env.files import Buffer
from holdfast.errors import Damaged, HoldfastError
from holdfast.model import OVERFLOW_MAX, Stored, StoreMode
from holdfast.storage.asking import FAILURES
from holdfast.storage.codec import ZSTD_DICT
from holdfast.storage.instance import Instance
from holdfast.storage.volume import BlockFacts, BlockKey, Encoded, ReadableVolume


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to store. None leaves the choice to the archive's settings."""

    mode: StoreMode = StoreMode.REGULAR
    codec: str | None = None
    content_type: str | None = None
    volume: str | None = None  # only this volume; duplicates in others are not looked for
    replicas: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(slots=True, eq=False)
class Item:
    """A content on its way."""

    content: Buffer
    signature: bytes
    places: list[str]
    content_type: str | None
    compared: set[tuple[str, BlockKey]] = field(default_factory=set)  # by volume, and not equal
    failed: set[str] = field(default_factory=set)  # volumes that are not asked any more
    encoded: Encoded | None = None
    stored: Stored | None = None
    counted: tuple[str, BlockKey] | None = None  # the block that was given a reference for it, and its volume
    claimed: str = ""  # the home volume that has said that it has no such block of its own
    new: bool = False
    tries: int = 0

    def give_up(self, name: str, error: HoldfastError) -> None:
        """The volume has failed: the next one is the content's home. Raises the error if there is none."""
        self.failed.add(name)
        self.places = [place for place in self.places if place != name]
        if not self.places:
            raise error
        if self.encoded is not None and self.encoded.codec == ZSTD_DICT:  # with the dictionary of the other one
            self.encoded = None


class Duplicate(NamedTuple):
    """A block that holds the content already."""

    volume: str
    key: BlockKey
    references: int
    damaged: bool = False  # it must be healed first


Known = dict[str, dict[bytes, tuple[BlockFacts, ...]]]  # what was probed, by volume and signature


class Sought(NamedTuple):
    """The block that holds each content, if there is one, and the home volumes that failed: theirs are left out."""

    found: list[tuple[Item, Duplicate | None]]
    failed: dict[str, HoldfastError]


class Duplicates:
    """Any thread may call. `known` is what one round of a store has learned already."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def find(self, items: list[Item], options: StoreOptions, known: Known) -> Sought:
        """For each content the block that holds it: in its home volume, or in one that the filter names."""
        if options.mode is StoreMode.FORCE_NEW:
            return Sought([(item, None) for item in items], {})
        wanted: dict[str, dict[bytes, None]] = {}
        for item in items:
            home = item.places[0]
            if item.claimed == home and home not in self._instance.named(item.signature):
                known.setdefault(home, {})[item.signature] = ()
            else:
                wanted.setdefault(home, {})[item.signature] = None
        failed = self._probe(wanted, known)
        items = [item for item in items if item.places[0] not in failed]
        found = [self._duplicate(item, item.places[:1], known, options.mode) for item in items]
        others = {
            index: self._others(item, options)
            for index, (item, duplicate) in enumerate(zip(items, found, strict=True))
            if duplicate is None
        }
        wanted = {}
        for index, names in others.items():
            for name in names:
                wanted.setdefault(name, {})[items[index].signature] = None
        self._probe(wanted, known)
        for index, names in others.items():
            if names:
                found[index] = self._duplicate(items[index], names, known, options.mode)
        return Sought(list(zip(items, found, strict=True)), failed)

    def _probe(self, wanted: dict[str, dict[bytes, None]], known: Known) -> dict[str, HoldfastError]:
        """Asks each volume for the signatures that it was not asked for yet; returns the volumes that failed."""
        asked = {
            name: [signature for signature in signatures if signature not in known.get(name, {})]
            for name, signatures in wanted.items()
        }
        names = [name for name, signatures in asked.items() if signatures]
        answers = self._instance.asking.each(names, lambda name: self._instance.volume(name).probe(asked[name]))
        for name, facts in answers.given.items():
            known.setdefault(name, {}).update(zip(asked[name], facts, strict=True))
        return answers.failed

    def _others(self, item: Item, options: StoreOptions) -> list[str]:
        """The volumes beside its home that may have the content."""
        if options.volume is not None:
            return []
        named = self._instance.others(item.signature, item.places[0])
        return [name for name in named if name not in item.failed and self._instance.is_up(name)]

    def _duplicate(self, item: Item, names: list[str], known: Known, mode: StoreMode) -> Duplicate | None:
        for name in names:
            found = known.get(name, {}).get(item.signature, ())
            for facts in sorted(found, key=_is_sound) if len(found) > 1 else found:
                if facts.replica or facts.size != len(item.content) or (name, facts.key) in item.compared:
                    continue
                same = facts if mode is StoreMode.REGULAR else self._compared(item, self._instance.volume(name), facts)
                duplicate = self._counted(name, same) if same is not None else None
                if duplicate is not None:
                    return duplicate
        return None

    def _compared(self, item: Item, volume: ReadableVolume, facts: BlockFacts) -> BlockFacts | None:
        """The block, if it holds just this content; if not, that is remembered.

        A block that cannot be read holds it if the signature says so beyond doubt: then it is damaged, as `facts` tell.
        """
        try:
            (block,) = volume.fetch([facts.key])
            if block is not None and self._instance.decoded(block, volume) == item.content:
                return facts._replace(damaged=False)
        except FAILURES:
            return None
        except Damaged:
            is_alias = not facts.stored and facts.size  # then its target is damaged, and comes by itself
            if self._instance.signature.collision_free and not is_alias:
                return facts._replace(damaged=True)
        item.compared.add((volume.name, facts.key))
        return None

    def _counted(self, name: str, facts: BlockFacts) -> Duplicate | None:
        """The block to be counted. A copy of a migration stands for its original, or is the block if left alone."""
        if not facts.moving:
            return Duplicate(name, facts.key, facts.references, facts.damaged)
        key = self._instance.content_key(self._instance.volume(name), facts.key)
        held = self._instance.find(key)
        if self._instance.settle(held):
            held = self._instance.find(key)
        if not held.counted:  # its volume is down
            return None
        original = held.counted[0]
        facts = original.facts
        return Duplicate(original.volume.name, facts.key, facts.references, facts.damaged)

    def overflow_mins(self, items: Sequence[Item], known: Known) -> list[int]:
        """For each one above all numbers that contents of its home have in other volumes, to which they were moved."""
        wanted: dict[str, dict[bytes, None]] = {}
        others = [self._instance.others(item.signature, item.places[0]) for item in items]
        for item, names in zip(items, others, strict=True):
            for name in names:
                wanted.setdefault(name, {})[item.signature] = None
        self._probe(wanted, known)
        behind = self._instance.is_behind
        mins = []
        for item, names in zip(items, others, strict=True):
            home = item.places[0].encode()
            found = [facts for name in names for facts in known.get(name, {}).get(item.signature, ())]
            number = 1 + max([-1, *(facts.key.overflow for facts in found if facts.key.home == home)])
            if behind or any(item.signature not in known.get(name, {}) for name in names):
                number = max(number, self._some_number())
            mins.append(number)
        return mins

    def _some_number(self) -> int:
        """A number that no content has: for as long as a volume is down, nobody knows those of contents in it."""
        return int.from_bytes(self._instance.env.random_bytes(4), "big") % (OVERFLOW_MAX // 2) + OVERFLOW_MAX // 4


def _is_sound(facts: BlockFacts) -> bool:
    """Damaged blocks come first: they need the content."""
    return not facts.damaged
