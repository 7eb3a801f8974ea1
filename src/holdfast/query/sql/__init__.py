"""SQL over an archive: captures, links, pages and contents, read and never written.

    archive.sql("SELECT host, count(*) FROM captures GROUP BY host").table()

`statement` refuses what does more than read, `database` makes the tables, `answer` gives the rows as Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.config import QuerySettings
from holdfast.errors import DamagedIndex
from holdfast.index.index import Index
from holdfast.index.words import beyond
from holdfast.query.sql.answer import SqlAnswer
from holdfast.query.sql.contents import contents_of
from holdfast.query.sql.database import TABLES, Sources, run
from holdfast.storage.instance import Instance

__all__ = ["TABLES", "SqlAnswer", "run_sql"]

_TRIES = 5


def run_sql(
    text: str, parameters: Sequence[Any], index: Index, instance: Instance, settings: QuerySettings
) -> SqlAnswer:
    """Runs one SELECT, `?` standing for the parameters, on the archive as it is now.

    Raises IndexNotFound, MalformedQuery, Denied, or TooLarge if it takes more than the settings allow.
    """
    for left in reversed(range(_TRIES)):
        view = index.view()
        sources = Sources(
            captures=view.table_files("captures"),
            links=view.table_files("links"),
            removed=[number for each in view.removed if (number := view.state.number_of(each)) is not None],
            beyond=beyond(view.reached) if view.reached != view.state else (),
            ranks=index.ranks(),
            contents=contents_of(instance),
        )
        try:
            return run(text, parameters, sources, settings)
        except DamagedIndex:  # or files of a table were replaced while they were being opened
            if left == 0 or all(path.exists() for path in (*sources.captures, *sources.links)):
                raise
    raise AssertionError("the last try raises")
