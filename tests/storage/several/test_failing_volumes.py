"""Volumes that fail while they are in use, are full, or refuse: stores go elsewhere, reads go to replicas (W14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from several_world import Far, Shared, World

from holdfast import ContentKey, StoreOptions
from holdfast.errors import (
    ContentNotFound,
    HoldfastError,
    TooLarge,
    UsageError,
    VolumeDown,
    VolumeFull,
    VolumeReadOnly,
)
from holdfast.storage.maintenance.move import Mover
from holdfast.storage.maintenance.repair import Restorer
from holdfast.storage.maintenance.train import train
from holdfast.storage.store.store import BlockLocations
from holdfast.storage.volume import Adopt, Block, BlockKey, Recount, Store

MakeWorld = Callable[..., World]
PAGES = [b"<p>page %d</p>" % number * 20 for number in range(24)]


def test_a_store_goes_to_the_next_volume_if_one_fails(make_world: MakeWorld) -> None:
    world = make_world(3)
    contents = world.client().contents
    world.down.add("v1")
    keys = [stored.key for stored in contents.store_batch(PAGES)]
    assert {key.volume for key in keys} == {"v0", "v2"}
    assert contents.get_batch(keys) == PAGES
    world.down.clear()
    world.now_s += 60
    assert {stored.key.volume for stored in contents.store_batch([page + b"!" for page in PAGES])} == {"v0", "v1", "v2"}


def test_a_full_volume_is_left_out_for_a_while(make_world: MakeWorld) -> None:
    world = make_world(2)
    client = world.client()
    world.full.add("v0")
    assert {stored.key.volume for stored in client.contents.store_batch(PAGES[:8])} == {"v1"}
    client.calls()
    client.contents.store_batch(PAGES[8:16])
    assert "v0 commit" not in client.calls(), "it was full a moment ago"
    world.full.clear()
    world.now_s += 60
    assert {stored.key.volume for stored in client.contents.store_batch(PAGES[16:])} == {"v0", "v1"}


def test_duplicates_in_a_full_volume_are_counted(make_world: MakeWorld) -> None:
    world = make_world(2)
    contents = world.client().contents
    keys = [stored.key for stored in contents.store_batch(PAGES)]
    world.full |= {"v0", "v1"}
    assert [stored.key for stored in contents.store_batch(PAGES)] == keys
    assert {tuple(world.counters(key)) for key in keys} == {(2,)}


def test_while_a_volume_is_full_its_contents_are_counted_there(make_world: MakeWorld) -> None:
    """Also in a batch with contents for which it has no room, and while it is left alone for a while."""
    world = make_world(3)
    contents = world.client().contents
    keys = {page: stored.key for page, stored in zip(PAGES, contents.store_batch(PAGES), strict=True)}
    world.full.add("v1")
    new = [b"new %d" % number * 20 for number in range(30)]
    for count in (2, 3, 4):
        stored = contents.store_batch([*PAGES, *new])
        assert [each.key for each in stored[: len(PAGES)]] == list(keys.values())
        assert {each.references for each in stored[: len(PAGES)]} == {count}
        assert {each.references for each in stored[len(PAGES) :]} == {count - 1}
    assert "v1" in {key.volume for key in keys.values()}
    assert "v1" not in {each.key.volume for each in stored[len(PAGES) :]}
    assert {tuple(world.counters(key)) for key in keys.values()} == {(4,)}
    assert sum(volume.stat().blocks for volume in world.volumes.values()) == len(PAGES) + len(new)


def test_a_volume_without_room_for_a_reference(make_world: MakeWorld) -> None:
    """Then the content is stored elsewhere: nothing is lost, and nothing is counted twice."""
    world = make_world(2)
    client = world.client()
    keys = [stored.key for stored in client.contents.store_batch(PAGES)]

    def refuse(call: str, about: Sequence[object]) -> None:
        if call == "commit":
            raise VolumeFull("not a byte is left")

    client.volumes["v0"].happening = refuse
    again = [stored.key for stored in client.contents.store_batch(PAGES)]
    assert {key.volume for key in again} == {"v1"}
    assert [key for key, other in zip(keys, again, strict=True) if key == other] == [
        key for key in keys if key.volume == "v1"
    ]
    assert client.contents.get_batch(again) == PAGES
    assert {tuple(world.counters(key)) for key in keys if key.volume == "v0"} == {(1,)}


@pytest.mark.parametrize("error", [VolumeFull, TooLarge])
@pytest.mark.parametrize("view", [Shared, Far], ids=["one after the other", "side by side"])
def test_a_batch_that_fails_leaves_no_reference(
    make_world: MakeWorld, view: type[Shared], error: type[HoldfastError]
) -> None:
    world = make_world(2)
    client = world.client(view)
    keys = [stored.key for stored in client.contents.store_batch(PAGES[:12])]

    def refuse(call: str, about: Sequence[object]) -> None:
        if call == "commit" and any(isinstance(each, Store) and b"LARGE" in each.encoded.data for each in about):
            raise error("it takes no such content")

    for volume in client.volumes.values():
        volume.happening = refuse
    for _ in range(3):
        with pytest.raises(error):
            client.contents.store_batch([*PAGES, b"LARGE"], StoreOptions(codec="none"))
        world.now_s += 60
    assert [world.counters(key) for key in keys] == [[1]] * 12
    assert sum(volume.stat().blocks for volume in world.volumes.values()) == 12
    assert world.check().faults == []


@pytest.mark.parametrize(
    ("trouble", "error"), [("down", VolumeDown), ("full", VolumeFull), ("refusing", VolumeReadOnly)]
)
def test_if_every_volume_fails_the_last_error_is_raised(
    make_world: MakeWorld, trouble: str, error: type[Exception]
) -> None:
    world = make_world(3)
    contents = world.client().contents
    failing: set[str] = getattr(world, trouble)
    failing |= set(world.volumes)
    with pytest.raises(error):
        contents.put(PAGES[0])


def test_the_volume_that_the_caller_chose_or_none(make_world: MakeWorld) -> None:
    world = make_world(3)
    contents = world.client().contents
    with world.without("v1"), pytest.raises(VolumeDown):
        contents.put(PAGES[0], StoreOptions(volume="v1"))
    world.full.add("v1")
    with pytest.raises(VolumeFull):
        contents.put(PAGES[0], StoreOptions(volume="v1"))
    assert not any(world.copies(ContentKey("v1", b"\0")))


def test_fewer_volumes_up_than_replicas_wanted(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=3)
    client = world.client(Far)
    with world.without("v2"):
        keys = [stored.key for stored in client.contents.store_batch(PAGES)]
        assert {len(world.copies(key)) for key in keys} == {2}
    world.now_s += 60
    Restorer(client.instance).run()
    assert {len(world.copies(key)) for key in keys} == {3}
    with pytest.raises(UsageError, match="4 replicas need 4 writable volumes, there are 3"):
        client.contents.put(PAGES[0], StoreOptions(replicas=4))


@pytest.mark.parametrize("known", [True, False])
def test_reads_go_on_to_replicas(make_world: MakeWorld, known: bool) -> None:
    world = make_world(3, replicas=2)
    world.known = known
    contents = world.client(Far).contents
    keys = [stored.key for stored in contents.store_batch(PAGES)]
    for name in world.volumes:
        with world.without(name):
            assert contents.get_batch(keys) == PAGES
            assert [contents.get(key) for key in keys] == PAGES
            assert [contents.stat(key).references for key in keys] == [1] * len(keys)


def test_what_may_be_in_a_volume_that_is_down_is_not_said_to_be_missing(make_world: MakeWorld) -> None:
    world = make_world(2)
    contents = world.client().contents
    key = contents.put(PAGES[0])
    nothing = ContentKey(key.volume, b"\1" * 32)
    with pytest.raises(ContentNotFound):
        contents.get(nothing)
    with world.without(key.volume):
        for ask in (contents.get, contents.stat, contents.delete):
            with pytest.raises(VolumeDown):
                ask(key)
        with pytest.raises(VolumeDown):
            contents.get(nothing)
    assert contents.get(key) == PAGES[0]


def test_a_delete_needs_the_volume_of_the_block_only(make_world: MakeWorld) -> None:
    world = make_world(2, replicas=2)
    contents = world.client().contents
    key = contents.put(PAGES[0])
    contents.put(PAGES[0])
    (other,) = {"v0", "v1"} - {key.volume}
    with world.without(key.volume), pytest.raises(VolumeDown):
        contents.delete(key)
    assert world.counters(key) == [2, 2]
    with world.without(other):
        assert contents.delete(key) == 1
    Restorer(world.client().instance).run()
    assert world.counters(key) == [1, 1]


def test_a_volume_that_comes_back_empty_is_filled_from_replicas(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=2)
    contents = world.client().contents
    keys = [stored.key for stored in contents.store_batch(PAGES + PAGES[:5])]
    before = {key: world.copies(key) for key in keys}
    world.lose("v1")
    client = world.client()
    done = Restorer(client.instance, ["v1"]).run()
    assert done.restored == sum(key.volume == "v1" for key in set(keys))
    assert {key: sorted(world.copies(key).values()) for key in keys} == {
        key: sorted(copies.values()) for key, copies in before.items()
    }
    assert client.contents.get_batch(keys) == PAGES + PAGES[:5]
    again = Restorer(client.instance).run()
    assert (again.restored, again.aligned) == (0, 0)
    report = world.check()
    assert (report.faults, report.notes) == ([], [])


def test_dictionaries_come_back_too(make_world: MakeWorld) -> None:
    world = make_world(2, replicas=2)
    client = world.client()
    random = Random(0)
    words = [random.randbytes(3).hex().encode() for _ in range(300)]
    pages = [b"<html>%d " % n + b" ".join(random.choices(words, k=300)) for n in range(100)]
    client.contents.store_batch(pages, StoreOptions(volume="v0"))
    number = train(client.instance, "v0").id
    keys = [
        each.key for each in client.contents.store_batch([page + b"." for page in pages], StoreOptions(volume="v0"))
    ]
    world.lose("v0")
    client = world.client()
    Restorer(client.instance).run()
    assert world.volumes["v0"].dictionary(number) is not None
    assert client.contents.get_batch(keys) == [page + b"." for page in pages]
    assert world.check().clean


def test_a_volume_that_takes_nothing_does_not_keep_others_from_being_restored(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=2)
    client = world.client()
    keys = [stored.key for stored in client.contents.store_batch(PAGES)]
    for name in ("v0", "v1"):
        gone = [facts.key for key in keys for facts in world.volumes[name].probe([key.signature])[0]]
        own = [key for key in gone if not key.home]
        world.volumes[name].commit([Recount(key, 0) for key in own])
    world.full.add("v0")
    done = Restorer(client.instance).run()
    assert done.restored == sum(key.volume == "v1" for key in keys)
    assert done.down == ["v0"]
    assert client.contents.get_batch(keys) == PAGES


def test_a_volume_that_dies_while_a_filter_is_made_anew_may_hold_anything(make_world: MakeWorld) -> None:
    world = make_world(2, replicas=2)
    client = world.client()
    client.contents.store_batch(PAGES)
    bloom = client.instance._bloom
    assert bloom._filter is not None
    bloom._filter._counts["v0"] = 1 << 30  # so that it is crowded
    world.down.add("v1")
    client.instance.note([b"\7" * 32], "v1")
    assert "v1" in bloom.may_hold(b"\7" * 32, 60.0)


def test_a_migration_goes_on_to_others_when_one_is_full(make_world: MakeWorld) -> None:
    world = make_world(3)
    client = world.client()
    keys = [client.contents.put(page, StoreOptions(volume="v0")) for page in PAGES]
    world.full.add("v1")
    mover = Mover(client.instance, "v0")

    def elsewhere(block: Block, _: BlockLocations) -> str:
        return next(name for name in client.instance.places(block.key.signature) if name != "v0")

    for moved, key in enumerate(keys, 1):  # each much later than the one before: the full one is offered again
        mover.move([BlockKey(key.signature)], elsewhere)
        assert mover.blocks == moved
        world.now_s += 60
    assert world.volumes["v2"].stat().blocks == len(keys)


def test_a_replica_target_that_fails_is_replaced_by_another(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=2)
    client = world.client()
    places = client.instance.places(client.instance.signature.digest(PAGES[0]))
    client.once(places[1], "commit", lambda: world.down.add(places[1]), Adopt)
    key = client.contents.put(PAGES[0])
    assert set(world.copies(key)) == {places[0], places[2]}
