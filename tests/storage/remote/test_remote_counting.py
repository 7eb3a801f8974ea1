"""No acknowledged store is lost and no count is wrong, whatever happens to the network and to the server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import remote_counter
from remote_counter import CONTENTS, PATIENT, content, random_operations, step_of
from remote_proxy import Chaos, Proxy
from remote_servers import Server, environment
from waiting import wait_until

import holdfast
from holdfast.config import StoreSettings
from holdfast.env import REAL
from holdfast.errors import VolumeDown, VolumeFull
from holdfast.storage.store.contents import Contents
from holdfast.storage.volume import BlockKey, ReadableVolume
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.organizations import find_organization, open_volume, volume_spec
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import sign, totals

Connect = Callable[..., RemoteVolume]
Serve = Callable[..., Server]
THREADS = 4
PROGRAM_THREADS = 2


def expected_counts(counts: list[Counter[int]]) -> dict[int, int]:
    total = {number: sum(each[number] for each in counts) for number in range(CONTENTS)}
    assert all(references >= 0 for references in total.values()), total
    return {number: references for number, references in total.items() if references}


def counters(volume: ReadableVolume) -> dict[int, int]:
    """The counter of every content, which must be as it was given."""
    blocks = volume.fetch([BlockKey(sign(number)) for number in range(CONTENTS)])
    for number, block in enumerate(blocks):
        assert block is None or bytes(block.encoded.data) == content(number)
    return {number: block.references for number, block in enumerate(blocks) if block is not None}


def require_sound(directory: Path, organization: str) -> dict[int, int]:
    """Opens the directory without a server, checks every byte, and returns the counters."""
    spec = volume_spec("v0", directory, StoreSettings(), REAL)
    volume = open_volume("v0", directory, StoreSettings(), REAL)
    try:
        found = counters(volume)
        assert totals(volume)[:3] == (len(found), 0, sum(found.values()))
    finally:
        volume.close()
    assert list(find_organization(organization).check(spec, CheckProgress())) == []
    return found


def count_under_fire(
    serve: Serve, through: Callable[..., Proxy], connect: Connect, secret_file: Path, **world: Any
) -> None:
    """Threads of this and of another process count, through a bad network, while the server is killed."""
    directory, organization, commits = world["directory"], world["organization"], world["commits"]
    server = serve(directory, organization=organization)
    chaos = Chaos(world["seed"], cut=0.5, cut_bytes=3000, delay_s=0.002, stalled=0.1, stall_s=0.8, doubled=0.2)
    proxy = through(server.port, chaos)
    volume = connect(proxy.address, **PATIENT)
    words = [proxy.address, str(secret_file), str(1000 * world["seed"]), str(PROGRAM_THREADS), str(commits)]
    program = [sys.executable, remote_counter.__file__, *words]
    with (
        subprocess.Popen(program, stdout=subprocess.PIPE, env=environment(), text=True) as other,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        counting = [pool.submit(remote_counter.count, volume, world["seed"] + n, commits) for n in range(THREADS)]
        for _ in range(world["kills"]):
            enough = proxy.commits + 20
            wait_until(partial(is_enough, proxy, enough, counting), "commits")
            server.kill()
            server = serve(directory, port=server.port)
        counts = [each.result() for each in counting]
        assert other.stdout is not None
        printed = json.loads(other.stdout.read())
    assert other.returncode == 0
    expected = expected_counts([*counts, Counter({int(number): each for number, each in printed.items()})])
    assert counters(volume) == expected
    volume.close()
    server.stop()
    assert require_sound(directory, organization) == expected
    assert proxy.cuts
    assert proxy.doubles


def test_counters_are_what_was_acknowledged_while_the_server_is_killed(
    serve: Serve, through: Callable[..., Proxy], connect: Connect, secret_file: Path, memory_path: Path
) -> None:
    world = {"directory": memory_path / "killed", "organization": "log", "kills": 5, "commits": 50, "seed": 1}
    count_under_fire(serve, through, connect, secret_file, **world)


@pytest.mark.soak
@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
@pytest.mark.parametrize("seed", range(10))
def test_counters_are_what_was_acknowledged_at_length(
    serve: Serve,
    through: Callable[..., Proxy],
    connect: Connect,
    secret_file: Path,
    memory_path: Path,
    organization: str,
    seed: int,
) -> None:
    directory = memory_path / f"{organization}-{seed}"
    world = {"directory": directory, "organization": organization, "kills": 15, "commits": 200, "seed": seed}
    count_under_fire(serve, through, connect, secret_file, **world)


def test_what_was_given_up_is_taken_back(
    serve: Serve, through: Callable[..., Proxy], connect: Connect, memory_path: Path
) -> None:
    """Clients without patience, and a server that stays away for longer: only acknowledged references count."""
    directory = memory_path / "given-up"
    server = serve(directory)
    chaos = Chaos(7, cut=0.3, cut_bytes=3000, stalled=0.1, stall_s=0.8, doubled=0.1)
    proxy = through(server.port, chaos)
    settings = {**PATIENT, "request_timeout_s": 0.2, "retry_s": 0.1, "down_s": 0.02}
    volumes = [connect(proxy.address, **settings) for _ in range(3)]
    numbers = {sign(number): number for number in range(CONTENTS)}
    done, given_up = threading.Event(), [0] * len(volumes)

    def work(index: int) -> Counter[int]:
        random, counted = Random(index), Counter[int]()
        while not done.is_set():
            operations = random_operations(random, releasing=False)
            try:
                outcomes = volumes[index].commit(operations)
            except VolumeDown:
                given_up[index] += 1
                done.wait(0.01)
                continue
            for operation, outcome in zip(operations, outcomes, strict=True):
                counted[numbers[outcome.key.signature]] += step_of(operation, outcome)
        return counted

    with ThreadPoolExecutor(len(volumes)) as pool:
        working = [pool.submit(work, index) for index in range(len(volumes))]
        try:
            for _ in range(3):
                wait_until(partial(is_enough, proxy, proxy.commits + 20), "commits")
                server.kill()
                wait_until(partial(all_above, given_up, list(given_up)), "clients that give up")
                server = serve(directory, port=server.port)
        finally:
            done.set()
        counts = [each.result() for each in working]
    proxy.chaos = Chaos(0)
    for volume in volumes:
        wait_until(partial(is_settled, volume), "all commits settled")
        volume.close()
    server.stop()
    assert require_sound(directory, "log") == expected_counts(counts)


def is_enough(proxy: Proxy, commits: int, counting: Sequence[Future[Any]] = ()) -> bool:
    return proxy.commits > commits or (len(counting) > 0 and all(each.done() for each in counting))


def all_above(numbers: list[int], before: list[int]) -> bool:
    return all(number > earlier for number, earlier in zip(numbers, before, strict=True))


def is_settled(volume: RemoteVolume) -> bool:
    volume._resolve_pending()
    return not volume._pending


@pytest.fixture
def contents(serve: Serve, secret_file: Path, tmp_path: Path, closing: ExitStack) -> Contents:
    """Those of a store with one volume, which has room for 50,000 bytes."""
    connector = tmp_path / "connector.toml"
    volume = f'[[volume]]\nname = "v0"\naddress = "{serve(capacity_bytes=50_000).address}"'
    connector.write_text(f'format = 1\n[remote]\nsecret_file = "{secret_file}"\n{volume}\n')
    return closing.enter_context(holdfast.connect(connector)).contents


def test_a_batch_for_which_there_is_no_room_counts_nothing(contents: Contents) -> None:
    """Its duplicates were counted, and its missing ones reported, before the new content turned out not to fit."""
    known, new = [b"known %d" % number for number in range(3)], Random(4).randbytes(60_000)
    contents.put_batch(known)
    with pytest.raises(VolumeFull):
        contents.put_batch([*known, new, known[0]])
    assert [stored.references for stored in contents.store_batch([*known, known[0]])] == [2, 2, 2, 3]


def test_a_batch_has_equal_contents_and_known_ones(contents: Contents) -> None:
    contents.put_batch([b"known"])
    batch = [b"new", b"known", b"new", b"", b"other", b"known", b""]
    before = Counter({b"known": 1})
    for _ in range(4):  # with and without the filter of signatures
        stored = contents.store_batch(batch)
        last = {content: each.references for content, each in zip(batch, stored, strict=True)}
        before += Counter(batch)
        assert last == before
        assert contents.get_batch([each.key for each in stored]) == batch
