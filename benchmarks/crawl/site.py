"""The site that all crawlers visit: real pages, linked among each other, and index pages that lead to every one.

    /                        links to the index pages, and to every style sheet, script and picture
    /index/N.html            up to 100 pages each
    /pages/XX/N.html         the documents of the corpus, their links turned into links within the site
    /static/N.css .js .png   what pages need
    /alone.html              without links: what it takes to crawl it is what it takes to start

Everything but `/alone.html` can be reached from `/` by plain links in well-formed markup, so that all crawlers can find
the same URLs however they read the markup of the pages. The bytes depend on the corpus and the number of pages alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl.rewriting import Targets, rewritten
from benchmarks.harness.corpus import Corpus
from benchmarks.harness.measure import SEED

_FAN_OUT = 100  # pages on an index page
_DIRECTORIES = 256
_STYLES, _SCRIPTS, _PICTURES = 16, 16, 32
ALONE = "/alone.html"
START = "/"


@dataclass(frozen=True, slots=True)
class Site:
    """A site on disk."""

    directory: Path
    corpus: Corpus
    urls: frozenset[str]  # all paths that a crawl from START must ask for
    pages: int  # HTML among them
    content_bytes: int  # of everything under `urls`


def build(corpus: Corpus, directory: Path) -> Site:
    """Writes the site into the directory, which is made."""
    writer = _Writer(directory)
    count = len(corpus.paths)
    targets = _targets(count)
    for number, source in enumerate(corpus.paths):
        writer.write(page_path(number), rewritten(source.read_bytes(), targets))
    indexes = list(_index_pages(count))
    for path, page in indexes:
        writer.write(path, page)
    assets = list(_assets())
    for path, data in assets:
        writer.write(path, data)
    writer.write(START, _start([path for path, _ in indexes], [path for path, _ in assets]))
    site = Site(directory, corpus, frozenset(writer.written), count + len(indexes) + 1, writer.total_bytes)
    writer.write(ALONE, b"<!doctype html><title>Alone</title><p>No way leads from here.</p>\n")
    return site


def page_path(number: int) -> str:
    return f"/pages/{number % _DIRECTORIES:02x}/{number}.html"


class _Writer:
    """Files by the paths of their URLs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.written: list[str] = []
        self.total_bytes = 0

    def write(self, path: str, data: bytes) -> None:
        file = self._directory / (path.lstrip("/") or "index.html")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        self.written.append(path)
        self.total_bytes += len(data)


def _targets(count: int) -> Targets:
    """As the pages have them, relative to their directories, as links on real pages mostly are."""
    pages = tuple(f"../{number % _DIRECTORIES:02x}/{number}.html".encode() for number in range(count))
    kinds = (("css", _STYLES), ("js", _SCRIPTS), ("png", _PICTURES))
    return Targets(pages, *(tuple(f"../../static/{n}.{kind}".encode() for n in range(many)) for kind, many in kinds))


def _index_pages(count: int) -> Iterator[tuple[str, bytes]]:
    for number, first in enumerate(range(0, count, _FAN_OUT)):
        paths = [page_path(each) for each in range(first, min(first + _FAN_OUT, count))]
        yield f"/index/{number}.html", _page(f"Pages from {first}", _items(paths))


def _start(indexes: Sequence[str], assets: Sequence[str]) -> bytes:
    head = "".join(f'<link rel="stylesheet" href="{path}">\n' for path in assets if path.endswith(".css"))
    head += "".join(f'<script src="{path}"></script>\n' for path in assets if path.endswith(".js"))
    pictures = "".join(f'<img src="{path}" alt="">\n' for path in assets if path.endswith(".png"))
    return _page("All pages", _items(indexes) + pictures, head)


def _page(title: str, body: str, head: str = "") -> bytes:
    opening = f'<!doctype html>\n<html><head><meta charset="utf-8"><title>{title}</title>\n{head}</head>\n'
    return f"{opening}<body><h1>{title}</h1>\n{body}</body></html>\n".encode()


def _items(paths: Sequence[str]) -> str:
    return "<ul>\n" + "".join(f'<li><a href="{path}">{path}</a>\n' for path in paths) + "</ul>\n"


def _assets() -> Iterator[tuple[str, bytes]]:
    """Contents of usual size; what they say does not matter, only that it is always the same."""
    randomness = random.Random(SEED)
    for number in range(_STYLES):
        rules = "".join(f".c{randomness.randrange(1 << 20)} {{ margin: {each % 9}px }}\n" for each in range(300))
        yield f"/static/{number}.css", rules.encode()
    for number in range(_SCRIPTS):
        lines = "".join(f"function f{each}(a) {{ return a + {randomness.random()}; }}\n" for each in range(300))
        yield f"/static/{number}.js", lines.encode()
    for number in range(_PICTURES):
        yield f"/static/{number}.png", b"\x89PNG\r\n\x1a\n" + randomness.randbytes(6_000)
