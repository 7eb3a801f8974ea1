"""The workloads and the subjects: their names, and which subject has a form of which workload."""

from __future__ import annotations

from enum import StrEnum

from benchmarks.harness.comparison import SubjectFacts
from benchmarks.harness.figure import OURS


class StreamWorkload(StrEnum):
    """What is measured. One operation is one capture; with several consumers, one for each of them."""

    RAW = "raw"  # the payload of every capture, once
    SHARED = "shared"  # the same for eight consumers at the same time
    RESUME = "resume"  # from opening the archive to the first capture after a token


CONSUMERS = 8
SEPARATE = "holdfast-separate"
UNITS: dict[str, str] = {
    StreamWorkload.RAW: "MB/s",
    StreamWorkload.SHARED: "MB/s of all consumers",
    StreamWorkload.RESUME: "resumed per second",
}
SUBJECTS: dict[str, SubjectFacts] = {
    OURS: SubjectFacts(
        "Holdfast",
        {
            StreamWorkload.RAW: "a stream in the order of the log, payloads as transferred, all cores",
            StreamWorkload.SHARED: f"one scan for {CONSUMERS} consumers (multicast)",
            StreamWorkload.RESUME: "opens the archive, decodes the token, reads the next capture",
        },
        ("zstandard", "rocksdict"),
    ),
    SEPARATE: SubjectFacts("Holdfast, separate", {StreamWorkload.SHARED: f"{CONSUMERS} streams, a thread each"}),
    "zstd": SubjectFacts(
        "zstd, all cores",
        {StreamWorkload.RAW: "the payloads as frames of level 3, ready in memory; decompressed and dropped"},
        ("zstandard",),
    ),
    "zstd-one": SubjectFacts(
        "zstd, one core", {StreamWorkload.RAW: "the same with one decompressor, frame by frame"}, ("zstandard",)
    ),
    "fastwarc": SubjectFacts(
        "FastWARC",
        {StreamWorkload.RAW: "ArchiveIterator over the gzip files, responses only, every payload read"},
        ("FastWARC",),
    ),
    "fastwarc-all": SubjectFacts(
        "FastWARC, all cores",
        {StreamWorkload.RAW: "the same, a process for each core, which keeps what it reads"},
        ("FastWARC",),
    ),
    "warcio": SubjectFacts(
        "warcio", {StreamWorkload.RAW: "ArchiveIterator over the gzip files, every payload read"}, ("warcio",)
    ),
    "datatrove": SubjectFacts(
        "datatrove", {StreamWorkload.RAW: "WarcReader over the gzip files, which decodes to text"}, ("datatrove",)
    ),
}
