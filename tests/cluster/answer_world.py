"""Records of many sites, as files to import, and as one archive on one machine to compare with."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from holdfast.archive.archive import Archive
from holdfast.archive.create import init
from holdfast.archive.export import ExportOptions
from holdfast.archive.ingest.exchange import Exchange, page
from holdfast.records.selection import Selection

DOMAINS = [f"site{number}.{suffix}" for number in range(8) for suffix in ("example", "com", "co.uk")]
WORDS = [
    "stanford",
    "library",
    "digital",
    "archive",
    "crawl",
    "page",
    "rank",
    "link",
    "web",
    "history",
    "paper",
    "node",
    "copy",
    "index",
    "stream",
]
NOTICES = [" ".join(f"{name}{each} notice" for each in range(80)) for name in ("tide", "wind")]  # of many pages
TYPES = ("text/html", "text/plain", "application/json")
TEXTS = {"text/html": "<!doctype html><html lang=en><title>{title}</title><p>{text}</p>{links}"}


def exchanges(seed: int = 7) -> list[Exchange]:
    """Captures of all sites: several times, contents that repeat, all with different URL or time."""
    chance = random.Random(seed)
    found: list[Exchange] = []
    for number, domain in enumerate(DOMAINS):
        for host in (domain, f"www.{domain}", f"a.b.{domain}"):
            for path in ("", "page", "page/one", f"deep/er/{number % 5}?q={number % 3}"):
                visits = range(chance.randrange(1, 4))
                found += [_exchange(chance, f"http://{host}/{path}", number, visit, host) for visit in visits]
    chance.shuffle(found)
    return found


def _exchange(chance: random.Random, url: str, number: int, visit: int, host: str) -> Exchange:
    kind = chance.choices(TYPES, (8, 2, 1))[0]
    text = " ".join(chance.choices(WORDS, k=chance.randrange(3, 60)))
    title = " ".join(chance.choices(WORDS, k=3))
    links = "".join(f'<a href="http://{chance.choice(DOMAINS)}/page">{chance.choice(WORDS)}</a>' for _ in range(3))
    body = TEXTS.get(kind, "{text}").format(title=title, text=text, links=links)
    if chance.random() < 0.2:
        body = f"the same everywhere, {number % 2}: {NOTICES[number % 2]}"
    year, month, hour = 2010 + visit * 3 + chance.randrange(3), 1 + chance.randrange(12), chance.randrange(24)
    stamp = f"{year}{month:02d}{len(host):02d}{hour:02d}{number:02d}{chance.randrange(60):02d}"
    made = page(url, body.encode(), kind, stamp)
    return replace(made, head=made.head.replace(b"200 OK", b"404 Not Found")) if chance.random() < 0.1 else made


def write_files(directory: Path, count: int) -> list[Path]:
    """The captures in so many files. The first of each file is in the next one, too."""
    everything = exchanges()
    files: list[Path] = []
    for number in range(count):
        part = everything[number::count]
        init(directory / f"source{number}")
        target = directory / f"part{number}.warc.gz"
        with Archive(directory / f"source{number}") as archive:
            archive.add(part)
            archive.export(Selection(), target, ExportOptions("warc"))
        files.append(target)
    return files


def one_archive(directory: Path, files: list[Path]) -> Path:
    """All files in one archive."""
    init(directory / "one")
    with Archive(directory / "one") as archive:
        archive.import_files(files)
        archive.index.update()
    return directory / "one"
