"""The process that `test_archive_kill` kills: it works on an archive, and tells its parent of every write and sync.

Run as a program it is a server that never opens an archive itself, so that it can fork: for each line of JSON on its
standard input it forks a child that does what it says. Both write lines to the descriptor given as argument:

    pid 4711        a child begins
    .               it is about to write or sync
    error ...       something that must not happen
    end 0           the child is gone: done (0) or killed
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from small_limits import shrink
from truths import import_all

import holdfast
from holdfast.archive import backup
from holdfast.archive.ingest import file_reader
from holdfast.archive.removal import RemovalOptions
from holdfast.archive.update import UpdateOptions
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.env.files import LocalFile, LocalFiles
from holdfast.records.selection import Selection


def tell(kind: type[Any], name: str, say: Callable[[str], None]) -> None:
    """Each call of the method is told of before it happens."""
    method = getattr(kind, name)

    def told(*arguments: Any, **more: Any) -> Any:
        say(".")
        return method(*arguments, **more)

    setattr(kind, name, told)


file_reader.DRAFTS_MAX = backup.GROUP_MAX = 8  # many additions


def work(order: dict[str, Any]) -> None:
    if order["what"] == "backup":
        with holdfast.open(order["path"], read_only=True) as archive:
            archive.back_up("late", order["backup"])
        return
    with holdfast.open(order["path"]) as archive:
        if order["what"] == "import":
            import_all(archive, *map(Path, order["files"]), jobs=2)
        elif order["what"] == "restore":
            archive.restore(order["backup"])
        elif order["what"] == "update":
            archive.updates.run(UpdateOptions(wait_s=0))
        else:
            options = RemovalOptions("asked", refuse=order["refuse"])
            archive.remove(Selection(CaptureQuery(url=order["url"])), options)


def mortal(say: Callable[[str], None], reports: int) -> Callable[[str], None]:
    """The process kills itself when it is about to say something for so many times; 0: never."""
    said = count(1)

    def last_words(line: str) -> None:
        if next(said) == reports:
            os.kill(os.getpid(), signal.SIGKILL)
        say(line)

    return last_words


def live(order: dict[str, Any], say: Callable[[str], None]) -> int:
    say(f"pid {os.getpid()}")
    say = mortal(say, order.get("die", 0))
    for name in ("append", "sync", "truncate"):
        tell(LocalFile, name, say)
    for name in ("rename", "remove", "sync_directory"):
        tell(LocalFiles, name, say)
    tell(Catalog, "add", say)
    try:
        work(order)
    except BaseException:
        say(f"error {traceback.format_exc()!r}")
        return 1
    return 0


def serve(descriptor: int) -> None:
    def say(line: str) -> None:
        os.write(descriptor, (line + "\n").encode()[:4096])

    for line in sys.stdin:
        if not (child := os.fork()):
            os._exit(live(json.loads(line), say))
        _, status = os.waitpid(child, 0)
        say(f"end {status}")


if __name__ == "__main__":
    shrink(setattr)
    serve(int(sys.argv[1]))
