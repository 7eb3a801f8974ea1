"""Python's collector of cycles, for processes that make many objects and hardly a cycle.

By default it looks at all young objects after every 700 new ones: a tenth of the time of a crawl, for next to nothing.
"""

from __future__ import annotations

import gc

_NEW_OBJECTS = 200_000


def collect_seldom() -> None:
    """For a process that has loaded what it needs."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 50, 1000)
