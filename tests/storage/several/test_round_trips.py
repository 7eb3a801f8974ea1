"""What a store costs in calls to volumes, what a changed connector changes, and how the filter hears of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from several_world import Client, Far, World

import holdfast
from holdfast import ContentKey, Plan, StoreOptions, VolumeSettings, VolumeState
from holdfast.env import WriterLock, paths
from holdfast.errors import Busy, ContentNotFound, UnknownName
from holdfast.storage.maintenance.migrate import Rebalancer
from holdfast.storage.maintenance.move import Mover
from holdfast.storage.store.store import BlockStore, OpenedVolume
from holdfast.storage.volume import BlockKey

MakeWorld = Callable[..., World]
PAGES = [b"<p>page %d</p>" % number * 20 for number in range(40)]


def calls(client: Client) -> Counter[str]:
    """How often each volume was asked what, but for the one question of each for its newest dictionary."""
    return Counter(call for call in client.calls() if not call.endswith("dictionary"))


def _each(world: World, *wanted: str) -> Counter[str]:
    return Counter(f"{name} {call}" for name in world.volumes for call in wanted)


# -- round trips -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("volumes", [1, 4, 16])
def test_new_contents_cost_one_probe_and_one_commit_of_each_home(make_world: MakeWorld, volumes: int) -> None:
    world = make_world(volumes)
    client = world.client()
    client.contents.store_batch(PAGES)
    client.calls()
    stored = client.contents.store_batch([page + b"!" for page in PAGES])
    homes = {each.key.volume for each in stored}
    assert calls(client) == Counter([f"{name} {call}" for name in homes for call in ("probe", "commit")])


def test_copies_of_new_contents_cost_one_commit_of_each_target(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=2)
    client = world.client()
    client.contents.store_batch(PAGES)
    client.calls()
    client.contents.store_batch([page + b"!" for page in PAGES])
    assert calls(client) == Counter(
        [f"{name} {call}" for name in world.volumes for call in ("probe", "commit", "commit")]
    )


def test_a_duplicate_costs_a_probe_and_a_commit(make_world: MakeWorld) -> None:
    world = make_world(8)
    client = world.client()
    key = client.contents.put(PAGES[0])
    client.calls()
    assert client.contents.put(PAGES[0]) == key
    assert client.calls() == [f"{key.volume} probe", f"{key.volume} commit"]
    assert client.contents.delete(key) == 1
    assert client.calls() == [f"{key.volume} commit"]


def test_many_contents_are_deleted_and_read_with_few_calls(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=2)
    client = world.client()
    keys = [each.key for each in client.contents.store_batch(PAGES)]
    client.calls()
    assert client.contents.get_batch(keys) == PAGES
    assert calls(client) == _each(world, "fetch")
    client.contents.delete_batch(keys)
    assert calls(client) == Counter(
        [f"{name} {call}" for name in world.volumes for call in ("probe", "commit", "commit")]
    )
    assert [world.copies(key) for key in keys] == [{}] * len(keys)


@pytest.mark.parametrize("volumes", [1, 3])
def test_contents_without_copies_are_deleted_with_a_probe_and_a_commit(make_world: MakeWorld, volumes: int) -> None:
    world = make_world(volumes)
    client = world.client()
    keys = [each.key for each in client.contents.store_batch([*PAGES, *PAGES, PAGES[0]])]
    with pytest.raises(ContentNotFound):  # one reference too many: nothing is removed
        client.contents.delete_batch([*keys, keys[0]])
    with pytest.raises(ContentNotFound):
        client.contents.delete_batch([*keys, replace(keys[0], overflow=7)])
    client.calls()
    left = client.contents.delete_batch(keys)
    assert left == [2, *[1] * (len(PAGES) - 1), 1, *[0] * (len(PAGES) - 1), 0]
    used = {key.volume for key in keys}
    assert calls(client) == Counter([f"{name} {call}" for name in used for call in ("probe", "commit")])
    assert [world.copies(key) for key in keys] == [{}] * len(keys)


def test_a_volume_that_is_down_costs_a_batch_few_calls(make_world: MakeWorld) -> None:
    world = make_world(3, replicas=2)
    client = world.client(Far)
    keys = [each.key for each in client.contents.store_batch(PAGES)]
    client.calls()
    with world.without("v0"):
        assert client.contents.get_batch(keys) == PAGES
    assert sum(calls(client).values()) <= 6


def test_remote_volumes_are_asked_side_by_side(make_world: MakeWorld) -> None:
    world = make_world(4, replicas=2)
    client = world.client(Far)
    keys = [each.key for each in client.contents.store_batch(PAGES)]
    assert client.contents.store_batch(PAGES)[0].references == 2
    assert client.contents.get_batch(keys) == PAGES
    client.contents.delete_batch(keys)
    assert {tuple(world.counters(key)) for key in keys} == {(1, 1)}


# -- the filter --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tells", [True, False])
def test_what_others_store_is_heard_of(make_world: MakeWorld, tells: bool) -> None:
    world = make_world(3)
    world.tells = tells
    first, second = world.client(), world.client()
    second.contents.put(b"so that it has a filter")
    for page in PAGES[:10]:
        home = first.instance.places(first.instance.signature.digest(page))[0]
        other = next(name for name in world.volumes if name != home)
        key = first.contents.put(page, StoreOptions(volume=other))
        stored = second.contents.store(page)
        assert (stored.duplicate, stored.key) == (True, key)


def test_only_what_is_new_is_asked_for(make_world: MakeWorld) -> None:
    world = make_world(3)
    first, second = world.client(), world.client()
    second.contents.store_batch(PAGES)
    for shared in second.volumes.values():
        shared.calls.clear()
    first.contents.store_batch([page + b"!" for page in PAGES])
    second.contents.store_batch([page + b"?" for page in PAGES])
    told = [call for shared in second.volumes.values() for call in shared.calls]
    assert "news" in told
    assert "signatures" not in told


def test_a_volume_that_is_down_at_first_may_hold_anything(make_world: MakeWorld) -> None:
    world = make_world(2)
    first = world.client()
    key = first.contents.put(PAGES[0])
    move_to = next(name for name in world.volumes if name != key.volume)
    Mover(first.instance, key.volume).move([BlockKey(key.signature)], lambda block, held: move_to)
    second = world.client()
    with world.without(move_to):
        second.contents.put(PAGES[1])
    assert second.contents.get(key) == PAGES[0]


def test_a_saved_filter_is_caught_up_with(make_world: MakeWorld) -> None:
    world = make_world(3)
    first, second = world.client(), world.client()
    second.contents.store_batch(PAGES)
    second.close()
    world.clients.remove(second)
    key = first.contents.put(b"meanwhile", StoreOptions(volume="v2"))
    third = world.client()
    assert third.contents.put(b"meanwhile") == key
    assert not any("signatures" in call for call in third.calls())


# -- the connector -----------------------------------------------------------------------------------------------------


def test_volumes_come_and_go_while_the_instance_is_open(make_world: MakeWorld) -> None:
    world = make_world(2)
    client = world.client()
    keys = [each.key for each in client.contents.store_batch(PAGES)]
    world.add("v2")
    client.volumes["v2"] = type(client.volumes["v0"])(world, "v2")
    client.instance.apply(world.settings)
    more = client.contents.store_batch([page + b"!" for page in PAGES])
    assert {each.key.volume for each in more} == {"v0", "v1", "v2"}
    closed = replace(world.settings.volume[0], state=VolumeState.READ_ONLY)
    client.instance.apply(replace(world.settings, volume=(closed, *world.settings.volume[1:])))
    assert {each.key.volume for each in client.contents.store_batch([page + b"?" for page in PAGES])} == {"v1", "v2"}
    client.instance.apply(replace(world.settings, volume=world.settings.volume[:2]))
    assert client.contents.get_batch(keys) == PAGES
    with pytest.raises(UnknownName):
        client.contents.get(ContentKey("v2", b"\0" * 32))


def test_a_volume_that_is_elsewhere_now_is_opened_there(make_world: MakeWorld) -> None:
    world = make_world(2)
    client = world.client()
    before = client.instance.volumes["v1"]
    client.volumes["v1"] = type(client.volumes["v0"])(world, "v1")
    moved = replace(world.settings.volume[1], address="elsewhere:9000")
    client.instance.apply(replace(world.settings, volume=(world.settings.volume[0], moved)))
    assert client.instance.volumes["v1"] is not before
    assert client.instance.volumes["v1"] is client.volumes["v1"]


def test_a_remote_volume_that_was_down_at_first_is_opened_later(make_world: MakeWorld, tmp_path: Path) -> None:
    world = make_world(2)
    client = world.client()
    away = replace(world.settings.volume[1], address="v1.example:9000")
    settings = replace(world.settings, volume=(world.settings.volume[0], away))
    missing = ["v1"]

    def open_volume(settings: VolumeSettings) -> OpenedVolume:
        if settings.name in missing:
            raise ContentNotFound("not there yet")
        return OpenedVolume(client.volumes[settings.name])

    instance = BlockStore(tmp_path, settings, world.env, writable=True, opener=open_volume)
    assert list(instance.down) == ["v1"]
    missing.clear()
    world.now_s += 1
    assert sorted(instance.places(b"\0" * 32)) == ["v0", "v1"]
    assert instance.down == {}
    instance.close()


def test_a_volume_that_another_process_writes_to_is_down(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive", Plan(2))
    directory = paths.volume_directory(tmp_path / "archive", "v1")
    lock = WriterLock(directory / paths.LOCK, "a volume server")
    with holdfast.open(tmp_path / "archive") as archive:
        assert isinstance(archive.instance.down["v1"], Busy)
        assert "volume" in str(archive.instance.down["v1"])
        key = archive.contents.put(PAGES[0])
        assert key.volume == "v0"
    lock.release()
    with holdfast.open(tmp_path / "archive") as archive:
        assert archive.instance.down == {}
        with pytest.raises(Busy):
            WriterLock(directory / paths.LOCK, "a volume server")


# -- rebalancing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 2])
def test_only_what_the_new_volume_wins_moves(make_world: MakeWorld, replicas: int) -> None:
    world = make_world(3, replicas=replicas)
    keys = [each.key for each in world.client().contents.store_batch(PAGES)]
    before = {key: world.copies(key) for key in keys}
    world.add("v3")
    client = world.client()
    done = Rebalancer(client.instance).run()
    assert 0 < done.moved < len(keys) * replicas
    for key in keys:
        belongs = client.instance.placement(key.signature, key.volume)
        after = world.copies(key)
        assert next(name for name, (replica, _) in after.items() if not replica) == belongs[0]
        assert set(after) == set(belongs[:replicas])
        if "v3" not in belongs[:replicas]:
            assert after.keys() == before[key].keys()
    assert client.contents.get_batch(keys) == PAGES
    assert Rebalancer(client.instance).run().moved == 0
    report = world.check()
    assert (report.faults, report.notes) == ([], [])
