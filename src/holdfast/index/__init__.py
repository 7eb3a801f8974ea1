"""The index: words, metadata and links of captures (B12), derived from batches and contents.

    batches, contents ──► workers: extraction ──► documents ──► words-…/    tantivy
                                              └─► rows ───────► tables-…/   Parquet: captures, links, backlinks
                                                                STATE       what of it counts
    archive.remove ────────────────────────────────────────────► removed    what is not to be found any more

Every capture has a row in the table `captures`; every response, resource, revisit and conversion is a *document* of the
words, also if it has no text, so that it is found by its metadata (`schema`). A revisit has the text of its original.

Guarantees. What an update has committed survives kill -9 and power loss; killed at any moment, the next update goes on
from the last commit, with the same result as if nothing had happened. The archive is only read. One process writes the
index, under a lock of its own, any number read it, each as of the last commit (`view`). A record that was removed is
found by nobody once the removal is acknowledged. A document that crashes, hangs or eats up memory costs itself only.
The whole can be deleted: `holdfast index build` makes it again.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.index.index import Index, IndexView
    from holdfast.index.state import IndexState

_HOMES = {
    "Index": "index",
    "IndexState": "state",
    "IndexView": "index",
}

__all__ = ["Index", "IndexState", "IndexView"]


def __getattr__(name: str) -> Any:
    """Names are loaded when first used: a process that runs one statement of SQL needs little of this."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
