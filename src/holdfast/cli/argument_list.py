"""The arguments of this process, as `ps` shows them to everybody on the machine."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_STAT = Path("/proc/self/stat")
_START, _END = 45, 46  # fields of it behind the name of the program: where the arguments begin and end
_MASK = b"*"


def mask_arguments(secrets: Iterable[str]) -> None:
    """Overwrites these texts in the arguments with asterisks. Does nothing where the system has no /proc.

    They can be read until then, for the moment in which the program starts.
    """
    wanted = [os.fsencode(secret) for secret in secrets if secret]
    with suppress(OSError, IndexError, ValueError):
        facts = _STAT.read_bytes().rpartition(b")")[2].split() if wanted else []
        start, end = int(facts[_START]), int(facts[_END])
        if not 0 < start < end:
            return
        arguments = ctypes.string_at(start, end - start)
        for secret in wanted:
            at = arguments.find(secret)
            while at >= 0:
                ctypes.memset(start + at, _MASK[0], len(secret))
                at = arguments.find(secret, at + len(secret))
