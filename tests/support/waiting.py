"""Waiting for something that another process does, and does not tell of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 120.0  # after which something is wrong, on any machine
_LOOK_S = 0.01


def wait_until(is_so: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Looks again and again, and fails by an AssertionError that says `what` was waited for in vain."""
    deadline = time.monotonic() + patience_s
    never = threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, f"in vain: {what}"
        never.wait(_LOOK_S)
