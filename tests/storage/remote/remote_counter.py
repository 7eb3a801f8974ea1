"""A client that stores, refers and releases at random, and keeps count of what was acknowledged.

As a program: several such clients in threads. Prints how much each content was counted up, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from holdfast.config import RemoteSettings
from holdfast.env import REAL
from holdfast.storage.volume import BlockKey, Claim, Effect, Operation, OperationResult, Refer, Release, Store, Volume
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import plain, sign

CONTENTS = 12
PATIENT: dict[str, Any] = {"request_timeout_s": 0.5, "retry_s": 100.0, "down_s": 0.05}


def content(number: int) -> bytes:
    return b"content %d " % number * (1 + number % 3 * 40)


def step_of(operation: Operation, outcome: OperationResult) -> int:
    """By how much a counter went up."""
    if outcome.effect in (Effect.NEW, Effect.DUPLICATE):
        return 1
    if outcome.effect is Effect.REMOVED:
        return -1
    if outcome.effect is Effect.COUNTED:
        return 1 if isinstance(operation, Refer) else -1
    assert outcome.effect is Effect.MISSING, outcome
    return 0


def random_operations(random: Random, *, releasing: bool = True) -> list[Operation]:
    operations: list[Operation] = []
    for _ in range(random.randint(1, 4)):
        number = random.randrange(CONTENTS)
        kind = random.randrange(6 if releasing else 5)
        if kind <= 1:
            operations.append(Store(sign(number), plain(content(number))))
        elif kind == 4:
            operations.append(Claim(sign(number), len(content(number))))
        elif kind <= 3:
            operations.append(Refer(BlockKey(sign(number))))
        else:
            operations.append(Release(BlockKey(sign(number))))
    return operations


def count(volume: Volume, seed: int, commits: int) -> Counter[int]:
    """What so many commits have counted up, by content."""
    random = Random(seed)
    numbers = {sign(number): number for number in range(CONTENTS)}
    counted: Counter[int] = Counter()
    for _ in range(commits):
        operations = random_operations(random)
        for operation, outcome in zip(operations, volume.commit(operations), strict=True):
            counted[numbers[outcome.key.signature]] += step_of(operation, outcome)
    return counted


def _main(address: str, secret_file: str, seed: str, threads: str, commits: str) -> None:
    settings = RemoteSettings(secret_file=secret_file, **PATIENT)
    volume = RemoteVolume("v0", address, settings, REAL, Path())
    with ThreadPoolExecutor(int(threads)) as pool:
        counts = list(pool.map(lambda n: count(volume, int(seed) + n, int(commits)), range(int(threads))))
    volume.close()
    total = {number: sum(each[number] for each in counts) for number in range(CONTENTS)}
    print(json.dumps(total))


if __name__ == "__main__":
    _main(*sys.argv[1:])
