"""The peers: WARC readers, and bare zstd. Each function runs in its own process and checks its results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.archive.crawl import Crawls
from benchmarks.harness.figure import Figure
from benchmarks.harness.measure import Cost, measured
from benchmarks.harness.process import ChildFailed, Unavailable
from benchmarks.stream.workload import StreamWorkload

ZSTD_LEVEL = 3  # as the archive compresses
_FRAMES_PER_CALL = 512


def read_with_fastwarc(crawls: Crawls) -> Figure:
    size, cost = measured(lambda: sum(_fastwarc_payloads(crawls.files)))
    return _figure("fastwarc", crawls, size, cost)


def read_with_fastwarc_on_all_cores(crawls: Crawls) -> Figure:
    """Files are divided among processes, which are started before the clock."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    cores = len(os.sched_getaffinity(0))
    shares = [crawls.files[part::cores] for part in range(cores)]
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        list(pool.map(_fastwarc_bytes, [()] * cores * 4))
        pids = [each.pid for each in active_children() if each.pid is not None]
        size, cost = measured(lambda: sum(pool.map(_fastwarc_bytes, shares)), pids)
    return _figure("fastwarc-all", crawls, size, cost)


def read_with_warcio(crawls: Crawls) -> Figure:
    try:
        from warcio.archiveiterator import ArchiveIterator
    except ImportError as failure:
        raise Unavailable(str(failure)) from failure

    def read() -> int:
        size = 0
        for path in crawls.files:
            with path.open("rb") as file:
                for record in ArchiveIterator(file):
                    if record.rec_type == "response":
                        size += len(record.content_stream().read())
        return size

    size, cost = measured(read)
    return _figure("warcio", crawls, size, cost)


def read_with_datatrove(crawls: Crawls) -> Figure:
    """It drops what libmagic does not recognize as HTML, so its output is counted but not compared."""
    try:
        from datatrove.pipeline.readers import WarcReader
        from loguru import logger
    except ImportError as failure:
        raise Unavailable(str(failure)) from failure
    logger.disable("datatrove")

    def read() -> list[int]:
        reader: Any = WarcReader(str(crawls.files[0].parent), glob_pattern="*.warc.gz")
        return [len(document.text.encode("utf-8", "replace")) for document in reader.run()]

    sizes, cost = measured(read)
    if not sizes:
        raise ChildFailed("datatrove found no page")
    return Figure("datatrove", StreamWorkload.RAW, len(sizes), cost, content_bytes=sum(sizes))


def decompress(crawls: Crawls) -> Figure:
    """The limit: many frames per call, into shared memory, on all cores."""
    from zstandard import ZstdDecompressor

    frames: list[Any] = _frames(crawls)
    cores = len(os.sched_getaffinity(0))
    decompressor = ZstdDecompressor()
    if not hasattr(decompressor, "multi_decompress_to_buffer"):
        raise Unavailable("this build of zstandard decompresses one frame at a time only")

    def work() -> int:
        size = 0
        for start in range(0, len(frames), _FRAMES_PER_CALL):
            some: Any = decompressor.multi_decompress_to_buffer(frames[start : start + _FRAMES_PER_CALL], threads=cores)
            size += some.size()
        return size

    size, cost = measured(work)
    return _figure("zstd", crawls, size, cost)


def decompress_one_by_one(crawls: Crawls) -> Figure:
    from zstandard import ZstdDecompressor

    frames, decompressor = _frames(crawls), ZstdDecompressor()
    size, cost = measured(lambda: sum([len(decompressor.decompress(frame)) for frame in frames]))
    return _figure("zstd-one", crawls, size, cost)


def _frames(crawls: Crawls) -> list[bytes]:
    from zstandard import ZstdCompressor

    compressor = ZstdCompressor(ZSTD_LEVEL)
    return [compressor.compress(payload) for payload in _payloads(crawls.files)]


def _payloads(files: Sequence[Path]) -> Iterator[bytes]:
    try:
        from fastwarc.warc import ArchiveIterator, WarcRecordType
    except ImportError as failure:
        raise Unavailable(str(failure)) from failure

    for path in files:
        records: Any = ArchiveIterator(str(path), record_types=WarcRecordType.response, fsspec_args=False)
        for record in records:
            yield record.reader.read()


def _fastwarc_payloads(files: Sequence[Path]) -> Iterator[int]:
    return map(len, _payloads(files))


def _fastwarc_bytes(files: Sequence[Path]) -> int:
    return sum(_fastwarc_payloads(files))


def _figure(subject: str, crawls: Crawls, size: int, cost: Cost) -> Figure:
    if size != crawls.content_bytes:
        raise ChildFailed(f"{size} bytes of payload were read, expected {crawls.content_bytes}")
    return Figure(subject, StreamWorkload.RAW, crawls.captures, cost, content_bytes=size)
