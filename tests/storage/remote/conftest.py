"""Volume servers for the tests, stopped when the test, the module or the session ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from remote_proxy import Chaos, Proxy, proxied
from remote_servers import SECRET, Forks, Server, forking, program, serving

from holdfast.config import RemoteSettings
from holdfast.env import REAL
from holdfast.storage.volumes.remote.client import RemoteVolume

Connect = Callable[..., RemoteVolume]
Serve = Callable[..., Server]


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with forking() as process:
        yield process


@pytest.fixture(scope="session")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def connect(secret_file: Path, closing: ExitStack) -> Connect:
    """A client, closed in the end: `connect(address, retry_s=1.0)`; keywords are those of `RemoteSettings`."""

    def to(address: str, **settings: Any) -> RemoteVolume:
        chosen = {"secret_file": secret_file.name, "retry_s": 60.0, "down_s": 0.05}
        volume = RemoteVolume("v0", address, RemoteSettings(**{**chosen, **settings}), REAL, secret_file.parent)
        closing.callback(volume.close)
        return volume

    return to


@pytest.fixture
def serve(forks: Forks, tmp_path: Path, closing: ExitStack) -> Serve:
    """A server for a volume in the test's own directory, stopped in the end."""

    def at(directory: Path | None = None, **options: Any) -> Server:
        server = forks.serve(directory or tmp_path / "volume", **options)
        closing.callback(server.wait)
        closing.callback(server.kill)
        return server

    return at


@pytest.fixture
def through(closing: ExitStack) -> Callable[..., Proxy]:
    """A proxy before a port."""

    def to(port: int, chaos: Chaos | None = None) -> Proxy:
        return closing.enter_context(proxied(port, chaos))

    return to


@pytest.fixture(scope="module")
def real_server(tmp_path_factory: pytest.TempPathFactory, secret_file: Path) -> Iterator[Server]:
    """The program itself, with an empty log volume."""
    import subprocess

    from remote_servers import environment

    directory = tmp_path_factory.mktemp("served") / "volume"
    subprocess.run(program("volume", "init", directory), check=True, env=environment(), capture_output=True)
    with serving(directory, secret_file) as server:
        yield server
