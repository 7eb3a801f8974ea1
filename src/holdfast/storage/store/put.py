"""Put: sign, look for duplicates, encode what is new, commit (W5, W6, W7).

All contents of a batch are looked up together: one probe of each home volume, then one of each other volume that the
bloom filter names; as a rule it names none. A duplicate becomes a reference to the block that was found, wherever that
is, also in a volume that is full or read-only. A new content is encoded for its home volume. All that goes to one
volume is one commit.

A probe may be outdated by the time of the commit, so the volume decides: it counts a duplicate that appeared meanwhile,
reports a block that vanished (MISSING), or one that must be compared first (UNSURE). Those contents are tried again in
the next round, as are those of a volume that fails, is full or read-only: they go to the next volume in their order. If
one content cannot be stored anywhere, the references of the whole batch are rolled back.

A reference needs a few hundred bytes. So a volume without room for new contents is asked once more for its duplicates
alone before they go elsewhere, too. A duplicate that is damaged is healed with the bytes at hand (N13).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.arguments import check_fields
from holdfast.env.files import Buffer
from holdfast.env.thread_map import ThreadMap
from holdfast.errors import Damaged, HoldfastError, TooLarge, UnknownName, UsageError, VolumeDown, VolumeFull
from holdfast.model import OVERFLOW_MAX, ContentKey, Stored, StoreMode
from holdfast.storage.codec import AUTO, ZSTD_DICT, find_codec
from holdfast.storage.store.fan_out import FAILURES, Responses
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

log = logging.getLogger("holdfast.storage")

_TRIES_MAX = 100  # of one content; each means that somebody else was faster


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


class Announced(NamedTuple):
    """A reference that is about to be added: to which block, and its counter now."""

    key: ContentKey
    size: int
    references: int  # 0: the block is about to be made


Announce = Callable[[list[Announced]], None]


@dataclass(frozen=True, slots=True)
class StoreHints:
    """What a caller knows of each content already, and a callback before anything changes."""

    signatures: Sequence[bytes] = ()
    content_types: Sequence[str] = ()
    announce: Announce | None = None


_NO_HINTS = StoreHints()


@dataclass(slots=True, eq=False)
class PendingContent:
    """A content that is being stored."""

    content: Buffer
    signature: bytes
    places: list[str]
    content_type: str | None
    compared: set[tuple[str, BlockKey]] = field(default_factory=set)  # by volume; not equal
    failed: set[str] = field(default_factory=set)  # volumes that are not tried any more
    encoded: Encoded | None = None
    stored: Stored | None = None
    counted: tuple[str, BlockKey] | None = None  # the block that got its reference, and its volume
    claimed: str = ""  # the home volume that has said it has no such block
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

    found: list[tuple[PendingContent, Duplicate | None]]
    failed: dict[str, HoldfastError]


class Duplicates:
    """Finds the blocks that hold contents already. `known` is what one round has learned so far."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store

    def find(self, items: list[PendingContent], options: StoreOptions, known: Known) -> Sought:
        """For each content the block that holds it: in its home volume, or in one that the filter names."""
        if options.mode is StoreMode.FORCE_NEW:
            return Sought([(item, None) for item in items], {})
        wanted: dict[str, dict[bytes, None]] = {}
        for item in items:
            home = item.places[0]
            if item.claimed == home and home not in self._store.may_hold(item.signature):
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
        responses = self._store.fan_out.each(names, lambda name: self._store.volume(name).probe(asked[name]))
        for name, facts in responses.results.items():
            known.setdefault(name, {}).update(zip(asked[name], facts, strict=True))
        return responses.failed

    def _others(self, item: PendingContent, options: StoreOptions) -> list[str]:
        """The volumes beside its home that may have the content."""
        if options.volume is not None:
            return []
        named = self._store.others(item.signature, item.places[0])
        return [name for name in named if name not in item.failed and self._store.is_up(name)]

    def _duplicate(self, item: PendingContent, names: list[str], known: Known, mode: StoreMode) -> Duplicate | None:
        for name in names:
            found = known.get(name, {}).get(item.signature, ())
            for facts in sorted(found, key=_is_sound) if len(found) > 1 else found:
                if facts.replica or facts.size != len(item.content) or (name, facts.key) in item.compared:
                    continue
                same = facts if mode is StoreMode.REGULAR else self._compared(item, self._store.volume(name), facts)
                duplicate = self._counted(name, same) if same is not None else None
                if duplicate is not None:
                    return duplicate
        return None

    def _compared(self, item: PendingContent, volume: ReadableVolume, facts: BlockFacts) -> BlockFacts | None:
        """The block, if it holds just this content; if not, that is remembered.

        A block that cannot be read holds it if the signature says so beyond doubt: then it is damaged, as `facts` tell.
        """
        try:
            (block,) = volume.fetch([facts.key])
            if block is not None and self._store.decoded(block, volume) == item.content:
                return facts._replace(damaged=False)
        except FAILURES:
            return None
        except Damaged:
            is_alias = not facts.stored and facts.size  # then its target is damaged, and comes by itself
            if self._store.signature.collision_free and not is_alias:
                return facts._replace(damaged=True)
        item.compared.add((volume.name, facts.key))
        return None

    def _counted(self, name: str, facts: BlockFacts) -> Duplicate | None:
        """The block to be counted. A copy of a migration stands for its original, or is the block if left alone."""
        if not facts.moving:
            return Duplicate(name, facts.key, facts.references, facts.damaged)
        key = self._store.content_key(self._store.volume(name), facts.key)
        held = self._store.find(key)
        if self._store.finish_move(held):
            held = self._store.find(key)
        if not held.counted:  # its volume is down
            return None
        original = held.counted[0]
        facts = original.facts
        return Duplicate(original.volume.name, facts.key, facts.references, facts.damaged)

    def overflow_mins(self, items: Sequence[PendingContent], known: Known) -> list[int]:
        """For each one above all numbers that contents of its home have in other volumes, to which they were moved."""
        wanted: dict[str, dict[bytes, None]] = {}
        others = [self._store.others(item.signature, item.places[0]) for item in items]
        for item, names in zip(items, others, strict=True):
            for name in names:
                wanted.setdefault(name, {})[item.signature] = None
        self._probe(wanted, known)
        behind = self._store.is_incomplete
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
        return int.from_bytes(self._store.env.random_bytes(4), "big") % (OVERFLOW_MAX // 2) + OVERFLOW_MAX // 4


def _is_sound(facts: BlockFacts) -> bool:
    """Damaged blocks come first: they need the content."""
    return not facts.damaged


class _Batch:
    """The contents of one put, round after round until each is stored. One thread."""

    def __init__(
        self,
        store: BlockStore,
        threads: ThreadMap,
        items: list[PendingContent],
        options: StoreOptions,
        announce: Announce | None,
    ) -> None:
        self._store = store
        self._threads = threads
        self._items = items
        self._options = options
        self._codec = options.codec or store.settings.store.codec
        self._announce = announce
        self._duplicates = Duplicates(store)
        self._again: list[PendingContent] = []  # contents of this round that need another one

    def run(self) -> list[Stored]:
        """Durable on return. If a content cannot be stored anywhere, the references of the others are rolled back."""
        waiting = self._items
        try:
            while waiting:
                self._again = []
                self._round(waiting)
                waiting = self._again
        except HoldfastError:
            self._roll_back()
            raise
        stored = [item.stored for item in self._items if item.stored is not None]
        assert len(stored) == len(self._items)
        return stored

    def _roll_back(self) -> None:
        by_volume: dict[str, list[BlockKey]] = {}
        for item in self._items:
            if item.counted is not None:
                name, key = item.counted
                by_volume.setdefault(name, []).append(key)
        for name, keys in by_volume.items():
            self._uncount(name, keys)

    def _uncount(self, name: str, keys: Sequence[BlockKey]) -> None:
        """Removes one reference to each of the blocks. If that fails, there is one too many: nothing is lost."""
        try:
            volume = self._store.writer(name)
            for key, outcome in zip(keys, volume.commit([Release(key) for key in keys]), strict=True):
                if outcome.references == MOVING:  # this was all that kept a copy that its mover has abandoned
                    volume.commit([Recount(key, 0, MOVING, replica=False)])
        except HoldfastError as error:
            log.warning("contents of volume %r may have a reference too many: %s", name, error)

    # -- one round ----------------------------------------------------------------------------------------------

    def _round(self, items: list[PendingContent]) -> None:
        """Commits one operation per content, grouped by volume."""
        plans: dict[str, list[tuple[PendingContent, Operation]]] = {}
        announced: list[Announced] = []
        new: list[PendingContent] = []
        known: Known = {}
        if self._options.mode is StoreMode.REGULAR and self._announce is None:
            items = self._claim(items)
        sought = self._duplicates.find(items, self._options, known)
        self._fail_homes(sought.failed, items)
        for item, duplicate in sought.found:
            if duplicate is None:
                new.append(item)
                announced.append(Announced(ContentKey(item.places[0], item.signature), len(item.content), 0))
            else:
                operation = self._reference(item, duplicate)
                if operation is None:
                    continue
                plans.setdefault(duplicate.volume, []).append((item, operation))
                key = self._store.content_key(self._store.volume(duplicate.volume), duplicate.key)
                announced.append(Announced(key, len(item.content), duplicate.references))
        if self._announce is not None:
            self._announce(announced)
        new = self._encode(new)
        for item, overflow_min in zip(new, self._duplicates.overflow_mins(new, known), strict=True):
            plans.setdefault(item.places[0], []).append((item, self._store_operation(item, overflow_min)))
        self._commit(plans)

    def _claim(self, items: list[PendingContent]) -> list[PendingContent]:
        """Counts duplicates in home volumes on other machines with one request each; returns what is left."""
        plans: dict[str, list[PendingContent]] = {}
        for item in items:
            if self._store.is_shared(item.places[0]) and item.claimed != item.places[0]:
                plans.setdefault(item.places[0], []).append(item)
        if not plans:
            return items
        responses, refused = self._commit_each(
            {name: [Claim(each.signature, len(each.content)) for each in theirs] for name, theirs in plans.items()}
        )
        for name, outcomes in responses.results.items():
            volume = self._store.volume(name)
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
        if refused is not None:
            raise refused
        left = [item for item in items if item.stored is None and item.places[0] not in responses.failed]
        self._fail_homes(responses.failed, items)
        return left

    def _reference(self, item: PendingContent, duplicate: Duplicate) -> Refer | Heal | None:
        """One more reference to the duplicate; None if its volume has just failed: the content needs another round."""
        if not duplicate.damaged:
            return Refer(duplicate.key)
        codec = AUTO if self._codec == ZSTD_DICT else self._codec
        try:
            volume = self._store.volume(duplicate.volume)
            encoded = self._store.encodings.encode(item.content, codec, item.content_type, volume)
        except FAILURES as error:
            self._fail(duplicate.volume, error, [item])
            self._again.append(item)
            return None
        return Heal(duplicate.key, encoded)

    def _commit(self, plans: dict[str, list[tuple[PendingContent, Operation]]]) -> None:
        responses, refused = self._commit_each(
            {name: [operation for _, operation in plan] for name, plan in plans.items()}
        )
        for name, outcomes in responses.results.items():
            volume = self._store.volume(name)
            moving = []
            self._store.report_healed(name, outcomes)
            for (item, _), outcome in zip(plans[name], outcomes, strict=True):
                is_moving = outcome.references >= MOVING  # a migration is just bringing such a block home
                if is_moving:
                    moving.append(outcome.key)
                if is_moving or outcome.effect in (Effect.MISSING, Effect.UNSURE):
                    self._again.append(item)
                    item.tries += 1
                    if item.tries > _TRIES_MAX:
                        item.give_up(name, VolumeDown(f"volume {name!r} has a block that keeps changing"))
                else:
                    self._accept(item, volume, outcome)
            if moving:
                self._uncount(name, moving)
        if refused is not None:
            raise refused
        for name, error in responses.failed.items():
            references = [item for item, operation in plans[name] if isinstance(operation, Refer)]
            failing = [item for item, operation in plans[name] if not isinstance(operation, Refer)]
            if not isinstance(error, VolumeFull) or not failing:  # else references alone may find room
                failing += references
            self._fail(name, error, failing)
            self._again += [item for item, _ in plans[name]]

    def _commit_each(
        self, plans: dict[str, list[Operation]]
    ) -> tuple[Responses[list[OperationResult]], HoldfastError | None]:
        """One commit to each volume. An error that is not the failure of one volume is returned, not raised.

        So the caller knows of what other volumes have committed, and can roll it back.
        """
        refused: dict[str, HoldfastError] = {}

        def commit(name: str) -> list[OperationResult]:
            try:
                return self._store.writer(name).commit(plans[name])
            except (*FAILURES, UnknownName):
                raise
            except HoldfastError as error:
                refused[name] = error
                return []

        responses = self._store.fan_out.each(list(plans), commit)
        for name in refused:
            del responses.results[name]
        return responses, next(iter(refused.values()), None)

    def _accept(self, item: PendingContent, volume: ReadableVolume, outcome: OperationResult) -> None:
        key = self._store.content_key(volume, outcome.key)
        item.new = outcome.effect is Effect.NEW
        if item.new:
            self._store.note(item.signature, volume.name)
        item.counted = volume.name, outcome.key
        item.stored = Stored(key, not item.new, len(item.content), outcome.stored, outcome.references)

    def _fail_homes(self, failed: dict[str, HoldfastError], items: Sequence[PendingContent]) -> None:
        """Home volumes have failed: their contents need another round."""
        for name, error in failed.items():
            theirs = [item for item in items if item.places[0] == name]
            self._fail(name, error, theirs)
            self._again += theirs

    def _fail(self, name: str, error: HoldfastError, items: Sequence[PendingContent]) -> None:
        """A volume has failed, or takes nothing: its contents go to others, unless the caller wants just this one."""
        if self._options.volume == name:
            raise error
        self._store.back_off(name, error)
        for item in items:
            item.give_up(name, error)

    # -- new contents -------------------------------------------------------------------------------------------

    def _encode(self, items: list[PendingContent]) -> list[PendingContent]:
        """Encodes the contents that are new, equal ones once; returns those that have a volume to go to."""
        if self._codec in (AUTO, ZSTD_DICT):
            items = self._with_dictionaries(items)
        # Reversed, so that of equal ones the first is kept, as if they came one by one.
        waiting = [item for item in items if item.encoded is None]
        distinct = {(item.signature, len(item.content), item.places[0]): item for item in reversed(waiting)}
        if self._options.mode is not StoreMode.REGULAR:  # then equal signatures need not mean equal contents
            distinct = {(index.to_bytes(4, "big"), 0, ""): item for index, item in enumerate(waiting)}

        def encode(item: PendingContent) -> None:
            volume = self._store.volume(item.places[0])
            item.encoded = self._store.encodings.encode(item.content, self._codec, item.content_type, volume)

        self._threads.map(encode, list(distinct.values()))
        for item in items:
            if item.encoded is None:
                item.encoded = distinct[item.signature, len(item.content), item.places[0]].encoded
        return items

    def _with_dictionaries(self, items: list[PendingContent]) -> list[PendingContent]:
        """The contents whose home volume could be asked for its dictionary."""
        homes = list({item.places[0]: None for item in items})
        responses = self._store.fan_out.each(homes, lambda name: self._store.encodings.newest(self._store.volume(name)))
        kept = [item for item in items if item.places[0] not in responses.failed]
        self._fail_homes(responses.failed, items)
        return kept

    def _store_operation(self, item: PendingContent, overflow_min: int) -> Store:
        assert item.encoded is not None
        compared = frozenset(key for name, key in item.compared if name == item.places[0])
        return Store(
            item.signature,
            item.encoded,
            force_new=self._options.mode is StoreMode.FORCE_NEW,
            compared=compared if self._options.mode is StoreMode.COMPARE else None,
            overflow_min=overflow_min,
        )


class Storer:
    """Stores batches of contents, and heals damaged blocks. Thread-safe."""

    def __init__(self, store: BlockStore, replicator: Replicator) -> None:
        self._store = store
        self._replicator = replicator
        self._store_settings = store.settings.store
        self._threads = ThreadMap()

    def sign(self, contents: Sequence[Buffer]) -> list[bytes]:
        return self._threads.map(self._store.signature.digest, contents)

    def store(self, contents: Sequence[Buffer], options: StoreOptions, hints: StoreHints = _NO_HINTS) -> list[Stored]:
        """Everything is durable when this returns. Bad options and oversized contents raise before anything changes."""
        replicas = self._check(contents, options)
        signatures = hints.signatures or self.sign(contents)
        types: Sequence[str | None] = hints.content_types or [options.content_type] * len(contents)
        items = [
            PendingContent(content, signature, self._places(signature, options), content_type)
            for content, signature, content_type in zip(contents, signatures, types, strict=True)
        ]
        with self._store.move_lock:
            stored = _Batch(self._store, self._threads, items, options, hints.announce).run()
            if len(self._store.volumes) > 1:
                self._replicate(items, replicas)
        return stored

    def heal(self, contents: Sequence[Buffer], signatures: Sequence[bytes]) -> None:
        """Heals damaged blocks of these contents, wherever they are, without counting a reference.

        Volumes on this machine are asked only if they know of damage.
        """
        asked = [
            name
            for name, volume in self._store.volumes.items()
            if self._store.is_up(name) and isinstance(volume, DamageNoting) and volume.may_be_damaged()
        ]
        if not asked or not contents:
            return
        with self._store.move_lock:
            found = self._store.fan_out.each(asked, lambda name: self._store.volume(name).probe(signatures))
            for name, facts in found.results.items():
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
        volume = self._store.volume(name)
        try:
            operations = [
                Heal(facts.key, self._store.encodings.encode(content, AUTO, None, volume), references=0)
                for facts, content in plan
            ]
            outcomes = self._store.writer(name).commit(operations)
        except HoldfastError as error:  # the caller has what it wanted already
            self._store.warn(f"healing {name}", f"damaged blocks of volume {name!r} cannot be healed: {error}")
            return
        self._store.report_healed(name, outcomes)

    def _replicate(self, items: list[PendingContent], replicas: int) -> None:
        """Copies new contents as they are; replicas of the others are found and brought in line."""
        references: dict[ContentKey, int] = {}
        fresh: dict[ContentKey, PendingContent] = {}
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
            self._store.chosen(options.volume)
        replicas = self._store_settings.replicas if options.replicas is None else options.replicas
        available = self._store.writable_count
        if replicas < 1:
            raise UsageError(f"bad number of replicas {replicas}: at least 1")
        if replicas > max(available, 1):
            raise UsageError(f"{replicas} replicas need {replicas} writable volumes, there are {available}")
        return replicas

    def _places(self, signature: bytes, options: StoreOptions) -> list[str]:
        places = self._store.places(signature)
        if options.volume is None:
            return places
        return [options.volume, *(name for name in places if name != options.volume)]

    def close(self) -> None:
        self._threads.close()
