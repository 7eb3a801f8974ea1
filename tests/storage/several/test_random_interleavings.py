"""Clients that come in each other's way at every call to a volume, with volumes that fail: what is stored stays right.

Before each call of one client another may do something whole, and a volume may fail or come back. All of it follows
from a seed. The model knows which references were acknowledged; nothing of it is asked of the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from random import Random
from typing import Any

import pytest
from several_world import Client, Far, Shared, World

from holdfast import ContentKey, StoreOptions
from holdfast.errors import VolumeDown
from holdfast.storage.maintenance.merge import Merger
from holdfast.storage.maintenance.migrate import Rebalancer
from holdfast.storage.maintenance.move import Mover
from holdfast.storage.maintenance.repair import Restorer
from holdfast.storage.volume import Recount

PAGES = [b"<p>page %d of a site</p>" % number * 3 for number in range(12)]
DEPTH_MAX = 3


class _Inline(ThreadPoolExecutor):
    """Runs each call at once, in the thread that submits it."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Interleaving:
    """One run."""

    def __init__(self, world: World, seed: int, *, failures: bool) -> None:
        self.world = world
        self.random = Random(seed)
        self.failures = failures
        self.clients = [world.client(Far if seed % 2 else Shared) for _ in range(3)]
        for client in self.clients:
            client.instance._pool = _Inline()  # one after the other: it is one thread that tells
        self.busy: list[Client] = []
        self.quiet = False
        self.held: Counter[ContentKey] = Counter()  # acknowledged references
        self.pages: dict[ContentKey, bytes] = {}
        self.loose: set[bytes] = set()  # signatures of contents that went while a volume with a copy may have been down
        for client in self.clients:
            for shared in client.volumes.values():
                shared.happening = self._happen

    def _happen(self, call: str, about: Sequence[Any]) -> None:
        if self.failures and self.random.random() < 0.01:
            self.fail()
        if call in ("scan", "fetch"):
            self.quiet = False
        if len(self.busy) < DEPTH_MAX and self.random.random() < 0.06 and not self.quiet:
            self.step()
        if any(isinstance(each, Recount) and not each.references and each.replica is False for each in about):
            self.quiet = (
                True  # others wait a while for the end of a move, and then bring it about: here they cannot wait
            )

    def fail(self) -> None:
        if self.world.down:
            self.world.down.clear()
        else:
            self.world.down.add(self.random.choice(list(self.world.volumes)))
            self.loose |= {key.signature for key in self.held if not self.held[key]}

    def step(self) -> None:
        client = self.random.choice([client for client in self.clients if client not in self.busy])
        self.busy.append(client)
        actions: list[tuple[Callable[[Client], None], int]] = [
            (self.store, 10),
            (self.delete, 9),
            (self.read, 4),
            (self.move, 3),
            (self.rebalance, 1),
            (self.restore, 0 if self.busy[1:] else 2),  # it waits until others have finished what they are at
        ]
        (action,) = self.random.choices([action for action, _ in actions], [weight for _, weight in actions])
        try:
            action(client)
        finally:
            self.busy.pop()
            self.quiet = False
        self.world.now_s += 0.5

    # -- what clients do --------------------------------------------------------------------------------------------

    def store(self, client: Client) -> None:
        pages = [self.random.choice(PAGES) for _ in range(self.random.choice([1, 1, 3]))]
        chosen = self.random.choice([None, None, None, self.random.choice(list(self.world.volumes))])
        try:
            stored = client.contents.store_batch(pages, StoreOptions(volume=chosen))
        except VolumeDown:
            assert self.failures
            self.loose |= {client.instance.signature.digest(page) for page in pages}  # one may be stored, and not told
            return
        for page, each in zip(pages, stored, strict=True):
            self.held[each.key] += 1
            assert self.pages.setdefault(each.key, page) == page

    def delete(self, client: Client) -> None:
        known = [key for key, count in self.held.items() if count]
        if not known:
            return
        key = self.random.choice(known)
        self.held[key] -= 1  # nobody else may take this one
        down = bool(self.world.down)
        try:
            client.contents.delete(key)
        except VolumeDown:
            assert self.failures
            self.held[key] += 1
        if down or self.world.down:
            self.loose.add(key.signature)

    def read(self, client: Client) -> None:
        key = self.random.choice([key for key, count in self.held.items() if count] or [None])
        if key is None:
            return
        self.held[key] -= 1  # nobody else may delete it meanwhile
        try:
            assert client.contents.get(key) == self.pages[key]
        except VolumeDown:
            assert self.failures
        finally:
            self.held[key] += 1

    def move(self, client: Client) -> None:
        source, target = self.random.sample(list(self.world.volumes), 2)
        try:
            for batch in list(client.instance.volume(source).scan()):
                some = [block.key for block in batch if self.random.random() < 0.3]
                Mover(client.instance, source).move(some, lambda block, held: target)
        except VolumeDown:
            self._note_doubled()

    def rebalance(self, client: Client) -> None:
        try:
            Rebalancer(client.instance).run()
        except VolumeDown:
            self._note_doubled()

    def _note_doubled(self) -> None:
        """Two blocks under one key that were just about to join count too much, if that was interrupted."""
        assert self.failures
        found: Counter[ContentKey] = Counter()
        for name, volume in self.world.volumes.items():
            for block in chain.from_iterable(volume.scan()):
                key = ContentKey(block.key.home.decode() or name, block.key.signature, block.key.overflow)
                found[key] += not block.replica
        self.loose |= {key.signature for key, count in found.items() if count > 1}

    def restore(self, client: Client) -> None:
        try:
            Restorer(client.instance).run()
        except VolumeDown:
            assert self.failures

    # -- the end ----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everything is up again, and one client repairs."""
        self.world.down.clear()
        for client in self.clients:
            for shared in client.volumes.values():
                shared.happening = None
        self.world.now_s += 100
        Restorer(self.clients[0].instance).run()

    def verify(self) -> None:
        for key, count in self.held.items():
            copies = self.world.copies(key)
            if key.signature in self.loose:
                counted = sum(references for replica, references in copies.values() if not replica)
                assert counted >= count, (key, copies, count)
            else:
                counted = sum(references for replica, references in copies.values() if not replica)
                assert counted == count, (key, copies, count)
            if count:
                assert self.clients[1].contents.get(key) == self.pages[key]

    def empty(self) -> None:
        """Merged contents are read and deleted by the keys that they had; then nothing is left."""
        contents = self.clients[2].contents
        held = [key for key, count in self.held.items() for _ in range(count)]
        assert contents.get_batch(held) == [self.pages[key] for key in held]
        half = held[::2]
        contents.delete_batch(half)
        assert contents.get_batch(held[1::2]) == [self.pages[key] for key in held[1::2]]
        contents.delete_batch(held[1::2])
        left = [block.key.signature for volume in self.world.volumes.values() for block in chain(*volume.scan())]
        assert set(left) <= self.loose


def run(world: World, seed: int, steps: int, *, failures: bool) -> None:
    interleaving = Interleaving(world, seed, failures=failures)
    for _ in range(steps):
        interleaving.step()
    interleaving.settle()
    interleaving.verify()
    Merger(interleaving.clients[1].instance).run()
    interleaving.empty()
    report = world.check()
    faults = [str(fault) for fault in report.faults]
    assert faults == [], faults
    assert report.notes == [], report.notes


@pytest.mark.parametrize("seed", range(6))
def test_clients_in_each_others_way(make_world: Callable[..., World], seed: int) -> None:
    run(make_world(3, replicas=2), seed, 60, failures=False)


@pytest.mark.parametrize("seed", range(6))
def test_clients_and_volumes_that_fail(make_world: Callable[..., World], seed: int) -> None:
    run(make_world(3, replicas=2), seed, 60, failures=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 600))
def test_many_interleavings(make_world: Callable[..., World], seed: int) -> None:
    run(make_world(2 + seed % 3, replicas=1 + seed % 2), seed, 80, failures=bool(seed % 5 < 3))
