"""Put: sign, look for duplicates, encode what is new, commit (W5, W6, W7).

If only its home volume can hold a content, `Storer.store_one` stores it with one probe and one commit. All others are
stored in batches (`_Batch`): one probe of each home volume, then one of each other volume that the bloom filter names
(usually none). A duplicate becomes a reference to the block that was found, wherever it is, even in a volume that is
full or read-only. A new content is encoded for its home volume. Each volume gets one commit.

A remote home volume receives the content at once if the filter says that it is new there. Otherwise it receives a claim
of one more reference, followed by the content if the claim misses. A content that others stored since the filter was
last synchronized is sent once for nothing. With a single volume the filter is loaded after some puts; until then every
put claims first.

The result of a probe may be outdated at commit, so the volume decides: it counts a duplicate that appeared in between,
reports a block that vanished (MISSING) or that must be compared first (UNSURE). Those contents go into another round,
as do the contents of a volume that fails, is full or read-only: they go to their next volume. If one content cannot be
stored anywhere, the references of the whole batch are rolled back.

A reference takes a few hundred bytes. A volume without room for new contents therefore gets a second commit with its
duplicates only, before those go elsewhere too. A damaged duplicate is healed with the bytes at hand (N13).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from holdfast.arguments import check_fields, read_text_field
from holdfast.env.files import Buffer
from holdfast.env.thread_map import ThreadMap
from holdfast.errors import Damaged, HoldfastError, TooLarge, UnknownName, UsageError, VolumeDown, VolumeFull
from holdfast.model import OVERFLOW_MAX, ContentKey, Stored, StoreMode
from holdfast.storage.codec import AUTO, ZSTD_DICT, find_codec
from holdfast.storage.store.encoder import EncodedContent
from holdfast.storage.store.replicas import NewBlock, Replicator
from holdfast.storage.store.store import BlockLocation, BlockStore
from holdfast.storage.volume import (
    FAILURES,
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
    Volume,
)

log = logging.getLogger("holdfast.storage")

_REPEATED = (Effect.MISSING, Effect.UNSURE)  # a tuple: the hash of an enum's member is slow
_TRIES_MAX = 100  # of one content; each means that another writer was faster


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to store. None leaves the choice to the archive's settings."""

    mode: StoreMode = StoreMode.REGULAR
    codec: str | None = None
    content_type: str | None = None
    volume: str | None = None  # only this volume; duplicates in others are ignored
    replicas: int | None = None

    def __post_init__(self) -> None:
        read_text_field(self, "mode", StoreMode.parse)
        check_fields(self)


class Announced(NamedTuple):
    """A reference that is about to be added: its block, and the block's counter now."""

    key: ContentKey
    size: int
    references: int  # 0: the block does not exist yet


Announce = Callable[[list[Announced]], None]


@dataclass(frozen=True, slots=True)
class StoreHints:
    """What a caller already knows of each content, and a callback before anything changes."""

    signatures: Sequence[bytes] = ()
    content_types: Sequence[str] = ()
    announce: Announce | None = None


_NO_HINTS = StoreHints()


@dataclass(slots=True, eq=False)
class _Item:
    """A content that is being stored."""

    content: Buffer | EncodedContent
    signature: bytes
    places: list[str]
    content_type: str | None
    compared: set[tuple[str, BlockKey]] = field(default_factory=set)  # blocks with other contents, by volume
    failed: set[str] = field(default_factory=set)  # volumes that are not tried again
    encoded: Encoded | None = None
    stored: Stored | None = None
    counted: tuple[str, BlockKey] | None = None  # the block that got the reference, and its volume
    claimed: str = ""  # the home volume that does not have the block
    tries: int = 0
    index: int = 0  # among the contents of the put

    def give_up(self, name: str, error: HoldfastError) -> None:
        """Drops a failed volume: the next one becomes the content's home. Raises the error if there is none."""
        self.failed.add(name)
        self.places = [place for place in self.places if place != name]
        if not self.places:
            raise error
        if self.encoded is not None and self.encoded.codec == ZSTD_DICT:  # it needs the dictionary of the failed volume
            self.encoded = None


class _Batch:
    """The contents of one put, in rounds until each is stored. For one thread."""

    def __init__(
        self,
        store: BlockStore,
        threads: ThreadMap,
        items: list[_Item],
        options: StoreOptions,
        announce: Announce | None,
    ) -> None:
        self._store = store
        self._threads = threads
        self._items = items
        self._options = options
        self._codec = options.codec or store.settings.store.codec
        self._announce = announce
        self._again: list[_Item] = []  # contents that need another round
        self._known: dict[str, dict[bytes, tuple[BlockFacts, ...]]] = {}  # results of this round's probes, by volume

    def run(self) -> list[Stored]:
        """Durable on return. If a content cannot be stored anywhere, the references of the others are rolled back."""
        waiting = self._items
        try:
            while waiting:
                self._again, self._known = [], {}
                self._round(waiting)
                waiting = self._again
        except HoldfastError:
            counted: dict[str, list[BlockKey]] = {}
            for item in self._items:
                if item.counted is not None:
                    counted.setdefault(item.counted[0], []).append(item.counted[1])
            for name, keys in counted.items():
                uncount(self._store, name, keys)
            raise
        stored = [item.stored for item in self._items if item.stored is not None]
        assert len(stored) == len(self._items)
        return stored

    def _round(self, items: list[_Item]) -> None:
        """Commits one operation per content, grouped by volume."""
        plans: dict[str, list[tuple[_Item, Operation]]] = {}
        announced: list[Announced] = []
        new: list[_Item] = []
        for item, duplicate in self._find(self._claim(items, plans)):
            size = len(item.content)
            if duplicate is None:
                new.append(item)
                if self._announce is not None:
                    announced.append(Announced(ContentKey(item.places[0], item.signature), size, 0))
            elif (operation := self._reference(item, duplicate)) is not None:
                plans.setdefault(duplicate.volume.name, []).append((item, operation))
                if self._announce is not None:
                    key = self._store.content_key(duplicate.volume, duplicate.facts.key)
                    announced.append(Announced(key, size, duplicate.facts.references))
        if self._announce is not None:
            self._announce(announced)
        new = self._encode(new)
        mode = self._options.mode
        for item, overflow_min in zip(new, self._overflow_mins(new), strict=True):
            assert item.encoded is not None
            home, compared = item.places[0], None
            if mode is StoreMode.COMPARE:
                compared = frozenset(key for name, key in item.compared if name == home)
            store = Store(item.signature, item.encoded, mode is StoreMode.FORCE_NEW, compared, overflow_min)
            plans.setdefault(home, []).append((item, store))
        self._commit(plans)

    # -- duplicates ---------------------------------------------------------------------------------------------

    def _claim(self, items: list[_Item], plans: dict[str, list[tuple[_Item, Operation]]]) -> list[_Item]:
        """Plans claims to remote home volumes, without a probe; returns the other contents.

        Contents that the filter says are new there will be sent. A claim that misses needs another round.
        """
        if self._options.mode is not StoreMode.REGULAR or self._announce is not None:
            return items
        store, left = self._store, []
        for item in items:
            home = item.places[0]
            is_claimed = item.claimed == home or not store.is_shared(home)
            item.claimed = home
            if is_claimed or store.is_new(item.signature, home):
                left.append(item)
            else:
                plans.setdefault(home, []).append((item, Claim(item.signature, len(item.content))))
        return left

    def _find(self, items: list[_Item]) -> list[tuple[_Item, BlockLocation | None]]:
        """Finds the block of each content: in its home volume, or in one that the filter names.

        Contents whose home volume has failed go to the next round.
        """
        if self._options.mode is StoreMode.FORCE_NEW:
            return [(item, None) for item in items]
        store, known = self._store, self._known
        wanted: dict[str, dict[bytes, None]] = {}
        for item in items:
            home = item.places[0]
            if store.is_shared(home) and item.claimed == home and home not in store.may_hold(item.signature):
                known.setdefault(home, {})[item.signature] = ()
            else:
                wanted.setdefault(home, {})[item.signature] = None
        failed = self._probe(wanted)
        if failed:
            items, all_items = [item for item in items if item.places[0] not in failed], items
            self._fail_homes(failed, all_items)
        found: list[tuple[_Item, BlockLocation | None]] = []
        elsewhere: dict[int, list[str]] = {}  # other volumes that may hold a content, by its index in `found`
        wanted = {}
        for item in items:
            home = item.places[0]
            duplicate = self._duplicate(item, [home])
            if duplicate is None and self._options.volume is None:
                others = store.others(item.signature, home)
                if names := [name for name in others if name not in item.failed and store.is_up(name)]:
                    elsewhere[len(found)] = names
                    for name in names:
                        wanted.setdefault(name, {})[item.signature] = None
            found.append((item, duplicate))
        self._probe(wanted)
        for index, names in elsewhere.items():
            item = found[index][0]
            found[index] = item, self._duplicate(item, names)
        return found

    def _probe(self, wanted: Mapping[str, dict[bytes, None]]) -> dict[str, HoldfastError]:
        """Probes each volume for signatures not probed before in this round; returns the volumes that failed."""
        asked = {
            name: [signature for signature in signatures if signature not in self._known.get(name, ())]
            for name, signatures in wanted.items()
        }
        names = [name for name, signatures in asked.items() if signatures]
        responses = self._store.each(names, lambda name: self._store.volume(name).probe(asked[name]))
        for name, facts in responses.results.items():
            self._known.setdefault(name, {}).update(zip(asked[name], facts, strict=True))
        return responses.failed

    def _duplicate(self, item: _Item, names: list[str]) -> BlockLocation | None:
        """A block in one of the volumes that holds the content and can be counted."""
        for name in names:
            found = self._known.get(name, {}).get(item.signature, ())
            for facts in sorted(found, key=_is_sound) if len(found) > 1 else found:
                if facts.replica or facts.size != len(item.content) or (name, facts.key) in item.compared:
                    continue
                volume = self._store.volume(name)
                same = facts if self._options.mode is StoreMode.REGULAR else self._compared(item, volume, facts)
                if same is not None and (counted := self._counted(BlockLocation(volume, same))) is not None:
                    return counted
        return None

    def _compared(self, item: _Item, volume: ReadableVolume, facts: BlockFacts) -> BlockFacts | None:
        """The block, if it holds exactly this content; otherwise it is not compared again.

        An unreadable block counts as equal if signatures do not collide: it is then damaged, as the facts say.
        """
        try:
            (block,) = volume.fetch([facts.key])
            if block is not None and self._store.decoded(block, volume) == self._store.encodings.plain(item.content):
                return facts._replace(damaged=False)
        except FAILURES:
            return None
        except Damaged:
            is_alias = not facts.stored and facts.size  # its target is damaged, and is checked by itself
            if self._store.signature.collision_free and not is_alias:
                return facts._replace(damaged=True)
        item.compared.add((volume.name, facts.key))
        return None

    def _counted(self, found: BlockLocation) -> BlockLocation | None:
        """The block to count: for the copy of a migration its original, or the copy itself if that is gone."""
        if not found.facts.moving:
            return found
        key = self._store.content_key(found.volume, found.facts.key)
        held = self._store.find(key)
        if self._store.finish_move(held):
            held = self._store.find(key)
        return held.counted[0] if held.counted else None  # None: its volume is down

    def _reference(self, item: _Item, duplicate: BlockLocation) -> Refer | Heal | None:
        """One more reference to the duplicate. None if its volume just failed: the content needs another round."""
        if not duplicate.facts.damaged:
            return Refer(duplicate.facts.key)
        codec = AUTO if self._codec == ZSTD_DICT else self._codec
        try:
            encoded = self._store.encodings.encode(item.content, codec, item.content_type, duplicate.volume)
        except FAILURES as error:
            self._fail(duplicate.volume.name, error, [item])
            self._again.append(item)
            return None
        return Heal(duplicate.facts.key, encoded)

    # -- new contents -------------------------------------------------------------------------------------------

    def _encode(self, items: list[_Item]) -> list[_Item]:
        """Encodes new contents, equal ones once; returns those that have a volume to go to."""
        encodings, volume = self._store.encodings, self._store.volume
        if self._codec in (AUTO, ZSTD_DICT):  # each home volume is asked for its dictionary
            homes = list({item.places[0]: None for item in items})
            failed = self._store.each(homes, lambda name: encodings.newest(volume(name))).failed
            if failed:
                left = [item for item in items if item.places[0] not in failed]
                self._fail_homes(failed, items)
                items = left
        distinct: dict[object, _Item] = {}
        same: list[tuple[_Item, _Item]] = []
        for item in items:
            if item.encoded is None:
                key: object = item.signature, len(item.content), item.places[0]
                if self._options.mode is not StoreMode.REGULAR:  # equal signatures need not mean equal contents
                    key = id(item)
                if (first := distinct.setdefault(key, item)) is not item:
                    same.append((item, first))

        def encode(item: _Item) -> None:
            item.encoded = encodings.encode(item.content, self._codec, item.content_type, volume(item.places[0]))

        for item in distinct.values():
            if isinstance(item.content, EncodedContent):
                encode(item)
        self._threads.map(encode, [item for item in distinct.values() if item.encoded is None])
        for item, first in same:
            item.encoded = first.encoded
        return items

    def _overflow_mins(self, items: Sequence[_Item]) -> list[int]:
        """The least overflow of each new block: above that of all contents of its home that moved to other volumes.

        While a volume is down, its overflows are unknown: then a random number that nobody is likely to have.
        """
        store, known = self._store, self._known
        wanted: dict[str, dict[bytes, None]] = {}
        others = [store.others(item.signature, item.places[0]) for item in items]
        for item, names in zip(items, others, strict=True):
            for name in names:
                wanted.setdefault(name, {})[item.signature] = None
        self._probe(wanted)
        is_incomplete = store.is_incomplete
        if not wanted and not is_incomplete:
            return [0] * len(items)
        mins = []
        for item, names in zip(items, others, strict=True):
            home = item.places[0].encode()
            found = [facts for name in names for facts in known.get(name, {}).get(item.signature, ())]
            number = 1 + max([-1, *(facts.key.overflow for facts in found if facts.key.home == home)])
            if is_incomplete or any(item.signature not in known.get(name, {}) for name in names):
                some = int.from_bytes(store.env.random_bytes(4), "big") % (OVERFLOW_MAX // 2) + OVERFLOW_MAX // 4
                number = max(number, some)
            mins.append(number)
        return mins

    # -- committing ---------------------------------------------------------------------------------------------

    def _commit(self, plans: dict[str, list[tuple[_Item, Operation]]]) -> None:
        store = self._store
        refused: list[HoldfastError] = []

        def commit(name: str) -> list[OperationResult]:
            try:
                return store.writer(name).commit([operation for _, operation in plans[name]])
            except (*FAILURES, UnknownName):
                raise
            except HoldfastError as error:  # raised later: commits of other volumes must be rolled back
                refused.append(error)
                return []

        responses = store.each(list(plans), commit)
        for name, outcomes in responses.results.items():
            volume = store.volume(name)
            moving, held = [], []
            store.report_healed(name, outcomes)
            for (item, operation), outcome in zip(plans[name], outcomes, strict=not refused):
                if outcome.references < MOVING and outcome.effect not in _REPEATED:
                    item.counted = name, outcome.key
                    item.stored = _stored(store, volume, item.content, outcome)
                    held.append(outcome)
                    continue
                if outcome.references >= MOVING:  # a migration is just bringing this block home
                    moving.append(outcome.key)
                self._again.append(item)
                item.tries += not isinstance(operation, Claim)
                if item.tries > _TRIES_MAX:
                    item.give_up(name, VolumeDown(f"volume {name!r} has a block that keeps changing"))
            _note(store, name, held)
            uncount(store, name, moving)
        if refused:
            raise refused[0]
        for name, error in responses.failed.items():
            counting = [item for item, operation in plans[name] if isinstance(operation, Refer | Claim)]
            failing = [item for item, operation in plans[name] if not isinstance(operation, Refer | Claim)]
            if not isinstance(error, VolumeFull) or not failing:  # else references alone may fit
                failing += counting
            self._fail(name, error, failing)
            for item, operation in plans[name]:
                if isinstance(operation, Claim):  # it was not committed
                    item.claimed = ""
                self._again.append(item)

    def _fail_homes(self, failed: Mapping[str, HoldfastError], items: Sequence[_Item]) -> None:
        """Moves the contents of failed home volumes to the next round."""
        for name, error in failed.items():
            theirs = [item for item in items if item.places[0] == name]
            self._fail(name, error, theirs)
            self._again += theirs

    def _fail(self, name: str, error: HoldfastError, items: Sequence[_Item]) -> None:
        """Sends the contents of a failed or full volume elsewhere, unless the caller asked for this volume."""
        if self._options.volume == name:
            raise error
        self._store.back_off(name, error)
        for item in items:
            item.give_up(name, error)


def _stored(
    store: BlockStore, volume: ReadableVolume, content: Buffer | EncodedContent, outcome: OperationResult
) -> Stored:
    """The result of a put."""
    effect, key, references, stored_bytes = outcome
    return Stored(store.content_key(volume, key), effect is not Effect.NEW, len(content), stored_bytes, references)


def _note(store: BlockStore, name: str, outcomes: Sequence[OperationResult]) -> None:
    """The filter has the signatures before the put returns, also those that another client stored."""
    is_shared = store.is_shared(name)
    new = [outcome.key.signature for outcome in outcomes if is_shared or outcome.effect is Effect.NEW]
    if new:
        store.note(new, name)


def uncount(store: BlockStore, name: str, keys: Sequence[BlockKey]) -> None:
    """Removes one reference from each block. On failure there is one too many, which loses nothing."""
    if not keys:
        return
    try:
        volume = store.writer(name)
        for key, outcome in zip(keys, volume.commit([Release(key) for key in keys]), strict=True):
            if outcome.effect is Effect.REMOVED:  # others have deleted it meanwhile, or it was new
                store.note_bereft([store.content_key(volume, key)])
            if outcome.references == MOVING:  # only this reference kept a copy that its mover abandoned
                volume.commit([Recount(key, 0, MOVING, replica=False)])
    except HoldfastError as error:
        log.warning("contents of volume %r may have a reference too many: %s", name, error)


def _is_sound(facts: BlockFacts) -> bool:
    """Sorts damaged blocks first: they need the content."""
    return not facts.damaged


class Storer:
    """Stores contents and heals damaged blocks. Thread-safe."""

    def __init__(self, store: BlockStore, replicator: Replicator) -> None:
        self._store = store
        self._replicator = replicator
        self._threads = ThreadMap()

    def sign(self, contents: Sequence[Buffer]) -> list[bytes]:
        return self._threads.map(self._store.signature.digest, contents)

    def store_one(self, content: Buffer, options: StoreOptions) -> Stored:
        """As `store`, for one content: one probe and one commit if its home volume is the only candidate."""
        replicas = self._check([content], options)
        store = self._store
        signature = store.signature.digest(content)
        with store.move_lock:
            if options.mode is StoreMode.REGULAR and options.volume is None and replicas == 1:
                home, *others = store.places(signature)
                try:
                    stored = self._store_at_home(content, signature, home, options)
                except FAILURES as error:  # another volume may take it
                    store.back_off(home, error)
                    if not others:
                        raise
                    stored = None
                if stored is not None:
                    return stored
            return self._store_batch([content], options, StoreHints([signature]), replicas)[0]

    def _store_at_home(self, content: Buffer, signature: bytes, home: str, options: StoreOptions) -> Stored | None:
        """Stores the content if only its home volume can hold it: a lookup, and one commit of a reference or a block.

        A remote volume is not probed but gets a claim, unless the filter says that the content is new: one round trip
        if the filter is right, two if it is wrong or not loaded yet. None, with nothing changed: use `_store_batch`.
        """
        store = self._store
        if store.is_incomplete or store.others(signature, home):
            return None
        volume, size = store.writer(home), len(content)
        outcome: OperationResult | None = None
        if store.is_shared(home):
            if not store.is_new(signature, home):
                (outcome,) = volume.commit([Claim(signature, size)])
        else:
            same = [facts for facts in volume.probe([signature])[0] if facts.size == size and not facts.replica]
            if any(facts.damaged or facts.moving for facts in same):
                return None
            if same:
                (outcome,) = volume.commit([Refer(same[0].key)])
        if outcome is None or outcome.effect is Effect.MISSING:
            codec = options.codec or store.settings.store.codec
            encoded = store.encodings.encode(content, codec, options.content_type, volume)
            (outcome,) = volume.commit([Store(signature, encoded)])
            _note(store, home, [outcome])  # a counted duplicate is in the filter, or will be when it is loaded
            if outcome.effect is Effect.HEALED:
                store.report_healed(home, [outcome])
        if outcome.references >= MOVING:  # a migration is just bringing this block home
            uncount(store, home, [outcome.key])
            return None
        return _stored(store, volume, content, outcome)

    def store(self, contents: Sequence[Buffer], options: StoreOptions, hints: StoreHints = _NO_HINTS) -> list[Stored]:
        """Durable on return. Bad options and oversized contents raise before anything changes."""
        if not hints.signatures:
            hints = replace(hints, signatures=self.sign(contents))
        return self.store_signed(contents, options, hints)

    def store_signed(
        self, contents: Sequence[Buffer | EncodedContent], options: StoreOptions, hints: StoreHints
    ) -> list[Stored]:
        """As `store`, for contents with signatures, some of them encoded already."""
        replicas = self._check(contents, options)
        with self._store.move_lock:
            return self._store_batch(contents, options, hints, replicas)

    def _store_batch(
        self, contents: Sequence[Buffer | EncodedContent], options: StoreOptions, hints: StoreHints, replicas: int
    ) -> list[Stored]:
        if contents and options.mode is StoreMode.REGULAR and options.volume is None and hints.announce is None:
            at_home = self._store_all_at_home(contents, options, hints)
            if at_home is not None:
                return at_home
        return self._store_anywhere(contents, options, hints, replicas)

    def _store_all_at_home(
        self, contents: Sequence[Buffer | EncodedContent], options: StoreOptions, hints: StoreHints
    ) -> list[Stored] | None:
        """Stores contents of which there is certainly nothing elsewhere: one look-up and one commit for all of them.

        None, with nothing changed: use `_store_anywhere`. It also stores what the commit leaves open.
        """
        store, signatures = self._store, hints.signatures
        places = store.places(signatures[0])
        if len(store.volumes) > 1 or len(places) > 1 or store.is_incomplete:
            return None
        home, moving = places[0], []
        volume, is_shared = store.writer(home), store.is_shared(home)
        try:
            operations = self._operations(contents, options, hints, volume, is_shared=is_shared)
            if operations is None:
                return None
            outcomes = volume.commit(operations)
        except FAILURES:
            return None
        store.report_healed(home, outcomes)
        stored: list[Stored] = []
        left: list[_Item] = []
        for index, (content, outcome) in enumerate(zip(contents, outcomes, strict=True)):
            stored.append(_stored(store, volume, content, outcome))
            if outcome.references >= MOVING:  # a migration is just bringing this block home
                moving.append(outcome.key)
            elif outcome.effect not in _REPEATED:
                continue
            kind = hints.content_types[index] if hints.content_types else options.content_type
            claimed = home if isinstance(operations[index], Claim) else ""
            left.append(_Item(content, signatures[index], [home], kind, claimed=claimed, index=index))
        gone = {item.index for item in left}
        counted = [outcome for index, outcome in enumerate(outcomes) if index not in gone] if gone else outcomes
        _note(store, home, counted)
        uncount(store, home, moving)
        if left:
            try:
                again = _Batch(store, self._threads, left, options, None).run()
            except HoldfastError:
                uncount(store, home, [outcome.key for outcome in counted])
                raise
            for item, each in zip(left, again, strict=True):
                stored[item.index] = each
        return stored

    def _operations(
        self,
        contents: Sequence[Buffer | EncodedContent],
        options: StoreOptions,
        hints: StoreHints,
        volume: Volume,
        *,
        is_shared: bool,
    ) -> list[Operation] | None:
        """What stores each content in its volume. None if a block is damaged, or moves, or there are several."""
        store, signatures = self._store, hints.signatures
        operations: list[Operation | None] = []
        if is_shared:
            for content, signature, is_new in zip(
                contents, signatures, store.are_new(signatures, volume.name), strict=True
            ):
                operations.append(None if is_new else Claim(signature, len(content)))
        else:
            for content, blocks in zip(contents, volume.probe(signatures), strict=True):
                size = len(content)
                same = [facts for facts in blocks if facts.size == size and not facts.replica]
                if same and (len(same) > 1 or same[0].damaged or same[0].moving):
                    return None
                operations.append(Refer(same[0].key) if same else None)
        codec = options.codec or store.settings.store.codec
        encode = store.encodings.encode
        if codec in (AUTO, ZSTD_DICT):
            store.encodings.newest(volume)  # before threads ask for it
        first: dict[tuple[bytes, int], int] = {}  # of equal contents
        new = [index for index, operation in enumerate(operations) if operation is None]
        for index in new:
            first.setdefault((signatures[index], len(contents[index])), index)

        def encoded(index: int) -> Encoded:
            kind = hints.content_types[index] if hints.content_types else options.content_type
            return encode(contents[index], codec, kind, volume)

        distinct = [*first.values()]
        plain = [index for index in distinct if not isinstance(contents[index], EncodedContent)]
        known = dict(zip(plain, self._threads.map(encoded, plain), strict=True))
        for index in distinct:
            if index not in known:
                known[index] = encoded(index)
        for index in new:
            signature = signatures[index]
            operations[index] = Store(signature, known[first[signature, len(contents[index])]])
        return cast("list[Operation]", operations)

    def _store_anywhere(
        self, contents: Sequence[Buffer | EncodedContent], options: StoreOptions, hints: StoreHints, replicas: int
    ) -> list[Stored]:
        store, chosen = self._store, options.volume
        types: Sequence[str | None] = hints.content_types or [options.content_type] * len(contents)
        items = []
        for content, signature, content_type in zip(contents, hints.signatures, types, strict=True):
            places = store.places(signature)
            if chosen is not None:
                places = [chosen, *(name for name in places if name != chosen)]
            items.append(_Item(content, signature, places, content_type))
        stored = _Batch(store, self._threads, items, options, hints.announce).run()
        if len(store.volumes) > 1:
            self._replicate(items, stored, replicas)
        return stored

    def _replicate(self, items: list[_Item], stored: list[Stored], replicas: int) -> None:
        """Copies new contents as they are encoded; finds and updates the replicas of the others."""
        fresh: dict[ContentKey, NewBlock] = {}
        references: dict[ContentKey, int] = {}
        for item, each in zip(items, stored, strict=True):
            references[each.key] = max(references.get(each.key, 0), each.references)
            if not each.duplicate and item.encoded is not None:
                fresh[each.key] = NewBlock(each.key, item.encoded, 0, item.places)
        known = {
            each.key: item.places
            for item, each in zip(items, stored, strict=True)
            if each.key not in fresh
            and (replicas > 1 or self._replicator.may_have(each.key.signature, each.key.volume))
        }
        if replicas > 1:
            blocks = [block._replace(references=references[key]) for key, block in fresh.items()]
            self._replicator.spread(blocks, replicas)
        self._replicator.follow(known, replicas, known)

    def _check(self, contents: Sequence[Buffer | EncodedContent], options: StoreOptions) -> int:
        """The number of replicas wanted. Raises UsageError, UnknownName, VolumeReadOnly or TooLarge."""
        settings = self._store.settings.store
        limit = settings.content_bytes_max
        if (size := max(map(len, contents), default=0)) > limit:
            raise TooLarge(f"a content of {size} bytes is over the limit of {limit} (store.content_bytes_max)")
        if options.codec not in (None, AUTO, ZSTD_DICT):
            find_codec(options.codec)
        if options.volume is not None:
            self._store.chosen(options.volume)
        replicas = settings.replicas if options.replicas is None else options.replicas
        if replicas < 1:
            raise UsageError(f"bad number of replicas {replicas}: at least 1")
        if replicas > 1 and replicas > (available := self._store.writable_count):
            raise UsageError(f"{replicas} replicas need {replicas} writable volumes, there are {available}")
        return replicas

    # -- healing ------------------------------------------------------------------------------------------------

    def heal(self, contents: Sequence[Buffer | EncodedContent], signatures: Sequence[bytes]) -> None:
        """Heals damaged blocks of these contents in all volumes, without counting a reference.

        Local volumes are probed only if they know of damage.
        """
        store = self._store
        asked = [
            name
            for name, volume in store.volumes.items()
            if store.is_up(name) and isinstance(volume, DamageNoting) and volume.may_be_damaged()
        ]
        if not asked or not contents:
            return
        with store.move_lock:
            found = store.each(asked, lambda name: store.volume(name).probe(signatures))
            for name, facts in found.results.items():
                damaged = [
                    (block.key, content)
                    for content, blocks in zip(contents, facts, strict=True)
                    for block in blocks
                    if block.damaged and block.size == len(content) and not block.moving
                ]
                try:
                    volume = store.writer(name)
                    operations = [
                        Heal(key, store.encodings.encode(content, AUTO, None, volume), references=0)
                        for key, content in damaged
                    ]
                    store.report_healed(name, volume.commit(operations) if operations else [])
                except HoldfastError as error:  # the caller already has what it wanted
                    store.warn(f"healing {name}", f"damaged blocks of volume {name!r} cannot be healed: {error}")

    def close(self) -> None:
        self._threads.close()
