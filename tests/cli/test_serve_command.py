"""`holdfast serve`, as it is typed: what it prints, what it refuses, and how it ends (W17)."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from subprocess import Popen
from urllib.parse import urlsplit

import pytest
from program import Shell


@contextmanager
def started(shell: Shell, *options: str) -> Iterator[Popen[bytes]]:
    process = shell.start("serve", "-p", "0", "--workers", "1", *options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def stop(process: Popen[bytes]) -> tuple[int, str, str]:
    """Exit code, the rest of the output, and all that was said."""
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output.decode(), errors.decode()


def line_of(process: Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().rstrip("\n")


def status_of(address: str, *, method: str = "GET", target: str = "/health") -> int:
    place = urlsplit(address)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        connection.request(method, target)
        return connection.getresponse().status
    finally:
        connection.close()


def test_it_prints_both_addresses_when_it_is_ready(archive: Shell) -> None:
    with started(archive) as process:
        pages, replay = line_of(process).split(), line_of(process).split()
        assert (pages[0], replay[0]) == ("pages", "replay")
        assert status_of(pages[1]) == 200
        assert urlsplit(pages[1]).port != urlsplit(replay[1]).port
        assert stop(process) == (0, "", "stopped\n")


def test_json_has_the_addresses_and_a_token_if_writing_is_permitted(archive: Shell) -> None:
    with started(archive, "--json", "--write") as process:
        told = json.loads(line_of(process))
        assert set(told) == {"pages", "replay", "token", "workers"}
        assert len(told["token"]) >= 32
    with started(archive, "--json") as process:
        assert "token" not in json.loads(line_of(process))


def test_it_warns_if_others_can_read_without_a_token_and_frames_have_the_name_that_was_asked_by(archive: Shell) -> None:
    with started(archive, "--json", "--host", "0.0.0.0") as process:
        told = json.loads(line_of(process))
        ports = [urlsplit(told[name]).port for name in ("pages", "replay")]
        connection = HTTPConnection("127.0.0.1", ports[0], timeout=60)
        connection.request("GET", "/", headers={"Accept": "text/html"})
        policy = connection.getresponse().headers["content-security-policy"]
        connection.close()
        assert f"frame-src http://127.0.0.1:{ports[1]}" in policy
        code, _, errors = stop(process)
        assert code == 0
        assert "warning: everybody who reaches this machine can read the archive" in errors
        assert "serve.read_token_file" in errors


def test_a_taken_port_is_refused(archive: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        result = archive("serve", "-p", str(number), code=4)
    assert result.errors.startswith(f"holdfast: port {number} of 127.0.0.1 is taken by another program")


def test_a_directory_without_an_archive_is_refused(shell: Shell) -> None:
    assert "no archive in" in shell("serve", "-p", "0", code=3).errors


@pytest.mark.parametrize(
    ("line", "message"),
    [("write_token_file = 'missing'", "missing"), ("access_log = 'no/such/folder'", "no/such/folder")],
)
def test_what_keeps_the_workers_from_starting_is_said_once(archive: Shell, line: str, message: str) -> None:
    settings = archive.directory / "holdfast.toml"
    settings.write_text(f"{settings.read_text()}\n[serve]\n{line}\n")
    result = archive("serve", "-p", "0", "--workers", "2", code=2 if "token" in line else 3)
    assert result.errors.count("\n") == 1
    assert message in result.errors


def test_the_access_log_goes_to_standard_error_on_request(archive: Shell) -> None:
    with started(archive, "--json", "--access-log", "-") as process:
        pages = json.loads(line_of(process))["pages"]
        assert status_of(pages, target="/health?seen") == 200
        code, _, errors = stop(process)
    assert code == 0
    assert '"GET /health?seen HTTP/1.1" 200 3 "-" "-"' in errors
