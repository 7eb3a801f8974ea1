"""What compactions of all organizations report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int], None]  # bytes read since the last call


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did. `files` were rewritten: segments, or block files of a tree."""

    files: int
    bytes_before: int
    bytes_after: int
