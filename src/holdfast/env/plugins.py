"""Plugins: entry points of installed packages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def plugins(group: str, name: str = "") -> Iterable[EntryPoint]:
    """The entry points of a group, or the one of a name."""
    from importlib.metadata import entry_points  # slow to load

    return entry_points(group=group, name=name) if name else entry_points(group=group)
