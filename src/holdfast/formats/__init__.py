"""Formats: files of other people become records, and records become files that other people can read.

    any stream of bytes
       │  io/       sniff recognizes the format; a source (plain, gzip, zstd) decodes the file and remembers where each
       │            byte came from; salvage reads record after record, and reports bytes that belong to none
       │  warc/ arc tianwang     framings: how a record begins and ends; wacz/ opens the package around WARCs
       ▼
    Record ──►  http         the HTTP message: head, chunks, content encodings, media type
                html/        pages: encoding, tree, text, main text, links
       │
       ▼  writers            warc/, tianwang, wacz/, wet; cdx/ and parquet for catalogs

Guarantees: the bytes of a record are its head, its block and its tail, exactly (N3). Every byte of a file lies either
in a record that was handed out or in a range reported as lost (N7); a record of which a part is missing is handed out
with what is there, and reported. No file, however damaged or hostile, makes reading raise anything but MalformedInput,
and that only in strict mode; none makes it run forever or take more memory than a few pieces. A stream need not seek.
Whatever the writers write, the readers here and elsewhere can read.

    with open("crawl.warc.gz", "rb") as stream:
        for record in open_records(stream, report=print):
            print(record.type, record.url, len(record.block.read()))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.formats.http import HttpHead, Unframer, parse_head, split
    from holdfast.formats.io.open import open_records
    from holdfast.formats.io.sniff import sniff
    from holdfast.formats.iterator import ArchiveIterator, ArchiveRecord
    from holdfast.formats.record import BlockReader, Finding, FindingKind, Headers, Record, Report

# A name is imported at its first use, so that one format does not cost the import of all.
_HOMES = {
    "ArchiveIterator": "iterator",
    "ArchiveRecord": "iterator",
    "BlockReader": "record",
    "Finding": "record",
    "FindingKind": "record",
    "Headers": "record",
    "HttpHead": "http",
    "Record": "record",
    "Report": "record",
    "Unframer": "http",
    "open_records": "io.open",
    "parse_head": "http",
    "sniff": "io.sniff",
    "split": "http",
}

__all__ = [
    "ArchiveIterator",
    "ArchiveRecord",
    "BlockReader",
    "Finding",
    "FindingKind",
    "Headers",
    "HttpHead",
    "Record",
    "Report",
    "Unframer",
    "open_records",
    "parse_head",
    "sniff",
    "split",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
