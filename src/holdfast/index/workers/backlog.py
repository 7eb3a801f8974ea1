"""The backlog: which records are to be indexed, in tasks of about the same size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.batches.batch import BatchState
from holdfast.batches.frame import FramePlace
from holdfast.catalog import Catalog
from holdfast.index.state import IndexState
from holdfast.index.workers.task import IndexTask
from holdfast.model import RecordId

TASK_RECORDS = 128


def targets(state: IndexState, catalog: Catalog) -> list[tuple[str, int, int]]:
    """Name, first serial and end of what is not indexed, of all batches in the order of their numbers."""
    names = [name for name, _ in state.batches]
    names += sorted(set(catalog.batches()).difference(names))
    return [(name, state.end_of(name), _end(catalog, name)) for name in names]


def pending(state: IndexState, catalog: Catalog) -> int:
    """How many records have come that are not indexed."""
    return sum(max(0, end - first) for _, first, end in targets(state, catalog))


def tasks(wanted: Sequence[tuple[str, int, int]], catalog: Catalog) -> Iterator[IndexTask]:
    """Tasks for these records, in their order."""
    for number, (batch, first, end) in enumerate(wanted):
        places: list[bytes] = []
        begin = first
        for serial, packed in catalog.frames(batch, first) if first < end else ():
            if serial >= end:
                break
            if places and serial - begin >= TASK_RECORDS:
                yield IndexTask(batch, number, begin, serial, tuple(places))
                places, begin = [], serial
            places.append(packed)
        if places:
            yield IndexTask(batch, number, begin, end, tuple(places))


def tasks_for(records: Sequence[RecordId], state: IndexState, catalog: Catalog) -> Iterator[IndexTask]:
    """Tasks for single records, one for each frame that holds some, in the order of their numbers."""
    frames: dict[tuple[str, bytes], list[int]] = {}
    for record in sorted(records, key=lambda each: state.number_of(each) or 0):
        packed = catalog.frame_of(record)
        if packed is not None:
            frames.setdefault((record.batch, packed), []).append(record.serial)
    for (batch, packed), serials in frames.items():
        number = state.batch_number(batch)
        assert number is not None, "only records of the index are indexed again"
        place = FramePlace.unpack(packed)
        yield IndexTask(batch, number, place.first_serial, serials[-1] + 1, (packed,), tuple(serials))


def _end(catalog: Catalog, batch: str) -> int:
    return BatchState.unpack(catalog.batch_state(batch)).next_serial
