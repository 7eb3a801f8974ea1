"""A process that kills itself at its n-th write or sync, as a power failure would: with no chance to tidy up.

killed_stream.py N stream ARGUMENT...      `holdfast stream` with these arguments
killed_stream.py N write ARCHIVE FIRST     adds captures from a number on until it is killed, or has added enough
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from small_limits import shrink
from stream_world import visit

import holdfast
from holdfast.cli.main import run
from holdfast.env.files import LocalFile, LocalFiles
from holdfast.streams.outputs import Delivery
from holdfast.streams.work_queue import SharedStream

WRITTEN = 40  # additions of a writer


class Countdown:
    def __init__(self, left: int) -> None:
        self._left = left

    def watch(self, kind: Any, name: str) -> None:
        method: Callable[..., Any] = getattr(kind, name)

        def counted(*arguments: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments, **more)

        setattr(kind, name, counted)


def write(path: str, first: int) -> int:
    with holdfast.open(path) as archive:
        for number in range(first, first + WRITTEN):
            archive.add([visit(f"http://w.example/{number}", number % 30, "20200101000000")], batch="late")
    return 0


def main(left: int, what: str, *arguments: str) -> int:
    countdown = Countdown(left)
    for name in ("append", "sync", "truncate"):
        countdown.watch(LocalFile, name)
    for name in ("rename", "sync_directory"):
        countdown.watch(LocalFiles, name)
    if what == "write":
        return write(arguments[0], int(arguments[1]))
    for name in ("_write", "_sync", "_finish"):
        countdown.watch(Delivery, name)
    for name in ("_take", "_acknowledge", "leave_output"):
        countdown.watch(SharedStream, name)
    sys.argv = ["holdfast", "stream", *arguments]
    return run()


if __name__ == "__main__":
    shrink(setattr)
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))


def command(left: int, what: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, __file__, str(left), what, *map(str, arguments)]
