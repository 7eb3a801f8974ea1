"""The files of a run: two crawls of the same pages, as a crawler writes them.

    pages-20260105000000-00000.warc.gz     warcinfo │ response │ request │ response │ request │ ...
    pages-20260105000000-00001.warc.gz     the other half of the pages
    pages-20260205000000-...               the same pages a month later: other dates and ids, nothing else

Every fifth page has the payload of another page, so a crawl holds 20 % duplicates, and the second crawl holds nothing
but duplicates. Digests are SHA-1 of block and payload. Records are gzip members of zlib level 6, because isal-l, which
Holdfast writes with, makes files 9 % larger at its best, and that would flatter the ratio of `space`.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.measure import SEED, bytes_on_disk
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, digest_of, record_id, record_parts, warcinfo_parts
from holdfast.formats.warc.writer import WarcWriter

CRAWLS = (datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 2, 5, tzinfo=UTC))
FILES_PER_CRAWL = 2  # so that two readers have something to do
DUPLICATE_EVERY = 5
GZIP_LEVEL = 6
_SITES = 500
_TREE = "library/release/docs/manual/html/en"
_GZIP_WINDOW = 31  # 15 bits, with gzip's header and trailer
_USER_AGENT = "Mozilla/5.0 (compatible; bench-crawler/1.0; +http://crawler.example/)"


@dataclass(frozen=True, slots=True)
class Crawls:
    """The files, and what is in them. Small enough to send to a child."""

    files: tuple[Path, ...]
    corpus: Corpus
    pages: int  # of one crawl
    records: int  # of all files
    content_bytes: int  # of the payloads of all responses, duplicates counted
    disk_bytes: int
    apparent_bytes: int

    @property
    def captures(self) -> int:
        return self.pages * len(CRAWLS)

    def urls(self) -> list[str]:
        return [page_url(self.corpus, number) for number in range(self.pages)]


def distinct_for(pages: int) -> int:
    """How many distinct payloads a crawl of so many pages needs."""
    return max(1, pages - pages // DUPLICATE_EVERY)


def build(corpus: Corpus, directory: Path) -> Crawls:
    """Writes the files of both crawls into the directory. Uses all documents of the corpus."""
    pages = _pages_with(len(corpus.paths))
    directory.mkdir(parents=True)
    files: list[Path] = []
    records = content_bytes = 0
    for date in CRAWLS:
        for part in range(FILES_PER_CRAWL):
            path = directory / f"pages-{date:%Y%m%d%H%M%S}-{part:05d}.warc.gz"
            written = _write_file(path, corpus, date, range(part, pages, FILES_PER_CRAWL))
            records += written[0]
            content_bytes += written[1]
            files.append(path)
    allocated, apparent = bytes_on_disk(directory)
    return Crawls(tuple(files), corpus, pages, records, content_bytes, allocated, apparent)


def page_url(corpus: Corpus, number: int) -> str:
    """The URL of a page: spread over many hosts, the corpus's own names as paths.

    They lie as deep as the pages did where they were collected: these refer to others by up to seven `../`.
    """
    path = corpus.paths[document_of(number, len(corpus.paths))].relative_to(corpus.directory)
    again = f"?copy={number}" if _is_duplicate(number) else ""
    return f"http://www.site{number % _SITES:03d}.example/{_TREE}/{quote(str(path), errors='replace')}{again}"


def gzip_member(parts: Sequence[bytes]) -> bytes:
    """A record as most crawlers compress it."""
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return b"".join([*map(compressor.compress, parts), compressor.flush()])


def response_head(size: int, date: datetime) -> bytes:
    """The head of an HTTP response with a payload of so many bytes."""
    lines = (
        "HTTP/1.1 200 OK",
        f"Date: {date:%a, %d %b %Y %H:%M:%S} GMT",
        "Server: nginx/1.26.0",
        "Content-Type: text/html; charset=UTF-8",
        f"Content-Length: {size}",
        "Connection: keep-alive",
        "",
        "",
    )
    return "\r\n".join(lines).encode()


def _write_file(path: Path, corpus: Corpus, date: datetime, numbers: range) -> tuple[int, int]:
    """Returns the number of records and the bytes of their payloads."""
    ids = random.Random(f"{SEED}/{path.name}")
    records, content_bytes = 1, 0
    with path.open("wb") as file:
        writer = WarcWriter(file)
        info = WarcHead("warcinfo", _iso(date), record_id(ids.randbytes(ID_BYTES)), filename=path.name)
        writer.append(gzip_member(warcinfo_parts(info, [("software", "bench-crawler/1.0")])))
        for number in numbers:
            document = corpus.paths[document_of(number, len(corpus.paths))].read_bytes()
            content_bytes += len(document)
            for parts in _page(page_url(corpus, number), document, date + timedelta(seconds=number), ids):
                writer.append(gzip_member(parts))
                records += 1
    return records, content_bytes


def _page(url: str, document: bytes, date: datetime, ids: random.Random) -> Iterator[list[bytes]]:
    """The response, then the request that brought it."""
    block = [response_head(len(document), date), document]
    response = WarcHead(
        "response",
        _iso(date),
        record_id(ids.randbytes(ID_BYTES)),
        url=url,
        ip="192.0.2.1",
        block_digest=digest_of(block),
        payload_digest=digest_of([document]),
    )
    yield record_parts(response, block)
    host, _, path = url.removeprefix("http://").partition("/")
    lines = (
        f"GET /{path} HTTP/1.1",
        f"Host: {host}",
        f"User-Agent: {_USER_AGENT}",
        "Accept: text/html,*/*;q=0.8",
        "Accept-Encoding: identity",
        "",
        "",
    )
    asked = ["\r\n".join(lines).encode()]
    request = WarcHead(
        "request",
        _iso(date),
        record_id(ids.randbytes(ID_BYTES)),
        url=url,
        block_digest=digest_of(asked),
        concurrent_to=(response.record_id,),
    )
    yield record_parts(request, asked)


def _pages_with(distinct: int) -> int:
    """The most pages that so many distinct payloads make, every fifth being a duplicate."""
    return distinct + distinct // (DUPLICATE_EVERY - 1)


def _is_duplicate(number: int) -> bool:
    return number % DUPLICATE_EVERY == DUPLICATE_EVERY - 1


def document_of(number: int, distinct: int) -> int:
    """Which document a page shows: duplicates show one from anywhere in the corpus."""
    if _is_duplicate(number):
        return random.Random(SEED + number).randrange(distinct)
    return number - number // DUPLICATE_EVERY


def _iso(date: datetime) -> str:
    return f"{date:%Y-%m-%dT%H:%M:%SZ}"
