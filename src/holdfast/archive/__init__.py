"""The archive: one directory, and the class through which a program uses it.

    with holdfast.open("my-archive") as archive:
        archive.import_files(["crawl.warc.gz"])
        page = archive.get("http://example.com/", at="2026")
        print(page.capture.timestamp, page.payload())

In: records, always through `archive.add` (`ingest`). A record's payload becomes a content in the store, its literals an
entry in a batch, and its capture a row of the catalog. Contents and record are synced before the addition is
acknowledged; the catalog follows. Out: records by URL and time or by id, their exact bytes, and files in every format
(`export`, `backup`).

Guarantees. Acknowledged records survive kill -9 and power loss. An unfinished addition leaves nothing behind: the next
writer rolls back the contents it had stored (`ingest.intent`). A record already in the archive is not added again.
Removal is final (`removal`); a content shared with other records stays.

One process writes to an archive at a time, and any number of processes read it meanwhile (`read_only=True`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive, open
    from holdfast.archive.connection import Connection, connect
    from holdfast.archive.create import Plan, init
    from holdfast.archive.volumes import VolumeReport

_HOMES = {
    "Archive": "archive",
    "Connection": "connection",
    "Plan": "create",
    "VolumeReport": "volumes",
    "connect": "connection",
    "init": "create",
    "open": "archive",
}

__all__ = ["Archive", "Connection", "Plan", "VolumeReport", "connect", "init", "open"]


def __getattr__(name: str) -> Any:
    """Loads names when they are first used: a process that only reads files to be imported needs few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
