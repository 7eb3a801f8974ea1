"""The process that `test_ticket_kill` kills: commits with tickets and tells its parent of every answer.

Run as a program it is a server that never opens a volume itself, so that it can fork: for each line of JSON on its
standard input it forks a child that goes on from a sequence until it is killed. Both write lines to the descriptor
given as argument:

    pid 4711                       a child has the volume open
    done 17 18                     commit 17 is acknowledged; the counter of the shared block is 18
    error ...                      something that must not happen
    end                            the child is gone
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.config import StoreSettings
from holdfast.env import REAL
from holdfast.storage.volume import IdempotencyKey, Operation, Store
from holdfast.storage.volumes.organizations import compact_volume, open_volume
from holdfast.testing.volumes import plain, sign

CLIENT = b"killable"
SETTINGS = StoreSettings(segment_bytes_max=8192, keydir_cache_bytes=1 << 20)


def operations(sequence: int) -> list[Operation]:
    """A reference to what all commits share, and a block of this commit's own."""
    return [Store(sign("shared"), plain(b"shared")), Store(sign(sequence), plain(b"%d" % sequence))]


def live(order: dict[str, Any], say: Callable[[str], None]) -> None:
    volume = open_volume("v0", Path(order["path"]), SETTINGS, REAL)
    say(f"pid {os.getpid()}")
    for sequence in count(order["first"]):
        idempotency_key = IdempotencyKey(CLIENT, sequence, max(0, sequence - 3))
        shared, own = volume.commit(operations(sequence), idempotency_key)
        assert own.references == 1
        say(f"done {sequence} {shared.references}")
        if sequence % 40 == 0:
            compact_volume(volume, 0.0, None)


def serve(descriptor: int) -> None:
    def say(line: str) -> None:
        os.write(descriptor, (line + "\n").encode()[:4096])

    for line in sys.stdin:
        if not (child := os.fork()):
            try:
                live(json.loads(line), say)
            except BaseException:
                say(f"error {traceback.format_exc()!r}")
            os._exit(1)
        os.waitpid(child, 0)
        say("end")


if __name__ == "__main__":
    serve(int(sys.argv[1]))
