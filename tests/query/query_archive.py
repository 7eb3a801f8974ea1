"""Archives to ask: pages with all that a query may look for, indexed in several steps, and ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

from oracle import Document, Scan, scan

import holdfast
from holdfast import Archive, Exchange
from holdfast.formats.record import Headers
from holdfast.index.extract.extract import ExtractionLimits, Payload, extract
from holdfast.records import draft

HOSTS = (
    "www.stanford.edu",
    "www-db.stanford.edu",
    "example.com",
    "www.example.com",
    "a.b.example.com:8080",
    "127.0.0.1",
    "münchen.example.de",
)
TYPES = (
    "text/html",
    "text/html; charset=utf-8",
    "application/xhtml+xml",
    "text/plain",
    "image/png",
    "application/json",
)
_STATUSES = (200, 200, 200, 200, 301, 404, 410, 500)
_WORDS = [
    "stanford",
    "digital",
    "library",
    "web",
    "base",
    "crawler",
    "page",
    "rank",
    "archive",
    "river",
    "mountain",
    "été",
    "straße",
    "naïve",
    "漢字",
    "仮名",
    "ไทย",
    "москва",
    "αθήνα",
    "3.14",
    "c++",
    "don't",
    "co-operate",
    "foo_bar",
    "x1",
    "1999",
    "the",
    "of",
    "and",
    "or",
    "not",
    "a",
]


@dataclass(frozen=True, slots=True)
class Asked:
    """An archive that is open for writing, and its documents as a scan finds them."""

    archive: Archive
    documents: list[Document]
    scan: Scan


def generated_pages(count: int, seed: int = 0) -> list[bytes]:
    """Pages of few words, so that queries find several of them."""
    random = Random(seed)
    return [_page(random, number).encode() for number in range(count)]


def _page(random: Random, number: int) -> str:
    title = " ".join(random.choices(_WORDS, k=random.randrange(5)))
    body = " ".join(random.choices(_WORDS, k=random.randrange(1, 60)))
    targets = [random.choice(("http://www-db.stanford.edu/", f"/p{random.randrange(60)}", "http://example.com/p1"))]
    targets += [f"http://{random.choice(HOSTS[:4])}/p{random.randrange(60)}" for _ in range(random.randrange(4))]
    links = " ".join(f'<a href="{target}">{random.choice(_WORDS)}</a>' for target in targets)
    return f"<html><head><title>{title}</title></head><body><p>{body}</p> {links} page {number}</body></html>"


def real_files(most: int) -> list[Path]:
    """Real pages of this machine: of the corpus that `make corpus` collects, or of its documentation."""
    corpus, documentation = Path.home() / ".cache/holdfast/corpus", Path("/usr/share")
    found: list[Path] = []
    for place in (corpus, documentation):
        for directory in sorted(path for path in place.glob("*") if path.is_dir()):
            found += sorted(path for path in directory.rglob("*.html") if path.is_file())
            if len(found) >= most:
                return found[:most]
    return found


def exchanges(pages: Sequence[bytes], seed: int) -> list[Exchange]:
    """The pages as captures: some under URLs that others link to, some twice, some not found, some of other types."""
    random = Random(seed)
    linked = _linked(pages[: max(20, len(pages) // 5)])
    made = []
    for number, page in enumerate(pages):
        url = f"http://{random.choice(HOSTS)}/p{number % 60}"
        if linked and random.random() < 0.3:
            url = random.choice(linked)
        made += [_exchange(random, url, page) for _ in range(random.choice((1, 1, 1, 2)))]
    return made


def _exchange(random: Random, url: str, page: bytes) -> Exchange:
    kind = TYPES[0] if random.random() < 0.7 else random.choice(TYPES)
    status = random.choice(_STATUSES)
    moved = f"Location: http://example.com/p{random.randrange(60)}\r\n" if status == 301 else ""
    head = f"HTTP/1.1 {status} Told\r\nContent-Type: {kind}\r\n{moved}Content-Length: {len(page)}\r\n\r\n"
    timestamp = f"{random.randrange(1996, 2027)}{random.randrange(1, 13):02d}{random.randrange(1, 29):02d}120000"
    return Exchange(url, head.encode(), page, timestamp)


def _linked(pages: Sequence[bytes]) -> list[str]:
    found = [
        extract(Payload("http://example.com/", page, "text/html", Headers([]), 200), ExtractionLimits())
        for page in pages
    ]
    return sorted({link.url for each in found for link in each.links})


@contextmanager
def filled(path: Path, pages: Sequence[bytes], seed: int, steps: int = 1) -> Iterator[Asked]:
    """An archive of these pages in two collections and a batch for each step, indexed step by step, then ranked.

    Each step makes a segment of the words and a file of each table.
    """
    holdfast.init(path)
    with holdfast.open(path) as archive:
        captures = exchanges(pages, seed)
        size = -(-len(captures) // steps)
        with patch.object(draft, "REPEATED_BYTES_MAX", 0):  # so that captures join with contents
            for step in range(steps):
                some = captures[step * size : (step + 1) * size]
                half = len(some) // 2
                archive.add(some[:half], batch=f"b{step}", collection="main")
                archive.add(some[half:], batch=f"b{step}", collection="other")
                archive.index.update()
        archive.index.rank()
        documents = scan(archive)
        yield Asked(archive, documents, Scan(documents))
