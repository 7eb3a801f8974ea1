"""Sixty-four clients for an hour: no error, and memory stays flat on both sides.

`HOLDFAST_SOAK_S` gives another time, in seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest
import remote_workload
from remote_servers import Server, environment

from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import totals

Connect = Callable[..., RemoteVolume]
Serve = Callable[..., Server]
PROCESSES, THREADS = 4, 16
SAMPLES = 60
GROWTH_MAX, GROWTH_BYTES_MAX = 1.1, 24 << 20


@pytest.mark.soak
@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_many_clients_for_a_long_time(
    serve: Serve, connect: Connect, secret_file: Path, tmp_path: Path, organization: str
) -> None:
    seconds = float(os.environ.get("HOLDFAST_SOAK_S", "3600"))
    server = serve(tmp_path / "volume", organization=organization)
    volume = connect(server.address, request_timeout_s=120.0)
    volume.commit([remote_workload.shared(number) for number in range(remote_workload.SHARED)])
    before = totals(volume)
    words = [[server.address, str(secret_file), str(n * 1000), str(THREADS), str(seconds)] for n in range(PROCESSES)]
    program = [sys.executable, remote_workload.__file__]
    workers = [
        subprocess.Popen([*program, *each], stdout=subprocess.PIPE, env=environment(), text=True) for each in words
    ]
    served: list[int] = []
    pause = threading.Event()
    while any(worker.poll() is None for worker in workers):
        pause.wait(seconds / SAMPLES)
        served.append(server.memory_bytes())
        if len(served) % 10 == 0:
            volume.compact(0.3, None)
    reports = [[json.loads(line) for line in worker.stdout or ()] for worker in workers]
    for worker in workers:
        worker.communicate()
    print("server MiB:", [size >> 20 for size in served])
    for report in reports:
        print("client MiB:", [each["memory"] >> 20 for each in report], report[-1].get("done"))
    assert [worker.returncode for worker in workers] == [0] * PROCESSES
    assert totals(volume) == before, "each has taken back what it had counted"
    for sizes in (served, *([each["memory"] for each in report] for report in reports)):
        require_flat(sizes)


def require_flat(sizes: list[int]) -> None:
    """The last quarter is no larger than the second one, but for a little."""
    quarter = len(sizes) // 4
    early, late = mean(sizes[quarter : 2 * quarter]), mean(sizes[-quarter:])
    assert late < early * GROWTH_MAX + GROWTH_BYTES_MAX, (early, late)
