"""Storing: sign, look for duplicates, encode what is new, commit (W5, W6, W7).

For each content the home volume is asked first, then those that the filter names. A duplicate becomes a reference to
the block that was found; a new content is encoded for its home volume. All that goes to one volume is one commit.

What a probe says may be outdated by the time of the commit, so the volume has the last word: it counts a duplicate that
appeared meanwhile, reports a block that vanished (MISSING), or one that must be compared first (UNSURE). Those contents
go round again. So do those of a volume that fails, is full or takes nothing, to the next one in their order. If one
content cannot be stored anywhere, what the others of its batch have counted is taken back.

A reference needs a few hundred bytes. So a volume that has no room for new contents is asked once more for its
duplicates alone, before they go elsewhere, too. A duplicate that is damaged gets the bytes at hand (N13).

Looking for duplicates: is the content in its home volume, or in one that the filter names? (W5, W6)

All contents of a batch are asked for at once: one probe of each home volume, then one of each other volume that may
hold some of them. As a rule the filter names none, whatever the number of volumes.

A duplicate counts wherever it is, also in a volume that is full or takes no new contents: a reference is no content. A
block that is known to be damaged, or that a comparison finds so, is a duplicate to be healed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.arguments import check_fields
from holdfast.env.files import Buffer
from holdfast.env.thread_map import ThreadMap
from holdfast.errors import Damaged, HoldfastError, TooLarge, UnknownName, UsageError, VolumeDown, VolumeFull
from holdfast.model import OVERFLOW_MAX, ContentKey, Stored, StoreMode
from holdfast.storage.codec import AUTO, ZSTD_DICT, find_codec
from holdfast.storage.store.fan_out import FAILURES
from holdfast.storage.store.replicas import NewBlock, Replicator
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import (
    MOVING,
    BlockFacts,
    BlockKey,
    Claim,
    DamageNoting,
    Effect,
    Encoded,
    Heal,
    Operation,
    OperationResult,
    ReadableVolume,
    Recount,
    Refer,
    Release,
    Store,
)


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

    def __init__(self, instance: BlockStore) -> None:
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


log = logging.getLogger("holdfast.storage")


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


class _Committed(NamedTuple):
    """The outcomes of each volume's commit, the volumes that failed, and those that refuse such a commit for good."""

    given: dict[str, list[OperationResult]]
    failed: dict[str, HoldfastError]
    refused: dict[str, HoldfastError]


_TRIES_MAX = 100  # of one content; each means that somebody else was faster
_NO_HINTS = StoreHints()


class Storer:
    """Any thread may call `store`."""

    def __init__(self, instance: BlockStore, replicator: Replicator) -> None:
        self._instance = instance
        self._replicator = replicator
        self._store_settings = instance.settings.store
        self._duplicates = Duplicates(instance)
        self._spread = ThreadMap()

    def sign(self, contents: Sequence[Buffer]) -> list[bytes]:
        return self._spread.map(self._instance.signature.digest, contents)

    def store(self, contents: Sequence[Buffer], options: StoreOptions, hints: StoreHints = _NO_HINTS) -> list[Stored]:
        """Everything is durable when this returns. Bad options and oversized contents raise before anything changes."""
        replicas = self._check(contents, options)
        signatures = hints.signatures or self.sign(contents)
        types: Sequence[str | None] = hints.content_types or [options.content_type] * len(contents)
        items = [
            Item(content, signature, self._places(signature, options), content_type)
            for content, signature, content_type in zip(contents, signatures, types, strict=True)
        ]
        with self._instance.gate:
            return self._store(items, options, replicas, hints)

    def _store(self, items: list[Item], options: StoreOptions, replicas: int, hints: StoreHints) -> list[Stored]:
        waiting = items
        try:
            while waiting:
                waiting = self._round(waiting, options, hints)
        except HoldfastError:
            self._take_back(items)
            raise
        stored = [item.stored for item in items if item.stored is not None]
        assert len(stored) == len(items)
        if len(self._instance.volumes) > 1:
            self._replicate(items, replicas)
        return stored

    def heal(self, contents: Sequence[Buffer], signatures: Sequence[bytes]) -> None:
        """Contents have come again that need no further reference: damaged blocks of them are healed, wherever.

        Volumes on this machine are asked only if they know of damage.
        """
        asked = [
            name
            for name, volume in self._instance.volumes.items()
            if self._instance.is_up(name) and isinstance(volume, DamageNoting) and volume.may_be_damaged()
        ]
        if not asked or not contents:
            return
        with self._instance.gate:
            found = self._instance.asking.each(asked, lambda name: self._instance.volume(name).probe(signatures))
            for name, facts in found.given.items():
                plan = [
                    (block, content)
                    for content, blocks in zip(contents, facts, strict=True)
                    for block in blocks
                    if block.damaged and block.size == len(content) and not block.moving
                ]
                self._heal(name, plan)

    def _heal(self, name: str, plan: Sequence[tuple[BlockFacts, Buffer]]) -> None:
        if not plan:
            return
        volume = self._instance.volume(name)
        try:
            operations = [
                Heal(facts.key, self._instance.encodings.encode(content, AUTO, None, volume), references=0)
                for facts, content in plan
            ]
            outcomes = self._instance.writer(name).commit(operations)
        except HoldfastError as error:  # whoever reads or adds has what was asked for
            self._instance.warn(f"healing {name}", f"damaged blocks of volume {name!r} cannot be healed: {error}")
            return
        self._tell_healed(name, outcomes)

    def _tell_healed(self, name: str, outcomes: Sequence[OperationResult]) -> None:
        volume = self._instance.volume(name)
        keys = [self._instance.content_key(volume, each.key) for each in outcomes if each.effect is Effect.HEALED]
        if keys:
            self._instance.healed(name, keys)

    def _take_back(self, items: Iterable[Item]) -> None:
        """The batch has failed: nobody will know of what was counted for some of it."""
        by_volume: dict[str, list[BlockKey]] = {}
        for item in items:
            if item.counted is not None:
                name, key = item.counted
                by_volume.setdefault(name, []).append(key)
        for name, keys in by_volume.items():
            self._uncount(name, keys)

    def _uncount(self, name: str, keys: Sequence[BlockKey]) -> None:
        """Takes one reference to each of the blocks back. If that fails, there is one too many: nothing is lost."""
        try:
            volume = self._instance.writer(name)
            for key, outcome in zip(keys, volume.commit([Release(key) for key in keys]), strict=True):
                if outcome.references == MOVING:  # all that kept a copy which its mover has given up
                    volume.commit([Recount(key, 0, MOVING, replica=False)])
        except HoldfastError as error:
            log.warning("contents of volume %r may have a reference too many: %s", name, error)

    def _replicate(self, items: list[Item], replicas: int) -> None:
        """New contents are copied as they are; copies of others are looked for, and brought in line."""
        references: dict[ContentKey, int] = {}
        fresh: dict[ContentKey, Item] = {}
        known: dict[ContentKey, list[str]] = {}
        for item in items:
            assert item.stored is not None
            key = item.stored.key
            references[key] = max(references.get(key, 0), item.stored.references)
            if item.new:
                fresh[key] = item
        for item in items:
            assert item.stored is not None
            key = item.stored.key
            if key not in fresh and (replicas > 1 or self._replicator.may_have(key.signature, key.volume)):
                known[key] = item.places
        if replicas > 1:
            self._replicator.spread(
                [
                    NewBlock(key, item.encoded, references[key], item.places)
                    for key, item in fresh.items()
                    if item.encoded is not None
                ],
                replicas,
            )
        self._replicator.follow(known, replicas, known)

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
        available = self._instance.writable_count
        if replicas < 1:
            raise UsageError(f"bad number of replicas {replicas}: at least 1")
        if replicas > max(available, 1):
            raise UsageError(f"{replicas} replicas need {replicas} writable volumes, there are {available}")
        return replicas

    def _places(self, signature: bytes, options: StoreOptions) -> list[str]:
        places = self._instance.places(signature)
        if options.volume is None:
            return places
        return [options.volume, *(name for name in places if name != options.volume)]

    # -- one round ----------------------------------------------------------------------------------------------

    def _round(self, items: list[Item], options: StoreOptions, hints: StoreHints) -> list[Item]:
        """Commits one operation per content, grouped by volume; returns the contents that must go round again."""
        plans: dict[str, list[tuple[Item, Operation]]] = {}
        announced: list[Announced] = []
        new: list[Item] = []
        again: list[Item] = []
        known: Known = {}
        if options.mode is StoreMode.REGULAR and hints.announce is None:
            items = self._claim(items, options, again)
        sought = self._duplicates.find(items, options, known)
        self._fail_all(sought.failed, items, options, again)
        for item, duplicate in sought.found:
            if duplicate is None:
                new.append(item)
                announced.append(Announced(ContentKey(item.places[0], item.signature), len(item.content), 0))
            else:
                operation = self._reference(item, duplicate, options, again)
                if operation is None:
                    continue
                plans.setdefault(duplicate.volume, []).append((item, operation))
                key = self._instance.content_key(self._instance.volume(duplicate.volume), duplicate.key)
                announced.append(Announced(key, len(item.content), duplicate.references))
        if hints.announce is not None:
            hints.announce(announced)
        new = self._encoded(new, options, again)
        for item, overflow_min in zip(new, self._duplicates.overflow_mins(new, known), strict=True):
            store = self._store_operation(item, options, overflow_min)
            plans.setdefault(item.places[0], []).append((item, store))
        self._carry_out(plans, options, again)
        return again

    def _reference(
        self, item: Item, duplicate: Duplicate, options: StoreOptions, again: list[Item]
    ) -> Refer | Heal | None:
        """One more reference to the duplicate; None if its volume has just failed: the content goes round again."""
        if not duplicate.damaged:
            return Refer(duplicate.key)
        codec = options.codec or self._store_settings.codec
        try:
            volume = self._instance.volume(duplicate.volume)
            encoded = self._instance.encodings.encode(
                item.content, AUTO if codec == ZSTD_DICT else codec, item.content_type, volume
            )
        except FAILURES as error:
            self._fail(duplicate.volume, error, [item], options)
            again.append(item)
            return None
        return Heal(duplicate.key, encoded)

    def _claim(self, items: list[Item], options: StoreOptions, again: list[Item]) -> list[Item]:
        """Counts duplicates in home volumes on other machines with one question each; returns what is left."""
        plans: dict[str, list[Item]] = {}
        for item in items:
            if self._instance.is_shared(item.places[0]) and item.claimed != item.places[0]:
                plans.setdefault(item.places[0], []).append(item)
        if not plans:
            return items

        answers = self._committed(
            {name: [Claim(each.signature, len(each.content)) for each in theirs] for name, theirs in plans.items()}
        )
        for name, outcomes in answers.given.items():
            volume = self._instance.volume(name)
            moving = []
            for item, outcome in zip(plans[name], outcomes, strict=True):
                item.claimed = name
                if outcome.effect is Effect.DUPLICATE:
                    if outcome.references < MOVING:
                        self._accept(item, volume, outcome)
                    else:
                        moving.append(outcome.key)
            if moving:  # a migration is bringing such blocks home: their originals are the ones to be counted
                self._uncount(name, moving)
        self._raise(answers.refused)
        left = [item for item in items if item.stored is None and item.places[0] not in answers.failed]
        self._fail_all(answers.failed, items, options, again)
        return left

    def _carry_out(
        self, plans: dict[str, list[tuple[Item, Operation]]], options: StoreOptions, again: list[Item]
    ) -> None:
        answers = self._committed({name: [operation for _, operation in plan] for name, plan in plans.items()})
        for name, outcomes in answers.given.items():
            volume = self._instance.volume(name)
            moving = []
            self._tell_healed(name, outcomes)
            for (item, _), outcome in zip(plans[name], outcomes, strict=True):
                unsettled = outcome.references >= MOVING  # it came while a migration is bringing such a block home
                if unsettled:
                    moving.append(outcome.key)
                if unsettled or outcome.effect in (Effect.MISSING, Effect.UNSURE):
                    again.append(item)
                    item.tries += 1
                    if item.tries > _TRIES_MAX:
                        item.give_up(name, VolumeDown(f"volume {name!r} has a block that cannot be settled"))
                else:
                    self._accept(item, volume, outcome)
            if moving:
                self._uncount(name, moving)
        self._raise(answers.refused)
        for name, error in answers.failed.items():
            references = [item for item, operation in plans[name] if isinstance(operation, Refer)]
            failing = [item for item, operation in plans[name] if not isinstance(operation, Refer)]
            if not isinstance(error, VolumeFull) or not failing:  # else references alone may find room
                failing += references
            self._fail(name, error, failing, options)
            again += [item for item, _ in plans[name]]

    def _committed(self, plans: dict[str, list[Operation]]) -> _Committed:
        """Each volume's own commit. What was done is known even if another volume refuses its part for good."""
        refused: dict[str, HoldfastError] = {}

        def commit(name: str) -> list[OperationResult]:
            try:
                return self._instance.writer(name).commit(plans[name])
            except (*FAILURES, UnknownName):
                raise
            except HoldfastError as error:
                refused[name] = error
                return []

        given, failed = self._instance.asking.each(list(plans), commit)
        return _Committed({name: given[name] for name in given if name not in refused}, failed, refused)

    def _raise(self, refused: dict[str, HoldfastError]) -> None:
        for error in refused.values():
            raise error

    def _fail_all(
        self, failed: dict[str, HoldfastError], items: Sequence[Item], options: StoreOptions, again: list[Item]
    ) -> None:
        """Home volumes have failed: their contents go round again."""
        for name, error in failed.items():
            theirs = [item for item in items if item.places[0] == name]
            self._fail(name, error, theirs, options)
            again += theirs

    def _fail(self, name: str, error: HoldfastError, items: Sequence[Item], options: StoreOptions) -> None:
        """A volume does not answer, or takes nothing: others are asked, unless the caller wants just this one."""
        if options.volume == name:
            raise error
        self._instance.rest(name, error)
        for item in items:
            item.give_up(name, error)

    # -- new contents -----------------------------------------------------------------------------------------------

    def _encoded(self, items: list[Item], options: StoreOptions, again: list[Item]) -> list[Item]:
        """Encodes the contents that are new, equal ones once, and returns those that have a volume to go to."""
        codec = options.codec or self._store_settings.codec
        if codec in (AUTO, ZSTD_DICT):
            items = self._with_dictionaries(items, options, again)
        # Reversed, so that of equal ones the first is kept, as if they came one by one.
        waiting = [item for item in items if item.encoded is None]
        distinct = {(item.signature, len(item.content), item.places[0]): item for item in reversed(waiting)}
        if options.mode is not StoreMode.REGULAR:  # then equal signatures need not mean equal contents
            distinct = {(index.to_bytes(4, "big"), 0, ""): item for index, item in enumerate(waiting)}

        def encode(item: Item) -> None:
            volume = self._instance.volume(item.places[0])
            item.encoded = self._instance.encodings.encode(item.content, codec, item.content_type, volume)

        self._spread.map(encode, list(distinct.values()))
        for item in items:
            if item.encoded is None:
                item.encoded = distinct[item.signature, len(item.content), item.places[0]].encoded
        return items

    def _with_dictionaries(self, items: list[Item], options: StoreOptions, again: list[Item]) -> list[Item]:
        """Those contents whose home volume has told which dictionary it wants."""
        homes = list({item.places[0]: None for item in items})
        answers = self._instance.asking.each(
            homes, lambda name: self._instance.encodings.newest(self._instance.volume(name))
        )
        kept = [item for item in items if item.places[0] not in answers.failed]
        self._fail_all(answers.failed, items, options, again)
        return kept

    def _store_operation(self, item: Item, options: StoreOptions, overflow_min: int) -> Store:
        assert item.encoded is not None
        return Store(
            item.signature,
            item.encoded,
            force_new=options.mode is StoreMode.FORCE_NEW,
            compared=self._compared(item) if options.mode is StoreMode.COMPARE else None,
            overflow_min=overflow_min,
        )

    def _compared(self, item: Item) -> frozenset[BlockKey]:
        """Blocks of the home volume that are not this content."""
        return frozenset(key for name, key in item.compared if name == item.places[0])

    def _accept(self, item: Item, volume: ReadableVolume, outcome: OperationResult) -> None:
        key: ContentKey = self._instance.content_key(volume, outcome.key)
        item.new = outcome.effect is Effect.NEW
        if item.new:
            self._instance.note(item.signature, volume.name)
        item.counted = volume.name, outcome.key
        item.stored = Stored(key, not item.new, len(item.content), outcome.stored, outcome.references)
