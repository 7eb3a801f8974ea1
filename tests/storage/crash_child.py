"""The process that `test_kill` kills: works on an archive from several threads and tells its parent of every step.

Run as a program it is a server that never opens an archive itself, so that it can fork: for each line of JSON on its
standard input it forks a child that works until it is killed. Both write lines to the descriptor given as argument:

    pid 4711                       a child has the archive open
    begin 2 put 17                 thread 2 starts to store content 17
    done 2 put 17 v0:ab12...       it is acknowledged
    begin 2 delete v0:ab12...
    done 2 delete v0:ab12...
    begin m compact v0             the maintenance thread; likewise train, migrate
    error 2 ...                    something that must not happen
    end                            the child is gone
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import holdfast
from holdfast import Archive, ContentKey, VolumeState
from holdfast.errors import UsageError

CONTENTS = 60
THREADS = 3


def content(number: int) -> bytes:
    """Text that compresses, and differs from every other."""
    random = Random(number)
    words = " ".join(random.choice(("keep", "every", "content", "once", "never", "lost")) for _ in range(number % 90))
    return b"<p>content %d</p>%s" % (number, words.encode())


@dataclass(slots=True)
class Child:
    """One life. `held` are the contentkeys that are there when it begins."""

    archive: Archive
    say: Callable[[str], None]
    seed: int
    held: dict[str, list[str]]

    def run(self) -> None:
        threads = [threading.Thread(target=self._guarded, args=(str(n), self._work)) for n in range(THREADS)]
        threads.append(threading.Thread(target=self._guarded, args=("m", self._maintain)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _guarded(self, name: str, work: Callable[[str, Random], None]) -> None:
        try:
            work(name, Random(f"{self.seed} {name}"))
        except BaseException:
            self.say(f"error {name} {traceback.format_exc()!r}")
            os._exit(1)

    def _work(self, name: str, random: Random) -> None:
        """Stores contents that other threads store too, and deletes what it stored itself or was given."""
        mine = list(self.held.get(name, []))
        while True:
            if mine and random.random() < 0.45:
                key = mine.pop(random.randrange(len(mine)))
                self.say(f"begin {name} delete {key}")
                self.archive.contents.delete(ContentKey.parse(key))
                self.say(f"done {name} delete {key}")
                continue
            number = random.randrange(CONTENTS)
            self.say(f"begin {name} put {number}")
            key = str(self.archive.contents.put(content(number)))
            self.say(f"done {name} put {number} {key}")
            mine.append(key)

    def _maintain(self, name: str, random: Random) -> None:
        volumes = [volume.name for volume in self.archive.settings.volume]
        for volume in volumes:
            self.archive.set_state(volume, VolumeState.WRITABLE)
        for turn in count():
            volume = random.choice(volumes)
            self.say(f"begin {name} turn {turn}")
            if turn % 3 == 2 and len(volumes) > self.archive.settings.store.replicas:
                self.archive.migrate(volume)
                self.archive.set_state(volume, VolumeState.WRITABLE)
            elif turn % 7 == 3:
                self._train(volume)
            else:
                self.archive.compact(volume)
            self.say(f"done {name} turn {turn}")

    def _train(self, volume: str) -> None:
        with suppress(UsageError):  # too few contents, as it happens
            self.archive.train(volume)


def live(order: dict[str, Any], say: Callable[[str], None]) -> None:
    archive = holdfast.open(order["path"])
    say(f"pid {os.getpid()}")
    Child(archive, say, order["seed"], order["held"]).run()


def serve(descriptor: int) -> None:
    def say(line: str) -> None:
        os.write(descriptor, (line + "\n").encode()[:4096])

    for line in sys.stdin:
        if not (child := os.fork()):
            try:
                live(json.loads(line), say)
            except BaseException:
                say(f"error - {traceback.format_exc()!r}")
            os._exit(1)
        os.waitpid(child, 0)
        say("end")


if __name__ == "__main__":
    serve(int(sys.argv[1]))
