"""Keeping the index up to date beside a crawl: a process of low priority that only reads the archive.

It is the one that writes the index meanwhile. Ended at any moment, it leaves the state of its last commit, from which
the next update goes on.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from holdfast.archive.archive import Archive
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.index")

_NICENESS = 15


class IndexKeeper:
    """Runs inside the `with`."""

    def __init__(self, root: Path, every_s: float) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from holdfast.archive.index_keeper import main; main()",
                str(root.absolute()),
                str(every_s),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.terminate()
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Updates every so often, until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started us
    os.nice(_NICENESS)
    root, every_s = Path(sys.argv[1]), float(sys.argv[2])
    while not select.select([sys.stdin], [], [], every_s)[0]:
        try:
            with Archive(root, read_only=True) as archive:
                archive.index.update()
        except HoldfastError as error:
            log.info("the index was not brought up to date: %s", error)
