"""One record that is much larger than memory may be: imported, exported and compared, with the peak of memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.archive.crawl import CRAWLS, response_head
from benchmarks.archive.ours import compare, import_files
from benchmarks.harness.measure import Cost, measured
from benchmarks.harness.process import run_apart
from holdfast.formats.warc.compose import ID_BYTES, RECORD_END, WarcHead, digest_text, record_id
from holdfast.formats.warc.writer import WarcWriter

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class LargeRecord:
    """What the record cost on its way in and out. Memory is that of the whole process."""

    payload_bytes: int
    import_s: float
    import_rss_before_bytes: int
    import_rss_peak_bytes: int
    export_s: float
    export_rss_before_bytes: int
    export_rss_peak_bytes: int


def measure_large(directory: Path, payload_bytes: int) -> LargeRecord:
    """Works below the directory. Raises ChildFailed if the record does not come back as it was."""
    directory.mkdir(parents=True)
    source = directory / "large.warc.gz"
    run_apart(write_large, source, payload_bytes)
    imported = run_apart(import_large, directory / "archive", source)
    exported = run_apart(export_large, directory / "archive", directory / "exported")
    compare(source, directory / "exported" / source.name)
    return LargeRecord(
        payload_bytes,
        imported.seconds,
        imported.rss_before_bytes,
        imported.rss_peak_bytes,
        exported.seconds,
        exported.rss_before_bytes,
        exported.rss_peak_bytes,
    )


def write_large(path: Path, payload_bytes: int) -> None:
    """A gzip WARC with one response; its digests are right, so the payload is made twice."""
    head = response_head(payload_bytes, CRAWLS[0])
    payload_digest, block_digest = hashlib.sha1(usedforsecurity=False), hashlib.sha1(head, usedforsecurity=False)
    for piece in _pieces(payload_bytes):
        payload_digest.update(piece)
        block_digest.update(piece)
    record = WarcHead(
        "response",
        f"{CRAWLS[0]:%Y%m%d%H%M%S}",
        record_id(bytes(ID_BYTES)),
        url="http://www.large.example/film.html",
        block_digest=digest_text("sha1", block_digest.digest()),
        payload_digest=digest_text("sha1", payload_digest.digest()),
    )
    with path.open("wb") as file:
        writer = WarcWriter(file)
        writer.begin()
        writer.feed(record.encode(len(head) + payload_bytes))
        writer.feed(head)
        for piece in _pieces(payload_bytes):
            writer.feed(piece)
        writer.feed(RECORD_END)
        writer.end()


def import_large(path: Path, source: Path) -> Cost:
    from holdfast.archive import init, open

    init(path)
    with open(path) as archive:
        return measured(lambda: import_files(archive, [source]))[1]


def export_large(path: Path, target: Path) -> Cost:
    from holdfast.archive import open
    from holdfast.archive.export import ExportOptions
    from holdfast.records.selection import Selection

    options = ExportOptions("warc.gz", exact=True)
    with open(path, read_only=True) as archive:
        return measured(lambda: archive.export(Selection(), target, options, None))[1]


def _pieces(size: int) -> Iterator[bytes]:
    """Text that compresses to about half, different everywhere."""
    for start in range(0, size, _PIECE):
        digest = hashlib.shake_256(start.to_bytes(8, "little"), usedforsecurity=False)
        yield digest.hexdigest(_PIECE // 2).encode()[: size - start]
