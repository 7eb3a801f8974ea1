"""`holdfast volume serve`, started and stopped, and clients of its volumes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from program import Shell

from holdfast.config import RemoteSettings
from holdfast.env import REAL
from holdfast.storage.volumes.remote.client import RemoteVolume


@contextmanager
def served(shell: Shell, *words: str, volumes: int = 1) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, int]]]:
    """The program, and the port of each directory."""
    with shell.start("volume", "serve", "--listen", "127.0.0.1:0", "--json", *words) as process:
        try:
            assert process.stdout is not None
            told = [json.loads(process.stdout.readline()) for _ in range(volumes)]
            yield process, {each["directory"]: each["port"] for each in told}
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate()


def client(shell: Shell, port: int, retry_s: float = 30.0) -> RemoteVolume:
    settings = RemoteSettings(secret_file="secret", retry_s=retry_s)
    return RemoteVolume("v0", f"127.0.0.1:{port}", settings, REAL, shell.directory)


def ended(process: subprocess.Popen[bytes]) -> str:
    """What the program wrote to standard error, once it has ended in order."""
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return errors.decode()


def child_pids(process: subprocess.Popen[bytes]) -> list[int]:
    """Of the processes that it has started, in order."""
    found = [Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()]
    return sorted(int(pid) for each in found for pid in each.split())
