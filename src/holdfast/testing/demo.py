"""`make demo`: a small web site is visited twice, and everything of it is kept once.

The site is made up here, the same each time. Its captures go into an archive in a temporary directory, through the
library; the commands that follow are the real ones, and print what they print.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random

import holdfast

PAGES = 400
CHANGED_SHARE = 0.1  # of the pages, between the visits
NEW_PAGES = 20  # since the first visit

Site = Mapping[str, bytes]  # by URL

_VOCABULARY = (
    "anchor archive barnacle beacon boat bottle breeze buoy chart cliff coast copper current deck dock drift eel ferry "
    "fog gale gull harbour heron island keel kelp ladder lamp ledger limpet mast mist mooring mussel net north oar "
    "otter pebble pier plank quay reef rope rudder sail salt sand seal shell signal slip spray squall storm tide tower "
    "twine wave wharf wind winter and at before below beside for from in into near of on over past the to under with"
)
_STYLE = "".join(f".tide-{height} {{ margin-left: {height}em; color: #0{height % 10}4a6f }}\n" for height in range(60))


def first_visit() -> Site:
    """Pages that differ, a style sheet, and what sites serve again and again: one error page, one printed form each."""
    home = "http://almanac.example"
    pages = {f"{home}/log/{number}.html": _page(number) for number in range(PAGES)}
    printed = {f"{url}?print=1": page for url, page in list(pages.items())[: PAGES // 4]}
    missing = {f"{home}/old/{number}.html": _missing_page() for number in range(PAGES // 8)}
    return {f"{home}/style.css": _STYLE.encode(), **pages, **printed, **missing}


def second_visit() -> Site:
    """The same site later: some pages have changed, some are new, most are as they were."""
    site = dict(first_visit())
    changed = Random(2).sample(range(PAGES), int(PAGES * CHANGED_SHARE))
    for number in [*changed, *range(PAGES, PAGES + NEW_PAGES)]:
        site[f"http://almanac.example/log/{number}.html"] = _page(number, edition=2)
    return site


def _page(number: int, edition: int = 1) -> bytes:
    random = Random(number * 10 + edition)
    paragraphs = "\n".join(f'<p class="tide-{random.randrange(60)}">{_prose(random)}</p>' for _ in range(12))
    links = "\n".join(
        f'<li><a href="/log/{random.randrange(PAGES)}.html">{_prose(random, 3)}</a></li>' for _ in range(8)
    )
    return _document(f"Log {number}", f"{paragraphs}\n<ul>\n{links}\n</ul>")


def _prose(random: Random, words: int = 60) -> str:
    return " ".join(random.choices(_VOCABULARY.split(), k=words)).capitalize() + "."


def _missing_page() -> bytes:
    return _document("Gone out with the tide", "<p>This page is no longer here.</p>")


def _document(title: str, body: str) -> bytes:
    head = f'<meta charset="utf-8"><title>{title}</title><link rel="stylesheet" href="/style.css">'
    return (
        f"<!doctype html>\n<html>\n<head>{head}</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n".encode()
    )


def add(archive: holdfast.Archive, name: str, date: str, site: Site) -> None:
    """Adds a capture of every URL of a visit and tells what was new."""
    before = _contents(archive)
    archive.add([holdfast.page(url, content, _type_of(url), date) for url, content in site.items()])
    new = _contents(archive) - before
    size = sum(map(len, site.values()))
    print(f"{name}: {len(site)} URLs, {size:,} bytes: {new} new contents, {len(site) - new} duplicates")


def _contents(archive: holdfast.Archive) -> int:
    return sum(report.stat.blocks for report in archive.volumes() if report.stat is not None)


def _type_of(url: str) -> str:
    return "text/css" if url.endswith(".css") else "text/html; charset=utf-8"


def show(*arguments: str) -> None:
    """Runs a command of Holdfast before the viewer's eyes."""
    print(f"\n$ holdfast {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "holdfast", *arguments], check=True, stderr=subprocess.STDOUT)


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    if arguments:
        print(f"cannot visit '{arguments[0]}': crawling is not part of this release yet", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        path = str(Path(directory) / "archive")
        show("init", path)
        print("\nA made-up web site is archived as it was on two days.")
        with holdfast.open(path) as archive:
            add(archive, "first visit", "20260401080000", first_visit())
            add(archive, "second visit", "20260501080000", second_visit())
        show("status", "-a", path)
        show("cdx", "http://almanac.example/log/7.html", "-a", path)
        show("get", "http://almanac.example/style.css", "--at", "202604", "--headers", "-a", path)
        show("export", "*.almanac.example", "--from", "202605", "-o", str(Path(directory) / "may.wacz"), "-a", path)
        show("check", "--deep", "-a", path)
    print(
        "\nThe archive was temporary and is gone again; README.md shows how to make one that stays."
        "\nCrawling real sites, and browsing them at http://127.0.0.1:8080, come with later releases."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
