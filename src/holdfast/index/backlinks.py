"""The rows of the table `backlinks` that wait for a commit: sixteen bytes for each link, sorted when it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow

Numbers = NDArray[np.uint64]


class Backlinks:
    """Targets and records of links. For one thread at a time."""

    def __init__(self) -> None:
        self._targets: list[Numbers] = []
        self._records: list[Numbers] = []

    def add(self, links: pyarrow.Table) -> None:
        """Copies what it needs of these rows."""
        self._targets += _copies(links["target_page"])
        self._records += _copies(links["number"])

    def rows(self) -> pyarrow.Table:
        """All of them, in the order of targets."""
        import pyarrow

        targets, records = (np.concatenate([np.empty(0, np.uint64), *each]) for each in (self._targets, self._records))
        order = np.argsort(targets)
        return pyarrow.table([_array(targets[order]), _array(records[order])], ["target_page", "number"])


# Arrow's own ways to numpy and back load pandas where it is installed, which takes longer than all else here.


def _copies(column: pyarrow.ChunkedArray) -> list[Numbers]:
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    return [np.frombuffer(each.buffers()[1], np.uint64, len(each), each.offset * 8).copy() for each in chunks]


def _array(numbers: Numbers) -> pyarrow.Array:
    import pyarrow

    return pyarrow.Array.from_buffers(pyarrow.uint64(), len(numbers), [None, pyarrow.py_buffer(numbers.data)])
