"""A process is killed while it commits with tickets; the next one hands in again what was not acknowledged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import IO

import pytest
import ticket_child

from holdfast.config import VolumeSettings
from holdfast.env import REAL
from holdfast.storage.volume import BlockKey, IdempotencyKey
from holdfast.storage.volumes.organizations import create_volume, open_volume
from holdfast.testing.volumes import fetched, sign, totals

pytest_plugins = ["crash_fixtures"]

SHARED = BlockKey(sign("shared"))


def life(orders: IO[str], reports: IO[str], path: Path, first: int, answers: int) -> int:
    """A child commits from `first` on and is killed after so many answers; returns the first without one."""
    orders.write(json.dumps({"path": str(path), "first": first}) + "\n")
    orders.flush()
    pid = None
    for heard, line in enumerate(reports):
        what, *words = line.split()
        if what == "pid":
            pid = int(words[0])
        elif what == "done":
            assert [int(word) for word in words] == [first, first], "each commit adds one reference"
            first += 1
        elif what == "end":
            return first
        else:
            pytest.fail(line.replace("\\n", "\n"))
        if heard == answers and pid is not None:
            os.kill(pid, signal.SIGKILL)
    pytest.fail("the server of children is gone")


@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_what_is_handed_in_again_after_a_kill_happened_once(quick: Path, organization: str) -> None:
    create_volume(quick, VolumeSettings("v0", organization, depth=2), ticket_child.SETTINGS, REAL)
    mine, theirs = os.pipe()
    command = [sys.executable, ticket_child.__file__, str(theirs)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    random, first = Random(organization), 1
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, pass_fds=[theirs], env=environment) as server:
        os.close(theirs)
        assert server.stdin is not None
        with os.fdopen(mine) as reports:
            for turn in range(25):
                first = life(server.stdin, reports, quick, first, random.choice((0, 1, 4, 20, 50)))
                if turn % 5 == 0:
                    _verify(quick, first)
            server.stdin.close()
    _verify(quick, first)


def _verify(path: Path, first: int) -> None:
    """All before `first` have happened, and that itself has, or has not, as a whole."""
    volume = open_volume("v0", path, ticket_child.SETTINGS, REAL)
    try:
        shared = fetched(volume, SHARED)
        happened = shared[1] if shared else 0
        assert happened in (first - 1, first)
        assert totals(volume)[0] == (happened + 1 if happened else 0)
        if first > 1:
            idempotency_key = IdempotencyKey(ticket_child.CLIENT, first - 1, max(0, first - 4))
            assert volume.commit(ticket_child.operations(first - 1), idempotency_key)[0].references == first - 1
            assert (fetched(volume, SHARED) or (b"", 0))[1] == happened
    finally:
        volume.close()
