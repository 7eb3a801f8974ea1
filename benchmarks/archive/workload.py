"""The workloads and the subjects: their names, and which subject has a form of which workload."""

from __future__ import annotations

from enum import StrEnum

from benchmarks.harness.comparison import SubjectFacts
from benchmarks.harness.figure import OURS


class ArchiveWorkload(StrEnum):
    """What is measured. One operation is one record, but for `lookup`, where it is one URL."""

    IMPORT = "import"  # the WARC files of both crawls, until the archive is closed; peers index or read them
    SPACE = "space"  # bytes on disk of what `import` made, beside those of the files
    LOOKUP = "lookup"  # all captures of a URL, URLs at random, page cache warm
    EXPORT = "export"  # all records to gzip WARC
    ROUNDTRIP = "roundtrip"  # import and exact export, the bytes compared afterwards


READER = "holdfast-reader"
JOBS = 2  # files that Holdfast reads at a time
SUBJECTS: dict[str, SubjectFacts] = {
    OURS: SubjectFacts(
        "Holdfast",
        {
            ArchiveWorkload.IMPORT: f"stores every record, durable, {JOBS} readers",
            ArchiveWorkload.SPACE: "the archive's directory, catalog included",
            ArchiveWorkload.LOOKUP: "the archive open for writing",
            ArchiveWorkload.EXPORT: "reads the archive, gzip by isal-l level 2",
            ArchiveWorkload.ROUNDTRIP: "import, then export --exact",
        },
        ("isal", "rocksdict", "zstandard"),
    ),
    READER: SubjectFacts("Holdfast, reader", {ArchiveWorkload.LOOKUP: "open for reading, following a writer"}),
    "cdxj-indexer": SubjectFacts(
        "cdxj-indexer", {ArchiveWorkload.IMPORT: "writes a CDXJ file, unsorted; start-up deducted"}, ("cdxj_indexer",)
    ),
    "warcio": SubjectFacts(
        "warcio",
        {
            ArchiveWorkload.IMPORT: "ArchiveIterator reads every payload, keeps nothing",
            ArchiveWorkload.EXPORT: "WARCWriter, records ready in memory, gzip level 9",
            ArchiveWorkload.ROUNDTRIP: "ArchiveIterator to WARCWriter, as 'warcio recompress'",
        },
        ("warcio",),
    ),
    "fastwarc": SubjectFacts(
        "FastWARC",
        {ArchiveWorkload.IMPORT: "ArchiveIterator reads every payload, keeps nothing"},
        ("FastWARC",),
    ),
    "gzip-warc": SubjectFacts("gzip WARC", {ArchiveWorkload.SPACE: "the files themselves, zlib level 6"}),
    "cdxj-file": SubjectFacts(
        "CDXJ file", {ArchiveWorkload.LOOKUP: "our own plain binary search over the sorted lines"}
    ),
    "pywb": SubjectFacts("pywb", {ArchiveWorkload.LOOKUP: "FileIndexSource over the sorted lines"}),
}


def facts(name: str) -> SubjectFacts:
    return SUBJECTS[name]
