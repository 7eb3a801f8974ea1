"""SQL over an archive: captures, links, pages and contents, read and never written.

    archive.sql("SELECT host, count(*) FROM captures GROUP BY host").table()

`statement` rejects what does more than read; `child` runs the rest in a process of its own, over the tables that
`database` makes; `result` gives the rows as Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.query.sql.database import TABLES
    from holdfast.query.sql.result import SqlResult
    from holdfast.query.sql.runner import run_sql

_HOMES = {
    "SqlResult": "result",
    "TABLES": "database",
    "run_sql": "runner",
}

__all__ = ["TABLES", "SqlResult", "run_sql"]


def __getattr__(name: str) -> Any:
    """Names are loaded when first used: a process that runs one statement of SQL needs little of this."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
