"""The archive: a directory that holds everything, and the class through which a program uses it.

    with holdfast.open("my-archive") as archive:
        archive.import_files(["crawl.warc.gz"])
        page = archive.get("http://example.com/", at="2026")
        print(page.capture.timestamp, page.payload())

What flows in: records, always through `archive.add` (`ingest`). A record's payload becomes a content in the store, its
literals an entry of a batch, and the catalog gets a capture, in this order: content, then record, then acknowledgement;
catalog after that. What flows out: records by URL and time, by id, as exact bytes, and as files of every format
(`export`, `backup`).

Guarantees. What was acknowledged survives kill -9 and power loss. What was not leaves nothing behind: the next writer
rolls back contents that an unfinished addition had stored (`ingest.intent`). A record that is in is not added twice.
What is removed is gone (`removal`), and other holders of the same content keep it.

One process writes to an archive at a time; any number read it meanwhile (`read_only=True`).
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
