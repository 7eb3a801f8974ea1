"""Clients that do a bit of everything for a while. As a program: so many of them, each in a thread of its own.

Prints a line of JSON now and then, and at the end: what was done, and the memory of this process.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from holdfast.config import RemoteSettings
from holdfast.env import REAL
from holdfast.storage.volume import BlockKey, Claim, Effect, Operation, Refer, Release, Store
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import plain, sign

KEPT_MAX = 100  # contents of a client's own
SHARED = 50
REPORT_S = 5.0


def shared(number: int) -> Store:
    return Store(sign(("shared", number)), plain(b"%d " % number * 300))


class Client:
    """Keeps contents of its own, whose counters it knows, and counts on some that all share."""

    def __init__(self, volume: RemoteVolume, number: int) -> None:
        self._volume = volume
        self._number = number
        self._random = Random(number)
        self._kept: dict[int, int] = {}  # size of each content, by number
        self._made = 0
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        action = self._random.choice(["store", "store", "store", "fetch", "fetch", "share", "release", "probe", "look"])
        getattr(self, f"_{action}")()
        self.done[action] += 1

    def end(self) -> None:
        """Everything of its own is released."""
        while self._kept:
            self._release()

    def _content(self, number: int, size: int) -> bytes:
        return (b"%d of %d " % (number, self._number) * (size // 8 + 1))[:size]

    def _sign(self, number: int) -> bytes:
        return sign((self._number, number))

    def _store(self) -> None:
        if len(self._kept) >= KEPT_MAX:
            self._release()
        numbers = range(self._made, self._made + self._random.randint(1, 5))
        self._made = numbers.stop
        sizes = {number: self._random.choice([10, 300, 1000, 4000]) for number in numbers}
        stores = [Store(self._sign(number), plain(self._content(number, size))) for number, size in sizes.items()]
        assert [outcome.effect for outcome in self._volume.commit(stores)] == [Effect.NEW] * len(stores)
        self._kept |= sizes

    def _fetch(self) -> None:
        numbers = self._random.sample(sorted(self._kept), min(len(self._kept), 3))
        blocks = self._volume.fetch([BlockKey(self._sign(number)) for number in numbers])
        for number, block in zip(numbers, blocks, strict=True):
            assert block is not None
            assert bytes(block.encoded.data) == self._content(number, self._kept[number])

    def _share(self) -> None:
        store = shared(self._random.randrange(SHARED))
        key = BlockKey(store.signature)
        steps: list[Operation] = [Claim(key.signature, store.encoded.size), store, Refer(key), *[Release(key)] * 3]
        effects = [outcome.effect for outcome in self._volume.commit(steps)]
        assert effects == [Effect.DUPLICATE] * 2 + [Effect.COUNTED] * 4, effects

    def _release(self) -> None:
        numbers = self._random.sample(sorted(self._kept), min(len(self._kept), 10))
        outcomes = self._volume.commit([Release(BlockKey(self._sign(number))) for number in numbers])
        assert [outcome.effect for outcome in outcomes] == [Effect.REMOVED] * len(numbers)
        for number in numbers:
            del self._kept[number]

    def _probe(self) -> None:
        numbers = sorted(self._kept)[:20]
        found = self._volume.probe([self._sign(number) for number in [*numbers, -1]])
        assert [len(each) for each in found] == [1] * len(numbers) + [0]

    def _look(self) -> None:
        self._volume.news(self._volume.position())
        if self._random.random() < 0.01:
            assert all(batch for _, batch in zip(range(3), self._volume.scan(), strict=False))


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _main(address: str, secret_file: str, first: str, threads: str, seconds: str) -> None:
    deadline = time.monotonic() + float(seconds)
    settings = RemoteSettings(secret_file=secret_file, request_timeout_s=120.0)
    volumes = [RemoteVolume("v0", address, settings, REAL, Path()) for _ in range(int(threads))]
    clients = [Client(volume, int(first) + number) for number, volume in enumerate(volumes)]

    def work(client: Client) -> None:
        while time.monotonic() < deadline:
            client.step()
        client.end()

    ended = threading.Event()

    def report() -> None:
        while not ended.wait(REPORT_S):
            print(json.dumps({"memory": memory_bytes()}), flush=True)

    reporter = threading.Thread(target=report)
    reporter.start()
    try:
        with ThreadPoolExecutor(len(clients)) as pool:
            list(pool.map(work, clients))
    finally:
        ended.set()
        reporter.join()
    for volume in volumes:
        volume.close()
    done = sum((client.done for client in clients), Counter[str]())
    print(json.dumps({"memory": memory_bytes(), "done": done}), flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
