"""A view: the index as it was at one moment, for reading."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.index import layout
from holdfast.index.state import State
from holdfast.index.words import beyond, range_query, records_query
from holdfast.model import RecordId
from holdfast.records.active import ActiveState

if TYPE_CHECKING:
    import tantivy


class View:
    """Words, tables and state that belong together. Any thread may use it, for as long as it likes.

    Words stay readable whatever happens to the index. Files of tables that were merged or rewritten since are gone: who
    gets FileNotFoundError asks for a new view.
    """

    def __init__(
        self,
        directory: Path,
        state: State,
        searcher: tantivy.Searcher,
        removed: Collection[RecordId],
        *,
        opstamp: int,
        shown: ActiveState | None = None,
    ) -> None:
        """`shown` is what may be found; None: everything."""
        self.state = state
        self.searcher = searcher
        self.removed = frozenset(removed)
        self._directory = directory
        self.reached = state if shown is None else _up_to(state, shown)  # what may be found, and no further
        self._is_ahead = opstamp != state.opstamp or self.reached != state

    def table_files(self, table: str) -> list[Path]:
        """The Parquet files of one of the tables (`TABLES`). Rows of `removed` records may still be in them."""
        tables = self._directory / layout.tables_name(self.state.generation)
        return [tables / each.name for each in self.state.tables[table]]

    def restricted(self, query: tantivy.Query) -> tantivy.Query:
        """A query that finds nothing that was removed or is beyond what is shown. All questions go through it."""
        from tantivy import Occur, Query

        unwanted = self._unwanted
        if not unwanted:
            return query
        return Query.boolean_query([(Occur.Must, query), *((Occur.MustNot, each) for each in unwanted)])

    @cached_property
    def _unwanted(self) -> list[tantivy.Query]:
        numbers = [number for each in self.removed if (number := self.state.number_of(each)) is not None]
        found = [records_query(numbers)] if numbers else []
        if self._is_ahead:
            found += [range_query(first, last) for first, last in beyond(self.reached)]
        return found

    def record_of(self, number: int) -> RecordId:
        """The record of a number that the words or the tables gave."""
        return self.state.record_of(number)

    def number_of(self, record: RecordId) -> int | None:
        """The number of a record; None if it is not in the index."""
        return None if record in self.removed else self.state.number_of(record)


def _up_to(state: State, shown: ActiveState) -> State:
    """The state as if it reached no further than what is shown."""
    return replace(state, batches=tuple((name, min(end, shown.batches.get(name, 1))) for name, end in state.batches))
