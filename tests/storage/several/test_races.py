"""Two clients at the same content at once: told step by step, each race that compare-and-set must settle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from several_world import Client, Far, Shared, World

from holdfast import ContentKey, StoreMode, StoreOptions
from holdfast.config import RemoteSettings
from holdfast.errors import ContentNotFound
from holdfast.storage.maintenance.check import DOUBLED
from holdfast.storage.maintenance.merge import Merger
from holdfast.storage.maintenance.migrate import Rebalancer
from holdfast.storage.maintenance.move import Choose, Mover
from holdfast.storage.maintenance.repair import Restorer
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.volume import (
    MOVING,
    Adopt,
    Block,
    BlockKey,
    Effect,
    Encoded,
    OperationResult,
    Recount,
    Refer,
    Release,
    ScanPosition,
    Store,
)

MakeWorld = Callable[..., World]
PAGE = b"<p>the same page</p>" * 20


def move(client: Client, key: ContentKey, source: str, target: str) -> None:
    block = BlockKey(key.signature, key.overflow, b"" if source == key.volume else key.volume.encode())
    Mover(client.instance, source).move([block], lambda block, held: target)


def two(world: World, view: type[Shared] = Shared) -> tuple[Client, Client, ContentKey]:
    """Two clients, and a content in v0 that both know."""
    first, second = world.client(view), world.client(view)
    return first, second, first.contents.put(PAGE, StoreOptions(volume="v0"))


# -- what volumes promise ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_adoptions_and_counts_that_expect_something(make_world: MakeWorld, organization: str) -> None:
    volume = make_world(1, organization).volumes["v0"]
    key, data = BlockKey(b"\7" * 32, 0, b"v9"), Encoded("none", 0, 3, b"abc")

    def perform(*operations: object) -> list[OperationResult]:
        return volume.commit(operations)  # type: ignore[arg-type]

    assert perform(Adopt(key, data, 2, True, expected=1))[0].effect is Effect.CONFLICT
    assert perform(Adopt(key, data, 2, True, expected=0))[0].effect is Effect.NEW
    assert perform(Adopt(key, data, 2, True, expected=0))[0] == OperationResult(Effect.CONFLICT, key, 2, 3)
    assert [each.effect for each in perform(Refer(key), Release(key))] == [Effect.MISSING] * 2, "it is a replica"
    assert perform(Recount(key, 3, 2, replica=False))[0].effect is Effect.MISSING
    assert perform(Recount(key, 3, 2, replica=True))[0].effect is Effect.COUNTED
    assert perform(Adopt(key, data, MOVING + 5, False, expected=3))[0].effect is Effect.NEW
    assert volume.stat().references == 0, "a copy on its way has no references of its own"
    assert perform(Adopt(key, data, 1, False, expected=MOVING + 5))[0].effect is Effect.CONFLICT, "no replica"
    assert perform(Recount(key, 5, MOVING + 5, replica=False))[0].effect is Effect.COUNTED
    assert volume.stat().references == 5
    own = perform(Adopt(BlockKey(b"\7" * 32), data, 1, True), Store(b"\7" * 32, data))[1]
    assert (own.effect, own.key.overflow) == (Effect.NEW, 1), "a replica is no duplicate, wherever it stands"


# -- replicas ----------------------------------------------------------------------------------------------------------


def test_a_reference_that_is_added_while_a_replica_is_made(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=2)
    first, second = world.client(), world.client()
    places = first.instance.places(first.instance.signature.digest(PAGE))
    first.once(places[1], "commit", lambda: second.contents.put(PAGE), Adopt)
    key = first.contents.put(PAGE)
    assert world.counters(key) == [2, 2]


def test_a_delete_while_the_other_counts(make_world: MakeWorld) -> None:
    world = make_world(2, replicas=2)
    first, second, key = two(world)
    for happening, left in ((lambda: second.contents.delete(key), 1), (lambda: second.contents.put(PAGE), 3)):
        first.once("v1", "commit", happening, Recount)
        first.contents.put(PAGE)
        assert world.counters(key) == [left, left]


def test_the_last_reference_that_was_not_the_last(make_world: MakeWorld) -> None:
    world = make_world(2, replicas=2)
    first, second, key = two(world)
    first.once("v0", "commit", lambda: second.contents.put(PAGE), Release)
    assert first.contents.delete(key) == 1
    assert world.counters(key) == [1, 1], "the copy was withdrawn, and is made again"


def test_a_reference_that_has_become_the_last(make_world: MakeWorld) -> None:
    world = make_world(2, replicas=2)
    first, second, key = two(world)
    first.contents.put(PAGE)
    first.once("v0", "commit", lambda: second.contents.delete(key), Release)
    assert first.contents.delete(key) == 0
    assert world.copies(key) == {}, "no replica is left behind"


def test_a_block_deleted_while_it_is_copied(make_world: MakeWorld) -> None:
    world = make_world(3)
    first, second, key = two(world)
    first.once("v0", "fetch", lambda: second.contents.delete(key))
    Replicator(first.instance).follow([key], 2)
    assert world.copies(key) == {}
    with pytest.raises(ContentNotFound):
        first.contents.get(key)


# -- moves -------------------------------------------------------------------------------------------------------------


def test_a_reference_to_the_original_while_it_moves(make_world: MakeWorld) -> None:
    world = make_world(2)
    first, second, key = two(world)
    first.once("v0", "commit", lambda: second.contents.put(PAGE), Recount)
    move(first, key, "v0", "v1")
    assert world.copies(key) == {"v1": (False, 2)}
    assert second.contents.get(key) == PAGE
    assert [second.contents.delete(key), first.contents.delete(key)] == [1, 0]
    assert world.copies(key) == {}


def test_a_store_that_meets_a_copy_on_its_way_home_is_counted_once(make_world: MakeWorld) -> None:
    world = make_world(2)
    first, second, key = two(world, Far)
    move(first, key, "v0", "v1")
    first.once("v1", "commit", lambda: second.contents.put(PAGE, StoreOptions(volume="v0")), Recount)
    move(first, key, "v1", "v0")
    assert world.copies(key) == {"v0": (False, 2)}
    assert [second.contents.delete(key), first.contents.delete(key)] == [1, 0]
    assert world.copies(key) == {}


def test_a_copy_whose_original_goes_while_a_store_counts_it_leaves_nothing(make_world: MakeWorld) -> None:
    """The mover gives the copy up, all but the reference that the store gave it, which then takes that back."""
    world = make_world(2)
    first, second, key = two(world, Far)
    move(first, key, "v0", "v1")
    third = world.client(Far)
    second.once("v0", "commit", lambda: third.contents.delete(key), Release)
    first.once("v1", "commit", lambda: second.contents.put(PAGE, StoreOptions(volume="v0")), Recount)
    move(first, key, "v1", "v0")
    assert world.counters(key) == [1]
    assert second.contents.get(key) == PAGE
    assert second.contents.delete(key) == 0
    assert world.copies(key) == {}


def test_the_original_is_deleted_while_it_moves(make_world: MakeWorld) -> None:
    world = make_world(2)
    first, second, key = two(world)
    first.once("v0", "commit", lambda: second.contents.delete(key), Recount)
    move(first, key, "v0", "v1")
    assert world.copies(key) == {}


def test_a_delete_that_finds_its_block_gone_looks_again(make_world: MakeWorld) -> None:
    world = make_world(2)
    first, second, key = two(world)
    first.contents.put(PAGE)
    second.once("v0", "commit", lambda: move(first, key, "v0", "v1"), Release)
    assert second.contents.delete(key) == 1
    assert world.copies(key) == {"v1": (False, 1)}


def test_a_store_that_finds_its_duplicate_gone_looks_again(make_world: MakeWorld) -> None:
    world = make_world(2)
    first, second, key = two(world)
    second.once("v0", "commit", lambda: move(first, key, "v0", "v1"), Refer)
    stored = second.contents.store(PAGE, StoreOptions(StoreMode.COMPARE))
    assert stored.duplicate
    assert stored.key == key
    assert world.copies(key) == {"v1": (False, 2)}


@pytest.mark.parametrize("other", ["v1", "v2"])
def test_two_movers_of_the_same_block(make_world: MakeWorld, other: str) -> None:
    world = make_world(3)
    first, second, key = two(world)
    first.once("v0", "commit", lambda: move(second, key, "v0", other), Recount)
    move(first, key, "v0", "v1")
    assert world.copies(key) == {other: (False, 1)}
    assert first.contents.get(key) == PAGE
    first.once(other, "commit", lambda: move(second, key, other, "v0"), Recount)
    move(first, key, other, "v0")
    assert world.copies(key) == {"v0": (False, 1)}


@pytest.mark.parametrize("stop_at", ["removal", "end"])
def test_a_move_that_is_cut_off_is_settled_by_others(make_world: MakeWorld, stop_at: str) -> None:
    world = make_world(2)
    first, second, key = two(world)
    first.contents.put(PAGE)

    class Cut(Exception):
        pass

    def cut() -> None:
        raise Cut

    first.once(*(("v0", "commit") if stop_at == "removal" else ("v1", "commit")), cut, Recount)
    with pytest.raises(Cut):
        move(first, key, "v0", "v1")
    assert world.copies(key)["v1"] == (False, MOVING + 2)
    assert second.contents.get(key) == PAGE
    assert [key for batch in second.contents.scan() for key, _ in batch] == [key]
    if stop_at == "removal":  # the original is in force, and takes the copy along when it goes
        second.contents.put(PAGE)
        assert world.copies(key) == {"v0": (False, 3), "v1": (False, MOVING + 2)}
        second.contents.delete_batch([key] * 3)
    else:
        assert second.contents.put(PAGE) == key
        assert world.copies(key) == {"v1": (False, 3)}
        second.contents.delete_batch([key] * 3)
    assert world.copies(key) == {}


def test_a_repair_removes_what_a_move_left_behind(make_world: MakeWorld) -> None:
    world = make_world(2)
    first, second, key = two(world)
    first.once("v0", "commit", lambda: (_ for _ in ()).throw(KeyboardInterrupt), Recount)
    with pytest.raises(KeyboardInterrupt):
        move(first, key, "v0", "v1")
    Restorer(second.instance).run()
    assert world.copies(key) == {"v0": (False, 1)}


def test_replicas_stay_where_they_are_when_their_block_moves(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=2)
    first, second, key = two(world)
    (replica,) = world.copies(key).keys() - {"v0"}
    (free,) = {"v1", "v2"} - {replica}
    move(first, key, "v0", free)
    assert world.copies(key) == {free: (False, 1), replica: (True, 1)}
    move(first, key, free, replica)
    assert sorted(world.copies(key).values()) == [(False, 1), (True, 1)], "there is another copy now"
    assert second.contents.delete(key) == 0
    assert world.copies(key) == {}


# -- doubled contents --------------------------------------------------------------------------------------------------


def doubled(world: World) -> tuple[Client, ContentKey, ContentKey]:
    """A content that two clients have stored in two volumes, and the key of each."""
    first, second, key = two(world)
    return first, key, second.contents.put(PAGE, StoreOptions(volume="v1"))


def test_doubled_contents_are_noted(make_world: MakeWorld) -> None:
    world = make_world(2)
    doubled(world)
    report = world.check()
    assert report.faults == []
    assert report.notes == [f"1 {DOUBLED}; 'holdfast check --repair' completes them"]


def test_doubled_contents_become_one_block_and_an_alias(make_world: MakeWorld) -> None:
    world = make_world(2)
    client, kept, other = doubled(world)
    client.contents.put(PAGE, StoreOptions(volume="v0"))
    assert Merger(client.instance).run() == 1
    assert world.copies(kept) == {"v0": (False, 3)}, "the alias is a reference"
    assert world.copies(other) == {"v0": (False, 1)}
    (alias,) = world.volumes["v0"].fetch([BlockKey(other.signature, 0, b"v1")])
    assert alias is not None
    assert alias.encoded == Encoded("alias", 0, len(PAGE), b"")
    assert client.contents.get_batch([kept, other]) == [PAGE, PAGE]
    assert client.contents.stat(other).codec == "alias"
    assert client.contents.delete_batch([other]) == [0]
    assert world.copies(kept) == {"v0": (False, 2)}
    client.contents.delete_batch([kept, kept])
    assert world.copies(kept) == {}
    assert world.check().clean


class Scattered(Far):
    """A volume whose blocks lie far apart: each comes by itself."""

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        for batch in super().scan(counted=counted, after=after):
            yield from ([block] for block in batch)


def test_what_lies_far_apart_is_merged_together(make_world: MakeWorld) -> None:
    """Each time a merge waits until other processes know of the aliases."""
    world = make_world(3)
    first, second = world.client(), world.client()
    pages = [PAGE + b"%d" % number for number in range(30)]
    keys = [first.contents.put(page, StoreOptions(volume="v0")) for page in pages]
    keys += [second.contents.put(page, StoreOptions(volume=f"v{1 + n % 2}")) for n, page in enumerate(pages)]
    world.settings = replace(world.settings, remote=RemoteSettings(follow_s=1.0))
    client = world.client(Scattered)
    before_s = world.now_s
    assert Merger(client.instance).run() == len(pages)
    assert world.now_s - before_s <= 2.0 * len(world.volumes)
    assert client.contents.get_batch(keys) == pages * 2
    client.contents.delete_batch(keys)
    assert all(world.copies(key) == {} for key in keys)
    assert world.check().clean


def test_what_lies_far_apart_is_rebalanced_together(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.maintenance.move.GROUP_BLOCKS", 10)
    world = make_world(2)
    pages = [PAGE + b"%d" % number for number in range(60)]
    keys = world.client().contents.store_batch(pages)
    world.add("v2")
    world.settings = replace(world.settings, remote=RemoteSettings(follow_s=1.0))
    client = world.client(Scattered)
    before_s = world.now_s
    done = Rebalancer(client.instance).run()
    assert (done.blocks, done.down) == (60 + world.volumes["v2"].stat().blocks, [])
    assert done.moved > 5
    assert world.now_s - before_s <= 2.0 * (done.moved // 10 + 2)  # the last group of each volume may be small
    assert client.contents.get_batch([each.key for each in keys]) == pages


def test_the_block_goes_with_the_last_of_both(make_world: MakeWorld) -> None:
    world = make_world(2, replicas=2)
    client, one, other = doubled(world)
    Merger(client.instance).run()
    assert Merger(client.instance).run() == 0
    client.contents.delete(one)
    assert client.contents.get(other) == PAGE
    client.contents.delete(other)
    assert (world.copies(one), world.copies(other)) == ({}, {})
    report = world.check()
    assert (report.faults, report.notes) == ([], [])


def test_an_alias_that_moves_takes_the_content_along(make_world: MakeWorld) -> None:
    world = make_world(3)
    client, one, other = doubled(world)
    Merger(client.instance).run()
    kept, alias = (one, other) if len(world.copies(one)) and world.counters(one) == [2] else (other, one)
    move(client, alias, kept.volume, "v2")
    assert (world.counters(kept), world.copies(alias)) == ([1], {"v2": (False, 1)})
    client.contents.delete(kept)
    assert client.contents.get(alias) == PAGE


def test_a_block_that_moves_is_still_what_its_alias_stands_for(make_world: MakeWorld) -> None:
    world = make_world(3)
    client, one, other = doubled(world)
    Merger(client.instance).run()
    kept, alias = (one, other) if world.counters(one) == [2] else (other, one)
    move(client, kept, kept.volume, "v2")
    assert client.contents.get_batch([kept, alias]) == [PAGE, PAGE]
    client.contents.delete(kept)
    assert client.contents.get(alias) == PAGE
    client.contents.delete(alias)
    assert (world.copies(kept), world.copies(alias)) == ({}, {})


def test_contents_that_only_look_alike_are_not_merged(make_world: MakeWorld) -> None:
    world = make_world(2, signature="weak")
    client = world.client()
    keys = [client.contents.put(page, StoreOptions(volume=name)) for page, name in ((b"ab", "v0"), (b"ba", "v1"))]
    assert keys[0].signature == keys[1].signature
    assert Merger(client.instance).run() == 0
    assert client.contents.get_batch(keys) == [b"ab", b"ba"]


def test_an_alias_may_be_deleted_before_its_merge_is_done(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(2)
    client, kept, other = doubled(world)
    client.contents.put(PAGE, StoreOptions(volume="v0"))
    second, move = world.client(), Mover.move

    def moved(mover: Mover, keys: Sequence[BlockKey], choose: Choose) -> None:
        move(mover, keys, choose)
        second.contents.delete(other)

    monkeypatch.setattr(Mover, "move", moved)
    assert Merger(client.instance).run() == 1
    assert (world.copies(kept), world.copies(other)) == ({"v0": (False, 2)}, {})
    assert second.contents.get(kept) == PAGE


def test_a_delete_while_contents_are_merged(make_world: MakeWorld) -> None:
    world = make_world(2)
    client, one, other = doubled(world)
    second = world.client()
    for name, key in (("v0", one), ("v1", other)):
        client.once(name, "commit", lambda key=key: second.contents.delete(key), Recount)  # type: ignore[misc]
    Merger(client.instance).run()
    for key in (one, other):
        for volume in client.volumes.values():
            volume.happening = None
        if world.copies(key):
            assert second.contents.get(key) == PAGE
            second.contents.delete(key)
    assert (world.copies(one), world.copies(other)) == ({}, {})
