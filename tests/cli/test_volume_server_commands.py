"""`holdfast volume init`, `secret` and `serve`: volumes of their own, given out by the program itself."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from program import Shell
from volume_servers import client, ended, served

from holdfast.errors import TooLarge, VolumeFull, VolumeReadOnly
from holdfast.storage.volume import BlockKey, Refer, Store
from holdfast.testing.volumes import fetched, perform, plain, scanned, sign


@pytest.fixture
def place(shell: Shell) -> Shell:
    """A directory with a volume and a secret."""
    shell.quick("volume", "init", shell.directory / "v0")
    shell.quick("volume", "secret", shell.directory / "secret")
    return shell


def test_a_volume_is_made_and_served(place: Shell) -> None:
    with served(place, "v0", "--secret-file", "secret") as (process, ports):
        volume = client(place, ports["v0"])
        perform(volume, Store(sign(1), plain(b"one")))
        assert (volume.organization, volume.signature) == ("log", "sha256")
        again = place("volume", "serve", "v0", "--secret-file", "secret", "--listen", "127.0.0.1:0", code=4)
        assert "Busy" not in again.errors
        assert "holdfast volume serve" in again.errors
        assert fetched(volume, BlockKey(sign(1))) == (b"one", 1)
        process.send_signal(signal.SIGINT)
        assert "stopped" in ended(process)
        volume.close()
    assert place.quick("volume", "init", place.directory / "v0", code=2).errors.count("holds a volume already") == 1


def test_limits_are_given_on_the_command_line(place: Shell) -> None:
    limits = ("--capacity", "1M", "--message-max", "500K", "--connections", "7")
    with served(place, "v0", "--secret-file", "secret", *limits) as (_, ports):
        volume = client(place, ports["v0"])
        with pytest.raises(TooLarge, match="limit of the server"):
            perform(volume, Store(sign(1), plain(bytes(600_000))))
        with pytest.raises(VolumeFull, match="capacity of 1048576 bytes"):
            for number in range(3):
                perform(volume, Store(sign(number), plain(bytes(400_000))))
        assert volume.stat().free_bytes < 400_000
        volume.close()
    with served(place, "v0", "--secret-file", "secret", "--read-only") as (_, ports):
        volume = client(place, ports["v0"])
        with pytest.raises(VolumeReadOnly):
            perform(volume, Store(sign(9), plain(b"nine")))
        assert perform(volume, Refer(BlockKey(sign(1)))).references == 2
        volume.close()


@pytest.mark.parametrize("processes", [1, 2])
def test_several_volumes_are_served_and_stopped_by_one_command(place: Shell, processes: int) -> None:
    """One of them is called as the command is, and Ctrl-C goes to every process of the terminal."""
    place.quick("volume", "init", place.directory / "serve", "--organization", "tree", "--depth", "2")
    words = ["volume", "serve", "v0", "serve", "--secret-file", "secret", "--listen", "127.0.0.1:0", "--json"]
    words += ["--processes", str(processes)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        place.command(*words),
        cwd=place.directory,
        env=place.environment(),
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        told = [json.loads(process.stdout.readline()) for _ in range(2)]
        ports = {each["directory"]: each["port"] for each in told}
        volumes = {name: client(place, port) for name, port in ports.items()}
        for name, volume in volumes.items():
            perform(volume, Store(sign(1), plain(name.encode())))
        assert {name: volume.organization for name, volume in volumes.items()} == {"v0": "log", "serve": "tree"}
        os.killpg(process.pid, signal.SIGINT)
        errors = ended(process)
        assert errors.count("stopped") == (1 if processes == 1 else 1 + processes)
        for volume in volumes.values():
            volume.close()
    with served(place, "serve", "--secret-file", "secret") as (_, ports):
        volume = client(place, ports["serve"])
        assert [data for _, data, _ in scanned(volume)] == [b"serve"]
        volume.close()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_others_go_on_if_one_of_several_cannot_be_served(place: Shell, processes: str) -> None:
    words = ("v0", "nothing", "--secret-file", "secret", "--processes", processes)
    with served(place, *words) as (process, ports):
        volume = client(place, ports["v0"])
        assert volume.stat().blocks == 0
        volume.close()
        assert process.stderr is not None
        assert b"no volume in" in process.stderr.readline()
        assert process.stderr.readline() == b"no longer served: 'nothing' (exit 9)\n"
        assert process.poll() is None
        process.terminate()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        assert b"'nothing' (exit 9)" in errors


def test_servers_end_with_the_command_that_started_them_even_if_it_is_killed(place: Shell) -> None:
    place.quick("volume", "init", place.directory / "v1")
    words = ("v0", "v1", "--secret-file", "secret", "--processes", "2")
    with served(place, *words, volumes=2) as (process, _):
        process.kill()
        process.communicate(timeout=120)  # until nobody has its output open any more
    for name in ("v0", "v1"):
        with served(place, name, "--secret-file", "secret"):
            """Nobody else serves it."""


def test_mistakes_are_told(place: Shell) -> None:
    here = place.directory

    def told(*words: str | Path, code: int) -> str:
        return place.quick("volume", "serve", *words, code=code).errors

    assert "who may use the volume?" in told(here / "v0", code=2)
    secret = ("--secret-file", here / "secret")
    for address in ("nonsense", "127.0.0.1", ":80", "127.0.0.1:99999", "127.0.0.1:-1"):
        assert "expected 'host:port'" in told(here / "v0", *secret, "--listen", address, code=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "cannot listen on" in told(here / "v0", *secret, "--listen", address, code=2)
    assert "cannot listen on" in told(here / "v0", *secret, "--listen", "192.0.2.1:0", code=2)
    assert "volume init" in told(here / "nothing", *secret, code=9)
    assert "volume secret" in told(here / "v0", "--secret-file", here / "none", code=3)
    (here / "short").write_text("too short")
    assert "16 to 4096" in told(here / "v0", "--secret-file", here / "short", code=2)
    assert "need a --tls-cert" in told(here / "v0", *secret, "--tls-key", here / "secret", code=2)
    assert "need a --tls-cert" in told(here / "v0", "--tls-client-ca", here / "secret", code=2)
    assert "cannot use the certificate" in told(here / "v0", *secret, "--tls-cert", here / "secret", code=2)
    assert "bytes" in told(here / "v0", *secret, "--capacity", "much", code=2)
    assert "--connections" in told(here / "v0", *secret, "--connections", "0", code=2)
    assert "--processes" in told(here / "v0", *secret, "--processes", "0", code=2)
    assert "there are only 2 volumes" in told(here / "v0", here / "v1", *secret, "--processes", "3", code=2)
    for mistake, told in (
        (("v0", "v0", "--listen", "127.0.0.1:65535"), "need ports beyond 65535"),
        (("v0", "--message-max", "10"), "with less than 65536 bytes"),
    ):
        assert told in place.quick("volume", "serve", *mistake, "--secret-file", "secret", code=2).errors


def test_a_secret_is_its_owners(place: Shell) -> None:
    path = place.directory / "secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(path.read_text().strip())) == 32
    before = path.read_bytes()
    assert "exists already" in place.quick("volume", "secret", path, code=2).errors
    assert path.read_bytes() == before
    place.quick("volume", "secret", place.directory / "other")
    assert (place.directory / "other").read_bytes() != before


def test_a_volume_has_an_organization_and_a_signature_that_exist(shell: Shell) -> None:
    here = shell.directory
    assert "organization" in shell.quick("volume", "init", here / "a", "--organization", "heap", code=2).errors
    assert "signature" in shell.quick("volume", "init", here / "b", "--signature", "crc", code=2).errors
    assert (
        "levels" in shell.quick("volume", "init", here / "c", "--depth", "99", "--organization", "tree", code=2).errors
    )
    assert not any(here.glob("*/*"))
