"""`holdfast` commands that get Ctrl-C at a chosen moment: a process that has loaded the program, and forks for each.

    stdin   seconds until SIGINT, or nothing for none, TAB command line
    stdout  exit code TAB seconds that it took

A test of hundreds of moments would else spend most of its time on loading modules. What a command itself starts is
started as always.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
INTERRUPTED = 130
_END_TIMEOUT_S = 120


class InterruptedCommands:
    """The process, seen from the test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, words: Sequence[str | Path], after_s: float | None = None) -> tuple[int, float]:
        """Runs a command to its end, which SIGINT may bring about; its exit code and the seconds that it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{'' if after_s is None else after_s}\t{shlex.join(map(str, words))}\n")
        self._process.stdin.flush()
        code, seconds = self._process.stdout.readline().split("\t")
        return int(code), float(seconds)


@contextmanager
def interrupted_commands() -> Iterator[InterruptedCommands]:
    paths = [str(SOURCE), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    ) as process:
        try:
            yield InterruptedCommands(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(_END_TIMEOUT_S)


def _main() -> None:
    import holdfast.archive.archive
    import holdfast.archive.ingest.importer
    import holdfast.cli.captures.import_
    import holdfast.cli.crawl.run
    import holdfast.crawl.crawl  # noqa: F401

    for line in iter(sys.stdin.readline, ""):
        after_s, words = line.rstrip("\n").split("\t")
        began = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until the command is ready for it
        pid = os.fork()
        if not pid:
            _run(words)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        if after_s:
            time.sleep(float(after_s))
            os.kill(pid, signal.SIGINT)  # nobody has waited for it: the number is still its own
        with suppress(ChildProcessError):
            _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), time.monotonic() - began, sep="\t", flush=True)


def _run(words: str) -> None:
    from holdfast.cli.main import run

    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        sys.argv = ["holdfast", *shlex.split(words)]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        code = run()
    except KeyboardInterrupt:  # before the command was there, or after it
        code = INTERRUPTED
    finally:
        os._exit(code)


if __name__ == "__main__":
    _main()
