"""Storing: sign, look for duplicates, encode what is new, commit (W5, W6, W7).

For each content the home volume is asked first, then those that the filter names. A duplicate becomes a reference to
the block that was found; a new content is encoded for its home volume. All that goes to one volume is one commit.

What a probe says may be outdated by the time of the commit, so the volume has the last word: it counts a duplicate that
appeared meanwhile, reports a block that vanished (MISSING), or one that must be compared first (UNSURE). Those contents
go round again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.env.files import Buffer
from holdfast.errors import TooLarge, UsageError
from holdfast.model import ContentKey, Stored, StoreMode
from holdfast.storage.codec import AUTO, ZSTD_DICT, find_codec
from holdfast.storage.instance import Instance
from holdfast.storage.replicas import Replicator
from holdfast.storage.spread import Spread
from holdfast.storage.volume import (
    BlockFacts,
    BlockKey,
    Effect,
    Encoded,
    Operation,
    Outcome,
    ReadableVolume,
    Refer,
    Store,
    Volume,
)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to store. None leaves the choice to the archive's settings."""

    mode: StoreMode = StoreMode.REGULAR
    codec: str | None = None
    content_type: str | None = None
    volume: str | None = None  # only this volume; duplicates in others are not looked for
    replicas: int | None = None


class Announced(NamedTuple):
    """A reference that is about to be added: to which block, and how many that has now."""

    key: ContentKey
    size: int
    references: int  # 0: the block is about to be made


@dataclass(frozen=True, slots=True)
class StoreHints:
    """What a caller knows of each content already, and how it wants to be told before anything changes."""

    signatures: Sequence[bytes] = ()
    content_types: Sequence[str] = ()
    announce: Callable[[list[Announced]], None] | None = None


@dataclass(slots=True)
class _Item:
    """A content on its way."""

    content: Buffer
    signature: bytes
    places: list[str]
    content_type: str | None
    compared: set[tuple[str, BlockKey]] = field(default_factory=set)  # by volume, and not equal
    encoded: Encoded | None = None
    stored: Stored | None = None


class _Duplicate(NamedTuple):
    """A block that holds the content already."""

    volume: str
    key: BlockKey
    references: int


_NO_HINTS = StoreHints()


class Storer:
    """Any thread may call `store`."""

    def __init__(self, instance: Instance, replicator: Replicator) -> None:
        self._instance = instance
        self._replicator = replicator
        self._store_settings = instance.settings.store
        self._spread = Spread()

    def sign(self, contents: Sequence[Buffer]) -> list[bytes]:
        return self._spread.map(self._instance.signature.digest, contents)

    def store(self, contents: Sequence[Buffer], options: StoreOptions, hints: StoreHints = _NO_HINTS) -> list[Stored]:
        """Everything is durable when this returns. Bad options and oversized contents raise before anything changes."""
        replicas = self._check(contents, options)
        signatures = hints.signatures or self.sign(contents)
        types: Sequence[str | None] = hints.content_types or [options.content_type] * len(contents)
        items = [
            _Item(content, signature, self._places(signature, options), content_type)
            for content, signature, content_type in zip(contents, signatures, types, strict=True)
        ]
        with self._instance.gate:
            return self._store(items, options, replicas, hints)

    def _store(self, items: list[_Item], options: StoreOptions, replicas: int, hints: StoreHints) -> list[Stored]:
        waiting = items
        while waiting:
            waiting = self._round(waiting, options, hints)
        stored = [item.stored for item in items if item.stored is not None]
        assert len(stored) == len(items)
        if self._replicator.may_exist:
            for item, each in zip(items, stored, strict=True):
                if replicas > 1 or each.duplicate:
                    self._replicator.follow(each.key, replicas, item.places)
        return stored

    def close(self) -> None:
        self._spread.close()

    def _check(self, contents: Sequence[Buffer], options: StoreOptions) -> int:
        limit = self._store_settings.content_bytes_max
        for content in contents:
            if len(content) > limit:
                raise TooLarge(
                    f"a content of {len(content)} bytes is over the limit of {limit} (store.content_bytes_max)"
                )
        if options.codec not in (None, AUTO, ZSTD_DICT):
            find_codec(options.codec)
        if options.volume is not None:
            self._instance.chosen(options.volume)
        replicas = self._store_settings.replicas if options.replicas is None else options.replicas
        available = len(self._instance.places(b"\0"))
        if replicas < 1:
            raise UsageError(f"bad number of replicas {replicas}: at least 1")
        if replicas > available:
            raise UsageError(f"{replicas} replicas need {replicas} writable volumes, there are {available}")
        return replicas

    def _places(self, signature: bytes, options: StoreOptions) -> list[str]:
        places = self._instance.places(signature)
        if options.volume is None:
            return places
        return [options.volume, *(name for name in places if name != options.volume)]

    # -- one round ----------------------------------------------------------------------------------------------

    def _round(self, items: list[_Item], options: StoreOptions, hints: StoreHints) -> list[_Item]:
        """Commits one operation per content, grouped by volume; returns the contents that must go round again."""
        plans: dict[str, list[tuple[_Item, Operation]]] = {}
        announced: list[Announced] = []
        new: list[_Item] = []
        for item, at_home in zip(items, self._probed(items, options), strict=True):
            duplicate = self._find_duplicate(item, at_home, options)
            if duplicate is None:
                new.append(item)
                announced.append(Announced(ContentKey(item.places[0], item.signature), len(item.content), 0))
            else:
                plans.setdefault(duplicate.volume, []).append((item, Refer(duplicate.key)))
                key = self._instance.content_key(self._instance.volume(duplicate.volume), duplicate.key)
                announced.append(Announced(key, len(item.content), duplicate.references))
        if hints.announce is not None:
            hints.announce(announced)
        self._encode(new, options)
        for item in new:
            plans.setdefault(item.places[0], []).append((item, self._store_operation(item, options)))
        again = []
        for name, planned in plans.items():
            volume = self._instance.writer(name)
            outcomes = volume.commit([operation for _, operation in planned])
            for (item, _), outcome in zip(planned, outcomes, strict=True):
                if outcome.effect in (Effect.MISSING, Effect.UNSURE):
                    again.append(item)
                else:
                    self._accept(item, volume, outcome)
        return again

    def _probed(self, items: list[_Item], options: StoreOptions) -> list[tuple[BlockFacts, ...]]:
        """What the home volume of each content has under its signature, asked all at once."""
        found: list[tuple[BlockFacts, ...]] = [()] * len(items)
        if options.mode is StoreMode.FORCE_NEW:
            return found
        by_home: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            by_home.setdefault(item.places[0], []).append(index)
        for name, indexes in by_home.items():
            probed = self._instance.volume(name).probe([items[index].signature for index in indexes])
            for index, facts in zip(indexes, probed, strict=True):
                found[index] = facts
        return found

    def _find_duplicate(self, item: _Item, at_home: tuple[BlockFacts, ...], options: StoreOptions) -> _Duplicate | None:
        if options.mode is StoreMode.FORCE_NEW:
            return None
        home = item.places[0]
        duplicate = self._duplicate(item, home, at_home, options.mode)
        if duplicate is not None:
            return self._in_force(home, duplicate)
        for name in self._others(item, options):
            (found,) = self._instance.volume(name).probe([item.signature])
            duplicate = self._duplicate(item, name, found, options.mode)
            if duplicate is not None:
                return self._in_force(name, duplicate)
        return None

    def _in_force(self, name: str, facts: BlockFacts) -> _Duplicate:
        """A block under another home may be the copy of an unfinished migration: then the original must be counted."""
        if facts.key.home:
            key = self._instance.content_key(self._instance.volume(name), facts.key)
            found = next(iter(self._instance.find(key)), None)
            if found is not None and not found.facts.replica:
                return _Duplicate(found.volume.name, found.facts.key, found.facts.references)
        return _Duplicate(name, facts.key, facts.references)

    def _encode(self, items: list[_Item], options: StoreOptions) -> None:
        """Encodes the contents that are new, equal ones once."""
        codec = options.codec or self._store_settings.codec
        # Reversed, so that of equal ones the first is kept, as if they came one by one.
        distinct = {(item.signature, len(item.content)): item for item in reversed(items) if item.encoded is None}
        if options.mode is not StoreMode.REGULAR:  # then equal signatures need not mean equal contents
            distinct = {(index.to_bytes(4, "big"), 0): item for index, item in enumerate(items) if item.encoded is None}

        def encode(item: _Item) -> None:
            volume = self._instance.volume(item.places[0])
            item.encoded = self._instance.encodings.encode(item.content, codec, item.content_type, volume)

        self._spread.map(encode, list(distinct.values()))
        for item in items:
            if item.encoded is None:
                item.encoded = distinct[item.signature, len(item.content)].encoded

    def _store_operation(self, item: _Item, options: StoreOptions) -> Store:
        assert item.encoded is not None
        return Store(
            item.signature,
            item.encoded,
            force_new=options.mode is StoreMode.FORCE_NEW,
            compared=self._compared(item) if options.mode is StoreMode.COMPARE else None,
            overflow_min=self._overflow_min(item, item.places[0]),
        )

    def _others(self, item: _Item, options: StoreOptions) -> list[str]:
        """The volumes beside its home that may have the content."""
        if options.volume is not None:
            return []
        return [name for name in self._instance.others(item.signature, item.places[0]) if name in item.places]

    def _duplicate(self, item: _Item, name: str, found: tuple[BlockFacts, ...], mode: StoreMode) -> BlockFacts | None:
        for facts in found:
            if facts.replica or facts.size != len(item.content) or (name, facts.key) in item.compared:
                continue
            if mode is StoreMode.REGULAR or self._same(item, self._instance.volume(name), facts):
                return facts
        return None

    def _same(self, item: _Item, volume: ReadableVolume, facts: BlockFacts) -> bool:
        """Whether a block holds just this content; if not, that is remembered."""
        (block,) = volume.fetch([facts.key])
        if block is not None and self._instance.encodings.decode(block, volume) == item.content:
            return True
        item.compared.add((volume.name, facts.key))
        return False

    def _compared(self, item: _Item) -> frozenset[BlockKey]:
        """Blocks of the home volume that are not this content."""
        return frozenset(key for name, key in item.compared if name == item.places[0])

    def _overflow_min(self, item: _Item, home: str) -> int:
        """One above all numbers that contents of this volume have in other volumes, to which they were moved."""
        taken = -1
        for name in self._instance.others(item.signature, home):
            (found,) = self._instance.volume(name).probe([item.signature])
            taken = max([taken, *(facts.key.overflow for facts in found if facts.key.home == home.encode())])
        return taken + 1

    def _accept(self, item: _Item, volume: Volume, outcome: Outcome) -> None:
        key: ContentKey = self._instance.content_key(volume, outcome.key)
        if outcome.effect is Effect.NEW:
            self._instance.note(item.signature, volume.name)
        duplicate = outcome.effect is not Effect.NEW
        item.stored = Stored(key, duplicate, len(item.content), outcome.stored, outcome.references)
