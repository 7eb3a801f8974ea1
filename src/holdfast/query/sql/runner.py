"""A statement run: checked here, then executed by a process of its own over the tables as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.arguments import checked
from holdfast.config import QuerySettings
from holdfast.errors import DamagedIndex
from holdfast.index.index import Index
from holdfast.index.words import beyond
from holdfast.query.sql.contents import contents_of
from holdfast.query.sql.database import TABLES, SqlSources
from holdfast.query.sql.result import SqlResult
from holdfast.query.sql.statement import checked_alone
from holdfast.storage.store.store import BlockStore

_TRIES = 5


@checked
def run_sql(
    text: str, parameters: Sequence[Any], index: Index, instance: BlockStore, settings: QuerySettings
) -> SqlResult:
    """Runs one SELECT, `?` standing for the parameters, on the archive as it is now.

    Raises IndexNotFound, MalformedQuery, Denied, or TooLarge if it takes more than the settings allow.
    """
    statement = checked_alone(text, TABLES)
    for left in reversed(range(_TRIES)):
        view = index.view()
        sources = SqlSources(
            captures=view.table_files("captures"),
            links=view.table_files("links"),
            removed=[number for each in view.removed if (number := view.state.number_of(each)) is not None],
            beyond=beyond(view.reached) if view.reached != view.state else (),
            ranks=ranks.path if (ranks := index.ranks()) is not None else None,
        )
        contents = contents_of(instance) if "contents" in statement.tables else iter(())
        try:
            return SqlResult(statement, parameters, sources, contents, settings)
        except DamagedIndex:  # or files of a table were replaced while they were being opened
            files = (*sources.captures, *sources.links, *([sources.ranks] if sources.ranks is not None else []))
            if left == 0 or all(path.exists() for path in files):
                raise
    raise AssertionError("the last try raises")
