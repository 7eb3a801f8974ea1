"""Server programs: found, started, awaited and stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness.process import Unavailable

LOOPBACK = "127.0.0.1"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0
_PAUSE_S = 0.02


def find_program(name: str, package: str) -> str:
    """Where it is, also in the directories for administrators. Raises Unavailable."""
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))
    if found is None:
        raise Unavailable(f"no program '{name}': install the Debian package '{package}'")
    return found


class Processes:
    """Those of one subject. Their output goes to files of one directory."""

    def __init__(self) -> None:
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(self, command: Sequence[str | Path], log: Path, *, is_heard: bool = False) -> subprocess.Popen[bytes]:
        """A program that writes to the log; if it is heard, its standard output is the pipe `stdout` instead."""
        with log.open("wb") as said:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if is_heard else said,
                stderr=said,
            )
        self._running.append((process, log))
        return process

    def pids(self) -> list[int]:
        return [process.pid for process, _ in self._running]

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Until it is. Raises Unavailable if a program ends before that, or too much time passes."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not is_ready():
            for process, log in self._running:
                if process.poll() is not None:
                    raise Unavailable(_last_words(process, log))
            if time.monotonic() > deadline:
                raise Unavailable(f"not ready after {_START_TIMEOUT_S:.0f} s")
            time.sleep(_PAUSE_S)

    def stop(self) -> None:
        """All of them, the last one first."""
        for process, _ in reversed(self._running):
            process.terminate()
        for process, _ in reversed(self._running):
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._running.clear()


def _last_words(process: subprocess.Popen[bytes], log: Path) -> str:
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    program = process.args[0] if isinstance(process.args, list) else process.args
    return f"'{program!s}' ended with {process.returncode} and said: {(said or ['nothing'])[-1]}"
