"""Which URLs are looked up, and when: the same at random for every subject, once background work has come to rest."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from benchmarks.harness.measure import SEED

LOOKUPS = 20_000
_PER_URL_MAX = 10  # so that a small catalog is not asked the same again and again
WARM_UP = 200  # lookups before the clock starts


_REST_S = 0.25
_REST_CPU_S = 0.01
_SETTLE_MAX_S = 600.0


def chosen(urls: Sequence[str]) -> list[str]:
    return [urls[number] for number in chosen_numbers(len(urls))]


def chosen_numbers(count: int, turn: int = 0) -> list[int]:
    return random.Random(SEED + turn).choices(range(count), k=min(LOOKUPS, _PER_URL_MAX * count))


def settle() -> float:
    """Waits until this process has nothing to do in the background, such as compaction; returns the seconds waited."""
    start = time.perf_counter()
    while time.perf_counter() - start < _SETTLE_MAX_S:
        cpu = time.process_time()
        time.sleep(_REST_S)
        if time.process_time() - cpu < _REST_CPU_S:
            break
    return time.perf_counter() - start
