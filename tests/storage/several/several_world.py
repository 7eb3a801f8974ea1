"""Several clients over the same volumes: each with an Instance of its own, as processes on several machines have.

The volumes are real ones. Each client sees them through a `Shared` that fails on command, and that lets something else
happen before a call: so races are told step by step, and happen at the same place every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from holdfast import ContentKey, Settings, StoreSettings, VolumeSettings
from holdfast.config import RemoteSettings
from holdfast.env import Environment, LocalFiles, paths
from holdfast.errors import VolumeDown, VolumeFull, VolumeReadOnly
from holdfast.storage.maintenance.check import Checker, CheckOptions, CheckReport
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.store import BlockStore, OpenedVolume
from holdfast.storage.volume import (
    Adopt,
    Block,
    BlockFacts,
    BlockKey,
    Effect,
    IdempotencyKey,
    News,
    Operation,
    OperationResult,
    ScanPosition,
    Store,
    Volume,
    VolumeStat,
)
from holdfast.storage.volumes.organizations import create_volume, open_volume

Happening = Callable[[str, Sequence[Any]], None]  # the call, and what it is about


class Shared:
    """One client's view of a volume that others use too."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.happening: Happening | None = None  # before each call
        self.calls: list[str] = []

    @property
    def _volume(self) -> Volume:
        return self._world.volumes[self.name]

    def _begin(self, call: str, about: Sequence[Any] = ()) -> None:
        self.calls.append(call)
        if self.happening is not None:
            self.happening(call, about)
        if self.name in self._world.down:
            raise VolumeDown(f"volume {self.name!r} does not answer")

    @property
    def organization(self) -> str:
        return self._volume.organization

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        self._begin("probe", signatures)
        return self._volume.probe(signatures)

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        self._begin("fetch", keys)
        return self._volume.fetch(keys)

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        self._begin("scan")
        for batch in self._volume.scan(counted=counted):
            yield batch
            self._begin("scan")

    def signatures(self) -> Iterator[bytes]:
        self._begin("signatures")
        return self._volume.signatures()

    def stat(self) -> VolumeStat:
        self._begin("stat")
        return self._volume.stat()

    def refresh(self) -> None:
        self._begin("refresh")

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        self._begin("dictionary")
        return self._volume.dictionary(number)

    def commit(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey | None = None
    ) -> list[OperationResult]:
        self._begin("commit", operations)
        adds = any(isinstance(operation, Store | Adopt) for operation in operations)
        if adds and self.name in self._world.full:
            raise VolumeFull(f"volume {self.name!r} is full")
        if adds and self.name in self._world.refusing:
            raise VolumeReadOnly(f"volume {self.name!r} takes nothing")
        outcomes = self._volume.commit(operations)
        new = [outcome.key.signature for outcome in outcomes if outcome.effect is Effect.NEW]
        self._world.news[self.name] += new
        return outcomes

    def void(self, idempotency_key: IdempotencyKey) -> list[OperationResult] | None:
        return None

    def add_dictionary(self, number: int, data: bytes) -> None:
        self._begin("add_dictionary")
        self._volume.add_dictionary(number, data)

    def position(self) -> int:
        self._begin("position")
        return len(self._world.news[self.name])

    def news(self, since: int) -> News:
        self._begin("news")
        told = self._world.news[self.name]
        return News(len(told), told[since:] if self._world.tells else None)

    def close(self) -> None:
        pass


class Far(Shared):
    """A view that tells whether it makes sense to ask, as remote volumes do: they are asked side by side."""

    @property
    def available(self) -> bool:
        return self.name not in self._world.down or not self._world.known

    def fetch_at_once(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return self.fetch(keys)

    def wake(self) -> None:
        self.calls.append("wake")

    def resolve(self) -> None:
        pass

    def rolled_back(self) -> list[BlockKey]:
        return []


class Client:
    """What one process has open."""

    def __init__(self, world: World, view: type[Shared] = Shared) -> None:
        self.volumes = {name: view(world, name) for name in world.volumes}
        self.instance = BlockStore(
            world.root,
            world.settings,
            world.env,
            writable=True,
            opener=lambda settings: OpenedVolume(self.volumes[settings.name]),
        )
        self.contents = Contents(self.instance)

    def once(self, volume: str, call: str, happening: Callable[[], object], of: type | None = None) -> None:
        """Lets something happen before the client's next such call to a volume."""
        shared = self.volumes[volume]

        def happen(name: str, about: Sequence[Any]) -> None:
            if name == call and (of is None or any(isinstance(each, of) for each in about)):
                shared.happening = None
                happening()

        shared.happening = happen

    def calls(self) -> list[str]:
        """All calls since the last time, as volume and call."""
        told = [f"{name} {call}" for name, shared in self.volumes.items() for call in shared.calls]
        for shared in self.volumes.values():
            shared.calls.clear()
        return [call for call in told if not call.endswith("news")]

    def close(self) -> None:
        self.contents.close()
        self.instance.close()


class World:
    """Volumes v0, v1, ... and the clients that use them. `now_s` is everybody's clock."""

    def __init__(self, root: Path, volumes: int, organization: str = "log", **store: Any) -> None:
        self.root = root
        self.now_s = 1000.0
        random = Random(0)
        self.env = Environment(
            LocalFiles(), monotonic=lambda: self.now_s, sleep=self._sleep, random_bytes=random.randbytes
        )
        each = tuple(VolumeSettings(f"v{number}", organization) for number in range(volumes))
        settings = StoreSettings(**{"train_after": 0, "placement": "weighted", **store})
        self.settings = Settings(store=settings, volume=each, remote=RemoteSettings(follow_s=0.0))
        self.down: set[str] = set()  # do not answer
        self.full: set[str] = set()
        self.refusing: set[str] = set()
        self.known = True  # whether clients know at once that a volume is down
        self.tells = True  # whether volumes tell the news; else they say: too many
        self.news: dict[str, list[bytes]] = {}
        self.volumes: dict[str, Volume] = {}
        self.clients: list[Client] = []
        for volume in each:
            self._make(volume)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def _make(self, volume: VolumeSettings) -> None:
        directory = paths.volume_directory(self.root, volume.name)
        create_volume(directory, volume, self.settings.store, self.env)
        self.volumes[volume.name] = open_volume(volume.name, directory, self.settings.store, self.env)
        self.news[volume.name] = []

    def add(self, name: str) -> None:
        """One more volume, for clients that come later."""
        volume = VolumeSettings(name)
        self.settings = replace(self.settings, volume=(*self.settings.volume, volume))
        self._make(volume)

    def lose(self, name: str) -> None:
        """The volume comes back empty."""
        self.volumes[name].close()
        directory = paths.volume_directory(self.root, name)
        directory.rename(self.root / f"lost-{name}-{self.now_s}")
        self._make(next(each for each in self.settings.volume if each.name == name))
        self.news[name] = []

    def client(self, view: type[Shared] = Shared) -> Client:
        client = Client(self, view)
        self.clients.append(client)
        return client

    @contextmanager
    def without(self, *names: str) -> Iterator[None]:
        """The volumes do not answer."""
        self.down |= set(names)
        yield
        self.down -= set(names)

    def copies(self, key: ContentKey) -> dict[str, tuple[bool, int]]:
        """The volumes that hold a content, each asked by itself: whether it is a replica, and its counter."""
        found = {}
        for name, volume in self.volumes.items():
            for facts in volume.probe([key.signature])[0]:
                if ((facts.key.home.decode() or name), facts.key.overflow) == (key.volume, key.overflow):
                    found[name] = (facts.replica, facts.references)
        return found

    def counters(self, key: ContentKey) -> list[int]:
        return [references for _, references in self.copies(key).values()]

    def close(self) -> None:
        self.down.clear()
        for client in self.clients:
            client.close()
        for volume in self.volumes.values():
            volume.close()

    def check(self) -> CheckReport:
        """Closes everything and checks the files."""
        self.close()
        self.clients.clear()
        self.volumes.clear()
        return Checker(self.root, self.settings, self.env, CheckOptions(deep=True)).check()
