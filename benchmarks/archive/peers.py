"""The peers at the same files: cdxj-indexer as a program, warcio and FastWARC as libraries."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.archive.crawl import CRAWLS, Crawls, gzip_member
from benchmarks.archive.figure import written
from benchmarks.archive.ours import check_whole
from benchmarks.archive.program import find_program, less, run_program
from benchmarks.archive.workload import ArchiveWorkload
from benchmarks.harness.figure import NO_COST, Figure
from benchmarks.harness.measure import Cost, measured
from benchmarks.harness.process import ChildFailed, Unavailable
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, record_id, warcinfo_parts

_PIECE = 1 << 16
_READY_MAX = 1_000  # records that are in memory before the clock starts


def index_with_cdxj_indexer(directory: Path, crawls: Crawls) -> list[Figure]:
    """Only indexes: one line for every response. What starting takes is measured before and taken off."""
    program = find_program("cdxj-indexer", "cdxj_indexer")
    nothing = directory / "nothing.warc.gz"
    head = WarcHead("warcinfo", f"{CRAWLS[0]:%Y%m%d%H%M%S}", record_id(bytes(ID_BYTES)), filename=nothing.name)
    nothing.write_bytes(gzip_member(warcinfo_parts(head, [])))
    output = directory / "index.cdxj"
    start_up = run_program([program, nothing], output)
    cost = run_program([program, *crawls.files], output)
    with output.open("rb") as lines:
        found = sum(1 for _ in lines)
    if found != crawls.captures:
        raise ChildFailed(f"cdxj-indexer wrote {found} lines, expected {crawls.captures}")
    return [_read("cdxj-indexer", crawls, less(cost, start_up))]


def read_with_warcio(crawls: Crawls) -> list[Figure]:
    try:
        from warcio.archiveiterator import ArchiveIterator
    except ImportError as failure:
        raise Unavailable(str(failure)) from failure

    def read() -> int:
        size = 0
        for path in crawls.files:
            with path.open("rb") as file:
                for record in ArchiveIterator(file):
                    data = record.content_stream().read()
                    size += len(data) if record.rec_type == "response" else 0
        return size

    size, cost = measured(read)
    _check_size(size, crawls)
    return [_read("warcio", crawls, cost)]


def read_with_fastwarc(crawls: Crawls) -> list[Figure]:
    try:
        from fastwarc.warc import ArchiveIterator, WarcRecordType
    except ImportError as failure:
        raise Unavailable(str(failure)) from failure

    def read() -> int:
        size = 0
        for path in crawls.files:
            records: Any = ArchiveIterator(str(path), fsspec_args=False)
            for record in records:
                data = record.reader.read()
                size += len(data) if record.record_type == WarcRecordType.response else 0
        return size

    size, cost = measured(read)
    _check_size(size, crawls)
    return [_read("fastwarc", crawls, cost)]


def write_with_warcio(crawls: Crawls, target: Path) -> list[Figure]:
    """WARCWriter is given records that are in memory, with all their fields: reading them is not on its account."""
    try:
        from warcio.warcwriter import WARCWriter
    except ImportError as failure:
        raise Unavailable(str(failure)) from failure

    cost = NO_COST
    count = 0
    with target.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        records = _warcio_records(crawls)
        while ready := list(islice(records, _READY_MAX)):
            more = measured(lambda ready=ready: [writer.write_record(record) for record in ready])[1]  # type: ignore[misc]
            cost = _sum(cost, more)
            count += len(ready)
    _check_count(count, crawls)
    check_whole(target, crawls)
    return [written("warcio", ArchiveWorkload.EXPORT, crawls, target, cost)]


def rewrite_with_warcio(crawls: Crawls, target: Path) -> list[Figure]:
    """What `warcio recompress` does: from the iterator to the writer."""
    try:
        from warcio.archiveiterator import ArchiveIterator
        from warcio.warcwriter import WARCWriter
    except ImportError as failure:
        raise Unavailable(str(failure)) from failure

    def rewrite() -> int:
        count = 0
        for path in crawls.files:
            with path.open("rb") as source, (target / path.name).open("wb") as file:
                writer = WARCWriter(file, gzip=True)
                for record in ArchiveIterator(source, arc2warc=True):
                    writer.write_record(record)
                    count += 1
        return count

    target.mkdir()
    count, cost = measured(rewrite)
    _check_count(count, crawls)
    return [written("warcio", ArchiveWorkload.ROUNDTRIP, crawls, target, cost)]


def _warcio_records(crawls: Crawls) -> Iterator[Any]:
    """The records with their blocks in memory, unparsed; new ones, because the iterator reads its own to their end."""
    from warcio.archiveiterator import ArchiveIterator
    from warcio.recordloader import ArcWarcRecord

    for path in crawls.files:
        with path.open("rb") as file:
            for record in ArchiveIterator(file, no_record_parse=True):
                block = b"".join(iter(lambda stream=record.raw_stream: stream.read(_PIECE), b""))  # type: ignore[misc]
                if len(block) != int(record.rec_headers.get_header("Content-Length")):
                    raise ChildFailed(f"warcio read {len(block)} bytes of a block in '{path.name}', which has more")
                facts = (record.format, record.rec_type, record.rec_headers)
                yield ArcWarcRecord(*facts, io.BytesIO(block), None, record.content_type, record.length)


def _read(subject: str, crawls: Crawls, cost: Cost) -> Figure:
    return Figure(
        subject,
        ArchiveWorkload.IMPORT,
        crawls.records,
        cost,
        pages=crawls.captures,
        content_bytes=crawls.content_bytes,
    )


def _sum(one: Cost, other: Cost) -> Cost:
    return Cost(
        one.seconds + other.seconds,
        one.cpu_s + other.cpu_s,
        one.rss_before_bytes or other.rss_before_bytes,
        max(one.rss_peak_bytes, other.rss_peak_bytes),
    )


def _check_size(size: int, crawls: Crawls) -> None:
    if size != crawls.content_bytes:
        raise ChildFailed(f"{size} bytes of payload were read, expected {crawls.content_bytes}")


def _check_count(count: int, crawls: Crawls) -> None:
    if count != crawls.records:
        raise ChildFailed(f"{count} records were written, expected {crawls.records}")
