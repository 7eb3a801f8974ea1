"""The real `holdfast serve` in processes of its own, on ports of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wire import Answer, ask, request

from holdfast.archive import Plan, init
from holdfast.archive import open as open_archive
from holdfast.archive.ingest.exchange import page

SOURCE = Path(__file__).parents[3] / "src"
END_S = 60


@dataclass(frozen=True)
class Program:
    """A server that is ready."""

    process: subprocess.Popen[bytes]
    pages: str
    replay: str
    told: dict[str, Any]  # what it printed

    @property
    def ports(self) -> tuple[int, int]:
        return urlsplit(self.pages).port or 0, urlsplit(self.replay).port or 0

    def ask(self, target: str, *fields: str) -> Answer:
        return ask(self.ports[0], request(target, *fields))

    def status(self) -> dict[str, Any]:
        answer = self.ask("/status")
        assert answer.status == 200, answer
        told: dict[str, Any] = json.loads(answer.body)
        return told

    def workers(self) -> list[int]:
        """Their process ids."""
        return [worker["pid"] for worker in self.status()["workers"]]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code, and what it said meanwhile."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=END_S)
        return self.process.returncode, errors.decode()


def command(archive: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", "serve", "-a", str(archive), *options]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST")}
    return kept | {"PYTHONPATH": os.pathsep.join([str(SOURCE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}


@contextmanager
def program(archive: Path, *options: str) -> Iterator[Program]:
    """Started, ready, and gone at the end, however the test ends."""
    pipe = subprocess.PIPE
    arguments = command(archive, "-p", "0", "--json", *options)
    process = subprocess.Popen(arguments, stdout=pipe, stderr=pipe, env=environment())
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read().decode()
        told = json.loads(line)
        yield Program(process, told["pages"], told["replay"], told)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def make_archive(directory: Path) -> Path:
    init(directory, Plan())
    return directory


def add_page(archive: Path, url: str, body: bytes = b"<p>Hello</p>") -> None:
    with open_archive(archive) as opened:
        opened.add([page(url, body)])


def configure(archive: Path, text: str) -> None:
    """Adds lines to the settings."""
    path = archive / "holdfast.toml"
    path.write_text(f"{path.read_text()}\n{text}\n")


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits to be noticed does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
