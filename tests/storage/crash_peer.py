"""Another process at the same archive, told by lines on its standard input what to do; it answers each with a line.

get KEY        the content's sha256
watch KEY SUM  from now on, read this content again and again, and see that it has this sum
round          wait until everything watched has been read once more
checks         from now on, check the archive again and again
drop           give up all privileges
write          open the archive for writing, and keep it open
repair         check and repair
end            stop; tells how often it read or checked, and every error
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import holdfast
from holdfast import Archive, CheckOptions, ContentKey
from holdfast.env import REAL
from holdfast.errors import HoldfastError

NOBODY = 65534
_ticks = count()
HURRIED = replace(REAL, monotonic=lambda: float(next(_ticks)))  # every look-up is due for a refresh


class Peer:
    """Answers in the main thread; watches and checks in one of its own."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.reader: Archive | None = None
        self.writer: Archive | None = None
        self.watched: dict[str, str] = {}
        self.rounds = 0
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._turned = threading.Condition()
        self._worker: threading.Thread | None = None

    def answer(self, line: str) -> str:
        what, *words = line.split()
        try:
            match what:
                case "get":
                    return self._sum(words[0])
                case "watch":
                    self._watch(*words)
                case "round":
                    self._wait_for_a_round()
                case "checks":
                    self._start(self._check)
                case "drop":
                    drop_privileges()
                case "write":
                    self.writer = holdfast.open(self.path)
                case "repair":
                    holdfast.check(self.path, CheckOptions(repair=True))
                case "end":
                    return self._end()
        except HoldfastError as error:
            return f"{type(error).__name__}: {error}"
        return "ok"

    def _sum(self, key: str) -> str:
        if self.reader is None:
            self.reader = Archive(self.path, read_only=True, env=HURRIED)
        return hashlib.sha256(self.reader.contents.get(ContentKey.parse(key))).hexdigest()

    def _watch(self, key: str, wanted: str) -> None:
        self._sum(key)
        self.watched[key] = wanted
        self._start(self._read)

    def _start(self, work: Callable[[], None]) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._repeat, args=(work,))
            self._worker.start()

    def _repeat(self, work: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                work()
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")
            with self._turned:
                self.rounds += 1
                self._turned.notify_all()

    def _wait_for_a_round(self) -> None:
        with self._turned:
            wanted = self.rounds + 2  # the one under way began before
            self._turned.wait_for(lambda: self.rounds >= wanted)

    def _read(self) -> None:
        for key, wanted in list(self.watched.items()):
            if self._sum(key) != wanted:
                self.errors.append(f"{key} is something else")
        assert self.reader is not None
        for _ in self.reader.contents.scan():
            pass

    def _check(self) -> None:
        self.errors += [str(fault) for fault in holdfast.check(self.path).faults]

    def _end(self) -> str:
        self._stop.set()
        if self._worker is not None:
            self._worker.join()
        return json.dumps({"rounds": self.rounds, "errors": self.errors[:5]})


def drop_privileges() -> None:
    """Everything is imported before: the interpreter's own files may not be readable afterwards."""
    import pickle  # noqa: F401

    import rocksdict  # noqa: F401

    import holdfast.archive.check
    import holdfast.storage.maintenance.repair  # noqa: F401

    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


if __name__ == "__main__":
    peer = Peer(sys.argv[1])
    for line in sys.stdin:
        print(peer.answer(line), flush=True)
