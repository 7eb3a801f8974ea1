"""Which captures some queries match: record numbers of the index, looked up many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from holdfast.index.schema import record_number
from holdfast.model import RecordId
from holdfast.query.snapshot import Numbers
from holdfast.study.engine.scan import StudySource

_TRIES = 5
Flags = np.ndarray[Any, np.dtype[np.bool_]]


class QueryMatches:
    """The matches of some queries, all of one state of the index. Memory: eight bytes for each."""

    def __init__(self, source: StudySource, queries: Sequence[str]) -> None:
        """Raises MalformedQuery or IndexNotFound."""
        archive, part = source.archive, source.part
        for _ in range(_TRIES):
            state = archive.index.view().state
            ends = dict(state.batches)
            self._found = [
                archive.queries.records_matching(query, ends) if part is None else part.matching(query)
                for query in queries
            ]
            if archive.index.view().state.generation == state.generation:
                break  # otherwise the index was rebuilt meanwhile
        self._batches = {name: (number, end) for number, (name, end) in enumerate(state.batches)}

    def numbers(self, records: Iterable[RecordId]) -> Numbers:
        """Their numbers in the index; 0 for those that are not indexed."""
        return np.array([self._number(record) for record in records], np.uint64)

    def _number(self, record: RecordId) -> int:
        number, end = self._batches.get(record.batch, (0, 0))
        return record_number(number, record.serial) if record.serial < end else 0

    def flags(self, query: int, numbers: Numbers) -> Flags:
        """Whether the records of these numbers match the query, given by its place."""
        found = self._found[query]
        if not len(found):
            return np.zeros(len(numbers), np.bool_)
        flags: Flags = found[np.minimum(np.searchsorted(found, numbers), len(found) - 1)] == numbers
        return flags
