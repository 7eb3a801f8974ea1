"""Servers are killed in the middle of everything: with two replicas clients go on, and repair helps (W14)."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from remote_servers import SECRET, Forks, Server, free_port
from waiting import wait_until

import holdfast
from holdfast.config import load_connector
from holdfast.env import REAL
from holdfast.errors import HoldfastError, VolumeDown
from holdfast.model import ContentKey
from holdfast.storage.maintenance.check import Checker, CheckOptions
from holdfast.storage.maintenance.merge import Merger
from holdfast.storage.maintenance.repair import Restorer

THREADS = 3
SERVERS = 3
VARIETY = 60  # different contents, so that many are stored more than once


def content(number: int) -> bytes:
    return b"content %d, " % number * (1 + number % 40)


LASTING = frozenset(content(number) for number in range(0, VARIETY, 2))  # nobody deletes these


@dataclass
class Model:
    """What was acknowledged: references by key, and operations whose outcome nobody knows."""

    references: Counter[ContentKey] = field(default_factory=Counter)
    contents: dict[ContentKey, bytes] = field(default_factory=dict)
    doubtful: Counter[ContentKey] = field(default_factory=Counter)  # deletes that may have happened
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def wait_for_more(self) -> None:
        """Until clients have got on by some stores, or have failed."""
        wanted = self.done + 20
        wait_until(lambda: self.done > wanted or self.ended.is_set(), "more stores")

    def stored(self, key: ContentKey, data: bytes) -> None:
        with self.lock:
            self.references[key] += 1
            self.contents[key] = data
            self.done += 1

    def take(self, choose: random.Random) -> ContentKey | None:
        """A reference to be deleted; nobody else has it any more."""
        with self.lock:
            keys = [key for key, count in self.references.items() if count > 0 and self.contents[key] not in LASTING]
            if not keys:
                return None
            key = choose.choice(keys)
            self.references[key] -= 1
            return key

    def lasting(self, choose: random.Random) -> tuple[ContentKey, bytes] | None:
        with self.lock:
            keys = [key for key, data in self.contents.items() if data in LASTING]
            return (key := choose.choice(keys), self.contents[key]) if keys else None


@dataclass
class Cluster:
    """Three servers and their connector."""

    forks: Forks
    root: Path
    servers: list[Server]
    connector: Path

    def restart(self, number: int) -> None:
        server = self.servers[number]
        self.servers[number] = self.forks.serve(server.directory, port=server.port)


@pytest.fixture
def cluster(forks: Forks, tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "secret").write_bytes(SECRET)
    servers = [forks.serve(tmp_path / f"v{number}", port=free_port()) for number in range(SERVERS)]
    lines = ["format = 1", "[store]", "replicas = 2", "train_after = 0", "[remote]", 'secret_file = "secret"']
    lines += ["retry_s = 0.5", "down_s = 0.01", "request_timeout_s = 5.0"]
    for number, server in enumerate(servers):
        lines += ["[[volume]]", f'name = "v{number}"', f'address = "{server.address}"']
    connector = tmp_path / "connector.toml"
    connector.write_text("\n".join(lines) + "\n")
    made = Cluster(forks, tmp_path, servers, connector)
    yield made
    for server in made.servers:
        server.kill()


def work(cluster: Cluster, model: Model, seed: int) -> None:
    """Stores, reads and deletes until the end; whatever fails, fails as a volume that is down."""
    choose = random.Random(seed)
    with holdfast.connect(cluster.connector) as connection:
        contents = connection.contents
        while not model.ended.is_set():
            step = choose.random()
            if step < 0.5:
                data = [content(choose.randrange(VARIETY)) for _ in range(choose.choice([1, 1, 8]))]
                for stored, each in zip(contents.store_batch(data), data, strict=True):
                    model.stored(stored.key, each)
            elif step < 0.8:
                if (known := model.lasting(choose)) is not None:
                    assert contents.get(known[0]) == known[1], "a content with two replicas can always be read"
            elif (key := model.take(choose)) is not None:
                try:
                    contents.delete(key)
                except VolumeDown:
                    with model.lock:
                        model.doubtful[key] += 1


def run_threads(cluster: Cluster, model: Model, seed: int, disturb: Callable[[random.Random], None]) -> None:
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            work(cluster, model, seed * 100 + number)
        except BaseException as error:
            failures.append(error)
            model.ended.set()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(THREADS)]
    with ExitStack() as stack:
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
        stack.callback(model.ended.set)
        disturb(random.Random(seed))
    if failures:
        raise failures[0]


def kill_again_and_again(cluster: Cluster, model: Model, times: int) -> Callable[[random.Random], None]:
    def disturb(choose: random.Random) -> None:
        for _ in range(times):
            model.wait_for_more()
            number = choose.randrange(SERVERS)
            cluster.servers[number].kill()
            model.wait_for_more()  # clients go on
            cluster.restart(number)

    return disturb


def assert_sound(cluster: Cluster, model: Model) -> None:
    """After a repair: a clean check, every content readable, every counter as acknowledged."""
    with holdfast.connect(cluster.connector) as connection:
        assert Restorer(connection.instance).run().lost == 0
        for key, references in model.references.items():
            low, high = references, references + model.doubtful[key]
            if low > 0:
                assert connection.contents.get(key) == model.contents[key]
                assert low <= connection.contents.stat(key).references <= high
            elif high == 0:
                with pytest.raises(HoldfastError):
                    connection.contents.get(key)
        names = [len(connection.contents.holders(key)) for key, count in model.references.items() if count > 0]
        assert min(names) >= 2
        Merger(connection.instance).run()
        for key in [key for key, count in model.references.items() if count > 0]:
            assert connection.contents.get(key) == model.contents[key]
    report = Checker(cluster.root, load_connector(cluster.connector), REAL, CheckOptions(deep=True)).check()
    assert (report.faults, report.notes) == ([], [])


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))])
def test_servers_are_killed_under_load(cluster: Cluster, seed: int) -> None:
    model = Model()
    run_threads(cluster, model, seed, kill_again_and_again(cluster, model, 4))
    assert_sound(cluster, model)


def test_a_volume_that_is_lost_comes_back_from_replicas(cluster: Cluster) -> None:
    model = Model()
    with holdfast.connect(cluster.connector) as connection:
        for number in range(VARIETY):
            model.stored(connection.contents.put(content(number)), content(number))
    cluster.servers[1].kill()
    cluster.servers[1].directory.rename(cluster.root / "lost")
    cluster.restart(1)
    assert_sound(cluster, model)
