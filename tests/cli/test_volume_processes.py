"""The processes of `holdfast volume serve`: volumes that share one live, fail and stop each by itself."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from program import Shell
from volume_servers import child_pids, client, ended, served
from waiting import wait_until

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL
from holdfast.errors import VolumeDown
from holdfast.storage.volume import BlockKey, Refer, Store
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.organizations import create_volume
from holdfast.testing.volumes import fetched, perform, plain, sign

SECRET = ("--secret-file", "secret")


@pytest.fixture
def place(shell: Shell) -> Shell:
    """A directory with five volumes and a secret."""
    shell.quick("volume", "secret", shell.directory / "secret")
    for number in range(5):
        organization = "tree" if number == 4 else "log"
        settings = VolumeSettings("volume", organization, depth=2)
        create_volume(shell.directory / f"v{number}", settings, StoreSettings(), REAL)
    return shell


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """What is started meanwhile may use these."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def next_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().decode()


def ports_in_a_row(count: int) -> int:
    """The first of so many that are free, below those that the system gives out by itself."""
    choose = random.Random()
    while True:
        first = choose.randrange(20_000, 30_000)
        with ExitStack() as taken:
            try:
                for number in range(count):
                    taken.enter_context(socket.create_server(("127.0.0.1", first + number)))
            except OSError:
                continue
            return first


# -- how many ----------------------------------------------------------------------------------------------------------


def test_there_are_as_many_processes_as_cores(place: Shell) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    for used in (cores, cores[:1]):
        with on_cores(set(used)), served(place, "v0", "v1", "v2", *SECRET, volumes=3) as (process, ports):
            assert len(child_pids(process)) == (len(used) if len(used) > 1 else 0)
            for number, port in enumerate(ports.values()):
                with closing(client(place, port)) as volume:
                    perform(volume, Store(sign(number), plain(b"%d" % number)))


def test_each_volume_has_the_port_of_its_place(place: Shell) -> None:
    first = ports_in_a_row(5)
    names = [f"v{number}" for number in range(5)]
    for processes in ("1", "2", "3"):
        words = (*names, *SECRET, "--listen", f"127.0.0.1:{first}", "--processes", processes)
        with served(place, *words, volumes=5) as (process, ports):
            assert ports == {name: first + number for number, name in enumerate(names)}
            process.terminate()
            ended(process)


def test_a_volume_that_is_named_twice_is_served_once(place: Shell) -> None:
    with served(place, "v0", "v0", "v1", *SECRET, "--processes", "1", volumes=2) as (process, ports):
        assert "is being written by another process" in next_line(process)
        assert next_line(process) == "no longer served: 'v0' (exit 4)\n"
        with closing(client(place, ports["v1"])) as volume:
            assert volume.stat().blocks == 0


# -- each by itself ----------------------------------------------------------------------------------------------------


def test_volumes_of_a_process_have_contents_and_limits_of_their_own(place: Shell) -> None:
    words = ("v0", "v1", *SECRET, "--processes", "1", "--connections", "1")
    with served(place, *words, volumes=2) as (_, ports), ExitStack() as stack:
        volumes = {name: stack.enter_context(closing(client(place, port))) for name, port in ports.items()}
        for name, volume in volumes.items():
            perform(volume, Store(sign(1), plain(name.encode())))
        assert {name: fetched(volume, BlockKey(sign(1))) for name, volume in volumes.items()} == {
            "v0": (b"v0", 1),
            "v1": (b"v1", 1),
        }
        assert [volume.activity().clients for volume in volumes.values()] == [1, 1]


@pytest.mark.parametrize("processes", ["1", "2"])
def test_what_fails_is_told_by_name_whichever_process_has_it(place: Shell, processes: str) -> None:
    words = ("v0", "none", "v1", "v2", "nothing", *SECRET, "--processes", processes)
    with served(place, *words, volumes=3) as (process, ports):
        assert sorted(ports) == ["v0", "v1", "v2"]
        told = {next_line(process) for _ in range(4)}
        assert {line for line in told if line.startswith("no longer")} == {
            "no longer served: 'none' (exit 9)\n",
            "no longer served: 'nothing' (exit 9)\n",
        }
        for port in ports.values():
            with closing(client(place, port)) as volume:
                assert perform(volume, Store(sign(1), plain(b"one"))).references == 1
        process.terminate()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        last = errors.decode().splitlines()[-1]
        assert last.startswith("holdfast: not all volumes were served to the end: ")
        assert "'none' (exit 9)" in last
        assert "'nothing' (exit 9)" in last


def test_a_taken_port_is_the_failure_of_one_volume(place: Shell) -> None:
    first = ports_in_a_row(3)
    with socket.create_server(("127.0.0.1", first + 1)):
        words = ("v0", "v1", "v2", *SECRET, "--listen", f"127.0.0.1:{first}", "--processes", "1")
        with served(place, *words, volumes=2) as (process, ports):
            assert ports == {"v0": first, "v2": first + 2}
            assert "cannot listen on" in next_line(process)
            assert next_line(process) == "no longer served: 'v1' (exit 2)\n"
    with served(place, "v1", *SECRET):
        """It was closed in order, and nobody holds it."""


def test_a_killed_process_takes_only_its_volumes_along(place: Shell) -> None:
    words = ("v0", "v1", "v2", "v3", "nothing", *SECRET, "--processes", "2")
    with served(place, *words, volumes=4) as (process, ports), ExitStack() as stack:
        volumes = {name: stack.enter_context(closing(client(place, port))) for name, port in ports.items()}
        for volume in volumes.values():
            perform(volume, Store(sign(1), plain(b"one")))
        assert "no volume in" in next_line(process)
        assert "'nothing' (exit 9)" in next_line(process)
        os.kill(child_pids(process)[0], signal.SIGKILL)
        assert [next_line(process) for _ in range(2)] == [
            f"no longer served: '{name}' (exit -9)\n" for name in ("v0", "v1")
        ]
        for name in ("v2", "v3"):
            assert fetched(volumes[name], BlockKey(sign(1))) == (b"one", 1)
    with served(place, "v0", "v1", *SECRET, "--processes", "1", volumes=2) as (_, ports):
        for port in ports.values():
            with closing(client(place, port)) as volume:
                assert fetched(volume, BlockKey(sign(1))) == (b"one", 1)


# -- all together ------------------------------------------------------------------------------------------------------


class Writing(threading.Thread):
    """Stores, and counts every content twice, until the server is gone; remembers what was acknowledged."""

    def __init__(self, shell: Shell, port: int) -> None:
        super().__init__()
        self._volume = client(shell, port, retry_s=0.0)
        self.references: dict[int, int] = {}
        self.start()

    def run(self) -> None:
        with closing(self._volume):
            try:
                for number in range(1_000_000):
                    perform(self._volume, Store(sign(number), plain(b"%d" % number * 50)))
                    self.references[number] = 1
                    perform(self._volume, Refer(BlockKey(sign(number))))
                    self.references[number] = 2
            except VolumeDown:
                return


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_all_volumes_of_a_process_come_back_clean(place: Shell, number: int) -> None:
    names = [f"v{index}" for index in range(5)]
    with served(place, *names, *SECRET, "--processes", "1", volumes=5) as (process, ports):
        writing = {name: Writing(place, port) for name, port in ports.items()}
        wait_until(lambda: all(len(each.references) > 20 for each in writing.values()), "some stores")
        process.send_signal(number)
        process.wait(120)
        for each in writing.values():
            each.join(120)
    with served(place, *names, *SECRET, "--processes", "1", volumes=5) as (process, ports):
        for name, port in ports.items():
            with closing(client(place, port)) as volume:
                watch = CheckProgress(None, None, REAL)
                assert list(volume.check(watch)) == []
                for stored, references in writing[name].references.items():
                    data, counted = fetched(volume, BlockKey(sign(stored)))
                    assert data == b"%d" % stored * 50
                    assert references <= counted <= 2
        process.terminate()
        ended(process)
