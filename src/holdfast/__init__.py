"""Holdfast: a web archive that stores every content once.

    import holdfast

    with holdfast.open("my-archive") as archive:
        print(archive.import_files(["crawl.warc.gz"]).added, "records added")
        print(archive.get("http://example.com/", at="2026").payload())

The packages, in dependency order; each imports only what stands above it:

    errors, arguments, model  the error tree | checked arguments | values that pass between packages
    config                    settings and connectors
    env                       clock, randomness, files, locks, the RocksDB table, threads, units
    urls                      parse, canonical form, SURT key, registered domain, page id
    formats                   WARC, ARC, Tianwang, WACZ, CDX, Parquet, WET; HTML and its links; damaged files
    storage                   contents as blocks in volumes: codecs, organizations, servers, the store, maintenance
    batches                   the record journal
    catalog                   captures by URL and time; CDX queries
    records                   a record as it goes in and as it comes out; found by id, by URL and time
    index                     words, tables of captures and links, page rank
    query                     the query language and its results; SQL
    streams                   every capture of a snapshot, once, in bulk; restartable
    archive                   open, add, get, import, export, remove
    corpus                    readers for datasets, PyTorch, Ray Data and PySpark
    crawl                     from seeds to captures: frontier, policy, fetching, parsing, revisits
    web                       replay, search, APIs and pages over HTTP
    testing                   shipped test doubles and conformance suites
    demo                      the site that `holdfast demo` crawls
    cli                       the command line, one file per noun

`__all__` lists the public names; each is loaded on first use. Reference: docs/reference/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive, open
    from holdfast.archive.check import check
    from holdfast.archive.connection import connect
    from holdfast.archive.create import Plan, init
    from holdfast.archive.export import ExportOptions
    from holdfast.archive.ingest.exchange import Exchange, page
    from holdfast.archive.ingest.importer import ImportOptions
    from holdfast.archive.removal import RemovalOptions
    from holdfast.catalog import CaptureQuery
    from holdfast.config import RecordSettings, Settings, StoreSettings, VolumeSettings
    from holdfast.errors import HoldfastError
    from holdfast.formats.iterator import ArchiveIterator
    from holdfast.model import Capture, ContentKey, ContentStat, Fault, RecordId, Stored, StoreMode, VolumeState
    from holdfast.records.selection import Selection
    from holdfast.storage.maintenance.check import CheckOptions
    from holdfast.storage.store.put import StoreOptions

_HOMES = {
    "holdfast.archive.archive": ("Archive", "open"),
    "holdfast.archive.check": ("check",),
    "holdfast.archive.connection": ("connect",),
    "holdfast.archive.create": ("Plan", "init"),
    "holdfast.archive.ingest.exchange": ("Exchange", "page"),
    "holdfast.archive.export": ("ExportOptions",),
    "holdfast.archive.ingest.importer": ("ImportOptions",),
    "holdfast.archive.removal": ("RemovalOptions",),
    "holdfast.records.selection": ("Selection",),
    "holdfast.catalog": ("CaptureQuery",),
    "holdfast.config": ("RecordSettings", "Settings", "StoreSettings", "VolumeSettings"),
    "holdfast.errors": ("HoldfastError",),
    "holdfast.formats.iterator": ("ArchiveIterator",),
    "holdfast.model": (
        "Capture",
        "ContentKey",
        "ContentStat",
        "Fault",
        "RecordId",
        "StoreMode",
        "Stored",
        "VolumeState",
    ),
    "holdfast.storage.maintenance.check": ("CheckOptions",),
    "holdfast.storage.store.put": ("StoreOptions",),
}
_home_of = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Archive",
    "ArchiveIterator",
    "Capture",
    "CaptureQuery",
    "CheckOptions",
    "ContentKey",
    "ContentStat",
    "Exchange",
    "ExportOptions",
    "Fault",
    "HoldfastError",
    "ImportOptions",
    "Plan",
    "RecordId",
    "RecordSettings",
    "RemovalOptions",
    "Selection",
    "Settings",
    "StoreMode",
    "StoreOptions",
    "StoreSettings",
    "Stored",
    "VolumeSettings",
    "VolumeState",
    "check",
    "connect",
    "init",
    "open",
    "page",
]


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used, so that the command line starts fast.

    Each comes from the module that defines it: `check` of `holdfast.archive` is a function, and a module of that name.
    """
    if name not in _home_of:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_home_of[name]), name)
