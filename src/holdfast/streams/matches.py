"""Matches: the records that a query finds, one bit for each record of the snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.errors import IndexNotFound
from holdfast.index.state import State
from holdfast.model import RecordId
from holdfast.streams.snapshot import Snapshot

if TYPE_CHECKING:
    from holdfast.streams.source import Source

_SERIAL_BITS = 32


class Matches:
    """Any thread may ask. A hundred million records take 12 megabytes."""

    def __init__(self, bits: Mapping[str, bytes]) -> None:
        self._bits = bits

    def __call__(self, record: RecordId) -> bool:
        bits = self._bits.get(record.batch, b"")
        place = record.serial >> 3
        return place < len(bits) and bool(bits[place] >> (record.serial & 7) & 1)


def find_matches(source: Source, query: str, snapshot: Snapshot, ranks: int) -> Matches:
    """What the query finds in the snapshot: the same whenever it is asked, but for what was removed since.

    Raises MalformedQuery, or IndexNotFound: also if the index reaches less far than the snapshot, which it may when it
    was deleted, or is being made anew, since the stream began.
    """
    import numpy

    while True:
        state = source.index.state()
        _require_indexed(snapshot, state)
        numbers = source.queries.records_matching(query, snapshot.ends, ranks or None)
        if source.index.state().generation == state.generation:  # else batches may have got other numbers
            break
    names = [name for name, _ in source.index.state().batches]
    batches, serials = numbers >> _SERIAL_BITS, numbers & ((1 << _SERIAL_BITS) - 1)
    bits: dict[str, bytes] = {}
    for number in numpy.unique(batches).tolist():
        found = serials[batches == number]
        marked = numpy.zeros(int(found.max()) + 1, numpy.bool_)
        marked[found.astype(numpy.int64)] = True
        bits[names[number]] = numpy.packbits(marked, bitorder="little").tobytes()
    return Matches(bits)


def _require_indexed(snapshot: Snapshot, state: State) -> None:
    """What is not indexed would pass for what does not match."""
    ends = dict(state.batches)
    for batch, end in snapshot.ends.items():
        if (indexed := ends.get(batch, 1)) < end:
            raise IndexNotFound(
                f"the index reaches less far than the token's stream: batch {batch!r} up to {indexed - 1}, the stream "
                f"up to {end - 1}; run 'holdfast index update'"
            )
