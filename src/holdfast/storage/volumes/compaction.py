"""What compactions of all organizations report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.storage.volume import Remote

Progress = Callable[[int], None]  # bytes read since the last call


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did. `files` were rewritten: segments, or block files of a tree."""

    files: int
    bytes_before: int
    bytes_after: int


@runtime_checkable
class SelfCompacting(Remote, Protocol):
    """A volume on another machine, whose server reclaims its space."""

    def compact(self, dead_share_min: float, progress: Progress | None) -> Compaction: ...
