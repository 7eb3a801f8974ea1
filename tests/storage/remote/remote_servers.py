"""Volume servers in processes of their own: the real program, or the same server forked by one that has it loaded.

As a program this file is that process: it reads one request per line of its input, a JSON object, and forks for each.
The child serves, and prints its number and its port; what keeps it from serving is printed instead.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECRET = b"a secret that the tests share"
SOURCE = Path(__file__).parents[3] / "src"
LONG_S = 120.0


@dataclass
class Server:
    """A server that runs, seen from the test."""

    pid: int
    port: int
    directory: Path
    process: subprocess.Popen[str] | None = None  # of the real program
    _pidfd: int = field(init=False)

    def __post_init__(self) -> None:
        self._pidfd = os.pidfd_open(self.pid)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._pidfd >= 0 and not select.select([self._pidfd], [], [], 0)[0]

    def signal(self, number: int) -> None:
        if self.is_running:
            signal.pidfd_send_signal(self._pidfd, number)

    def wait(self) -> None:
        """Until the process has ended."""
        if self._pidfd >= 0:
            assert select.select([self._pidfd], [], [], LONG_S)[0], "the server does not end"
            os.close(self._pidfd)
            self._pidfd = -1

    def stop(self) -> None:
        self.signal(signal.SIGTERM)
        self.wait()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def memory_bytes(self) -> int:
        """What the process has in memory now."""
        return self._told("VmRSS")

    def peak_bytes(self) -> int:
        """The most that the process has had in memory."""
        return self._told("VmHWM")

    def _told(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        (line,) = [line for line in lines if line.startswith(f"{name}:")]
        return int(line.split()[1]) << 10

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST")}
    return inherited | {"PYTHONPATH": str(SOURCE)}


def program(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "holdfast", *map(str, arguments)]


@contextmanager
def serving(directory: Path, secret_file: Path, *options: str | Path) -> Iterator[Server]:
    """`holdfast volume serve` for one directory, until the end of the `with`."""
    command = program("volume", "serve", directory, "--listen", "127.0.0.1:0", "--json", *options)
    command += ["--secret-file", str(secret_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True) as process:
        assert process.stdout is not None
        server = Server(process.pid, json.loads(process.stdout.readline())["port"], directory, process)
        try:
            yield server
        finally:
            server.stop()


class Forks:
    """Starts servers quickly."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lock = threading.Lock()

    def serve(self, directory: Path, *, organization: str = "log", port: int = 0, **options: Any) -> Server:
        """Serves the volume in the directory, made first if there is none. Options are those of `ServerOptions`.

        `store` has settings of the volume; `file_bytes_max` limits what the process may write into one file; `tls`
        names certificate, key and the clients' authority.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"directory": str(directory), "organization": organization, "port": port, "options": options}
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().split(None, 1)
        assert len(answer) == 2, "no answer"
        assert answer[1].strip().isdigit(), answer[1]
        return Server(int(answer[0]), int(answer[1]), directory)


@contextmanager
def forking() -> Iterator[Forks]:
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            yield Forks(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LONG_S)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _main() -> None:
    import uvloop  # noqa: F401  loaded before the fork

    import holdfast.storage.server.main  # noqa: F401

    for line in iter(sys.stdin.readline, ""):
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork():
            continue
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            _serve(json.loads(line))
            code = 0
        except Exception as error:
            print(os.getpid(), f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)
        finally:
            os._exit(code)


def _serve(request: dict[str, Any]) -> None:
    import logging
    import resource

    from holdfast.config import StoreSettings, VolumeSettings
    from holdfast.env import REAL, paths
    from holdfast.storage.server.main import serve_volumes
    from holdfast.storage.server.options import ServerOptions, server_tls
    from holdfast.storage.volumes.organizations import create_volume

    logging.basicConfig(level=logging.ERROR)
    directory, options = Path(request["directory"]), request["options"]
    settings = StoreSettings(**options.pop("store", {}))
    if not (directory / paths.VOLUME).exists():
        volume = VolumeSettings("v0", request["organization"], depth=2)
        create_volume(directory, volume, settings, REAL)
    if limit := options.pop("file_bytes_max", None):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    if tls := options.pop("tls", None):
        options["tls"] = server_tls(*(Path(each) if each else None for each in tls))  # type: ignore[arg-type]
    secret = options.pop("secret", SECRET.decode())
    chosen = ServerOptions(port=request["port"], secret=secret.encode() if secret else None, **options)

    def ready(_: int, addresses: list[tuple[str, int]]) -> None:
        print(os.getpid(), addresses[0][1], flush=True)
        os.dup2(2, 1)

    failures: list[Exception] = []
    serve_volumes([(directory, chosen)], settings, REAL, ready, lambda _, error: failures.append(error))
    if failures:
        raise failures[0]


if __name__ == "__main__":
    _main()
