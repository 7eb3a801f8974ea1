"""Leases on active states: who reads one for long says so, and an update that is about to remove waits (B8).

A lease is a shared lock (`flock`) on `leases/<generation>`; a process that dies loses its own. After a switch, whatever
only the older states show is removed, under `keep = "latest"`, when nobody holds a lease on those any more, or when
the update is no longer willing to wait. New readers see the new state, so they are not waited for.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.config import Settings
from holdfast.env import Environment, paths
from holdfast.records.active_state import ActiveState, active_state

_POLL_S = 0.05


@contextmanager
def leased(root: Path, settings: Settings, env: Environment) -> Iterator[ActiveState | None]:
    """The active state, with a lease on it; None under the incremental scheme, where nothing is waited for."""
    while True:
        state = active_state(root, settings, env)
        lease = _take(_path(root, state.generation)) if state is not None else None
        if state is None or state == active_state(root, settings, env):
            break
        _give_back(lease)  # there was a switch in between
    try:
        yield state
    finally:
        _give_back(lease)


def allow_leases(root: Path, generation: int) -> None:
    """Makes the file that readers lock: they may not be permitted to."""
    path = _path(root, generation)
    path.parent.mkdir(exist_ok=True)
    path.touch()


def end_leases(root: Path, generation: int, wait_s: float, env: Environment) -> bool:
    """Waits until nobody holds a lease on an older state than this, at most so long. False: somebody still does."""
    deadline = env.monotonic() + wait_s
    are_over = True
    directory = root / paths.LEASES
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path == _path(root, generation):
            continue
        while not (is_free := _is_free(path)) and env.monotonic() < deadline:
            env.sleep(_POLL_S)
        are_over = are_over and is_free
        path.unlink(missing_ok=True)
    return are_over


def _path(root: Path, generation: int) -> Path:
    return root / paths.LEASES / f"{generation:06d}"


def _take(path: Path) -> int | None:
    """A descriptor that has the shared lock; None if an update has stopped waiting for those who read this state."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _give_back(lease: int | None) -> None:
    if lease is not None:
        os.close(lease)


def _is_free(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
