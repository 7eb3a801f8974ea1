"""A clock that a test sets: of this process, and of all that crawls start."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

_AHEAD = "CLOCK_OF_A_TEST_AHEAD_S"
_HOOK = f"""
import os, time

_true = time.time
_ahead = float(os.environ["{_AHEAD}"])
time.time = lambda: _true() + _ahead
"""


class Clock:
    """The machine's time, and as much more as a test adds. A process that runs keeps what it was started with."""

    def __init__(self, hooks: Path, patched: pytest.MonkeyPatch) -> None:
        self._true = time.time
        self._patched = patched
        self.hooks = hooks
        self.ahead_s = 0.0
        hooks.mkdir()
        (hooks / "sitecustomize.py").write_text(_HOOK)
        patched.syspath_prepend(hooks)  # which the processes of a crawl get
        patched.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(hooks), os.environ.get("PYTHONPATH", "")))))
        patched.setattr(time, "time", self.now)
        self.advance(0.0)

    def now(self) -> float:
        return self._true() + self.ahead_s

    def advance(self, seconds: float) -> None:
        self.ahead_s += seconds
        self._patched.setenv(_AHEAD, str(self.ahead_s))
